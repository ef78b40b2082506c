#include "ops/check.h"
#include "ops/check_data.h"
#include "ops/cpu_run.h"
#include "ops/rows.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Comparison
 * ------------------------------------------------------------------------------------------------------ */

static double ulp_of(double x)
{
    int exponent;
    frexp(x, &exponent);
    return ldexp(1.0, RDG_MAX(exponent - FLT_MANT_DIG, -149));
}

/* How far got may be from reference, as one number; the error is |got - reference| / allowed. */
static double allowed_error(rdg_tolerance t, double reference, double size)
{
    switch (t.kind) {
    case RDG_TOLERANCE_ULP: return t.bound * ulp_of(reference) + t.bound * (double)FLT_MIN;
    case RDG_TOLERANCE_SIZE: return t.bound * size + (double)FLT_MIN;
    case RDG_TOLERANCE_NORMALISED: return 8.0 * t.bound * size + t.bound * fabs(reference) + (double)FLT_MIN;
    case RDG_TOLERANCE_EXACT:
    case RDG_TOLERANCE_INHERIT: break;
    }
    return 0.0;
}

double rdg_check_row(rdg_tolerance tolerance, const double *got, const double *reference, const double *size,
                     int64_t n, int64_t *first_bad)
{
    double worst = 0.0, sum = 0.0, difference = 0.0;
    *first_bad = -1;
    for (int64_t i = 0; i < n; i++) sum += size ? size[i] * size[i] : reference[i] * reference[i];
    const double rms = sqrt(sum / (double)n);
    for (int64_t i = 0; i < n; i++) {
        double d = fabs(got[i] - reference[i]),
               allowed = allowed_error(tolerance, reference[i], size ? size[i] : rms);
        double error = d == 0.0 ? 0.0 : d / allowed; /* allowed 0: infinite */
        if (!(error <= 1.0)) {                       /* NaN included */
            error = isnan(error) ? INFINITY : error;
            if (*first_bad < 0) *first_bad = i;
        }
        worst = fmax(worst, error);
        difference += d * d;
    }
    if (tolerance.kind == RDG_TOLERANCE_NORMALISED && difference > 0.0) {
        double error = sqrt(difference) / (tolerance.bound * sqrt(sum) + (double)FLT_MIN);
        if (!(error <= 1.0) && *first_bad < 0) { /* many small differences: name the largest */
            *first_bad = 0;
            for (int64_t i = 1; i < n; i++)
                if (fabs(got[i] - reference[i]) > fabs(got[*first_bad] - reference[*first_bad]))
                    *first_bad = i;
        }
        worst = fmax(worst, isnan(error) ? INFINITY : error);
    }
    return worst;
}

/* One trial: the operands of a case, the reference of its outputs, and the memory as it was before a run.
 * ----------- */

enum { N_ROUNDINGS = RDG_ROUNDS_TO_HALF + 1 };
typedef struct trial {
    rdg_op_call call;
    rdg_check_data data;
    char *before[RDG_MAX_OPERANDS];              /* copy of data.block[].memory */
    char *first_output[RDG_MAX_OPERANDS];        /* after the runner's first configuration */
    double *reference[RDG_MAX_OPERANDS];         /* outputs only */
    double *size[N_ROUNDINGS][RDG_MAX_OPERANDS]; /* of op->magnitude, made when first needed; NULL without */
    double *got;                                 /* one output row */
} trial;

static void trial_finish(trial *t)
{
    for (int k = 0; k < RDG_MAX_OPERANDS; k++) {
        rdg_free(t->before[k]);
        rdg_free(t->first_output[k]);
        rdg_free(t->reference[k]);
        for (int r = 0; r < N_ROUNDINGS; r++) rdg_free(t->size[r][k]);
    }
    rdg_free(t->got);
    rdg_check_data_finish(&t->data);
}

static bool is_output(const rdg_op *op, int k)
{
    return (op->operands[k].flags & RDG_OPERAND_OUT) != 0;
}

static rdg_err make_reference(trial *t, rdg_error *e)
{
    const rdg_op *op = t->call.op;
    int64_t longest = 1;
    for (int k = 0; k < op->n_operands; k++) {
        const rdg_tensor *o = &t->call.operand[k];
        if (!is_output(op, k) || !rdg_tensor_present(o)) continue;
        longest = RDG_MAX(longest, o->dim[0]);
        t->reference[k] = rdg_alloc_array((size_t)rdg_tensor_n_elements(o), sizeof(double));
        if (!t->reference[k]) return rdg_fail(e, RDG_E_NOMEM, "no memory for the reference of %s", op->name);
        if (!(op->operands[k].flags & RDG_OPERAND_IN)) continue;
        double *p = t->reference[k];
        for (int64_t r = 0; r < rdg_tensor_n_rows(o); r++)
            for (int64_t i = 0; i < o->dim[0]; i++)
                *p++ =
                    rdg_tensor_get(o, i, r % o->dim[1], r / o->dim[1] % o->dim[2], r / o->dim[1] / o->dim[2]);
    }
    t->got = rdg_alloc_array((size_t)longest, sizeof *t->got);
    if (!t->got) return rdg_fail(e, RDG_E_NOMEM, "no memory for a row of %s", op->name);
    return op->reference(&t->call, t->reference, e);
}

static rdg_err trial_create(trial *t, const rdg_op *op, int i, uint64_t seed, rdg_error *e)
{
    char name[RDG_CASE_NAME_BYTES];
    *t = (trial){0};
    if (!op->cases->make(i, &t->call, name))
        return rdg_fail(e, RDG_E_INTERNAL, "%s has no case %d", op->name, i);
    t->call.op = op;
    rdg_err err = rdg_check_data_create(&t->data, &t->call, op->cases, i, seed, e);
    if (err) return err;
    err = rdg_op_check(&t->call, e);
    if (err) rdg_fail_prefix(e, err, "case %s breaks the contract", name);
    for (int k = 0; !err && k < op->n_operands; k++) {
        const rdg_check_block *b = &t->data.block[k];
        if (!b->memory) continue;
        t->before[k] = rdg_alloc(b->bytes);
        t->first_output[k] = rdg_alloc(b->bytes);
        if (!t->before[k] || !t->first_output[k])
            err = rdg_fail(e, RDG_E_NOMEM, "no memory for a copy of an operand");
        else
            memcpy(t->before[k], b->memory, b->bytes);
    }
    if (!err) err = make_reference(t, e);
    if (err) trial_finish(t);
    return err;
}

static void restore(trial *t)
{
    for (int k = 0; k < RDG_MAX_OPERANDS; k++)
        if (t->data.block[k].memory) memcpy(t->data.block[k].memory, t->before[k], t->data.block[k].bytes);
}

static rdg_err make_sizes(trial *t, rdg_rounding rounding, rdg_error *e)
{
    const rdg_op *op = t->call.op;
    double **size = t->size[rounding];
    if (!op->magnitude) return RDG_OK;
    for (int k = 0; k < op->n_operands; k++) {
        const rdg_tensor *o = &t->call.operand[k];
        if (!is_output(op, k) || !rdg_tensor_present(o)) continue;
        if (size[k]) return RDG_OK; /* an earlier variant rounds alike */
        size[k] = rdg_alloc_array((size_t)rdg_tensor_n_elements(o), sizeof **size);
        if (!size[k]) return rdg_fail(e, RDG_E_NOMEM, "no memory for the sizes of %s", op->name);
    }
    restore(t); /* the inputs as they were before any variant ran */
    return op->magnitude(&t->call, rounding, size, e);
}

static bool failed(rdg_check_result *r, const char *fmt, ...) RDG_PRINTF(2, 3);
static bool failed(rdg_check_result *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->message, sizeof r->message, fmt, ap);
    va_end(ap);
    r->verdict = RDG_CHECK_FAILED;
    return false;
}

static bool elements_fit(trial *t, int k, rdg_tolerance tolerance, rdg_check_result *r)
{
    const rdg_tensor *o = &t->call.operand[k];
    if (o->type == RDG_TYPE_I32) tolerance = (rdg_tolerance){RDG_TOLERANCE_EXACT, 0};
    const double *size = t->size[r->variant->rounding][k];
    for (int64_t row = 0; row < rdg_tensor_n_rows(o); row++) {
        const int64_t i1 = row % o->dim[1], i2 = row / o->dim[1] % o->dim[2],
                      i3 = row / o->dim[1] / o->dim[2];
        const double *reference = t->reference[k] + row * o->dim[0];
        int64_t bad;
        for (int64_t i = 0; i < o->dim[0]; i++) t->got[i] = rdg_tensor_get(o, i, i1, i2, i3);
        double error = rdg_check_row(tolerance, t->got, reference, size ? size + row * o->dim[0] : NULL,
                                     o->dim[0], &bad);
        r->error = fmax(r->error, error);
        if (bad < 0) continue;
        char neighbours[160] = "";
        int64_t from = RDG_MAX(bad - 1, 0), to = RDG_MIN(bad + 2, o->dim[0] - 1);
        for (int64_t i = from; i <= to; i++) {
            size_t n = strlen(neighbours);
            snprintf(neighbours + n, sizeof neighbours - n, " [%lld] %.6g/%.6g", (long long)i, t->got[i],
                     reference[i]);
        }
        return failed(r,
                      "%s[%lld, %lld, %lld, %lld] is %.9g, reference %.9g (%.3g times the allowed error); "
                      "got/reference:%s",
                      t->call.op->operands[k].name, (long long)bad, (long long)i1, (long long)i2,
                      (long long)i3, t->got[bad], reference[bad], error, neighbours);
    }
    return true;
}

/* Which operand's rows a changed byte lies next to. */
static bool rest_unchanged(trial *t, int k, rdg_check_result *r)
{
    const rdg_check_block *b = &t->data.block[k];
    const char *name = t->call.op->operands[k].name;
    bool written = false;
    if (!b->memory) return true;
    /* put the old rows of every output in this memory back: what differs then should not have been touched */
    for (int o = 0; o < t->call.op->n_operands; o++) {
        if (!is_output(t->call.op, o) || (o != k && t->data.block[o].shared_with != k)) continue;
        const rdg_tensor *out = &t->call.operand[o];
        written = true;
        for (int64_t row = 0; rdg_tensor_present(out) && row < rdg_tensor_n_rows(out); row++) {
            char *p = rdg_nth_row(out, row);
            memcpy(p, t->before[k] + (p - b->memory), (size_t)rdg_type_row_bytes(out->type, out->dim[0]));
        }
    }
    for (size_t i = 0; i < b->bytes; i++)
        if (b->memory[i] != t->before[k][i])
            return failed(r, "%s %s: the byte %lld after its start was changed from 0x%02x to 0x%02x",
                          written ? "memory outside the rows of output" : "input", name,
                          (long long)(b->memory + i - (char *)t->call.operand[k].data),
                          (unsigned char)t->before[k][i], (unsigned char)b->memory[i]);
    return true;
}

/* All configurations of the runner must give the bits of the first. */
static bool same_as_first(trial *t, int config, rdg_check_result *r)
{
    for (int k = 0; k < t->call.op->n_operands; k++) {
        const rdg_check_block *b = &t->data.block[k];
        if (!b->memory) continue;
        if (config == 0)
            memcpy(t->first_output[k], b->memory, b->bytes);
        else if (memcmp(t->first_output[k], b->memory, b->bytes) != 0)
            return failed(
                r,
                "%s has other bits in configuration %d (another number of threads) than in configuration 0",
                t->call.op->operands[k].name, config);
    }
    return true;
}

static void run_trial(trial *t, const rdg_check_runner *runner, rdg_check_result *r)
{
    const rdg_variant *v = r->variant;
    const rdg_tolerance tolerance =
        v->tolerance.kind == RDG_TOLERANCE_INHERIT ? t->call.op->tolerance : v->tolerance;
    bool good = true;
    r->verdict = RDG_CHECK_PASSED;
    for (int config = 0; good && config < runner->n_configs; config++) {
        rdg_error e;
        rdg_op_call call = t->call;
        restore(t);
        if (runner->run(runner->user, v, &call, config, &e)) {
            failed(r, "it did not run: %s", e.message);
            return;
        }
        good = same_as_first(t, config, r);
        for (int k = 0; good && config == 0 && k < call.op->n_operands; k++)
            if (is_output(call.op, k) && rdg_tensor_present(&call.operand[k]))
                good = elements_fit(t, k, tolerance, r);
        for (int k = 0; good && k < call.op->n_operands; k++) good = rest_unchanged(t, k, r);
    }
}

/* Operations
 * ------------------------------------------------------------------------------------------------------ */

static void deliver(const rdg_check_options *o, rdg_check_totals *totals, const rdg_check_result *r)
{
    if (r->verdict == RDG_CHECK_PASSED)
        totals->n_passed++;
    else if (r->verdict == RDG_CHECK_FAILED)
        totals->n_failed++;
    else
        totals->n_skipped++;
    if (o->report) o->report(o->user, r);
}

static uint64_t case_seed(uint64_t seed, const rdg_op *op, int i)
{
    uint64_t h = seed ^ 0x9e3779b97f4a7c15u;
    for (const char *p = op->name; *p; p++) h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    return (h ^ (uint64_t)i) * 0x100000001b3u;
}

static bool wanted(const rdg_variant *v, const rdg_check_runner *runner, const rdg_check_options *o)
{
    return v->backend == runner->backend && (!o->variant || !strcmp(o->variant, v->name));
}

static bool can_run(const rdg_variant *v, const rdg_check_runner *runner)
{
    return (v->requires_mask & ~runner->features) == 0;
}

static rdg_err check_case(const rdg_op *op, int i, const rdg_check_runner *runner, const rdg_check_options *o,
                          uint64_t *selected, rdg_check_totals *totals, rdg_error *e)
{
    for (int repeat = 0; repeat < RDG_MAX(o->repeat, 1); repeat++) {
        trial t;
        bool made = false;
        int number = 0;
        for (const rdg_variant *const *v = op->variants; *v; v++, number++) {
            rdg_check_result r = {.op = op, .variant = *v, .device = runner->device};
            rdg_op_call shape = {0};
            if (!wanted(*v, runner, o) || !can_run(*v, runner)) continue;
            op->cases->make(i, &shape, r.case_name);
            shape.op = op;
            if ((*v)->accepts && !(*v)->accepts(&shape)) continue;
            *selected |= UINT64_C(1) << (number & 63);
            r.seed = o->seed + (uint64_t)repeat;
            if (!made) {
                rdg_err err = trial_create(&t, op, i, case_seed(r.seed, op, i), e);
                if (err) return err;
                made = true;
            }
            rdg_err err = make_sizes(&t, (*v)->rounding, e);
            if (err) {
                trial_finish(&t);
                return err;
            }
            run_trial(&t, runner, &r);
            deliver(o, totals, &r);
        }
        if (made) trial_finish(&t);
    }
    return RDG_OK;
}

rdg_err rdg_check_op(const rdg_op *op, const rdg_check_runner *runner, const rdg_check_options *o,
                     rdg_check_totals *totals, rdg_error *e)
{
    char name[RDG_CASE_NAME_BYTES];
    rdg_op_call shape;
    uint64_t selected = 0; /* bit n: some case selected variant n */
    int number = 0, n_variants = 0;
    if (!op->cases) return rdg_fail(e, RDG_E_INTERNAL, "%s has no cases", op->name);
    const int stride = RDG_MAX(o->stride, 1), first = (int)(o->seed % (uint64_t)stride);
    for (int i = 0; op->cases->make(i, &shape, name); i++) {
        if ((o->only && !strstr(name, o->only)) || i % stride != first) continue;
        rdg_err err = check_case(op, i, runner, o, &selected, totals, e);
        if (err) return err;
    }
    for (const rdg_variant *const *v = op->variants; *v; v++, number++) {
        rdg_check_result r = {.op = op, .variant = *v, .device = runner->device, .seed = o->seed};
        if (!wanted(*v, runner, o)) continue;
        n_variants++;
        if (!can_run(*v, runner)) {
            r.verdict = RDG_CHECK_SKIPPED;
            snprintf(r.message, sizeof r.message, "this device lacks features 0x%x that it needs",
                     (*v)->requires_mask & ~runner->features);
        } else if (!(selected & UINT64_C(1) << (number & 63)) && stride == 1 && !o->only) {
            failed(&r, "no case selects it: it has never been checked");
        } else {
            continue;
        }
        deliver(o, totals, &r);
    }
    if (n_variants == 0 && !o->variant) {
        rdg_check_result r = {
            .op = op, .device = runner->device, .verdict = RDG_CHECK_SKIPPED, .seed = o->seed};
        snprintf(r.message, sizeof r.message, "no variant for %s%s%s", rdg_backend_name(runner->backend),
                 op->gaps ? ": " : "", op->gaps ? op->gaps : "");
        deliver(o, totals, &r);
    }
    return RDG_OK;
}

/* The CPU
 * ---------------------------------------------------------------------------------------------------------
 */

static rdg_err run_on_cpu(void *user, const rdg_variant *v, rdg_op_call *call, int config, rdg_error *e)
{
    const rdg_check_cpu *c = user;
    return rdg_cpu_run(c->pools[config], call, v, e);
}

rdg_err rdg_check_cpu_create(rdg_check_cpu *c, int n_threads, uint32_t features, rdg_check_runner *runner,
                             rdg_error *e)
{
    const int threads[] = {RDG_MAX(n_threads, 1), 1, RDG_MIN(n_threads + 1, 1024)};
    rdg_err err = RDG_OK;
    *c = (rdg_check_cpu){0};
    for (int i = 0; !err && i < RDG_COUNTOF(threads); i++) err = rdg_pool_create(threads[i], &c->pools[i], e);
    if (err) {
        rdg_check_cpu_finish(c);
        return err;
    }
    *runner = (rdg_check_runner){.backend = RDG_BACKEND_CPU,
                                 .device = "cpu",
                                 .features = features,
                                 .n_configs = RDG_COUNTOF(threads),
                                 .run = run_on_cpu,
                                 .user = c};
    return RDG_OK;
}

void rdg_check_cpu_finish(rdg_check_cpu *c)
{
    for (int i = 0; i < RDG_COUNTOF(c->pools); i++) rdg_pool_destroy(c->pools[i]);
    *c = (rdg_check_cpu){0};
}
