/* Times the load of a model's weights over the ways to do it: what to set in src/device/upload.c for a
 * machine. Not a test. Usage: tune_upload MODEL.gguf [DEVICE] */
#include "engine/model_internal.h"
#include "graph/gpu_load.h"

#include <stdio.h>

static void row(rdg_device *d, const rdg_plan *p, rdg_pool *pool, const rdg_upload_options *o)
{
    rdg_load_times t;
    rdg_error e = {0};
    if (rdg_gpu_measure_load(d, p, pool, o, 2, &t, &e)) {
        printf("%s\n", e.message);
        return;
    }
    double bytes = (double)t.bytes * 1e-9,
           slower = t.read_seconds > t.copy_seconds ? t.read_seconds : t.copy_seconds;
    printf(
        "%-4s %-8s %3d threads %4.0f MiB slots + %2d: load %6.2f GB/s (%5.2f s, buffers %.3f s)  read %6.2f  "
        "read + turn %6.2f  copy %6.2f  share %3.0f %%\n",
        o->way == RDG_UPLOAD_MAP    ? "map"
        : o->way == RDG_UPLOAD_FILE ? "file"
                                    : "both",
        o->uncached ? "uncached" : "cached", t.n_threads, (double)o->slot_bytes / (1 << 20), o->n_spare,
        bytes / t.seconds, t.seconds, t.reserve_seconds, bytes / t.read_seconds, bytes / t.fill_seconds,
        bytes / t.copy_seconds, slower / t.seconds * 100);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const int threads[] = {4, 8, 12, 16};
    static const uint64_t slots[] = {1 << 20, 2 << 20, 4 << 20, 8 << 20};
    rdg_error e = {0};
    rdg_model *m = NULL;
    rdg_plan *p = NULL;
    rdg_device *d = NULL;
    rdg_pool *pool = NULL;
    rdg_plan_options po = {.n_tokens = 1, .n_outputs = 1, .n_ctx = 1, .n_batch = 1};
    int rc = 1;
    if (argc < 2) return 2;
    if (rdg_model_load(argv[1], NULL, &m, &e) || rdg_model_build_plan(m, &po, true, &p, &e) ||
        rdg_device_open(argc > 2 ? argv[2] : "vulkan", NULL, &d, &e) || rdg_pool_create(16, &pool, &e)) {
        printf("%s\n", e.message);
        goto done;
    }
    rdg_upload_options usual = {.n_threads = 12, .slot_bytes = 4 << 20, .n_spare = 4};
    for (int map = 0; map < 2; map++) {
        for (int uncached = 0; uncached < 2; uncached++) {
            rdg_upload_options o = usual;
            o.way = map ? RDG_UPLOAD_MAP : RDG_UPLOAD_FILE;
            o.uncached = uncached;
            row(d, p, pool, &o);
        }
    }
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        rdg_upload_options o = usual;
        o.n_threads = threads[i];
        row(d, p, pool, &o);
    }
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        rdg_upload_options o = usual;
        o.slot_bytes = slots[i];
        o.n_spare = i == 0 ? 16 : i == 1 ? 8 : 4;
        row(d, p, pool, &o);
    }
    rc = 0;
done:
    rdg_pool_destroy(pool);
    rdg_device_close(d);
    rdg_plan_destroy(p);
    rdg_model_release(m);
    return rc;
}
