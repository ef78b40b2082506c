#include "ops/kv_store/kv_store.h"
#include "ops/kv_store/kv_store_cases.h"
#include "ops/cases.h"

static const rdg_type types[] = {RDG_TYPE_F32, RDG_TYPE_F16, RDG_TYPE_BF16, RDG_TYPE_Q8_0, RDG_TYPE_Q4_0};
static const struct row {
    const char *name;
    int64_t head_dim, n_heads, n_tokens, n_slots, pad;
    int32_t first_pos;
    bool hole; /* one token stores nothing */
} rows[] = {
    {"32 x 1, one token", 32, 1, 1, 1, 0, 0, false},
    {"64 x 8, 3 tokens, strided", 64, 8, 3, 40, 128, 11, false},
    {"96 x 3, 33 tokens, wrap around", 96, 3, 33, 37, 0, 30, false},
    {"128 x 8, 1 token", 128, 8, 1, 100, 0, 99, false},
    {"256 x 2, 7 tokens, far and with a hole", 256, 2, 7, 64, 0, 100060, true},
};

static bool make(int i, rdg_op_call *call, char name[RDG_CASE_NAME_BYTES])
{
    if (i >= RDG_COUNTOF(rows) * RDG_COUNTOF(types)) return false;
    const struct row *r = &rows[i % RDG_COUNTOF(rows)];
    const rdg_type type = types[i / RDG_COUNTOF(rows)];
    *call = (rdg_op_call){.op = &rdg_op_kv_store};
    snprintf(name, RDG_CASE_NAME_BYTES, "%s %s", rdg_type_name(type), r->name);
    rdg_tensor_init(&call->operand[RDG_KV_STORE_X], RDG_TYPE_F32, r->head_dim, r->n_heads, r->n_tokens, 1);
    rdg_tensor_init(&call->operand[RDG_KV_STORE_POS], RDG_TYPE_I32, r->n_tokens, 1, 1, 1);
    rdg_tensor_init(&call->operand[RDG_KV_STORE_CACHE], type, r->head_dim, r->n_slots, r->n_heads, 1);
    rdg_case_pad_rows(&call->operand[RDG_KV_STORE_X], r->pad);
    return true;
}

static void prepare(int i, rdg_op_call *call, uint64_t seed)
{
    const struct row *r = &rows[i % RDG_COUNTOF(rows)];
    int32_t *pos = call->operand[RDG_KV_STORE_POS].data;
    float *x = rdg_tensor_row(&call->operand[RDG_KV_STORE_X], 0, 0, 0);
    /* Halves between two steps, of both signs, which random data seldom are: of Q8_0, whose step is 1 here,
     * and in the other block of Q4_0. */
    for (int64_t k = 0; seed % 2 && k + 32 <= r->head_dim && k < 64; k += 32)
        for (int64_t e = 0; e < 32; e++) x[k + e] = e > 0 ? (float)(e % 16 - 8) + 0.5f : k ? -8.0f : 127.0f;
    for (int64_t t = 0; t < r->n_tokens; t++) pos[t] = r->first_pos + (int32_t)t;
    if (r->hole) pos[r->n_tokens / 2] = -1;
}

const rdg_case_set rdg_kv_store_cases = {.make = make, .prepare = prepare};
