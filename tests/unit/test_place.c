/* Dividing a model between the CPU and a GPU: what is predicted is what is allocated, a limit is kept, parts
 * of plans are whole plans, and states are found wherever they lie. On the trace device, which computes
 * nothing; that the logits are right is shown by the golden models (tests/golden). */
#include "../support/support.h"
#include "device/trace/trace.h"
#include "engine/decode.h"
#include "engine/session_internal.h"
#include "graph/gpu_exec.h"
#include "graph/place.h"
#include "graph/plan_internal.h"
#include "graph/split_exec.h"
#include <ridge/ridge.h>

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { N_CTX = 96, N_BATCH = 32, N_BLOCKS = 8 };
static char path[] = "/tmp/ridge-place-XXXXXX";
static rdg_model *model;

static int load_model(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_convert_params p = {.type = RDG_RECIPE_Q4_K_M, .n_threads = 1};
    int fd = mkstemp(path);
    if (fd < 0) return -1;
    close(fd);
    if (rdg_convert(RIDGE_SOURCE_DIR "/models/ridge-tiny", path, &p, NULL, &e) ||
        rdg_model_load(path, NULL, &model, &e)) {
        print_error("%s\n", e.message);
        return -1;
    }
    return 0;
}

static int release_model(void **state)
{
    (void)state;
    rdg_model_release(model);
    unlink(path);
    return 0;
}

static rdg_err open_session(int64_t gpu_layers, uint64_t memory, rdg_session **s, rdg_error *e)
{
    rdg_session_params p;
    rdg_session_defaults(&p);
    p.device = "trace";
    p.n_ctx = N_CTX;
    p.n_batch = N_BATCH;
    p.n_threads = 1;
    p.gpu_layers = gpu_layers;
    p.device_memory_bytes = memory;
    return rdg_session_create(model, &p, s, e);
}

static rdg_session *session(int64_t gpu_layers, uint64_t memory)
{
    rdg_session *s;
    rdg_error e = {0};
    if (open_session(gpu_layers, memory, &s, &e)) fail_msg("%s", e.message);
    return s;
}

static rdg_device *device_of(const rdg_session *s)
{
    const rdg_exec *part = rdg_exec_split_gpu(s->exec);
    return rdg_exec_gpu_device(part ? part : s->exec);
}

static uint64_t total(const rdg_placement *p)
{
    return p->weight_bytes + p->kv_bytes + p->scratch_bytes;
}

/* Prefill and decode, so that everything there is has been allocated. */
static void use(rdg_session *s)
{
    rdg_error e = {0};
    int32_t ids[N_BATCH];
    for (int i = 0; i < N_BATCH; i++) ids[i] = i * 7 + 1;
    if (rdg_session_eval(s, ids, N_BATCH, RDG_LOGITS_NONE, &e) ||
        rdg_session_eval(s, ids, N_BATCH, RDG_LOGITS_LAST, &e) ||
        rdg_session_eval(s, ids, 1, RDG_LOGITS_LAST, &e))
        fail_msg("%s", e.message);
}

static void test_by_number(void **state)
{
    (void)state;
    rdg_placement p[RDG_PLACEMENTS_MAX];
    for (int64_t n = 1; n <= N_BLOCKS + 2; n++) {
        rdg_session *s = session(n, 0);
        int k = rdg_session_placements(s, p);
        const rdg_placement *gpu = &p[k - 1];
        assert_int_equal(k, n < N_BLOCKS ? 2 : 1);
        assert_string_equal(gpu->device, "trace:0");
        assert_int_equal(gpu->n_blocks, n < N_BLOCKS ? n : N_BLOCKS);
        assert_int_equal(gpu->first_block + gpu->n_blocks, N_BLOCKS);
        assert_true(gpu->output && gpu->embedding == (n >= N_BLOCKS));
        if (k == 2) {
            assert_string_equal(p[0].device, "cpu");
            assert_true(p[0].embedding && !p[0].output);
            assert_int_equal(p[0].n_blocks, gpu->first_block);
        }
        use(s);
        /* beside what was predicted: inputs and outputs of the three plans */
        uint64_t used = rdg_device_get_account(device_of(s))->bytes_now, planned = total(gpu);
        uint64_t io = 3 * 4096 + 2 * 4 * (uint64_t)rdg_model_get_info(model)->n_vocab +
                      4 * (2 * N_BATCH + 1) * (uint64_t)rdg_model_get_info(model)->n_embd;
        if (used < gpu->weight_bytes + gpu->kv_bytes || used > planned + io)
            fail_msg("%d blocks: %llu bytes were planned, %llu are in use", (int)n,
                     (unsigned long long)planned, (unsigned long long)used);
        rdg_session_destroy(s);
    }
    rdg_session *s = session(-1, 0);
    assert_int_equal(rdg_session_placements(s, p), 1);
    assert_string_equal(p[0].device, "cpu");
    assert_true(p[0].embedding && p[0].output && p[0].n_blocks == N_BLOCKS);
    use(s);
    rdg_session_destroy(s);
    rdg_error e = {0};
    assert_int_equal(open_session(-2, 0, &s, &e), RDG_E_ARGUMENT);
}

static void test_by_memory(void **state)
{
    (void)state;
    rdg_placement p[RDG_PLACEMENTS_MAX];
    rdg_session *s = session(0, 0);
    assert_int_equal(rdg_session_placements(s, p), 1);
    uint64_t all = total(&p[0]);
    rdg_session_destroy(s);
    int64_t before = 0;
    int steps = 0;
    for (uint64_t part = 1; part <= 24; part++) {
        uint64_t limit = all * part / 24;
        s = session(0, limit);
        int k = rdg_session_placements(s, p);
        const rdg_placement *last = &p[k - 1];
        int64_t n = strcmp(last->device, "cpu") ? last->n_blocks : 0;
        if (n) assert_true(total(last) <= limit);
        assert_true(n >= before);
        steps += n > before;
        before = n;
        /* one block more would have been too much */
        if (n && n < N_BLOCKS) {
            rdg_session *more = session(n + 1, 0);
            assert_true(rdg_session_placements(more, p) >= 1);
            assert_true(total(&p[n + 1 < N_BLOCKS ? 1 : 0]) > limit);
            rdg_session_destroy(more);
        }
        rdg_session_destroy(s);
    }
    assert_int_equal(before, N_BLOCKS);
    assert_true(steps >= 5);
    s = session(0, all); /* to the byte */
    assert_int_equal(rdg_session_placements(s, p), 1);
    assert_string_equal(p[0].device, "trace:0");
    rdg_session_destroy(s);
    s = session(0, all - 1);
    assert_int_equal(rdg_session_placements(s, p), 2);
    assert_true(p[0].n_blocks == 1 &&
                p[0].embedding); /* its table is the output's too: no byte is won by it alone */
    use(s);
    rdg_session_destroy(s);
}

/* Every place where one value crosses gives two plans that have all the operations. */
static void test_cut(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_plan *whole;
    rdg_plan_options o = {.n_tokens = 5, .n_outputs = 1, .n_ctx = 16, .n_batch = 8};
    int n_cuts = 0;
    assert_int_equal(rdg_model_build_plan(model, &o, true, &whole, &e), RDG_OK);
    for (size_t at = 1; at < whole->n_nodes; at++) {
        rdg_value_id hidden = rdg_plan_crossing(whole, at, &e);
        rdg_plan *a, *b;
        if (hidden == RDG_NO_VALUE) continue;
        n_cuts++;
        assert_int_equal(rdg_plan_cut(whole, 0, at, RDG_NO_VALUE, hidden, &a, &e), RDG_OK);
        assert_int_equal(rdg_plan_cut(whole, at, whole->n_nodes, hidden, RDG_NO_VALUE, &b, &e), RDG_OK);
        assert_int_equal(a->n_nodes + b->n_nodes, whole->n_nodes);
        assert_int_equal(a->n_states + b->n_states, whole->n_states);
        assert_true(a->carried == RDG_NO_VALUE && b->carried != RDG_NO_VALUE);
        assert_true(a->hidden != RDG_NO_VALUE && a->logits == RDG_NO_VALUE && b->logits != RDG_NO_VALUE);
        for (size_t i = 0; i < whole->n_nodes; i++) {
            rdg_op_call x, y;
            rdg_plan_call(whole, i, &x);
            rdg_plan_call(i < at ? a : b, i < at ? i : i - at, &y);
            assert_true(x.op == y.op);
            assert_memory_equal(x.operand, y.operand, sizeof x.operand);
            assert_memory_equal(&x.params, &y.params, sizeof x.params);
        }
        rdg_plan_destroy(a);
        rdg_plan_destroy(b);
    }
    assert_true(n_cuts >= N_BLOCKS);
    rdg_plan_destroy(whole);
}

static void test_states(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_session *s = session(3, 0);
    use(s);
    rdg_prepared *prepared;
    assert_int_equal(rdg_session_plan(s, 1, 1, &prepared, &e), RDG_OK);
    assert_int_equal(prepared->plan->n_states, 2 * N_BLOCKS);
    for (size_t i = 0; i < prepared->plan->n_states; i++) {
        const rdg_state *st = &prepared->plan->states[i];
        size_t n = (size_t)rdg_tensor_bytes(&st->shape);
        unsigned char *in = malloc(n), *out = malloc(n);
        for (size_t k = 0; k < n; k++) in[k] = (unsigned char)(k * 5 + i);
        const rdg_exec_class *class = s->exec->class;
        assert_int_equal(class->write_state(s->exec, st->kind, st->index, in, n, &e), RDG_OK);
        assert_int_equal(class->read_state(s->exec, st->kind, st->index, out, n, &e), RDG_OK);
        assert_memory_equal(in, out, n);
        assert_int_equal(class->read_state(s->exec, st->kind, st->index, out, n - 1, &e), RDG_E_ARGUMENT);
        free(in);
        free(out);
    }
    unsigned char byte;
    assert_int_equal(s->exec->class->read_state(s->exec, RDG_STATE_K, N_BLOCKS, &byte, 1, &e),
                     RDG_E_NOT_FOUND);
    rdg_session_destroy(s);
}

/* Sessions of one model use one device and one copy of the weights, as long as any of them lives. */
static void test_shared(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_load_info a, b;
    rdg_session *one = session(0, 0);
    assert_int_equal(rdg_session_load(one, &a, &e), RDG_OK);
    rdg_session *two = session(2, 0); /* divided: its part is there already */
    assert_int_equal(rdg_session_load(two, &b, &e), RDG_OK);
    assert_true(a.bytes > 5000000 && b.bytes == 0);
    assert_ptr_equal(device_of(one), device_of(two));
    rdg_session_destroy(one);
    use(two);
    rdg_session *three = session(0, 0);
    use(three);
    /* what one lost, the others cannot use; who comes later gets a fresh one */
    rdg_device *d = device_of(two);
    rdg_trace_fail_at(d, 1, RDG_E_DEVICE_LOST);
    assert_int_equal(rdg_session_eval(two, (int32_t[]){1}, 1, RDG_LOGITS_LAST, &e), RDG_E_DEVICE_LOST);
    assert_int_equal(rdg_session_eval(three, (int32_t[]){1}, 1, RDG_LOGITS_LAST, &e), RDG_E_DEVICE_LOST);
    rdg_session *four = session(0, 0);
    assert_ptr_not_equal(device_of(four), d);
    use(four);
    rdg_session_destroy(three);
    rdg_session_destroy(two);
    rdg_session_destroy(four);
}

enum { N_DECODED = 12, N_THREADS = 2 };

typedef struct teller {
    pthread_t thread;
    const char *device;
    int32_t tokens[N_DECODED];
    int n;
    rdg_error error;
} teller;

static bool keep(void *user, int32_t token)
{
    teller *t = user;
    t->tokens[t->n++] = token;
    return true;
}

static void *tell(void *arg)
{
    teller *t = arg;
    rdg_session_params p;
    rdg_session *s;
    int64_t n_done;
    const int32_t ids[] = {5, 900, 33, 4, 1200, 77, 8};
    rdg_session_defaults(&p);
    p.device = t->device;
    p.n_ctx = N_CTX;
    p.n_threads = 1;
    rdg_err err = rdg_session_create(model, &p, &s, &t->error);
    if (!err) err = rdg_session_eval(s, ids, 7, RDG_LOGITS_LAST, &t->error);
    if (!err) err = rdg_session_decode_greedy(s, 11, N_DECODED, keep, t, &n_done, &t->error);
    rdg_session_destroy(s);
    return NULL;
}

static void side_by_side(const char *device)
{
    teller alone = {.device = device}, t[N_THREADS];
    tell(&alone);
    if (alone.error.code == RDG_E_NOT_FOUND) {
        print_message("skipped: %s\n", alone.error.message);
        skip();
    }
    assert_int_equal(alone.n, N_DECODED);
    for (int i = 0; i < N_THREADS; i++) {
        t[i] = (teller){.device = device};
        assert_int_equal(pthread_create(&t[i].thread, NULL, tell, &t[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) pthread_join(t[i].thread, NULL);
    for (int i = 0; i < N_THREADS; i++) {
        if (t[i].n != N_DECODED) fail_msg("%s", t[i].error.message);
        assert_memory_equal(t[i].tokens, alone.tokens, sizeof alone.tokens);
    }
}

static void test_threads_trace(void **state)
{
    (void)state;
    side_by_side("trace");
}

static void test_threads_vulkan(void **state)
{
    (void)state;
    side_by_side("vulkan");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_number),
        cmocka_unit_test(test_by_memory),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_threads_trace),
        cmocka_unit_test(test_threads_vulkan),
    };
    return cmocka_run_group_tests(tests, load_model, release_model);
}
