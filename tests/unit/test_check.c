/* The checker catches what it is for: variants with a planted bug must fail, the honest one must pass. */
#include "../support/support.h"
#include "ops/add/add.h"
#include "ops/check.h"
#include "ops/check_data.h"
#include "ops/contract.h"
#include "ops/mul/mul.h"
#include "ops/rows.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/cpu.h"

#include <math.h>

typedef enum planted {
    HONEST,
    OFF_BY_ONE_ELEMENT, /* the result of the neighbour */
    LAST_NOT_WRITTEN,
    WRITES_PAST_END,
    WRITES_BEFORE_START,
    WRITES_NAN,
    ONE_ELEMENT_WRONG, /* by a little, in the middle */
    CHANGES_INPUT,
    DEPENDS_ON_THREADS,
    WRITES_BETWEEN_ROWS,
} planted;

static int64_t one_item(const rdg_op_call *call, int phase)
{
    (void)call;
    (void)phase;
    return 1;
}

/* out = a * b with equal shapes, in plain sight, plus the bug. */
static void multiply(const rdg_op_call *call, const rdg_cpu_task *task, planted bug)
{
    const rdg_tensor *a = &call->operand[RDG_MUL_A], *b = &call->operand[RDG_MUL_B],
                     *out = &call->operand[RDG_MUL_OUT];
    const int64_t n = a->dim[0], n_rows = rdg_tensor_n_rows(a);
    for (int64_t r = 0; r < n_rows; r++) {
        float *x = rdg_nth_row(a, r), *y = rdg_broadcast_row(a, b, r), *o = rdg_nth_row(out, r);
        bool last_row = r == n_rows - 1;
        for (int64_t i = 0; i < n; i++) {
            int64_t from = bug == OFF_BY_ONE_ELEMENT && n > 1 ? (i + 1) % n : i;
            if (bug == LAST_NOT_WRITTEN && last_row && i == n - 1) continue;
            o[i] = x[from] * y[b->dim[0] == 1 ? 0 : from];
        }
        if (bug == WRITES_NAN && last_row) o[n / 2] = NAN;
        if (bug == ONE_ELEMENT_WRONG && last_row) o[n / 2] *= 1.0f + 1e-6f;
        if (bug == DEPENDS_ON_THREADS && last_row) /* within the tolerance, but other bits */
            o[n / 2] = task->n_threads == 1 ? nextafterf(o[n / 2], INFINITY) : o[n / 2];
        if (bug == WRITES_PAST_END && last_row) o[n] = o[n - 1];
        if (bug == WRITES_BEFORE_START && r == 0) o[-1] = o[0];
        if (bug == WRITES_BETWEEN_ROWS && out->stride[1] > n * 4) o[n] *= 2.0f; /* arithmetic on the guard */
        if (bug == CHANGES_INPUT) y[0] = 0.0f;
    }
}

#define PLANTED(bug, variable)                                                                               \
    static void run_##variable(const rdg_op_call *call, const rdg_cpu_task *task)                            \
    {                                                                                                        \
        multiply(call, task, bug);                                                                           \
    }                                                                                                        \
    static const rdg_cpu_kernel kernel_##variable = {                                                        \
        .n_phases = 1, .n_items = one_item, .run = run_##variable};                                          \
    static const rdg_variant variable = {                                                                    \
        .name = #variable, .source = __FILE__, .backend = RDG_BACKEND_CPU, .cpu = &kernel_##variable}
PLANTED(HONEST, honest);
PLANTED(OFF_BY_ONE_ELEMENT, off_by_one);
PLANTED(LAST_NOT_WRITTEN, last_not_written);
PLANTED(WRITES_PAST_END, writes_past_end);
PLANTED(WRITES_BEFORE_START, writes_before_start);
PLANTED(WRITES_NAN, writes_nan);
PLANTED(ONE_ELEMENT_WRONG, one_element_wrong);
PLANTED(CHANGES_INPUT, changes_input);
PLANTED(DEPENDS_ON_THREADS, depends_on_threads);
PLANTED(WRITES_BETWEEN_ROWS, writes_between_rows);

static bool never(const rdg_op_call *call)
{
    (void)call;
    return false;
}

typedef struct seen {
    int n;
    rdg_check_result last_failure;
} seen;

static void remember(void *user, const rdg_check_result *r)
{
    seen *s = user;
    s->n++;
    if (r->verdict == RDG_CHECK_FAILED) s->last_failure = *r;
}

static rdg_check_totals check_variant(const rdg_variant *v, uint32_t features, seen *s)
{
    const rdg_variant *const list[] = {v, NULL};
    rdg_op op = rdg_op_mul;
    rdg_check_cpu cpu;
    rdg_check_runner runner;
    rdg_check_totals totals = {0};
    rdg_error e;
    uint64_t seed = (uint64_t)rdg_clock_ns();
    rdg_check_options o = {.seed = seed, .repeat = 4, .report = remember, .user = s};
    op.variants = list;
    *s = (seen){0};
    print_message("%s: seed %llu\n", v->name, (unsigned long long)seed);
    assert_ok(rdg_check_cpu_create(&cpu, 2, features, &runner, &e), &e);
    assert_ok(rdg_check_op(&op, &runner, &o, &totals, &e), &e);
    rdg_check_cpu_finish(&cpu);
    return totals;
}

static void test_honest_passes(void **state)
{
    seen s;
    (void)state;
    rdg_check_totals t = check_variant(&honest, 0, &s);
    if (t.n_failed) print_error("%s: %s\n", s.last_failure.case_name, s.last_failure.message);
    assert_int_equal(t.n_failed, 0);
    assert_true(t.n_passed >= 10);
    assert_int_equal(t.n_skipped, 0);
}

static void test_planted_bugs_are_caught(void **state)
{
    static const struct {
        const rdg_variant *variant;
        const char *message;
    } bugs[] = {
        {&off_by_one, "reference"},
        {&last_not_written, "nan"},
        {&writes_past_end, "outside the rows of output out"},
        {&writes_before_start, "outside the rows of output out"},
        {&writes_nan, "nan"},
        {&one_element_wrong, "reference"},
        {&changes_input, ""},
        {&depends_on_threads, "number of threads"},
        {&writes_between_rows, "outside the rows of output out"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++) {
        seen s;
        rdg_check_totals t = check_variant(bugs[i].variant, 0, &s);
        if (t.n_failed == 0) fail_msg("%s was not caught", bugs[i].variant->name);
        if (!strstr(s.last_failure.message, bugs[i].message))
            fail_msg("%s: \"%s\" should hold \"%s\"", bugs[i].variant->name, s.last_failure.message,
                     bugs[i].message);
        assert_int_equal(s.last_failure.verdict, RDG_CHECK_FAILED);
    }
}

/* What rounding activations to 8 bits loses: nothing of whole steps, and of others what it does lose. */
static void test_rounding_sizes(void **state)
{
    enum { N = 256, RUNS = 2000 };
    rdg_rng rng;
    float x[N], w[N];
    double variance[N], squares = 0, sizes = 0;
    const uint64_t seed = (uint64_t)rdg_clock_ns();
    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    rdg_rng_seed(&rng, seed);
    for (int run = 0; run < RUNS; run++) {
        const int group = run % 2 ? 32 : 256;
        double lost = 0;
        for (int i = 0; i < N; i++) x[i] = rdg_rng_normal(&rng), w[i] = rdg_rng_normal(&rng);
        rdg_rounding_variance(x, N, group, variance);
        for (int first = 0; first < N; first += group) {
            double step = 0;
            for (int i = first; i < first + group; i++) step = fmax(step, fabs((double)x[i]) / 127);
            for (int i = first; i < first + group; i++)
                lost += (double)w[i] * ((double)x[i] - step * rint((double)x[i] / step));
        }
        const double size = rdg_product_size(w, x, variance, N);
        assert_true(fabs(lost) < RDG_ROUNDING_BOUND * size);
        squares += lost * lost;
        sizes += size * size;
        for (int i = 0; i < N; i++) x[i] = 0.5f * (float)(i % 32 ? (int)rdg_rng_below(&rng, 255) - 127 : 127);
        rdg_rounding_variance(x, N, group, variance);
        assert_true(rdg_product_size(w, x, variance, N) < 1e-5 * rdg_product_size(w, x, NULL, N));
    }
    /* the mean square of 2,000 keeps within a fifth of its expectation: six standard deviations */
    assert_true(squares > 0.8 * sizes && squares < 1.2 * sizes);
}

static void test_unselected_and_unsupported(void **state)
{
    seen s;
    rdg_variant v = honest;
    (void)state;
    v.accepts = never;
    rdg_check_totals t = check_variant(&v, 0, &s);
    assert_int_equal(t.n_failed, 1);
    assert_non_null(strstr(s.last_failure.message, "no case selects it"));
    v.accepts = NULL;
    v.requires_mask = RDG_CPU_AVX512 | RDG_CPU_NEON;
    t = check_variant(&v, RDG_CPU_AVX512, &s);
    assert_int_equal(t.n_failed, 0);
    assert_int_equal(t.n_passed, 0);
    assert_int_equal(t.n_skipped, 1);
}

/* The same seed gives the same data; another gives other data. */
static void test_seed(void **state)
{
    rdg_check_data d[3];
    rdg_op_call call[3];
    rdg_error e;
    char name[RDG_CASE_NAME_BYTES];
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_true(rdg_op_add.cases->make(1, &call[i], name));
        assert_ok(rdg_check_data_create(&d[i], &call[i], rdg_op_add.cases, 1, i == 2 ? 8 : 7, &e), &e);
    }
    size_t bytes = (size_t)rdg_tensor_bytes(&call[0].operand[RDG_ADD_A]);
    assert_memory_equal(call[0].operand[RDG_ADD_A].data, call[1].operand[RDG_ADD_A].data, bytes);
    assert_memory_not_equal(call[0].operand[RDG_ADD_A].data, call[2].operand[RDG_ADD_A].data, bytes);
    assert_ptr_equal(call[0].operand[RDG_ADD_OUT].data, call[0].operand[RDG_ADD_A].data); /* in place */
    for (int i = 0; i < 3; i++) rdg_check_data_finish(&d[i]);
}

static void test_row_comparison(void **state)
{
    const double reference[4] = {1.0, -2.0, 0.0, 1000.0};
    const rdg_tolerance exact = {RDG_TOLERANCE_EXACT, 0}, ulp = {RDG_TOLERANCE_ULP, 2},
                        sums = {RDG_TOLERANCE_NORMALISED, 1e-4};
    double got[4];
    int64_t bad;
    (void)state;
    memcpy(got, reference, sizeof got);
    assert_true(rdg_check_row(exact, got, reference, NULL, 4, &bad) == 0.0);
    assert_int_equal(bad, -1);
    got[1] = -2.0 - 0x1p-22; /* one ulp of f32 */
    assert_true(isinf(rdg_check_row(exact, got, reference, NULL, 4, &bad)));
    assert_int_equal(bad, 1);
    assert_true(fabs(rdg_check_row(ulp, got, reference, NULL, 4, &bad) - 0.5) < 1e-6);
    assert_int_equal(bad, -1);
    got[1] = -2.0 - 0x1p-20;
    assert_true(rdg_check_row(ulp, got, reference, NULL, 4, &bad) > 1.0);
    assert_int_equal(bad, 1);
    const rdg_tolerance of_size = {RDG_TOLERANCE_SIZE, 0x1p-22};
    const double size[4] = {1.0, 32.0, 0.0, 1000.0};
    assert_true(fabs(rdg_check_row(of_size, got, reference, size, 4, &bad) - 0.125) < 1e-6);
    assert_int_equal(bad, -1);
    got[1] = -2.0 - 0x1p-16;
    assert_true(rdg_check_row(of_size, got, reference, size, 4, &bad) > 1.0);
    assert_int_equal(bad, 1);
    got[1] = -2.0;
    got[2] = NAN;
    assert_true(isinf(rdg_check_row(of_size, got, reference, size, 4, &bad)));
    assert_true(isinf(rdg_check_row(sums, got, reference, NULL, 4, &bad)));
    assert_int_equal(bad, 2);
    got[2] = 0.3; /* 8 * 1e-4 * rms 500 = 0.4: no single element is off, but the row is by 3e-4 */
    assert_true(rdg_check_row(sums, got, reference, NULL, 4, &bad) > 1.0);
    assert_int_equal(bad, 2);
    got[2] = 0.05;
    assert_true(rdg_check_row(sums, got, reference, NULL, 4, &bad) < 1.0);
    assert_int_equal(bad, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_honest_passes),  cmocka_unit_test(test_planted_bugs_are_caught),
        cmocka_unit_test(test_rounding_sizes), cmocka_unit_test(test_unselected_and_unsupported),
        cmocka_unit_test(test_seed),           cmocka_unit_test(test_row_comparison),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
