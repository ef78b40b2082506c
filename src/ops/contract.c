#include "ops/contract.h"
#include "ops/rows.h"
#include "base/mem.h"

#include <ridge/quantize.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static const char *name_of(const rdg_contract *k, int operand)
{
    return k->call->op->operands[operand].name;
}

void rdg_want(rdg_contract *k, bool holds, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    if (k->err || holds) return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    k->err = rdg_fail(k->e, RDG_E_ARGUMENT, "%s: %s", k->call->op->name, text);
}

void rdg_want_type(rdg_contract *k, int operand, rdg_type type)
{
    const rdg_tensor *t = &k->call->operand[operand];
    if (!rdg_tensor_present(t)) return;
    rdg_want(k, t->type == type, "%s is %s, it must be %s", name_of(k, operand), rdg_type_name(t->type),
             rdg_type_name(type));
}

void rdg_want_weight(rdg_contract *k, int operand)
{
    const rdg_tensor *t = &k->call->operand[operand];
    if (!rdg_tensor_present(t)) return;
    rdg_want(k, rdg_type_can_dequantise(t->type), "%s is %s, which cannot be dequantised",
             name_of(k, operand), rdg_type_name(t->type));
}

void rdg_want_cache(rdg_contract *k, int operand)
{
    const rdg_tensor *t = &k->call->operand[operand];
    bool fits = t->type == RDG_TYPE_F32 || t->type == RDG_TYPE_F16 || t->type == RDG_TYPE_BF16 ||
                t->type == RDG_TYPE_Q8_0 || t->type == RDG_TYPE_Q4_0;
    if (!rdg_tensor_present(t)) return;
    rdg_want(k, fits, "%s is %s: a cache is F32, F16, BF16, Q8_0 or Q4_0", name_of(k, operand),
             rdg_type_name(t->type));
}

void rdg_want_dims(rdg_contract *k, int operand, int64_t d0, int64_t d1, int64_t d2, int64_t d3)
{
    const rdg_tensor *t = &k->call->operand[operand];
    const int64_t want[4] = {d0, d1, d2, d3};
    if (!rdg_tensor_present(t)) return;
    for (int d = 0; d < 4; d++)
        rdg_want(k, want[d] < 0 || t->dim[d] == want[d], "%s: dim[%d] is %lld, it must be %lld",
                 name_of(k, operand), d, (long long)t->dim[d], (long long)want[d]);
}

void rdg_want_same_dims(rdg_contract *k, int operand, int as)
{
    const rdg_tensor *t = &k->call->operand[operand], *o = &k->call->operand[as];
    if (!rdg_tensor_present(t)) return;
    for (int d = 0; d < 4; d++)
        rdg_want(k, t->dim[d] == o->dim[d], "%s: dim[%d] is %lld, it must be %lld as in %s",
                 name_of(k, operand), d, (long long)t->dim[d], (long long)o->dim[d], name_of(k, as));
}

void rdg_want_broadcast(rdg_contract *k, int operand, int against)
{
    const rdg_tensor *t = &k->call->operand[operand], *o = &k->call->operand[against];
    if (!rdg_tensor_present(t)) return;
    for (int d = 0; d < 4; d++)
        rdg_want(k, t->dim[d] == o->dim[d] || t->dim[d] == 1,
                 "%s: dim[%d] is %lld, it must be 1 or %lld as in %s", name_of(k, operand), d,
                 (long long)t->dim[d], (long long)o->dim[d], name_of(k, against));
}

typedef struct extent {
    const void *memory; /* what `begin` and `end` count from: a device buffer, or NULL for host addresses */
    uint64_t begin, end;
} extent;

static bool extent_of(const rdg_tensor *t, extent *x)
{
    if (!rdg_tensor_present(t) || (!t->data && !t->buffer)) return false;
    uint64_t last = (uint64_t)rdg_type_row_bytes(t->type, t->dim[0]);
    for (int d = 1; d < 4; d++) last += (uint64_t)((t->dim[d] - 1) * t->stride[d]);
    x->memory = t->buffer;
    x->begin = t->buffer ? t->buffer_offset : (uint64_t)(uintptr_t)t->data;
    x->end = x->begin + last;
    return true;
}

static bool same_place(const rdg_tensor *a, const rdg_tensor *b)
{
    if (a->data != b->data || a->buffer != b->buffer || (a->buffer && a->buffer_offset != b->buffer_offset))
        return false;
    for (int d = 1; d < 4; d++)
        if (a->dim[d] > 1 && a->stride[d] != b->stride[d]) return false;
    return true;
}

/* False when in doubt: two halves of one product interleave, and that is allowed. */
static bool overlap(const rdg_tensor *a, const rdg_tensor *b)
{
    extent x, y;
    if (!extent_of(a, &x) || !extent_of(b, &y) || x.memory != y.memory) return false;
    if (x.end <= y.begin || y.end <= x.begin) return false;
    if (rdg_tensor_n_rows(a) == 1 || rdg_tensor_n_rows(b) == 1)
        return rdg_tensor_dense(a) && rdg_tensor_dense(b);
    for (int d = 1; d < 4; d++) /* rows that repeat at one distance: compare their places within it */
        if (a->stride[d] % a->stride[1] != 0 || b->stride[d] % a->stride[1] != 0) return false;
    uint64_t period = (uint64_t)a->stride[1], row_a = (uint64_t)rdg_type_row_bytes(a->type, a->dim[0]),
             row_b = (uint64_t)rdg_type_row_bytes(b->type, b->dim[0]);
    uint64_t ahead = ((y.begin - x.begin) % period + period) % period;
    if (y.begin < x.begin) ahead = (period - (x.begin - y.begin) % period) % period;
    return ahead < row_a || period - ahead < row_b;
}

void rdg_want_apart(rdg_contract *k, int operand, int other)
{
    rdg_want(k, !overlap(&k->call->operand[operand], &k->call->operand[other]), "%s overlaps %s",
             name_of(k, operand), name_of(k, other));
}

void rdg_want_in_place_or_apart(rdg_contract *k, int operand, int other)
{
    const rdg_tensor *a = &k->call->operand[operand], *b = &k->call->operand[other];
    rdg_want(k, same_place(a, b) || !overlap(a, b), "%s overlaps %s without being the same rows",
             name_of(k, operand), name_of(k, other));
}

void rdg_cost_operands(const rdg_op_call *call, rdg_cost *cost)
{
    *cost = (rdg_cost){0};
    for (int i = 0; i < call->op->n_operands; i++) {
        const rdg_tensor *t = &call->operand[i];
        if (!rdg_tensor_present(t)) continue;
        if (call->op->operands[i].flags & RDG_OPERAND_IN) cost->bytes_read += (double)rdg_tensor_bytes(t);
        if (call->op->operands[i].flags & RDG_OPERAND_OUT) cost->bytes_written += (double)rdg_tensor_bytes(t);
    }
}

void rdg_cost_elementwise(const rdg_op_call *call, double flops_per_output_element, rdg_cost *cost)
{
    rdg_cost_operands(call, cost);
    for (int i = 0; i < call->op->n_operands; i++)
        if (call->op->operands[i].flags & RDG_OPERAND_OUT)
            cost->flops += flops_per_output_element * (double)rdg_tensor_n_elements(&call->operand[i]);
}

double rdg_product_size(const float *a, const float *b, const double *variance_of_b, int64_t n)
{
    const double adding_up =
        2e-6; /* times RDG_ROUNDING_BOUND: sub-blocks of integers, their scales and sums */
    double x = 0.0, y = 0.0, products = 0.0, variance = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double ab = (double)a[i] * (double)b[i];
        x += (double)a[i] * (double)a[i];
        y += (double)b[i] * (double)b[i];
        products += ab * ab;
        if (variance_of_b) variance += (double)a[i] * (double)a[i] * variance_of_b[i];
    }
    const double size = fmax(sqrt(x) * sqrt(y) / sqrt((double)n), sqrt(products));
    return variance_of_b ? sqrt(variance) + adding_up * size : size;
}

void rdg_rounding_variance(const float *x, int64_t n, int64_t group, double *variance)
{
    for (int64_t first = 0; first < n; first += group) {
        const int64_t end = RDG_MIN(first + group, n);
        double step = 0.0;
        for (int64_t i = first; i < end; i++) step = fmax(step, fabs((double)x[i]) / 127.0);
        for (int64_t i = first; i < end; i++) {
            const double steps = step > 0.0 ? (double)x[i] / step : 0.0;
            variance[i] = fabs(steps - rint(steps)) < 1e-5 ? 0.0 : step * step / 12.0;
        }
    }
}

rdg_err rdg_rounding_variances(const rdg_tensor *x, rdg_type weights, rdg_rounding rounding,
                               double **variance, rdg_error *e)
{
    const int64_t n = x->dim[0], group = rounding == RDG_ROUNDS_BY_32 ? 32 : rdg_type_block_elems(weights);
    *variance = NULL;
    if (!rdg_rounds_to_bytes(rounding)) return RDG_OK;
    *variance = rdg_alloc_array((size_t)rdg_tensor_n_elements(x), sizeof **variance);
    if (!*variance)
        return rdg_fail(e, RDG_E_NOMEM, "no memory for the variances of %lld activations",
                        (long long)rdg_tensor_n_elements(x));
    for (int64_t r = 0; r < rdg_tensor_n_rows(x); r++)
        rdg_rounding_variance(rdg_nth_row(x, r), n, group, *variance + r * n);
    return RDG_OK;
}
