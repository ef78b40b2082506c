/* One GGUF file's bytes -> metadata and tensor list, every bound checked.
 *
 * Nothing of the file is copied but tensor names and the tables of strings; counts are compared with the
 * bytes that are left before anything is allocated for them, and positions are never computed before they are
 * known to fit. */
#include "format/gguf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAMAGED "the file is damaged or cut short: fetch or convert it again"

static const struct {
    const char *name;
    uint8_t bytes;
} value_types[RDG_GGUF_VALUE_TYPE_COUNT] = {
    [RDG_GGUF_UINT8] = {"UINT8", 1},     [RDG_GGUF_INT8] = {"INT8", 1},     [RDG_GGUF_UINT16] = {"UINT16", 2},
    [RDG_GGUF_INT16] = {"INT16", 2},     [RDG_GGUF_UINT32] = {"UINT32", 4}, [RDG_GGUF_INT32] = {"INT32", 4},
    [RDG_GGUF_FLOAT32] = {"FLOAT32", 4}, [RDG_GGUF_BOOL] = {"BOOL", 1},     [RDG_GGUF_STRING] = {"STRING", 0},
    [RDG_GGUF_ARRAY] = {"ARRAY", 0},     [RDG_GGUF_UINT64] = {"UINT64", 8}, [RDG_GGUF_INT64] = {"INT64", 8},
    [RDG_GGUF_FLOAT64] = {"FLOAT64", 8},
};

const char *rdg_gguf_value_name(int64_t type)
{
    return type >= 0 && type < RDG_GGUF_VALUE_TYPE_COUNT ? value_types[type].name : "?";
}

size_t rdg_gguf_value_bytes(int64_t type)
{
    return type >= 0 && type < RDG_GGUF_VALUE_TYPE_COUNT ? value_types[type].bytes : 0;
}

bool rdg_gguf_alignment_valid(uint32_t alignment)
{
    return alignment >= RDG_GGUF_MIN_ALIGNMENT && alignment <= RDG_GGUF_MAX_ALIGNMENT &&
           (alignment & (alignment - 1)) == 0;
}

bool rdg_gguf_tensor_size(rdg_type type, int n_dims, const int64_t *dim, uint64_t *n_elements,
                          uint64_t *bytes, char *why, size_t why_bytes)
{
    int64_t elements = 1, total = rdg_type_row_bytes(type, dim[0]);
    for (int i = 0; i < n_dims; i++) {
        if (dim[i] < 1 || dim[i] > (int64_t)1 << RDG_GGUF_MAX_DIM_BITS) {
            snprintf(why, why_bytes, "dimension %d is %llu, it must be 1 to 2^%d", i,
                     (unsigned long long)dim[i], RDG_GGUF_MAX_DIM_BITS);
            return false;
        }
        if (RDG_MUL_OVERFLOW(elements, dim[i], &elements)) {
            snprintf(why, why_bytes, "the number of elements does not fit 63 bits");
            return false;
        }
    }
    if (total < 0) {
        snprintf(why, why_bytes, "dimension 0 is %lld, no multiple of the %lld elements of a %s block",
                 (long long)dim[0], (long long)rdg_type_block_elems(type), rdg_type_name(type));
        return false;
    }
    for (int i = 1; i < n_dims; i++) {
        /* half the range stays free, so that padding and sums of two need no further check */
        if (RDG_MUL_OVERFLOW(total, dim[i], &total) || total > INT64_MAX / 2) {
            snprintf(why, why_bytes, "the size in bytes does not fit 62 bits");
            return false;
        }
    }
    *n_elements = (uint64_t)elements;
    *bytes = (uint64_t)total;
    return true;
}

/* The cursor
 * -------------------------------------------------------------------------------------------------- */

/* Reads move pos; the first failure sets err and the message, after which the caller stops. `noun`, `subject`
 * and `ordinal` say what is being read: key 'x', tensor 'y', or "key 12" while its name is unknown. */
typedef struct cursor {
    const unsigned char *data;
    uint64_t bytes, pos;
    const char *noun; /* NULL: the header itself */
    rdg_str subject;
    uint64_t ordinal;
    uint64_t n_strings; /* in string arrays so far */
    rdg_err err;
    rdg_error *e;
} cursor;

static bool fail_at(cursor *c, rdg_err code, uint64_t at, const char *fmt, ...) RDG_PRINTF(4, 5);
static bool fail_at(cursor *c, rdg_err code, uint64_t at, const char *fmt, ...)
{
    c->err = code;
    if (!c->e) return false;
    char text[640], what[160] = "";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (c->noun && c->subject.p)
        snprintf(what, sizeof what, "%s %s: ", c->noun, rdg_quote(c->subject.p, c->subject.n).text);
    else if (c->noun)
        snprintf(what, sizeof what, "%s %llu: ", c->noun, (unsigned long long)c->ordinal);
    rdg_fail(c->e, code, "offset %llu: %s%s", (unsigned long long)at, what, text);
    return false;
}

static bool no_memory(cursor *c)
{
    return fail_at(c, RDG_E_NOMEM, c->pos, "no memory");
}

static uint64_t left(const cursor *c)
{
    return c->bytes - c->pos;
}

static const unsigned char *take(cursor *c, uint64_t n, const char *what)
{
    if (n > left(c)) {
        fail_at(c, RDG_E_MALFORMED, c->pos, "%s needs %llu bytes, %llu are left; " DAMAGED, what,
                (unsigned long long)n, (unsigned long long)left(c));
        return NULL;
    }
    const unsigned char *p = c->data + c->pos;
    c->pos += n;
    return p;
}

static bool take_u32(cursor *c, uint32_t *v, const char *what)
{
    const unsigned char *p = take(c, sizeof *v, what);
    if (p) memcpy(v, p, sizeof *v);
    return p != NULL;
}

static bool take_u64(cursor *c, uint64_t *v, const char *what)
{
    const unsigned char *p = take(c, sizeof *v, what);
    if (p) memcpy(v, p, sizeof *v);
    return p != NULL;
}

static bool take_string(cursor *c, rdg_str *s, uint64_t min_bytes, uint64_t max_bytes, const char *what)
{
    uint64_t at = c->pos, n;
    if (!take_u64(c, &n, what)) return false;
    if (n > left(c))
        return fail_at(c, RDG_E_MALFORMED, at, "%s has a length of %llu bytes, %llu are left; " DAMAGED, what,
                       (unsigned long long)n, (unsigned long long)left(c));
    if (n < min_bytes) return fail_at(c, RDG_E_MALFORMED, at, "%s is empty; " DAMAGED, what);
    if (n > max_bytes)
        return fail_at(c, RDG_E_LIMIT, at, "%s has %llu bytes, the limit is %llu", what,
                       (unsigned long long)n, (unsigned long long)max_bytes);
    s->p = (const char *)c->data + c->pos;
    s->n = (size_t)n;
    c->pos += n;
    return true;
}

/* Header
 * ------------------------------------------------------------------------------------------------------ */

static const struct {
    char magic[5];
    const char *what;
} foreign_magics[] = {
    {"lmgg", "the obsolete GGML format"},
    {"fmgg", "the obsolete GGMF format"},
    {"tjgg", "the obsolete GGJT format"},
    {"algg", "an obsolete GGLA adapter"},
    {"FUGG", "a byte-reversed GGUF magic, as no writer emits it"},
    {"PK\3\4", "a zip archive or PyTorch checkpoint"},
    {"vers", "perhaps a Git LFS pointer instead of the file itself"},
    {"<!DO", "a web page, perhaps an error of the download"},
    {"<htm", "a web page, perhaps an error of the download"},
};

static bool bad_magic(cursor *c)
{
    for (int i = 0; i < RDG_COUNTOF(foreign_magics); i++)
        if (!memcmp(c->data, foreign_magics[i].magic, 4))
            return fail_at(c, RDG_E_UNSUPPORTED, 0,
                           "not a GGUF file but %s; convert the original model to GGUF",
                           foreign_magics[i].what);
    if (c->bytes >= 9 && c->data[8] == '{')
        return fail_at(c, RDG_E_UNSUPPORTED, 0,
                       "not a GGUF file but perhaps safetensors; convert it to GGUF first");
    return fail_at(c, RDG_E_MALFORMED, 0,
                   "not a GGUF file: it begins with %02x %02x %02x %02x instead of \"GGUF\"", c->data[0],
                   c->data[1], c->data[2], c->data[3]);
}

static bool read_header(cursor *c, uint32_t *version, uint64_t *n_tensors, uint64_t *n_kv)
{
    if (c->bytes >= 4 && memcmp(c->data, "GGUF", 4) != 0) return bad_magic(c);
    if (c->bytes < RDG_GGUF_HEADER_BYTES)
        return fail_at(c, RDG_E_MALFORMED, 0, "a GGUF header has %d bytes, the file %llu; " DAMAGED,
                       RDG_GGUF_HEADER_BYTES, (unsigned long long)c->bytes);
    c->pos = 4;
    if (!take_u32(c, version, "the version")) return false;
    if (*version != 0 && (*version & 0xffff) == 0)
        return fail_at(
            c, RDG_E_UNSUPPORTED, 4,
            "a big-endian GGUF file; only little-endian ones are read: convert the model on a little-endian "
            "machine");
    if (*version != 2 && *version != 3)
        return fail_at(c, RDG_E_UNSUPPORTED, 4,
                       "GGUF version %u; versions 2 and 3 are read: convert the model again", *version);
    if (!take_u64(c, n_tensors, "the tensor count") || !take_u64(c, n_kv, "the key count")) return false;

    /* the smallest records: key of one byte and a value of one; name of one byte and one dimension */
    const struct {
        const char *what;
        uint64_t count, record_bytes, limit, at;
    } counts[] = {{"tensors", *n_tensors, 8 + 1 + 4 + 8 + 4 + 8, RDG_GGUF_MAX_TENSORS, 8},
                  {"keys", *n_kv, 8 + 1 + 4 + 1, RDG_GGUF_MAX_KV, 16}};
    for (int i = 0; i < RDG_COUNTOF(counts); i++) {
        if (counts[i].count > left(c) / counts[i].record_bytes)
            return fail_at(c, RDG_E_MALFORMED, counts[i].at,
                           "%llu %s do not fit the %llu bytes that are left; " DAMAGED,
                           (unsigned long long)counts[i].count, counts[i].what, (unsigned long long)left(c));
        if (counts[i].count > counts[i].limit)
            return fail_at(c, RDG_E_LIMIT, counts[i].at, "%llu %s, the limit is %llu",
                           (unsigned long long)counts[i].count, counts[i].what,
                           (unsigned long long)counts[i].limit);
    }
    return true;
}

/* Metadata
 * ---------------------------------------------------------------------------------------------------- */

static bool read_strings(cursor *c, rdg_arena *arena, rdg_gguf_kv *kv)
{
    rdg_str *strings = rdg_arena_array(arena, (size_t)kv->count, sizeof *strings);
    if (!strings) return no_memory(c);
    for (uint64_t i = 0; i < kv->count; i++)
        if (!take_string(c, &strings[i], 0, RDG_GGUF_MAX_STRING_BYTES, "a string")) return false;
    kv->strings = strings;
    return true;
}

static bool check_bools(cursor *c, const rdg_gguf_kv *kv, uint64_t at)
{
    for (uint64_t i = 0; i < kv->count; i++)
        if (kv->data[i] > 1)
            return fail_at(c, RDG_E_MALFORMED, at + i, "BOOL value %u, it must be 0 or 1; " DAMAGED,
                           kv->data[i]);
    return true;
}

static bool read_array_head(cursor *c, rdg_gguf_kv *kv)
{
    uint64_t at = c->pos, element_bytes;
    uint32_t element;
    if (!take_u32(c, &element, "an array's element type") || !take_u64(c, &kv->count, "an array's count"))
        return false;
    if (element == RDG_GGUF_ARRAY)
        return fail_at(c, RDG_E_UNSUPPORTED, at, "an array of arrays; no known model needs one");
    if (element >= RDG_GGUF_VALUE_TYPE_COUNT)
        return fail_at(c, RDG_E_MALFORMED, at, "array element type %u, the last known one is %d; " DAMAGED,
                       element, RDG_GGUF_VALUE_TYPE_COUNT - 1);
    kv->element_type = (rdg_gguf_value_type)element;
    element_bytes = element == RDG_GGUF_STRING ? 8 : rdg_gguf_value_bytes(element);
    if (kv->count > left(c) / element_bytes)
        return fail_at(c, RDG_E_MALFORMED, at + 4,
                       "an array of %llu %s elements does not fit the %llu bytes left; " DAMAGED,
                       (unsigned long long)kv->count, rdg_gguf_value_name(element),
                       (unsigned long long)left(c));
    if (element == RDG_GGUF_STRING) {
        if (kv->count > RDG_GGUF_MAX_STRINGS - c->n_strings)
            return fail_at(c, RDG_E_LIMIT, at + 4,
                           "an array of %llu strings; the limit for all arrays together is %d",
                           (unsigned long long)kv->count, RDG_GGUF_MAX_STRINGS);
        c->n_strings += kv->count;
    }
    return true;
}

static bool read_kv(cursor *c, rdg_arena *arena, rdg_gguf_kv *kv)
{
    uint64_t at;
    uint32_t type;
    if (!take_string(c, &kv->key, 1, RDG_GGUF_MAX_KEY_BYTES, "the key")) return false;
    c->subject = kv->key;
    at = c->pos;
    if (!take_u32(c, &type, "the value type")) return false;
    if (type >= RDG_GGUF_VALUE_TYPE_COUNT)
        return fail_at(c, RDG_E_MALFORMED, at, "value type %u, the last known one is %d; " DAMAGED, type,
                       RDG_GGUF_VALUE_TYPE_COUNT - 1);
    kv->type = kv->element_type = (rdg_gguf_value_type)type;
    kv->count = 1;
    if (type == RDG_GGUF_ARRAY && !read_array_head(c, kv)) return false;
    kv->data = c->data + c->pos;
    if (kv->element_type == RDG_GGUF_STRING) return read_strings(c, arena, kv);
    at = c->pos;
    if (!take(c, kv->count * rdg_gguf_value_bytes(kv->element_type), "the value")) return false;
    return kv->element_type != RDG_GGUF_BOOL || check_bools(c, kv, at);
}

static bool read_metadata(cursor *c, rdg_gguf *g, rdg_gguf_part *part, uint64_t n_kv)
{
    part->kv = rdg_arena_array(&g->arena, (size_t)n_kv, sizeof *part->kv);
    if (!part->kv) return no_memory(c);
    for (uint64_t i = 0; i < n_kv; i++) {
        rdg_gguf_kv *kv = &part->kv[i];
        uint64_t at = c->pos;
        c->noun = "key";
        c->subject = (rdg_str){0};
        c->ordinal = i;
        if (!read_kv(c, &g->arena, kv)) return false;
        if (rdg_strmap_get(&part->kv_names, kv->key.p, kv->key.n) >= 0)
            return fail_at(c, RDG_E_MALFORMED, at, "the key appears twice; convert the model again");
        if (!rdg_strmap_put(&part->kv_names, kv->key.p, kv->key.n, (int32_t)i)) return no_memory(c);
        part->n_kv++;
    }
    c->noun = NULL;
    return true;
}

static bool read_alignment(cursor *c, rdg_gguf_part *part)
{
    const rdg_gguf_kv *kv = rdg_gguf_part_find(part, RDG_GGUF_KEY_ALIGNMENT);
    part->alignment = RDG_GGUF_DEFAULT_ALIGNMENT;
    if (!kv) return true;
    uint64_t at = (uint64_t)(kv->data - part->data);
    c->noun = "key";
    c->subject = kv->key;
    if (kv->type != RDG_GGUF_UINT32)
        return fail_at(c, RDG_E_MALFORMED, at, "type %s, it must be UINT32; convert the model again",
                       rdg_gguf_value_name(kv->type));
    memcpy(&part->alignment, kv->data, 4);
    if (!rdg_gguf_alignment_valid(part->alignment))
        return fail_at(c, RDG_E_MALFORMED, at,
                       "an alignment of %u, it must be a power of two from %d to %d; convert the "
                       "model again",
                       part->alignment, RDG_GGUF_MIN_ALIGNMENT, RDG_GGUF_MAX_ALIGNMENT);
    c->noun = NULL;
    return true;
}

/* Tensors
 * ----------------------------------------------------------------------------------------------------- */

/* Type ids that once meant something, so that the message can say what to do. */
static const struct {
    uint32_t id;
    const char *name;
} removed_types[] = {{4, "Q4_2"},      {5, "Q4_3"},        {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"},
                     {33, "Q4_0_8_8"}, {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"}};

static bool bad_type(cursor *c, uint64_t at, uint32_t type)
{
    for (int i = 0; i < RDG_COUNTOF(removed_types); i++)
        if (removed_types[i].id == type)
            return fail_at(c, RDG_E_UNSUPPORTED, at,
                           "type id %u (%s) was removed from the format; quantise the original model again",
                           type, removed_types[i].name);
    return fail_at(c, RDG_E_UNSUPPORTED, at,
                   "unknown type id %u, the last known one is %d; the file is damaged, or needs a newer "
                   "version or comes "
                   "from a fork with types of its own",
                   type, RDG_TYPE_COUNT - 1);
}

static bool read_tensor(cursor *c, rdg_arena *arena, rdg_gguf_tensor *t)
{
    uint64_t at = c->pos, dims_at, type_at, dim;
    uint32_t n_dims, type;
    char why[160];
    rdg_str name;
    if (!take_string(c, &name, 1, RDG_GGUF_MAX_NAME_BYTES, "the name")) return false;
    c->subject = name;
    if (!rdg_name_printable(name.p, name.n))
        return fail_at(c, RDG_E_MALFORMED, at, "the name holds control characters or is no UTF-8; " DAMAGED);
    if (!(t->name = rdg_arena_strndup(arena, name.p, name.n))) return no_memory(c);
    dims_at = c->pos;
    if (!take_u32(c, &n_dims, "the number of dimensions")) return false;
    if (n_dims < 1 || n_dims > 4)
        return fail_at(c, RDG_E_MALFORMED, dims_at, "%u dimensions, there must be 1 to 4; " DAMAGED, n_dims);
    t->n_dims = (int)n_dims;
    for (int i = 0; i < 4; i++) {
        t->dim[i] = 1;
        if (i >= t->n_dims) continue;
        if (!take_u64(c, &dim, "a dimension")) return false;
        t->dim[i] = dim > INT64_MAX ? -1 : (int64_t)dim;
    }
    type_at = c->pos;
    if (!take_u32(c, &type, "the type")) return false;
    if (!rdg_type_valid(type)) return bad_type(c, type_at, type);
    t->type = (rdg_type)type;
    if (!rdg_gguf_tensor_size(t->type, t->n_dims, t->dim, &t->n_elements, &t->bytes, why, sizeof why))
        return fail_at(c, RDG_E_MALFORMED, dims_at, "%s; " DAMAGED, why);
    return take_u64(c, &t->offset, "the offset");
}

static bool read_tensor_list(cursor *c, rdg_gguf *g, int part, uint64_t n_tensors)
{
    for (uint64_t i = 0; i < n_tensors; i++) {
        uint64_t at = c->pos;
        c->noun = "tensor";
        c->subject = (rdg_str){0};
        c->ordinal = i;
        if (g->n_tensors >= RDG_GGUF_MAX_TENSORS)
            return fail_at(c, RDG_E_LIMIT, at, "more than %d tensors in all parts", RDG_GGUF_MAX_TENSORS);
        if (!rdg_grow(&g->tensors, (size_t)g->n_tensors, &g->cap_tensors, sizeof *g->tensors))
            return no_memory(c);
        rdg_gguf_tensor *t = &g->tensors[g->n_tensors];
        *t = (rdg_gguf_tensor){.part = part};
        if (!read_tensor(c, &g->arena, t)) return false;
        if (rdg_strmap_get(&g->tensor_names, t->name, strlen(t->name)) >= 0)
            return fail_at(c, RDG_E_MALFORMED, at, "the tensor appears twice; convert the model again");
        if (!rdg_strmap_put(&g->tensor_names, t->name, strlen(t->name), (int32_t)g->n_tensors))
            return no_memory(c);
        g->n_tensors++;
    }
    c->noun = NULL;
    return true;
}

static void at_tensor(cursor *c, const rdg_gguf_tensor *t)
{
    c->noun = "tensor";
    c->subject = (rdg_str){t->name, strlen(t->name)};
}

static int by_offset(const void *a, const void *b)
{
    const rdg_gguf_tensor *x = *(const rdg_gguf_tensor *const *)a, *y = *(const rdg_gguf_tensor *const *)b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static bool overlap(cursor *c, const rdg_gguf_tensor *low, const rdg_gguf_tensor *high)
{
    at_tensor(c, high);
    return fail_at(c, RDG_E_MALFORMED, c->pos,
                   "its data (from %llu of the data section) overlaps tensor %s (%llu to %llu);"
                   " convert the model again",
                   (unsigned long long)high->offset, rdg_quote(low->name, strlen(low->name)).text,
                   (unsigned long long)low->offset, (unsigned long long)(low->offset + low->bytes));
}

/* The extents lie inside the data section and do not overlap. Almost every file lists them in ascending
 * order, which one pass proves; only the others are sorted. */
static bool check_extents(cursor *c, const rdg_gguf_part *part, rdg_gguf_tensor *tensors, int64_t n)
{
    uint64_t data_bytes = c->bytes - part->data_start, end = 0;
    bool ascending = true, ok = true;
    for (int64_t i = 0; i < n; i++) {
        rdg_gguf_tensor *t = &tensors[i];
        at_tensor(c, t);
        if (t->offset % part->alignment != 0)
            return fail_at(c, RDG_E_MALFORMED, c->pos,
                           "its data offset %llu is no multiple of the alignment %u; convert "
                           "the model again",
                           (unsigned long long)t->offset, part->alignment);
        if (t->offset > data_bytes || t->bytes > data_bytes - t->offset)
            return fail_at(c, RDG_E_MALFORMED, part->data_start,
                           "its %llu bytes at %llu do not fit the data section of "
                           "%llu bytes; " DAMAGED,
                           (unsigned long long)t->bytes, (unsigned long long)t->offset,
                           (unsigned long long)data_bytes);
        if (t->offset < end) ascending = false;
        end = t->offset + t->bytes;
        t->data = part->data + part->data_start + t->offset;
    }
    if (ascending) return true;
    const rdg_gguf_tensor **sorted = rdg_alloc_array((size_t)n, sizeof *sorted);
    if (!sorted) return no_memory(c);
    for (int64_t i = 0; i < n; i++) sorted[i] = &tensors[i];
    qsort(sorted, (size_t)n, sizeof *sorted, by_offset);
    for (int64_t i = 1; i < n && ok; i++)
        if (sorted[i]->offset < sorted[i - 1]->offset + sorted[i - 1]->bytes)
            ok = overlap(c, sorted[i - 1], sorted[i]);
    rdg_free(sorted);
    return ok;
}

static bool read_tensors(cursor *c, rdg_gguf *g, int index, uint64_t n_tensors)
{
    rdg_gguf_part *part = &g->parts[index];
    int64_t first = g->n_tensors;
    if (!read_tensor_list(c, g, index, n_tensors)) return false;
    uint64_t padding = (part->alignment - c->pos % part->alignment) % part->alignment;
    if (padding > left(c)) {
        if (n_tensors > 0)
            return fail_at(c, RDG_E_MALFORMED, c->pos,
                           "the data section should begin %llu bytes further on, the file ends "
                           "before; " DAMAGED,
                           (unsigned long long)padding);
        padding = left(c);
    }
    part->data_start = c->pos + padding;
    return n_tensors == 0 || check_extents(c, part, g->tensors + first, (int64_t)n_tensors);
}

rdg_err rdg_gguf_read_part(rdg_gguf *g, int index, const rdg_log *log, rdg_error *e)
{
    rdg_gguf_part *part = &g->parts[index];
    uint64_t n_tensors = 0, n_kv = 0, used = 0;
    int64_t first = g->n_tensors;
    cursor c = {.data = part->data, .bytes = part->bytes, .e = e};
    if (!read_header(&c, &part->version, &n_tensors, &n_kv) || !read_metadata(&c, g, part, n_kv) ||
        !read_alignment(&c, part) || !read_tensors(&c, g, index, n_tensors))
        return c.err;
    for (int64_t i = first; i < g->n_tensors; i++)
        used = RDG_MAX(used, g->tensors[i].offset + g->tensors[i].bytes);
    used = part->data_start + used;
    if (part->bytes - used > part->alignment)
        rdg_log_warn(log, "%s: %llu bytes after the last tensor belong to nothing",
                     part->path ? part->path : "GGUF", (unsigned long long)(part->bytes - used));
    return RDG_OK;
}

const rdg_gguf_kv *rdg_gguf_part_find(const rdg_gguf_part *part, const char *key)
{
    int64_t i = rdg_strmap_get(&part->kv_names, key, strlen(key));
    return i < 0 ? NULL : &part->kv[i];
}
