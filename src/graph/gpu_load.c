#include "graph/gpu_load.h"
#include "base/clock.h"
#include "base/sort.h"
#include "format/gguf.h"
#include "graph/gpu.h"

#include <math.h>

enum {
    MAX_REPEATS = 64,
    COPY_SLOT_BYTES = 8 << 20, /* at least: shorter copies cross more slowly */
};

rdg_err rdg_gpu_load_once(rdg_device *d, const rdg_plan *p, rdg_pool *pool, const rdg_upload_options *o,
                          double *seconds, rdg_upload_stats *st, rdg_error *e)
{
    rdg_gpu_weights *w = NULL;
    for (int i = 0; i < p->gguf->n_parts; i++) /* as in a fresh process: page faults are part of a load */
        if (p->gguf->parts[i].map.fd >= 0) rdg_map_release(p->gguf->parts[i].data, p->gguf->parts[i].bytes);
    double start = rdg_clock_seconds();
    rdg_err rc = rdg_gpu_weights_create(d, p->gguf, false, &w, e);
    if (!rc) rc = rdg_gpu_weights_load(w, p, pool, o, NULL, st, e);
    *seconds = rdg_clock_seconds() - start;
    rdg_gpu_weights_destroy(w);
    return rc;
}

rdg_err rdg_gpu_measure_load(rdg_device *d, const rdg_plan *p, rdg_pool *pool, const rdg_upload_options *o,
                             int repeats, rdg_load_times *out, rdg_error *e)
{
    static const rdg_upload_options usual = {0};
    double whole[MAX_REPEATS], reserve[MAX_REPEATS], ignored;
    rdg_upload_stats st;
    if (!o) o = &usual;
    *out = (rdg_load_times){.read_seconds = INFINITY, .fill_seconds = INFINITY, .copy_seconds = INFINITY};
    rdg_upload_options read = *o, fill = *o, copy = *o;
    copy.slot_bytes = RDG_MAX(COPY_SLOT_BYTES, o->slot_bytes ? o->slot_bytes : RDG_UPLOAD_SLOT_BYTES);
    copy.share_bytes = copy.slot_bytes; /* a slot for each thread: the bus always has something to do */
    read.skip_copy = read.skip_rewrite = fill.skip_copy = copy.skip_fill = true;
    const struct {
        const rdg_upload_options *o;
        double *seconds;
    } halves[] = {{&read, &out->read_seconds}, {&fill, &out->fill_seconds}, {&copy, &out->copy_seconds}};
    repeats = RDG_MAX(1, RDG_MIN(repeats, MAX_REPEATS));
    rdg_err rc = rdg_gpu_load_once(d, p, pool, o, &ignored, &st, e);
    for (int i = 0; i < repeats && !rc; i++) {
        rc = rdg_gpu_load_once(d, p, pool, o, &whole[i], &st, e);
        if (rc) break;
        reserve[i] = whole[i] - st.seconds;
        out->bytes = st.bytes;
        out->staging_bytes = st.staging_bytes;
        out->n_threads = st.n_threads;
        out->from_map = st.from_map;
        for (int k = 0; k < RDG_COUNTOF(halves) && !rc; k++) {
            rc = rdg_gpu_load_once(d, p, pool, halves[k].o, &ignored, &st, e);
            if (!rc) *halves[k].seconds = RDG_MIN(*halves[k].seconds, st.seconds);
        }
    }
    if (rc) return rc;
    rdg_sort_doubles(whole, (size_t)repeats);
    rdg_sort_doubles(reserve, (size_t)repeats);
    out->seconds = rdg_median_sorted(whole, (size_t)repeats);
    out->min_seconds = whole[0];
    out->max_seconds = whole[repeats - 1];
    out->reserve_seconds = rdg_median_sorted(reserve, (size_t)repeats);
    return RDG_OK;
}
