/* The CPU loops of act, written once and compiled for each instruction set (act_c.c, act_avx2.c,
 * act_avx512.c). */
#ifndef RDG_OPS_ACT_LOOP_H
#define RDG_OPS_ACT_LOOP_H

#include "ops/act/act.h"
#include "ops/mathd.h"
#include "ops/rows.h"

#include <math.h>

static inline void act_part(const rdg_act_params *p, const float *x, float *out, int64_t n)
{
    const double cap = (double)p->cap, inv = 1.0 / cap;
    enum { BLOCK = 64 };
    double r[BLOCK]; /* keeps the arithmetic loop free of aliasing, so that it becomes vector code */
    for (int64_t at = 0; at < n; at += BLOCK) {
        int m = (int)RDG_MIN(BLOCK, n - at);
        for (int i = 0; i < m; i++) r[i] = (double)x[at + i] * inv;
        switch ((rdg_act_kind)p->act) {
        case RDG_ACT_SILU:
            for (int i = 0; i < m; i++) r[i] *= rdg_sigmoid(r[i]);
            break;
        case RDG_ACT_GELU_TANH: /* 0.5 (1 + tanh y) = sigmoid(2 y) */
            for (int i = 0; i < m; i++)
                r[i] *= rdg_sigmoid(2.0 * 0.7978845608028654 * r[i] * (1.0 + 0.044715 * r[i] * r[i]));
            break;
        case RDG_ACT_GELU_ERF:
            for (int i = 0; i < m; i++) r[i] *= 0.5 * erfc(r[i] * -0.70710678118654752440);
            break;
        case RDG_ACT_RELU:
            for (int i = 0; i < m; i++) r[i] = r[i] > 0.0 ? r[i] : 0.0;
            break;
        case RDG_ACT_SIGMOID:
            for (int i = 0; i < m; i++) r[i] = rdg_sigmoid(r[i]);
            break;
        case RDG_ACT_TANH:
            for (int i = 0; i < m; i++) r[i] = rdg_tanh(r[i]);
            break;
        case RDG_ACT_SWIGLU_OAI: break; /* refused by the check */
        }
        for (int i = 0; i < m; i++) out[at + i] = (float)(r[i] * cap);
    }
}

static inline int64_t act_n_items(const rdg_op_call *call, int phase)
{
    (void)phase;
    return rdg_pieces_of(&call->operand[RDG_ACT_OUT]).n_items;
}

static inline void act_run(const rdg_op_call *call, const rdg_cpu_task *task)
{
    const rdg_tensor *x = &call->operand[RDG_ACT_X], *out = &call->operand[RDG_ACT_OUT];
    const rdg_pieces pieces = rdg_pieces_of(out);
    for (int64_t item = task->begin; item < task->end; item++) {
        rdg_piece p = rdg_piece_at(&pieces, item);
        for (int64_t row = p.first_row; row < p.first_row + p.n_rows; row++)
            act_part((const rdg_act_params *)(const void *)call->params.bytes,
                     (const float *)rdg_nth_row(x, row) + p.first, (float *)rdg_nth_row(out, row) + p.first,
                     p.n);
    }
}

#endif
