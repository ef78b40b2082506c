/* From the mapped safetensors to the output in blocks of a few megabytes, so that memory does not grow with
 * the tensor: gather by the output's addressing, convert to f32, add 1 where asked, convert to the output's
 * type. Rows that need none of this are copied as they are. Threads share the rows of a block, so the bytes
 * do not depend on their number. */
#include "convert/stream.h"
#include "base/half.h"
#include "format/verify.h"
#include "quant/mxfp4.h"
#include <ridge/quantize.h>

#include <inttypes.h>
#include <string.h>

enum { BLOCK_ELEMENTS = 1 << 21 };

void rdg_hf_stream_finish(rdg_hf_stream *s)
{
    rdg_free(s->values);
    rdg_free(s->bytes);
    rdg_free(s->errors);
    memset(s, 0, sizeof *s);
}

static bool reserve(void *p, size_t *cap, size_t n, size_t elem_bytes)
{
    if (n <= *cap) return true;
    void *fresh = rdg_realloc_array(*(void **)p, n, elem_bytes);
    if (!fresh) return false;
    *(void **)p = fresh;
    *cap = n;
    return true;
}

/* Position of an output row: its matrix's source and the element (MXFP4: block) there that its column 0 is.
 */
static const rdg_safetensor *locate_row(const rdg_hf_output *o, int64_t row, int64_t *at)
{
    int64_t matrix = row / o->n_rows, r = row % o->n_rows;
    if (o->permute_head_dim > 0) {
        int64_t head = r / o->permute_head_dim, k = r % o->permute_head_dim;
        r = head * o->permute_head_dim + (k % 2) * (o->permute_head_dim / 2) + k / 2;
    }
    bool own = o->n_sources > 1;
    *at = o->offset + r * o->stride_row + (own ? 0 : matrix * o->stride_matrix);
    return o->source[own ? matrix : 0];
}

/* n elements, `stride` apart, as f32. The source is at any alignment. */
static void load(rdg_dtype dtype, const unsigned char *src, int64_t stride, int64_t n, float *dst,
                 int64_t dst_stride)
{
    switch (dtype) {
    case RDG_DTYPE_F32:
        for (int64_t i = 0; i < n; i++) memcpy(dst + i * dst_stride, src + i * stride * 4, 4);
        break;
    case RDG_DTYPE_F16:
        for (int64_t i = 0; i < n; i++) {
            rdg_half h;
            memcpy(&h, src + i * stride * 2, 2);
            dst[i * dst_stride] = rdg_half_to_f32(h);
        }
        break;
    case RDG_DTYPE_BF16:
        for (int64_t i = 0; i < n; i++) {
            rdg_bfloat16 h;
            memcpy(&h, src + i * stride * 2, 2);
            dst[i * dst_stride] = rdg_bfloat16_to_f32(h);
        }
        break;
    default: /* F64: nothing else gets here */
        for (int64_t i = 0; i < n; i++) {
            double d;
            memcpy(&d, src + i * stride * 8, 8);
            dst[i * dst_stride] = (float)d;
        }
        break;
    }
}

/* Rows [begin, end) into dst. Transposed sources are read along their contiguous axis, which is the rows
 * here. */
static void gather(const rdg_hf_output *o, int64_t begin, int64_t end, float *dst)
{
    for (int64_t row = begin; row < end;) {
        int64_t at, n = 1;
        const rdg_safetensor *t = locate_row(o, row, &at);
        size_t elem = rdg_dtype_bytes(t->dtype);
        const unsigned char *src = (const unsigned char *)t->data + (size_t)at * elem;
        float *out = dst + (row - begin) * o->n_columns;
        if (o->stride_column == 1 || o->permute_head_dim > 0) {
            load(t->dtype, src, o->stride_column, o->n_columns, out, 1);
        } else {
            n = RDG_MIN(end - row, o->n_rows - row % o->n_rows);
            for (int64_t c = 0; c < o->n_columns; c++)
                load(t->dtype, src + (size_t)(c * o->stride_column) * elem, o->stride_row, n, out + c,
                     o->n_columns);
        }
        row += n;
    }
    if (o->rule->flags & RDG_MAP_PLUS_ONE)
        for (int64_t i = 0; i < (end - begin) * o->n_columns; i++) dst[i] += 1.0f;
}

/* One block of rows in flight. */
typedef struct job {
    const rdg_hf_output *o;
    const float *importance;
    int64_t first, n; /* rows */
    int64_t row_bytes;
    float *values;
    unsigned char *bytes;
    rdg_error *error; /* one a thread */
} job;

/* The framework's packing has elements 2b and 2b + 1 in byte b, GGUF's has b and b + 16. */
static rdg_err regroup_mxfp4(const rdg_hf_output *o, int64_t row, unsigned char *dst, rdg_error *e)
{
    int64_t at, n_blocks = o->n_columns / 32;
    const rdg_safetensor *t = locate_row(o, row, &at);
    const unsigned char *src = (const unsigned char *)t->data + at * 16,
                        *scale = (const unsigned char *)o->scales->data + at;
    for (int64_t k = 0; k < n_blocks; k++, src += 16) {
        rdg_block_mxfp4 b = {.e = scale[k]};
        if (b.e == 255)
            return rdg_fail(e, RDG_E_MALFORMED, "tensor '%s', row %" PRId64 ": scale 255 is not a number",
                            o->scales->name, row);
        for (int j = 0; j < 16; j++) {
            unsigned lo = src[j / 2] >> (j % 2 * 4) & 15, hi = src[8 + j / 2] >> (j % 2 * 4) & 15;
            b.qs[j] = (uint8_t)(lo | hi << 4);
        }
        memcpy(dst + k * (int64_t)sizeof b, &b, sizeof b);
    }
    return RDG_OK;
}

/* f32 → f16 with an error in place of infinity. */
static rdg_err to_half(const rdg_hf_output *o, const float *x, unsigned char *dst, int64_t n, rdg_error *e)
{
    for (int64_t i = 0; i < n; i++) {
        rdg_half h = rdg_half_from_f32(x[i]);
        if ((h & 0x7fffu) == 0x7c00u && isfinite(x[i]))
            return rdg_fail(e, RDG_E_LIMIT, "tensor '%s' holds %g, beyond the 65504 of F16; use BF16 or F32",
                            o->name, (double)x[i]);
        memcpy(dst + i * 2, &h, 2);
    }
    return RDG_OK;
}

static rdg_err encode_rows(const job *j, int64_t begin, int64_t end, rdg_error *e)
{
    const rdg_hf_output *o = j->o;
    float *values = j->values + (begin - j->first) * o->n_columns;
    unsigned char *dst = j->bytes + (begin - j->first) * j->row_bytes;
    rdg_err err = RDG_OK;
    if (o->present == RDG_TYPE_MXFP4) {
        for (int64_t r = begin; r < end && !err; r++)
            err = regroup_mxfp4(o, r, dst + (r - begin) * j->row_bytes, e);
        return err;
    }
    gather(o, begin, end, values);
    if (o->type == RDG_TYPE_F32) {
        memcpy(dst, values, (size_t)((end - begin) * j->row_bytes));
        return RDG_OK;
    }
    if (o->type == RDG_TYPE_F16) return to_half(o, values, dst, (end - begin) * o->n_columns, e);
    for (int64_t r = begin; r < end && !err; r++) {
        const float *importance = j->importance ? j->importance + r / o->n_rows * o->n_columns : NULL;
        err = rdg_quantise_rows(o->type, values + (r - begin) * o->n_columns,
                                dst + (r - begin) * j->row_bytes, 1, o->n_columns, importance, e);
        if (err) rdg_fail_prefix(e, err, "tensor '%s', row %" PRId64, o->name, r);
    }
    return err;
}

static void encode_part(void *ctx, int thread, int n_threads)
{
    job *j = ctx;
    int64_t begin = j->first + j->n * thread / n_threads, end = j->first + j->n * (thread + 1) / n_threads;
    if (begin < end) encode_rows(j, begin, end, &j->error[thread]);
}

/* The source's own bytes are the output's. */
static bool is_copy(const rdg_hf_output *o)
{
    return o->rule && o->present == o->type && o->present != RDG_TYPE_MXFP4 && o->stride_column == 1 &&
           o->source[0]->dtype != RDG_DTYPE_F64 && !(o->rule->flags & RDG_MAP_PLUS_ONE) &&
           o->permute_head_dim == 0;
}

/* Whole blocks of the present tensor. What reaches the file is finite, whatever way it came. */
static rdg_err emit(rdg_hf_stream *s, const rdg_hf_output *o, const void *data, size_t n, rdg_error *e)
{
    int64_t first;
    if (rdg_blocks_not_finite(o->type, data, (int64_t)n / rdg_type_block_bytes(o->type), &first) > 0)
        return rdg_fail(e, RDG_E_MALFORMED, "tensor '%s' (%s): the source holds a value that is not finite",
                        o->name, rdg_type_name(o->type));
    rdg_hash64_update(&s->hash, data, n);
    return rdg_gguf_write_data(s->writer, data, n, e);
}

static rdg_err copy_rows(rdg_hf_stream *s, const rdg_hf_output *o, int64_t first, int64_t n, rdg_error *e)
{
    rdg_err err = RDG_OK;
    int64_t row_bytes = rdg_type_row_bytes(o->type, o->n_columns);
    for (int64_t r = first; r < first + n && !err;) {
        int64_t at, run = 1;
        const rdg_safetensor *t = locate_row(o, r, &at);
        /* rows of one matrix that lie behind each other */
        if (o->stride_row == o->n_columns) run = RDG_MIN(first + n - r, o->n_rows - r % o->n_rows);
        const unsigned char *src = (const unsigned char *)t->data + (size_t)at * rdg_dtype_bytes(t->dtype);
        err = emit(s, o, src, (size_t)(run * row_bytes), e);
        r += run;
    }
    return err;
}

static rdg_err convert_rows(rdg_hf_stream *s, job *j, rdg_error *e)
{
    rdg_pool_run(s->pool, encode_part, j);
    for (int i = 0; i < rdg_pool_threads(s->pool); i++) {
        if (!j->error[i].code) continue;
        if (e) *e = j->error[i];
        return j->error[i].code;
    }
    return emit(s, j->o, j->bytes, (size_t)(j->n * j->row_bytes), e);
}

/* The source of rows [first, first + n) has been used. Where rows lie one behind the other it leaves the
 * resident set at once (permuted rows: give or take a head, which is read again); transposed tensors stay
 * until their end. */
static void release_rows(const rdg_hf_output *o, int64_t first, int64_t n)
{
    if (o->stride_column != 1 || o->present == RDG_TYPE_MXFP4) return;
    for (int64_t row = first; row < first + n;) {
        int64_t matrix = row / o->n_rows, r = row % o->n_rows, run = RDG_MIN(first + n - row, o->n_rows - r);
        const rdg_safetensor *t = o->source[o->n_sources > 1 ? matrix : 0];
        int64_t at = o->offset + r * o->stride_row + (o->n_sources > 1 ? 0 : matrix * o->stride_matrix);
        size_t elem = rdg_dtype_bytes(t->dtype);
        rdg_map_release((const unsigned char *)t->data + (size_t)at * elem,
                        (size_t)((run - 1) * o->stride_row + o->n_columns) * elem);
        row += run;
    }
}

static void release_sources(const rdg_hf_output *o)
{
    for (int64_t i = 0; i < o->n_sources; i++)
        if (o->source[i]) rdg_map_release(o->source[i]->data, o->source[i]->bytes);
    if (o->scales) rdg_map_release(o->scales->data, o->scales->bytes);
}

rdg_err rdg_hf_stream_write(rdg_hf_stream *s, const rdg_hf_output *o, const float *importance, rdg_error *e)
{
    rdg_hash64_init(&s->hash);
    if (o->generated) return emit(s, o, o->generated, (size_t)o->n_columns * sizeof(float), e);
    int64_t rows = o->n_rows * o->n_matrices, step = RDG_MAX(BLOCK_ELEMENTS / o->n_columns, 1);
    rdg_err err = RDG_OK;
    job j = {.o = o, .importance = importance, .row_bytes = rdg_type_row_bytes(o->type, o->n_columns)};
    step = RDG_MIN(step, rows);
    if (j.row_bytes < 0)
        return rdg_fail(e, RDG_E_INTERNAL, "tensor '%s': rows of %" PRId64 " cannot be %s", o->name,
                        o->n_columns, rdg_type_name(o->type));
    if (!is_copy(o)) {
        if (!reserve(&s->values, &s->values_cap, (size_t)(step * o->n_columns), sizeof *s->values) ||
            !reserve(&s->bytes, &s->bytes_cap, (size_t)(step * j.row_bytes), 1))
            return rdg_fail(e, RDG_E_NOMEM, "no memory for %" PRId64 " rows of '%s'", step, o->name);
        if (!s->errors) s->errors = rdg_alloc_array((size_t)rdg_pool_threads(s->pool), sizeof *s->errors);
        if (!s->errors) return rdg_fail(e, RDG_E_NOMEM, "no memory for errors");
        j.error = s->errors; /* the first one ends the conversion, so they need no clearing */
        j.values = s->values;
        j.bytes = s->bytes;
    }
    for (int64_t r = 0; r < rows && !err; r += step) {
        j.first = r;
        j.n = RDG_MIN(step, rows - r);
        err = is_copy(o) ? copy_rows(s, o, r, j.n, e) : convert_rows(s, &j, e);
        release_rows(o, r, j.n);
    }
    release_sources(o);
    return err;
}
