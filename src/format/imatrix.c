/* Importance matrices: the object, the GGUF form, and the legacy .dat form (read only).
 *
 * The entries are kept sorted by name: lookups need no hash, and the order of the file does not depend on the
 * order in which weights were seen. */
#include "format/gguf.h"
#include <ridge/imatrix.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME_BYTES = 255, MAX_DATASETS = 4096, MAX_ENTRIES = RDG_GGUF_MAX_TENSORS / 2 };
#define KEY_TYPE        "general.type"
#define KEY_DATASETS    "imatrix.datasets"
#define KEY_CHUNK_COUNT "imatrix.chunk_count"
#define KEY_CHUNK_SIZE  "imatrix.chunk_size"
#define SUFFIX_SUMS     ".in_sum2"
#define SUFFIX_SUMS_OLD ".sums"
#define SUFFIX_COUNTS   ".counts"
#define DAMAGED         "the file is damaged: collect the matrix again"

struct rdg_imatrix {
    rdg_arena arena; /* entries and what they point to, names of datasets */
    rdg_imatrix_entry **entries;
    int64_t n;
    size_t cap;
    const char **datasets;
    int64_t n_datasets;
    size_t cap_datasets;
    int64_t chunk_count, chunk_size;
};

rdg_err rdg_imatrix_create(rdg_imatrix **out, rdg_error *e)
{
    rdg_imatrix *m = rdg_alloc(sizeof *m);
    *out = m;
    if (!m) return rdg_fail(e, RDG_E_NOMEM, "no memory for an importance matrix");
    rdg_arena_init(&m->arena);
    return RDG_OK;
}

void rdg_imatrix_destroy(rdg_imatrix *m)
{
    if (!m) return;
    rdg_free(m->entries);
    rdg_free(m->datasets);
    rdg_arena_finish(&m->arena);
    rdg_free(m);
}

/* Entries
 * ----------------------------------------------------------------------------------------------------- */

#define entry_error(e, code, name, ...) rdg_fail_named(e, code, "importance of", name, __VA_ARGS__)

/* The position of the name, or where it belongs. */
static int64_t position(const rdg_imatrix *m, const char *name, bool *found)
{
    int64_t low = 0, high = m->n;
    *found = false;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int order = strcmp(m->entries[middle]->name, name);
        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A fresh, zeroed entry at the end of the list, out of order. */
static rdg_err append(rdg_imatrix *m, const char *name, int64_t n_columns, int64_t n_matrices,
                      rdg_imatrix_entry **out, rdg_error *e)
{
    size_t n_values, name_bytes = strlen(name);
    if (name_bytes < 1 || name_bytes > MAX_NAME_BYTES || !rdg_name_printable(name, name_bytes))
        return entry_error(e, RDG_E_MALFORMED, name,
                           "the name has %zu bytes, it must be 1 to %d bytes of printable text", name_bytes,
                           MAX_NAME_BYTES);
    if (n_columns < 1 || n_matrices < 1 || RDG_MUL_OVERFLOW((size_t)n_columns, (size_t)n_matrices, &n_values))
        return entry_error(e, RDG_E_ARGUMENT, name, "%lld columns and %lld matrices; each must be at least 1",
                           (long long)n_columns, (long long)n_matrices);
    if (m->n >= MAX_ENTRIES) return entry_error(e, RDG_E_LIMIT, name, "more than %d weights", MAX_ENTRIES);
    rdg_imatrix_entry *entry = rdg_arena_alloc(&m->arena, sizeof *entry);
    if (!entry || !rdg_grow(&m->entries, (size_t)m->n, &m->cap, sizeof *m->entries) ||
        !(entry->name = rdg_arena_strndup(&m->arena, name, name_bytes)) ||
        !(entry->sums = rdg_arena_array(&m->arena, n_values, sizeof *entry->sums)) ||
        !(entry->counts = rdg_arena_array(&m->arena, (size_t)n_matrices, sizeof *entry->counts)))
        return entry_error(e, RDG_E_NOMEM, name, "no memory for %zu values", n_values);
    entry->n_columns = n_columns;
    entry->n_matrices = n_matrices;
    m->entries[m->n++] = entry;
    *out = entry;
    return RDG_OK;
}

/* All finite, none negative, and no quotient that does not fit; also after they are added to an entry, if
 * any. */
static rdg_err check_values(const char *name, int64_t n_columns, int64_t n_matrices, const float *sums,
                            const float *counts, const rdg_imatrix_entry *add_to, rdg_err code, rdg_error *e)
{
    for (int64_t k = 0; k < n_matrices; k++) {
        float count = counts[k] + (add_to ? add_to->counts[k] : 0), largest = 0;
        if (!(counts[k] >= 0) || !isfinite(count))
            return entry_error(e, code, name,
                               "the count of matrix %lld is %g, it must be finite and not negative; " DAMAGED,
                               (long long)k, (double)counts[k]);
        for (int64_t j = 0; j < n_columns; j++) {
            float v = sums[k * n_columns + j], sum = v + (add_to ? add_to->sums[k * n_columns + j] : 0);
            if (!(v >= 0) || !isfinite(sum))
                return entry_error(e, code, name,
                                   "the sum of matrix %lld, column %lld is %g, it must be finite and not "
                                   "negative; " DAMAGED,
                                   (long long)k, (long long)j, (double)v);
            largest = RDG_MAX(largest, sum);
        }
        if (count > 0 && (double)largest / (double)count > FLT_MAX)
            return entry_error(e, code, name,
                               "matrix %lld has a mean of %g / %g, too large for 32 bits; " DAMAGED,
                               (long long)k, (double)largest, (double)count);
    }
    return RDG_OK;
}

rdg_err rdg_imatrix_add(rdg_imatrix *m, const char *name, int64_t n_columns, int64_t n_matrices,
                        const float *sums, const float *counts, rdg_error *e)
{
    bool found;
    int64_t at = position(m, name, &found);
    rdg_imatrix_entry *entry = found ? m->entries[at] : NULL;
    rdg_err err;
    if (entry && (entry->n_columns != n_columns || entry->n_matrices != n_matrices))
        return entry_error(e, RDG_E_ARGUMENT, name,
                           "%lld x %lld values are added to %lld x %lld; they are of different "
                           "models",
                           (long long)n_matrices, (long long)n_columns, (long long)entry->n_matrices,
                           (long long)entry->n_columns);
    if ((err = check_values(name, n_columns, n_matrices, sums, counts, entry, RDG_E_ARGUMENT, e))) return err;
    if (!entry) {
        if ((err = append(m, name, n_columns, n_matrices, &entry, e))) return err;
        memmove(&m->entries[at + 1], &m->entries[at], (size_t)(m->n - 1 - at) * sizeof *m->entries);
        m->entries[at] = entry;
    }
    for (int64_t i = 0; i < n_columns * n_matrices; i++) entry->sums[i] += sums[i];
    for (int64_t k = 0; k < n_matrices; k++) entry->counts[k] += counts[k];
    return RDG_OK;
}

int64_t rdg_imatrix_values(const rdg_imatrix_entry *entry, float *out)
{
    int64_t n_empty = 0;
    for (int64_t k = 0; k < entry->n_matrices; k++) {
        float count = entry->counts[k];
        const float *sums = entry->sums + k * entry->n_columns;
        n_empty += !(count > 0);
        for (int64_t j = 0; j < entry->n_columns; j++)
            out[k * entry->n_columns + j] = count > 0 ? sums[j] / count : 1.0f;
    }
    return n_empty;
}

int64_t rdg_imatrix_n(const rdg_imatrix *m)
{
    return m->n;
}

const rdg_imatrix_entry *rdg_imatrix_at(const rdg_imatrix *m, int64_t i)
{
    return i >= 0 && i < m->n ? m->entries[i] : NULL;
}

const rdg_imatrix_entry *rdg_imatrix_find(const rdg_imatrix *m, const char *name)
{
    bool found;
    int64_t at = position(m, name, &found);
    return found ? m->entries[at] : NULL;
}

int64_t rdg_imatrix_chunk_count(const rdg_imatrix *m)
{
    return m->chunk_count;
}

int64_t rdg_imatrix_chunk_size(const rdg_imatrix *m)
{
    return m->chunk_size;
}

void rdg_imatrix_set_chunks(rdg_imatrix *m, int64_t count, int64_t size)
{
    m->chunk_count = count;
    m->chunk_size = size;
}

int64_t rdg_imatrix_n_datasets(const rdg_imatrix *m)
{
    return m->n_datasets;
}

const char *rdg_imatrix_dataset(const rdg_imatrix *m, int64_t i)
{
    return i >= 0 && i < m->n_datasets ? m->datasets[i] : NULL;
}

static rdg_err add_dataset(rdg_imatrix *m, const char *name, size_t bytes, rdg_error *e)
{
    if (!rdg_name_printable(name, bytes))
        return rdg_fail(e, RDG_E_MALFORMED,
                        "the name of a dataset, %s, holds control characters or is no UTF-8",
                        rdg_quote(name, bytes).text);
    if (m->n_datasets >= MAX_DATASETS) return rdg_fail(e, RDG_E_LIMIT, "more than %d datasets", MAX_DATASETS);
    const char *copy = rdg_arena_strndup(&m->arena, name, bytes);
    if (!copy || !rdg_grow(&m->datasets, (size_t)m->n_datasets, &m->cap_datasets, sizeof *m->datasets))
        return rdg_fail(e, RDG_E_NOMEM, "no memory for the name of a dataset");
    m->datasets[m->n_datasets++] = copy;
    return RDG_OK;
}

rdg_err rdg_imatrix_add_dataset(rdg_imatrix *m, const char *name, rdg_error *e)
{
    return add_dataset(m, name, strlen(name), e);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(rdg_imatrix_entry *const *)a)->name, (*(rdg_imatrix_entry *const *)b)->name);
}

/* Sorts what append has left, and refuses what came twice. */
static rdg_err sort_entries(rdg_imatrix *m, rdg_error *e)
{
    if (m->n == 0)
        return rdg_fail(e, RDG_E_MALFORMED, "the importance matrix holds no weights; collect it again");
    qsort(m->entries, (size_t)m->n, sizeof *m->entries, by_name);
    for (int64_t i = 1; i < m->n; i++)
        if (!strcmp(m->entries[i - 1]->name, m->entries[i]->name))
            return entry_error(e, RDG_E_MALFORMED, m->entries[i]->name, "it appears twice; " DAMAGED);
    return RDG_OK;
}

/* The GGUF form
 * ----------------------------------------------------------------------------------------------- */

/* The length of the weight's name if `name` is that plus the suffix, else 0. */
static size_t stem(const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);
    return n > m && !strcmp(name + n - m, suffix) ? n - m : 0;
}

static bool is_matrix(const rdg_gguf_tensor *t)
{
    return t && t->type == RDG_TYPE_F32 && t->dim[2] == 1 && t->dim[3] == 1;
}

static rdg_err read_weight(rdg_imatrix *m, const rdg_gguf *g, const rdg_gguf_tensor *sums, size_t name_bytes,
                           rdg_error *e)
{
    char name[RDG_GGUF_MAX_NAME_BYTES + 1], counts_name[sizeof name + sizeof SUFFIX_COUNTS];
    rdg_imatrix_entry *entry;
    rdg_err err;
    snprintf(name, sizeof name, "%.*s", (int)name_bytes, sums->name);
    snprintf(counts_name, sizeof counts_name, "%s" SUFFIX_COUNTS, name);
    const rdg_gguf_tensor *counts = rdg_gguf_tensor_find(g, counts_name);
    if (!counts)
        return entry_error(e, RDG_E_MALFORMED, name, "tensor '%s' is missing; " DAMAGED, counts_name);
    if (!is_matrix(sums) || !is_matrix(counts) || counts->n_elements != (uint64_t)sums->dim[1])
        return entry_error(e, RDG_E_MALFORMED, name, "'%s' and '%s' must be F32 of n x m and 1 x m; " DAMAGED,
                           sums->name, counts_name);
    if ((err = append(m, name, sums->dim[0], sums->dim[1], &entry, e))) return err;
    memcpy(entry->sums, sums->data, (size_t)sums->bytes);
    memcpy(entry->counts, counts->data, (size_t)counts->bytes);
    return check_values(name, entry->n_columns, entry->n_matrices, entry->sums, entry->counts, NULL,
                        RDG_E_MALFORMED, e);
}

static rdg_err read_datasets(rdg_imatrix *m, const rdg_gguf *g, rdg_error *e)
{
    const rdg_gguf_kv *kv;
    rdg_err err = rdg_gguf_get_array(g, KEY_DATASETS, RDG_GGUF_STRING, &kv, e);
    if (err) return err == RDG_E_NOT_FOUND ? RDG_OK : err;
    for (uint64_t i = 0; i < kv->count && !err; i++)
        err = add_dataset(m, kv->strings[i].p, kv->strings[i].n, e);
    return err;
}

static rdg_err read_gguf(rdg_imatrix *m, const rdg_gguf *g, rdg_error *e)
{
    uint32_t count = 0, size = 0;
    rdg_str type = {0};
    rdg_err err = rdg_gguf_get_str(g, KEY_TYPE, &type, e);
    if (err && err != RDG_E_NOT_FOUND) return err;
    if (type.n != strlen("imatrix") || memcmp(type.p, "imatrix", type.n) != 0)
        return rdg_fail(e, RDG_E_UNSUPPORTED,
                        "no importance matrix: key '" KEY_TYPE "' is %s; make one with ridge imatrix",
                        type.p ? rdg_quote(type.p, type.n).text : "absent");
    if (((err = rdg_gguf_get_u32(g, KEY_CHUNK_COUNT, &count, e)) && err != RDG_E_NOT_FOUND) ||
        ((err = rdg_gguf_get_u32(g, KEY_CHUNK_SIZE, &size, e)) && err != RDG_E_NOT_FOUND))
        return err;
    rdg_imatrix_set_chunks(m, count, size);
    if ((err = read_datasets(m, g, e))) return err;
    for (int64_t i = 0; i < rdg_gguf_n_tensors(g) && !err; i++) {
        const rdg_gguf_tensor *t = rdg_gguf_tensor_at(g, i);
        size_t name_bytes = stem(t->name, SUFFIX_SUMS);
        if (!name_bytes) name_bytes = stem(t->name, SUFFIX_SUMS_OLD);
        if (name_bytes) err = read_weight(m, g, t, name_bytes, e);
    }
    return err ? err : sort_entries(m, e);
}

static void add_tensors(rdg_gguf_writer *w, const rdg_imatrix_entry *entry, char *name, size_t name_bytes)
{
    const int64_t sums[2] = {entry->n_columns, entry->n_matrices}, counts[2] = {1, entry->n_matrices};
    snprintf(name, name_bytes, "%s" SUFFIX_SUMS, entry->name);
    rdg_gguf_add_tensor(w, name, RDG_TYPE_F32, 2, sums);
    snprintf(name, name_bytes, "%s" SUFFIX_COUNTS, entry->name);
    rdg_gguf_add_tensor(w, name, RDG_TYPE_F32, 2, counts);
}

static void set_datasets(rdg_gguf_writer *w, const rdg_imatrix *m, rdg_str *strings)
{
    for (int64_t i = 0; i < m->n_datasets; i++)
        strings[i] = (rdg_str){m->datasets[i], strlen(m->datasets[i])};
    rdg_gguf_set_str_array(w, KEY_DATASETS, strings, (uint64_t)m->n_datasets);
}

rdg_err rdg_imatrix_write(const rdg_imatrix *m, const char *path, rdg_error *e)
{
    rdg_gguf_writer *w = NULL;
    rdg_str *strings = NULL;
    char name[MAX_NAME_BYTES + sizeof SUFFIX_SUMS];
    rdg_err err;
    if (m->chunk_count < 0 || m->chunk_count > UINT32_MAX || m->chunk_size < 0 || m->chunk_size > UINT32_MAX)
        return rdg_fail(e, RDG_E_ARGUMENT, "writing '%s': %lld chunks of %lld tokens do not fit 32 bits",
                        path, (long long)m->chunk_count, (long long)m->chunk_size);
    if (m->n == 0)
        return rdg_fail(e, RDG_E_ARGUMENT, "writing '%s': the importance matrix holds no weights", path);
    if (!(strings = rdg_alloc_array((size_t)m->n_datasets, sizeof *strings)))
        return rdg_fail(e, RDG_E_NOMEM, "no memory to write '%s'", path);
    if ((err = rdg_gguf_writer_create(path, &w, e))) goto done;
    rdg_gguf_set_str(w, KEY_TYPE, "imatrix");
    set_datasets(w, m, strings);
    rdg_gguf_set_u32(w, KEY_CHUNK_COUNT, (uint32_t)m->chunk_count);
    rdg_gguf_set_u32(w, KEY_CHUNK_SIZE, (uint32_t)m->chunk_size);
    for (int64_t i = 0; i < m->n; i++) add_tensors(w, m->entries[i], name, sizeof name);
    if ((err = rdg_gguf_writer_begin(w, e))) goto done;
    for (int64_t i = 0; i < m->n && !err; i++) {
        const rdg_imatrix_entry *entry = m->entries[i];
        size_t counts_bytes = (size_t)entry->n_matrices * sizeof *entry->counts;
        if ((err = rdg_gguf_write_data(w, entry->sums, (size_t)entry->n_columns * counts_bytes, e)))
            goto done;
        err = rdg_gguf_write_data(w, entry->counts, counts_bytes, e);
    }
    if (!err) err = rdg_gguf_writer_finish(w, e);
done:
    rdg_gguf_writer_destroy(w);
    rdg_free(strings);
    return err;
}

/* The legacy form
 * --------------------------------------------------------------------------------------------- */

typedef struct cursor {
    const unsigned char *data;
    size_t bytes, pos;
    rdg_error *e;
} cursor;

static rdg_err dat_error(const cursor *c, size_t at, const char *what, int32_t value)
{
    return rdg_fail(c->e, RDG_E_MALFORMED,
                    "offset %zu: %s is %d, %zu bytes are left; no importance matrix, or " DAMAGED, at, what,
                    value, c->bytes - c->pos);
}

static rdg_err take_i32(cursor *c, const char *what, int32_t *v)
{
    if (c->bytes - c->pos < sizeof *v)
        return rdg_fail(c->e, RDG_E_MALFORMED,
                        "offset %zu: the file ends before %s; no importance matrix, or " DAMAGED, c->pos,
                        what);
    memcpy(v, c->data + c->pos, sizeof *v);
    c->pos += sizeof *v;
    return RDG_OK;
}

/* A count of items that follow, from min to max. */
static rdg_err take_count(cursor *c, const char *what, int32_t min, int32_t max, size_t item_bytes,
                          int32_t *v)
{
    size_t at = c->pos;
    rdg_err err = take_i32(c, what, v);
    if (err) return err;
    if (*v < min || *v > max || (size_t)*v > (c->bytes - c->pos) / item_bytes)
        return dat_error(c, at, what, *v);
    return RDG_OK;
}

/* Which values belong to which expert is not said: n_matrices is 1. The values are means times the number of
 * calls, so that with the calls as counts the quotient is the mean. */
static rdg_err read_dat_entry(rdg_imatrix *m, cursor *c)
{
    char name[MAX_NAME_BYTES + 1] = "";
    int32_t name_bytes = 0, n_calls = 0, n_values = 0;
    rdg_imatrix_entry *entry;
    rdg_err err;
    if ((err = take_count(c, "the length of a name", 1, MAX_NAME_BYTES, 1, &name_bytes))) return err;
    memcpy(name, c->data + c->pos, (size_t)name_bytes);
    if (strlen(name) != (size_t)name_bytes)
        return rdg_fail(c->e, RDG_E_MALFORMED, "offset %zu: a name holds a NUL; " DAMAGED, c->pos);
    c->pos += (size_t)name_bytes;
    if ((err = take_i32(c, "the number of calls", &n_calls))) return err;
    if (n_calls < 0) return dat_error(c, c->pos - 4, "the number of calls", n_calls);
    if ((err = take_count(c, "the number of values", 1, INT32_MAX, sizeof(float), &n_values))) return err;
    if ((err = append(m, name, n_values, 1, &entry, c->e))) return err;
    memcpy(entry->sums, c->data + c->pos, (size_t)n_values * sizeof(float));
    c->pos += (size_t)n_values * sizeof(float);
    entry->counts[0] = n_calls > 0 ? (float)n_calls : 1.0f;
    return check_values(entry->name, n_values, 1, entry->sums, entry->counts, NULL, RDG_E_MALFORMED, c->e);
}

static rdg_err read_dat(rdg_imatrix *m, const void *data, size_t bytes, rdg_error *e)
{
    enum { MIN_ENTRY_BYTES = 4 + 1 + 4 + 4 + 4 };
    cursor c = {.data = data, .bytes = bytes, .e = e};
    int32_t n = 0, n_chunks = 0, path_bytes = 0;
    rdg_err err = take_count(&c, "the number of weights", 1, MAX_ENTRIES, MIN_ENTRY_BYTES, &n);
    for (int32_t i = 0; i < n && !err; i++) err = read_dat_entry(m, &c);
    if (err) return err;
    if (c.pos < bytes) { /* two trailers, each optional */
        if ((err = take_i32(&c, "the number of chunks", &n_chunks))) return err;
        if (n_chunks < 0) return dat_error(&c, c.pos - 4, "the number of chunks", n_chunks);
        m->chunk_count = n_chunks;
    }
    if (c.pos < bytes) {
        if ((err = take_count(&c, "the length of the dataset's name", 0, INT32_MAX, 1, &path_bytes)))
            return err;
        if (path_bytes > 0 && (err = add_dataset(m, (const char *)c.data + c.pos, (size_t)path_bytes, e)))
            return err;
        c.pos += (size_t)path_bytes;
    }
    if (c.pos < bytes)
        return rdg_fail(e, RDG_E_MALFORMED, "offset %zu: %zu bytes after the end; " DAMAGED, c.pos,
                        bytes - c.pos);
    return sort_entries(m, e);
}

/* Both
 * -------------------------------------------------------------------------------------------------------- */

rdg_err rdg_imatrix_parse(const void *data, size_t bytes, rdg_imatrix **out, rdg_error *e)
{
    rdg_imatrix *m;
    rdg_gguf *g = NULL;
    *out = NULL;
    rdg_err err = rdg_imatrix_create(&m, e);
    if (err) return err;
    if (bytes >= 4 && !memcmp(data, "GGUF", 4)) {
        if (!(err = rdg_gguf_parse(data, bytes, &g, e))) err = read_gguf(m, g, e);
        rdg_gguf_close(g);
    } else {
        err = read_dat(m, data, bytes, e);
    }
    if (err)
        rdg_imatrix_destroy(m);
    else
        *out = m;
    return err;
}

rdg_err rdg_imatrix_read(const char *path, rdg_imatrix **out, rdg_error *e)
{
    rdg_map map;
    *out = NULL;
    rdg_err err = rdg_map_open(&map, path, e);
    if (err) return err;
    if ((err = rdg_imatrix_parse(map.data, map.bytes, out, e))) rdg_fail_prefix(e, err, "'%s'", path);
    rdg_map_close(&map);
    return err;
}
