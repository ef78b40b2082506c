/* Each rate is the best of a few launches of growing size, timed by the device where it can. */
#include "profile/roofs_gpu.h"
#include "base/clock.h"
#include "ops/gpu.h"

#include <string.h>

enum { REPEATS = 5 };

typedef struct gauge {
    rdg_device *d;
    rdg_gpu_cache *cache;
    rdg_buffer *a, *b, *c;
    uint64_t bytes;
    bool slow; /* a processor */
} gauge;

/* Seconds of the dispatch, the best of REPEATS. */
static rdg_err time_dispatch(gauge *g, const rdg_gpu_dispatch *d, int times, bool barriers, double *best,
                             rdg_error *e)
{
    bool stamps = rdg_device_get_facts(g->d)->timestamp_ns > 0;
    rdg_list *l = NULL;
    rdg_kernel *k;
    rdg_event done;
    rdg_err rc = rdg_list_create(g->d, 0, stamps ? 2 : 0, "roof", &l, e);
    if (!rc) rc = rdg_gpu_cache_kernel(g->cache, d, &k, e);
    if (rc) goto done;
    if (stamps) rdg_list_timestamp(l, 0);
    for (int i = 0; i < times; i++) {
        if (barriers) rdg_list_barrier(l);
        rdg_list_dispatch(l, k, d->push, d->grid[0], d->grid[1], d->grid[2]);
    }
    rdg_list_barrier(l);
    if (stamps) rdg_list_timestamp(l, 1);
    rc = rdg_list_finish(l, e);
    for (int i = 0; i < (g->slow ? 2 : REPEATS) && !rc; i++) {
        double start = rdg_clock_seconds(), ns[2];
        rc = rdg_submit(g->d, l, NULL, 0, &done, e);
        if (!rc) rc = rdg_event_wait(g->d, done, (int64_t)60 * 1000000000, e);
        double seconds = rdg_clock_seconds() - start;
        if (!rc && stamps) {
            rc = rdg_list_read_timestamps(l, ns, 2, e);
            if (ns[1] > 0) seconds = ns[1] * 1e-9;
        }
        if (i == 0 || seconds < *best) *best = seconds;
    }
done:
    rdg_list_destroy(l);
    return rc;
}

static rdg_err memory_roof(gauge *g, uint32_t kind, double bytes_per_byte, double *out, rdg_error *e)
{
    struct {
        uint64_t a, b, c;
        uint32_t n;
    } push = {rdg_buffer_address(g->a), rdg_buffer_address(g->b), rdg_buffer_address(g->c),
              (uint32_t)(g->bytes / 16)};
    double best = 0;
    *out = 0;
    /* how many workgroups fill a device is not a fact it gives: the best of a few */
    for (uint32_t groups = g->slow ? 64 : 1024; groups <= (g->slow ? 64u : 16384u); groups *= 4) {
        rdg_gpu_dispatch d = {.n_spec = 1, .spec = {kind}, .grid = {groups, 1, 1}};
        rdg_gpu_fill(&d, "roof_memory", &push, sizeof push - 4);
        rdg_err rc = time_dispatch(g, &d, 1, false, &best, e);
        if (rc) return rc;
        *out = RDG_MAX(*out, bytes_per_byte * (double)g->bytes / best);
    }
    return RDG_OK;
}

static rdg_err compute_roof(gauge *g, const char *module, uint32_t kind, double ops_a_turn, double *out,
                            rdg_error *e)
{
    struct {
        uint64_t result;
        uint32_t n;
        float x;
    } push = {rdg_buffer_address(g->b), g->slow ? 200 : 4000, 0.5f};
    uint32_t groups = g->slow ? 16 : 132 * 16;
    rdg_gpu_dispatch d = {.n_spec = 1, .spec = {kind}, .grid = {groups, 1, 1}};
    rdg_gpu_fill(&d, module, &push, sizeof push);
    if (!strcmp(module, "roof_matrix")) d.subgroup = 32;
    double best = 0;
    rdg_err rc = time_dispatch(g, &d, 1, false, &best, e);
    if (!rc) *out = ops_a_turn * push.n * groups * 256 / best;
    return rc;
}

static rdg_err launch_roof(gauge *g, double *out, rdg_error *e)
{
    enum { LAUNCHES = 200 };
    struct {
        uint64_t result;
        uint32_t n;
        float x;
    } push = {rdg_buffer_address(g->b), 0, 0.5f};
    rdg_gpu_dispatch d = {.n_spec = 1, .grid = {1, 1, 1}};
    rdg_gpu_fill(&d, "roof_compute", &push, sizeof push);
    double best = 0;
    rdg_err rc = time_dispatch(g, &d, LAUNCHES, true, &best, e);
    *out = best / LAUNCHES;
    return rc;
}

static rdg_err upload_roof(gauge *g, double *out, rdg_error *e)
{
    uint64_t bytes = g->slow ? (uint64_t)8 << 20 : (uint64_t)256 << 20;
    rdg_buffer *up = NULL;
    rdg_list *l = NULL;
    rdg_event done;
    rdg_err rc = rdg_buffer_create(g->d, RDG_MEMORY_UPLOAD, bytes, "upload roof", &up, e);
    if (!rc) rc = rdg_list_create(g->d, 1, 0, "upload roof", &l, e);
    if (rc) goto done;
    memset(rdg_buffer_host(up), 1, bytes);
    rdg_list_copy(l, g->a, 0, up, 0, bytes);
    rc = rdg_list_finish(l, e);
    for (int i = 0; i < 3 && !rc; i++) {
        double start = rdg_clock_seconds();
        rc = rdg_submit(g->d, l, NULL, 0, &done, e);
        if (!rc) rc = rdg_event_wait(g->d, done, (int64_t)60 * 1000000000, e);
        *out = RDG_MAX(*out, (double)bytes / (rdg_clock_seconds() - start));
    }
done:
    rdg_list_destroy(l);
    rdg_buffer_destroy(up);
    return rc;
}

rdg_err rdg_gpu_measure_roofs(rdg_device *d, rdg_gpu_roofs *out, rdg_error *e)
{
    const rdg_device_facts *f = rdg_device_get_facts(d);
    gauge g = {.d = d, .slow = !strcmp(f->kind, "cpu")};
    *out = (rdg_gpu_roofs){0};
    g.bytes = g.slow ? (uint64_t)16 << 20 : RDG_MIN((uint64_t)2 << 30, f->memory_bytes / 16 / 4096 * 4096);
    rdg_err rc = rdg_gpu_cache_create(d, &g.cache, e);
    if (!rc) rc = rdg_buffer_create(d, RDG_MEMORY_DEVICE, g.bytes, "roof a", &g.a, e);
    if (!rc) rc = rdg_buffer_create(d, RDG_MEMORY_DEVICE, g.bytes, "roof b", &g.b, e);
    if (!rc) rc = rdg_buffer_create(d, RDG_MEMORY_DEVICE, g.bytes, "roof c", &g.c, e);
    if (!rc) rc = memory_roof(&g, 0, 1, &out->read, e);
    if (!rc) rc = memory_roof(&g, 1, 2, &out->copy, e);
    if (!rc) rc = memory_roof(&g, 2, 3, &out->triad, e);
    if (!rc) rc = upload_roof(&g, &out->upload, e);
    if (!rc) rc = compute_roof(&g, "roof_compute", 0, 64 * 2, &out->fp32, e);
    if (!rc && (f->features & RDG_GPU_FLOAT16))
        rc = compute_roof(&g, "roof_compute", 1, 64 * 4, &out->fp16, e);
    if (!rc && (f->features & RDG_GPU_INT8_DOT_ANY))
        rc = compute_roof(&g, "roof_compute", 2, 64 * 8, &out->int8, e);
    /* 32 products of 16 x 16 x 16 a subgroup of 32 and turn */
    if (!rc && (f->features & RDG_GPU_MATRIX_F16) && (f->features & RDG_GPU_SUBGROUP_32) &&
        rdg_gpu_module_find("roof_matrix"))
        rc = compute_roof(&g, "roof_matrix", 0, 32.0 * 2 * 4096 / 32, &out->matrix_fp16, e);
    if (!rc) rc = launch_roof(&g, &out->launch_seconds, e);
    rdg_buffer_destroy(g.c);
    rdg_buffer_destroy(g.b);
    rdg_buffer_destroy(g.a);
    rdg_gpu_cache_destroy(g.cache);
    return rc ? rdg_fail_prefix(e, rc, "measuring %s", f->name) : RDG_OK;
}
