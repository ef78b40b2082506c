#include "ops/rope/rope.h"
#include "ops/rope/rope_cases.h"
#include "ops/cases.h"

static const struct row {
    const char *name;
    int64_t head_dim, n_heads, n_tokens, pad;
    rdg_rope_params p; /* style, n_dims, freq_base, freq_scale, ext_factor, corr_low, corr_high, magnitude */
    int32_t first_pos;
    bool factors, in_place;
} rows[] = {
    {"norm 2, one head", 2, 1, 1, 0, {RDG_ROPE_NORM, 2, 1e4f, 1, 0, 0, 0, 1}, 5, false, false},
    {"norm 64 x 8 x 3", 64, 8, 3, 0, {RDG_ROPE_NORM, 64, 1e4f, 1, 0, 0, 0, 1}, 0, false, false},
    {"norm 128 x 32, far position",
     128,
     32,
     1,
     0,
     {RDG_ROPE_NORM, 128, 5e5f, 1, 0, 0, 0, 1},
     131071,
     false,
     true},
    {"norm 128 x 8 x 9, factors", 128, 8, 9, 0, {RDG_ROPE_NORM, 128, 5e5f, 1, 0, 0, 0, 1}, 8000, true, true},
    {"neox 80 x 5 x 7, strided", 80, 5, 7, 160, {RDG_ROPE_NEOX, 80, 1e4f, 1, 0, 0, 0, 1}, 100, false, true},
    {"neox 96 x 3 x 33, partial 48",
     96,
     3,
     33,
     0,
     {RDG_ROPE_NEOX, 48, 1e4f, 1, 0, 0, 0, 1},
     4000,
     false,
     false},
    {"neox 256 x 4 x 2, linear scaling",
     256,
     4,
     2,
     0,
     {RDG_ROPE_NEOX, 256, 1e6f, 0.125f, 0, 0, 0, 1},
     30000,
     false,
     false},
    {"norm 32 x 3 x 2, partial 10", 32, 3, 2, 1, {RDG_ROPE_NORM, 10, 1e4f, 1, 0, 0, 0, 1}, 77, false, false},
    {"neox 64 x 64, yarn",
     64,
     64,
     1,
     0,
     {RDG_ROPE_NEOX, 64, 1.5e5f, 1.0f / 32, 1, 8.1f, 17.4f, 1.3465736f},
     9999,
     false,
     true},
    {"neox 128 x 4 x 64, yarn, factors",
     128,
     4,
     64,
     0,
     {RDG_ROPE_NEOX, 128, 1e4f, 0.25f, 0.75f, 20, 20, 1.1f},
     3,
     true,
     false},
};

static bool make(int i, rdg_op_call *call, char name[RDG_CASE_NAME_BYTES])
{
    if (i >= RDG_COUNTOF(rows)) return false;
    const struct row *r = &rows[i];
    *call = (rdg_op_call){.op = &rdg_op_rope};
    snprintf(name, RDG_CASE_NAME_BYTES, "%s", r->name);
    rdg_case_params(call, &r->p, sizeof r->p);
    rdg_tensor_init(&call->operand[RDG_ROPE_X], RDG_TYPE_F32, r->head_dim, r->n_heads, r->n_tokens, 1);
    rdg_tensor_init(&call->operand[RDG_ROPE_POS], RDG_TYPE_I32, r->n_tokens, 1, 1, 1);
    rdg_tensor_init(&call->operand[RDG_ROPE_OUT], RDG_TYPE_F32, r->head_dim, r->n_heads, r->n_tokens, 1);
    if (r->factors) rdg_tensor_init(&call->operand[RDG_ROPE_FACTORS], RDG_TYPE_F32, r->p.n_dims / 2, 1, 1, 1);
    rdg_case_pad_rows(&call->operand[RDG_ROPE_X], r->pad);
    if (r->in_place) rdg_case_pad_rows(&call->operand[RDG_ROPE_OUT], r->pad);
    return true;
}

static void prepare(int i, rdg_op_call *call, uint64_t seed)
{
    int32_t *pos = call->operand[RDG_ROPE_POS].data;
    float *factors = call->operand[RDG_ROPE_FACTORS].data;
    rdg_rng rng;
    rdg_rng_seed(&rng, seed);
    for (int64_t t = 0; t < rows[i].n_tokens; t++) pos[t] = rows[i].first_pos + (int32_t)t;
    for (int64_t k = 0; rows[i].factors && k < rows[i].p.n_dims / 2; k++)
        factors[k] = 1.0f + 7.0f * (float)rdg_rng_uniform(&rng);
}

static int alias(int i, int operand)
{
    return rows[i].in_place && operand == RDG_ROPE_OUT ? RDG_ROPE_X : -1;
}

const rdg_case_set rdg_rope_cases = {.make = make, .prepare = prepare, .alias = alias};
