/* Kernel and constant cache of a device, and the recording of one call. */
#include "ops/gpu.h"

#include <string.h>

enum { CONSTANT_BYTES = 1 << 20 };

typedef struct entry {
    const char *module;
    uint32_t spec[RDG_SPEC_MAX];
    int n_spec;
    uint32_t subgroup;
    rdg_kernel *kernel;
} entry;

typedef struct constant {
    uint32_t offset, bytes;
} constant;

struct rdg_gpu_cache {
    rdg_device *device;
    entry *entries;
    size_t n_entries, cap_entries;
    rdg_buffer *constants; /* always mapped */
    constant *rows;
    size_t n_rows, cap_rows;
    size_t constant_bytes;
};

uint64_t rdg_gpu_address(const rdg_tensor *t)
{
    return rdg_tensor_present(t) && t->buffer ? rdg_buffer_address(t->buffer) + t->buffer_offset : 0;
}

bool rdg_gpu_strides(const rdg_tensor *t, uint32_t stride[3])
{
    int64_t element = rdg_type_block_bytes(t->type);
    for (int i = 0; i < 3; i++) {
        int64_t s = t->stride[i + 1];
        if (s < 0 || s % element || s / element > UINT32_MAX) return false;
        stride[i] = (uint32_t)(s / element);
    }
    return true;
}

void rdg_gpu_fill(rdg_gpu_dispatch *d, const char *module, const void *push, size_t push_bytes)
{
    d->module = module;
    d->push_bytes = (uint32_t)push_bytes; /* too many are refused when the kernel is made */
    memcpy(d->push, push, RDG_MIN(push_bytes, sizeof d->push));
}

bool rdg_gpu_grid(rdg_gpu_dispatch *d, const rdg_device_facts *f, int64_t n_groups)
{
    int64_t x = RDG_MIN(n_groups, f->grid_max[0] > 32768 ? 32768 : f->grid_max[0]);
    if (n_groups < 1) return false;
    int64_t y = rdg_div_up(n_groups, x);
    if (y > f->grid_max[1]) return false;
    d->grid[0] = (uint32_t)x;
    d->grid[1] = (uint32_t)y;
    d->grid[2] = 1;
    return true;
}

uint32_t rdg_gpu_chain_spec(const rdg_gpu_chain *c)
{
    return !c->counter ? 0 : c->patience ? c->patience : RDG_GPU_CHAIN_PATIENCE;
}

uint64_t rdg_gpu_constant(const rdg_gpu_env *env, const void *data, size_t bytes, rdg_error *e)
{
    rdg_gpu_cache *c = env->cache;
    char *base = rdg_buffer_host(c->constants);
    for (size_t i = 0; i < c->n_rows; i++)
        if (c->rows[i].bytes == bytes && !memcmp(base + c->rows[i].offset, data, bytes))
            return rdg_buffer_address(c->constants) + c->rows[i].offset;
    size_t offset = (size_t)rdg_round_up((int64_t)c->constant_bytes, 64);
    if (bytes > CONSTANT_BYTES || offset > CONSTANT_BYTES - bytes) {
        rdg_fail(e, RDG_E_LIMIT, "the kernels' tables need more than %d bytes", CONSTANT_BYTES);
        return 0;
    }
    if (!rdg_grow(&c->rows, c->n_rows, &c->cap_rows, sizeof *c->rows)) {
        rdg_fail(e, RDG_E_NOMEM, "no memory for a kernel's table");
        return 0;
    }
    memcpy(base + offset, data, bytes);
    c->rows[c->n_rows++] = (constant){.offset = (uint32_t)offset, .bytes = (uint32_t)bytes};
    c->constant_bytes = offset + bytes;
    return rdg_buffer_address(c->constants) + offset;
}

rdg_err rdg_gpu_cache_create(rdg_device *d, rdg_gpu_cache **out, rdg_error *e)
{
    *out = NULL;
    rdg_gpu_cache *c = rdg_alloc(sizeof *c);
    if (!c) return rdg_fail(e, RDG_E_NOMEM, "no memory for a kernel cache");
    c->device = d;
    rdg_err rc = rdg_buffer_create(d, RDG_MEMORY_SHARED, CONSTANT_BYTES, "constants", &c->constants, e);
    if (rc) {
        rdg_gpu_cache_destroy(c);
        return rc;
    }
    *out = c;
    return RDG_OK;
}

void rdg_gpu_cache_destroy(rdg_gpu_cache *c)
{
    if (!c) return;
    for (size_t i = 0; i < c->n_entries; i++) rdg_kernel_destroy(c->entries[i].kernel);
    rdg_free(c->entries);
    rdg_free(c->rows);
    rdg_buffer_destroy(c->constants);
    rdg_free(c);
}

rdg_device *rdg_gpu_cache_device(const rdg_gpu_cache *c)
{
    return c->device;
}

int rdg_gpu_cache_size(const rdg_gpu_cache *c)
{
    return (int)c->n_entries;
}

rdg_err rdg_gpu_cache_kernel(rdg_gpu_cache *c, const rdg_gpu_dispatch *d, rdg_kernel **out, rdg_error *e)
{
    for (size_t i = 0; i < c->n_entries; i++) {
        const entry *x = &c->entries[i];
        if (!strcmp(x->module, d->module) && x->n_spec == d->n_spec && x->subgroup == d->subgroup &&
            !memcmp(x->spec, d->spec, (size_t)d->n_spec * 4)) {
            *out = x->kernel;
            return RDG_OK;
        }
    }
    const rdg_gpu_module *m = rdg_gpu_module_find(d->module);
    static const unsigned char none[4];
    bool fake =
        !strcmp(rdg_device_get_facts(c->device)->backend, "trace"); /* runs nothing: code is not needed */
    if (!m && !fake)
        return rdg_fail(e, RDG_E_UNSUPPORTED,
                        "kernel %s is not in this build: it needs a newer GLSL compiler", d->module);
    if (!rdg_grow(&c->entries, c->n_entries, &c->cap_entries, sizeof *c->entries))
        return rdg_fail(e, RDG_E_NOMEM, "no memory for a kernel");
    rdg_kernel_desc desc = {.name = d->module,
                            .code = m ? m->code : none,
                            .code_bytes = m ? (size_t)(m->end - m->code) : sizeof none,
                            .n_spec = d->n_spec,
                            .push_bytes = d->push_bytes,
                            .subgroup = d->subgroup};
    memcpy(desc.spec, d->spec, sizeof desc.spec);
    rdg_kernel *k;
    rdg_err rc = rdg_kernel_create(c->device, &desc, &k, e);
    if (rc) return rc;
    entry *x = &c->entries[c->n_entries++];
    *x = (entry){.module = d->module, .n_spec = d->n_spec, .subgroup = d->subgroup, .kernel = k};
    memcpy(x->spec, d->spec, sizeof x->spec);
    *out = k;
    return RDG_OK;
}

rdg_err rdg_gpu_dispatch_all(rdg_gpu_cache *c, rdg_list *l, const rdg_gpu_dispatch *d, int n, rdg_error *e)
{
    for (int i = 0; i < n; i++) {
        rdg_kernel *k;
        rdg_err rc = rdg_gpu_cache_kernel(c, &d[i], &k, e);
        if (rc) return rc;
        if (d[i].barrier_before) rdg_list_barrier(l);
        rdg_list_dispatch(l, k, d[i].push, d[i].grid[0], d[i].grid[1], d[i].grid[2]);
    }
    return RDG_OK;
}

rdg_err rdg_gpu_record(rdg_gpu_cache *c, rdg_list *l, const rdg_op_call *call, const rdg_variant *v,
                       uint64_t scratch, uint64_t prepared, rdg_error *e)
{
    rdg_gpu_env env = {
        .facts = rdg_device_get_facts(c->device), .cache = c, .scratch = scratch, .prepared = prepared};
    rdg_gpu_dispatch d[RDG_GPU_MAX_DISPATCHES];
    memset(d, 0, sizeof d);
    rdg_error why = {.code = RDG_E_INTERNAL};
    int n = v->gpu->encode(call, &env, d, &why);
    if (n <= 0) {
        if (e) *e = why;
        return rdg_fail_prefix(e, why.code ? why.code : RDG_E_INTERNAL, "%s: variant %s", call->op->name,
                               v->name);
    }
    rdg_err rc = rdg_gpu_dispatch_all(c, l, d, n, e);
    return rc ? rdg_fail_prefix(e, rc, "%s: variant %s", call->op->name, v->name) : RDG_OK;
}

rdg_err rdg_gpu_run_host(rdg_gpu_cache *c, const rdg_variant *v, rdg_op_call *call, rdg_error *e)
{
    rdg_device *d = c->device;
    rdg_buffer *up = NULL, *down = NULL, *dev = NULL, *scratch = NULL;
    rdg_list *l = NULL;
    rdg_tensor saved[RDG_MAX_OPERANDS];
    int64_t begin[RDG_MAX_OPERANDS], total = 0;
    int n = call->op->n_operands;
    rdg_err rc;
    /* The distance of an operand from a multiple of 16 is kept, so that unaligned slices stay unaligned on
     * the device, but not for a variant that is chosen for aligned ones only: a plan looks at device
     * addresses when it chooses. */
    const bool keep_offset = !v->accepts || v->accepts(call);
    memcpy(saved, call->operand, sizeof saved);
    for (int i = 0; i < n; i++) {
        rdg_tensor *t = &call->operand[i];
        if (!rdg_tensor_present(t)) continue;
        begin[i] = total;
        /* Operands that share host memory share device memory too: out may be x itself. */
        for (int k = 0; k < i; k++)
            if (rdg_tensor_present(&saved[k]) && saved[k].data == t->data) begin[i] = begin[k];
        if (begin[i] == total) {
            begin[i] += keep_offset ? (int64_t)((uintptr_t)t->data & 15) : 0;
            total = rdg_round_up(begin[i] + rdg_tensor_extent_bytes(t), 256) + 256;
        }
    }
    rdg_gpu_env env = {.facts = rdg_device_get_facts(d), .cache = c};
    uint64_t scratch_bytes = v->gpu->scratch_bytes ? v->gpu->scratch_bytes(call, &env) : 0;
    rc = rdg_buffer_create(d, RDG_MEMORY_DEVICE, (uint64_t)total, "operands", &dev, e);
    if (!rc) rc = rdg_buffer_create(d, RDG_MEMORY_UPLOAD, (uint64_t)total, "operands in", &up, e);
    if (!rc) rc = rdg_buffer_create(d, RDG_MEMORY_READBACK, (uint64_t)total, "operands out", &down, e);
    if (!rc && scratch_bytes)
        rc = rdg_buffer_create(d, RDG_MEMORY_DEVICE, scratch_bytes, "scratch", &scratch, e);
    if (!rc) rc = rdg_list_create(d, 0, 0, call->op->name, &l, e);
    if (rc) goto done;
    for (int i = 0; i < n; i++) {
        rdg_tensor *t = &call->operand[i];
        if (!rdg_tensor_present(t)) continue;
        memcpy((char *)rdg_buffer_host(up) + begin[i], t->data, (size_t)rdg_tensor_extent_bytes(t));
        t->buffer = dev;
        t->buffer_offset = (uint64_t)begin[i];
    }
    rdg_list_copy(l, dev, 0, up, 0, (uint64_t)total);
    if (scratch)
        rdg_list_fill(l, scratch, 0, scratch_bytes / 4 * 4, 0x7fc12345u); /* NaN: scratch is undefined */
    rdg_list_barrier(l);
    rc = rdg_gpu_record(c, l, call, v, scratch ? rdg_buffer_address(scratch) : 0, 0, e);
    if (rc) goto done;
    rdg_list_barrier(l);
    rdg_list_copy(l, down, 0, dev, 0, (uint64_t)total);
    rc = rdg_list_finish(l, e);
    rdg_event done;
    if (!rc) rc = rdg_submit(d, l, NULL, 0, &done, e);
    if (!rc) rc = rdg_event_wait(d, done, (int64_t)60 * 1000000000, e);
    if (rc) goto done;
    for (int i = 0; i < n; i++)
        if (rdg_tensor_present(&saved[i]) && (call->op->operands[i].flags & RDG_OPERAND_OUT))
            memcpy(saved[i].data, (char *)rdg_buffer_host(down) + begin[i],
                   (size_t)rdg_tensor_extent_bytes(&saved[i]));
done:
    memcpy(call->operand, saved, sizeof saved);
    rdg_list_destroy(l);
    rdg_buffer_destroy(scratch);
    rdg_buffer_destroy(down);
    rdg_buffer_destroy(up);
    rdg_buffer_destroy(dev);
    return rc;
}
