/* A GGUF model as its users see it: opening one file or all parts of a split model, and typed access to
 * metadata. */
#include "format/gguf.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static rdg_err create(rdg_gguf **out, rdg_error *e)
{
    rdg_gguf *g = rdg_alloc(sizeof *g);
    *out = g;
    if (!g) return rdg_fail(e, RDG_E_NOMEM, "no memory for a GGUF reader");
    rdg_arena_init(&g->arena);
    rdg_strmap_init(&g->tensor_names);
    return RDG_OK;
}

void rdg_gguf_close(rdg_gguf *g)
{
    if (!g) return;
    for (int i = 0; i < g->n_parts; i++) {
        rdg_gguf_part *part = &g->parts[i];
        rdg_strmap_finish(&part->kv_names);
        if (part->path) rdg_map_close(&part->map);
        rdg_free(part->path);
    }
    rdg_free(g->parts);
    rdg_free(g->tensors);
    rdg_strmap_finish(&g->tensor_names);
    rdg_arena_finish(&g->arena);
    rdg_free(g);
}

/* Makes room for n parts in all; the new ones are empty but safe to close. */
static rdg_err reserve_parts(rdg_gguf *g, int n, rdg_error *e)
{
    rdg_gguf_part *parts = rdg_realloc_array(g->parts, (size_t)n, sizeof *parts);
    if (!parts) return rdg_fail(e, RDG_E_NOMEM, "no memory for %d parts of a GGUF model", n);
    g->parts = parts;
    return RDG_OK;
}

static rdg_err open_part(rdg_gguf *g, const char *path, const rdg_log *log, rdg_error *e)
{
    rdg_gguf_part *part = &g->parts[g->n_parts];
    rdg_err err;
    *part = (rdg_gguf_part){.map = {.fd = -1}};
    rdg_strmap_init(&part->kv_names);
    g->n_parts++;
    if (!(part->path = rdg_strdup(path))) return rdg_fail(e, RDG_E_NOMEM, "no memory to open '%s'", path);
    if ((err = rdg_map_open(&part->map, path, e))) return err;
    part->data = part->map.data;
    part->bytes = part->map.bytes;
    if ((err = rdg_gguf_read_part(g, g->n_parts - 1, log, e))) rdg_fail_prefix(e, err, "'%s'", path);
    return err;
}

/* Split models
 * ------------------------------------------------------------------------------------------------ */

/* An integer of any type from min to max, or -1 with the message set. */
static int64_t split_number(const rdg_gguf_part *part, const char *key, int64_t min, int64_t max,
                            rdg_error *e)
{
    const rdg_gguf_kv *kv = rdg_gguf_part_find(part, key);
    if (!kv) {
        rdg_fail(e, RDG_E_MALFORMED, "'%s': key '%s' is missing, every part of a split model has it",
                 part->path, key);
        return -1;
    }
    size_t bytes = rdg_gguf_value_bytes(kv->type);
    bool is_int =
        bytes && kv->type != RDG_GGUF_BOOL && kv->type != RDG_GGUF_FLOAT32 && kv->type != RDG_GGUF_FLOAT64;
    int64_t v = is_int ? rdg_gguf_kv_int(kv, 0) : -1;
    if (v >= min && v <= max) return v;
    rdg_fail(e, RDG_E_MALFORMED,
             "'%s': offset %llu: key '%s' is no integer from %lld to %lld; split the model again", part->path,
             (unsigned long long)(kv->data - part->data), key, (long long)min, (long long)max);
    return -1;
}

/* The name of part i of n, made from the name of the first part. NULL on exhaustion. */
static char *part_path(const char *first, size_t prefix_bytes, int i, int n)
{
    return rdg_format("%.*s-%05d-of-%05d.gguf", (int)prefix_bytes, first, i + 1, n);
}

static rdg_err check_part(const rdg_gguf *g, int index, int n_parts, rdg_error *e)
{
    const rdg_gguf_part *part = &g->parts[index];
    int64_t no = split_number(part, RDG_GGUF_KEY_SPLIT_NO, 0, RDG_GGUF_MAX_PARTS, e);
    int64_t count = no < 0 ? -1 : split_number(part, RDG_GGUF_KEY_SPLIT_COUNT, 0, RDG_GGUF_MAX_PARTS, e);
    if (count < 0) return RDG_E_MALFORMED;
    if (count != n_parts || no != index)
        return rdg_fail(
            e, RDG_E_MALFORMED,
            "'%s': says it is part %lld of %lld where part %d of %d belongs; parts of different models were "
            "mixed: fetch all parts again",
            part->path, (long long)no + 1, (long long)count, index + 1, n_parts);
    return RDG_OK;
}

static rdg_err open_other_parts(rdg_gguf *g, const rdg_log *log, rdg_error *e)
{
    const char *first = g->parts[0].path;
    int64_t n = split_number(&g->parts[0], RDG_GGUF_KEY_SPLIT_COUNT, 0, RDG_GGUF_MAX_PARTS, e), no, total;
    char *path = NULL;
    char suffix[48];
    size_t length = strlen(first), suffix_bytes;
    rdg_err err = RDG_OK;
    if (n < 0) return RDG_E_MALFORMED;
    if (n <= 1) return RDG_OK; /* a split that left one part is an ordinary file */
    if ((no = split_number(&g->parts[0], RDG_GGUF_KEY_SPLIT_NO, 0, RDG_GGUF_MAX_PARTS, e)) < 0)
        return RDG_E_MALFORMED;
    if (no != 0)
        return rdg_fail(e, RDG_E_ARGUMENT,
                        "'%s' is part %lld of %lld of a split model; open the first part (…-00001-of-"
                        "%05lld.gguf)",
                        first, (long long)no + 1, (long long)n, (long long)n);
    snprintf(suffix, sizeof suffix, "-00001-of-%05lld.gguf", (long long)n);
    suffix_bytes = strlen(suffix);
    if (length <= suffix_bytes || strcmp(first + length - suffix_bytes, suffix) != 0)
        return rdg_fail(e, RDG_E_UNSUPPORTED,
                        "'%s' is the first of %lld parts, whose names must end in '%s' and so on; "
                        "rename the parts",
                        first, (long long)n, suffix);
    total = split_number(&g->parts[0], RDG_GGUF_KEY_SPLIT_TENSORS, 0, RDG_GGUF_MAX_TENSORS, e);
    if (total < 0) return RDG_E_MALFORMED;
    if ((err = reserve_parts(g, (int)n, e))) return err;
    for (int i = 1; i < (int)n; i++) {
        rdg_free(path);
        if (!(path = part_path(g->parts[0].path, length - suffix_bytes, i, (int)n)))
            return rdg_fail(e, RDG_E_NOMEM, "no memory for the name of part %d", i + 1);
        if ((err = open_part(g, path, log, e))) goto done;
        if ((err = check_part(g, i, (int)n, e))) goto done;
    }
    if (g->n_tensors != total)
        err = rdg_fail(e, RDG_E_MALFORMED,
                       "'%s': the parts hold %lld tensors, key '%s' says %lld; fetch all parts again", first,
                       (long long)g->n_tensors, RDG_GGUF_KEY_SPLIT_TENSORS, (long long)total);
done:
    rdg_free(path);
    return err;
}

rdg_err rdg_gguf_open(const char *path, const rdg_log *log, rdg_gguf **out, rdg_error *e)
{
    rdg_gguf *g;
    *out = NULL;
    if (rdg_is_directory(path))
        return rdg_fail(e, RDG_E_IO,
                        "'%s' is a directory, a GGUF file is needed; `ridge convert` makes one of a Hugging "
                        "Face folder",
                        path);
    rdg_err err = create(&g, e);
    if (err) return err;
    if ((err = reserve_parts(g, 1, e))) goto fail;
    if ((err = open_part(g, path, log, e))) goto fail;
    if (rdg_gguf_part_find(&g->parts[0], RDG_GGUF_KEY_SPLIT_COUNT) && (err = open_other_parts(g, log, e)))
        goto fail;
    *out = g;
    return RDG_OK;
fail:
    rdg_gguf_close(g);
    return err;
}

rdg_err rdg_gguf_parse(const void *data, size_t bytes, rdg_gguf **out, rdg_error *e)
{
    const rdg_gguf_kv *split;
    rdg_gguf *g;
    rdg_err err = create(&g, e);
    *out = NULL;
    if (err) return err;
    if ((err = reserve_parts(g, 1, e))) goto fail;
    g->parts[0] = (rdg_gguf_part){.map = {.fd = -1}, .data = data, .bytes = bytes};
    rdg_strmap_init(&g->parts[0].kv_names);
    g->n_parts = 1;
    if ((err = rdg_gguf_read_part(g, 0, NULL, e))) goto fail;
    split = rdg_gguf_find(g, RDG_GGUF_KEY_SPLIT_COUNT);
    if (split && (split->type == RDG_GGUF_ARRAY || rdg_gguf_kv_int(split, 0) > 1)) {
        err = rdg_fail(e, RDG_E_UNSUPPORTED,
                       "offset %llu: key '%s': a part of a split model cannot be read from memory; "
                       "open the file",
                       (unsigned long long)(split->data - g->parts[0].data), RDG_GGUF_KEY_SPLIT_COUNT);
        goto fail;
    }
    *out = g;
    return RDG_OK;
fail:
    rdg_gguf_close(g);
    return err;
}

/* Plain access
 * ------------------------------------------------------------------------------------------------ */

uint32_t rdg_gguf_version(const rdg_gguf *g)
{
    return g->parts[0].version;
}

const char *rdg_gguf_path(const rdg_gguf *g)
{
    return g->parts[0].path ? g->parts[0].path : "";
}

int rdg_gguf_n_parts(const rdg_gguf *g)
{
    return g->n_parts;
}

uint64_t rdg_gguf_file_bytes(const rdg_gguf *g)
{
    uint64_t sum = 0;
    for (int i = 0; i < g->n_parts; i++) sum += g->parts[i].bytes;
    return sum;
}

uint32_t rdg_gguf_alignment(const rdg_gguf *g)
{
    return g->parts[0].alignment;
}

rdg_err rdg_gguf_recheck(const rdg_gguf *g, rdg_error *e)
{
    rdg_err err = RDG_OK;
    for (int i = 0; i < g->n_parts && !err; i++)
        if (g->parts[i].path) err = rdg_map_recheck(&g->parts[i].map, g->parts[i].path, e);
    return err;
}

int64_t rdg_gguf_n_kv(const rdg_gguf *g)
{
    return g->parts[0].n_kv;
}

const rdg_gguf_kv *rdg_gguf_kv_at(const rdg_gguf *g, int64_t i)
{
    return i >= 0 && i < g->parts[0].n_kv ? &g->parts[0].kv[i] : NULL;
}

const rdg_gguf_kv *rdg_gguf_find(const rdg_gguf *g, const char *key)
{
    return rdg_gguf_part_find(&g->parts[0], key);
}

int64_t rdg_gguf_n_tensors(const rdg_gguf *g)
{
    return g->n_tensors;
}

const rdg_gguf_tensor *rdg_gguf_tensor_at(const rdg_gguf *g, int64_t i)
{
    return i >= 0 && i < g->n_tensors ? &g->tensors[i] : NULL;
}

const rdg_gguf_tensor *rdg_gguf_tensor_find(const rdg_gguf *g, const char *name)
{
    return rdg_gguf_tensor_at(g, rdg_strmap_get(&g->tensor_names, name, strlen(name)));
}

/* Typed access
 * ------------------------------------------------------------------------------------------------ */

typedef union number {
    uint8_t u8;
    int8_t i8;
    uint16_t u16;
    int16_t i16;
    uint32_t u32;
    int32_t i32;
    uint64_t u64;
    int64_t i64;
    float f32;
    double f64;
    unsigned char bytes[8];
} number;

static number load(const rdg_gguf_kv *kv, uint64_t i)
{
    number n = {.u64 = 0};
    size_t bytes = rdg_gguf_value_bytes(kv->element_type);
    if (bytes) memcpy(n.bytes, kv->data + i * bytes, bytes);
    return n;
}

static int64_t to_int(double v)
{
    if (!(v > -0x1p63)) return INT64_MIN; /* NaN too */
    return v < 0x1p63 ? (int64_t)v : INT64_MAX;
}

int64_t rdg_gguf_kv_int(const rdg_gguf_kv *kv, uint64_t i)
{
    number n = load(kv, i);
    switch (kv->element_type) {
    case RDG_GGUF_UINT8:
    case RDG_GGUF_BOOL: return n.u8;
    case RDG_GGUF_INT8: return n.i8;
    case RDG_GGUF_UINT16: return n.u16;
    case RDG_GGUF_INT16: return n.i16;
    case RDG_GGUF_UINT32: return n.u32;
    case RDG_GGUF_INT32: return n.i32;
    case RDG_GGUF_UINT64: return n.u64 > INT64_MAX ? INT64_MAX : (int64_t)n.u64;
    case RDG_GGUF_INT64: return n.i64;
    case RDG_GGUF_FLOAT32: return to_int(n.f32);
    case RDG_GGUF_FLOAT64: return to_int(n.f64);
    default: return 0;
    }
}

double rdg_gguf_kv_float(const rdg_gguf_kv *kv, uint64_t i)
{
    number n = load(kv, i);
    switch (kv->element_type) {
    case RDG_GGUF_FLOAT32: return n.f32;
    case RDG_GGUF_FLOAT64: return n.f64;
    case RDG_GGUF_UINT64: return (double)n.u64;
    default: return (double)rdg_gguf_kv_int(kv, i);
    }
}

/* Values whose use as an integer is exact. */
static bool is_integer(const rdg_gguf_kv *kv)
{
    switch (kv->type) {
    case RDG_GGUF_UINT8:
    case RDG_GGUF_INT8:
    case RDG_GGUF_UINT16:
    case RDG_GGUF_INT16:
    case RDG_GGUF_UINT32:
    case RDG_GGUF_INT32:
    case RDG_GGUF_UINT64:
    case RDG_GGUF_INT64: return true;
    default: return false;
    }
}

static rdg_err wrong(const rdg_gguf *g, const rdg_gguf_kv *kv, const char *needed, rdg_error *e)
{
    char type[48];
    if (kv->type == RDG_GGUF_ARRAY)
        snprintf(type, sizeof type, "an array of %s", rdg_gguf_value_name(kv->element_type));
    else
        snprintf(type, sizeof type, "a %s value", rdg_gguf_value_name(kv->type));
    return rdg_fail(e, RDG_E_MALFORMED,
                    "offset %llu: key %s holds %s where %s is needed; convert the model again",
                    (unsigned long long)(kv->data - g->parts[0].data), rdg_quote(kv->key.p, kv->key.n).text,
                    type, needed);
}

static rdg_err out_of_range(const rdg_gguf *g, const rdg_gguf_kv *kv, const char *needed, rdg_error *e)
{
    number n = load(kv, 0);
    char value[32];
    if (kv->type == RDG_GGUF_UINT64)
        snprintf(value, sizeof value, "%llu", (unsigned long long)n.u64);
    else if (is_integer(kv))
        snprintf(value, sizeof value, "%lld", (long long)rdg_gguf_kv_int(kv, 0));
    else
        snprintf(value, sizeof value, "%g", rdg_gguf_kv_float(kv, 0));
    return rdg_fail(e, RDG_E_MALFORMED, "offset %llu: key %s is %s, it must be %s; convert the model again",
                    (unsigned long long)(kv->data - g->parts[0].data), rdg_quote(kv->key.p, kv->key.n).text,
                    value, needed);
}

rdg_err rdg_gguf_get_u32(const rdg_gguf *g, const char *key, uint32_t *v, rdg_error *e)
{
    const rdg_gguf_kv *kv = rdg_gguf_find(g, key);
    if (!kv) return RDG_E_NOT_FOUND;
    if (!is_integer(kv)) return wrong(g, kv, "an integer", e);
    int64_t i = rdg_gguf_kv_int(kv, 0);
    if (i < 0 || i > UINT32_MAX) return out_of_range(g, kv, "0 to 4294967295", e);
    *v = (uint32_t)i;
    return RDG_OK;
}

rdg_err rdg_gguf_get_i64(const rdg_gguf *g, const char *key, int64_t *v, rdg_error *e)
{
    const rdg_gguf_kv *kv = rdg_gguf_find(g, key);
    if (!kv) return RDG_E_NOT_FOUND;
    if (!is_integer(kv)) return wrong(g, kv, "an integer", e);
    if (kv->type == RDG_GGUF_UINT64 && load(kv, 0).u64 > INT64_MAX)
        return out_of_range(g, kv, "below 2^63", e);
    *v = rdg_gguf_kv_int(kv, 0);
    return RDG_OK;
}

rdg_err rdg_gguf_get_f32(const rdg_gguf *g, const char *key, float *v, rdg_error *e)
{
    const rdg_gguf_kv *kv = rdg_gguf_find(g, key);
    if (!kv) return RDG_E_NOT_FOUND;
    if (kv->type != RDG_GGUF_FLOAT32 && kv->type != RDG_GGUF_FLOAT64)
        return wrong(g, kv, "a floating-point number", e);
    double d = rdg_gguf_kv_float(kv, 0);
    if (!(fabs(d) <= FLT_MAX)) return out_of_range(g, kv, "a finite number that fits 32 bits", e);
    *v = (float)d;
    return RDG_OK;
}

rdg_err rdg_gguf_get_bool(const rdg_gguf *g, const char *key, bool *v, rdg_error *e)
{
    const rdg_gguf_kv *kv = rdg_gguf_find(g, key);
    if (!kv) return RDG_E_NOT_FOUND;
    if (kv->type != RDG_GGUF_BOOL) return wrong(g, kv, "a BOOL", e);
    *v = kv->data[0] != 0;
    return RDG_OK;
}

rdg_err rdg_gguf_get_str(const rdg_gguf *g, const char *key, rdg_str *v, rdg_error *e)
{
    const rdg_gguf_kv *kv = rdg_gguf_find(g, key);
    if (!kv) return RDG_E_NOT_FOUND;
    if (kv->type != RDG_GGUF_STRING) return wrong(g, kv, "a string", e);
    *v = kv->strings[0];
    return RDG_OK;
}

rdg_err rdg_gguf_get_array(const rdg_gguf *g, const char *key, rdg_gguf_value_type element,
                           const rdg_gguf_kv **kv, rdg_error *e)
{
    const rdg_gguf_kv *found = rdg_gguf_find(g, key);
    *kv = NULL;
    if (!found) return RDG_E_NOT_FOUND;
    if (found->type != RDG_GGUF_ARRAY || found->element_type != element) {
        char needed[48];
        snprintf(needed, sizeof needed, "an array of %s", rdg_gguf_value_name(element));
        return wrong(g, found, needed, e);
    }
    *kv = found;
    return RDG_OK;
}
