/* Times the load of a model's weights over the ways to do it: what to set in src/device/upload.c for a
 * machine. All rows in turns, several times over: each row's median and range, so that what a machine does
 * meanwhile strikes all of them. Not a test. Usage: tune_upload MODEL.gguf [DEVICE [ROUNDS]] */
#include "base/sort.h"
#include "engine/model_internal.h"
#include "graph/gpu_load.h"

#include <stdio.h>
#include <stdlib.h>

enum { KIB = 1 << 10, MIB = 1 << 20, MAX_ROUNDS = 32 };

/* Around the row of all usual values, one thing differs from it at a time; then what goes together. */
static const rdg_upload_options rows[] = {
    {0},
    {.way = RDG_UPLOAD_FILE},
    {.way = RDG_UPLOAD_MAP},
    {.way = RDG_UPLOAD_FILE, .uncached = true},
    {.n_threads = 4},
    {.n_threads = 8},
    {.n_threads = 16},
    {.share_bytes = 256 * KIB},
    {.share_bytes = 512 * KIB},
    {.share_bytes = 2 * MIB},
    {.share_bytes = 8 * MIB}, /* a slot for each thread */
    {.n_spare = 1},
    {.n_spare = 3},
    {.n_spare = 4},
    {.slot_bytes = 2 * MIB, .n_spare = 4},
    {.slot_bytes = 4 * MIB, .n_spare = 2},
    {.slot_bytes = 4 * MIB, .n_spare = 4},
    {.slot_bytes = 16 * MIB},
    {.share_bytes = 512 * KIB, .n_spare = 2},
    {.share_bytes = 512 * KIB, .n_spare = 3},
    {.n_threads = 16, .share_bytes = 512 * KIB, .n_spare = 3},
    {.n_threads = 8, .share_bytes = 512 * KIB, .n_spare = 3},
    {.skip_copy = true, .skip_rewrite = true},
    {.skip_copy = true},
    {.skip_fill = true, .share_bytes = 8 * MIB},
    {.skip_fill = true},
    {.skip_fill = true, .slot_bytes = 2 * MIB, .share_bytes = 2 * MIB},
    {.skip_fill = true, .slot_bytes = 4 * MIB, .share_bytes = 4 * MIB},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

typedef struct result {
    double seconds[MAX_ROUNDS], inside[MAX_ROUNDS];
    rdg_upload_stats st;
} result;

static void print_row(const rdg_upload_options *o, result *r, int rounds)
{
    static const char *const ways[] = {"both", "file", "map"};
    double *s = o->skip_fill || o->skip_copy ? r->inside : r->seconds, gb = (double)r->st.bytes * 1e-9;
    uint64_t slot = o->slot_bytes ? o->slot_bytes : RDG_UPLOAD_SLOT_BYTES;
    uint64_t share = o->share_bytes ? o->share_bytes : RDG_UPLOAD_SHARE_BYTES;
    rdg_sort_doubles(s, (size_t)rounds);
    double median = rdg_median_sorted(s, (size_t)rounds);
    printf("%-4s %-8s %2d threads  %2.0f MiB slots  %4.0f KiB shares  %3.0f MiB staging  %-12s "
           "%6.1f ms (%6.1f ... %6.1f)  %5.1f GB/s  (a thread: reads %5.1f ms, waits %5.1f)\n",
           ways[o->way], o->uncached ? "uncached" : "cached", r->st.n_threads, (double)slot / MIB,
           (double)share / KIB, (double)r->st.staging_bytes / MIB,
           o->skip_fill      ? "copy alone"
           : o->skip_rewrite ? "read alone"
           : o->skip_copy    ? "read + turn"
                             : "load",
           median * 1e3, s[0] * 1e3, s[rounds - 1] * 1e3, gb / median, r->st.fill_seconds * 1e3,
           r->st.wait_seconds * 1e3);
}

int main(int argc, char **argv)
{
    static result results[N_ROWS];
    rdg_error e = {0};
    rdg_model *m = NULL;
    rdg_plan *p = NULL;
    rdg_device *d = NULL;
    rdg_pool *pool = NULL;
    rdg_plan_options po = {.n_tokens = 1, .n_outputs = 1, .n_ctx = 1, .n_batch = 1};
    int rc = 1, rounds = argc > 3 ? atoi(argv[3]) : 5;
    double ignored;
    if (argc < 2 || rounds < 1 || rounds > MAX_ROUNDS) return 2;
    if (rdg_model_load(argv[1], NULL, &m, &e) || rdg_model_build_plan(m, &po, true, &p, &e) ||
        rdg_device_open(argc > 2 ? argv[2] : "vulkan", NULL, &d, &e) || rdg_pool_create(16, &pool, &e) ||
        rdg_gpu_load_once(d, p, pool, &rows[0], &ignored, &results[0].st, &e)) { /* the page cache is warm */
        printf("%s\n", e.message);
        goto done;
    }
    for (int k = 0; k < rounds; k++) {
        for (int i = 0; i < N_ROWS; i++) {
            result *r = &results[i];
            if (rdg_gpu_load_once(d, p, pool, &rows[i], &r->seconds[k], &r->st, &e)) {
                printf("row %d: %s\n", i, e.message);
                goto done;
            }
            r->inside[k] = r->st.seconds;
        }
    }
    for (int i = 0; i < N_ROWS; i++) print_row(&rows[i], &results[i], rounds);
    rc = 0;
done:
    rdg_pool_destroy(pool);
    rdg_device_close(d);
    rdg_plan_destroy(p);
    rdg_model_release(m);
    return rc;
}
