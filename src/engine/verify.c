/* Proving a file sound, as far as a file can be: `inspect --verify`. */
#include "engine/model_internal.h"
#include <ridge/evaluate.h>
#include <ridge/quantize.h>

#include "base/pool.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static bool is_model(const rdg_gguf *g)
{
    return rdg_gguf_find(g, "general.architecture") != NULL;
}

/* Reads hyper-parameters and builds the one-token plan: names, shapes and types all have to fit. */
static void verify_shapes(const rdg_gguf *g, void (*problem)(void *user, const char *text), void *user)
{
    rdg_error e = {0};
    rdg_model *m = rdg_alloc(sizeof *m);
    rdg_plan *plan = NULL;
    rdg_plan_options o = {.n_tokens = 1, .n_outputs = 1, .n_ctx = 1, .n_batch = 1, .kv_type_k = RDG_TYPE_F32,
                          .kv_type_v = RDG_TYPE_F32};
    if (!m) {
        problem(user, "no memory to check the shapes");
        return;
    }
    m->gguf = (rdg_gguf *)g;
    if (rdg_hparams_read(g, &m->arch, &m->hparams, &e)) {
        problem(user, e.message);
    } else {
        o.embeddings = !m->hparams.causal;
        if (rdg_model_build_plan(m, &o, false, &plan, &e)) problem(user, e.message);
    }
    rdg_plan_destroy(plan);
    rdg_free(m);
}

static rdg_err verify_checksums(const rdg_gguf *g, void (*problem)(void *user, const char *text), void *user,
                                const rdg_log *log, rdg_error *e)
{
    char line[160];
    int64_t n = rdg_gguf_n_tensors(g), n_bad = 0;
    bool *bad = rdg_alloc_array((size_t)n, sizeof *bad);
    if (!bad) return rdg_fail(e, RDG_E_NOMEM, "no memory for the checksums");
    rdg_err err = rdg_checksum_verify(g, log, bad, &n_bad, e);
    for (int64_t i = 0; i < n && !err && n_bad; i++) {
        if (!bad[i]) continue;
        snprintf(line, sizeof line, "tensor '%s': its data does not match its checksum", rdg_gguf_tensor_at(g, i)->name);
        problem(user, line);
    }
    rdg_free(bad);
    return err == RDG_E_NOT_FOUND ? RDG_OK : err;
}

typedef struct value_check {
    const rdg_gguf *gguf;
    int64_t *first_bad; /* per tensor: block index, or -1 */
    atomic_llong next;
} value_check;

static void check_values(void *ctx, int thread, int n_threads)
{
    value_check *v = ctx;
    (void)thread;
    (void)n_threads;
    for (;;) {
        int64_t i = atomic_fetch_add(&v->next, 1);
        if (i >= rdg_gguf_n_tensors(v->gguf)) return;
        const rdg_gguf_tensor *t = rdg_gguf_tensor_at(v->gguf, i);
        int64_t n_blocks = (int64_t)(t->n_elements / (uint64_t)rdg_type_block_elems(t->type));
        v->first_bad[i] = rdg_first_bad_block(t->type, t->data, n_blocks);
    }
}

/* Every value, or every scale of a block format, must be finite. */
static rdg_err verify_values(const rdg_gguf *g, int n_threads, void (*problem)(void *user, const char *text), void *user,
                             rdg_error *e)
{
    char line[192];
    rdg_pool *pool = NULL;
    value_check v = {.gguf = g};
    int64_t n = rdg_gguf_n_tensors(g);
    v.first_bad = rdg_alloc_array((size_t)n, sizeof *v.first_bad);
    if (!v.first_bad) return rdg_fail(e, RDG_E_NOMEM, "no memory to check %lld tensors", (long long)n);
    rdg_err err = rdg_gguf_recheck(g, e);
    if (!err) err = rdg_pool_create(n_threads, &pool, e);
    if (err) goto done;
    atomic_init(&v.next, 0);
    rdg_pool_run(pool, check_values, &v);
    for (int64_t i = 0; i < n; i++) {
        if (v.first_bad[i] < 0) continue;
        const rdg_gguf_tensor *t = rdg_gguf_tensor_at(g, i);
        snprintf(line, sizeof line, "tensor '%s' (%s): a value or scale in block %lld is not finite", t->name,
                 rdg_type_name(t->type), (long long)v.first_bad[i]);
        problem(user, line);
    }
done:
    rdg_pool_destroy(pool);
    rdg_free(v.first_bad);
    return err;
}

rdg_err rdg_model_verify(const rdg_gguf *g, int n_threads, void (*problem)(void *user, const char *text), void *user,
                         const rdg_log *log, rdg_error *e)
{
    if (is_model(g)) verify_shapes(g, problem, user);
    rdg_err err = verify_values(g, n_threads, problem, user, e);
    if (!err) err = verify_checksums(g, problem, user, log, e);
    return err;
}
