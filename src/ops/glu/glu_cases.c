#include "ops/glu/glu.h"
#include "ops/glu/glu_cases.h"
#include "ops/cases.h"

static const struct row {
    const char *name;
    int64_t n, rows, pad;
    int32_t act;
    int in_place; /* the operand out is, or -1 */
} rows[] = {
    {"one element", 1, 1, 0, RDG_ACT_SILU, -1},
    {"silu 2047", 2047, 1, 0, RDG_ACT_SILU, -1},
    {"silu 2048 x 2", 2048, 2, 0, RDG_ACT_SILU, RDG_GLU_GATE},
    {"silu 2049 x 3, strided", 2049, 3, 2049, RDG_ACT_SILU, -1},
    {"silu 13 x 64", 13, 64, 0, RDG_ACT_SILU, RDG_GLU_UP},
    {"silu 14336", 14336, 1, 0, RDG_ACT_SILU, RDG_GLU_GATE},
    {"gelu_tanh 1000 x 7", 1000, 7, 0, RDG_ACT_GELU_TANH, RDG_GLU_GATE},
    {"gelu_tanh 65, strided", 65, 9, 65, RDG_ACT_GELU_TANH, -1},
    {"gelu_erf 129 x 8", 129, 8, 0, RDG_ACT_GELU_ERF, -1},
    {"relu 255 x 2", 255, 2, 0, RDG_ACT_RELU, RDG_GLU_UP},
    {"sigmoid 97 x 5", 97, 5, 31, RDG_ACT_SIGMOID, -1},
    {"tanh 515", 515, 1, 0, RDG_ACT_TANH, -1},
    {"swiglu_oai 2880 x 4, strided", 2880, 4, 2880, RDG_ACT_SWIGLU_OAI, -1},
    {"swiglu_oai 33 x 33", 33, 33, 0, RDG_ACT_SWIGLU_OAI, RDG_GLU_GATE},
};

static bool make(int i, rdg_op_call *call, char name[RDG_CASE_NAME_BYTES])
{
    if (i >= RDG_COUNTOF(rows)) return false;
    const struct row *r = &rows[i];
    rdg_glu_params p = {.act = r->act, .alpha = 1.702f, .limit = 7.0f};
    *call = (rdg_op_call){.op = &rdg_op_glu};
    snprintf(name, RDG_CASE_NAME_BYTES, "%s", r->name);
    rdg_case_params(call, &p, sizeof p);
    for (int k = 0; k < 3; k++) {
        rdg_tensor_init(&call->operand[k], RDG_TYPE_F32, r->n, r->rows, 1, 1);
        if (k != RDG_GLU_OUT || r->in_place >= 0) rdg_case_pad_rows(&call->operand[k], r->pad);
    }
    return true;
}

static int alias(int i, int operand)
{
    return operand == RDG_GLU_OUT ? rows[i].in_place : -1;
}

const rdg_case_set rdg_glu_cases = {.make = make, .alias = alias};
