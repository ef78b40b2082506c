/* A loaded model: the mapped file, its architecture and hyper-parameters, its tokenizer. Immutable and
 * counted. */
#include "engine/model_internal.h"
#include "base/clock.h"
#include <ridge/quantize.h>

#include <stdatomic.h>
#include <string.h>

static void fill_info(rdg_model *m)
{
    rdg_str name = {"", 0};
    uint32_t file_type = UINT32_MAX;
    rdg_model_info *info = &m->info;
    rdg_gguf_get_str(m->gguf, "general.name", &name, NULL);
    rdg_gguf_get_u32(m->gguf, "general.file_type", &file_type, NULL);
    info->architecture = m->arch->name;
    info->name = rdg_arena_strndup(&m->arena, name.p, name.n);
    info->file_type = rdg_recipe_name((rdg_recipe)file_type);
    if (!info->file_type) info->file_type = "?";
    info->n_vocab = m->hparams.n_vocab;
    info->n_ctx_train = m->hparams.n_ctx_train;
    info->n_embd = m->hparams.n_embd;
    info->n_layer = m->hparams.n_layer;
    for (int64_t i = 0; i < rdg_gguf_n_tensors(m->gguf); i++) {
        const rdg_gguf_tensor *t = rdg_gguf_tensor_at(m->gguf, i);
        info->n_params += (int64_t)t->n_elements;
        info->weight_bytes += t->bytes;
    }
}

/* Shapes and names are proven by building the one-token plan once. */
static rdg_err prove_shapes(const rdg_model *m, rdg_error *e)
{
    rdg_plan *plan;
    rdg_plan_options o = {.n_tokens = 1,
                          .n_outputs = 1,
                          .n_ctx = 1,
                          .n_batch = 1,
                          .kv_type_k = RDG_TYPE_F32,
                          .kv_type_v = RDG_TYPE_F32};
    o.embeddings = !m->hparams.causal;
    rdg_err err = rdg_model_build_plan(m, &o, true, &plan, e);
    rdg_plan_destroy(plan);
    return err;
}

rdg_err rdg_model_load(const char *path, const rdg_log *log, rdg_model **out, rdg_error *e)
{
    double start = rdg_clock_seconds();
    *out = NULL;
    rdg_model *m = rdg_alloc(sizeof *m);
    if (!m) return rdg_fail(e, RDG_E_NOMEM, "no memory for a model");
    atomic_init(&m->references, 1);
    rdg_arena_init(&m->arena);
    rdg_err err = rdg_exec_shared_create(&m->shared, e);
    if (err) goto fail;
    if ((err = rdg_gguf_open(path, log, &m->gguf, e))) goto fail;
    if ((err = rdg_hparams_read(m->gguf, &m->arch, &m->hparams, e))) goto named;
    if ((err = prove_shapes(m, e))) goto named;
    err = rdg_tokenizer_create(m->gguf, log, &m->tokenizer, e);
    if (err == RDG_E_NOT_FOUND) err = RDG_OK; /* it runs by token ids */
    if (err) goto named;
    if (m->tokenizer && rdg_tokenizer_n_vocab(m->tokenizer) > m->hparams.n_vocab) {
        err = rdg_fail(e, RDG_E_MALFORMED, "the tokenizer has %lld entries, token_embd.weight only %lld rows",
                       (long long)rdg_tokenizer_n_vocab(m->tokenizer), (long long)m->hparams.n_vocab);
        goto named;
    }
    fill_info(m);
    if (!m->info.name) {
        err = rdg_fail(e, RDG_E_NOMEM, "no memory for a model");
        goto fail;
    }
    m->info.map_seconds = rdg_clock_seconds() - start;
    *out = m;
    return RDG_OK;
named:
    rdg_fail_prefix(e, err, "'%s'", path);
fail:
    rdg_model_release(m);
    return err;
}

void rdg_model_retain(rdg_model *m)
{
    atomic_fetch_add(&m->references, 1);
}

void rdg_model_release(rdg_model *m)
{
    if (!m || atomic_fetch_sub(&m->references, 1) != 1) return;
    rdg_tokenizer_destroy(m->tokenizer);
    rdg_exec_shared_destroy(m->shared);
    rdg_gguf_close(m->gguf);
    rdg_arena_finish(&m->arena);
    rdg_free(m);
}

const rdg_model_info *rdg_model_get_info(const rdg_model *m)
{
    return &m->info;
}

const rdg_gguf *rdg_model_gguf(const rdg_model *m)
{
    return m->gguf;
}

const rdg_tokenizer *rdg_model_tokenizer(const rdg_model *m)
{
    return m->tokenizer;
}

rdg_err rdg_model_build_plan(const rdg_model *m, const rdg_plan_options *o, bool fuse, rdg_plan **out,
                             rdg_error *e)
{
    rdg_err err = rdg_plan_create(m->gguf, o, out, e);
    if (err) return err;
    m->arch->build(*out, &m->hparams);
    if ((err = rdg_plan_finish(*out, fuse, e))) {
        rdg_plan_destroy(*out);
        *out = NULL;
    }
    return err;
}
