#include "device/soft.h"
#include "base/clock.h"

#include <string.h>

typedef struct soft_kernel {
    rdg_kernel base;
    rdg_host_kernel *host;
} soft_kernel;

typedef enum command_kind { COMMAND_DISPATCH, COMMAND_COPY, COMMAND_FILL, COMMAND_TIMESTAMP } command_kind;

typedef struct command {
    command_kind kind;
    soft_kernel *kernel;
    uint32_t grid[3];
    unsigned char push[RDG_PUSH_BYTES_MAX];
    rdg_buffer *dst, *src;
    uint64_t dst_offset, src_offset, bytes;
    uint32_t word;
} command;

typedef struct soft_list {
    rdg_list base;
    command *commands;
    size_t n, cap;
    int64_t *ticks;
} soft_list;

static rdg_err before(rdg_device *d, const char *call, const char *detail, rdg_error *e)
{
    soft_device *s = (soft_device *)d;
    return s->before ? s->before(s, call, detail, e) : RDG_OK;
}

rdg_err rdg_soft_buffer_create(rdg_device *d, rdg_memory m, uint64_t bytes, rdg_buffer **out, rdg_error *e)
{
    (void)m;
    rdg_err rc = before(d, "buffer_create", "", e);
    if (rc) return rc;
    rdg_buffer *b = rdg_alloc(sizeof *b);
    if (b) b->host = rdg_alloc_aligned(4096, rdg_round_up((int64_t)bytes, 4096));
    if (!b || !b->host) {
        rdg_free(b);
        return rdg_fail(e, RDG_E_NOMEM, "out of host memory");
    }
    memset(b->host, 0, bytes); /* so that what runs no kernels gives the same results each time */
    b->address = (uintptr_t)b->host;
    *out = b;
    return RDG_OK;
}

rdg_err rdg_soft_buffer_import(rdg_device *d, void *host, uint64_t bytes, rdg_buffer **out, rdg_error *e)
{
    (void)bytes;
    rdg_err rc = before(d, "buffer_import", "", e);
    if (rc) return rc;
    rdg_buffer *b = rdg_alloc(sizeof *b);
    if (!b) return rdg_fail(e, RDG_E_NOMEM, "out of host memory");
    b->host = host;
    b->address = (uintptr_t)host;
    *out = b;
    return RDG_OK;
}

void rdg_soft_buffer_destroy(rdg_buffer *b)
{
    if (!b->imported) rdg_free(b->host);
    rdg_free(b);
}

rdg_err rdg_soft_kernel_create(rdg_device *d, const rdg_kernel_desc *desc, rdg_kernel **out, rdg_error *e)
{
    rdg_err rc = before(d, "kernel_create", desc->name, e);
    if (rc) return rc;
    if (((soft_device *)d)->runs_kernels && !desc->host)
        return rdg_fail(e, RDG_E_UNSUPPORTED, "it has no form that runs on the host");
    soft_kernel *k = rdg_alloc(sizeof *k);
    if (!k) return rdg_fail(e, RDG_E_NOMEM, "out of host memory");
    k->host = desc->host;
    *out = &k->base;
    return RDG_OK;
}

void rdg_soft_kernel_destroy(rdg_kernel *k)
{
    rdg_free(k);
}

rdg_err rdg_soft_list_create(rdg_device *d, int queue, int n_timestamps, rdg_list **out, rdg_error *e)
{
    (void)queue;
    rdg_err rc = before(d, "list_create", "", e);
    if (rc) return rc;
    soft_list *l = rdg_alloc(sizeof *l);
    if (l) l->ticks = rdg_alloc_array((size_t)n_timestamps, sizeof *l->ticks);
    if (!l || !l->ticks) {
        rdg_free(l);
        return rdg_fail(e, RDG_E_NOMEM, "out of host memory");
    }
    *out = &l->base;
    return RDG_OK;
}

void rdg_soft_list_destroy(rdg_list *list)
{
    soft_list *l = (soft_list *)list;
    rdg_free(l->commands);
    rdg_free(l->ticks);
    rdg_free(l);
}

rdg_err rdg_soft_list_begin(rdg_list *list, rdg_error *e)
{
    (void)e;
    ((soft_list *)list)->n = 0;
    return RDG_OK;
}

static rdg_err append(rdg_list *list, const command *c, const char *call, const char *detail, rdg_error *e)
{
    soft_list *l = (soft_list *)list;
    rdg_err rc = before(list->device, call, detail, e);
    if (rc) return rc;
    if (!rdg_grow(&l->commands, l->n, &l->cap, sizeof *l->commands))
        return rdg_fail(e, RDG_E_NOMEM, "out of host memory");
    l->commands[l->n++] = *c;
    return RDG_OK;
}

rdg_err rdg_soft_dispatch(rdg_list *l, rdg_kernel *k, const void *push, const uint32_t grid[3], rdg_error *e)
{
    command c = {.kind = COMMAND_DISPATCH, .kernel = (soft_kernel *)k, .grid = {grid[0], grid[1], grid[2]}};
    if (k->push_bytes) memcpy(c.push, push, k->push_bytes);
    return append(l, &c, "dispatch", k->name, e);
}

rdg_err rdg_soft_barrier(rdg_list *l, rdg_error *e)
{
    return before(l->device, "barrier", l->label, e); /* commands run in order anyway */
}

rdg_err rdg_soft_copy(rdg_list *l, rdg_buffer *dst, uint64_t dst_offset, rdg_buffer *src, uint64_t src_offset,
                      uint64_t bytes, rdg_error *e)
{
    command c = {.kind = COMMAND_COPY,
                 .dst = dst,
                 .src = src,
                 .dst_offset = dst_offset,
                 .src_offset = src_offset,
                 .bytes = bytes};
    return append(l, &c, "copy", dst->label, e);
}

rdg_err rdg_soft_fill(rdg_list *l, rdg_buffer *dst, uint64_t offset, uint64_t bytes, uint32_t word,
                      rdg_error *e)
{
    command c = {.kind = COMMAND_FILL, .dst = dst, .dst_offset = offset, .bytes = bytes, .word = word};
    return append(l, &c, "fill", dst->label, e);
}

rdg_err rdg_soft_timestamp(rdg_list *l, int slot, bool early, rdg_error *e)
{
    (void)early; /* commands run one after the other */
    command c = {.kind = COMMAND_TIMESTAMP, .word = (uint32_t)slot};
    return append(l, &c, "timestamp", l->label, e);
}

rdg_err rdg_soft_list_end(rdg_list *l, rdg_error *e)
{
    return before(l->device, "list_end", l->label, e);
}

rdg_err rdg_soft_read_ticks(rdg_list *list, uint64_t *ticks, int n, rdg_error *e)
{
    soft_list *l = (soft_list *)list;
    rdg_err rc = before(list->device, "read_ticks", list->label, e);
    if (rc) return rc;
    memcpy(ticks, l->ticks, (size_t)n * sizeof *ticks);
    return RDG_OK;
}

static void run_dispatch(const command *c)
{
    for (uint32_t z = 0; z < c->grid[2]; z++)
        for (uint32_t y = 0; y < c->grid[1]; y++)
            for (uint32_t x = 0; x < c->grid[0]; x++) c->kernel->host(c->push, x, y, z);
}

rdg_err rdg_soft_submit(rdg_device *d, rdg_list *list, const rdg_event *waits, int n_waits, uint64_t value,
                        rdg_error *e)
{
    (void)waits;
    (void)n_waits;
    (void)value;
    soft_list *l = (soft_list *)list;
    rdg_err rc = before(d, "submit", list->label, e);
    if (rc) return rc;
    for (size_t i = 0; i < l->n; i++) {
        const command *c = &l->commands[i];
        switch (c->kind) {
        case COMMAND_DISPATCH:
            if (((soft_device *)d)->runs_kernels) run_dispatch(c);
            break;
        case COMMAND_COPY:
            memmove((char *)c->dst->host + c->dst_offset, (char *)c->src->host + c->src_offset, c->bytes);
            break;
        case COMMAND_FILL:
            for (uint64_t k = 0; k < c->bytes; k += 4)
                memcpy((char *)c->dst->host + c->dst_offset + k, &c->word, 4);
            break;
        case COMMAND_TIMESTAMP: l->ticks[c->word] = rdg_clock_ns(); break;
        }
    }
    return RDG_OK;
}

rdg_err rdg_soft_poll(rdg_device *d, int queue, uint64_t *value, rdg_error *e)
{
    (void)e;
    pthread_mutex_lock(&d->lock);
    *value = d->submitted[queue];
    pthread_mutex_unlock(&d->lock);
    return RDG_OK;
}

rdg_err rdg_soft_wait(rdg_device *d, int queue, uint64_t value, int64_t timeout_ns, rdg_error *e)
{
    (void)queue;
    (void)value;
    (void)timeout_ns;
    return before(d, "wait", "", e);
}
