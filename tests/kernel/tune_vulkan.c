/* Times the step kernels and the f16 product at the shapes of an 8B model, over launch parameters: what to
 * set in matvec_q8_vulkan.c for a device. Weights rotate through copies larger than any cache. Not a test.
 * Usage: tune_vulkan [DEVICE [quick]] */
#include "../support/need.h"
#include "base/clock.h"
#include "base/rng.h"
#include "ops/gpu.h"
#include "ops/gpu_planar.h"
#include "ops/gpu_rows.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/matvec_q8.h"

#include <string.h>

static rdg_device *dev;
static rdg_gpu_cache *cache;

/* A buffer of random words whose values as f16 are moderate. */
static rdg_buffer *random_buffer(uint64_t bytes)
{
    enum { PIECE = 1 << 20 };
    rdg_buffer *b, *up;
    rdg_list *l;
    rdg_event done;
    rdg_rng rng;
    rdg_rng_seed(&rng, 1);
    need(rdg_buffer_create(dev, RDG_MEMORY_DEVICE, bytes, "random", &b, &error));
    need(rdg_buffer_create(dev, RDG_MEMORY_UPLOAD, PIECE, "random", &up, &error));
    uint32_t *w = rdg_buffer_host(up);
    for (int i = 0; i < PIECE / 4; i++) w[i] = (uint32_t)rdg_rng_next(&rng) & 0x3bff3bffu;
    need(rdg_list_create(dev, 0, 0, "random", &l, &error));
    for (uint64_t at = 0; at < bytes; at += PIECE)
        rdg_list_copy(l, b, at, up, 0, RDG_MIN(bytes - at, (uint64_t)PIECE));
    need(rdg_list_finish(l, &error));
    need(rdg_submit(dev, l, NULL, 0, &done, &error));
    need(rdg_event_wait(dev, done, -1, &error));
    rdg_list_destroy(l);
    rdg_buffer_destroy(up);
    return b;
}

static rdg_list *record(const rdg_gpu_dispatch *d, int n)
{
    rdg_list *l;
    need(rdg_list_create(dev, 0, 2, "tune", &l, &error));
    rdg_list_timestamp(l, 0);
    for (int i = 0; i < n; i++) {
        rdg_kernel *k;
        need(rdg_gpu_cache_kernel(cache, &d[i], &k, &error));
        rdg_list_dispatch(l, k, d[i].push, d[i].grid[0], d[i].grid[1], d[i].grid[2]);
        rdg_list_barrier(l);
    }
    rdg_list_timestamp(l, 1);
    need(rdg_list_finish(l, &error));
    return l;
}

/* A GPU that waits for the host, while it compiles the next kernel say, lowers its clocks, and everything
 * looks four times as slow for a while after (H200, 2026-11-30: 345 MHz instead of 1980). So there is always
 * work. */
static rdg_list *heater[2];
static rdg_event heated[2];
static int n_heats;

static void heat(void)
{
    int i = n_heats % 2;
    if (!heater[0]) return;
    if (n_heats++ >= 2) need(rdg_event_wait(dev, heated[i], -1, &error));
    need(rdg_submit(dev, heater[i], NULL, 0, &heated[i], &error));
}

/* Seconds a launch of n dispatches with barriers between, the median of twenty lists. */
static double time_list(const rdg_gpu_dispatch *d, int n)
{
    enum { WARM = 4, SAMPLES = 20 };
    heat();
    rdg_list *l[2] = {record(d, n), record(d, n)};
    rdg_event done[2];
    double samples[SAMPLES];
    need(rdg_submit(dev, l[0], NULL, 0, &done[0], &error));
    for (int r = 0; r < WARM + SAMPLES; r++) {
        double ns[2];
        need(rdg_submit(dev, l[1 - r % 2], NULL, 0, &done[1 - r % 2], &error));
        need(rdg_event_wait(dev, done[r % 2], -1, &error));
        need(rdg_list_read_timestamps(l[r % 2], ns, 2, &error));
        if (r < WARM) continue;
        int at = r - WARM; /* in order */
        for (; at > 0 && samples[at - 1] > ns[1]; at--) samples[at] = samples[at - 1];
        samples[at] = ns[1];
    }
    need(rdg_event_wait(dev, done[(WARM + SAMPLES) % 2], -1, &error));
    heat();
    rdg_list_destroy(l[0]);
    rdg_list_destroy(l[1]);
    return samples[SAMPLES / 2] * 1e-9 / n;
}

static rdg_tensor tensor(rdg_type type, int64_t d0, int64_t d1, rdg_buffer *b, uint64_t offset)
{
    rdg_tensor t;
    rdg_tensor_init(&t, type, d0, d1, 1, 1);
    t.buffer = b;
    t.buffer_offset = offset;
    return t;
}

/* About 15 ms at full clocks: the output matrix of an 8B model, over and over. */
static void make_heaters(rdg_buffer *pool, rdg_buffer *vectors)
{
    enum { TIMES = 128 };
    rdg_gpu_env env = {.facts = rdg_device_get_facts(dev), .cache = cache};
    rdg_gpu_dispatch d[TIMES];
    rdg_tensor w = tensor(RDG_TYPE_Q4_K, 4096, 128256, pool, 0),
               x = tensor(RDG_TYPE_F32, 4096, 1, vectors, 0),
               out = tensor(RDG_TYPE_F32, 128256, 1, vectors, 1 << 20);
    rdg_matvec_q8 q = {.weight = &w, .x = &x, .out = &out};
    memset(d, 0, sizeof d);
    if (!rdg_matvec_q8_accepts(&q, env.facts) || rdg_matvec_q8_encode(&q, &env, &d[0], &error) != 1) return;
    for (int i = 1; i < TIMES; i++) d[i] = d[0];
    for (int i = 0; i < 2; i++) heater[i] = record(d, TIMES);
}

static void tune_matvec(rdg_type type, int64_t n, int64_t m, bool norm, bool glu, bool quick,
                        rdg_buffer *pool, rdg_buffer *vectors)
{
    enum { COPIES = 24 };
    rdg_gpu_env env = {.facts = rdg_device_get_facts(dev), .cache = cache};
    uint64_t bytes = (uint64_t)(rdg_type_row_bytes(type, n) * m),
             stride = (bytes * (glu ? 2 : 1) + 255) / 256 * 256;
    int copies = (int)RDG_MIN((uint64_t)COPIES, rdg_buffer_bytes(pool) / stride);
    rdg_gpu_dispatch base[COPIES];
    rdg_tensor x = tensor(RDG_TYPE_F32, n, 1, vectors, 0), g = tensor(RDG_TYPE_F32, n, 1, vectors, 1 << 20),
               out = tensor(RDG_TYPE_F32, m, 1, vectors, 2 << 20);
    memset(base, 0, sizeof base);
    rdg_buffer_set_tag(pool, rdg_gpu_can_be_planar(type, n) ? RDG_GPU_PLANAR : 0);
    for (int i = 0; i < copies; i++) {
        rdg_tensor w = tensor(type, n, m, pool, stride * (uint64_t)i),
                   w2 = tensor(type, n, m, pool, stride * (uint64_t)i + bytes);
        rdg_matvec_q8 q = {.weight = &w,
                           .weight2 = glu ? &w2 : NULL,
                           .x = &x,
                           .norm_weight = norm ? &g : NULL,
                           .out = &out,
                           .eps = 1e-5f};
        if (!rdg_matvec_q8_accepts(&q, env.facts) || rdg_matvec_q8_encode(&q, &env, &base[i], &error) != 1) {
            printf("not accepted\n");
            return;
        }
    }
    double usual = time_list(base, copies), total = (double)bytes * (glu ? 2 : 1);
    printf("%-5s %6d -> %6d%s%s: as set %8.2f us %7.1f GB/s |", rdg_type_name(type), (int)n, (int)m,
           norm ? " norm" : "", glu ? " glu" : "", usual * 1e6, total / usual * 1e-9);
    struct {
        double seconds;
        uint32_t local, rows, depth, groups;
    } best[3] = {{1e9}, {1e9}, {1e9}};
    static const uint32_t locals[] = {256, 320, 384, 448, 512}, all_rows[] = {1, 2, 4}, depths[] = {1, 2, 4},
                          limits[] = {132, 264, 396, 528, 1056};
    for (int a = 0; a < 5 && !quick; a++)
        for (int b = 0; b < (glu ? 2 : 3); b++)
            for (int c = 0; c < 3; c++)
                for (int k = 0; k < 5; k++) {
                    uint32_t local = locals[a], rows = all_rows[b], width = base[0].spec[6];
                    int64_t groups = rdg_div_up(m, (int64_t)rows * (local / width)),
                            turns = rdg_div_up(groups, limits[k]);
                    if (rows * depths[c] * (glu ? 2 : 1) > 8 || turns > 32 ||
                        (k > 0 && rdg_div_up(groups, limits[k - 1]) == turns))
                        continue;
                    rdg_gpu_dispatch d[COPIES];
                    memcpy(d, base, sizeof d);
                    for (int i = 0; i < copies; i++) {
                        d[i].spec[0] = local, d[i].spec[3] = rows, d[i].spec[7] = depths[c],
                        d[i].spec[8] = (uint32_t)turns;
                        d[i].grid[1] = 1;
                        d[i].grid[0] = (uint32_t)rdg_div_up(groups, turns);
                    }
                    double s = time_list(d, copies);
                    for (int r = 0; r < 3; r++) {
                        if (s >= best[r].seconds) continue;
                        for (int q = 2; q > r; q--) best[q] = best[q - 1];
                        best[r].seconds = s;
                        best[r].local = local, best[r].rows = rows, best[r].depth = depths[c],
                        best[r].groups = limits[k];
                        break;
                    }
                }
    for (int r = 0; r < 3 && !quick; r++)
        printf(" %.2f us %.0f GB/s (local %u rows %u depth %u groups %u)", best[r].seconds * 1e6,
               total / best[r].seconds * 1e-9, best[r].local, best[r].rows, best[r].depth, best[r].groups);
    putchar('\n');
    fflush(stdout);
}

static void time_matmul(rdg_type type, int64_t n, int64_t m, int64_t tokens, rdg_buffer *pool,
                        rdg_buffer *vectors, rdg_buffer *scratch)
{
    rdg_op_call c = {.op = &rdg_op_matmul};
    rdg_gpu_env env = {
        .facts = rdg_device_get_facts(dev), .cache = cache, .scratch = rdg_buffer_address(scratch)};
    uint32_t mask = rdg_matmul_f16_vulkan.requires_mask;
    const rdg_variant *v = (env.facts->features & mask) == mask && rdg_gpu_module_find("matmul_f16")
                               ? &rdg_matmul_f16_vulkan
                               : &rdg_matmul_vulkan;
    rdg_buffer_set_tag(pool, rdg_gpu_can_be_planar(type, n) ? RDG_GPU_PLANAR : 0);
    c.operand[RDG_MATMUL_WEIGHT] = tensor(type, n, m, pool, 0);
    c.operand[RDG_MATMUL_X] = tensor(RDG_TYPE_F32, n, tokens, vectors, 0);
    c.operand[RDG_MATMUL_OUT] =
        tensor(RDG_TYPE_F32, m, tokens, vectors, (uint64_t)(n * tokens * 4 + 255) / 256 * 256);
    rdg_gpu_dispatch d[RDG_GPU_MAX_DISPATCHES];
    memset(d, 0, sizeof d);
    int k = v->gpu->encode(&c, &env, d, &error);
    if (k < 1) need(RDG_E_INTERNAL);
    double pack = k > 1 ? time_list(d, 1) : 0;
    rdg_gpu_dispatch four[4] = {d[k - 1], d[k - 1], d[k - 1], d[k - 1]};
    double s = time_list(four, 4);
    printf("%s %-5s %6d -> %6d, %4d tokens: %9.2f us %7.1f TFLOP/s, packing %.2f us\n", v->name,
           rdg_type_name(type), (int)n, (int)m, (int)tokens, s * 1e6,
           2.0 * (double)n * (double)m * (double)tokens / s * 1e-12, pack * 1e6);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    bool quick = argc > 2;
    need(rdg_device_open(argc > 1 ? argv[1] : "vulkan", NULL, &dev, &error));
    const rdg_device_facts *f = rdg_device_get_facts(dev);
    bool slow = !strcmp(f->kind, "cpu");
    printf("%s, %s\n", f->name, f->driver);
    need(rdg_gpu_cache_create(dev, &cache, &error));
    rdg_buffer *pool = random_buffer(slow ? (uint64_t)160 << 20 : (uint64_t)2 << 30),
               *vectors = random_buffer(slow ? 16 << 20 : 128 << 20), *scratch = random_buffer(64 << 20);
    if (!slow) make_heaters(pool, vectors);
    static const rdg_type types[] = {RDG_TYPE_Q4_K, RDG_TYPE_Q6_K, RDG_TYPE_Q8_0};
    for (int t = 0; t < (slow ? 1 : 3); t++) {
        tune_matvec(types[t], 4096, 1024, true, false, quick, pool, vectors);
        tune_matvec(types[t], 4096, 4096, true, false, quick, pool, vectors);
        tune_matvec(types[t], 4096, 4096, false, false, quick, pool, vectors);
        tune_matvec(types[t], 4096, slow ? 4096 : 14336, true, true, quick, pool, vectors);
        tune_matvec(types[t], slow ? 4096 : 14336, 4096, false, false, quick, pool, vectors);
        if (!slow) tune_matvec(types[t], 4096, 128256, true, false, quick, pool, vectors);
    }
    for (int t = 0; t < (slow ? 1 : 3); t++) {
        if (slow) {
            time_matmul(types[t], 512, 256, 64, pool, vectors, scratch);
            continue;
        }
        time_matmul(types[t], 4096, 1024, 512, pool, vectors, scratch);
        time_matmul(types[t], 4096, 4096, 512, pool, vectors, scratch);
        time_matmul(types[t], 4096, 14336, 512, pool, vectors, scratch);
        time_matmul(types[t], 14336, 4096, 512, pool, vectors, scratch);
    }
    if (!slow) time_matmul(RDG_TYPE_F16, 4096, 14336, 512, pool, vectors, scratch);
    for (int i = 0; i < 2 && heater[i]; i++) {
        if (i < n_heats) need(rdg_event_wait(dev, heated[i], -1, &error));
        rdg_list_destroy(heater[i]);
    }
    rdg_buffer_destroy(scratch);
    rdg_buffer_destroy(vectors);
    rdg_buffer_destroy(pool);
    rdg_gpu_cache_destroy(cache);
    rdg_device_close(dev);
    return 0;
}
