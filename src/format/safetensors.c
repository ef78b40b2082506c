/* safetensors: one file's header, and the files of a folder. The checks are those of the format's own
 * description; the limits on the header's size and number of values bound the memory a hostile file can
 * claim. */
#include "format/safetensors.h"
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "format/json.h"
#include "format/names.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILES = 4096, MAX_NAME_BYTES = 255, MAX_DIM_BITS = 40, PREFIX_BYTES = 8 };
static const rdg_json_limits header_limits = {.max_bytes = 100000000, .max_values = 2u << 20, .max_depth = 8};
#define INDEX_NAME "model.safetensors.index.json"
#define ENDING     ".safetensors"
#define DAMAGED    "the file is damaged or cut short: fetch it again"

static const struct {
    const char *name;
    size_t bytes;
} dtypes[RDG_DTYPE_COUNT] = {
#define X(name, bytes) {#name, bytes},
    RDG_DTYPE_MAP(X)
#undef X
};

const char *rdg_dtype_name(rdg_dtype t)
{
    return (int)t >= 0 && t < RDG_DTYPE_COUNT ? dtypes[t].name : "?";
}

size_t rdg_dtype_bytes(rdg_dtype t)
{
    return (int)t >= 0 && t < RDG_DTYPE_COUNT ? dtypes[t].bytes : 0;
}

typedef struct st_file {
    char *path; /* NULL if parsed from memory */
    rdg_map map;
} st_file;

struct rdg_safetensors {
    rdg_arena arena; /* names */
    st_file *files;
    int n_files;
    size_t cap_files;
    rdg_safetensor *tensors;
    int64_t n;
    size_t cap_tensors;
    rdg_strmap names;
    uint64_t bytes;
};

/* One entry of the header
 * ------------------------------------------------------------------------------------- */

#define entry_error(e, code, name, ...) rdg_fail_named(e, code, "tensor", name, __VA_ARGS__)

static rdg_err read_dtype(const char *name, const json_t *v, rdg_dtype *dtype, rdg_error *e)
{
    if (!json_is_string(v))
        return entry_error(e, RDG_E_MALFORMED, name, "'dtype' is %s, a string is needed; " DAMAGED,
                           rdg_json_type_name(v));
    for (int i = 0; i < RDG_DTYPE_COUNT; i++) {
        if (strlen(dtypes[i].name) == json_string_length(v) &&
            !memcmp(dtypes[i].name, json_string_value(v), json_string_length(v))) {
            *dtype = (rdg_dtype)i;
            return RDG_OK;
        }
    }
    return entry_error(e, RDG_E_UNSUPPORTED, name,
                       "unknown dtype %s; convert the tensor to BF16, F16 or F32 first",
                       rdg_quote(json_string_value(v), json_string_length(v)).text);
}

static rdg_err read_shape(const char *name, const json_t *v, rdg_safetensor *t, rdg_error *e)
{
    int64_t elements = 1, bytes;
    if (!json_is_array(v))
        return entry_error(e, RDG_E_MALFORMED, name, "'shape' is %s, an array is needed; " DAMAGED,
                           rdg_json_type_name(v));
    if (json_array_size(v) > RDG_SAFETENSORS_MAX_DIMS)
        return entry_error(e, RDG_E_LIMIT, name, "%zu dimensions, the limit is %d", json_array_size(v),
                           RDG_SAFETENSORS_MAX_DIMS);
    t->n_dims = (int)json_array_size(v);
    for (int i = 0; i < RDG_SAFETENSORS_MAX_DIMS; i++) {
        t->shape[i] = 1;
        if (i >= t->n_dims) continue;
        const json_t *dim = json_array_get(v, (size_t)i);
        t->shape[i] = json_is_integer(dim) ? (int64_t)json_integer_value(dim) : -1;
        if (t->shape[i] < 0 || t->shape[i] > (int64_t)1 << MAX_DIM_BITS)
            return entry_error(e, RDG_E_MALFORMED, name,
                               "dimension %d is no integer from 0 to 2^%d; " DAMAGED, i, MAX_DIM_BITS);
        if (RDG_MUL_OVERFLOW(elements, t->shape[i], &elements))
            return entry_error(e, RDG_E_MALFORMED, name,
                               "the number of elements does not fit 63 bits; " DAMAGED);
    }
    if (RDG_MUL_OVERFLOW(elements, (int64_t)rdg_dtype_bytes(t->dtype), &bytes))
        return entry_error(e, RDG_E_MALFORMED, name, "the size in bytes does not fit 63 bits; " DAMAGED);
    t->n_elements = (uint64_t)elements;
    t->bytes = (uint64_t)bytes;
    return RDG_OK;
}

/* Sets t->offset to the offset in the data section; read_file makes it one in the file. */
static rdg_err read_offsets(const char *name, const json_t *v, uint64_t data_bytes, rdg_safetensor *t,
                            rdg_error *e)
{
    int64_t begin = -1, end = -1;
    if (json_is_array(v) && json_array_size(v) == 2 && json_is_integer(json_array_get(v, 0)) &&
        json_is_integer(json_array_get(v, 1))) {
        begin = json_integer_value(json_array_get(v, 0));
        end = json_integer_value(json_array_get(v, 1));
    }
    if (begin < 0 || end < begin)
        return entry_error(e, RDG_E_MALFORMED, name,
                           "'data_offsets' is no [begin, end] with 0 <= begin <= end; " DAMAGED);
    if ((uint64_t)end > data_bytes)
        return entry_error(e, RDG_E_MALFORMED, name,
                           "its data ends at %lld, the data section at %llu; " DAMAGED, (long long)end,
                           (unsigned long long)data_bytes);
    if ((uint64_t)(end - begin) != t->bytes)
        return entry_error(e, RDG_E_MALFORMED, name,
                           "its offsets %lld to %lld span %lld bytes, its shape and dtype %s need "
                           "%llu; " DAMAGED,
                           (long long)begin, (long long)end, (long long)(end - begin),
                           rdg_dtype_name(t->dtype), (unsigned long long)t->bytes);
    t->offset = (uint64_t)begin;
    return RDG_OK;
}

static rdg_err read_entry(const char *name, json_t *entry, uint64_t data_bytes, rdg_safetensor *t,
                          rdg_error *e)
{
    const json_t *dtype = json_object_get(entry, "dtype"), *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    size_t name_bytes = strlen(name);
    rdg_err err;
    if (name_bytes < 1 || name_bytes > MAX_NAME_BYTES || !rdg_name_printable(name, name_bytes))
        return entry_error(e, RDG_E_MALFORMED, name,
                           "the name has %zu bytes, it must be 1 to %d bytes of printable text", name_bytes,
                           MAX_NAME_BYTES);
    if (!json_is_object(entry))
        return entry_error(e, RDG_E_MALFORMED, name, "its entry is %s, an object is needed; " DAMAGED,
                           rdg_json_type_name(entry));
    if (!dtype || !shape || !offsets)
        return entry_error(e, RDG_E_MALFORMED, name, "'%s' is missing; " DAMAGED,
                           !dtype   ? "dtype"
                           : !shape ? "shape"
                                    : "data_offsets");
    if (json_object_size(entry) != 3)
        return entry_error(e, RDG_E_MALFORMED, name,
                           "its entry has %zu members, only dtype, shape and data_offsets are "
                           "known; " DAMAGED,
                           json_object_size(entry));
    if ((err = read_dtype(name, dtype, &t->dtype, e)) || (err = read_shape(name, shape, t, e))) return err;
    return read_offsets(name, offsets, data_bytes, t, e);
}

/* "__metadata__": strings only. It means nothing to us, but a file that breaks the rule is damaged. */
static rdg_err check_metadata(json_t *metadata, rdg_error *e)
{
    const char *key;
    json_t *v;
    if (!json_is_object(metadata))
        return rdg_fail(e, RDG_E_MALFORMED, "'__metadata__' is %s, an object is needed; " DAMAGED,
                        rdg_json_type_name(metadata));
    json_object_foreach(metadata, key, v)
    {
        if (!json_is_string(v))
            return rdg_fail(e, RDG_E_MALFORMED, "'__metadata__': %s is %s, a string is needed; " DAMAGED,
                            rdg_quote(key, strlen(key)).text, rdg_json_type_name(v));
    }
    return RDG_OK;
}

/* One file
 * ---------------------------------------------------------------------------------------------------- */

static rdg_err add_tensor(rdg_safetensors *s, const char *name, const rdg_safetensor *t, rdg_error *e)
{
    size_t bytes = strlen(name);
    char *copy = rdg_arena_strndup(&s->arena, name, bytes);
    if (!copy || s->n >= INT32_MAX ||
        !rdg_grow(&s->tensors, (size_t)s->n, &s->cap_tensors, sizeof *s->tensors))
        return rdg_fail(e, RDG_E_NOMEM, "no memory for tensor %s", rdg_quote(name, bytes).text);
    s->tensors[s->n] = *t;
    s->tensors[s->n].name = copy;
    s->n++;
    return RDG_OK;
}

static int by_offset(const void *a, const void *b)
{
    const rdg_safetensor *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes); /* empty tensors before the one that begins there */
}

/* Tensors first … n-1 of one file: ascending, without holes or overlaps, up to the end of the file. */
static rdg_err check_extents(rdg_safetensors *s, int64_t first, uint64_t data_bytes, rdg_error *e)
{
    uint64_t end = 0;
    for (int64_t i = first; i < s->n; i++) {
        const rdg_safetensor *t = &s->tensors[i];
        if (t->offset != end)
            return entry_error(e, RDG_E_MALFORMED, t->name,
                               "its data begins at %llu where the data before it ends at %llu: "
                               "%s; " DAMAGED,
                               (unsigned long long)t->offset, (unsigned long long)end,
                               t->offset < end ? "they overlap" : "there is a hole");
        end = t->offset + t->bytes;
    }
    if (end != data_bytes)
        return rdg_fail(
            e, RDG_E_MALFORMED,
            "the tensors end at %llu of the data section, the file has %llu bytes of data; " DAMAGED,
            (unsigned long long)end, (unsigned long long)data_bytes);
    return RDG_OK;
}

static rdg_err read_entries(rdg_safetensors *s, json_t *root, uint64_t data_bytes, rdg_error *e)
{
    const char *name;
    json_t *entry;
    rdg_err err;
    json_object_foreach(root, name, entry)
    {
        rdg_safetensor t = {.file = s->n_files - 1};
        if (!strcmp(name, "__metadata__"))
            err = check_metadata(entry, e);
        else if (!(err = read_entry(name, entry, data_bytes, &t, e)))
            err = add_tensor(s, name, &t, e);
        if (err) return err;
    }
    return RDG_OK;
}

/* After the sort, as values are positions. */
static rdg_err index_names(rdg_safetensors *s, int64_t first, rdg_error *e)
{
    for (int64_t i = first; i < s->n; i++) {
        const rdg_safetensor *t = &s->tensors[i];
        int32_t before = rdg_strmap_get(&s->names, t->name, strlen(t->name));
        if (before >= 0)
            return entry_error(e, RDG_E_MALFORMED, t->name,
                               "it is in '%s' too; remove the file that does not belong to the "
                               "model",
                               rdg_safetensors_file(s, s->tensors[before].file));
        if (!rdg_strmap_put(&s->names, t->name, strlen(t->name), (int32_t)i))
            return entry_error(e, RDG_E_NOMEM, t->name, "no memory for its name");
    }
    return RDG_OK;
}

/* The file added last. Messages lack its name. */
static rdg_err read_file(rdg_safetensors *s, const unsigned char *data, uint64_t bytes, rdg_error *e)
{
    int64_t first = s->n;
    uint64_t header_bytes, data_bytes;
    json_t *root;
    rdg_err err;
    if (bytes < PREFIX_BYTES + 2)
        return rdg_fail(e, RDG_E_MALFORMED, "offset 0: %llu bytes are too few for a header; " DAMAGED,
                        (unsigned long long)bytes);
    if (!memcmp(data, "GGUF", 4)) return rdg_fail(e, RDG_E_UNSUPPORTED, "a GGUF file, no safetensors");
    if (!memcmp(data, "version ", 8))
        return rdg_fail(e, RDG_E_UNSUPPORTED, "a Git LFS pointer, not the file itself: run 'git lfs pull'");
    memcpy(&header_bytes, data, PREFIX_BYTES);
    if (header_bytes > bytes - PREFIX_BYTES)
        return rdg_fail(e, RDG_E_MALFORMED,
                        "offset 0: a header of %llu bytes in a file of %llu; no safetensors, or " DAMAGED,
                        (unsigned long long)header_bytes, (unsigned long long)bytes);
    if (header_bytes > header_limits.max_bytes)
        return rdg_fail(e, RDG_E_LIMIT, "offset 0: a header of %llu bytes, the limit is %zu",
                        (unsigned long long)header_bytes, header_limits.max_bytes);
    if (data[PREFIX_BYTES] != '{')
        return rdg_fail(e, RDG_E_MALFORMED,
                        "offset %d: the header begins with byte %02x instead of '{'; " DAMAGED, PREFIX_BYTES,
                        data[PREFIX_BYTES]);
    data_bytes = bytes - PREFIX_BYTES - header_bytes;
    err = rdg_json_parse((const char *)data + PREFIX_BYTES, (size_t)header_bytes, "header", &header_limits,
                         &root, e);
    if (err) return err;
    err = read_entries(s, root, data_bytes, e);
    json_decref(root);
    if (err) return err;
    if (s->n > first) qsort(s->tensors + first, (size_t)(s->n - first), sizeof *s->tensors, by_offset);
    if ((err = check_extents(s, first, data_bytes, e)) || (err = index_names(s, first, e))) return err;
    for (int64_t i = first; i < s->n; i++) {
        s->tensors[i].offset += PREFIX_BYTES + header_bytes;
        s->tensors[i].data = data + s->tensors[i].offset;
        s->bytes += s->tensors[i].bytes;
    }
    return RDG_OK;
}

static rdg_err open_file(rdg_safetensors *s, const char *path, rdg_error *e)
{
    rdg_err err;
    if (!rdg_grow(&s->files, (size_t)s->n_files, &s->cap_files, sizeof *s->files))
        return rdg_fail(e, RDG_E_NOMEM, "no memory to open '%s'", path);
    st_file *file = &s->files[s->n_files++];
    *file = (st_file){.map = {.fd = -1}};
    if (!(file->path = rdg_strdup(path))) return rdg_fail(e, RDG_E_NOMEM, "no memory to open '%s'", path);
    if ((err = rdg_map_open(&file->map, path, e))) return err;
    if ((err = read_file(s, file->map.data, file->map.bytes, e))) rdg_fail_prefix(e, err, "'%s'", path);
    return err;
}

/* Folders
 * ----------------------------------------------------------------------------------------------------- */

typedef struct name_list {
    char **items;
    size_t n, cap;
} name_list;

static void list_finish(name_list *l)
{
    for (size_t i = 0; i < l->n; i++) rdg_free(l->items[i]);
    rdg_free(l->items);
}

static rdg_err list_add(name_list *l, const char *name, rdg_error *e)
{
    if (l->n >= MAX_FILES) return rdg_fail(e, RDG_E_LIMIT, "more than %d files of one model", MAX_FILES);
    if (!rdg_grow(&l->items, l->n, &l->cap, sizeof *l->items) || !(l->items[l->n] = rdg_strdup(name)))
        return rdg_fail(e, RDG_E_NOMEM, "no memory for the names of files");
    l->n++;
    return RDG_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool ends_with(const char *s, const char *ending)
{
    size_t n = strlen(s), m = strlen(ending);
    return n >= m && !strcmp(s + n - m, ending);
}

static rdg_err open_list(rdg_safetensors *s, const char *folder, name_list *l, rdg_error *e)
{
    rdg_err err = RDG_OK;
    if (l->n) qsort(l->items, l->n, sizeof *l->items, by_name);
    for (size_t i = 0; i < l->n && !err; i++) {
        char *path = rdg_path_join(folder, l->items[i]);
        err = path ? open_file(s, path, e) : rdg_fail(e, RDG_E_NOMEM, "no memory for the name of a file");
        rdg_free(path);
    }
    return err;
}

/* "…-00002-of-00005.safetensors" -> 5, else 0 */
static int shards_named(const char *name)
{
    int no, count, used = 0;
    size_t n = strlen(name), tail = strlen("-00002-of-00005" ENDING);
    if (n < tail || sscanf(name + n - tail, "-%5d-of-%5d" ENDING "%n", &no, &count, &used) != 2 ||
        used != (int)tail)
        return 0;
    return count;
}

/* Without an index the names are all there is to notice a missing shard by. */
static rdg_err check_shard_names(const char *folder, const name_list *l, rdg_error *e)
{
    for (size_t i = 0; i < l->n; i++) {
        int count = shards_named(l->items[i]);
        if (count > 0 && (size_t)count != l->n)
            return rdg_fail(e, RDG_E_MALFORMED,
                            "'%s' holds %zu model*" ENDING " files, '%s' belongs to a model of %d; fetch "
                            "the missing files or remove those of another model",
                            folder, l->n, l->items[i], count);
    }
    return RDG_OK;
}

/* All model*.safetensors of the folder. */
static rdg_err list_folder(const char *folder, name_list *l, rdg_error *e)
{
    struct dirent *entry;
    rdg_err err = RDG_OK;
    DIR *d = opendir(folder);
    if (!d) return rdg_fail_errno(e, RDG_E_IO, errno, "cannot list '%s'", folder);
    for (errno = 0; !err && (entry = readdir(d)); errno = 0)
        if (!strncmp(entry->d_name, "model", 5) && ends_with(entry->d_name, ENDING))
            err = list_add(l, entry->d_name, e);
    /* NULL is the end of the list, or an error that only errno tells from it */
    if (!err && errno) err = rdg_fail_errno(e, RDG_E_IO, errno, "cannot list '%s'", folder);
    closedir(d);
    return err;
}

static rdg_err open_without_index(rdg_safetensors *s, const char *folder, rdg_error *e)
{
    name_list l = {0};
    rdg_err err = list_folder(folder, &l, e);
    if (!err && l.n == 0)
        err = rdg_fail(e, RDG_E_IO,
                       "'%s' holds neither " INDEX_NAME " nor model*" ENDING "; is it a Hugging Face model "
                       "folder?",
                       folder);
    if (!err) err = check_shard_names(folder, &l, e);
    if (!err) err = open_list(s, folder, &l, e);
    list_finish(&l);
    return err;
}

static bool plain_name(const json_t *v)
{
    const char *name = json_string_value(v);
    return name && strlen(name) == json_string_length(v) && name[0] != '.' && !strchr(name, '/') &&
           !strchr(name, '\\') && rdg_name_printable(name, strlen(name)) && ends_with(name, ENDING);
}

/* The distinct files of the weight map. */
static rdg_err list_shards(json_t *weight_map, name_list *l, rdg_error *e)
{
    rdg_strmap seen;
    const char *tensor;
    json_t *file;
    rdg_err err = RDG_OK;
    rdg_strmap_init(&seen);
    json_object_foreach(weight_map, tensor, file)
    {
        const char *name = json_string_value(file);
        if (!plain_name(file)) {
            err = rdg_fail(e, RDG_E_MALFORMED,
                           "weight_map: tensor %s is in %s, the plain name of a " ENDING " file in the "
                           "same folder is needed",
                           rdg_quote(tensor, strlen(tensor)).text,
                           name ? rdg_quote(name, json_string_length(file)).text : rdg_json_type_name(file));
        } else if (rdg_strmap_get(&seen, name, strlen(name)) < 0) {
            err = list_add(l, name, e);
            if (!err && !rdg_strmap_put(&seen, name, strlen(name), 0))
                err = rdg_fail(e, RDG_E_NOMEM, "no memory for the names of files");
        }
        if (err) break;
    }
    rdg_strmap_finish(&seen);
    return err;
}

/* Every mapped tensor is in its file, and the files hold no others. */
static rdg_err check_weight_map(const rdg_safetensors *s, json_t *weight_map, rdg_error *e)
{
    const char *name;
    json_t *file;
    json_object_foreach(weight_map, name, file)
    {
        const rdg_safetensor *t = rdg_safetensors_find(s, name);
        if (!t || strcmp(rdg_path_base(s->files[t->file].path), json_string_value(file)) != 0)
            return rdg_fail(e, RDG_E_MALFORMED, "weight_map: tensor %s is not in '%s'; fetch the model again",
                            rdg_quote(name, strlen(name)).text, json_string_value(file));
    }
    for (int64_t i = 0; i < s->n; i++) {
        const rdg_safetensor *t = &s->tensors[i];
        if (!json_object_get(weight_map, t->name))
            return rdg_fail(e, RDG_E_MALFORMED,
                            "tensor %s of '%s' is not in the weight_map; fetch the model again",
                            rdg_quote(t->name, strlen(t->name)).text, s->files[t->file].path);
    }
    return RDG_OK;
}

static void compare_total(const rdg_safetensors *s, const json_t *root, const char *path, const rdg_log *log)
{
    const json_t *total = json_object_get(json_object_get(root, "metadata"), "total_size");
    if (json_is_integer(total) && (uint64_t)json_integer_value(total) != s->bytes)
        rdg_log_warn(log, "%s: total_size is %lld, the tensors have %llu bytes", path,
                     (long long)json_integer_value(total), (unsigned long long)s->bytes);
}

static rdg_err open_with_index(rdg_safetensors *s, const char *folder, const char *index, const rdg_log *log,
                               rdg_error *e)
{
    name_list l = {0};
    json_t *root, *weight_map;
    rdg_err err = rdg_json_load(index, NULL, &root, e);
    if (err) return err;
    weight_map = json_object_get(root, "weight_map");
    if (!json_is_object(weight_map) || json_object_size(weight_map) == 0) {
        err = rdg_fail(e, RDG_E_MALFORMED,
                       "'%s': 'weight_map' is %s, an object with at least one tensor is needed", index,
                       rdg_json_type_name(weight_map));
        goto done;
    }
    if ((err = list_shards(weight_map, &l, e))) {
        rdg_fail_prefix(e, err, "'%s'", index);
        goto done;
    }
    if ((err = open_list(s, folder, &l, e))) goto done;
    if ((err = check_weight_map(s, weight_map, e)))
        rdg_fail_prefix(e, err, "'%s'", index);
    else
        compare_total(s, root, index, log);
done:
    list_finish(&l);
    json_decref(root);
    return err;
}

static rdg_err open_folder(rdg_safetensors *s, const char *folder, const rdg_log *log, rdg_error *e)
{
    char *index = rdg_path_join(folder, INDEX_NAME);
    if (!index) return rdg_fail(e, RDG_E_NOMEM, "no memory to open '%s'", folder);
    rdg_err err =
        rdg_file_exists(index) ? open_with_index(s, folder, index, log, e) : open_without_index(s, folder, e);
    rdg_free(index);
    return err;
}

/* Interface
 * --------------------------------------------------------------------------------------------------- */

static rdg_safetensors *create(rdg_error *e)
{
    rdg_safetensors *s = rdg_alloc(sizeof *s);
    if (!s) {
        rdg_fail(e, RDG_E_NOMEM, "no memory for a safetensors reader");
        return NULL;
    }
    rdg_arena_init(&s->arena);
    rdg_strmap_init(&s->names);
    return s;
}

static rdg_err open_index_file(rdg_safetensors *s, const char *path, const rdg_log *log, rdg_error *e)
{
    const char *base = rdg_path_base(path);
    char *folder = base == path ? rdg_strdup(".") : rdg_strndup(path, (size_t)(base - path));
    if (!folder) return rdg_fail(e, RDG_E_NOMEM, "no memory to open '%s'", path);
    rdg_err err = open_with_index(s, folder, path, log, e);
    rdg_free(folder);
    return err;
}

rdg_err rdg_safetensors_open(const char *path, const rdg_log *log, rdg_safetensors **out, rdg_error *e)
{
    rdg_err err;
    *out = NULL;
    rdg_safetensors *s = create(e);
    if (!s) return RDG_E_NOMEM;
    if (rdg_is_directory(path))
        err = open_folder(s, path, log, e);
    else if (ends_with(path, ".json"))
        err = open_index_file(s, path, log, e);
    else if (!(err = open_file(s, path, e)) && shards_named(path) > 1)
        rdg_log_warn(log, "%s is one of %d files of a model; name the folder to read them all", path,
                     shards_named(path));
    if (err) {
        rdg_safetensors_close(s);
        return err;
    }
    *out = s;
    return RDG_OK;
}

rdg_err rdg_safetensors_parse(const void *data, size_t bytes, rdg_safetensors **out, rdg_error *e)
{
    rdg_err err;
    *out = NULL;
    rdg_safetensors *s = create(e);
    if (!s) return RDG_E_NOMEM;
    if (!rdg_grow(&s->files, 0, &s->cap_files, sizeof *s->files)) {
        err = rdg_fail(e, RDG_E_NOMEM, "no memory for a safetensors reader");
        goto fail;
    }
    s->files[s->n_files++] = (st_file){.map = {.fd = -1}};
    if ((err = read_file(s, data, bytes, e))) goto fail;
    *out = s;
    return RDG_OK;
fail:
    rdg_safetensors_close(s);
    return err;
}

void rdg_safetensors_close(rdg_safetensors *s)
{
    if (!s) return;
    for (int i = 0; i < s->n_files; i++) {
        rdg_map_close(&s->files[i].map);
        rdg_free(s->files[i].path);
    }
    rdg_free(s->files);
    rdg_free(s->tensors);
    rdg_strmap_finish(&s->names);
    rdg_arena_finish(&s->arena);
    rdg_free(s);
}

int64_t rdg_safetensors_n(const rdg_safetensors *s)
{
    return s->n;
}

const rdg_safetensor *rdg_safetensors_at(const rdg_safetensors *s, int64_t i)
{
    return i >= 0 && i < s->n ? &s->tensors[i] : NULL;
}

const rdg_safetensor *rdg_safetensors_find(const rdg_safetensors *s, const char *name)
{
    return rdg_safetensors_at(s, rdg_strmap_get(&s->names, name, strlen(name)));
}

int rdg_safetensors_n_files(const rdg_safetensors *s)
{
    return s->n_files;
}

const char *rdg_safetensors_file(const rdg_safetensors *s, int i)
{
    return i >= 0 && i < s->n_files && s->files[i].path ? s->files[i].path : "";
}

uint64_t rdg_safetensors_bytes(const rdg_safetensors *s)
{
    return s->bytes;
}

rdg_err rdg_safetensors_recheck(const rdg_safetensors *s, rdg_error *e)
{
    rdg_err err = RDG_OK;
    for (int i = 0; i < s->n_files && !err; i++)
        if (s->files[i].path) err = rdg_map_recheck(&s->files[i].map, s->files[i].path, e);
    return err;
}
