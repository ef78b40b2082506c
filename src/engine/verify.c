/* Proving a file sound, as far as a file can be: `inspect --verify`. */
#include "engine/model_internal.h"
#include "format/verify.h"
#include <ridge/evaluate.h>
#include <ridge/quantize.h>

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
    rdg_plan_options o = {.n_tokens = 1,
                          .n_outputs = 1,
                          .n_ctx = 1,
                          .n_batch = 1,
                          .kv_type_k = RDG_TYPE_F32,
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
        snprintf(line, sizeof line, "tensor '%s': its data does not match its checksum",
                 rdg_gguf_tensor_at(g, i)->name);
        problem(user, line);
    }
    rdg_free(bad);
    return err == RDG_E_NOT_FOUND ? RDG_OK : err;
}

static rdg_err verify_values(const rdg_gguf *g, int n_threads, void (*problem)(void *user, const char *text),
                             void *user, const rdg_log *log, rdg_error *e)
{
    rdg_verify_result r;
    rdg_err err = rdg_gguf_verify(g, n_threads, log, &r, e);
    for (int64_t i = 0; i < r.n_problems && !err; i++) problem(user, r.problems[i].text);
    rdg_verify_result_finish(&r);
    return err;
}

rdg_err rdg_model_verify(const rdg_gguf *g, int n_threads, void (*problem)(void *user, const char *text),
                         void *user, const rdg_log *log, rdg_error *e)
{
    if (is_model(g)) verify_shapes(g, problem, user);
    rdg_err err = verify_values(g, n_threads, problem, user, log, e);
    if (!err) err = verify_checksums(g, problem, user, log, e);
    return err;
}
