/* Plain C rope. Phase 0 makes the table of sines and cosines, which all heads of a token share; phase 1
 * rotates. */
#include "ops/rope/rope.h"
#include "ops/rope/rope_variants.h"
#include "ops/contract.h"
#include "ops/rows.h"

#include <math.h>

enum { PAIRS_PER_ITEM = 32 }; /* a sine and a cosine cost about 40 ns together */

static int64_t parts(const rdg_op_call *call)
{
    return rdg_div_up(RDG_PARAMS(call, rdg_rope_params)->n_dims / 2, PAIRS_PER_ITEM);
}

static int64_t n_items(const rdg_op_call *call, int phase)
{
    const rdg_tensor *x = &call->operand[RDG_ROPE_X];
    if (phase == 0) return x->dim[2] * parts(call);
    return rdg_div_up(x->dim[1] * x->dim[2], rdg_rows_per_item(x->dim[0]));
}

/* scratch: float [cos and sin][pair][token] */
static size_t scratch_bytes(const rdg_op_call *call, int n_threads)
{
    (void)n_threads;
    return (size_t)(RDG_PARAMS(call, rdg_rope_params)->n_dims * call->operand[RDG_ROPE_X].dim[2]) *
           sizeof(float);
}

static void make_table(const rdg_op_call *call, int64_t item, float *table)
{
    const rdg_rope_params *p = RDG_PARAMS(call, rdg_rope_params);
    const rdg_tensor *factors = &call->operand[RDG_ROPE_FACTORS];
    const int64_t token = item / parts(call), first = item % parts(call) * PAIRS_PER_ITEM;
    const int64_t half = p->n_dims / 2, end = RDG_MIN(first + PAIRS_PER_ITEM, half);
    const double pos = (double)((const int32_t *)call->operand[RDG_ROPE_POS].data)[token];
    /* freq_base^(-2i/n_dims) by repeated multiplication in double: 32 steps lose nothing that f32 could show
     */
    const double step = pow((double)p->freq_base, -2.0 / (double)p->n_dims);
    double frequency = pow((double)p->freq_base, -2.0 * (double)first / (double)p->n_dims);
    float *cosines = table + token * p->n_dims, *sines = cosines + half;
    for (int64_t i = first; i < end; i++, frequency *= step) {
        double theta = pos * frequency;
        if (rdg_tensor_present(factors)) theta /= (double)((const float *)factors->data)[i];
        double angle = (double)p->freq_scale * theta;
        if (p->ext_factor != 0.0f) {
            double y =
                ((double)i - (double)p->corr_low) / fmax(0.001, (double)p->corr_high - (double)p->corr_low);
            double ramp = (1.0 - fmin(1.0, fmax(0.0, y))) * (double)p->ext_factor;
            angle = angle * (1.0 - ramp) + theta * ramp;
        }
        cosines[i] = (float)(cos(angle) * (double)p->magnitude);
        sines[i] = (float)(sin(angle) * (double)p->magnitude);
    }
}

static void rotate(const rdg_rope_params *p, const float *x, float *o, const float *cosines,
                   const float *sines, int64_t head_dim)
{
    const int64_t half = p->n_dims / 2;
    if (p->style == RDG_ROPE_NORM) {
        for (int64_t i = 0; i < half; i++) {
            float a = x[2 * i], b = x[2 * i + 1];
            o[2 * i] = a * cosines[i] - b * sines[i];
            o[2 * i + 1] = a * sines[i] + b * cosines[i];
        }
    } else {
        for (int64_t i = 0; i < half; i++) {
            float a = x[i], b = x[i + half];
            o[i] = a * cosines[i] - b * sines[i];
            o[i + half] = a * sines[i] + b * cosines[i];
        }
    }
    if (o != x)
        for (int64_t i = p->n_dims; i < head_dim; i++) o[i] = x[i];
}

static void run(const rdg_op_call *call, const rdg_cpu_task *task)
{
    const rdg_tensor *x = &call->operand[RDG_ROPE_X], *out = &call->operand[RDG_ROPE_OUT];
    const rdg_rope_params *p = RDG_PARAMS(call, rdg_rope_params);
    float *table = task->scratch;
    if (task->phase == 0) {
        for (int64_t item = task->begin; item < task->end; item++) make_table(call, item, table);
        return;
    }
    const int64_t per_item = rdg_rows_per_item(x->dim[0]),
                  end = RDG_MIN(task->end * per_item, x->dim[1] * x->dim[2]);
    for (int64_t row = task->begin * per_item; row < end; row++) {
        int64_t h = row % x->dim[1], t = row / x->dim[1];
        const float *cosines = table + t * p->n_dims;
        rotate(p, rdg_tensor_row(x, h, t, 0), rdg_tensor_row(out, h, t, 0), cosines, cosines + p->n_dims / 2,
               x->dim[0]);
    }
}

static const rdg_cpu_kernel kernel = {
    .n_phases = 2, .n_items = n_items, .scratch_bytes = scratch_bytes, .run = run};
const rdg_variant rdg_rope_c = {
    .name = "f32_c", .source = "src/ops/rope/rope_c.c", .backend = RDG_BACKEND_CPU, .cpu = &kernel};
