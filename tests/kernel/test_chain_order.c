/* Launches of a decode step that touch the same memory are ordered: by a barrier, or because the later one
 * waits for the counter of the earlier one's group, or of one that waited for it. What launches read and
 * write comes from the schedule; what waits for what comes from the commands as the device is given them. A
 * processor runs launches one after the other, so no comparison of results there could see that one waits for
 * too little. Runs on the trace device. Usage: test_chain_order GOLDEN_DIR TRAINED_DIR */
#include "base/clock.h"
#include "base/rng.h"
#include "device/backend.h"
#include "engine/session_internal.h"
#include "graph/gpu_exec.h"
#include "graph/gpu_exec_internal.h"
#include "ridge/convert.h"
#include "ridge/quantize.h"
#include "../golden/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Commands on their way to the device. */
enum { MAX_DISPATCHES = 4096 };
typedef struct dispatched {
    char name[64];
    unsigned char push[RDG_PUSH_BYTES_MAX];
    uint32_t n_workgroups;
    int n_barriers;             /* before it, in its list */
    uint64_t counter, waits_on; /* its own and that of the group it waits for, as addresses; 0: none */
    uint64_t clock;             /* where its workgroups write their times */
    uint32_t before;
} dispatched;

static struct {
    const rdg_backend_api *real;
    dispatched rows[MAX_DISPATCHES];
    size_t n;
    int n_barriers;
    uint64_t zeroed, zeroed_end; /* the last fill with zeros */
    int zeroed_at;               /* barriers before it */
} seen;

static rdg_err see_dispatch(rdg_list *l, rdg_kernel *k, const void *push, const uint32_t grid[3],
                            rdg_error *e)
{
    if (seen.n == MAX_DISPATCHES) return rdg_fail(e, RDG_E_LIMIT, "more dispatches than the test can hold");
    dispatched *d = &seen.rows[seen.n++];
    *d = (dispatched){.n_workgroups = grid[0] * grid[1] * grid[2], .n_barriers = seen.n_barriers};
    snprintf(d->name, sizeof d->name, "%s", k->name);
    memcpy(d->push, push, k->push_bytes);
    /* where the kernels declare `chain`, with `clock` behind it, and `chain_before` */
    const size_t at[] = {7 * 8, 12 * 8}, before_at[] = {9 * 8 + 2 * 4, 14 * 8 + 4};
    int step = !strncmp(k->name, "matvec_q8", 9) ? 0 : !strncmp(k->name, "attention_step", 14) ? 1 : -1;
    if (step >= 0) {
        memcpy(&d->waits_on, d->push + at[step], sizeof d->waits_on);
        memcpy(&d->clock, d->push + at[step] + 8, sizeof d->clock);
        memcpy(&d->before, d->push + before_at[step], sizeof d->before);
        d->counter = d->waits_on ? d->waits_on + RDG_GPU_CHAIN_STRIDE : 0;
        if (!d->before) d->waits_on = 0;
    }
    return seen.real->dispatch(l, k, push, grid, e);
}

static rdg_err see_barrier(rdg_list *l, rdg_error *e)
{
    seen.n_barriers++;
    return seen.real->barrier(l, e);
}

static rdg_err see_fill(rdg_list *l, rdg_buffer *dst, uint64_t offset, uint64_t bytes, uint32_t word,
                        rdg_error *e)
{
    if (word == 0) {
        seen.zeroed = rdg_buffer_address(dst) + offset;
        seen.zeroed_end = seen.zeroed + bytes;
        seen.zeroed_at = seen.n_barriers;
    }
    return seen.real->fill(l, dst, offset, bytes, word, e);
}

/* What a launch touches: a piece of the scratch block (space -1), or of a state. */
typedef struct touched {
    int space;
    int64_t begin, end;
    bool written;
} touched;

static int list_touched(const rdg_plan *p, const rdg_gpu_schedule *s, const rdg_gpu_launch *l, touched *out)
{
    int n = 0;
    for (int k = 0; k < l->n_reads + l->n_writes; k++) {
        bool written = k >= l->n_reads;
        rdg_value_id v = written ? l->writes[k - l->n_reads] : l->reads[k], base = rdg_plan_base(p, v);
        const rdg_value *b = &p->values[base];
        if (b->kind == RDG_VALUE_WEIGHT || b->kind == RDG_VALUE_INPUT) continue; /* written by no launch */
        int64_t begin = v == base ? 0 : p->values[v].offset_bytes;
        int space = -1;
        if (b->kind == RDG_VALUE_STATE) {
            const rdg_state *state = &p->states[b->state_key];
            space = (int)state->kind * 10000 + state->index;
        } else {
            begin += s->place[base];
        }
        out[n++] = (touched){space, begin, begin + rdg_tensor_extent_bytes(&p->values[v].shape), written};
    }
    return n;
}

static bool conflict(const rdg_plan *p, const rdg_gpu_schedule *s, size_t i, size_t k)
{
    const rdg_gpu_launch *x = &s->launches[i], *y = &s->launches[k];
    if (x->kind == RDG_LAUNCH_ATTENTION_STEP && y->kind == RDG_LAUNCH_ATTENTION_STEP)
        return true; /* partial sums and their counters */
    touched a[2 * RDG_LAUNCH_VALUES], b[2 * RDG_LAUNCH_VALUES];
    int n_a = list_touched(p, s, x, a), n_b = list_touched(p, s, y, b);
    for (int m = 0; m < n_a; m++)
        for (int n = 0; n < n_b; n++)
            if (a[m].space == b[n].space && a[m].begin < b[n].end && b[n].begin < a[m].end &&
                (a[m].written || b[n].written))
                return true;
    return false;
}

/* Which launches are over when launch k reads or writes. False if what it waits for never comes or is not
 * theirs alone. */
static bool order(size_t k, bool *over, size_t n, const char *what)
{
    const dispatched *d = &seen.rows[k];
    bool *mine = over + k * n;
    for (size_t i = 0; i < k; i++) mine[i] = seen.rows[i].n_barriers < d->n_barriers;
    if (d->counter &&
        (d->counter - RDG_GPU_CHAIN_STRIDE < seen.zeroed ||
         d->counter + RDG_GPU_CHAIN_STRIDE > seen.zeroed_end || d->n_barriers <= seen.zeroed_at)) {
        printf("%s: launch %zu counts outside of the counters, or before they are zero\n", what, k);
        return false;
    }
    if (!d->waits_on) return true;
    uint64_t come = 0;
    for (size_t i = 0; i < n; i++) {
        if (seen.rows[i].counter != d->waits_on) continue;
        if (i >= k) {
            printf("%s: launch %zu waits for launch %zu, which comes later\n", what, k, i);
            return false;
        }
        come += seen.rows[i].n_workgroups;
        mine[i] = true;
        for (size_t m = 0; m < i; m++) mine[m] = mine[m] || over[i * n + m];
    }
    if (come == d->before) return true;
    printf("%s: launch %zu waits for %u workgroups where %llu come\n", what, k, d->before,
           (unsigned long long)come);
    return false;
}

typedef struct tally {
    int n_launches, n_barriers, n_waits, failures;
} tally;

/* What a step kernel reads as ordinary memory, through the caches, must be written by no launch. */
static bool reads_weights(const rdg_plan *p, const rdg_gpu_launch *l)
{
    const bool attention = l->kind == RDG_LAUNCH_ATTENTION_STEP;
    const rdg_value_id v[] = {attention ? l->sinks : l->bias, attention ? l->q_norm : l->norm_weight,
                              attention ? l->k_norm : l->weight};
    for (int i = 0; i < RDG_COUNTOF(v); i++)
        if (v[i] != RDG_NO_VALUE && p->values[rdg_plan_base(p, v[i])].kind != RDG_VALUE_WEIGHT) return false;
    return true;
}

/* Looks at what the device was told for a plan. */
static void check(const gpu_prepared *c, const char *what, tally *t)
{
    const rdg_gpu_schedule *s = &c->schedule;
    size_t n = s->n;
    int wrong = 0;
    if (seen.n != n) {
        printf("%s: %zu dispatches of %zu launches: which is whose?\n", what, seen.n, n);
        t->failures++;
        return;
    }
    bool *over = calloc(n * n + 1, sizeof *over);
    for (size_t k = 0; k < n && !wrong; k++) {
        if ((s->launches[k].kind != RDG_LAUNCH_NODE) != (seen.rows[k].counter != 0)) {
            printf("%s: launch %zu is %s\n", what, k, seen.rows[k].name);
            wrong++;
        }
        if (s->launches[k].kind != RDG_LAUNCH_NODE && !reads_weights(c->base.plan, &s->launches[k])) {
            printf("%s: launch %zu may read old values from a cache\n", what, k);
            wrong++;
        }
        wrong += !order(k, over, n, what);
        t->n_waits += seen.rows[k].waits_on != 0;
        for (size_t i = 0; i < k && !wrong; i++) {
            if (over[k * n + i] || !conflict(c->base.plan, s, i, k)) continue;
            printf("%s: launch %zu (%s) may run beside launch %zu (%s)\n", what, k, seen.rows[k].name, i,
                   seen.rows[i].name);
            wrong++;
        }
    }
    t->n_launches += (int)n;
    t->n_barriers += seen.n_barriers;
    t->failures += wrong != 0;
    free(over);
}

/* Listens to what a device is told from now on, or no longer. */
static void listen(rdg_device *d, bool on)
{
    static rdg_backend_api spy;
    if (!on) {
        d->api = seen.real;
        return;
    }
    seen.real = d->api;
    seen.n = 0;
    seen.n_barriers = 0;
    spy = *d->api;
    spy.dispatch = see_dispatch;
    spy.barrier = see_barrier;
    spy.fill = see_fill;
    d->api = &spy;
}

static bool stop(void *user, int32_t token)
{
    (void)user, (void)token;
    return false;
}

static void ignore(void *user, const rdg_launch_span *spans, int64_t n)
{
    (void)user, (void)spans, (void)n;
}

/* The times that workgroups write have places of their own, which fill their buffer. */
static void check_clocks(gpu_exec *x, const char *what, tally *t)
{
    gpu_prepared *c = x->prepared[0];
    const rdg_generate g = {.n = 1, .on_token = stop, .on_spans = ignore};
    const rdg_buffer *b = NULL;
    int64_t n_done;
    rdg_error e;
    x->clock = CLOCK_SAME; /* nothing runs here that could tell; reading the times must fail, then */
    listen(x->device, true);
    rdg_err rc = x->base.class->generate(&x->base, &c->base, &g, &n_done, &e);
    listen(x->device, false);
    for (int i = 0; i < RDG_GPU_RECORDINGS; i++)
        if (c->recordings[i].clock) b = c->recordings[i].clock;
    uint64_t next = b ? rdg_buffer_address(b) : 0, end = b ? next + rdg_buffer_bytes(b) : 0;
    bool ok = b ? rc == RDG_E_DEVICE && strstr(e.message, "clocks that differ") : rc == RDG_OK;
    for (size_t i = 0; i < seen.n; i++) {
        const dispatched *d = &seen.rows[i];
        if (!d->counter) continue;
        ok = ok && b && d->clock == next && strstr(d->name, "_clock");
        next += d->n_workgroups * sizeof(rdg_gpu_clock_record);
    }
    if (ok && next == end) return;
    printf("%s: times of workgroups end at %lld of their buffer's end; %s\n", what, (long long)(next - end),
           rc ? e.message : "no error");
    t->failures++;
}

static rdg_err look_at_model(rdg_model *m, const char *name, tally *t, rdg_error *e)
{
    static const int32_t token = 1;
    rdg_session *s;
    rdg_session_params sp;
    rdg_session_defaults(&sp);
    sp.device = "trace";
    sp.n_ctx = 300; /* several splits of an attention */
    sp.n_threads = 1;
    rdg_err rc = rdg_session_create(m, &sp, &s, e);
    if (rc) return rc;
    gpu_exec *x = (gpu_exec *)s->exec;
    listen(x->device, true);
    rc = rdg_session_eval(s, &token, 1, RDG_LOGITS_LAST, e);
    listen(x->device, false);
    if (!rc) check(x->prepared[0], name, t);
    if (!rc) check_clocks(x, name, t);
    rdg_session_destroy(s);
    return rc;
}

/* Random plans over the weights of the trained model, whose hidden state and heads these are. */
enum {
    HIDDEN = 256,
    HEAD_DIM = 64,
    N_HEADS = 4,
    N_KV = 2,
    N_BLOCKS = 8,
    OPERATIONS = 60,
    RECENT = 9,
    PLANS = 100
};

static rdg_value_id product(rdg_plan *p, rdg_rng *rng, const char *role, rdg_value_id x, int64_t n_rows)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s.weight", (int)rdg_rng_below(rng, N_BLOCKS), role);
    return rdg_plan_linear(p, rdg_plan_weight(p, name, HIDDEN, n_rows, 0), x, RDG_NO_VALUE, role);
}

static rdg_value_id random_operation(rdg_plan *p, rdg_rng *rng, rdg_value_id a, rdg_value_id b)
{
    static const rdg_glu_params glu = {.act = RDG_ACT_SILU};
    const rdg_attention_spec spec = {.scale = 0.125f, .causal = true, .sinks = RDG_NO_VALUE};
    const rdg_value_id norm = rdg_plan_weight(p, "output_norm.weight", HIDDEN, 0, 0);
    switch (rdg_rng_below(rng, 9)) {
    case 0: return rdg_plan_mul(p, a, b, "mul");
    case 1: /* operands that are weights in models */
        return rdg_plan_linear(p, rdg_plan_weight(p, "blk.0.attn_q.weight", HIDDEN, HIDDEN, 0),
                               rdg_plan_rmsnorm(p, a, rdg_rng_below(rng, 2) ? b : norm, 1e-5f, "norm"),
                               rdg_rng_below(rng, 2) ? b : RDG_NO_VALUE, "biased");
    case 2: return rdg_plan_rmsnorm(p, a, norm, 1e-5f, "norm");
    case 3: return rdg_plan_add(p, product(p, rng, "attn_output", a, HIDDEN), 1, b, 1, "add");
    case 4:
        return rdg_plan_glu(p, product(p, rng, "attn_q", a, HIDDEN), product(p, rng, "attn_q", a, HIDDEN),
                            &glu, "glu");
    case 5: {
        rdg_value_id q = product(p, rng, "attn_q", a, HIDDEN),
                     k = product(p, rng, "attn_k", b, N_KV * HEAD_DIM),
                     v = product(p, rng, "attn_v", b, N_KV * HEAD_DIM);
        return rdg_plan_attention(p, rdg_plan_reshape(p, q, HEAD_DIM, N_HEADS, 1),
                                  rdg_plan_reshape(p, k, HEAD_DIM, N_KV, 1),
                                  rdg_plan_reshape(p, v, HEAD_DIM, N_KV, 1), &spec);
    }
    case 6: return rdg_plan_act(p, a, RDG_ACT_SILU, 1, "act");
    default: return product(p, rng, "attn_q", a, HIDDEN);
    }
}

static rdg_err look_at_random(rdg_model *m, rdg_rng *rng, int number, tally *t, rdg_error *e)
{
    const rdg_plan_options o = {.n_tokens = 1,
                                .n_outputs = 1,
                                .n_ctx = 64,
                                .n_batch = 1,
                                .kv_type_k = RDG_TYPE_F16,
                                .kv_type_v = RDG_TYPE_F16};
    const rdg_exec_request request = {.device = "trace", .gguf = m->gguf};
    static const int32_t zero = 0;
    const rdg_step step = {.tokens = &zero, .positions = &zero, .output_rows = &zero, .n_visible = 1};
    const float *output;
    rdg_plan *p;
    rdg_prepared *prepared;
    rdg_exec *x = NULL;
    char name[64];
    snprintf(name, sizeof name, "random plan %d", number);
    rdg_err rc = rdg_plan_create(m->gguf, &o, &p, e);
    if (rc) return rc;
    rdg_value_id values[OPERATIONS + 1],
        table = rdg_plan_weight(p, "token_embd.weight", HIDDEN, m->info.n_vocab, 0);
    values[0] = rdg_plan_embed(p, table, p->tokens, 1, "embed");
    for (int i = 0; i < OPERATIONS; i++) {
        int recent = RDG_MIN(i + 1, RECENT);
        rdg_plan_set_layer(p, i); /* names the states of an attention */
        values[i + 1] = random_operation(p, rng, values[i - (int)rdg_rng_below(rng, (uint64_t)recent)],
                                         values[i - (int)rdg_rng_below(rng, (uint64_t)recent)]);
    }
    for (int i = OPERATIONS; i > OPERATIONS - RECENT; i--) /* so that nothing recent is dropped as unused */
        values[i - 1] = rdg_plan_add(p, values[i], 1, values[i - 1], 1, "add");
    rdg_plan_set_logits(p, values[OPERATIONS - RECENT]);
    rc = rdg_plan_finish(p, true, e);
    if (!rc) rc = rdg_exec_create_gpu(&request, NULL, &x, e);
    if (rc) {
        rdg_plan_destroy(p);
        return rc;
    }
    rc = x->class->prepare(x, p, &prepared, e);
    if (!rc) {
        listen(((gpu_exec *)x)->device, true);
        rc = x->class->run(x, prepared, &step, &output, NULL, e);
        listen(((gpu_exec *)x)->device, false);
    }
    if (!rc) check((const gpu_prepared *)prepared, name, t);
    rdg_exec_destroy(x);
    return rc;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        uint32_t recipe;
    } models[] = {
        {"trained", RDG_RECIPE_Q4_K_M}, {"gemma2", RDG_RECIPE_Q8_0},   {"gemma3", RDG_RECIPE_Q8_0},
        {"glm4", RDG_RECIPE_Q8_0},      {"gptoss", RDG_RECIPE_Q8_0},   {"llama-hd", RDG_RECIPE_F32},
        {"mixtral", RDG_RECIPE_Q8_0},   {"olmo2", RDG_RECIPE_Q8_0},    {"phi3", RDG_RECIPE_Q8_0},
        {"qwen3", RDG_RECIPE_Q8_0},     {"qwen3moe", RDG_RECIPE_Q8_0}, {"smollm3", RDG_RECIPE_Q8_0}};
    golden_temp temp;
    rdg_error e = {0};
    rdg_rng rng;
    rdg_err rc = RDG_OK;
    tally t = {0}, random = {0};
    if (argc < 3) return 2;
    if (!golden_temp_make(&temp)) return 1;
    const uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)rdg_clock_ns();
    printf("seed %llu\n", (unsigned long long)seed);
    rdg_rng_seed(&rng, seed);
    for (int i = 0; i < RDG_COUNTOF(models) && !rc; i++) {
        char dir[512];
        rdg_convert_params p = {.type = models[i].recipe, .n_threads = 1};
        rdg_convert_result result = {0};
        rdg_model *m = NULL;
        snprintf(dir, sizeof dir, "%s/%s", argv[1], models[i].name);
        rc = rdg_convert(i ? dir : argv[2], temp.file, &p, &result, &e);
        if (!rc) rc = rdg_model_load(temp.file, NULL, &m, &e);
        if (!rc) rc = look_at_model(m, models[i].name, &t, &e);
        for (int k = 0; i == 0 && k < PLANS && !rc; k++) rc = look_at_random(m, &rng, k, &random, &e);
        rdg_model_release(m);
        rdg_convert_result_finish(&result);
    }
    golden_temp_remove(&temp);
    if (rc) printf("%s: %s\n", rdg_err_name(rc), e.message);
    printf("models: %d launches, %d barriers, %d waits; random plans: %d, %d, %d\n", t.n_launches,
           t.n_barriers, t.n_waits, random.n_launches, random.n_barriers, random.n_waits);
    if (!t.n_waits || !random.n_waits) printf("nothing was chained\n");
    printf("%d failures\n", t.failures + random.failures);
    return rc || t.failures || random.failures || !t.n_waits || !random.n_waits;
}
