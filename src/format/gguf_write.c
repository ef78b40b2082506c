/* GGUF v3 output. Metadata and the tensor list are collected, then written as one header a part; the data
 * follows in order of declaration. All parts stay temporary files until finish, so that a failure leaves
 * nothing behind. */
#include "format/gguf.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct write_kv {
    char *key; /* in the arena */
    size_t key_bytes;
    bool live; /* false once unset; the slot is used again when the key comes back */
    rdg_gguf_value_type type, element_type;
    uint64_t count;
    rdg_buf value;         /* encoded, without type and count */
    uint64_t value_offset; /* in part 0, known after begin */
} write_kv;

typedef struct write_tensor {
    char *name; /* in the arena */
    rdg_type type;
    int n_dims;
    int64_t dim[4];
    uint64_t bytes, offset;
    int part;
} write_tensor;

struct rdg_gguf_writer {
    char *path;
    rdg_arena arena;
    write_kv *kv;
    int64_t n_kv;
    size_t cap_kv;
    rdg_strmap kv_names;
    write_tensor *tensors;
    int64_t n_tensors;
    size_t cap_tensors;
    rdg_strmap tensor_names;
    uint32_t alignment;
    bool split, begun, finished;
    uint64_t finished_bytes; /* of all parts, once finished */
    uint64_t max_part_bytes;
    rdg_out *parts;
    int n_parts;
    int64_t current;        /* tensor whose data comes next */
    uint64_t current_bytes; /* of it, written so far */
    rdg_gguf_check *check;  /* NULL: nothing is asked before the file gets its name */
    void *check_user;
    rdg_error failed; /* the first error; code 0 = none */
};

/* Keeps the first error. */
static rdg_err keep(rdg_gguf_writer *w, rdg_err code, const char *fmt, ...) RDG_PRINTF(3, 4);
static rdg_err keep(rdg_gguf_writer *w, rdg_err code, const char *fmt, ...)
{
    if (w->failed.code) return w->failed.code;
    char text[640];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return rdg_fail(&w->failed, code, "writing '%s': %s", w->path, text);
}

static rdg_err report(const rdg_gguf_writer *w, rdg_error *e)
{
    if (e && w->failed.code) *e = w->failed;
    return w->failed.code;
}

rdg_err rdg_gguf_writer_create(const char *path, rdg_gguf_writer **out, rdg_error *e)
{
    *out = NULL;
    if (!path || !*path) return rdg_fail(e, RDG_E_ARGUMENT, "a GGUF writer needs the name of its file");
    rdg_gguf_writer *w = rdg_alloc(sizeof *w);
    if (!w) goto no_memory;
    rdg_arena_init(&w->arena);
    rdg_strmap_init(&w->kv_names);
    rdg_strmap_init(&w->tensor_names);
    if (!(w->path = rdg_strdup(path))) goto no_memory;
    *out = w;
    return RDG_OK;
no_memory:
    rdg_gguf_writer_destroy(w);
    return rdg_fail(e, RDG_E_NOMEM, "no memory to write '%s'", path);
}

void rdg_gguf_writer_destroy(rdg_gguf_writer *w)
{
    if (!w) return;
    for (int i = 0; i < w->n_parts; i++) rdg_out_close(&w->parts[i]);
    rdg_free(w->parts);
    for (int64_t i = 0; i < w->n_kv; i++) rdg_buf_finish(&w->kv[i].value);
    rdg_free(w->kv);
    rdg_free(w->tensors);
    rdg_strmap_finish(&w->kv_names);
    rdg_strmap_finish(&w->tensor_names);
    rdg_arena_finish(&w->arena);
    rdg_free(w->path);
    rdg_free(w);
}

/* Metadata
 * ---------------------------------------------------------------------------------------------------- */

/* The slot of a key, emptied, for a value of this shape; NULL after an error, which is kept. */
static write_kv *set_key(rdg_gguf_writer *w, const char *key, size_t key_bytes, rdg_gguf_value_type type,
                         rdg_gguf_value_type element_type, uint64_t count)
{
    if (w->failed.code) return NULL;
    rdg_quoted quoted = rdg_quote(key, key_bytes);
    if (w->begun) {
        keep(w, RDG_E_ARGUMENT, "key %s is set after the header was written", quoted.text);
        return NULL;
    }
    if (key_bytes < 1 || key_bytes > RDG_GGUF_MAX_KEY_BYTES) {
        keep(w, RDG_E_ARGUMENT, "key %s has %zu bytes, it must have 1 to %d", quoted.text, key_bytes,
             RDG_GGUF_MAX_KEY_BYTES);
        return NULL;
    }
    int64_t i = rdg_strmap_get(&w->kv_names, key, key_bytes);
    if (i < 0) {
        if (w->n_kv >= RDG_GGUF_MAX_KV) {
            keep(w, RDG_E_LIMIT, "key %s is one too many, the limit is %d", quoted.text, RDG_GGUF_MAX_KV);
            return NULL;
        }
        i = w->n_kv;
        char *copy = rdg_arena_strndup(&w->arena, key, key_bytes);
        if (!copy || !rdg_grow(&w->kv, (size_t)i, &w->cap_kv, sizeof *w->kv) ||
            !rdg_strmap_put(&w->kv_names, copy, key_bytes, (int32_t)i)) {
            keep(w, RDG_E_NOMEM, "no memory for key %s", quoted.text);
            return NULL;
        }
        w->kv[i] = (write_kv){.key = copy, .key_bytes = key_bytes};
        rdg_buf_init(&w->kv[i].value);
        w->n_kv++;
    }
    write_kv *kv = &w->kv[i];
    kv->live = true;
    kv->type = type;
    kv->element_type = element_type;
    kv->count = count;
    rdg_buf_clear(&kv->value);
    return kv;
}

static void append_value(rdg_gguf_writer *w, write_kv *kv, const void *data, size_t n)
{
    rdg_buf_append(&kv->value, data, n);
    if (kv->value.failed)
        keep(w, RDG_E_NOMEM, "no memory for the value of key %s", rdg_quote(kv->key, kv->key_bytes).text);
}

static void append_string(rdg_gguf_writer *w, write_kv *kv, const char *p, size_t n)
{
    uint64_t length = n;
    if (n > RDG_GGUF_MAX_STRING_BYTES) {
        keep(w, RDG_E_LIMIT, "a string of key %s has %zu bytes, the limit is %d",
             rdg_quote(kv->key, kv->key_bytes).text, n, RDG_GGUF_MAX_STRING_BYTES);
        return;
    }
    append_value(w, kv, &length, sizeof length);
    append_value(w, kv, p, n);
}

static void set_scalar(rdg_gguf_writer *w, const char *key, rdg_gguf_value_type type, const void *value)
{
    write_kv *kv = set_key(w, key, strlen(key), type, type, 1);
    if (kv) append_value(w, kv, value, rdg_gguf_value_bytes(type));
}

void rdg_gguf_set_u32(rdg_gguf_writer *w, const char *key, uint32_t v)
{
    set_scalar(w, key, RDG_GGUF_UINT32, &v);
}

void rdg_gguf_set_i32(rdg_gguf_writer *w, const char *key, int32_t v)
{
    set_scalar(w, key, RDG_GGUF_INT32, &v);
}

void rdg_gguf_set_u16(rdg_gguf_writer *w, const char *key, uint16_t v)
{
    set_scalar(w, key, RDG_GGUF_UINT16, &v);
}

void rdg_gguf_set_u64(rdg_gguf_writer *w, const char *key, uint64_t v)
{
    set_scalar(w, key, RDG_GGUF_UINT64, &v);
}

void rdg_gguf_set_f32(rdg_gguf_writer *w, const char *key, float v)
{
    if (!isfinite(v)) {
        keep(w, RDG_E_ARGUMENT, "key %s is %g, only finite numbers can be read back",
             rdg_quote(key, strlen(key)).text, (double)v);
        return;
    }
    set_scalar(w, key, RDG_GGUF_FLOAT32, &v);
}

void rdg_gguf_set_bool(rdg_gguf_writer *w, const char *key, bool v)
{
    uint8_t byte = v;
    set_scalar(w, key, RDG_GGUF_BOOL, &byte);
}

void rdg_gguf_set_str(rdg_gguf_writer *w, const char *key, const char *v)
{
    rdg_gguf_set_strn(w, key, v, strlen(v));
}

void rdg_gguf_set_strn(rdg_gguf_writer *w, const char *key, const char *v, size_t n)
{
    write_kv *kv = set_key(w, key, strlen(key), RDG_GGUF_STRING, RDG_GGUF_STRING, 1);
    if (kv) append_string(w, kv, v, n);
}

/* Numeric elements of a scalar or array. */
static void append_elements(rdg_gguf_writer *w, write_kv *kv, const void *data, uint64_t count)
{
    size_t bytes;
    if (RDG_MUL_OVERFLOW(count, rdg_gguf_value_bytes(kv->element_type), &bytes))
        keep(w, RDG_E_LIMIT, "key %s has too many elements", rdg_quote(kv->key, kv->key_bytes).text);
    else
        append_value(w, kv, data, bytes);
}

void rdg_gguf_set_array(rdg_gguf_writer *w, const char *key, rdg_gguf_value_type element, const void *data,
                        uint64_t count)
{
    if (rdg_gguf_value_bytes(element) == 0) {
        keep(w, RDG_E_ARGUMENT, "key %s: an array of %s cannot be set from numbers",
             rdg_quote(key, strlen(key)).text, rdg_gguf_value_name(element));
        return;
    }
    write_kv *kv = set_key(w, key, strlen(key), RDG_GGUF_ARRAY, element, count);
    if (kv) append_elements(w, kv, data, count);
}

static void append_strings(rdg_gguf_writer *w, write_kv *kv, const rdg_str *strings, uint64_t count)
{
    if (count > RDG_GGUF_MAX_STRINGS)
        keep(w, RDG_E_LIMIT, "key %s has %llu strings, the limit is %d",
             rdg_quote(kv->key, kv->key_bytes).text, (unsigned long long)count, RDG_GGUF_MAX_STRINGS);
    for (uint64_t i = 0; i < count && !w->failed.code; i++) append_string(w, kv, strings[i].p, strings[i].n);
}

void rdg_gguf_set_str_array(rdg_gguf_writer *w, const char *key, const rdg_str *strings, uint64_t count)
{
    write_kv *kv = set_key(w, key, strlen(key), RDG_GGUF_ARRAY, RDG_GGUF_STRING, count);
    if (kv) append_strings(w, kv, strings, count);
}

void rdg_gguf_set_kv(rdg_gguf_writer *w, const rdg_gguf_kv *from)
{
    write_kv *kv = set_key(w, from->key.p, from->key.n, from->type, from->element_type, from->count);
    if (!kv) return;
    if (from->element_type == RDG_GGUF_STRING)
        append_strings(w, kv, from->strings, from->count);
    else
        append_elements(w, kv, from->data, from->count);
}

static write_kv *find_kv(const rdg_gguf_writer *w, const char *key)
{
    int64_t i = rdg_strmap_get(&w->kv_names, key, strlen(key));
    return i >= 0 && w->kv[i].live ? &w->kv[i] : NULL;
}

void rdg_gguf_unset(rdg_gguf_writer *w, const char *key)
{
    write_kv *kv = find_kv(w, key);
    if (kv && w->begun) keep(w, RDG_E_ARGUMENT, "key '%s' is removed after the header was written", key);
    if (!kv || w->begun) return;
    kv->live = false;
    rdg_buf_finish(&kv->value);
}

/* Tensors
 * ----------------------------------------------------------------------------------------------------- */

void rdg_gguf_add_tensor(rdg_gguf_writer *w, const char *name, rdg_type type, int n_dims, const int64_t *dim)
{
    size_t name_bytes = strlen(name);
    write_tensor t = {.type = type, .n_dims = n_dims, .dim = {1, 1, 1, 1}};
    uint64_t n_elements;
    char why[160];
    if (w->failed.code) return;
    rdg_quoted quoted = rdg_quote(name, name_bytes);
    if (w->begun) {
        keep(w, RDG_E_ARGUMENT, "tensor %s is added after the header was written", quoted.text);
    } else if (name_bytes < 1 || name_bytes > RDG_GGUF_MAX_NAME_BYTES ||
               !rdg_name_printable(name, name_bytes)) {
        keep(w, RDG_E_ARGUMENT, "tensor name %s has %zu bytes; it must be 1 to %d bytes of printable UTF-8",
             quoted.text, name_bytes, RDG_GGUF_MAX_NAME_BYTES);
    } else if (!rdg_type_valid(type) || n_dims < 1 || n_dims > 4) {
        keep(w, RDG_E_ARGUMENT,
             "tensor %s has type id %d and %d dimensions; a known type and 1 to 4 are needed", quoted.text,
             (int)type, n_dims);
    } else {
        memcpy(t.dim, dim, (size_t)n_dims * sizeof *dim);
        if (!rdg_gguf_tensor_size(type, n_dims, t.dim, &n_elements, &t.bytes, why, sizeof why))
            keep(w, RDG_E_ARGUMENT, "tensor %s: %s", quoted.text, why);
        else if (w->n_tensors >= RDG_GGUF_MAX_TENSORS)
            keep(w, RDG_E_LIMIT, "tensor %s is one too many, the limit is %d", quoted.text,
                 RDG_GGUF_MAX_TENSORS);
    }
    if (w->failed.code) return;
    if (rdg_strmap_get(&w->tensor_names, name, name_bytes) >= 0) {
        keep(w, RDG_E_ARGUMENT, "tensor %s is added twice", quoted.text);
        return;
    }
    t.name = rdg_arena_strndup(&w->arena, name, name_bytes);
    if (!t.name || !rdg_grow(&w->tensors, (size_t)w->n_tensors, &w->cap_tensors, sizeof *w->tensors) ||
        !rdg_strmap_put(&w->tensor_names, t.name, name_bytes, (int32_t)w->n_tensors)) {
        keep(w, RDG_E_NOMEM, "no memory for tensor %s", quoted.text);
        return;
    }
    w->tensors[w->n_tensors++] = t;
}

void rdg_gguf_writer_split(rdg_gguf_writer *w, uint64_t max_part_bytes)
{
    if (w->begun) {
        keep(w, RDG_E_ARGUMENT, "the size of parts is set after the header was written");
        return;
    }
    w->split = max_part_bytes > 0;
    w->max_part_bytes = max_part_bytes;
}

/* Header
 * ------------------------------------------------------------------------------------------------------ */

static uint64_t padded(const rdg_gguf_writer *w, uint64_t n)
{
    return n + (w->alignment - n % w->alignment) % w->alignment;
}

/* Gives every tensor its part and offset. A tensor larger than a part gets one of its own. */
static rdg_err lay_out(rdg_gguf_writer *w)
{
    uint64_t offset = 0;
    int part = 0;
    for (int64_t i = 0; i < w->n_tensors; i++) {
        write_tensor *t = &w->tensors[i];
        uint64_t bytes = padded(w, t->bytes);
        if (w->split && offset > 0 && (bytes > w->max_part_bytes || offset > w->max_part_bytes - bytes)) {
            if (++part >= RDG_GGUF_MAX_PARTS)
                return keep(w, RDG_E_LIMIT, "parts of %llu bytes would make more than %d of them",
                            (unsigned long long)w->max_part_bytes, RDG_GGUF_MAX_PARTS);
            offset = 0;
        }
        t->part = part;
        t->offset = offset;
        if (RDG_ADD_OVERFLOW(offset, bytes, &offset) || offset > INT64_MAX)
            return keep(w, RDG_E_LIMIT, "the data of all tensors does not fit 63 bits");
    }
    w->n_parts = part + 1;
    return RDG_OK;
}

static rdg_err read_alignment(rdg_gguf_writer *w)
{
    const write_kv *kv = find_kv(w, RDG_GGUF_KEY_ALIGNMENT);
    w->alignment = RDG_GGUF_DEFAULT_ALIGNMENT;
    if (!kv) return RDG_OK;
    if (kv->type != RDG_GGUF_UINT32)
        return keep(w, RDG_E_ARGUMENT, "key '" RDG_GGUF_KEY_ALIGNMENT "' has type %s, it must be UINT32",
                    rdg_gguf_value_name(kv->type));
    memcpy(&w->alignment, kv->value.data, sizeof w->alignment);
    if (!rdg_gguf_alignment_valid(w->alignment))
        return keep(w, RDG_E_ARGUMENT,
                    "key '" RDG_GGUF_KEY_ALIGNMENT "' is %u, it must be a power of two from %d to %d",
                    w->alignment, RDG_GGUF_MIN_ALIGNMENT, RDG_GGUF_MAX_ALIGNMENT);
    return RDG_OK;
}

static void put_u32(rdg_buf *b, uint32_t v)
{
    rdg_buf_append(b, &v, sizeof v);
}

static void put_u64(rdg_buf *b, uint64_t v)
{
    rdg_buf_append(b, &v, sizeof v);
}

static void put_key(rdg_buf *b, const char *key, size_t n, rdg_gguf_value_type type)
{
    put_u64(b, n);
    rdg_buf_append(b, key, n);
    put_u32(b, (uint32_t)type);
}

static void put_kv(rdg_buf *b, write_kv *kv)
{
    put_key(b, kv->key, kv->key_bytes, kv->type);
    if (kv->type == RDG_GGUF_ARRAY) {
        put_u32(b, (uint32_t)kv->element_type);
        put_u64(b, kv->count);
    }
    kv->value_offset = b->len;
    rdg_buf_append(b, kv->value.data, kv->value.len);
}

static void put_split_keys(rdg_buf *b, const rdg_gguf_writer *w, int part)
{
    const struct {
        const char *key;
        uint16_t v;
    } numbers[] = {{RDG_GGUF_KEY_SPLIT_NO, (uint16_t)part}, {RDG_GGUF_KEY_SPLIT_COUNT, (uint16_t)w->n_parts}};
    int32_t n_tensors = (int32_t)w->n_tensors;
    for (int i = 0; i < RDG_COUNTOF(numbers); i++) {
        put_key(b, numbers[i].key, strlen(numbers[i].key), RDG_GGUF_UINT16);
        rdg_buf_append(b, &numbers[i].v, sizeof numbers[i].v);
    }
    put_key(b, RDG_GGUF_KEY_SPLIT_TENSORS, strlen(RDG_GGUF_KEY_SPLIT_TENSORS), RDG_GGUF_INT32);
    rdg_buf_append(b, &n_tensors, sizeof n_tensors);
}

/* The header of a part, without the padding after it. */
static void encode_header(rdg_gguf_writer *w, int part, rdg_buf *out)
{
    const write_kv *alignment = find_kv(w, RDG_GGUF_KEY_ALIGNMENT);
    uint64_t n_kv = w->split ? 3 : 0, n_tensors = 0;
    rdg_buf b = *out;
    for (int64_t i = 0; i < w->n_kv; i++) n_kv += w->kv[i].live && (part == 0 || &w->kv[i] == alignment);
    for (int64_t i = 0; i < w->n_tensors; i++) n_tensors += w->tensors[i].part == part;
    rdg_buf_puts(&b, "GGUF");
    put_u32(&b, 3);
    put_u64(&b, n_tensors);
    put_u64(&b, n_kv);
    for (int64_t i = 0; i < w->n_kv; i++)
        if (w->kv[i].live && part == 0) put_kv(&b, &w->kv[i]);
    if (alignment && part > 0) {
        put_key(&b, alignment->key, alignment->key_bytes, alignment->type);
        rdg_buf_append(&b, alignment->value.data, alignment->value.len);
    }
    if (w->split) put_split_keys(&b, w, part);
    for (int64_t i = 0; i < w->n_tensors; i++) {
        const write_tensor *t = &w->tensors[i];
        if (t->part != part) continue;
        put_u64(&b, strlen(t->name));
        rdg_buf_puts(&b, t->name);
        put_u32(&b, (uint32_t)t->n_dims);
        rdg_buf_append(&b, t->dim, (size_t)t->n_dims * sizeof *t->dim);
        put_u32(&b, (uint32_t)t->type);
        put_u64(&b, t->offset);
    }
    *out = b;
}

static rdg_err write_header(rdg_gguf_writer *w, int part, rdg_error *e)
{
    rdg_err err;
    rdg_buf b;
    rdg_buf_init(&b);
    encode_header(w, part, &b);
    if (b.failed)
        err = rdg_fail(e, RDG_E_NOMEM, "no memory for the header of '%s'", w->parts[part].path);
    else if (!(err = rdg_out_write(&w->parts[part], b.data, b.len, e)))
        err = rdg_out_zeros(&w->parts[part], (size_t)(padded(w, b.len) - b.len), e);
    rdg_buf_finish(&b);
    return err;
}

/* The final name of a part, or NULL on exhaustion. */
static char *part_path(const rdg_gguf_writer *w, int part)
{
    size_t n = strlen(w->path);
    if (!w->split) return rdg_strdup(w->path);
    if (n > 5 && !strcmp(w->path + n - 5, ".gguf")) n -= 5;
    return rdg_format("%.*s-%05d-of-%05d.gguf", (int)n, w->path, part + 1, w->n_parts);
}

static rdg_err open_parts(rdg_gguf_writer *w, rdg_error *e)
{
    int n = w->n_parts;
    rdg_err err = RDG_OK;
    w->n_parts = 0; /* counts the opened ones, for destroy */
    if (!(w->parts = rdg_alloc_array((size_t)n, sizeof *w->parts)))
        return rdg_fail(e, RDG_E_NOMEM, "no memory for %d parts of '%s'", n, w->path);
    for (int i = 0; i < n; i++) w->parts[i].fd = -1;
    w->n_parts = n;
    for (int i = 0; i < n && !err; i++) {
        char *path = part_path(w, i);
        if (!path)
            err = rdg_fail(e, RDG_E_NOMEM, "no memory for the name of part %d of '%s'", i + 1, w->path);
        else
            err = rdg_out_open(&w->parts[i], path, e);
        rdg_free(path);
        if (!err) err = write_header(w, i, e);
    }
    return err;
}

/* All that can be decided before anything is written. */
static rdg_err prepare(rdg_gguf_writer *w)
{
    static const char *const own_keys[] = {RDG_GGUF_KEY_SPLIT_NO, RDG_GGUF_KEY_SPLIT_COUNT,
                                           RDG_GGUF_KEY_SPLIT_TENSORS};
    if (w->begun) keep(w, RDG_E_ARGUMENT, "the header was written already");
    for (int i = 0; i < RDG_COUNTOF(own_keys); i++) rdg_gguf_unset(w, own_keys[i]);
    if (!w->failed.code && !read_alignment(w)) lay_out(w);
    return w->failed.code;
}

rdg_err rdg_gguf_writer_measure(rdg_gguf_writer *w, uint64_t *bytes, rdg_error *e)
{
    *bytes = 0;
    if (prepare(w)) return report(w, e);
    for (int part = 0; part < w->n_parts; part++) {
        rdg_buf b;
        rdg_buf_init(&b);
        encode_header(w, part, &b);
        if (b.failed) keep(w, RDG_E_NOMEM, "no memory for the header of part %d", part + 1);
        *bytes += padded(w, b.len);
        rdg_buf_finish(&b);
    }
    for (int64_t i = 0; i < w->n_tensors; i++) *bytes += padded(w, w->tensors[i].bytes);
    w->n_parts = 0; /* of these none is open */
    return report(w, e);
}

rdg_err rdg_gguf_writer_begin(rdg_gguf_writer *w, rdg_error *e)
{
    if (prepare(w)) return report(w, e);
    w->begun = true;
    open_parts(w, &w->failed);
    return report(w, e);
}

/* Data
 * -------------------------------------------------------------------------------------------------------- */

rdg_err rdg_gguf_write_data(rdg_gguf_writer *w, const void *data, size_t n, rdg_error *e)
{
    if (w->failed.code) return report(w, e);
    if (n == 0) return RDG_OK;
    if (!w->begun || w->finished || w->current >= w->n_tensors) {
        keep(w, RDG_E_ARGUMENT, "%zu bytes of data, but %s", n,
             !w->begun ? "the header is not written yet" : "every declared tensor is complete");
        return report(w, e);
    }
    const write_tensor *t = &w->tensors[w->current];
    rdg_out *out = &w->parts[t->part];
    if (n > t->bytes - w->current_bytes) {
        keep(w, RDG_E_ARGUMENT,
             "tensor '%s' lacks %llu of its %llu bytes, %zu were given; a piece must not reach into "
             "the next tensor",
             t->name, (unsigned long long)(t->bytes - w->current_bytes), (unsigned long long)t->bytes, n);
        return report(w, e);
    }
    if (rdg_out_write(out, data, n, &w->failed)) return report(w, e);
    w->current_bytes += n;
    if (w->current_bytes == t->bytes) {
        w->current++;
        w->current_bytes = 0;
        rdg_out_zeros(out, (size_t)(padded(w, t->bytes) - t->bytes), &w->failed);
    }
    return report(w, e);
}

void rdg_gguf_writer_set_check(rdg_gguf_writer *w, rdg_gguf_check *check, void *user)
{
    w->check = check;
    w->check_user = user;
}

/* The parts' names appear one after the other; if one cannot, those before it are taken back. */
static rdg_err commit(rdg_gguf_writer *w, rdg_error *e)
{
    w->finished_bytes = rdg_gguf_writer_bytes(w);
    if (w->check && w->split)
        return rdg_fail(e, RDG_E_INTERNAL, "a split file is not checked before its end");
    if (w->check) {
        rdg_err err = rdg_out_flush(&w->parts[0], e);
        if (!err) err = w->check(w->check_user, w->parts[0].temp_path, e);
        if (err) return err;
    }
    for (int i = 0; i < w->n_parts; i++) {
        rdg_err err = rdg_out_commit(&w->parts[i], e);
        for (int k = 0; err && k < i; k++) {
            char *path = part_path(w, k);
            if (path) unlink(path);
            rdg_free(path);
        }
        if (err) return err;
    }
    return RDG_OK;
}

rdg_err rdg_gguf_writer_finish(rdg_gguf_writer *w, rdg_error *e)
{
    if (w->failed.code) return report(w, e);
    if (!w->begun || w->finished)
        keep(w, RDG_E_ARGUMENT,
             w->finished ? "the file is finished already" : "the header is not written yet");
    else if (w->current < w->n_tensors)
        keep(w, RDG_E_ARGUMENT, "tensor '%s' has %llu of its %llu bytes, %lld tensors lack data",
             w->tensors[w->current].name, (unsigned long long)w->current_bytes,
             (unsigned long long)w->tensors[w->current].bytes, (long long)(w->n_tensors - w->current));
    else if (!commit(w, &w->failed))
        w->finished = true;
    return report(w, e);
}

uint64_t rdg_gguf_writer_bytes(const rdg_gguf_writer *w)
{
    uint64_t sum = 0;
    if (w->finished) return w->finished_bytes;
    for (int i = 0; i < w->n_parts; i++) sum += w->parts[i].position;
    return sum;
}

rdg_err rdg_gguf_writer_patch_str(rdg_gguf_writer *w, const char *key, const char *v, rdg_error *e)
{
    if (w->failed.code) return report(w, e);
    const write_kv *kv = find_kv(w, key);
    size_t n = strlen(v);
    if (!w->begun || w->finished || !kv || kv->type != RDG_GGUF_STRING || kv->value.len != n + 8) {
        keep(w, RDG_E_ARGUMENT, "key '%s' cannot be changed to a string of %zu bytes: %s", key, n,
             !w->begun || w->finished ? "no header is open"
             : !kv                    ? "it is not set"
                                      : "only a string of the same length can");
        return report(w, e);
    }
    rdg_out_patch(&w->parts[0], kv->value_offset + 8, v, n, &w->failed);
    return report(w, e);
}
