#include "ops/embed/embed.h"
#include "ops/embed/embed_cases.h"
#include "ops/embed/embed_variants.h"
#include "ops/gpu_rows.h"
#include "ops/contract.h"

static rdg_err check(const rdg_op_call *call, rdg_error *e)
{
    rdg_contract k = {call, e, RDG_OK};
    const rdg_tensor *table = &call->operand[RDG_EMBED_TABLE], *ids = &call->operand[RDG_EMBED_IDS];
    rdg_want_weight(&k, RDG_EMBED_TABLE);
    rdg_want_type(&k, RDG_EMBED_IDS, RDG_TYPE_I32);
    rdg_want_type(&k, RDG_EMBED_OUT, RDG_TYPE_F32);
    rdg_want_dims(&k, RDG_EMBED_TABLE, -1, -1, 1, 1);
    rdg_want_dims(&k, RDG_EMBED_IDS, -1, 1, 1, 1);
    rdg_want_dims(&k, RDG_EMBED_OUT, table->dim[0], ids->dim[0], 1, 1);
    rdg_want_apart(&k, RDG_EMBED_OUT, RDG_EMBED_TABLE);
    rdg_want_apart(&k, RDG_EMBED_OUT, RDG_EMBED_IDS);
    return k.err;
}

static void cost(const rdg_op_call *call, rdg_cost *c)
{
    const rdg_tensor *table = &call->operand[RDG_EMBED_TABLE], *out = &call->operand[RDG_EMBED_OUT];
    /* one row a token, whatever the size of the table */
    *c = (rdg_cost){.bytes_read = (double)(rdg_type_row_bytes(table->type, table->dim[0]) * out->dim[1]) +
                                  (double)rdg_tensor_bytes(&call->operand[RDG_EMBED_IDS]),
                    .bytes_written = (double)rdg_tensor_bytes(out),
                    .flops = (double)rdg_tensor_n_elements(out)};
}

static rdg_err reference(const rdg_op_call *call, double *const *out, rdg_error *e)
{
    const rdg_tensor *table = &call->operand[RDG_EMBED_TABLE], *ids = &call->operand[RDG_EMBED_IDS];
    double *o = out[RDG_EMBED_OUT], scale = (double)RDG_PARAMS(call, rdg_embed_params)->scale;
    (void)e;
    for (int64_t t = 0; t < ids->dim[0]; t++) {
        int64_t id = (int64_t)rdg_tensor_get(ids, t, 0, 0, 0);
        for (int64_t i = 0; i < table->dim[0]; i++)
            *o++ = id < 0 || id >= table->dim[1] ? 0.0 : scale * rdg_tensor_get(table, i, id, 0, 0);
    }
    return RDG_OK;
}

static const rdg_operand_spec operands[] = {
    {"table", RDG_OPERAND_IN}, {"ids", RDG_OPERAND_IN}, {"out", RDG_OPERAND_OUT}};
static const rdg_variant *const variants[] = {&rdg_embed_c, &rdg_embed_vulkan, NULL};

const rdg_op rdg_op_embed = {
    .name = "embed",
    .summary = "out[:, t] = scale * table[:, ids[t]]",
    .operands = operands,
    .n_operands = RDG_COUNTOF(operands),
    .param_bytes = sizeof(rdg_embed_params),
    .check = check,
    .cost = cost,
    .reference = reference,
    .tolerance = {RDG_TOLERANCE_ULP, 1}, /* the product with scale is rounded once */
    .variants = variants,
    .cases = &rdg_embed_cases,
};
