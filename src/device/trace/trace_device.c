#include "device/trace/trace.h"
#include "device/soft.h"

#include <stdio.h>
#include <string.h>

typedef struct trace_device {
    soft_device soft;
    pthread_mutex_t mutex; /* of what follows */
    rdg_buf text;
    int64_t n_calls, fail_at;
    rdg_err fail_code;
} trace_device;

static rdg_err before(soft_device *s, const char *call, const char *detail, rdg_error *e)
{
    trace_device *t = (trace_device *)s;
    rdg_err rc = RDG_OK;
    pthread_mutex_lock(&t->mutex);
    t->n_calls++;
    rdg_buf_printf(&t->text, "%s %s\n", call, detail);
    if (t->n_calls == t->fail_at)
        rc = rdg_fail(e, t->fail_code, "trace: call %lld (%s %s) fails as asked", (long long)t->n_calls, call,
                      detail);
    pthread_mutex_unlock(&t->mutex);
    return rc;
}

static rdg_err trace_open(int index, const rdg_device_options *o, rdg_device **out, rdg_error *e)
{
    (void)o;
    if (index > 0) return rdg_fail(e, RDG_E_NOT_FOUND, "device trace:%d: there is trace:0 only", index);
    trace_device *t = rdg_alloc(sizeof *t);
    if (!t) return rdg_fail(e, RDG_E_NOMEM, "no memory for a device");
    rdg_device_facts *f = &t->soft.base.facts;
    /* Facts of a middling discrete GPU, so that the code above takes the paths it takes on one. */
    *f = (rdg_device_facts){.memory_bytes = (uint64_t)8 << 30,
                            .free_bytes = (uint64_t)8 << 30,
                            .features = RDG_GPU_FLOAT16 | RDG_GPU_INT8_DOT | RDG_GPU_INT8_DOT_ANY |
                                        RDG_GPU_ORDERED_LAUNCHES | RDG_GPU_SUBGROUP_32 | RDG_GPU_SHARED_48K |
                                        RDG_GPU_CLOCK,
                            .imports_host_memory = true,
                            .import_alignment = 4096,
                            .subgroup_width = 32,
                            .subgroup_min = 32,
                            .subgroup_max = 32,
                            .shared_bytes = 49152,
                            .workgroup_max = 1024,
                            .push_bytes = RDG_PUSH_BYTES_MAX,
                            .grid_max = {UINT32_MAX, 65535, 65535},
                            .timestamp_ns = 1,
                            .timestamp_bits = 64,
                            .n_queues = 2};
    snprintf(f->backend, sizeof f->backend, "trace");
    snprintf(f->kind, sizeof f->kind, "other");
    snprintf(f->name, sizeof f->name, "trace");
    snprintf(f->reason, sizeof f->reason, "asked for by name");
    rdg_buf_init(&t->text);
    t->text.limit = (size_t)16 << 20;
    pthread_mutex_init(&t->mutex, NULL);
    t->soft.before = before;
    *out = &t->soft.base;
    return RDG_OK;
}

static void trace_close(rdg_device *d)
{
    trace_device *t = (trace_device *)d;
    rdg_buf_finish(&t->text);
    pthread_mutex_destroy(&t->mutex);
    rdg_free(t);
}

static rdg_err trace_enumerate(rdg_device_facts *out, int cap, int *n, rdg_buf *notes, rdg_error *e)
{
    (void)out;
    (void)cap;
    (void)notes;
    (void)e;
    *n = 0;
    return RDG_OK;
}

void rdg_trace_fail_at(rdg_device *d, int64_t nth, rdg_err code)
{
    trace_device *t = (trace_device *)d;
    t->fail_at = nth ? t->n_calls + nth : 0;
    t->fail_code = code;
}

int64_t rdg_trace_calls(const rdg_device *d)
{
    return ((const trace_device *)d)->n_calls;
}

const char *rdg_trace_text(const rdg_device *d)
{
    const trace_device *t = (const trace_device *)d;
    return t->text.data ? t->text.data : "";
}

void rdg_trace_clear(rdg_device *d)
{
    rdg_buf_clear(&((trace_device *)d)->text);
}

const rdg_backend_api rdg_trace_backend = {
    .name = "trace",
    .enumerate = trace_enumerate,
    .open = trace_open,
    .close = trace_close,
    RDG_SOFT_CALLS,
};
