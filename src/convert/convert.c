/* Hugging Face folder → GGUF: what ridge/convert.h declares. The order of work is: read config.json, match
 * every tensor, choose types, write the header, stream the data, and prove by building its plan that the
 * result would load. Only then does the output appear under its name. */
#include "convert/outputs.h"
#include "convert/stream.h"
#include "convert/vocab.h"
#include "base/clock.h"
#include "format/gguf.h"
#include "model/arch.h"
#include "quant/checksum.h"
#include "quant/recipe.h"
#include <ridge/convert.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct conversion {
    const rdg_convert_params *p;
    rdg_hf hf;
    rdg_safetensors *source;
    rdg_hf_outputs outputs;
    rdg_hf_stream stream;
    rdg_buf checksums;
    rdg_gguf_writer *writer;
    rdg_pool *pool;
    const char *out;
} conversion;

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* Types
 * ----------------------------------------------------------------------------------------------------------
 */

/* Small and sensitive tensors are F32 whatever is asked for: vectors, norms, routers, biases. */
static bool always_f32(const rdg_hf_output *o)
{
    return !o->rule || o->n_dims <= 1 || (o->rule->flags & RDG_MAP_F32) ||
           ends_with(o->name, "_norm.weight") || ends_with(o->name, "ffn_gate_inp.weight") ||
           !ends_with(o->name, ".weight");
}

static rdg_err importance_of(const conversion *cv, const rdg_hf_output *o, const rdg_imatrix_entry **entry,
                             rdg_error *e)
{
    *entry = cv->p->imatrix ? rdg_imatrix_find(cv->p->imatrix, o->name) : NULL;
    if (!*entry || ((*entry)->n_columns == o->n_columns && (*entry)->n_matrices == o->n_matrices))
        return RDG_OK;
    if (strcmp(o->name, "token_embd.weight") == 0) { /* collected for its use as output: not the same thing */
        *entry = NULL;
        return RDG_OK;
    }
    return rdg_fail(e, RDG_E_MALFORMED,
                    "the importance matrix has %" PRId64 " x %" PRId64 " values for '%s', which has %" PRId64
                    " matrices of %" PRId64 " columns: it was made for another model",
                    (*entry)->n_matrices, (*entry)->n_columns, o->name, o->n_matrices, o->n_columns);
}

/* Types by a quantised recipe. MXFP4 experts stay as they are: any other type would be larger or lossy. */
static rdg_err types_by_recipe(conversion *cv, rdg_recipe recipe, rdg_error *e)
{
    rdg_hf *c = &cv->hf;
    rdg_hf_outputs *out = &cv->outputs;
    rdg_recipe_tensor *t = rdg_alloc_array((size_t)out->n, sizeof *t);
    if (!t) return rdg_fail(e, RDG_E_NOMEM, "no memory for types");
    rdg_err err = RDG_OK;
    for (int64_t i = 0; i < out->n && !err; i++) {
        const rdg_hf_output *o = &out->items[i];
        const rdg_imatrix_entry *entry;
        err = importance_of(cv, o, &entry, e);
        t[i] = (rdg_recipe_tensor){.name = o->name,
                                   .n_dims = o->n_dims,
                                   .n_columns = o->n_columns,
                                   .type = o->type,
                                   .has_importance = entry != NULL};
    }
    rdg_recipe_request request = {.recipe = recipe,
                                  .has_imatrix = cv->p->imatrix != NULL,
                                  .output_type = -1,
                                  .token_embedding_type = -1};
    rdg_recipe_model model = {
        .n_layers = c->n_layer, .n_heads = c->n_head, .n_heads_kv = c->n_head_kv, .n_experts = c->n_expert};
    if (!err) err = rdg_recipe_plan(&request, &model, t, out->n, &c->arena, c->log, e);
    for (int64_t i = 0; i < out->n && !err; i++) {
        rdg_hf_output *o = &out->items[i];
        if (o->present == RDG_TYPE_MXFP4 || !t[i].quantisable || always_f32(o)) continue;
        o->type = t[i].chosen;
        if (t[i].warning) rdg_hf_warn(c, "%s: %s", o->name, t[i].warning);
    }
    rdg_free(t);
    return err;
}

/* The recipe's plain type, or -1 if it mixes or quantises. */
static int plain_type(int recipe)
{
    switch (recipe) {
    case RDG_RECIPE_F32: return RDG_TYPE_F32;
    case RDG_RECIPE_F16: return RDG_TYPE_F16;
    case RDG_RECIPE_BF16: return RDG_TYPE_BF16;
    default: return -1;
    }
}

static rdg_err choose_types(conversion *cv, rdg_error *e)
{
    int recipe = cv->p->type, plain = plain_type(recipe);
    bool any_quantised = false;
    for (int64_t i = 0; i < cv->outputs.n; i++) {
        rdg_hf_output *o = &cv->outputs.items[i];
        o->type = o->present;
        if (o->present == RDG_TYPE_MXFP4) continue;
        if (always_f32(o))
            o->type = RDG_TYPE_F32;
        else if (plain >= 0)
            o->type = (rdg_type)plain;
    }
    if (recipe >= 0 && plain < 0) {
        rdg_err err = types_by_recipe(cv, (rdg_recipe)recipe, e);
        if (err) return err;
    }
    rdg_type first = RDG_TYPE_F32;
    for (int64_t i = 0; i < cv->outputs.n; i++) {
        const rdg_hf_output *o = &cv->outputs.items[i];
        any_quantised |= rdg_type_is_quantised(o->type);
        if (strcmp(o->name, "token_embd.weight") == 0) first = o->type;
    }
    if (recipe < 0)
        recipe = first == RDG_TYPE_BF16  ? RDG_RECIPE_BF16
                 : first == RDG_TYPE_F16 ? RDG_RECIPE_F16
                                         : RDG_RECIPE_F32;
    rdg_gguf_set_u32(cv->writer, "general.file_type", (uint32_t)recipe);
    if (any_quantised) rdg_gguf_set_u32(cv->writer, "general.quantization_version", 2);
    return cv->hf.failed;
}

/* Header
 * ---------------------------------------------------------------------------------------------------------
 */

/* The folder's name, without slashes at its end. */
static void set_name(conversion *cv)
{
    if (cv->p->name) {
        rdg_gguf_set_str(cv->writer, "general.name", cv->p->name);
        return;
    }
    const char *dir = cv->hf.dir;
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/') n--;
    size_t begin = n;
    while (begin > 0 && dir[begin - 1] != '/') begin--;
    if (n > begin && dir[n - 1] != '.')
        rdg_gguf_set_strn(cv->writer, "general.name", dir + begin, n - begin);
    else
        rdg_gguf_set_str(cv->writer, "general.name", cv->hf.cls->arch);
}

static void set_imatrix_keys(conversion *cv)
{
    const rdg_imatrix *m = cv->p->imatrix;
    if (!m) return;
    rdg_gguf_set_str(cv->writer, "quantize.imatrix.file", cv->p->imatrix_path ? cv->p->imatrix_path : "");
    if (rdg_imatrix_n_datasets(m) > 0)
        rdg_gguf_set_str(cv->writer, "quantize.imatrix.dataset", rdg_imatrix_dataset(m, 0));
    rdg_gguf_set_i32(cv->writer, "quantize.imatrix.entries_count", (int32_t)rdg_imatrix_n(m));
    rdg_gguf_set_i32(cv->writer, "quantize.imatrix.chunks_count", (int32_t)rdg_imatrix_chunk_count(m));
}

static const rdg_hf_output *find_output(const conversion *cv, const char *name)
{
    for (int64_t i = 0; i < cv->outputs.n; i++)
        if (strcmp(cv->outputs.items[i].name, name) == 0) return &cv->outputs.items[i];
    return NULL;
}

static rdg_err convert_vocab(conversion *cv, rdg_error *e)
{
    const rdg_hf_output *embd = find_output(cv, "token_embd.weight");
    rdg_vocab_report report;
    rdg_err err = rdg_vocab_convert(cv->hf.dir, embd ? embd->dim[1] : 0, cv->writer, &report, cv->p->log, e);
    if (err == RDG_E_NOT_FOUND) {
        rdg_hf_warn(&cv->hf, "the folder has no tokenizer: the model runs by token ids only");
        err = RDG_OK;
    }
    for (int i = 0; i < report.n_warnings; i++) rdg_hf_keep_warning(&cv->hf, report.warnings[i]);
    rdg_vocab_report_finish(&report);
    if (!err && cv->hf.failed) err = rdg_fail(e, cv->hf.failed, "%s", cv->hf.error.message);
    return err;
}

/* The written file, read back: hyper-parameters in range, every tensor there and of the shape that the model
 * needs. */
static rdg_err prove(void *user, const char *path, rdg_error *e)
{
    (void)user;
    rdg_gguf *g = NULL;
    rdg_plan *plan = NULL;
    const rdg_arch *arch;
    rdg_hparams *h = rdg_alloc(sizeof *h);
    if (!h) return rdg_fail(e, RDG_E_NOMEM, "no memory for hyper-parameters");
    rdg_err err = rdg_gguf_open(path, NULL, &g, e);
    if (!err) err = rdg_hparams_read(g, &arch, h, e);
    rdg_plan_options o = {.n_tokens = 1,
                          .n_outputs = 1,
                          .n_ctx = 1,
                          .n_batch = 1,
                          .kv_type_k = RDG_TYPE_F32,
                          .kv_type_v = RDG_TYPE_F32,
                          .embeddings = !h->causal};
    if (!err) err = rdg_plan_create(g, &o, &plan, e);
    if (!err) {
        arch->build(plan, h);
        err = rdg_plan_finish(plan, false, e);
    }
    if (err) rdg_fail_prefix(e, err, "the converted model would not load");
    rdg_plan_destroy(plan);
    rdg_gguf_close(g);
    rdg_free(h);
    return err;
}

static rdg_err prepare(conversion *cv, rdg_error *e)
{
    rdg_hf *c = &cv->hf;
    rdg_err err = rdg_hf_open(c, c->dir, cv->p->log, e);
    if (err) return err;
    if ((err = rdg_safetensors_open(c->dir, cv->p->log, &cv->source, e))) return err;
    if ((err = rdg_gguf_writer_create(cv->out, &cv->writer, e))) return err;
    rdg_gguf_writer_set_check(cv->writer, prove, NULL);
    c->writer = cv->writer;
    rdg_gguf_set_str(cv->writer, "general.architecture", c->cls->arch);
    rdg_gguf_set_str(cv->writer, "general.type", "model");
    set_name(cv);
    rdg_hf_read_config(c);
    rdg_hf_outputs_build(c, cv->source, &cv->outputs);
    if (!c->failed) err = choose_types(cv, e);
    if (c->failed) {
        if (e) *e = c->error;
        return c->failed;
    }
    if (err) return err;
    set_imatrix_keys(cv);
    if ((err = convert_vocab(cv, e))) return err;
    for (int64_t i = 0; i < cv->outputs.n; i++) {
        const rdg_hf_output *o = &cv->outputs.items[i];
        rdg_gguf_add_tensor(cv->writer, o->name, o->type, o->n_dims, o->dim);
    }
    if ((err = rdg_checksum_reserve(cv->writer, cv->outputs.n, e))) return err;
    return rdg_gguf_writer_begin(cv->writer, e);
}

/* Data
 * -----------------------------------------------------------------------------------------------------------
 */

static rdg_err write_tensor(conversion *cv, const rdg_hf_output *o, rdg_error *e)
{
    const rdg_imatrix_entry *entry = NULL;
    float *importance = NULL;
    rdg_err err = RDG_OK;
    if (rdg_type_is_quantised(o->type) && o->present != RDG_TYPE_MXFP4) err = importance_of(cv, o, &entry, e);
    if (!err && entry) {
        importance =
            rdg_alloc_array((size_t)entry->n_columns * (size_t)entry->n_matrices, sizeof *importance);
        if (!importance) return rdg_fail(e, RDG_E_NOMEM, "no memory for the importance of '%s'", o->name);
        int64_t unseen = rdg_imatrix_values(entry, importance);
        if (unseen > 0)
            rdg_hf_warn(&cv->hf,
                        "%s: the importance matrix has no samples for %" PRId64 " of %" PRId64 " experts",
                        o->name, unseen, entry->n_matrices);
    }
    if (!err) err = rdg_hf_stream_write(&cv->stream, o, importance, e);
    rdg_free(importance);
    return err;
}

static rdg_err write_data(conversion *cv, rdg_convert_result *r, rdg_error *e)
{
    double done = 0, total = 0;
    for (int64_t i = 0; i < cv->outputs.n; i++) {
        const rdg_hf_output *o = &cv->outputs.items[i];
        total += (double)(o->n_columns * o->n_rows * o->n_matrices);
    }
    cv->stream = (rdg_hf_stream){.c = &cv->hf, .writer = cv->writer, .pool = cv->pool};
    for (int64_t i = 0; i < cv->outputs.n; i++) {
        const rdg_hf_output *o = &cv->outputs.items[i];
        if (rdg_log_progress(cv->p->log, "parameters", done, total))
            return rdg_fail(e, RDG_E_CANCELLED, "the conversion was stopped");
        rdg_err err = rdg_safetensors_recheck(cv->source, e);
        if (!err) err = write_tensor(cv, o, e);
        if (err) return err;
        rdg_checksum_append(&cv->checksums, rdg_hash64_value(&cv->stream.hash));
        done += (double)(o->n_columns * o->n_rows * o->n_matrices);
    }
    rdg_log_progress(cv->p->log, "parameters", total, total);
    r->n_tensors = cv->outputs.n;
    r->n_params = (int64_t)total;
    rdg_err err = rdg_checksum_store(cv->writer, &cv->checksums, e);
    if (!err) err = rdg_gguf_writer_finish(cv->writer, e);
    r->bytes = rdg_gguf_writer_bytes(cv->writer);
    return err;
}

/* ----------------------------------------------------------------------------------------------------------------
 */

static rdg_err run(conversion *cv, rdg_convert_result *r, rdg_error *e)
{
    rdg_err err = rdg_check_output(cv->out, e); /* the path that the user knows, before anything is read */
    if (!err) err = prepare(cv, e);
    if (err) return err;
    snprintf(r->architecture, sizeof r->architecture, "%s", cv->hf.cls->arch);
    if ((err = rdg_pool_create(cv->p->n_threads > 0 ? cv->p->n_threads : 1, &cv->pool, e))) return err;
    return write_data(cv, r, e);
}

rdg_err rdg_convert(const char *dir, const char *out, const rdg_convert_params *p, rdg_convert_result *r,
                    rdg_error *e)
{
    conversion cv = {.p = p, .out = out};
    rdg_convert_result unused;
    double start = rdg_clock_seconds();
    if (!r) r = &unused;
    memset(r, 0, sizeof *r);
    cv.hf.dir = dir;
    rdg_buf_init(&cv.checksums);
    rdg_err err = run(&cv, r, e);
    r->seconds = rdg_clock_seconds() - start;
    if (r != &unused) { /* warnings change hands */
        r->warnings = cv.hf.warnings;
        r->n_warnings = (int)cv.hf.n_warnings;
        cv.hf.warnings = NULL;
        cv.hf.n_warnings = 0;
    }
    rdg_hf_stream_finish(&cv.stream);
    rdg_buf_finish(&cv.checksums);
    rdg_pool_destroy(cv.pool);
    rdg_gguf_writer_destroy(cv.writer);
    rdg_hf_outputs_finish(&cv.outputs);
    rdg_safetensors_close(cv.source);
    rdg_hf_close(&cv.hf);
    return err;
}

void rdg_convert_result_finish(rdg_convert_result *r)
{
    for (int i = 0; i < r->n_warnings; i++) rdg_free(r->warnings[i]);
    rdg_free(r->warnings);
    r->warnings = NULL;
    r->n_warnings = 0;
}
