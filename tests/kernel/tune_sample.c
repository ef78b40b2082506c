/* Times picking a token on a device, beside greedy: what sampling adds to a decode step. Not a test.
 * Usage: tune_sample [DEVICE [LOGITS]] */
#include "../support/need.h"
#include "base/rng.h"
#include "base/sort.h"
#include "ops/sample/sample_step.h"

#include <string.h>

enum { CALLS = 50, WARM = 3, SAMPLES = 15, RING = 64 };

static rdg_device *dev;
static rdg_gpu_cache *cache;

static rdg_list *record(const rdg_gpu_dispatch *d, int n)
{
    rdg_list *l;
    need(rdg_list_create(dev, 0, 2, "tune", &l, &error));
    rdg_list_timestamp(l, 0);
    for (int i = 0; i < CALLS; i++) {
        rdg_list_barrier(l);
        need(rdg_gpu_dispatch_all(cache, l, d, n, &error));
    }
    rdg_list_timestamp(l, 1);
    need(rdg_list_finish(l, &error));
    return l;
}

/* Microseconds a call, the median over lists; the next list is always submitted already, so that clocks stay
 * up. */
static double time_calls(const rdg_gpu_dispatch *d, int n)
{
    rdg_list *l[2] = {record(d, n), record(d, n)};
    rdg_event done[2];
    double us[SAMPLES];
    need(rdg_submit(dev, l[0], NULL, 0, &done[0], &error));
    for (int r = 0; r < WARM + SAMPLES; r++) {
        double ns[2];
        need(rdg_submit(dev, l[1 - r % 2], NULL, 0, &done[1 - r % 2], &error));
        need(rdg_event_wait(dev, done[r % 2], -1, &error));
        need(rdg_list_read_timestamps(l[r % 2], ns, 2, &error));
        if (r >= WARM) us[r - WARM] = ns[1] / CALLS * 1e-3;
    }
    need(rdg_event_wait(dev, done[(WARM + SAMPLES) % 2], -1, &error));
    rdg_list_destroy(l[0]);
    rdg_list_destroy(l[1]);
    rdg_sort_doubles(us, SAMPLES);
    return rdg_median_sorted(us, SAMPLES);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        rdg_sample_params p;
    } kinds[] = {
        {"greedy", {0, 0, 1, 0}},
        {"temperature", {0.8f, 0, 1, 0}},
        {"temperature, min-p 0.05", {0.8f, 0, 1, 0.05f}},
        {"top-k 40", {0.8f, 40, 1, 0}},
        {"top-k 1000", {0.8f, 1000, 1, 0}},
        {"top-p 0.95", {0.8f, 0, 0.95f, 0}},
        {"top-k 40, top-p 0.95, min-p 0.05", {0.8f, 40, 0.95f, 0.05f}},
    };
    static const struct {
        const char *name;
        float spread;
    } shapes[] = {{"like a model's (deviation 3)", 3}, {"flat (deviation 0.5)", 0.5f}, {"all equal", 0}};
    const int64_t n = argc > 2 ? atoll(argv[2]) : 128256;
    const rdg_sample_params all = {.temperature = 1, .top_k = 1};
    rdg_buffer *logits, *words, *ring, *scratch;
    rdg_list *clear;
    rdg_event done;
    rdg_rng rng;
    if (n < 1 || n > RDG_SAMPLE_MAX_LOGITS) return 2;
    need(rdg_device_open(argc > 1 ? argv[1] : "vulkan", NULL, &dev, &error));
    need(rdg_gpu_cache_create(dev, &cache, &error));
    const uint64_t bytes = rdg_sample_scratch_bytes(&all, n);
    need(rdg_buffer_create(dev, RDG_MEMORY_SHARED, 1024, "words", &words, &error));
    need(rdg_buffer_create(dev, RDG_MEMORY_DEVICE, (uint64_t)n * 4, "logits", &logits, &error));
    need(rdg_buffer_create(dev, RDG_MEMORY_READBACK, RING * 4, "ring", &ring, &error));
    need(rdg_buffer_create(dev, RDG_MEMORY_DEVICE, bytes, "scratch", &scratch, &error));
    memset(rdg_buffer_host(words), 0, 1024);
    need(rdg_list_create(dev, 0, 0, "clear", &clear, &error));
    rdg_list_fill(clear, scratch, 0, bytes, 0);
    need(rdg_list_finish(clear, &error));
    need(rdg_submit(dev, clear, NULL, 0, &done, &error));
    need(rdg_event_wait(dev, done, -1, &error));
    rdg_list_destroy(clear);
    rdg_rng_seed(&rng, 1);
    for (int s = 0; s < (int)(sizeof shapes / sizeof *shapes); s++) {
        rdg_buffer *up;
        need(rdg_buffer_create(dev, RDG_MEMORY_UPLOAD, (uint64_t)n * 4, "up", &up, &error));
        for (int64_t i = 0; i < n; i++)
            ((float *)rdg_buffer_host(up))[i] = shapes[s].spread * rdg_rng_normal(&rng);
        need(rdg_list_create(dev, 0, 0, "up", &clear, &error));
        rdg_list_copy(clear, logits, 0, up, 0, (uint64_t)n * 4);
        need(rdg_list_finish(clear, &error));
        need(rdg_submit(dev, clear, NULL, 0, &done, &error));
        need(rdg_event_wait(dev, done, -1, &error));
        rdg_list_destroy(clear);
        rdg_buffer_destroy(up);
        printf("%lld logits, %s\n", (long long)n, shapes[s].name);
        double greedy = 0;
        for (int k = 0; k < (int)(sizeof kinds / sizeof *kinds); k++) {
            rdg_gpu_dispatch d[RDG_GPU_MAX_DISPATCHES];
            const uint64_t w = rdg_buffer_address(words);
            const rdg_sample_step step = {.logits = rdg_buffer_address(logits),
                                          .n = n,
                                          .draw = w,
                                          .id = w + 256,
                                          .position = w + 512,
                                          .ring = rdg_buffer_address(ring),
                                          .ring_size = RING};
            memset(d, 0, sizeof d);
            int n_launches = rdg_sample_step_encode(&kinds[k].p, &step, rdg_buffer_address(scratch), d);
            double us = time_calls(d, n_launches);
            if (k == 0) greedy = us;
            printf("  %-34s %d launches %9.2f us  (+%.2f)\n", kinds[k].name, n_launches, us, us - greedy);
        }
    }
    rdg_buffer_destroy(scratch);
    rdg_buffer_destroy(ring);
    rdg_buffer_destroy(logits);
    rdg_buffer_destroy(words);
    rdg_gpu_cache_destroy(cache);
    rdg_device_close(dev);
    return 0;
}
