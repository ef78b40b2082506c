/* Argument checks, list states, accounting and the sticky loss of a device. Backends hold API calls only. */
#include "device/backend.h"

#include <stdlib.h>
#include <string.h>

static const rdg_backend_api *const backends[] = {
    &rdg_cpu_backend,
    &rdg_trace_backend,
#ifdef RDG_HAVE_VULKAN
    &rdg_vulkan_backend,
#endif
};

/* How long a list that is destroyed while it runs is waited for: longer than drivers let a hanging kernel be.
 */
#define DESTROY_TIMEOUT_NS ((int64_t)30 * 1000000000)

/* Keeps the first loss; every later call on the device returns it. */
static rdg_err note(rdg_device *d, rdg_err rc, const rdg_error *e)
{
    static const rdg_error plain = {.code = RDG_E_DEVICE_LOST, .message = "the device was lost"};
    if (rc != RDG_E_DEVICE_LOST) return rc;
    pthread_mutex_lock(&d->lock);
    if (!d->lost) {
        d->lost_error = e ? *e : plain;
        d->lost = true;
    }
    pthread_mutex_unlock(&d->lock);
    return rc;
}

static rdg_err check_lost(const rdg_device *d, rdg_error *e)
{
    if (!d->lost) return RDG_OK;
    return rdg_fail(e, RDG_E_DEVICE_LOST, "device %s was lost earlier (%s): close it and open it again",
                    d->facts.name, d->lost_error.message);
}

rdg_err rdg_device_open(const char *name, const rdg_device_options *o, rdg_device **out, rdg_error *e)
{
    static const rdg_device_options none = {0};
    *out = NULL;
    if (!name) name = "cpu";
    const char *colon = strchr(name, ':');
    size_t n = colon ? (size_t)(colon - name) : strlen(name);
    int index = -1;
    if (colon) {
        char *end;
        long v = strtol(colon + 1, &end, 10);
        if (end == colon + 1 || *end || v < 0 || v > 255)
            return rdg_fail(e, RDG_E_ARGUMENT, "device \"%s\": a number from 0 to 255 must follow the colon",
                            name);
        index = (int)v;
    }
    for (int i = 0; i < RDG_COUNTOF(backends); i++) {
        if (strlen(backends[i]->name) != n || memcmp(backends[i]->name, name, n)) continue;
        rdg_err rc = backends[i]->open(index, o ? o : &none, out, e);
        if (rc) return rc;
        pthread_mutex_init(&(*out)->lock, NULL);
        (*out)->api = backends[i];
        (*out)->log = o ? o->log : NULL;
        return RDG_OK;
    }
    rdg_buf known;
    rdg_buf_init(&known);
    for (int i = 0; i < RDG_COUNTOF(backends); i++) rdg_buf_printf(&known, " %s", backends[i]->name);
    rdg_err rc = rdg_fail(e, RDG_E_NOT_FOUND, "no device backend \"%.*s\" in this build; there are:%s",
                          (int)n, name, known.data ? known.data : "");
    rdg_buf_finish(&known);
    return rc;
}

void rdg_device_close(rdg_device *d)
{
    if (!d) return;
    pthread_mutex_destroy(&d->lock);
    d->api->close(d);
}

void rdg_device_set_log(rdg_device *d, const rdg_log *log)
{
    d->log = log;
}

const rdg_device_facts *rdg_device_get_facts(const rdg_device *d)
{
    return &d->facts;
}

const rdg_device_account *rdg_device_get_account(const rdg_device *d)
{
    return &d->account;
}

uint64_t rdg_device_bytes_now(rdg_device *d)
{
    pthread_mutex_lock(&d->lock);
    uint64_t bytes = d->account.bytes_now;
    pthread_mutex_unlock(&d->lock);
    return bytes;
}

/* One object of a kind more or less. */
static void count(rdg_device *d, int64_t *counter, int by)
{
    pthread_mutex_lock(&d->lock);
    *counter += by;
    pthread_mutex_unlock(&d->lock);
}

bool rdg_device_lost(const rdg_device *d)
{
    return d->lost;
}

rdg_err rdg_device_list(rdg_device_facts *out, int cap, int *n, rdg_buf *notes, rdg_error *e)
{
    *n = 0;
    for (int i = 0; i < RDG_COUNTOF(backends); i++) {
        if (backends[i] == &rdg_trace_backend) continue; /* not a device anyone would run on */
        int k = 0;
        rdg_err rc = backends[i]->enumerate(out + *n, cap - *n, &k, notes, e);
        if (rc) return rc;
        *n += RDG_MIN(k, cap - *n);
    }
#ifndef RDG_HAVE_VULKAN
    if (notes)
        rdg_buf_puts(notes, "vulkan: not in this build (Vulkan headers or a GLSL compiler were missing)\n");
#endif
    return RDG_OK;
}

/* Buffers
 * ------------------------------------------------------------------------------------------------------ */

static void adopt(rdg_device *d, rdg_buffer *b, rdg_memory memory, uint64_t bytes, const char *label,
                  bool imported)
{
    b->device = d;
    b->memory = memory;
    b->bytes = bytes;
    b->imported = imported;
    size_t n = label ? strlen(label) : 0;
    if (n >= sizeof b->label) n = sizeof b->label - 1;
    if (n) memcpy(b->label, label, n);
    b->label[n] = 0;
    pthread_mutex_lock(&d->lock);
    d->account.n_buffers++;
    if (imported) {
        d->account.bytes_imported += bytes;
    } else {
        d->account.bytes_now += bytes;
        d->account.bytes_peak = RDG_MAX(d->account.bytes_peak, d->account.bytes_now);
    }
    pthread_mutex_unlock(&d->lock);
}

rdg_err rdg_buffer_create(rdg_device *d, rdg_memory memory, uint64_t bytes, const char *label,
                          rdg_buffer **out, rdg_error *e)
{
    *out = NULL;
    rdg_err rc = check_lost(d, e);
    if (rc) return rc;
    if (bytes == 0 || bytes > (uint64_t)1 << 46)
        return rdg_fail(e, RDG_E_ARGUMENT, "buffer %s: %llu bytes", label ? label : "?",
                        (unsigned long long)bytes);
    rc = note(d, d->api->buffer_create(d, memory, bytes, out, e), e);
    if (rc)
        return rdg_fail_prefix(e, rc, "buffer %s of %llu bytes", label ? label : "?",
                               (unsigned long long)bytes);
    adopt(d, *out, memory, bytes, label, false);
    return RDG_OK;
}

rdg_err rdg_buffer_import(rdg_device *d, void *host, uint64_t bytes, const char *label, rdg_buffer **out,
                          rdg_error *e)
{
    *out = NULL;
    rdg_err rc = check_lost(d, e);
    if (rc) return rc;
    if (!d->api->buffer_import || !d->facts.imports_host_memory)
        return rdg_fail(e, RDG_E_UNSUPPORTED, "%s cannot use host memory in place", d->facts.name);
    uint64_t a = RDG_MAX(d->facts.import_alignment, 1);
    if (!host || bytes == 0 || (uintptr_t)host % a || bytes % a)
        return rdg_fail(e, RDG_E_ARGUMENT, "import of %s: %llu bytes at %p are not multiples of %llu",
                        label ? label : "?", (unsigned long long)bytes, host, (unsigned long long)a);
    rc = note(d, d->api->buffer_import(d, host, bytes, out, e), e);
    if (rc)
        return rdg_fail_prefix(e, rc, "import of %s (%llu bytes)", label ? label : "?",
                               (unsigned long long)bytes);
    adopt(d, *out, RDG_MEMORY_UPLOAD, bytes, label, true);
    return RDG_OK;
}

void rdg_buffer_destroy(rdg_buffer *b)
{
    if (!b) return;
    rdg_device *d = b->device;
    pthread_mutex_lock(&d->lock);
    d->account.n_buffers--;
    if (b->imported)
        d->account.bytes_imported -= b->bytes;
    else
        d->account.bytes_now -= b->bytes;
    pthread_mutex_unlock(&d->lock);
    d->api->buffer_destroy(b);
}

void *rdg_buffer_host(const rdg_buffer *b)
{
    return b->host;
}

uint64_t rdg_buffer_address(const rdg_buffer *b)
{
    return b->address;
}

uint64_t rdg_buffer_bytes(const rdg_buffer *b)
{
    return b->bytes;
}

void rdg_buffer_set_tag(rdg_buffer *b, uint32_t tag)
{
    b->tag = tag;
}

uint32_t rdg_buffer_tag(const rdg_buffer *b)
{
    return b->tag;
}

const char *rdg_buffer_label(const rdg_buffer *b)
{
    return b->label;
}

/* Kernels
 * ------------------------------------------------------------------------------------------------------ */

rdg_err rdg_kernel_create(rdg_device *d, const rdg_kernel_desc *desc, rdg_kernel **out, rdg_error *e)
{
    *out = NULL;
    rdg_err rc = check_lost(d, e);
    if (rc) return rc;
    if (desc->n_spec < 0 || desc->n_spec > RDG_SPEC_MAX || desc->push_bytes > RDG_PUSH_BYTES_MAX ||
        desc->push_bytes > d->facts.push_bytes || desc->push_bytes % 4)
        return rdg_fail(e, RDG_E_ARGUMENT,
                        "kernel %s: %d specialisation constants (at most %d), %u argument bytes (at "
                        "most %u, a multiple of 4)",
                        desc->name, desc->n_spec, RDG_SPEC_MAX, desc->push_bytes, d->facts.push_bytes);
    if (desc->subgroup && (desc->subgroup < d->facts.subgroup_min || desc->subgroup > d->facts.subgroup_max))
        return rdg_fail(e, RDG_E_UNSUPPORTED, "kernel %s: subgroups of %u; %s has %u to %u", desc->name,
                        desc->subgroup, d->facts.name, d->facts.subgroup_min, d->facts.subgroup_max);
    rc = note(d, d->api->kernel_create(d, desc, out, e), e);
    if (rc) return rdg_fail_prefix(e, rc, "kernel %s", desc->name);
    (*out)->device = d;
    (*out)->push_bytes = desc->push_bytes;
    size_t n = RDG_MIN(strlen(desc->name), sizeof(*out)->name - 1);
    memcpy((*out)->name, desc->name, n);
    (*out)->name[n] = 0;
    count(d, &d->account.n_kernels, 1);
    return RDG_OK;
}

void rdg_kernel_destroy(rdg_kernel *k)
{
    if (!k) return;
    count(k->device, &k->device->account.n_kernels, -1);
    k->device->api->kernel_destroy(k);
}

/* Lists
 * -------------------------------------------------------------------------------------------------------- */

rdg_err rdg_list_create(rdg_device *d, int queue, int n_timestamps, const char *label, rdg_list **out,
                        rdg_error *e)
{
    *out = NULL;
    rdg_err rc = check_lost(d, e);
    if (rc) return rc;
    if (queue < 0 || queue >= RDG_QUEUES || n_timestamps < 0 || n_timestamps > 65536)
        return rdg_fail(e, RDG_E_ARGUMENT, "list %s: queue %d, %d timestamps", label ? label : "?", queue,
                        n_timestamps);
    if (d->facts.n_queues < 2) queue = 0;
    rc = note(d, d->api->list_create(d, queue, n_timestamps, out, e), e);
    if (rc) return rdg_fail_prefix(e, rc, "command list %s", label ? label : "?");
    rdg_list *l = *out;
    l->device = d;
    l->queue = queue;
    l->n_timestamps = n_timestamps;
    size_t n = label ? RDG_MIN(strlen(label), sizeof l->label - 1) : 0;
    if (n) memcpy(l->label, label, n);
    l->label[n] = 0;
    count(d, &d->account.n_lists, 1);
    rc = note(d, d->api->list_begin(l, e), e);
    if (rc) {
        rdg_list_destroy(l);
        *out = NULL;
        return rdg_fail_prefix(e, rc, "command list %s", label ? label : "?");
    }
    l->state = RDG_LIST_RECORDING;
    return RDG_OK;
}

/* What was given up waiting for may still run: the driver would lose what it works with. */
static void wait_for_list(rdg_list *l)
{
    rdg_device *d = l->device;
    pthread_mutex_lock(&d->lock);
    bool over = l->last.value <= d->finished[l->last.queue];
    pthread_mutex_unlock(&d->lock);
    if (over || d->lost) return;
    rdg_error e = {0};
    if (rdg_event_wait(d, l->last, DESTROY_TIMEOUT_NS, &e))
        rdg_log_warn(d->log, "list %s is given up while it runs: %s", l->label, e.message);
}

void rdg_list_destroy(rdg_list *l)
{
    if (!l) return;
    wait_for_list(l);
    count(l->device, &l->device->account.n_lists, -1);
    l->device->api->list_destroy(l);
}

/* True when a command may be recorded; otherwise the list carries an error. */
static bool recordable(rdg_list *l, const char *what)
{
    if (l->error.code) return false;
    if (l->state == RDG_LIST_RECORDING) {
        l->n_commands++;
        return true;
    }
    rdg_fail(&l->error, RDG_E_ARGUMENT, "list %s: %s after it was finished", l->label, what);
    return false;
}

static void keep(rdg_list *l, rdg_err rc, const rdg_error *e, const char *what)
{
    if (!rc) return;
    note(l->device, rc, e);
    l->error = *e;
    rdg_fail_prefix(&l->error, rc, "list %s: %s", l->label, what);
}

void rdg_list_dispatch(rdg_list *l, rdg_kernel *k, const void *push, uint32_t gx, uint32_t gy, uint32_t gz)
{
    if (!recordable(l, k->name)) return;
    const uint32_t grid[3] = {gx, gy, gz};
    for (int i = 0; i < 3; i++) {
        if (grid[i] == 0 || grid[i] > l->device->facts.grid_max[i]) {
            rdg_fail(&l->error, RDG_E_LIMIT,
                     "list %s: kernel %s needs a grid of %u x %u x %u; %s allows %u x %u x %u", l->label,
                     k->name, gx, gy, gz, l->device->facts.name, l->device->facts.grid_max[0],
                     l->device->facts.grid_max[1], l->device->facts.grid_max[2]);
            return;
        }
    }
    rdg_error e = {0};
    keep(l, l->device->api->dispatch(l, k, push, grid, &e), &e, k->name);
    l->n_dispatches++;
}

void rdg_list_barrier(rdg_list *l)
{
    if (!recordable(l, "barrier")) return;
    rdg_error e = {0};
    keep(l, l->device->api->barrier(l, &e), &e, "barrier");
    l->n_barriers++;
}

static bool in_range(rdg_list *l, const rdg_buffer *b, uint64_t offset, uint64_t bytes, const char *what)
{
    if (bytes > 0 && offset <= b->bytes && bytes <= b->bytes - offset) return true;
    rdg_fail(&l->error, RDG_E_ARGUMENT,
             "list %s: %s of %llu bytes at %llu is outside buffer %s of %llu bytes", l->label, what,
             (unsigned long long)bytes, (unsigned long long)offset, b->label, (unsigned long long)b->bytes);
    return false;
}

void rdg_list_copy(rdg_list *l, rdg_buffer *dst, uint64_t dst_offset, rdg_buffer *src, uint64_t src_offset,
                   uint64_t bytes)
{
    if (!recordable(l, "copy") || !in_range(l, dst, dst_offset, bytes, "copy") ||
        !in_range(l, src, src_offset, bytes, "copy"))
        return;
    rdg_error e = {0};
    keep(l, l->device->api->copy(l, dst, dst_offset, src, src_offset, bytes, &e), &e, "copy");
}

void rdg_list_fill(rdg_list *l, rdg_buffer *dst, uint64_t offset, uint64_t bytes, uint32_t word)
{
    if (!recordable(l, "fill") || !in_range(l, dst, offset, bytes, "fill")) return;
    if (offset % 4 || bytes % 4) {
        rdg_fail(&l->error, RDG_E_ARGUMENT, "list %s: fill of %llu bytes at %llu is not in whole words",
                 l->label, (unsigned long long)bytes, (unsigned long long)offset);
        return;
    }
    rdg_error e = {0};
    keep(l, l->device->api->fill(l, dst, offset, bytes, word, &e), &e, "fill");
}

static void put_timestamp(rdg_list *l, int slot, bool early)
{
    if (!recordable(l, "timestamp")) return;
    if (slot < 0 || slot >= l->n_timestamps) {
        rdg_fail(&l->error, RDG_E_ARGUMENT, "list %s: timestamp slot %d of %d", l->label, slot,
                 l->n_timestamps);
        return;
    }
    rdg_error e = {0};
    keep(l, l->device->api->timestamp(l, slot, early, &e), &e, "timestamp");
}

void rdg_list_timestamp(rdg_list *l, int slot)
{
    put_timestamp(l, slot, false);
}

void rdg_list_timestamp_early(rdg_list *l, int slot)
{
    put_timestamp(l, slot, true);
}

rdg_err rdg_list_finish(rdg_list *l, rdg_error *e)
{
    if (l->error.code) {
        if (e) *e = l->error;
        return l->error.code;
    }
    if (l->state != RDG_LIST_RECORDING)
        return rdg_fail(e, RDG_E_ARGUMENT, "list %s: finished twice", l->label);
    rdg_err rc = note(l->device, l->device->api->list_end(l, e), e);
    if (rc) return rdg_fail_prefix(e, rc, "list %s", l->label);
    l->state = RDG_LIST_FINISHED;
    return RDG_OK;
}

rdg_err rdg_list_reset(rdg_list *l, rdg_error *e)
{
    rdg_err rc = check_lost(l->device, e);
    if (rc) return rc;
    if (l->last.value && !rdg_event_done(l->device, l->last))
        return rdg_fail(e, RDG_E_ARGUMENT, "list %s: reset while it runs", l->label);
    rc = note(l->device, l->device->api->list_begin(l, e), e);
    if (rc) return rdg_fail_prefix(e, rc, "list %s", l->label);
    l->state = RDG_LIST_RECORDING;
    l->error = (rdg_error){0};
    l->n_dispatches = l->n_barriers = l->n_commands = 0;
    return RDG_OK;
}

int64_t rdg_list_n_dispatches(const rdg_list *l)
{
    return l->n_dispatches;
}

int64_t rdg_list_n_barriers(const rdg_list *l)
{
    return l->n_barriers;
}

rdg_err rdg_list_read_ticks(rdg_list *l, uint64_t *ticks, int n, rdg_error *e)
{
    rdg_err rc = check_lost(l->device, e);
    if (rc) return rc;
    if (n < 1 || n > l->n_timestamps)
        return rdg_fail(e, RDG_E_ARGUMENT, "list %s: %d of %d timestamps", l->label, n, l->n_timestamps);
    return note(l->device, l->device->api->read_ticks(l, ticks, n, e), e);
}

double rdg_device_tick_ns(const rdg_device *d, uint64_t a, uint64_t b)
{
    /* the counter may have wrapped between the two: the difference is that of its low bits, with their sign
     */
    int unused = 64 - (d->facts.timestamp_bits > 0 ? RDG_MIN(d->facts.timestamp_bits, 64) : 64);
    return (double)((int64_t)((b - a) << unused) >> unused) * d->facts.timestamp_ns;
}

rdg_err rdg_list_read_timestamps(rdg_list *l, double *ns, int n, rdg_error *e)
{
    uint64_t *ticks = n > 0 ? rdg_alloc_array((size_t)n, sizeof *ticks) : NULL;
    if (n > 0 && !ticks) return rdg_fail(e, RDG_E_NOMEM, "list %s: no memory for %d timestamps", l->label, n);
    rdg_err rc = rdg_list_read_ticks(l, ticks, n, e);
    for (int i = 0; i < n && !rc; i++) ns[i] = rdg_device_tick_ns(l->device, ticks[0], ticks[i]);
    rdg_free(ticks);
    return rc;
}

/* Queues
 * ------------------------------------------------------------------------------------------------------- */

rdg_err rdg_submit(rdg_device *d, rdg_list *l, const rdg_event *waits, int n_waits, rdg_event *done,
                   rdg_error *e)
{
    if (done) *done = (rdg_event){0};
    rdg_err rc = check_lost(d, e);
    if (rc) return rc;
    if (l->device != d || l->state != RDG_LIST_FINISHED)
        return rdg_fail(e, RDG_E_ARGUMENT, "list %s: %s", l->label,
                        l->device != d ? "made for another device" : "submitted before it was finished");
    /* A value is given and handed to the queue in one go: the queue must see them rise. */
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < n_waits && !rc; i++)
        if (waits[i].queue < 0 || waits[i].queue >= RDG_QUEUES ||
            waits[i].value > d->submitted[waits[i].queue])
            rc = rdg_fail(e, RDG_E_ARGUMENT,
                          "list %s: waits for value %llu of queue %d, which nobody will signal", l->label,
                          (unsigned long long)waits[i].value, waits[i].queue);
    uint64_t value = d->submitted[l->queue] + 1;
    bool refused = rc != RDG_OK;
    if (!rc) rc = d->api->submit(d, l, waits, n_waits, value, e);
    if (!rc) {
        d->submitted[l->queue] = value;
        d->account.n_submits++;
        d->account.n_dispatches += l->n_dispatches;
        d->account.n_barriers += l->n_barriers;
    }
    pthread_mutex_unlock(&d->lock);
    if (refused) return rc;
    note(d, rc, e);
    if (rc) return rdg_fail_prefix(e, rc, "submit of %s", l->label);
    l->last = (rdg_event){.queue = l->queue, .value = value};
    if (done) *done = l->last;
    return RDG_OK;
}

static void reached(rdg_device *d, int queue, uint64_t value)
{
    pthread_mutex_lock(&d->lock);
    d->finished[queue] = RDG_MAX(d->finished[queue], value);
    pthread_mutex_unlock(&d->lock);
}

bool rdg_event_done(rdg_device *d, rdg_event ev)
{
    if (ev.value == 0 || d->lost) return true;
    uint64_t value = 0;
    rdg_error e = {0};
    if (note(d, d->api->poll(d, ev.queue, &value, &e), &e)) return true; /* the next call reports why */
    reached(d, ev.queue, value);
    return value >= ev.value;
}

static uint64_t submitted(rdg_device *d, int queue)
{
    pthread_mutex_lock(&d->lock);
    uint64_t value = d->submitted[queue];
    pthread_mutex_unlock(&d->lock);
    return value;
}

rdg_err rdg_event_wait(rdg_device *d, rdg_event ev, int64_t timeout_ns, rdg_error *e)
{
    rdg_err rc = check_lost(d, e);
    if (rc || ev.value == 0) return rc;
    if (ev.queue < 0 || ev.queue >= RDG_QUEUES || ev.value > submitted(d, ev.queue))
        return rdg_fail(e, RDG_E_ARGUMENT, "wait for value %llu of queue %d, which nobody will signal",
                        (unsigned long long)ev.value, ev.queue);
    rc = note(d, d->api->wait(d, ev.queue, ev.value, timeout_ns, e), e);
    if (!rc) reached(d, ev.queue, ev.value);
    return rc;
}
