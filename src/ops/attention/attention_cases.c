#include "ops/attention/attention.h"
#include "ops/attention/attention_cases.h"
#include "ops/cases.h"

#include <math.h>

static const rdg_type types[] = {RDG_TYPE_F32, RDG_TYPE_F16, RDG_TYPE_BF16, RDG_TYPE_Q8_0, RDG_TYPE_Q4_0};
static const struct row {
    const char *name;
    int64_t dim, dim_v, n_heads, n_kv_heads, n_tokens, n_slots;
    int32_t last_pos; /* of the last token; causal */
    int32_t window;
    float softcap;
    bool sinks, not_causal, padding; /* padding: one token has position -1 */
    int64_t pad;
} rows[] = {
    {"one key", 32, 32, 1, 1, 1, 1, 0, 0, 0, false, false, false, 0},
    {"64, 8 heads on 2, decode 37", 64, 64, 8, 2, 1, 50, 36, 0, 0, false, false, false, 0},
    {"128, 32 heads on 8, decode 129", 128, 128, 32, 8, 1, 130, 128, 0, 0, false, false, false, 0},
    {"128, 4 heads on 1, decode 700", 128, 128, 4, 1, 1, 1024, 699, 0, 0, false, false, false, 0},
    {"96, 3 heads on 3, 2 tokens", 96, 96, 3, 3, 2, 64, 40, 0, 0, false, false, false, 0},
    {"96 and 64, 7 heads on 1, 9 tokens, strided", 96, 64, 7, 1, 9, 77, 8, 0, 0, false, false, false, 32},
    {"256, 4 heads on 2, prefill 33, softcap", 256, 256, 4, 2, 33, 33, 32, 0, 50, false, false, false, 0},
    {"64, 8 heads on 4, prefill 64 after 31", 64, 64, 8, 4, 64, 128, 94, 0, 0, false, false, false, 0},
    {"128, 8 heads on 2, window 16, ring", 128, 128, 8, 2, 8, 24, 1005, 16, 0, false, false, false, 0},
    {"64, 8 heads on 1, window 128 over 200, sinks", 64, 64, 8, 1, 3, 200, 198, 128, 0, true, false, false,
     0},
    {"64, 64 heads on 8, sinks, decode 5", 64, 64, 64, 8, 1, 8, 4, 0, 0, true, false, false, 0},
    {"32, 2 heads, not causal, 17 of 17", 32, 32, 2, 2, 17, 17, 16, 0, 0, false, true, false, 0},
    {"64, 4 heads on 2, padding token", 64, 64, 4, 2, 5, 16, 12, 0, 0, false, false, true, 0},
    {"64, 5 heads on 1, decode 200", 64, 64, 5, 1, 1, 256, 199, 0, 0, false, false, false, 0},
    {"128, 7 heads on 1, 2 tokens, window 70, ring", 128, 128, 7, 1, 2, 80, 1005, 70, 0, false, false, false,
     0},
    {"256, 8 heads on 1, softcap, decode 77", 256, 256, 8, 1, 1, 80, 76, 0, 50, false, false, false, 0},
    {"64, 16 heads on 1, sinks, all of 600", 64, 64, 16, 1, 1, 608, 599, 0, 0, true, false, false, 0},
    {"32 and 96, 2 heads on 2, 8 tokens", 32, 96, 2, 2, 8, 40, 30, 0, 0, false, false, false, 0},
    {"64, 6 heads on 2, 5 tokens, window 20, sinks", 64, 64, 6, 2, 5, 90, 300, 20, 0, true, false, false, 0},
    {"64, 8 heads on 2, prefill 17 after 40, sinks", 64, 64, 8, 2, 17, 64, 56, 0, 0, true, false, false, 0},
};
/* Head dimensions without whole blocks: unquantised caches only. */
static const struct row odd_rows[] = {
    {"80, 5 heads on 5, 7 tokens", 80, 80, 5, 5, 7, 19, 18, 0, 0, false, false, false, 0},
    {"80, 8 heads on 8, decode 130", 80, 80, 8, 8, 1, 130, 129, 0, 0, false, false, false, 0},
    {"72 and 40, 6 heads on 2, 2 tokens", 72, 40, 6, 2, 2, 33, 32, 0, 0, false, false, false, 0},
    {"1 and 3, 2 heads on 1", 1, 3, 2, 1, 3, 5, 4, 0, 0, false, false, false, 0},
    {"17, 6 heads on 2, softcap, sinks", 17, 17, 6, 2, 4, 40, 39, 20, 30, true, false, false, 1},
};

enum { N = RDG_COUNTOF(rows), N_ODD = RDG_COUNTOF(odd_rows), N_TYPES = RDG_COUNTOF(types), N_PLAIN = 3 };

/* Every shape with equal types, then a few shapes with every pair, then the odd ones with unquantised types.
 */
static const struct row *find(int i, rdg_type *k, rdg_type *v)
{
    static const int mixed[] = {1, 5, 8};
    if (i < N * N_TYPES) {
        *k = *v = types[i / N];
        return &rows[i % N];
    }
    i -= N * N_TYPES;
    if (i < RDG_COUNTOF(mixed) * N_TYPES * N_TYPES) {
        *k = types[i / RDG_COUNTOF(mixed) / N_TYPES];
        *v = types[i / RDG_COUNTOF(mixed) % N_TYPES];
        return &rows[mixed[i % RDG_COUNTOF(mixed)]];
    }
    i -= RDG_COUNTOF(mixed) * N_TYPES * N_TYPES;
    if (i >= N_ODD * N_PLAIN) return NULL;
    *k = *v = types[i / N_ODD];
    return &odd_rows[i % N_ODD];
}

static bool make(int i, rdg_op_call *call, char name[RDG_CASE_NAME_BYTES])
{
    rdg_type k, v;
    const struct row *r = find(i, &k, &v);
    if (!r) return false;
    rdg_attention_params p = {.scale = 1.0f / sqrtf((float)r->dim),
                              .softcap = r->softcap,
                              .window = r->window,
                              .causal = !r->not_causal};
    *call = (rdg_op_call){.op = &rdg_op_attention, .n_visible = r->last_pos + 1};
    snprintf(name, RDG_CASE_NAME_BYTES, "%s/%s %s", rdg_type_name(k), rdg_type_name(v), r->name);
    rdg_case_params(call, &p, sizeof p);
    rdg_tensor_init(&call->operand[RDG_ATTENTION_Q], RDG_TYPE_F32, r->dim, r->n_heads, r->n_tokens, 1);
    rdg_case_pad_rows(&call->operand[RDG_ATTENTION_Q], r->pad);
    rdg_tensor_init(&call->operand[RDG_ATTENTION_K], k, r->dim, r->n_slots, r->n_kv_heads, 1);
    rdg_tensor_init(&call->operand[RDG_ATTENTION_V], v, r->dim_v, r->n_slots, r->n_kv_heads, 1);
    rdg_tensor_init(&call->operand[RDG_ATTENTION_POS], RDG_TYPE_I32, r->n_tokens, 1, 1, 1);
    if (r->sinks) rdg_tensor_init(&call->operand[RDG_ATTENTION_SINKS], RDG_TYPE_F32, r->n_heads, 1, 1, 1);
    rdg_tensor_init(&call->operand[RDG_ATTENTION_OUT], RDG_TYPE_F32, r->dim_v, r->n_heads, r->n_tokens, 1);
    return true;
}

static void prepare(int i, rdg_op_call *call, uint64_t seed)
{
    rdg_type k, v;
    const struct row *r = find(i, &k, &v);
    const rdg_tensor *q = &call->operand[RDG_ATTENTION_Q];
    int32_t *pos = call->operand[RDG_ATTENTION_POS].data;
    (void)seed;
    for (int64_t t = 0; t < r->n_tokens; t++) pos[t] = r->last_pos - (int32_t)(r->n_tokens - 1 - t);
    if (r->padding) pos[1] = -1;
    /* Scores of a few units, as trained models have them: at hundreds, f32 itself no longer resolves the
     * softmax. */
    double largest_k = 1.0;
    const rdg_tensor *keys = &call->operand[RDG_ATTENTION_K];
    for (int64_t h = 0; h < keys->dim[2]; h++)
        for (int64_t j = 0; j < keys->dim[1]; j++) {
            double sum = 0.0;
            for (int64_t d = 0; d < r->dim; d++) sum += pow(rdg_tensor_get(keys, d, j, h, 0), 2);
            largest_k = fmax(largest_k, sqrt(sum));
        }
    for (int64_t t = 0; t < r->n_tokens; t++)
        for (int64_t h = 0; h < r->n_heads; h++) {
            float *x = rdg_tensor_row(q, h, t, 0);
            double sum = 1e-30;
            for (int64_t d = 0; d < r->dim; d++) sum += (double)x[d] * (double)x[d];
            const float factor = (float)(10.0 * sqrt((double)r->dim) / largest_k / sqrt(sum));
            for (int64_t d = 0; d < r->dim; d++) x[d] *= factor;
        }
}

const rdg_case_set rdg_attention_cases = {.make = make, .prepare = prepare};
