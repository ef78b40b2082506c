#include "ops/sample/sample.h"
#include "ops/sample/sample_cases.h"
#include "ops/cases.h"

#include <math.h>

typedef enum content {
    NORMAL,  /* standard deviation 1: nearly flat, cuts keep many */
    PEAKED,  /* standard deviation 6, like a model's */
    ROUNDED, /* whole numbers: many ties */
    EQUAL,   /* one value */
    BANNED,  /* most are -inf */
    NOTHING, /* all are */
    NAN_ONE,
    INF_ONE,
    WIDE, /* the whole range of floats, denormals and zeros of both signs included */
} content;

static const struct row {
    const char *name;
    int64_t n;
    rdg_sample_params p;
    content content;
} rows[] = {
    {"one token, greedy", 1, {0, 0, 1, 0}, NORMAL},
    {"one token, all cuts", 1, {0.8f, 40, 0.95f, 0.05f}, NORMAL},
    {"two tokens", 2, {1, 0, 1, 0}, NORMAL},
    {"7 tokens, top-k of more", 7, {1, 40, 1, 0}, NORMAL},
    {"greedy, ties", 1023, {0, 0, 1, 0}, ROUNDED},
    {"greedy, all equal", 515, {0, 0, 1, 0}, EQUAL},
    {"greedy, all equal", 140001, {0, 0, 1, 0}, EQUAL},
    {"greedy, negative temperature", 100003, {-1, 0, 1, 0}, PEAKED},
    {"temperature alone", 32000, {0.7f, 0, 1, 0}, PEAKED},
    {"temperature alone, flat", 65537, {1.3f, 0, 1, 0}, NORMAL},
    {"tiny temperature", 4097, {1e-30f, 0, 1, 0}, PEAKED},
    {"huge temperature", 4097, {1e6f, 0, 1, 0}, PEAKED},
    {"top-k 1", 5000, {1, 1, 1, 0}, PEAKED},
    {"top-k 40", 50257, {0.8f, 40, 1, 0}, PEAKED},
    {"top-k 40, ties", 50257, {0.8f, 40, 1, 0}, ROUNDED},
    {"top-k 5000, flat", 32003, {1, 5000, 1, 0}, NORMAL},
    {"top-k of all equal", 70001, {1, 300, 1, 0}, EQUAL},
    {"top-k of exactly all", 257, {1, 257, 1, 0}, NORMAL},
    {"top-p 0.95", 50257, {1, 0, 0.95f, 0}, PEAKED},
    {"top-p 0.95, ties", 50257, {1, 0, 0.95f, 0}, ROUNDED},
    {"top-p 0.95, flat", 131071, {1, 0, 0.95f, 0}, NORMAL},
    {"top-p 0.5 of all equal", 4099, {1, 0, 0.5f, 0}, EQUAL},
    {"top-p 0", 999, {1, 0, 0, 0}, PEAKED},
    {"top-p of almost all", 1025, {1, 0, 0.9999999f, 0}, NORMAL},
    {"min-p 0.05", 32000, {0.9f, 0, 1, 0.05f}, PEAKED},
    {"min-p 1", 32000, {0.9f, 0, 1, 1}, ROUNDED},
    {"min-p 0.1, flat", 32001, {0.9f, 0, 1, 0.1f}, NORMAL},
    {"the usual cuts", 128256, {0.8f, 40, 0.95f, 0.05f}, PEAKED},
    {"the usual cuts, ties", 151936, {0.8f, 40, 0.95f, 0.05f}, ROUNDED},
    {"the usual cuts, flat", 128255, {0.8f, 40, 0.95f, 0.05f}, NORMAL},
    {"top-k 1000, top-p 0.9, hot", 262144, {1.5f, 1000, 0.9f, 0}, NORMAL},
    {"all cuts of all equal", 262144, {1, 100000, 0.5f, 0.01f}, EQUAL},
    {"a few allowed", 10007, {1, 40, 0.95f, 0}, BANNED},
    {"fewer allowed than top-k", 300, {1, 200, 1, 0}, BANNED},
    {"a few allowed, greedy", 10007, {0, 0, 1, 0}, BANNED},
    {"none allowed", 3001, {1, 40, 0.95f, 0}, NOTHING},
    {"none allowed, greedy", 3001, {0, 0, 1, 0}, NOTHING},
    {"a NaN", 50257, {0.8f, 40, 0.95f, 0.05f}, NAN_ONE},
    {"a NaN, temperature alone", 17, {1, 0, 1, 0}, NAN_ONE},
    {"a NaN, greedy", 50257, {0, 0, 1, 0}, NAN_ONE},
    {"an infinity", 50257, {1, 0, 0.95f, 0}, INF_ONE},
    {"an infinity, greedy", 5, {0, 0, 1, 0}, INF_ONE},
    {"any floats, greedy", 8191, {0, 0, 1, 0}, WIDE},
    {"any floats", 8191, {1, 100, 0.99f, 0.5f}, WIDE},
    {"larger than any vocabulary", 1000003, {1, 50000, 0.9f, 0}, PEAKED},
};

static bool make(int i, rdg_op_call *call, char name[RDG_CASE_NAME_BYTES])
{
    if (i >= RDG_COUNTOF(rows)) return false;
    const struct row *r = &rows[i];
    *call = (rdg_op_call){.op = &rdg_op_sample};
    snprintf(name, RDG_CASE_NAME_BYTES, "%s, %lld logits", r->name, (long long)r->n);
    rdg_case_params(call, &r->p, sizeof r->p);
    rdg_tensor_init(&call->operand[RDG_SAMPLE_LOGITS], RDG_TYPE_F32, r->n, 1, 1, 1);
    rdg_tensor_init(&call->operand[RDG_SAMPLE_DRAW], RDG_TYPE_I32, 3, 1, 1, 1);
    rdg_tensor_init(&call->operand[RDG_SAMPLE_ID], RDG_TYPE_I32, 1, 1, 1, 1);
    return true;
}

static float any_float(rdg_rng *rng)
{
    uint32_t u = (uint32_t)rdg_rng_next(rng);
    switch (rdg_rng_below(rng, 4)) {
    case 0: u &= 0x807fffffu; break; /* denormals and zeros */
    case 1: u &= 0x80000000u; break;
    }
    if ((u & 0x7f800000u) == 0x7f800000u) u ^= 0x40000000u;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static void prepare(int i, rdg_op_call *call, uint64_t seed)
{
    float *x = call->operand[RDG_SAMPLE_LOGITS].data;
    uint32_t *draw = call->operand[RDG_SAMPLE_DRAW].data;
    const int64_t n = rows[i].n;
    rdg_rng rng;
    rdg_rng_seed(&rng, seed);
    for (int k = 0; k < 3; k++) draw[k] = (uint32_t)rdg_rng_next(&rng);
    const float value = 10 * rdg_rng_normal(&rng);
    for (int64_t k = 0; k < n; k++) {
        float z = rdg_rng_normal(&rng);
        switch (rows[i].content) {
        case NORMAL: x[k] = z; break;
        case ROUNDED: x[k] = roundf(2 * z); break;
        case EQUAL: x[k] = value; break;
        case BANNED: x[k] = rdg_rng_below(&rng, 50) == 0 || k == n / 2 ? z : -INFINITY; break;
        case NOTHING: x[k] = -INFINITY; break;
        case WIDE: x[k] = any_float(&rng); break;
        case PEAKED:
        case NAN_ONE:
        case INF_ONE: x[k] = 6 * z - 3; break;
        }
    }
    if (rows[i].content == NAN_ONE) x[rdg_rng_below(&rng, (uint64_t)n)] = rdg_rng_below(&rng, 2) ? NAN : -NAN;
    if (rows[i].content == INF_ONE) x[rdg_rng_below(&rng, (uint64_t)n)] = INFINITY;
}

const rdg_case_set rdg_sample_cases = {.make = make, .prepare = prepare};
