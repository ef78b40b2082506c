#include "ops/embed/embed.h"
#include "ops/embed/embed_cases.h"
#include "ops/cases.h"

static const struct row {
    int64_t n, n_rows, n_tokens;
    float scale;
    bool negative; /* one id is -1 */
} rows[] = {
    {1, 1, 1, 1.0f, false},
    {300, 37, 9, 1.0f, true},
    {1024, 11, 33, 32.0f, false},
};

/* Every shape with every type; columns are rounded up to whole blocks. */
static bool make(int i, rdg_op_call *call, char name[RDG_CASE_NAME_BYTES])
{
    rdg_type type;
    if (!rdg_case_weight_type(i / RDG_COUNTOF(rows), &type)) return false;
    const struct row *r = &rows[i % RDG_COUNTOF(rows)];
    const int64_t elems = rdg_type_block_elems(type), n = (r->n + elems - 1) / elems * elems;
    rdg_embed_params p = {.scale = r->scale};
    *call = (rdg_op_call){.op = &rdg_op_embed};
    snprintf(name, RDG_CASE_NAME_BYTES, "%s %lld x %lld, %lld tokens%s", rdg_type_name(type), (long long)n,
             (long long)r->n_rows, (long long)r->n_tokens, r->negative ? ", one without a row" : "");
    rdg_case_params(call, &p, sizeof p);
    rdg_tensor_init(&call->operand[RDG_EMBED_TABLE], type, n, r->n_rows, 1, 1);
    rdg_tensor_init(&call->operand[RDG_EMBED_IDS], RDG_TYPE_I32, r->n_tokens, 1, 1, 1);
    rdg_tensor_init(&call->operand[RDG_EMBED_OUT], RDG_TYPE_F32, n, r->n_tokens, 1, 1);
    return true;
}

static void prepare(int i, rdg_op_call *call, uint64_t seed)
{
    int32_t *ids = call->operand[RDG_EMBED_IDS].data;
    rdg_case_ids(&call->operand[RDG_EMBED_IDS], call->operand[RDG_EMBED_TABLE].dim[1], seed);
    if (rows[i % RDG_COUNTOF(rows)].negative) ids[call->operand[RDG_EMBED_IDS].dim[0] / 2] = -1;
}

const rdg_case_set rdg_embed_cases = {.make = make, .prepare = prepare};
