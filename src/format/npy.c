#include "format/npy.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define MAGIC "\x93NUMPY"
enum { MAGIC_BYTES = 6, WRITTEN_HEADER_BYTES = 128, MAX_HEADER_BYTES = 64 * 1024 };

/* Writing
 * ----------------------------------------------------------------------------------------------------- */

/* Always the same length, so that the number of rows can be filled in at the end. */
static void format_header(char header[WRITTEN_HEADER_BYTES], int64_t n_rows, int64_t n_columns)
{
    const uint16_t length = WRITTEN_HEADER_BYTES - 10;
    memset(header, ' ', WRITTEN_HEADER_BYTES);
    memcpy(header, MAGIC "\1\0", 8);
    memcpy(header + 8, &length, sizeof length);
    int n = snprintf(header + 10, length, "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %lld), }",
                     (long long)n_rows, (long long)n_columns);
    header[10 + n] = ' ';
    header[WRITTEN_HEADER_BYTES - 1] = '\n';
}

rdg_err rdg_npy_writer_open(rdg_npy_writer *w, const char *path, int64_t n_columns, rdg_error *e)
{
    char header[WRITTEN_HEADER_BYTES];
    *w = (rdg_npy_writer){.out = {.fd = -1}, .n_columns = n_columns};
    if (n_columns < 1 || n_columns > INT32_MAX)
        return rdg_fail(e, RDG_E_ARGUMENT, "'%s': %lld columns, 1 to %d are needed", path,
                        (long long)n_columns, INT32_MAX);
    rdg_err err = rdg_out_open(&w->out, path, e);
    if (err) return err;
    format_header(header, 0, n_columns);
    if ((err = rdg_out_write(&w->out, header, sizeof header, e))) rdg_npy_writer_close(w);
    return err;
}

rdg_err rdg_npy_write_rows(rdg_npy_writer *w, const float *rows, int64_t n_rows, rdg_error *e)
{
    size_t bytes;
    if (n_rows < 0 || RDG_MUL_OVERFLOW((size_t)n_rows, (size_t)w->n_columns * sizeof *rows, &bytes))
        return rdg_fail(e, RDG_E_ARGUMENT, "'%s': %lld rows of %lld columns are too many", w->out.path,
                        (long long)n_rows, (long long)w->n_columns);
    rdg_err err = rdg_out_write(&w->out, rows, bytes, e);
    if (!err) w->n_rows += n_rows;
    return err;
}

rdg_err rdg_npy_writer_commit(rdg_npy_writer *w, rdg_error *e)
{
    char header[WRITTEN_HEADER_BYTES];
    format_header(header, w->n_rows, w->n_columns);
    rdg_err err = rdg_out_patch(&w->out, 0, header, sizeof header, e);
    return err ? err : rdg_out_commit(&w->out, e);
}

void rdg_npy_writer_close(rdg_npy_writer *w)
{
    rdg_out_close(&w->out);
}

/* Reading
 * ----------------------------------------------------------------------------------------------------- */

/* The header is a Python dictionary of three known keys; this reads just that much of the language. */
typedef struct cursor {
    const char *p, *end;
} cursor;

static void skip_spaces(cursor *c)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n')) c->p++;
}

static bool eat(cursor *c, const char *token)
{
    size_t n = strlen(token);
    skip_spaces(c);
    if ((size_t)(c->end - c->p) < n || memcmp(c->p, token, n) != 0) return false;
    c->p += n;
    return true;
}

static bool eat_number(cursor *c, int64_t *v)
{
    const char *start;
    skip_spaces(c);
    *v = 0;
    for (start = c->p; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++)
        if (RDG_MUL_OVERFLOW(*v, (int64_t)10, v) || RDG_ADD_OVERFLOW(*v, (int64_t)(*c->p - '0'), v))
            return false;
    return c->p > start;
}

static bool eat_shape(cursor *c, rdg_npy *out)
{
    if (!eat(c, "(")) return false;
    while (!eat(c, ")")) {
        if (out->n_dims >= RDG_NPY_MAX_DIMS || !eat_number(c, &out->shape[out->n_dims])) return false;
        out->n_dims++;
        if (!eat(c, ",")) return eat(c, ")");
    }
    return true;
}

static rdg_err read_dictionary(cursor *c, rdg_npy *out, rdg_error *e)
{
    bool type = false, order = false, shape = false;
    if (!eat(c, "{")) goto malformed;
    while (!eat(c, "}")) {
        if (!type && eat(c, "'descr':")) {
            type = true;
            if (eat(c, "'<f4'"))
                out->type = RDG_NPY_FLOAT32;
            else if (eat(c, "'<i4'"))
                out->type = RDG_NPY_INT32;
            else
                return rdg_fail(e, RDG_E_UNSUPPORTED,
                                "npy: an element type other than '<f4' and '<i4'; save the array as "
                                "float32 or int32");
        } else if (!order && eat(c, "'fortran_order':")) {
            order = true;
            if (!eat(c, "False"))
                return rdg_fail(e, RDG_E_UNSUPPORTED,
                                "npy: an array in Fortran order; save it with order='C'");
        } else if (!shape && eat(c, "'shape':")) {
            shape = true;
            if (!eat_shape(c, out)) goto malformed;
        } else {
            goto malformed;
        }
        if (!eat(c, ",") && !eat(c, "}")) goto malformed;
        if (c->p[-1] == '}') break;
    }
    skip_spaces(c);
    if (type && order && shape && c->p == c->end) return RDG_OK;
malformed:
    return rdg_fail(e, RDG_E_MALFORMED,
                    "npy: the header is not understood; it must hold descr, fortran_order and a shape of "
                    "at most %d dimensions",
                    RDG_NPY_MAX_DIMS);
}

rdg_err rdg_npy_parse(const void *data, size_t bytes, rdg_npy *out, rdg_error *e)
{
    const char *p = data;
    uint32_t header_bytes = 0;
    size_t prefix_bytes;
    int64_t n = 1;
    *out = (rdg_npy){.shape = {1, 1, 1, 1}};
    if (bytes < MAGIC_BYTES + 6 || memcmp(p, MAGIC, MAGIC_BYTES) != 0)
        return rdg_fail(e, RDG_E_MALFORMED, "npy: the file does not begin with \\x93NUMPY");
    if (p[6] < 1 || p[6] > 3) return rdg_fail(e, RDG_E_UNSUPPORTED, "npy: version %d, 1 to 3 are read", p[6]);
    prefix_bytes = p[6] == 1 ? 10 : 12;
    memcpy(&header_bytes, p + 8, prefix_bytes - 8);
    if (header_bytes > bytes - prefix_bytes || header_bytes > MAX_HEADER_BYTES)
        return rdg_fail(e, RDG_E_MALFORMED, "npy: a header of %u bytes in a file of %zu", header_bytes,
                        bytes);
    cursor c = {p + prefix_bytes, p + prefix_bytes + header_bytes};
    rdg_err err = read_dictionary(&c, out, e);
    if (err) return err;
    for (int i = 0; i < out->n_dims; i++)
        if (RDG_MUL_OVERFLOW(n, out->shape[i], &n))
            return rdg_fail(e, RDG_E_MALFORMED, "npy: the number of elements does not fit 63 bits");
    size_t data_bytes = bytes - prefix_bytes - header_bytes;
    if ((uint64_t)n > data_bytes / 4 || (uint64_t)n * 4 != data_bytes)
        return rdg_fail(e, RDG_E_MALFORMED, "npy: %zu bytes of data do not match the shape of %lld elements",
                        data_bytes, (long long)n);
    void *copy = rdg_alloc(data_bytes);
    if (!copy) return rdg_fail(e, RDG_E_NOMEM, "no memory for %lld elements of an npy file", (long long)n);
    if (data_bytes) memcpy(copy, p + prefix_bytes + header_bytes, data_bytes);
    out->n_elements = n;
    if (out->type == RDG_NPY_FLOAT32)
        out->f32 = copy;
    else
        out->i32 = copy;
    return RDG_OK;
}

rdg_err rdg_npy_read(const char *path, rdg_npy *out, rdg_error *e)
{
    rdg_map map;
    *out = (rdg_npy){0};
    rdg_err err = rdg_map_open(&map, path, e);
    if (err) return err;
    if ((err = rdg_npy_parse(map.data, map.bytes, out, e))) rdg_fail_prefix(e, err, "'%s'", path);
    rdg_map_close(&map);
    return err;
}

void rdg_npy_finish(rdg_npy *a)
{
    rdg_free(a->f32);
    rdg_free(a->i32);
    *a = (rdg_npy){0};
}
