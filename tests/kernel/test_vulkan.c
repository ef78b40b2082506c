/* The GPU's own kernels against references in double precision: decoding of every block format bit for bit,
 * products with 8-bit activations with all that is merged into them, the f16 product (on matrix units where
 * the device has them, and emulated everywhere), and the attention of a decode step against norm, rope and
 * attention one after the other. Fresh random data each run; the seed is printed. Usage: test_vulkan [DEVICE
 * [SEED [all]]]; without a device it is skipped. */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/half.h"
#include "base/rng.h"
#include "ops/act/act.h"
#include "ops/attention/attention_step.h"
#include "ops/check.h"
#include "ops/check_data.h"
#include "ops/contract.h"
#include "ops/embed/embed.h"
#include "ops/glu/glu.h"
#include "ops/gpu.h"
#include "ops/gpu_planar.h"
#include "ops/gpu_rows.h"
#include "ops/gpu_types.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/matvec_q8.h"
#include "quant/quant.h"
#include "quant/search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    rdg_device *d;
    rdg_gpu_cache *cache;
    rdg_rng rng;
    int failures, checks;
    rdg_buffer *live[32]; /* freed after each check */
    int n_live;
} bench;

static void verdict(bench *b, bool ok, const char *what, double error, double bound)
{
    b->checks++;
    if (!ok) b->failures++;
    static double last;
    double now = rdg_clock_seconds();
    if (now - last > 5 && last > 0) printf("(%.1f s) ", now - last);
    last = now;
    if (!ok || getenv("VERBOSE"))
        printf("%-60s error %.3g (bound %.3g) %s\n", what, error, bound, ok ? "ok" : "FAIL");
}

static void die(const rdg_error *e)
{
    printf("%s\n", e->message);
    exit(1);
}

/* A device buffer with a guard of NaNs behind it and, if given, contents. */
static rdg_tensor on_device(bench *b, rdg_type type, int64_t d0, int64_t d1, int64_t d2, const void *data,
                            bool planar)
{
    rdg_tensor t;
    rdg_error e;
    rdg_tensor_init(&t, type, d0, d1, d2, 1);
    uint64_t bytes = (uint64_t)rdg_tensor_bytes(&t), total = (bytes + 255) / 256 * 256 + 256;
    rdg_buffer *up = NULL;
    rdg_list *l = NULL;
    rdg_event done;
    if (rdg_buffer_create(b->d, RDG_MEMORY_DEVICE, total, "operand", &t.buffer, &e) ||
        rdg_buffer_create(b->d, RDG_MEMORY_UPLOAD, total, "staging", &up, &e) ||
        rdg_list_create(b->d, 0, 0, "upload", &l, &e))
        die(&e);
    memset(rdg_buffer_host(up), 0xff, total);
    if (data && planar) {
        for (int64_t r = 0; r < d1 * d2; r++)
            rdg_gpu_make_planar(type, d0, (const char *)data + r * t.stride[1],
                                (char *)rdg_buffer_host(up) + r * t.stride[1]);
        rdg_buffer_set_tag(t.buffer, RDG_GPU_PLANAR);
    } else if (data) {
        memcpy(rdg_buffer_host(up), data, bytes);
    }
    rdg_list_copy(l, t.buffer, 0, up, 0, total);
    if (rdg_list_finish(l, &e) || rdg_submit(b->d, l, NULL, 0, &done, &e) ||
        rdg_event_wait(b->d, done, -1, &e))
        die(&e);
    rdg_list_destroy(l);
    rdg_buffer_destroy(up);
    b->live[b->n_live++] = t.buffer;
    return t;
}

static void from_device(bench *b, const rdg_tensor *t, void *out)
{
    rdg_error e;
    uint64_t bytes = (uint64_t)rdg_tensor_bytes(t);
    rdg_buffer *down;
    rdg_list *l;
    rdg_event done;
    if (rdg_buffer_create(b->d, RDG_MEMORY_READBACK, bytes, "result", &down, &e) ||
        rdg_list_create(b->d, 0, 0, "download", &l, &e))
        die(&e);
    rdg_list_copy(l, down, 0, t->buffer, 0, bytes);
    if (rdg_list_finish(l, &e) || rdg_submit(b->d, l, NULL, 0, &done, &e) ||
        rdg_event_wait(b->d, done, -1, &e))
        die(&e);
    memcpy(out, rdg_buffer_host(down), bytes);
    rdg_list_destroy(l);
    rdg_buffer_destroy(down);
}

static void free_live(bench *b)
{
    while (b->n_live) rdg_buffer_destroy(b->live[--b->n_live]);
}

static void run(bench *b, const rdg_gpu_dispatch *d, int n, int repeat, double *seconds)
{
    rdg_error e;
    rdg_list *l;
    rdg_event done;
    if (rdg_list_create(b->d, 0, 0, "kernel", &l, &e) || rdg_gpu_dispatch_all(b->cache, l, d, n, &e) ||
        rdg_list_finish(l, &e))
        die(&e);
    double t0 = rdg_clock_seconds();
    for (int i = 0; i < repeat; i++)
        if (rdg_submit(b->d, l, NULL, 0, &done, &e)) die(&e);
    if (rdg_event_wait(b->d, done, (int64_t)100 * 1000000000, &e)) die(&e);
    if (seconds) *seconds = (rdg_clock_seconds() - t0) / repeat;
    rdg_list_destroy(l);
}

static float *normal(bench *b, int64_t n, float scale)
{
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        x[i] = scale * rdg_rng_normal(&b->rng);
        if (rdg_rng_below(&b->rng, 64) == 0) x[i] *= 8; /* heavy tails */
    }
    return x;
}

/* Random weights of a type: valid blocks with random bits, scales of moderate size. Also their values. */
static void *weights(bench *b, rdg_type type, int64_t n_columns, int64_t n_rows, float **values)
{
    int64_t row = rdg_type_row_bytes(type, n_columns);
    unsigned char *w = malloc((size_t)(row * n_rows));
    float *x = normal(b, n_columns * n_rows, 0.5f);
    *values = malloc((size_t)(n_columns * n_rows) * sizeof **values);
    for (int64_t r = 0; r < n_rows; r++) {
        if (rdg_quant_ops[type].quantise)
            rdg_quant_ops[type].quantise(rdg_search_best(rdg_cpu_features()), x + r * n_columns, w + r * row,
                                         n_columns, NULL);
        else
            for (int64_t i = 0; i < row; i++) w[r * row + i] = (unsigned char)(rdg_rng_next(&b->rng) & 0x3f);
        rdg_quant_ops[type].dequantise(w + r * row, *values + r * n_columns, n_columns);
    }
    free(x);
    return w;
}

static void check_decode(bench *b, rdg_type type, bool planar)
{
    enum { ROWS = 9 };
    char what[96];
    int64_t n = planar                                                 ? rdg_type_block_elems(type) * 8
                : type == RDG_TYPE_F32 || !rdg_type_is_quantised(type) ? 77
                                                                       : 512;
    float *values;
    void *w = weights(b, type, n, ROWS, &values);
    int32_t ids[ROWS];
    for (int i = 0; i < ROWS; i++) ids[i] = (i * 5 + 2) % ROWS;
    ids[4] = -1;
    rdg_op_call c = {.op = &rdg_op_embed};
    c.operand[RDG_EMBED_TABLE] = on_device(b, type, n, ROWS, 1, w, planar);
    c.operand[RDG_EMBED_IDS] = on_device(b, RDG_TYPE_I32, ROWS, 1, 1, ids, false);
    c.operand[RDG_EMBED_OUT] = on_device(b, RDG_TYPE_F32, n, ROWS, 1, NULL, false);
    rdg_embed_params p = {.scale = 1};
    memcpy(c.params.bytes, &p, sizeof p);
    rdg_gpu_env env = {.facts = rdg_device_get_facts(b->d), .cache = b->cache};
    rdg_gpu_dispatch d = {0};
    rdg_error e;
    if (rdg_embed_vulkan.gpu->encode(&c, &env, &d, &e) != 1) die(&e);
    run(b, &d, 1, 1, NULL);
    float *got = malloc((size_t)(n * ROWS) * sizeof *got);
    from_device(b, &c.operand[RDG_EMBED_OUT], got);
    int64_t wrong = 0;
    for (int i = 0; i < ROWS; i++)
        for (int64_t k = 0; k < n; k++) {
            float want = ids[i] < 0 ? 0 : values[ids[i] * n + k], have = got[i * n + k];
            if (want == 0 && have == 0) continue; /* the sign of zero */
            if (memcmp(&want, &have, 4) && wrong++ == 0)
                printf("%s row %d element %d: %.9g instead of %.9g\n", rdg_type_name(type), i, (int)k, have,
                       want);
        }
    snprintf(what, sizeof what, "decode %s%s, equal bits", rdg_type_name(type), planar ? " planar" : "");
    verdict(b, wrong == 0, what, (double)wrong, 0);
    free(got);
    free(values);
    free(w);
    free_live(b);
}

static double silu(double z)
{
    return z / (1 + exp(-z));
}

typedef struct product_case {
    int64_t n_columns, n_rows;
    bool norm, glu, bias, residual;
} product_case;

/* A sum of products with 8-bit activations, and how far off it may be. */
typedef struct rounded_sum {
    double value, allowed;
} rounded_sum;

static rounded_sum sum_up(const float *w, const float *y, const double *variance, int64_t n)
{
    double value = 0;
    for (int64_t i = 0; i < n; i++) value += (double)w[i] * (double)y[i];
    return (rounded_sum){value, RDG_ROUNDING_BOUND * rdg_product_size(w, y, variance, n)};
}

static void check_matvec(bench *b, rdg_type type, const product_case *pc)
{
    char what[128];
    int64_t n = pc->n_columns, m = pc->n_rows;
    bool planar = rdg_gpu_can_be_planar(type, n), grid = !pc->norm && rdg_rng_below(&b->rng, 2);
    float *v1, *v2 = NULL, *x = normal(b, n, 1), *g = normal(b, n, 0), *bias = normal(b, m, 1),
               *res = normal(b, m, 1);
    if (grid) { /* activations that 8 bits hold exactly */
        rdg_tensor row;
        rdg_error e;
        rdg_tensor_init(&row, RDG_TYPE_F32, n, 1, 1, 1);
        row.data = x;
        if (rdg_check_fill(&row, &b->rng, RDG_CHECK_GRID, &e)) die(&e);
    }
    for (int64_t i = 0; i < n; i++) g[i] = 1 + 0.2f * rdg_rng_normal(&b->rng);
    void *w1 = weights(b, type, n, m, &v1), *w2 = pc->glu ? weights(b, type, n, m, &v2) : NULL;
    rdg_tensor tw = on_device(b, type, n, m, 1, w1, planar),
               tx = on_device(b, RDG_TYPE_F32, n, 1, 1, x, false),
               tg = on_device(b, RDG_TYPE_F32, n, 1, 1, g, false),
               tb = on_device(b, RDG_TYPE_F32, m, 1, 1, bias, false),
               tr = on_device(b, RDG_TYPE_F32, m, 1, 1, res, false),
               to = on_device(b, RDG_TYPE_F32, m, 1, 1, NULL, false), tw2;
    if (pc->glu) tw2 = on_device(b, type, n, m, 1, w2, planar);
    rdg_matvec_q8 q = {.weight = &tw,
                       .weight2 = pc->glu ? &tw2 : NULL,
                       .x = &tx,
                       .norm_weight = pc->norm ? &tg : NULL,
                       .bias = pc->bias ? &tb : NULL,
                       .residual = pc->residual ? &tr : NULL,
                       .out = &to,
                       .eps = 1e-5f};
    snprintf(what, sizeof what, "matvec_q8 %s %dx%d%s%s%s%s%s", rdg_type_name(type), (int)n, (int)m,
             grid ? " grid" : "", pc->norm ? " norm" : "", pc->glu ? " glu" : "", pc->bias ? " bias" : "",
             pc->residual ? " residual" : "");
    rdg_gpu_env env = {.facts = rdg_device_get_facts(b->d), .cache = b->cache};
    rdg_gpu_dispatch d = {0};
    rdg_error e;
    if (!rdg_matvec_q8_accepts(&q, env.facts)) {
        printf("%s: not accepted\n", what);
        b->failures++;
    } else {
        if (rdg_matvec_q8_encode(&q, &env, &d, &e) != 1) die(&e);
        run(b, &d, 1, 1, NULL);
        float *got = malloc((size_t)m * sizeof *got);
        float *y = malloc((size_t)n * sizeof *y);
        double *variance = malloc((size_t)n * sizeof *variance), ss = 0, worst = 0;
        from_device(b, &to, got);
        for (int64_t i = 0; i < n; i++) ss += (double)x[i] * x[i];
        for (int64_t i = 0; i < n; i++)
            y[i] = pc->norm ? (float)(g[i] * x[i] / sqrt(ss / (double)n + 1e-5)) : x[i];
        rdg_rounding_variance(y, n, 32, variance);
        for (int64_t r = 0; r < m; r++) {
            rounded_sum s = sum_up(v1 + r * n, y, variance, n);
            if (pc->glu) { /* silu(a) u: the slope of silu is 1.1 at most */
                rounded_sum u = sum_up(v2 + r * n, y, variance, n);
                double gate = silu(s.value), off = 1.1 * s.allowed;
                s.allowed = off * fabs(u.value) + fabs(gate) * u.allowed + off * u.allowed;
                s.value = gate * u.value;
            }
            double want = s.value + (pc->bias ? bias[r] : 0) + (pc->residual ? res[r] : 0);
            double error = fabs(got[r] - want) / (s.allowed + 1e-6 * (fabs(bias[r]) + fabs(res[r])));
            worst = isnan(error) ? INFINITY : fmax(worst, error);
        }
        verdict(b, worst < 1, what, worst, 1);
        free(got);
        free(y);
        free(variance);
    }
    free(v1), free(v2), free(x), free(g), free(bias), free(res), free(w1), free(w2);
    free_live(b);
}

/* Products that read what the one before wrote, to and fro between two vectors, so that an old copy of either
 * in a core's cache would show: with barriers between them and as a chain, which must agree to the last bit.
 */
enum { LINKS = 24, CHAIN_REPEATS = 20 };

static void run_chain(bench *b, const rdg_gpu_dispatch *d, rdg_tensor *counters, rdg_tensor *start,
                      rdg_tensor *x, bool barriers)
{
    rdg_error e;
    rdg_list *l;
    rdg_event done;
    if (rdg_list_create(b->d, 0, 0, "chain", &l, &e)) die(&e);
    rdg_list_copy(l, x->buffer, x->buffer_offset, start->buffer, start->buffer_offset,
                  (uint64_t)rdg_tensor_bytes(x));
    rdg_list_fill(l, counters->buffer, counters->buffer_offset, (uint64_t)rdg_tensor_bytes(counters), 0);
    rdg_list_barrier(l);
    for (int i = 0; i < LINKS; i++) {
        if (rdg_gpu_dispatch_all(b->cache, l, &d[i], 1, &e)) die(&e);
        if (barriers) rdg_list_barrier(l);
    }
    if (rdg_list_finish(l, &e)) die(&e);
    for (int i = 0; i < (barriers ? 1 : CHAIN_REPEATS); i++)
        if (rdg_submit(b->d, l, NULL, 0, &done, &e)) die(&e);
    if (rdg_event_wait(b->d, done, (int64_t)100 * 1000000000, &e)) die(&e);
    rdg_list_destroy(l);
}

static void check_chain(bench *b, rdg_type type, int64_t n)
{
    char what[96];
    float *values, *x = normal(b, n, 1), *g = normal(b, n, 1), *want = malloc((size_t)n * sizeof *want),
                   *got = malloc((size_t)n * sizeof *got);
    void *w = weights(b, type, n, n, &values), *zeros = calloc(LINKS + 2, RDG_GPU_CHAIN_STRIDE);
    rdg_tensor tw = on_device(b, type, n, n, 1, w, rdg_gpu_can_be_planar(type, n)),
               start = on_device(b, RDG_TYPE_F32, n, 1, 1, x, false),
               tg = on_device(b, RDG_TYPE_F32, n, 1, 1, g, false),
               counters =
                   on_device(b, RDG_TYPE_F32, (LINKS + 2) * RDG_GPU_CHAIN_STRIDE / 4, 1, 1, zeros, false),
               v[2] = {on_device(b, RDG_TYPE_F32, n, 1, 1, NULL, false),
                       on_device(b, RDG_TYPE_F32, n, 1, 1, NULL, false)};
    rdg_gpu_dispatch d[LINKS];
    rdg_error e;
    for (int way = 0; way < 3; way++) { /* barriers, chain, a chain that waits for one workgroup too many */
        rdg_gpu_env env = {.facts = rdg_device_get_facts(b->d), .cache = b->cache};
        memset(d, 0, sizeof d);
        for (int i = 0; i < LINKS; i++) {
            rdg_matvec_q8 q = {.weight = &tw,
                               .x = &v[i % 2],
                               .norm_weight = &tg,
                               .residual = i % 3 ? &v[i % 2] : NULL,
                               .out = &v[1 - i % 2],
                               .eps = 1e-5f};
            if (way) {
                env.chain.counter = rdg_gpu_address(&counters) + (uint64_t)i * RDG_GPU_CHAIN_STRIDE;
                env.chain.before = i ? d[i - 1].grid[0] * d[i - 1].grid[1] : 0;
                env.chain.patience = way == 2 ? 1000 : 0;
                if (way == 2 && i == LINKS / 2) env.chain.before++;
            }
            if (!rdg_matvec_q8_accepts(&q, env.facts) || rdg_matvec_q8_encode(&q, &env, &d[i], &e) != 1) {
                printf("chain of %dx%d: not accepted\n", (int)n, (int)n);
                goto done;
            }
        }
        run_chain(b, d, &counters, &start, &v[0], way == 0);
        from_device(b, &v[LINKS % 2], way ? got : want);
        int64_t wrong = 0;
        for (int64_t i = 0; way == 1 && i < n; i++)
            wrong += memcmp(&got[i], &want[i], 4) != 0 || !isfinite(got[i]);
        for (int64_t i = 0; way == 2 && i < n; i++) wrong += isfinite(got[i]) != 0;
        snprintf(what, sizeof what, "chain of %d products %s %dx%d%s: elements that are not as they must be",
                 LINKS, rdg_type_name(type), (int)n, (int)n, way == 2 ? ", broken: nothing finite" : "");
        if (way) verdict(b, wrong == 0, what, (double)wrong, 0);
    }
done:
    free(values), free(x), free(g), free(want), free(got), free(w), free(zeros);
    free_live(b);
}

/* The largest error of an output's rows, as a fraction of what v (NULL: the operation) allows. The
 * operands of the call have host memory; got is dense. */
static double error_of_rows(const rdg_op_call *c, const rdg_variant *v, int output, const float *got)
{
    const rdg_tensor *o = &c->operand[output];
    const int64_t n = rdg_tensor_n_elements(o);
    double *want[RDG_MAX_OPERANDS] = {0}, *size[RDG_MAX_OPERANDS] = {0}, worst = 0;
    double *row = malloc((size_t)o->dim[0] * sizeof *row);
    rdg_error e;
    want[output] = malloc((size_t)n * sizeof **want);
    size[output] = malloc((size_t)n * sizeof **size);
    if (c->op->reference(c, want, &e) || c->op->magnitude(c, v ? v->rounding : RDG_ROUNDS_NOT, size, &e))
        die(&e);
    const rdg_tolerance tolerance =
        v && v->tolerance.kind != RDG_TOLERANCE_INHERIT ? v->tolerance : c->op->tolerance;
    for (int64_t at = 0; at < n; at += o->dim[0]) {
        int64_t bad;
        for (int64_t i = 0; i < o->dim[0]; i++) row[i] = got[at + i];
        worst =
            fmax(worst, rdg_check_row(tolerance, row, want[output] + at, size[output] + at, o->dim[0], &bad));
    }
    free(want[output]);
    free(size[output]);
    free(row);
    return worst;
}

static void check_matmul(bench *b, rdg_type type, int64_t n, int64_t m, int64_t tokens, bool bias_on,
                         bool residual_on, const rdg_variant *v)
{
    char what[128];
    bool planar = rdg_gpu_can_be_planar(type, n);
    float *val, *x = normal(b, n * tokens, 1), *bias = normal(b, m, 1), *res = normal(b, m * tokens, 1);
    void *w = weights(b, type, n, m, &val);
    rdg_op_call c = {.op = &rdg_op_matmul};
    c.operand[RDG_MATMUL_WEIGHT] = on_device(b, type, n, m, 1, w, planar);
    c.operand[RDG_MATMUL_X] = on_device(b, RDG_TYPE_F32, n, tokens, 1, x, false);
    if (bias_on) c.operand[RDG_MATMUL_BIAS] = on_device(b, RDG_TYPE_F32, m, 1, 1, bias, false);
    if (residual_on) c.operand[RDG_MATMUL_RESIDUAL] = on_device(b, RDG_TYPE_F32, m, tokens, 1, res, false);
    c.operand[RDG_MATMUL_OUT] = on_device(b, RDG_TYPE_F32, m, tokens, 1, NULL, false);
    snprintf(what, sizeof what, "%s %s %dx%d, %d tokens%s%s", v->name, rdg_type_name(type), (int)n, (int)m,
             (int)tokens, bias_on ? " bias" : "", residual_on ? " residual" : "");
    rdg_gpu_env env = {.facts = rdg_device_get_facts(b->d), .cache = b->cache};
    uint64_t bytes = v->gpu->scratch_bytes ? v->gpu->scratch_bytes(&c, &env) : 0;
    rdg_tensor scratch = on_device(b, RDG_TYPE_F32, (int64_t)bytes / 4 + 4, 1, 1, NULL, false);
    env.scratch = rdg_gpu_address(&scratch);
    rdg_gpu_dispatch d[RDG_GPU_MAX_DISPATCHES] = {0};
    rdg_error e;
    int k = !v->accepts || v->accepts(&c) ? v->gpu->encode(&c, &env, d, &e) : 0;
    if (k < 1) {
        printf("%s: not accepted\n", what);
        b->failures++;
    } else {
        run(b, d, k, 1, NULL);
        float *got = malloc((size_t)(m * tokens) * sizeof *got);
        from_device(b, &c.operand[RDG_MATMUL_OUT], got);
        c.operand[RDG_MATMUL_WEIGHT].data = w;
        c.operand[RDG_MATMUL_X].data = x;
        c.operand[RDG_MATMUL_BIAS].data = bias;
        c.operand[RDG_MATMUL_RESIDUAL].data = res;
        double error = error_of_rows(&c, v, RDG_MATMUL_OUT, got);
        verdict(b, error < 1, what, error, 1);
        free(got);
    }
    free(val), free(x), free(bias), free(res), free(w);
    free_live(b);
}

static void rope_head(double *h, const rdg_rope_params *p, int pos)
{
    for (int i = 0; i < p->n_dims / 2; i++) {
        double a = pos * pow(p->freq_base, -2.0 * i / p->n_dims), c = cos(a), s = sin(a);
        int x = p->style == RDG_ROPE_NORM ? 2 * i : i,
            y = p->style == RDG_ROPE_NORM ? 2 * i + 1 : i + p->n_dims / 2;
        double u = h[x], v = h[y];
        h[x] = u * c - v * s;
        h[y] = u * s + v * c;
    }
}

static void norm_head(double *h, const float *w, int64_t n, double eps)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += h[i] * h[i];
    for (int64_t i = 0; i < n; i++) h[i] *= w[i] / sqrt(s / (double)n + eps);
}

typedef struct attention_case {
    int64_t head_dim, n_heads, n_kv, n_slots;
    int pos, window;
    bool norm, sinks;
    int rope; /* 0 none, 1 NORM, 2 NEOX */
    float softcap;
    int64_t visible;
} attention_case;

static void check_attention(bench *b, const attention_case *ac)
{
    char what[160];
    int64_t hd = ac->head_dim, nh = ac->n_heads, nk = ac->n_kv, ns = ac->n_slots;
    float *q = normal(b, hd * nh, 1), *k = normal(b, hd * nk, 1), *v = normal(b, hd * nk, 1),
          *sinks = normal(b, nh, 1), *qn = normal(b, hd, 1), *kn = normal(b, hd, 1);
    rdg_half *kc = malloc((size_t)(hd * ns * nk) * 2), *vc = malloc((size_t)(hd * ns * nk) * 2);
    for (int64_t i = 0; i < hd * ns * nk; i++) {
        kc[i] = rdg_half_from_f32(rdg_rng_normal(&b->rng));
        vc[i] = rdg_half_from_f32(rdg_rng_normal(&b->rng));
    }
    int32_t pos = ac->pos;
    rdg_tensor tq = on_device(b, RDG_TYPE_F32, hd, nh, 1, q, false),
               tk = on_device(b, RDG_TYPE_F32, hd, nk, 1, k, false),
               tv = on_device(b, RDG_TYPE_F32, hd, nk, 1, v, false),
               tkc = on_device(b, RDG_TYPE_F16, hd, ns, nk, kc, false),
               tvc = on_device(b, RDG_TYPE_F16, hd, ns, nk, vc, false),
               tp = on_device(b, RDG_TYPE_I32, 1, 1, 1, &pos, false),
               ts = on_device(b, RDG_TYPE_F32, nh, 1, 1, sinks, false),
               tqn = on_device(b, RDG_TYPE_F32, hd, 1, 1, qn, false),
               tkn = on_device(b, RDG_TYPE_F32, hd, 1, 1, kn, false),
               to = on_device(b, RDG_TYPE_F32, hd, nh, 1, NULL, false);
    rdg_rope_params rope = {.style = ac->rope == 1 ? RDG_ROPE_NORM : RDG_ROPE_NEOX,
                            .n_dims = (int32_t)hd,
                            .freq_base = 10000,
                            .freq_scale = 1,
                            .magnitude = 1};
    rdg_attention_step s = {
        .q = &tq,
        .k = &tk,
        .v = &tv,
        .k_cache = &tkc,
        .v_cache = &tvc,
        .pos = &tp,
        .sinks = ac->sinks ? &ts : NULL,
        .out = &to,
        .q_norm = ac->norm ? &tqn : NULL,
        .k_norm = ac->norm ? &tkn : NULL,
        .rope = ac->rope ? &rope : NULL,
        .params = {.scale = 1 / sqrtf((float)hd), .softcap = ac->softcap, .window = ac->window, .causal = 1},
        .eps = 1e-6f,
        .n_visible_max = ac->visible};
    snprintf(
        what, sizeof what,
        "attention_step head %d x %d/%d, %d slots, position %d, window %d%s%s, rope %d, cap %g, up to %d",
        (int)hd, (int)nh, (int)nk, (int)ns, pos, ac->window, ac->norm ? ", norm" : "",
        ac->sinks ? ", sinks" : "", ac->rope, ac->softcap, (int)ac->visible);
    rdg_gpu_env env = {.facts = rdg_device_get_facts(b->d), .cache = b->cache};
    if (!rdg_attention_step_accepts(&s, env.facts)) {
        printf("%s: not accepted by this device\n", what);
        goto done;
    }
    uint64_t bytes = rdg_attention_step_scratch_bytes(&s, env.facts);
    void *zeros = calloc(1, bytes);
    rdg_tensor scratch = on_device(b, RDG_TYPE_F32, (int64_t)bytes / 4, 1, 1, zeros, false);
    free(zeros);
    env.scratch = rdg_gpu_address(&scratch);
    rdg_gpu_dispatch d = {0};
    rdg_error e;
    if (rdg_attention_step_encode(&s, &env, &d, &e) != 1) die(&e);
    float *got = malloc((size_t)(hd * nh) * sizeof *got);
    rdg_half *kc2 = malloc((size_t)(hd * ns * nk) * 2), *vc2 = malloc((size_t)(hd * ns * nk) * 2);
    double *head = malloc((size_t)hd * sizeof *head), worst = 0;
    int64_t wrong_values = 0;
    run(b, &d, 1, 1, NULL);
    run(b, &d, 1, 1, NULL); /* again: the counters must have been left clean */
    from_device(b, &to, got);
    from_device(b, &tkc, kc2);
    from_device(b, &tvc, vc2);
    for (int64_t g = 0; g < nk; g++) { /* the new key and value: one step of the half may be the other way */
        rdg_half *key = kc + (g * ns + pos % ns) * hd, *new_key = kc2 + (g * ns + pos % ns) * hd;
        double largest = 0;
        for (int64_t i = 0; i < hd; i++) head[i] = k[g * hd + i];
        if (ac->norm) norm_head(head, kn, hd, 1e-6);
        if (ac->rope) rope_head(head, &rope, pos);
        for (int64_t i = 0; i < hd; i++) largest = fmax(largest, fabs(head[i]));
        for (int64_t i = 0; i < hd; i++) {
            const double off = fabs((double)rdg_half_to_f32(new_key[i]) - head[i]);
            worst = fmax(worst, off / (0x1p-11 * 1.01 * fabs(head[i]) + 2e-6 * largest));
            key[i] = new_key[i];
            vc[(g * ns + pos % ns) * hd + i] = rdg_half_from_f32(v[g * hd + i]);
        }
    }
    for (int64_t i = 0; i < hd * ns * nk; i++) wrong_values += kc2[i] != kc[i] || vc2[i] != vc[i];
    for (int64_t h = 0; h < nh; h++) {
        for (int64_t i = 0; i < hd; i++) head[i] = q[h * hd + i];
        if (ac->norm) norm_head(head, qn, hd, 1e-6);
        if (ac->rope) rope_head(head, &rope, pos);
        for (int64_t i = 0; i < hd; i++) q[h * hd + i] = (float)head[i];
    }
    rdg_op_call call = {.op = &rdg_op_attention, .n_visible = pos + 1};
    call.operand[RDG_ATTENTION_Q] = tq, call.operand[RDG_ATTENTION_Q].data = q;
    call.operand[RDG_ATTENTION_K] = tkc, call.operand[RDG_ATTENTION_K].data = kc;
    call.operand[RDG_ATTENTION_V] = tvc, call.operand[RDG_ATTENTION_V].data = vc;
    call.operand[RDG_ATTENTION_POS] = tp, call.operand[RDG_ATTENTION_POS].data = &pos;
    if (ac->sinks) call.operand[RDG_ATTENTION_SINKS] = ts, call.operand[RDG_ATTENTION_SINKS].data = sinks;
    call.operand[RDG_ATTENTION_OUT] = to;
    memcpy(call.params.bytes, &s.params, sizeof s.params);
    double error = error_of_rows(&call, NULL, RDG_ATTENTION_OUT, got);
    verdict(b, error < 1, what, error, 1);
    verdict(b, worst < 1, "  its new key", worst, 1);
    verdict(b, wrong_values == 0, "  elements of the caches that are not as they must be",
            (double)wrong_values, 0);
    /* in a chain: the same bits; when those it waits for never come, nothing finite */
    float *again = malloc((size_t)(hd * nh) * sizeof *again);
    rdg_tensor counters = on_device(b, RDG_TYPE_F32, 2 * RDG_GPU_CHAIN_STRIDE / 4, 1, 1,
                                    (const char[2 * RDG_GPU_CHAIN_STRIDE]){0}, false);
    env.chain = (rdg_gpu_chain){.counter = rdg_gpu_address(&counters), .patience = 100};
    for (int broken = 0; broken < 2; broken++) {
        int64_t wrong = 0;
        env.chain.before = (uint32_t)broken;
        if (rdg_attention_step_encode(&s, &env, &d, &e) != 1) die(&e);
        run(b, &d, 1, 2, NULL);
        from_device(b, &to, again);
        for (int64_t i = 0; i < hd * nh; i++)
            wrong += broken ? isfinite(again[i]) != 0 : memcmp(&again[i], &got[i], 4) != 0;
        verdict(b, wrong == 0, broken ? "  in a broken chain" : "  in a chain", (double)wrong, 0);
    }
    free(again);
    free(got), free(kc2), free(vc2), free(head);
done:
    free(q), free(k), free(v), free(sinks), free(qn), free(kn), free(kc), free(vc);
    free_live(b);
}

/* What is not a number must not become one: it would hide whatever went wrong before. */
static void check_nan(bench *b)
{
    enum { N = 200, AT = 77 };
    float x[N], ones[N], out[N];
    for (int kind = RDG_ACT_SILU; kind <= RDG_ACT_SWIGLU_OAI; kind++) {
        for (int gated = 0; gated < 2; gated++) {
            char what[96];
            rdg_error e;
            rdg_op_call call = {.op = gated ? &rdg_op_glu : &rdg_op_act};
            rdg_tensor t[3];
            int64_t wrong = 0;
            if (kind == RDG_ACT_RELU || (kind == RDG_ACT_SWIGLU_OAI && !gated)) continue; /* max(z, 0) */
            for (int i = 0; i < N; i++) x[i] = i == AT ? NAN : rdg_rng_normal(&b->rng), ones[i] = 1;
            for (int i = 0; i < 3; i++) {
                rdg_tensor_init(&t[i], RDG_TYPE_F32, N, 1, 1, 1);
                t[i].data = i == 0 ? x : i == 1 && gated ? ones : out;
            }
            for (int i = 0; i < call.op->n_operands; i++) call.operand[i] = t[i];
            rdg_act_params ap = {.act = kind, .cap = 3};
            rdg_glu_params gp = {.act = kind, .alpha = 1.7f, .limit = 7};
            memcpy(&call.params, gated ? (void *)&gp : (void *)&ap, gated ? sizeof gp : sizeof ap);
            if (rdg_gpu_run_host(b->cache, gated ? &rdg_glu_vulkan : &rdg_act_vulkan, &call, &e)) die(&e);
            for (int i = 0; i < N; i++) wrong += isnan(out[i]) != (i == AT);
            snprintf(what, sizeof what, "%s of kind %d: NaN from NaN only", call.op->name, kind);
            verdict(b, wrong == 0, what, (double)wrong, 0);
        }
    }
}

/* Heads that the kernel is not written for. */
static void check_refusals(bench *b)
{
    static const struct {
        int64_t head_dim, n_heads, n_kv;
        bool accepted;
    } rows[] = {{32, 8, 2, true},  {32, 512, 257, false}, {32, 257, 257, false}, {32, 34, 2, false},
                {40, 8, 2, false}, {4, 8, 2, false},      {1024, 8, 2, false},   {32, 8, 3, false}};
    for (int i = 0; i < RDG_COUNTOF(rows); i++) {
        char what[96];
        rdg_tensor q, k, cache;
        rdg_tensor_init(&q, RDG_TYPE_F32, rows[i].head_dim, rows[i].n_heads, 1, 1);
        rdg_tensor_init(&k, RDG_TYPE_F32, rows[i].head_dim, rows[i].n_kv, 1, 1);
        rdg_tensor_init(&cache, RDG_TYPE_F16, rows[i].head_dim, 64, rows[i].n_kv, 1);
        rdg_attention_step s = {.q = &q,
                                .k = &k,
                                .v = &k,
                                .k_cache = &cache,
                                .v_cache = &cache,
                                .out = &q,
                                .params = {.scale = 1, .causal = 1},
                                .n_visible_max = 64};
        bool accepted = rdg_attention_step_accepts(&s, rdg_device_get_facts(b->d));
        snprintf(what, sizeof what, "attention_step head %d x %d/%d is %s", (int)rows[i].head_dim,
                 (int)rows[i].n_heads, (int)rows[i].n_kv, accepted ? "accepted" : "refused");
        verdict(b, accepted == rows[i].accepted, what, accepted, rows[i].accepted);
    }
}

int main(int argc, char **argv)
{
    bench b = {0};
    rdg_error e;
    const char *name = argc > 1 ? argv[1] : "vulkan";
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)rdg_clock_ns();
    rdg_device_options o = {.validation = true};
    rdg_err rc = rdg_device_open(name, &o, &b.d, &e);
    if (rc) {
        o.validation = false;
        rc = rdg_device_open(name, &o, &b.d, &e);
    }
    if (rc) {
        printf("skipped: %s\n", e.message);
        return 77;
    }
    const rdg_device_facts *f = rdg_device_get_facts(b.d);
    printf("%s, %s, validation %s, seed %llu\n", f->name, f->driver, o.validation ? "on" : "off",
           (unsigned long long)seed);
    rdg_rng_seed(&b.rng, seed);
    if (rdg_gpu_cache_create(b.d, &b.cache, &e)) die(&e);

    for (int t = 0; t < RDG_TYPE_COUNT; t++) {
        if (!rdg_type_valid(t) || !rdg_gpu_decodes((rdg_type)t)) continue;
        check_decode(&b, (rdg_type)t, false);
        if (rdg_gpu_can_be_planar((rdg_type)t, rdg_type_block_elems((rdg_type)t) * 8))
            check_decode(&b, (rdg_type)t, true);
    }
    static const rdg_type step_types[] = {RDG_TYPE_Q4_K, RDG_TYPE_Q5_K, RDG_TYPE_Q6_K, RDG_TYPE_Q8_0,
                                          RDG_TYPE_Q4_0};
    static const product_case products[] = {
        {2048, 37, false, false, false, false}, {2048, 64, true, false, true, false},
        {4096, 33, true, true, false, false},   {6144, 19, false, false, true, true},
        {2048, 2050, true, false, false, true}, {256, 2 * 8 * 1200 + 3, true, false, true, false},
    };
    for (int t = 0; t < RDG_COUNTOF(step_types); t++)
        for (int i = 0; i < RDG_COUNTOF(products); i++)
            if (step_types[t] != RDG_TYPE_Q6_K || products[i].n_columns % 2048 == 0)
                check_matvec(&b, step_types[t], &products[i]);
    if (f->features & RDG_GPU_ORDERED_LAUNCHES) {
        check_chain(&b, RDG_TYPE_Q4_K, 2048);
        check_chain(&b, RDG_TYPE_Q8_0, 512);
    }
    static const rdg_type matmul_types[] = {RDG_TYPE_Q4_K, RDG_TYPE_Q5_K, RDG_TYPE_Q6_K, RDG_TYPE_Q8_0,
                                            RDG_TYPE_Q4_0, RDG_TYPE_F16,  RDG_TYPE_BF16};
    bool matrix =
        (f->features & rdg_matmul_f16_vulkan.requires_mask) == rdg_matmul_f16_vulkan.requires_mask &&
        rdg_gpu_module_find("matmul_f16");
    if (!matrix)
        printf("no matrix units here (or not in this build): the f16 product is checked emulated only\n");
    bool all = argc > 3; /* the emulated kernel takes software devices seconds to compile, once a type */
    for (int t = 0; t < RDG_COUNTOF(matmul_types); t++) {
        for (int i = t == 0 || all ? 0 : 1; i < (matrix ? 2 : 1); i++) {
            const rdg_variant *v = i ? &rdg_matmul_f16_vulkan : &rdg_matmul_f16_emulated;
            int64_t n = matmul_types[t] == RDG_TYPE_Q6_K ? 2048 : 256;
            check_matmul(&b, matmul_types[t], n, 67, 19, true, false, v);
            if (i || t < 2) check_matmul(&b, matmul_types[t], n, 128, 128, false, t % 2 == 0, v);
            if (i) check_matmul(&b, matmul_types[t], 4096, 384, 300, t % 2, true, v);
        }
        check_matmul(&b, matmul_types[t], 2048, 70, 67, true, true, &rdg_matmul_vulkan); /* planar rows too */
    }
    static const attention_case attentions[] = {
        {64, 8, 2, 128, 0, 0, false, false, 1, 0, 128},
        {64, 4, 4, 300, 77, 0, true, false, 2, 0, 128},
        {64, 8, 2, 640, 613, 0, false, true, 2, 0, 1024},
        {32, 6, 2, 96, 250, 64, false, false, 1, 30, 256},
        {16, 4, 1, 64, 40, 16, false, true, 0, 0, 64},
        /* the smallest heads; query heads of a key head that no power of two divides well, with parts and
         * without; as many key heads as there are counters; one, whose query heads are its parts */
        {8, 2, 2, 32, 5, 0, true, false, 1, 0, 128},
        {8, 20, 2, 512, 400, 0, false, false, 2, 0, 512},
        {32, 36, 3, 300, 299, 0, false, true, 1, 0, 512},
        {16, 21, 3, 300, 250, 100, true, false, 2, 0, 256},
        {8, 256, 256, 300, 280, 0, false, false, 1, 0, 512},
        {64, 16, 1, 1100, 1050, 0, false, false, 2, 0, 2048},
        {128, 32, 8, 2048, 1999, 0, false, false, 2, 0, 2048},
        {128, 16, 2, 512, 300, 0, true, false, 2, 0, 512},
        {256, 8, 4, 512, 511, 0, true, true, 2, 50, 512},
    };
    for (int i = 0; i < RDG_COUNTOF(attentions); i++) check_attention(&b, &attentions[i]);
    check_refusals(&b);
    check_nan(&b);

    rdg_gpu_cache_destroy(b.cache);
    bool clean = rdg_device_get_account(b.d)->n_buffers == 0 && rdg_device_get_account(b.d)->n_kernels == 0;
    rdg_device_close(b.d);
    printf("%d of %d passed%s\n", b.checks - b.failures, b.checks, clean ? "" : "; objects were left behind");
    return b.failures != 0 || !clean;
}
