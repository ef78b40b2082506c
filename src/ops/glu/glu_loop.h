/* The CPU loops of glu, written once and compiled for each instruction set (glu_c.c, glu_avx2.c,
 * glu_avx512.c). */
#ifndef RDG_OPS_GLU_LOOP_H
#define RDG_OPS_GLU_LOOP_H

#include "ops/glu/glu.h"
#include "ops/mathd.h"
#include "ops/rows.h"

#include <math.h>

/* out may be gate or up: element i is read before it is written and no other is touched. */
static inline void glu_part(const rdg_glu_params *p, const float *gate, const float *up, float *out,
                            int64_t n)
{
    const double alpha = (double)p->alpha, limit = (double)p->limit;
    enum { BLOCK = 64 };
    double r[BLOCK]; /* keeps the arithmetic loop free of aliasing, so that it becomes vector code */
    for (int64_t at = 0; at < n; at += BLOCK) {
        int m = (int)RDG_MIN(BLOCK, n - at);
        const float *g = gate + at, *u = up + at;
        switch ((rdg_act_kind)p->act) {
        case RDG_ACT_SILU:
            for (int i = 0; i < m; i++) r[i] = (double)g[i] * rdg_sigmoid((double)g[i]) * (double)u[i];
            break;
        case RDG_ACT_GELU_TANH: /* 0.5 (1 + tanh y) = sigmoid(2 y) */
            for (int i = 0; i < m; i++) {
                double z = (double)g[i], y = 0.7978845608028654 * z * (1.0 + 0.044715 * z * z);
                r[i] = z * rdg_sigmoid(2.0 * y) * (double)u[i];
            }
            break;
        case RDG_ACT_GELU_ERF:
            for (int i = 0; i < m; i++)
                r[i] = 0.5 * (double)g[i] * erfc((double)g[i] * -0.70710678118654752440) * (double)u[i];
            break;
        case RDG_ACT_RELU:
            for (int i = 0; i < m; i++) r[i] = (g[i] > 0.0f ? (double)g[i] : 0.0) * (double)u[i];
            break;
        case RDG_ACT_SIGMOID:
            for (int i = 0; i < m; i++) r[i] = rdg_sigmoid((double)g[i]) * (double)u[i];
            break;
        case RDG_ACT_TANH:
            for (int i = 0; i < m; i++) r[i] = rdg_tanh((double)g[i]) * (double)u[i];
            break;
        case RDG_ACT_SWIGLU_OAI:
            for (int i = 0; i < m; i++) {
                double z = (double)g[i], w = (double)u[i];
                z = z > limit ? limit : z;
                w = w > limit ? limit : w < -limit ? -limit : w;
                r[i] = z * rdg_sigmoid(alpha * z) * (w + 1.0);
            }
            break;
        }
        for (int i = 0; i < m; i++) out[at + i] = (float)r[i];
    }
}

static inline int64_t glu_n_items(const rdg_op_call *call, int phase)
{
    (void)phase;
    return rdg_pieces_of(&call->operand[RDG_GLU_OUT]).n_items;
}

static inline void glu_run(const rdg_op_call *call, const rdg_cpu_task *task)
{
    const rdg_tensor *gate = &call->operand[RDG_GLU_GATE], *up = &call->operand[RDG_GLU_UP],
                     *out = &call->operand[RDG_GLU_OUT];
    const rdg_pieces pieces = rdg_pieces_of(out);
    for (int64_t item = task->begin; item < task->end; item++) {
        rdg_piece p = rdg_piece_at(&pieces, item);
        for (int64_t row = p.first_row; row < p.first_row + p.n_rows; row++)
            glu_part((const rdg_glu_params *)(const void *)call->params.bytes,
                     (const float *)rdg_nth_row(gate, row) + p.first,
                     (const float *)rdg_nth_row(up, row) + p.first, (float *)rdg_nth_row(out, row) + p.first,
                     p.n);
    }
}

#endif
