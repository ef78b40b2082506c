/* Each plan is cut into two; each part is prepared by the executor it runs on, which owns the states of its
 * layers, and the hidden state is handed over in host memory. */
#include "graph/split_exec.h"
#include "graph/place.h"
#include "graph/plan_internal.h"

enum { CPU, GPU, N_PARTS };

typedef struct split_part {
    rdg_prepared *prepared; /* NULL: this plan has nothing to do here */
    size_t first, end;      /* operations of the whole plan */
} split_part;

typedef struct split_prepared {
    rdg_prepared base; /* the whole plan: the parts borrow its names */
    split_part parts[N_PARTS];
} split_prepared;

typedef struct split_exec {
    rdg_exec base;
    rdg_exec *execs[N_PARTS];
    int64_t first_stage;
    split_prepared **prepared;
    size_t n_prepared, cap_prepared;
} split_exec;

static void count_memory(split_exec *x)
{
    rdg_exec *b = &x->base;
    const rdg_exec *c = x->execs[CPU], *g = x->execs[GPU];
    b->state_bytes = c->state_bytes + g->state_bytes;
    b->scratch_bytes = c->scratch_bytes + g->scratch_bytes;
    b->upload_bytes = g->upload_bytes;
    b->upload_seconds = g->upload_seconds;
}

static void free_prepared(split_exec *x, split_prepared *c)
{
    if (!c) return;
    for (int i = 0; i < N_PARTS; i++)
        if (c->parts[i].prepared) x->execs[i]->class->release(x->execs[i], c->parts[i].prepared);
    rdg_plan_destroy(c->base.plan);
    rdg_free(c);
}

static rdg_err cut_in_two(split_exec *x, split_prepared *c, rdg_error *e)
{
    const rdg_plan *p = c->base.plan;
    size_t at = rdg_place_first_node(p, x->first_stage);
    rdg_value_id hidden = RDG_NO_VALUE;
    rdg_err rc = RDG_OK;
    if (at > 0 && at < p->n_nodes) {
        hidden = rdg_plan_crossing(p, at, e);
        if (hidden == RDG_NO_VALUE) return e && e->code ? e->code : RDG_E_UNSUPPORTED;
    }
    c->parts[CPU] = (split_part){.first = 0, .end = at};
    c->parts[GPU] = (split_part){.first = at, .end = p->n_nodes};
    for (int i = 0; i < N_PARTS && !rc; i++) {
        split_part *part = &c->parts[i];
        rdg_plan *plan;
        if (part->first == part->end) continue;
        rc = rdg_plan_cut(p, part->first, part->end, i == GPU ? hidden : RDG_NO_VALUE,
                          i == CPU ? hidden : RDG_NO_VALUE, &plan, e);
        if (!rc) rc = x->execs[i]->class->prepare(x->execs[i], plan, &part->prepared, e);
    }
    return rc;
}

static rdg_err split_prepare(rdg_exec *base, rdg_plan *plan, rdg_prepared **out, rdg_error *e)
{
    split_exec *x = (split_exec *)base;
    rdg_error local = {0};
    if (!e) e = &local;
    *out = NULL;
    split_prepared *c = rdg_alloc(sizeof *c);
    if (!c || !rdg_grow(&x->prepared, x->n_prepared, &x->cap_prepared, sizeof *x->prepared)) {
        rdg_free(c);
        rdg_plan_destroy(plan);
        return rdg_fail(e, RDG_E_NOMEM, "no memory for a plan");
    }
    c->base.plan = plan;
    rdg_err rc = cut_in_two(x, c, e);
    count_memory(x);
    if (rc) {
        free_prepared(x, c);
        return rc;
    }
    x->prepared[x->n_prepared++] = c;
    *out = &c->base;
    return RDG_OK;
}

static void split_release(rdg_exec *base, rdg_prepared *prepared)
{
    split_exec *x = (split_exec *)base;
    for (size_t i = 0; i < x->n_prepared; i++) {
        if (&x->prepared[i]->base != prepared) continue;
        free_prepared(x, x->prepared[i]);
        x->prepared[i] = x->prepared[--x->n_prepared];
        return;
    }
}

static rdg_err split_run(rdg_exec *base, rdg_prepared *prepared, const rdg_step *step, const float **output,
                         rdg_node_time *times, rdg_error *e)
{
    split_exec *x = (split_exec *)base;
    split_prepared *c = (split_prepared *)prepared;
    rdg_step own = *step;
    rdg_err rc = RDG_OK;
    *output = NULL;
    for (int i = 0; i < N_PARTS && !rc; i++) {
        const split_part *part = &c->parts[i];
        if (!part->prepared) continue;
        rc = x->execs[i]->class->run(x->execs[i], part->prepared, &own, output,
                                     times ? times + part->first : NULL, e);
        own.carried = *output;
    }
    return rc;
}

/* The CPU's if it has it, else the GPU's. */
static rdg_err split_read_state(rdg_exec *base, rdg_state_kind kind, int32_t index, void *dst, size_t bytes,
                                rdg_error *e)
{
    split_exec *x = (split_exec *)base;
    rdg_err rc = RDG_E_NOT_FOUND;
    for (int i = 0; i < N_PARTS && rc == RDG_E_NOT_FOUND; i++)
        rc = x->execs[i]->class->read_state(x->execs[i], kind, index, dst, bytes, e);
    return rc;
}

static rdg_err split_write_state(rdg_exec *base, rdg_state_kind kind, int32_t index, const void *src,
                                 size_t bytes, rdg_error *e)
{
    split_exec *x = (split_exec *)base;
    rdg_err rc = RDG_E_NOT_FOUND;
    for (int i = 0; i < N_PARTS && rc == RDG_E_NOT_FOUND; i++)
        rc = x->execs[i]->class->write_state(x->execs[i], kind, index, src, bytes, e);
    return rc;
}

static const char *split_kernel_name(rdg_exec *base, const rdg_prepared *prepared, size_t i)
{
    split_exec *x = (split_exec *)base;
    const split_prepared *c = (const split_prepared *)prepared;
    for (int k = 0; k < N_PARTS; k++) {
        const split_part *part = &c->parts[k];
        if (part->prepared && i >= part->first && i < part->end)
            return x->execs[k]->class->kernel_name(x->execs[k], part->prepared, i - part->first);
    }
    return NULL;
}

static void split_destroy(rdg_exec *base)
{
    split_exec *x = (split_exec *)base;
    for (size_t i = 0; i < x->n_prepared; i++) free_prepared(x, x->prepared[i]);
    rdg_free(x->prepared);
    for (int i = 0; i < N_PARTS; i++) rdg_exec_destroy(x->execs[i]);
    rdg_free(x);
}

/* No `generate`: each step needs the CPU. */
static const rdg_exec_class split_class = {
    .name = "cpu+vulkan",
    .destroy = split_destroy,
    .prepare = split_prepare,
    .release = split_release,
    .run = split_run,
    .read_state = split_read_state,
    .write_state = split_write_state,
    .kernel_name = split_kernel_name,
};

rdg_err rdg_exec_create_split(rdg_exec *cpu, rdg_exec *gpu, int64_t first_stage, rdg_exec **out, rdg_error *e)
{
    *out = NULL;
    split_exec *x = rdg_alloc(sizeof *x);
    if (!x) {
        rdg_exec_destroy(cpu);
        rdg_exec_destroy(gpu);
        return rdg_fail(e, RDG_E_NOMEM, "no memory for an executor");
    }
    x->base = (rdg_exec){.class = &split_class, .gguf = cpu->gguf};
    x->execs[CPU] = cpu;
    x->execs[GPU] = gpu;
    x->first_stage = first_stage;
    *out = &x->base;
    return RDG_OK;
}

rdg_exec *rdg_exec_split_gpu(const rdg_exec *x)
{
    return x->class == &split_class ? ((const split_exec *)x)->execs[GPU] : NULL;
}
