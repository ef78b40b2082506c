#include "ops/check_data.h"
#include "ops/rows.h"
#include "quant/quant.h"

#include <math.h>
#include <string.h>

enum { GUARD_BYTES = 256 };

/* Bytes of a block that hold its floating-point scales: random bits there would be NaN or absurd, all others
 * may be anything. Types that are not listed are always made by quantising. */
typedef struct scale_bytes {
    rdg_type type;
    int first, n;
} scale_bytes;
static const scale_bytes scales[] = {
    {RDG_TYPE_Q4_0, 0, 2},   {RDG_TYPE_Q4_1, 0, 4},   {RDG_TYPE_Q5_0, 0, 2},   {RDG_TYPE_Q5_1, 0, 4},
    {RDG_TYPE_Q8_0, 0, 2},   {RDG_TYPE_Q2_K, 80, 4},  {RDG_TYPE_Q3_K, 108, 2}, {RDG_TYPE_Q4_K, 0, 4},
    {RDG_TYPE_Q5_K, 0, 4},   {RDG_TYPE_Q6_K, 208, 2}, {RDG_TYPE_IQ4_NL, 0, 2}, {RDG_TYPE_IQ4_XS, 0, 2},
    {RDG_TYPE_MXFP4, 0, 1},  {RDG_TYPE_NVFP4, 0, 4},  {RDG_TYPE_Q1_0, 0, 2},   {RDG_TYPE_Q2_0, 0, 2},
    {RDG_TYPE_TQ1_0, 52, 2}, {RDG_TYPE_TQ2_0, 64, 2},
};

static const scale_bytes *scales_of(rdg_type t)
{
    for (int i = 0; i < RDG_COUNTOF(scales); i++)
        if (scales[i].type == t) return &scales[i];
    return NULL;
}

static float draw(rdg_rng *rng, bool heavy_tailed)
{
    float x = rdg_rng_normal(rng);
    if (!heavy_tailed) return x;
    if (rdg_rng_below(rng, 200) == 0) return x * 12.0f;
    if (rdg_rng_below(rng, 50) == 0) return 0.0f;
    return x * expf(0.7f * rdg_rng_normal(rng));
}

static void fill_f32(float *row, int64_t n, rdg_rng *rng, rdg_check_content content)
{
    if (content != RDG_CHECK_GRID) {
        for (int64_t i = 0; i < n; i++) row[i] = draw(rng, content == RDG_CHECK_HEAVY_TAILED);
        return;
    }
    /* the largest of every 32 elements is 127 steps, whatever block the variant takes */
    const float step = ldexpf(1.0f, (int)rdg_rng_below(rng, 5) - 7);
    for (int64_t i = 0; i < n; i++) {
        int64_t q = (int64_t)rdg_rng_below(rng, 255) - 127;
        row[i] = step * (float)(i % 32 == 0 ? (q < 0 ? -127 : 127) : q);
    }
}

static rdg_err fill_row(const rdg_tensor *t, char *row, float *values, rdg_rng *rng,
                        rdg_check_content content, rdg_error *e)
{
    const int64_t n = t->dim[0], block_bytes = rdg_type_block_bytes(t->type),
                  elems = rdg_type_block_elems(t->type);
    const scale_bytes *s = scales_of(t->type);
    /* large weights: searching scales for all of them would take longer than the check */
    bool random_bits = s && (rdg_rng_below(rng, 2) == 0 || rdg_tensor_n_elements(t) > 1 << 16);
    if (!random_bits) {
        fill_f32(values, n, rng, content);
        if (rdg_rng_below(rng, 8) == 0) memset(values, 0, (size_t)RDG_MIN(n, elems) * sizeof *values);
        return rdg_quantise_rows(t->type, values, row, 1, n, NULL, e);
    }
    fill_f32(values, elems, rng, content);
    rdg_err err = rdg_quantise_rows(t->type, values, row, 1, elems, NULL, e);
    for (int64_t b = block_bytes; !err && b < rdg_type_row_bytes(t->type, n); b += block_bytes)
        memcpy(row + b, row, (size_t)block_bytes);
    for (int64_t b = 0; !err && b < rdg_type_row_bytes(t->type, n); b++)
        if (b % block_bytes < s->first || b % block_bytes >= s->first + s->n)
            row[b] = (char)rdg_rng_next(rng);
    return err;
}

rdg_err rdg_check_fill(const rdg_tensor *t, rdg_rng *rng, rdg_check_content content, rdg_error *e)
{
    float *values = rdg_alloc_array((size_t)RDG_MAX(t->dim[0], 256), sizeof *values);
    rdg_err err =
        values ? RDG_OK
               : rdg_fail(e, RDG_E_NOMEM, "no memory for a row of %lld elements", (long long)t->dim[0]);
    for (int64_t r = 0; !err && r < rdg_tensor_n_rows(t); r++) {
        char *row = rdg_nth_row(t, r);
        if (t->type == RDG_TYPE_F32)
            fill_f32((float *)(void *)row, t->dim[0], rng, content);
        else if (rdg_type_can_quantise(t->type))
            err = fill_row(t, row, values, rng, content, e);
        else /* indices: `prepare` gives them meaning */
            memset(row, 0, (size_t)rdg_type_row_bytes(t->type, t->dim[0]));
    }
    rdg_free(values);
    return err;
}

static int64_t extent_bytes(const rdg_tensor *t)
{
    int64_t bytes = rdg_type_row_bytes(t->type, t->dim[0]);
    for (int d = 1; d < 4; d++) bytes += (t->dim[d] - 1) * t->stride[d];
    return bytes;
}

static rdg_err make_block(rdg_check_block *b, rdg_tensor *t, int operand, rdg_rng *rng, rdg_error *e)
{
    /* Quantised rows may start anywhere; the others are aligned to their element. */
    const int64_t step = rdg_type_is_quantised(t->type) ? 2 : rdg_type_block_bytes(t->type);
    const size_t off = (size_t)(rdg_rng_below(rng, 2) ? (int64_t)rdg_rng_below(rng, 16) * step : 0);
    const uint32_t word = 0xff8a5a00u | (uint32_t)(operand * 17);
    b->bytes = ((size_t)extent_bytes(t) + 2 * GUARD_BYTES + off + 63) / 64 * 64;
    b->memory = rdg_alloc_aligned(64, b->bytes);
    if (!b->memory) return rdg_fail(e, RDG_E_NOMEM, "no memory for an operand of %zu bytes", b->bytes);
    for (size_t i = 0; i + sizeof word <= b->bytes; i += sizeof word)
        memcpy(b->memory + i, &word, sizeof word);
    t->data = b->memory + GUARD_BYTES + off;
    return RDG_OK;
}

rdg_err rdg_check_data_create(rdg_check_data *d, rdg_op_call *call, const rdg_case_set *cases, int i,
                              uint64_t seed, rdg_error *e)
{
    rdg_rng rng;
    rdg_err err = RDG_OK;
    rdg_rng_seed(&rng, seed);
    *d = (rdg_check_data){.content = (rdg_check_content)rdg_rng_below(&rng, RDG_CHECK_CONTENT_COUNT)};
    for (int k = 0; !err && k < call->op->n_operands; k++) {
        rdg_tensor *t = &call->operand[k];
        const unsigned flags = call->op->operands[k].flags;
        d->block[k].shared_with = cases && cases->alias ? cases->alias(i, k) : -1;
        if (!rdg_tensor_present(t) || d->block[k].shared_with >= 0) continue;
        err = make_block(&d->block[k], t, k, &rng, e);
        if (err) break;
        if (flags & RDG_OPERAND_IN) err = rdg_check_fill(t, &rng, d->content, e);
        for (int64_t r = 0; !(flags & RDG_OPERAND_IN) && r < rdg_tensor_n_rows(t); r++)
            memset(rdg_nth_row(t, r), 0xff, (size_t)rdg_type_row_bytes(t->type, t->dim[0]));
    }
    for (int k = 0; !err && k < call->op->n_operands; k++)
        if (rdg_tensor_present(&call->operand[k]) && d->block[k].shared_with >= 0)
            call->operand[k].data = call->operand[d->block[k].shared_with].data;
    if (!err && cases && cases->prepare) cases->prepare(i, call, rdg_rng_next(&rng));
    if (err) rdg_check_data_finish(d);
    return err;
}

void rdg_check_data_finish(rdg_check_data *d)
{
    for (int k = 0; k < RDG_MAX_OPERANDS; k++) rdg_free(d->block[k].memory);
    *d = (rdg_check_data){0};
}
