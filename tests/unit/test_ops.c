/* The operations' table: contracts refuse what they must, costs are exact, selection follows the table, the
 * CPU runner hands out every item once. */
#include "../support/random.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "ops/act/act.h"
#include "ops/add/add.h"
#include "ops/attention/attention.h"
#include "ops/cases.h"
#include "ops/contract.h"
#include "ops/cpu_run.h"
#include "ops/embed/embed.h"
#include "ops/experts/experts.h"
#include "ops/glu/glu.h"
#include "ops/mathd.h"
#include "ops/matmul/matmul.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/shapes.h"
#include "quant/quant.h"

#include <ridge/quantize.h>

#include <math.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

/* A valid call of the operation, from its default shape; no data. */
static rdg_op_call valid(const rdg_op *op, const char *shape)
{
    rdg_op_call call;
    rdg_error e;
    char full[256];
    assert_ok(rdg_shape_call(op, shape, &call, full, sizeof full, &e), &e);
    return call;
}

static void test_every_row_is_complete(void **state)
{
    (void)state;
    for (int i = 0; i < rdg_op_count(); i++) {
        const rdg_op *op = rdg_op_at(i);
        assert_ptr_equal(rdg_op_find(op->name), op);
        assert_true(op->n_operands <= RDG_MAX_OPERANDS && op->param_bytes <= RDG_OP_PARAM_BYTES);
        assert_non_null(op->check);
        assert_non_null(op->cost);
        assert_non_null(op->reference);
        assert_non_null(op->cases);
        assert_non_null(rdg_shape_defaults(op));
        assert_true(op->tolerance.kind != RDG_TOLERANCE_INHERIT);
        rdg_op_call call = valid(op, NULL);
        /* plain C takes everything, so a plan can always run */
        const rdg_variant *v = rdg_op_select(&call, RDG_BACKEND_CPU, 0, NULL);
        assert_non_null(v);
        assert_int_equal(v->requires_mask, 0);
        assert_true(op->tolerance.kind != RDG_TOLERANCE_SIZE || op->magnitude);
        for (const rdg_variant *const *a = op->variants; *a; a++) {
            assert_non_null((*a)->source);
            assert_true((*a)->tolerance.kind != RDG_TOLERANCE_SIZE || op->magnitude);
            assert_true(((*a)->backend == RDG_BACKEND_CPU) == ((*a)->cpu != NULL));
            for (const rdg_variant *const *b = a + 1; *b; b++)
                if ((*a)->backend == (*b)->backend) assert_string_not_equal((*a)->name, (*b)->name);
        }
    }
    assert_null(rdg_op_find("nonsense"));
    assert_null(rdg_op_at(-1));
    assert_null(rdg_op_at(rdg_op_count()));
}

static void test_generic_rules(void **state)
{
    rdg_error e;
    (void)state;
    rdg_op_call call = valid(&rdg_op_rmsnorm, NULL), bad = call;
    bad.operand[RDG_RMSNORM_X].dim[0] = 0;
    assert_error(rdg_op_check(&bad, &e), RDG_E_ARGUMENT, &e, "operand x is missing");
    bad = call;
    bad.operand[RDG_RMSNORM_WEIGHT] = (rdg_tensor){0};
    assert_ok(rdg_op_check(&bad, &e), &e);
    bad = call;
    bad.operand[RDG_RMSNORM_X].dim[1] = -3;
    assert_error(rdg_op_check(&bad, &e), RDG_E_ARGUMENT, &e, "x: dim[1] is -3");
    bad = call;
    bad.operand[RDG_RMSNORM_OUT].stride[0] = 8;
    assert_error(rdg_op_check(&bad, &e), RDG_E_ARGUMENT, &e, "out: rows are not contiguous");
    bad = valid(&rdg_op_rmsnorm, "rows=3");
    bad.operand[RDG_RMSNORM_X].stride[1] = 100;
    assert_error(rdg_op_check(&bad, &e), RDG_E_ARGUMENT, &e,
                 "x: stride[1] is 100, less than the 16384 bytes of a row");
    bad.operand[RDG_RMSNORM_X].stride[1] = 16386;
    assert_error(rdg_op_check(&bad, &e), RDG_E_ARGUMENT, &e, "x: stride[1] is 16386, not a multiple of 4");
    bad = valid(&rdg_op_matvec, NULL);
    bad.operand[RDG_MATMUL_WEIGHT].dim[0] = 100;
    assert_error(rdg_op_check(&bad, &e), RDG_E_ARGUMENT, &e,
                 "weight: dim[0] is 100, not a multiple of the 256");
    bad = call;
    bad.operand[0].type = (rdg_type)4;
    assert_error(rdg_op_check(&bad, &e), RDG_E_ARGUMENT, &e, "operand x has no valid type (4)");
}

static void test_contracts_name_operand_and_dimension(void **state)
{
    rdg_error e;
    (void)state;
    rdg_op_call bad = valid(&rdg_op_matvec, NULL);
    rdg_tensor_init(&bad.operand[RDG_MATMUL_BIAS], RDG_TYPE_F32, 14335, 1, 1, 1);
    assert_error(rdg_op_check(&bad, &e), RDG_E_ARGUMENT, &e, "bias: dim[0] is 14335, it must be 14336");
    bad = valid(&rdg_op_matvec, "tokens=8");
    assert_error(rdg_shape_call(&rdg_op_matvec, "tokens=9", &bad, (char[256]){0}, 256, &e), RDG_E_ARGUMENT,
                 &e, "9 tokens are too many, matvec takes up to 8");
    bad = valid(&rdg_op_matmul, NULL);
    bad.operand[RDG_MATMUL_X].type = RDG_TYPE_F16;
    bad.operand[RDG_MATMUL_X].stride[0] = 2;
    assert_error(rdg_op_check(&bad, &e), RDG_E_ARGUMENT, &e, "x is F16, it must be F32");
    bad = valid(&rdg_op_embed, NULL);
    rdg_tensor_init(&bad.operand[RDG_EMBED_TABLE], RDG_TYPE_I32, 4096, 10, 1, 1);
    assert_error(rdg_op_check(&bad, &e), RDG_E_ARGUMENT, &e, "table is I32, which cannot be dequantised");
    bad = valid(&rdg_op_attention, NULL);
    rdg_tensor_init(&bad.operand[RDG_ATTENTION_K], RDG_TYPE_Q4_1, 128, 4096, 8, 1);
    assert_error(rdg_op_check(&bad, &e), RDG_E_ARGUMENT, &e, "k is Q4_1: a cache is");
    bad = valid(&rdg_op_attention, NULL);
    rdg_tensor_init(&bad.operand[RDG_ATTENTION_Q], RDG_TYPE_F32, 128, 13, 1, 1);
    assert_error(rdg_op_check(&bad, &e), RDG_E_ARGUMENT, &e,
                 "13 heads are not a multiple of the 8 heads of k");
    bad = valid(&rdg_op_act, NULL);
    ((rdg_act_params *)(void *)bad.params.bytes)->act = RDG_ACT_SWIGLU_OAI;
    assert_error(rdg_op_check(&bad, &e), RDG_E_ARGUMENT, &e, "takes a gate");
    bad = valid(&rdg_op_experts, NULL);
    bad.operand[RDG_EXPERTS_X].dim[1] = 3;
    assert_error(rdg_op_check(&bad, &e), RDG_E_ARGUMENT, &e, "x: dim[1] is 3, it must be 8");
}

static void test_overlap(void **state)
{
    float memory[4096];
    rdg_error e;
    (void)state;
    rdg_op_call call = valid(&rdg_op_glu, "n=64,rows=4");
    for (int i = 0; i < 3; i++) call.operand[i].data = memory + 1024 * i;
    assert_ok(rdg_op_check(&call, &e), &e);
    call.operand[RDG_GLU_OUT].data = memory; /* in place */
    assert_ok(rdg_op_check(&call, &e), &e);
    call.operand[RDG_GLU_OUT].data = memory + 1;
    assert_error(rdg_op_check(&call, &e), RDG_E_ARGUMENT, &e, "out overlaps gate");
    /* two halves of one product interleave: no byte in common */
    for (int i = 0; i < 2; i++) {
        call.operand[i].data = memory + 64 * i;
        for (int d = 1; d < 4; d++) call.operand[i].stride[d] = call.operand[i].stride[d] * 2;
    }
    call.operand[RDG_GLU_OUT] = call.operand[RDG_GLU_GATE];
    assert_ok(rdg_op_check(&call, &e), &e);
    call.operand[RDG_GLU_OUT].data = memory + 32; /* across both halves */
    assert_error(rdg_op_check(&call, &e), RDG_E_ARGUMENT, &e, "out overlaps");
    call = valid(&rdg_op_matvec, "columns=256,rows=16");
    call.operand[RDG_MATMUL_WEIGHT].data = memory;
    call.operand[RDG_MATMUL_X].data = memory + 2048;
    call.operand[RDG_MATMUL_OUT].data = memory + 2048 + 255;
    assert_error(rdg_op_check(&call, &e), RDG_E_ARGUMENT, &e, "out overlaps x");
}

static void test_costs(void **state)
{
    rdg_cost c;
    (void)state;
    rdg_op_call call = valid(&rdg_op_matvec, "columns=512,rows=100,tokens=2,type=Q4_K");
    call.op->cost(&call, &c);
    assert_true(c.bytes_read == 100 * 288 + 2 * 512 * 4 && c.bytes_written == 2 * 100 * 4);
    assert_true(c.flops == 2.0 * 512 * 100 * 2);
    call = valid(&rdg_op_embed, "columns=256,rows=1000,tokens=3,type=Q8_0"); /* three rows, not the table */
    call.op->cost(&call, &c);
    assert_true(c.bytes_read == 3 * 272 + 3 * 4 && c.bytes_written == 3 * 256 * 4);
    call = valid(&rdg_op_experts, "columns=256,rows=10,experts=64,used=8,tokens=1,type=F16");
    call.op->cost(&call, &c); /* eight of the 64 matrices */
    assert_true(c.bytes_read == 8 * 10 * 512 + 256 * 4 + 8 * 4 && c.flops == 2.0 * 256 * 10 * 8);
    call = valid(&rdg_op_attention, "head_dim=64,heads=8,kv_heads=2,tokens=3,keys=100,type=F16");
    call.op->cost(&call, &c); /* tokens see 98, 99 and 100 keys */
    assert_true(c.flops == (98 + 99 + 100) * 8 * (2.0 * 128 + 4));
    assert_true(c.bytes_read == 2 * 100 * 2 * 128 + 3 * 8 * 64 * 4 + 3 * 4);
    ((rdg_attention_params *)(void *)call.params.bytes)->window = 10;
    call.op->cost(&call, &c); /* ten keys each, twelve in all */
    assert_true(c.flops == 30 * 8 * (2.0 * 128 + 4));
    assert_true(c.bytes_read == 2 * 12 * 2 * 128 + 3 * 8 * 64 * 4 + 3 * 4);
}

static bool refuse(const rdg_op_call *call)
{
    (void)call;
    return false;
}

static void test_selection(void **state)
{
    static const rdg_variant wide = {.name = "wide", .requires_mask = RDG_CPU_AVX512},
                             picky = {.name = "picky", .accepts = refuse}, plain = {.name = "plain"},
                             gpu = {.name = "gpu", .backend = RDG_BACKEND_VULKAN}, last = {.name = "last"};
    static const rdg_variant *const variants[] = {&gpu, &wide, &picky, &plain, &last, NULL};
    rdg_op op = {.variants = variants};
    rdg_op_call call = {.op = &op};
    (void)state;
    assert_ptr_equal(rdg_op_select(&call, RDG_BACKEND_CPU, 0, NULL), &plain);
    assert_ptr_equal(rdg_op_select(&call, RDG_BACKEND_CPU, RDG_CPU_AVX512, NULL), &wide);
    assert_ptr_equal(rdg_op_select(&call, RDG_BACKEND_CPU, RDG_CPU_AVX512, "last"), &last);
    assert_ptr_equal(rdg_op_select(&call, RDG_BACKEND_CPU, 0, "wide"),
                     &plain); /* wanted, but cannot run here */
    assert_ptr_equal(rdg_op_select(&call, RDG_BACKEND_CPU, 0, "picky"), &plain);
    assert_ptr_equal(rdg_op_select(&call, RDG_BACKEND_VULKAN, 0, NULL), &gpu);
    assert_null(rdg_op_select(&call, RDG_BACKEND_CUDA, ~0u, NULL));
}

/* Each item counts its visits; phase 1 sees all of phase 0. */
enum { ITEMS = 1000 };
typedef struct visits {
    atomic_int seen[2][ITEMS];
    atomic_int early; /* items of phase 1 that ran before phase 0 was complete */
} visits;

static int64_t count_items(const rdg_op_call *call, int phase)
{
    return phase == 0 ? call->n_visible : call->n_visible / 2;
}

static size_t one_number(const rdg_op_call *call, int n_threads)
{
    (void)call;
    return (size_t)n_threads;
}

static void visit(const rdg_op_call *call, const rdg_cpu_task *task)
{
    visits *v = call->params.align_ptr;
    assert_true((uintptr_t)task->scratch % 64 == 0 && task->scratch);
    assert_true(task->thread >= 0 && task->thread < task->n_threads);
    for (int64_t i = task->begin; i < task->end; i++) atomic_fetch_add(&v->seen[task->phase][i], 1);
    for (int64_t i = 0; task->phase == 1 && i < call->n_visible; i++)
        if (atomic_load(&v->seen[0][i]) != 1) atomic_fetch_add(&v->early, 1);
}

static void test_cpu_run(void **state)
{
    static const rdg_cpu_kernel kernel = {
        .n_phases = 2, .n_items = count_items, .scratch_bytes = one_number, .run = visit};
    static const rdg_variant variant = {.name = "visit", .backend = RDG_BACKEND_CPU, .cpu = &kernel},
                             gpu = {.name = "gpu", .backend = RDG_BACKEND_VULKAN};
    rdg_error e;
    visits *v = calloc(1, sizeof *v);
    (void)state;
    for (int n_threads = 1; n_threads <= 5; n_threads++) {
        rdg_pool *pool;
        assert_ok(rdg_pool_create(n_threads, &pool, &e), &e);
        for (int64_t n = 0; n <= ITEMS; n = n < 4 ? n + 1 : n * 5 / 2) {
            rdg_op_call call = {.n_visible = n, .params.align_ptr = v};
            memset(v, 0, sizeof *v);
            assert_ok(rdg_cpu_run(pool, &call, &variant, &e), &e);
            for (int64_t i = 0; i < ITEMS; i++) {
                assert_int_equal(v->seen[0][i], i < n);
                assert_int_equal(v->seen[1][i], i < n / 2);
            }
            assert_int_equal(v->early, 0);
        }
        assert_error(rdg_cpu_run(pool, &(rdg_op_call){0}, &gpu, &e), RDG_E_ARGUMENT, &e, "not for the CPU");
        rdg_pool_destroy(pool);
    }
    free(v);
}

/* A phase without items is a barrier all the same: plans are ordered by it. */
typedef struct slow_item {
    rdg_pool *pool;
    rdg_op_call call;
    const rdg_cpu_kernel *kernel;
    atomic_int done, early;
} slow_item;

static int64_t one_then_none(const rdg_op_call *call, int phase)
{
    (void)call;
    return phase == 0;
}

static void work_slowly(const rdg_op_call *call, const rdg_cpu_task *task)
{
    slow_item *s = call->params.align_ptr;
    (void)task;
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    atomic_store(&s->done, 1);
}

static void run_slow_item(void *ctx, int thread, int n_threads)
{
    slow_item *s = ctx;
    const rdg_op_call *call = &s->call;
    const rdg_cpu_calls calls = {.call = &call, .n = 1, .kernel = s->kernel};
    (void)n_threads;
    rdg_cpu_run_calls(s->pool, thread, &calls, 0, NULL, NULL);
    if (!atomic_load(&s->done)) atomic_fetch_add(&s->early, 1);
}

static void test_cpu_run_empty_phase(void **state)
{
    static const rdg_cpu_kernel kernel = {.n_phases = 2, .n_items = one_then_none, .run = work_slowly};
    slow_item s = {.kernel = &kernel};
    rdg_error e;
    (void)state;
    assert_ok(rdg_pool_create(3, &s.pool, &e), &e);
    s.call.params.align_ptr = &s;
    for (int i = 0; i < 5; i++) {
        atomic_store(&s.done, 0);
        rdg_pool_run(s.pool, run_slow_item, &s);
    }
    assert_int_equal(s.early, 0);
    rdg_pool_destroy(s.pool);
}

/* More items than a share holds. */
static int64_t many_items(const rdg_op_call *call, int phase)
{
    (void)phase;
    return 2 * (int64_t)RDG_POOL_MAX_TURNS + call->n_visible;
}

static void count_done(const rdg_op_call *call, const rdg_cpu_task *task)
{
    atomic_fetch_add((atomic_llong *)call->params.align_ptr, task->end - task->begin);
}

/* And in streams with as many turns as they may have. */
static rdg_cpu_streams two_turns_an_item(const rdg_op_call *call, int64_t begin, int64_t end)
{
    (void)call;
    return (rdg_cpu_streams){.ahead = {.n_streams = 1}, .n_turns = 2 * (end - begin)};
}

static void count_turns_done(const rdg_op_call *call, const rdg_cpu_task *task)
{
    atomic_fetch_add((atomic_llong *)call->params.align_ptr, task->end_turn - task->first_turn);
}

static void test_cpu_run_many_items(void **state)
{
    static const rdg_cpu_kernel kernel = {.n_phases = 1, .n_items = many_items, .run = count_done},
                                streams = {.n_phases = 1,
                                           .n_items = many_items,
                                           .run = count_turns_done,
                                           .streams = two_turns_an_item};
    static const rdg_variant variant = {.name = "count", .backend = RDG_BACKEND_CPU, .cpu = &kernel},
                             in_streams = {.name = "turns", .backend = RDG_BACKEND_CPU, .cpu = &streams};
    rdg_error e;
    (void)state;
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        rdg_pool *pool;
        assert_ok(rdg_pool_create(n_threads, &pool, &e), &e);
        for (int64_t more = -1; more <= 1; more++) {
            atomic_llong done = 0;
            rdg_op_call call = {.n_visible = more, .params.align_ptr = &done};
            assert_ok(rdg_cpu_run(pool, &call, &variant, &e), &e);
            assert_int_equal(done, many_items(&call, 0));
        }
        atomic_llong turns = 0;
        rdg_op_call call = {.params.align_ptr = &turns};
        assert_ok(rdg_cpu_run(pool, &call, &in_streams, &e), &e);
        assert_int_equal(turns, 2 * many_items(&call, 0));
        rdg_pool_destroy(pool);
    }
}

static void test_math(void **state)
{
    double worst_exp = 0, worst_tanh = 0;
    rdg_rng rng;
    (void)state;
    seed_fresh(&rng);
    for (int i = 0; i < 200000; i++) {
        double x = (rdg_rng_uniform(&rng) - 0.5) * (i % 2 ? 1400.0 : 4.0),
               t = x * pow(10.0, -(double)(i % 9));
        worst_exp = fmax(worst_exp, fabs(rdg_exp(x) / exp(x) - 1.0));
        worst_tanh = fmax(worst_tanh, fabs(rdg_tanh(t) / tanh(t) - 1.0));
    }
    assert_true(worst_exp < 1e-11);
    assert_true(worst_tanh < 1e-8);
    assert_true(isnan(rdg_exp(NAN)) && isnan(rdg_tanh(NAN)) && isnan(rdg_sigmoid(NAN)));
    assert_true(rdg_exp(0.0) == 1.0 && rdg_tanh(0.0) == 0.0);
    assert_true(rdg_sigmoid(1e6) == 1.0 && rdg_sigmoid(-1e6) < 1e-300);
    assert_true(rdg_tanh(1e6) == 1.0 && rdg_tanh(-1e6) == -1.0);
}

/* Independent factors: both measures agree. One product that is most of the sum: its own size. */
static void test_product_size(void **state)
{
    enum { N = 4096 };
    float a[N], b[N];
    rdg_rng rng;
    (void)state;
    seed_fresh(&rng);
    for (int i = 0; i < N; i++) {
        a[i] = rdg_rng_normal(&rng);
        b[i] = rdg_rng_normal(&rng);
    }
    double size = rdg_product_size(a, b, NULL, N);
    assert_true(size > 0.9 * sqrt(N) && size < 1.2 * sqrt(N));
    a[7] = b[7] = 1000.0f;
    size = rdg_product_size(a, b, NULL, N);
    assert_true(size >= 1e6 && size < 1.001e6);
    a[7] = 0.0f; /* meets nothing: what rounding one factor does to the other still counts */
    size = rdg_product_size(a, b, NULL, N);
    assert_true(size > 900.0 && size < 1100.0);
}

static void test_shapes(void **state)
{
    rdg_op_call call;
    rdg_error e;
    char full[256];
    (void)state;
    assert_ok(rdg_shape_call(&rdg_op_matvec, "rows=7,type=q6_k", &call, full, sizeof full, &e), &e);
    assert_string_equal(full, "columns=4096,rows=7,tokens=1,type=Q6_K");
    assert_int_equal(call.operand[RDG_MATMUL_OUT].dim[0], 7);
    assert_int_equal(call.operand[RDG_MATMUL_WEIGHT].type, RDG_TYPE_Q6_K);
    static const char *const bad[][2] = {{"heads=3", "matvec takes columns"},
                                         {"rows", "not understood"},
                                         {"rows=", "no sensible value"},
                                         {"rows=0", "1 to"},
                                         {"rows=3x", "1 to"},
                                         {"type=Q9_Z", "no type 'Q9_Z'"},
                                         {"=3", "not understood"},
                                         {"columns=100", "not a multiple"},
                                         {"rows=-4", "1 to"},
                                         {"columns=16777216,rows=16777216", "more than"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rdg_err err = rdg_shape_call(&rdg_op_matvec, bad[i][0], &call, full, sizeof full, &e);
        if (!err || !strstr(e.message, bad[i][1])) fail_msg("%s: %d %s", bad[i][0], err, e.message);
    }
}

static void test_tensor_get(void **state)
{
    (void)state;
    const int64_t wide[3] = {-1, 1LL << 40, 7};
    const int8_t small[2] = {-128, 5};
    const double f64[2] = {0.1, -2.5};
    const uint16_t bf16[2] = {0x3f80, 0xc000};
    rdg_tensor t;
    rdg_tensor_init(&t, RDG_TYPE_I64, 3, 1, 1, 1);
    t.data = (void *)(uintptr_t)wide;
    assert_true(rdg_tensor_get(&t, 1, 0, 0, 0) == 0x1p40);
    rdg_tensor_init(&t, RDG_TYPE_I8, 2, 1, 1, 1);
    t.data = (void *)(uintptr_t)small;
    assert_true(rdg_tensor_get(&t, 0, 0, 0, 0) == -128.0);
    rdg_tensor_init(&t, RDG_TYPE_F64, 2, 1, 1, 1);
    t.data = (void *)(uintptr_t)f64;
    assert_true(rdg_tensor_get(&t, 0, 0, 0, 0) == 0.1);
    rdg_tensor_init(&t, RDG_TYPE_BF16, 1, 2, 1, 1);
    t.data = (void *)(uintptr_t)bf16;
    assert_true(rdg_tensor_get(&t, 0, 1, 0, 0) == -2.0);
    assert_true(rdg_tensor_dense(&t) && rdg_tensor_bytes(&t) == 4);
    t.stride[1] = 6;
    assert_false(rdg_tensor_dense(&t));
}

static float *random_floats(rdg_rng *rng, int64_t n)
{
    float *v = malloc((size_t)n * sizeof *v);
    for (int64_t i = 0; i < n; i++) v[i] = (float)(rdg_rng_uniform(rng) * 2.0 - 1.0);
    return v;
}

/* One activation of each 256 is 1000 times the others, and meets weights that are 0. Rounded with one scale
 * for all 256, the others would vanish; with formats of 32 elements only its neighbours do, which meet zeros,
 * too. */
static void check_large_activations(const rdg_op *op, const char *shape, int x, rdg_pool *pool, rdg_rng *rng)
{
    rdg_op_call call = valid(op, shape);
    rdg_error e;
    rdg_tensor *weight = &call.operand[0], *out = &call.operand[op->n_operands - 1];
    for (int k = 0; k < op->n_operands; k++)
        if (rdg_tensor_present(&call.operand[k]))
            call.operand[k].data =
                aligned_alloc(64, ((size_t)rdg_tensor_bytes(&call.operand[k]) + 127) / 64 * 64);
    int64_t n_weights = rdg_tensor_n_elements(weight), n_x = rdg_tensor_n_elements(&call.operand[x]);
    float *w = random_floats(rng, n_weights), *v = random_floats(rng, n_x);
    for (int64_t i = 0; i < n_weights; i++)
        if (i % weight->dim[0] % 256 < 32) w[i] = 0.0f;
    for (int64_t i = 0; i < n_x; i++)
        if (i % weight->dim[0] % 256 == 0) v[i] = 1000.0f;
    assert_ok(rdg_quantise_rows(weight->type, w, weight->data, n_weights / weight->dim[0], weight->dim[0],
                                NULL, &e),
              &e);
    memcpy(call.operand[x].data, v, (size_t)n_x * sizeof *v);
    rdg_shape_prepare(&call, rdg_rng_next(rng));
    int64_t n_out = rdg_tensor_n_elements(out);
    double *wanted = malloc((size_t)n_out * sizeof *wanted), *outs[RDG_MAX_OPERANDS] = {0};
    outs[op->n_operands - 1] = wanted;
    assert_ok(op->reference(&call, outs, &e), &e);
    for (const rdg_variant *const *r = op->variants; *r; r++) {
        if ((*r)->backend != RDG_BACKEND_CPU || ((*r)->requires_mask & ~rdg_cpu_features())) continue;
        if ((*r)->accepts && !(*r)->accepts(&call)) continue;
        assert_ok(rdg_cpu_run(pool, &call, *r, &e), &e);
        double error = 0.0, size = 0.0;
        for (int64_t i = 0; i < n_out; i++) {
            error += pow(((const float *)out->data)[i] - wanted[i], 2.0);
            size += wanted[i] * wanted[i];
        }
        if (!(error < 1e-4 * size))
            fail_msg("%s %s %s: relative error %.3g", op->name, (*r)->name, shape, sqrt(error / size));
        for (int k = 0; k < 2; k++) { /* what is not a number is not lost among integers */
            float *first = call.operand[x].data, old = *first;
            *first = k ? NAN : INFINITY;
            assert_ok(rdg_cpu_run(pool, &call, *r, &e), &e);
            *first = old;
            for (int64_t i = 0; i < out->dim[0]; i++) assert_false(isfinite(((const float *)out->data)[i]));
        }
    }
    for (int k = 0; k < op->n_operands; k++) free(call.operand[k].data);
    free(wanted);
    free(w);
    free(v);
}

static void test_large_activations_leave_the_others_their_bits(void **state)
{
    static const char *const types[] = {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "MXFP4"};
    static const struct {
        const rdg_op *op;
        const char *shape;
        int x;
    } calls[] = {{&rdg_op_matvec, "columns=544,rows=40,tokens=1", RDG_MATMUL_X},
                 {&rdg_op_matvec, "columns=512,rows=9,tokens=7", RDG_MATMUL_X},
                 {&rdg_op_matmul, "columns=800,rows=40,tokens=15", RDG_MATMUL_X},
                 {&rdg_op_experts, "columns=512,rows=33,experts=4,used=2,tokens=3", RDG_EXPERTS_X}};
    rdg_rng rng;
    rdg_error e;
    rdg_pool *pool;
    (void)state;
    seed_fresh(&rng);
    assert_ok(rdg_pool_create(2, &pool, &e), &e);
    for (int c = 0; c < RDG_COUNTOF(calls); c++)
        for (int t = 0; t < RDG_COUNTOF(types); t++) {
            char shape[128];
            snprintf(shape, sizeof shape, "%s,type=%s", calls[c].shape, types[t]);
            check_large_activations(calls[c].op, shape, calls[c].x, pool, &rng);
        }
    rdg_pool_destroy(pool);
}

/* Weights, sub-block scales and activations as large as their bytes can say, of all signs: no sum of integers
 * may leave its type. With d = 1 and activations of at most 127, of which one in each 32 is, nothing is
 * rounded but the last float sums. */
static void check_extremes(rdg_type type, int pattern, rdg_pool *pool)
{
    char shape[128];
    rdg_error e;
    snprintf(shape, sizeof shape, "columns=512,rows=9,tokens=%d,type=%s", pattern % 2 ? 1 : 3,
             rdg_type_name(type));
    rdg_op_call call = valid(&rdg_op_matvec, shape);
    for (int k = 0; k < call.op->n_operands; k++)
        if (rdg_tensor_present(&call.operand[k]))
            call.operand[k].data =
                aligned_alloc(64, ((size_t)rdg_tensor_bytes(&call.operand[k]) + 127) / 64 * 64);
    rdg_shape_prepare(&call, 1);
    rdg_tensor *weight = &call.operand[RDG_MATMUL_WEIGHT], *x = &call.operand[RDG_MATMUL_X];
    const uint16_t one = 0x3c00;
    static const unsigned char fills[] = {0xff, 0x80, 0x7f, 0x00};
    unsigned char *w = weight->data;
    size_t block_bytes = (size_t)rdg_type_block_bytes(weight->type);
    memset(w, fills[pattern / 4], (size_t)rdg_tensor_bytes(weight));
    for (size_t at = 0; at < (size_t)rdg_tensor_bytes(weight); at += block_bytes) {
        if (weight->type == RDG_TYPE_Q6_K) memset(w + at + 192, pattern & 2 ? 0x80 : 0x7f, 16); /* scales */
        for (int h = 0; h < rdg_quant_ops[type].n_halves; h++)
            memcpy(w + at + rdg_quant_ops[type].half_at[h], &one, 2);
    }
    for (int64_t i = 0; i < rdg_tensor_n_elements(x); i++)
        ((float *)x->data)[i] = i % 256 == 5  ? 127.0f
                                : pattern & 2 ? -127.0f
                                : pattern & 1 ? 127.0f
                                : i % 2       ? 1
                                              : 127;
    int64_t n_out = rdg_tensor_n_elements(&call.operand[RDG_MATMUL_OUT]);
    double *wanted = malloc((size_t)n_out * sizeof *wanted), *outs[RDG_MAX_OPERANDS] = {0};
    outs[RDG_MATMUL_OUT] = wanted;
    assert_ok(call.op->reference(&call, outs, &e), &e);
    for (const rdg_variant *const *r = call.op->variants; *r; r++) {
        if ((*r)->backend != RDG_BACKEND_CPU || ((*r)->requires_mask & ~rdg_cpu_features())) continue;
        if ((*r)->accepts && !(*r)->accepts(&call)) continue;
        assert_ok(rdg_cpu_run(pool, &call, *r, &e), &e);
        for (int64_t i = 0; i < n_out; i++) {
            double got = ((const float *)call.operand[RDG_MATMUL_OUT].data)[i];
            if (!(fabs(got - wanted[i]) <= 1e-5 * fabs(wanted[i]) + 100))
                fail_msg("%s, %s, pattern %d, output %d: %.9g instead of %.9g", (*r)->name, shape, pattern,
                         (int)i, got, wanted[i]);
        }
    }
    for (int k = 0; k < call.op->n_operands; k++) free(call.operand[k].data);
    free(wanted);
}

static void test_integers_hold_the_largest_sums(void **state)
{
    static const rdg_type types[] = {RDG_TYPE_Q2_K, RDG_TYPE_Q3_K, RDG_TYPE_Q4_K,
                                     RDG_TYPE_Q5_K, RDG_TYPE_Q6_K, RDG_TYPE_IQ4_XS};
    rdg_error e;
    rdg_pool *pool;
    (void)state;
    assert_ok(rdg_pool_create(2, &pool, &e), &e);
    for (int t = 0; t < RDG_COUNTOF(types); t++)
        for (int pattern = 0; pattern < 16; pattern++) check_extremes(types[t], pattern, pool);
    rdg_pool_destroy(pool);
}

/* Rows whose first element and first byte are beyond 32 bits (CVE-2026-53923 of another program cut such
 * numbers off): a table of 2^33 elements in pages that are never made, but for the last row. */
static void test_rows_beyond_32_bits(void **state)
{
    enum { N_COLUMNS = 4096, N_ROWS = 1 << 21 };
    int32_t ids[2] = {N_ROWS - 1, 0};
    float values[N_COLUMNS], out[2 * N_COLUMNS];
    rdg_op_call call = {.op = &rdg_op_embed};
    rdg_tensor *table = &call.operand[RDG_EMBED_TABLE];
    rdg_pool *pool;
    rdg_error e = {0};
    (void)state;
    rdg_tensor_init(table, RDG_TYPE_Q8_0, N_COLUMNS, N_ROWS, 1, 1);
    rdg_tensor_init(&call.operand[RDG_EMBED_IDS], RDG_TYPE_I32, 2, 1, 1, 1);
    rdg_tensor_init(&call.operand[RDG_EMBED_OUT], RDG_TYPE_F32, N_COLUMNS, 2, 1, 1);
    size_t row_bytes = (size_t)table->stride[1], bytes = row_bytes * N_ROWS;
    assert_true(bytes > UINT64_C(1) << 33);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) skip(); /* a machine that does not lend so many addresses */
    for (int i = 0; i < N_COLUMNS; i++) values[i] = (float)(i % 255 - 127);
    assert_ok(rdg_quantise_rows(RDG_TYPE_Q8_0, values, (char *)p + bytes - row_bytes, 1, N_COLUMNS, NULL, &e),
              &e);
    table->data = p;
    call.operand[RDG_EMBED_IDS].data = ids;
    call.operand[RDG_EMBED_OUT].data = out;
    ((rdg_embed_params *)call.params.bytes)->scale = 1;
    assert_ok(rdg_pool_create(1, &pool, &e), &e);
    for (const rdg_variant *const *v = rdg_op_embed.variants; *v; v++) {
        if ((*v)->backend != RDG_BACKEND_CPU) continue;
        memset(out, 0xff, sizeof out);
        assert_ok(rdg_cpu_run(pool, &call, *v, &e), &e);
        for (int i = 0; i < N_COLUMNS; i++) {
            assert_true(fabsf(out[i] - values[i]) <= 1);
            assert_true(out[N_COLUMNS + i] == 0);
        }
    }
    rdg_pool_destroy(pool);
    munmap(p, bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_is_complete),
        cmocka_unit_test(test_generic_rules),
        cmocka_unit_test(test_contracts_name_operand_and_dimension),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_selection),
        cmocka_unit_test(test_cpu_run),
        cmocka_unit_test(test_cpu_run_empty_phase),
        cmocka_unit_test(test_cpu_run_many_items),
        cmocka_unit_test(test_math),
        cmocka_unit_test(test_product_size),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_tensor_get),
        cmocka_unit_test(test_rows_beyond_32_bits),
        cmocka_unit_test(test_large_activations_leave_the_others_their_bits),
        cmocka_unit_test(test_integers_hold_the_largest_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
