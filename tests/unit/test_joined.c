/* Products of one input that run as one: the same bits as each on its own, with any number of threads and
 * weights of several formats. Once with made-up calls, once in a whole model, where the executor decides what
 * to join (and does not when it is asked for times). */
#include "../support/random.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "engine/model_internal.h"
#include "ops/cpu_run.h"
#include "ops/matmul/matmul.h"
#include "ops/shapes.h"
#include <ridge/ridge.h>

#include <unistd.h>

enum { MAX_JOINED = 5, GUARD = 16 };

/* The last are more than the machine may have: some come late, and others do their share. */
static const int thread_counts[] = {1, 2, 3, 7};
enum { N_COUNTS = RDG_COUNTOF(thread_counts) };

/* A family quantises the activations alike, so its kernel is one. */
static const rdg_type families[2][5] = {
    {RDG_TYPE_Q4_K, RDG_TYPE_Q6_K, RDG_TYPE_Q2_K, RDG_TYPE_Q5_K, RDG_TYPE_Q3_K},
    {RDG_TYPE_Q8_0, RDG_TYPE_Q4_0, RDG_TYPE_IQ4_NL, RDG_TYPE_Q5_1, RDG_TYPE_Q4_1}};
static rdg_rng rng;

static int setup(void **state)
{
    (void)state;
    seed_fresh(&rng);
    return 0;
}

static rdg_type any_type(int family)
{
    return families[family][rdg_rng_below(&rng, RDG_COUNTOF(families[0]))];
}

static float *random_floats(int64_t n)
{
    float *v = rdg_alloc_aligned(64, (size_t)n * sizeof *v);
    assert_non_null(v);
    for (int64_t i = 0; i < n; i++) v[i] = rdg_rng_normal(&rng);
    return v;
}

static rdg_op_call product(int64_t n_columns, int64_t n_tokens, rdg_type type, const float *x)
{
    rdg_op_call call;
    rdg_error e;
    char text[128], full[256];
    int64_t n_rows = 1 + (int64_t)rdg_rng_below(&rng, rdg_rng_below(&rng, 4) == 0 ? 5
                                                      : n_columns > 2000          ? 30
                                                                                  : 90);
    snprintf(text, sizeof text, "columns=%lld,rows=%lld,tokens=%lld,type=%s", (long long)n_columns,
             (long long)n_rows, (long long)n_tokens, rdg_type_name(type));
    assert_ok(rdg_shape_call(&rdg_op_matvec, text, &call, full, sizeof full, &e), &e);
    rdg_tensor *w = &call.operand[RDG_MATMUL_WEIGHT];
    float *values = random_floats(n_rows * n_columns);
    w->data = rdg_alloc_aligned(64, (size_t)rdg_tensor_bytes(w));
    assert_ok(rdg_quantise_rows(type, values, w->data, n_rows, n_columns, NULL, &e), &e);
    rdg_free(values);
    call.operand[RDG_MATMUL_X].data = (void *)x;
    call.operand[RDG_MATMUL_OUT].data = rdg_alloc_array((size_t)(n_rows * n_tokens) + GUARD, sizeof(float));
    /* added to what is there: a row that is done twice differs */
    call.operand[RDG_MATMUL_RESIDUAL] = call.operand[RDG_MATMUL_OUT];
    return call;
}

static void poison(const rdg_op_call *call)
{
    const rdg_tensor *out = &call->operand[RDG_MATMUL_OUT];
    memset(out->data, 0xa5, (size_t)rdg_tensor_bytes(out) + GUARD * sizeof(float));
}

typedef struct joined {
    rdg_pool *pool;
    rdg_cpu_calls calls;
    void *scratch;
} joined;

static void run_joined(void *ctx, int thread, int n_threads)
{
    joined *j = ctx;
    rdg_pool_ahead ahead = rdg_cpu_ahead(&j->calls, thread, n_threads, 1 << 16);
    rdg_cpu_run_calls(j->pool, thread, &j->calls, 0, j->scratch, &ahead);
}

/* As many turns as a share has room for (RDG_POOL_MAX_TURNS). */
static void check_turns(const rdg_op_call *call, const rdg_cpu_kernel *kernel)
{
    int64_t n_items = kernel->n_items(call, kernel->n_phases - 1);
    for (int64_t begin = 0; begin < n_items; begin++)
        for (int64_t end = begin + 1; end <= n_items; end++)
            assert_in_range(kernel->streams(call, begin, end).n_turns, 1, 2 * (end - begin));
}

/* n calls that `v` takes: one by one with one thread, then together with several. */
static void check_calls(rdg_pool *const *pools, const rdg_op_call *calls, int n, const rdg_variant *v)
{
    const rdg_op_call *list[MAX_JOINED];
    void *wanted[MAX_JOINED];
    rdg_error e;
    for (int i = 0; i < n; i++) {
        const rdg_tensor *out = &calls[i].operand[RDG_MATMUL_OUT];
        size_t bytes = (size_t)rdg_tensor_bytes(out) + GUARD * sizeof(float);
        list[i] = &calls[i];
        if (v->cpu->streams) check_turns(&calls[i], v->cpu);
        poison(&calls[i]);
        assert_ok(rdg_cpu_run(pools[0], &calls[i], v, &e), &e);
        wanted[i] = rdg_alloc(bytes);
        memcpy(wanted[i], out->data, bytes);
    }
    for (int t = 0; t < N_COUNTS; t++) {
        joined j = {.pool = pools[t], .calls = {list, n, v->cpu}};
        size_t bytes = rdg_cpu_scratch_bytes(&calls[0], v->cpu, thread_counts[t]);
        j.scratch = rdg_alloc_aligned(64, bytes + 64);
        for (int i = 0; i < n; i++) poison(&calls[i]);
        rdg_pool_run(pools[t], run_joined, &j);
        rdg_free(j.scratch);
        for (int i = 0; i < n; i++) {
            const rdg_tensor *out = &calls[i].operand[RDG_MATMUL_OUT];
            assert_memory_equal(out->data, wanted[i], (size_t)rdg_tensor_bytes(out) + GUARD * sizeof(float));
        }
    }
    for (int i = 0; i < n; i++) rdg_free(wanted[i]);
}

static void made_up_calls(void **state)
{
    static const uint32_t levels[] = {RDG_CPU_AVX2, RDG_CPU_AVX2 | RDG_CPU_AVX512, RDG_CPU_NEON};
    rdg_pool *pools[N_COUNTS];
    rdg_error e;
    int n_checked = 0;
    (void)state;
    for (int t = 0; t < N_COUNTS; t++) assert_ok(rdg_pool_create(thread_counts[t], &pools[t], &e), &e);
    for (int round = 0; round < 60; round++) {
        rdg_op_call calls[MAX_JOINED];
        int family = round & 1, n = 2 + (int)rdg_rng_below(&rng, MAX_JOINED - 1);
        int64_t n_columns = (family ? 32 : 256) * (1 + (int64_t)rdg_rng_below(&rng, family ? 20 : 3));
        int64_t n_tokens = 1 + (int64_t)rdg_rng_below(&rng, 3);
        if (round % 8 < 2)
            n_columns = 256 * (10 + (int64_t)rdg_rng_below(&rng, 25)); /* an item is few rows */
        float *x = random_floats(n_columns * n_tokens);
        for (int i = 0; i < n; i++) calls[i] = product(n_columns, n_tokens, any_type(family), x);
        for (int l = 0; l < RDG_COUNTOF(levels); l++) {
            if (levels[l] & ~rdg_cpu_features()) continue;
            const rdg_variant *v = rdg_op_select(&calls[0], RDG_BACKEND_CPU, levels[l], NULL);
            bool same = v->cpu->prepares == 1 + RDG_MATMUL_X;
            for (int i = 1; i < n; i++)
                same = same && rdg_op_select(&calls[i], RDG_BACKEND_CPU, levels[l], NULL) == v;
            if (!same) continue;
            check_calls(pools, calls, n, v);
            n_checked++;
        }
        for (int i = 0; i < n; i++) {
            rdg_free(calls[i].operand[RDG_MATMUL_WEIGHT].data);
            rdg_free(calls[i].operand[RDG_MATMUL_OUT].data);
        }
        rdg_free(x);
    }
    for (int t = 0; t < N_COUNTS; t++) rdg_pool_destroy(pools[t]);
    print_message("%d groups\n", n_checked);
    if (rdg_cpu_features() & RDG_CPU_AVX2) assert_true(n_checked >= 60);
}

/* A whole model
 * ----------------------------------------------------------------------------------------------------- */

enum { N_STEPS = 10, N_PIECE = 5, N_PLANS = 2 };

/* Blocks 0 to 3 have weights of one family, 4 to 7 of the other. */
static void make_model(const char *path)
{
    static const char *const parts[] = {"attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up"};
    rdg_tensor_override o[2 * RDG_COUNTOF(parts)];
    char patterns[RDG_COUNTOF(o)][48], plain[] = "/tmp/ridge-joined-XXXXXX";
    rdg_error e;
    int fd = mkstemp(plain);
    assert_true(fd >= 0);
    close(fd);
    for (int i = 0; i < RDG_COUNTOF(o); i++) {
        int family = i / RDG_COUNTOF(parts);
        snprintf(patterns[i], sizeof patterns[i], "blk\\.%s\\.%s\\.", family ? "[4-7]" : "[0-3]",
                 parts[i % RDG_COUNTOF(parts)]);
        o[i] = (rdg_tensor_override){patterns[i], any_type(family)};
    }
    const rdg_convert_params c = {.type = RDG_RECIPE_F32, .n_threads = 1};
    const rdg_quantize_params q = {.recipe = RDG_RECIPE_Q4_K_M,
                                   .overrides = o,
                                   .n_overrides = RDG_COUNTOF(o),
                                   .output_type = -1,
                                   .token_embedding_type = -1,
                                   .n_threads = 2};
    assert_ok(rdg_convert(RIDGE_SOURCE_DIR "/models/ridge-tiny", plain, &c, NULL, &e), &e);
    assert_ok(rdg_quantize_file(plain, path, &q, NULL, &e), &e);
    unlink(plain);
}

static void prepare(const rdg_model *m, rdg_exec *x, int64_t n_tokens, rdg_prepared **out)
{
    rdg_plan *p;
    rdg_error e;
    const rdg_plan_options o = {.n_tokens = n_tokens,
                                .n_outputs = 1,
                                .n_ctx = 32,
                                .n_batch = N_PIECE,
                                .kv_type_k = RDG_TYPE_F16,
                                .kv_type_v = RDG_TYPE_F16};
    assert_ok(rdg_model_build_plan(m, &o, true, &p, &e), &e);
    assert_ok(x->class->prepare(x, p, out, &e), &e);
}

/* Logits of a piece of N_PIECE tokens and N_STEPS single ones, [1 + N_STEPS][n_vocab]. */
static float *evaluate(const rdg_model *m, int n_threads, uint32_t cpu_mask, bool one_by_one)
{
    rdg_pool *pool;
    rdg_exec *x;
    rdg_prepared *plans[N_PLANS];
    rdg_error e;
    const int64_t n_vocab = m->hparams.n_vocab;
    float *logits = rdg_alloc_array((size_t)((1 + N_STEPS) * n_vocab), sizeof *logits);
    assert_ok(rdg_pool_create(n_threads, &pool, &e), &e);
    const rdg_exec_request r = {.gguf = m->gguf, .pool = pool, .cpu_mask = cpu_mask};
    assert_ok(rdg_exec_create_cpu(&r, &x, &e), &e);
    prepare(m, x, N_PIECE, &plans[0]);
    prepare(m, x, 1, &plans[1]);
    for (int i = 0; i <= N_STEPS; i++) {
        int32_t tokens[N_PIECE], positions[N_PIECE], row = i ? 0 : N_PIECE - 1;
        const rdg_step step = {
            .tokens = tokens, .positions = positions, .output_rows = &row, .n_visible = N_PIECE + i};
        const float *output;
        rdg_prepared *p = plans[i > 0];
        for (int k = 0; k < N_PIECE; k++) {
            positions[k] = i ? N_PIECE + i - 1 : k;
            tokens[k] = (positions[k] * 977 + 5) % (int32_t)n_vocab;
        }
        rdg_node_time *times = rdg_alloc_array(p->plan->n_nodes, sizeof *times);
        assert_ok(x->class->run(x, p, &step, &output, one_by_one ? times : NULL, &e), &e);
        memcpy(logits + i * n_vocab, output, (size_t)n_vocab * sizeof *logits);
        rdg_free(times);
    }
    rdg_exec_destroy(x);
    rdg_pool_destroy(pool);
    return logits;
}

static void whole_model(void **state)
{
    char path[] = "/tmp/ridge-joined-XXXXXX";
    static const uint32_t masks[] = {0, RDG_CPU_AVX2, ~0u};
    rdg_model *m;
    rdg_error e;
    int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    close(fd);
    make_model(path);
    assert_ok(rdg_model_load(path, NULL, &m, &e), &e);
    size_t bytes = (size_t)((1 + N_STEPS) * m->hparams.n_vocab) * sizeof(float);
    for (int k = 0; k < RDG_COUNTOF(masks); k++) {
        float *wanted = evaluate(m, 1, masks[k], true);
        for (int t = 1; t <= 3; t++) {
            float *got = evaluate(m, t, masks[k], false);
            assert_memory_equal(got, wanted, bytes);
            rdg_free(got);
        }
        rdg_free(wanted);
    }
    rdg_model_release(m);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(made_up_calls), cmocka_unit_test(whole_model)};
    return cmocka_run_group_tests(tests, setup, NULL);
}
