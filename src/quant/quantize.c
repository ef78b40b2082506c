/* A whole GGUF file by recipe: types are decided first, the header is written, then each tensor passes
 * through in pieces of a few megabytes. Input pages are given back as soon as they are used, so memory does
 * not grow with the model. */
#include "quant/checksum.h"
#include "quant/quant.h"
#include "quant/recipe.h"
#include "quant/rows.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"

#include <ridge/imatrix.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
    STEP_ELEMENTS = 4 << 20, /* converted at once: 16 MiB of f32 at most */
    STEP_COPY_BYTES = 8 << 20,
    QUANTIZATION_VERSION = 2, /* of the block layouts */
};

typedef struct quantizer {
    const rdg_quantize_params *p;
    rdg_gguf *in;
    rdg_gguf_writer *w;
    rdg_pool *pool;
    rdg_arena *arena; /* of the result */
    int64_t n_tensors;
    rdg_recipe_tensor *plan;
    rdg_quantize_tensor *report;
    unsigned char *piece; /* output of a step */
    size_t piece_bytes;
    rdg_hash64 hash;
    rdg_buf checksums;
    double done, total; /* input bytes */
} quantizer;

/* Deciding
 * ----------------------------------------------------------------------------------------------------- */

/* A count from "<architecture>.<suffix>", layer 0 of a per-layer array; `missing` if absent. */
static rdg_err model_count(const rdg_gguf *g, rdg_str arch, const char *suffix, int64_t missing, int64_t *v,
                           rdg_error *e)
{
    char key[256];
    *v = missing;
    if (snprintf(key, sizeof key, "%.*s.%s", (int)RDG_MIN(arch.n, (size_t)128), arch.p, suffix) >=
        (int)sizeof key)
        return RDG_OK;
    const rdg_gguf_kv *kv = rdg_gguf_find(g, key);
    if (!kv) return RDG_OK;
    if (kv->type == RDG_GGUF_ARRAY) {
        static const rdg_gguf_value_type integers[] = {RDG_GGUF_INT32, RDG_GGUF_UINT32};
        for (int i = 0; i < RDG_COUNTOF(integers); i++) {
            if (kv->element_type == integers[i] && kv->count > 0) {
                *v = rdg_gguf_kv_int(kv, 0);
                return RDG_OK;
            }
        }
    }
    return rdg_gguf_get_i64(g, key, v, e);
}

static rdg_err read_model(const rdg_gguf *g, rdg_recipe_model *m, rdg_error *e)
{
    rdg_str arch = {"", 0};
    rdg_err err = rdg_gguf_get_str(g, "general.architecture", &arch, e);
    *m = (rdg_recipe_model){0};
    if (err == RDG_E_NOT_FOUND)
        return rdg_fail(e, RDG_E_MALFORMED,
                        "key 'general.architecture' is missing: not a model, nothing to quantise");
    if (!err) err = model_count(g, arch, "block_count", 0, &m->n_layers, e);
    if (!err) err = model_count(g, arch, "attention.head_count", 0, &m->n_heads, e);
    if (!err) err = model_count(g, arch, "attention.head_count_kv", m->n_heads, &m->n_heads_kv, e);
    if (!err) err = model_count(g, arch, "expert_count", 0, &m->n_experts, e);
    return err;
}

static const rdg_imatrix_entry *find_entry(const quantizer *q, const char *name)
{
    return q->p->imatrix ? rdg_imatrix_find(q->p->imatrix, name) : NULL;
}

static int64_t n_matrices(const rdg_gguf_tensor *t)
{
    return t->dim[2] * t->dim[3];
}

/* A wrong size is an error, except for the embeddings: they are looked up, not multiplied. */
static rdg_err check_entry(const rdg_gguf_tensor *t, const rdg_imatrix_entry **entry, rdg_error *e)
{
    const rdg_imatrix_entry *m = *entry;
    if (!m || m->n_columns * m->n_matrices == t->dim[0] * n_matrices(t)) return RDG_OK;
    if (strcmp(t->name, "token_embd.weight") == 0) {
        *entry = NULL;
        return RDG_OK;
    }
    return rdg_fail(e, RDG_E_MALFORMED,
                    "the importance matrix has %lld x %lld values for '%s', which needs %lld x %lld: it was "
                    "made for another "
                    "model",
                    (long long)m->n_matrices, (long long)m->n_columns, t->name, (long long)n_matrices(t),
                    (long long)t->dim[0]);
}

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static rdg_err decide(quantizer *q, rdg_error *e)
{
    const rdg_quantize_params *p = q->p;
    const rdg_recipe_request rq = {
        .recipe = p->recipe,
        .has_imatrix = p->imatrix != NULL,
        .pure = p->pure,
        .output_type = p->output_type,
        .token_embedding_type = p->token_embedding_type,
        .overrides = p->overrides,
        .n_overrides = p->n_overrides,
    };
    rdg_recipe_model model;
    int64_t n_used = 0;
    rdg_err err = read_model(q->in, &model, e);
    if (err) return err;
    for (int64_t i = 0; i < q->n_tensors; i++) {
        const rdg_gguf_tensor *t = rdg_gguf_tensor_at(q->in, i);
        const rdg_imatrix_entry *entry = find_entry(q, t->name);
        if ((err = check_entry(t, &entry, e))) return err;
        n_used += entry != NULL;
        q->plan[i] = (rdg_recipe_tensor){
            .name = q->report[i].name,
            .n_dims = t->n_dims,
            .n_columns = t->dim[0],
            .type = t->type,
            .has_importance = entry != NULL,
        };
    }
    if (p->imatrix && n_used == 0)
        return rdg_fail(e, RDG_E_ARGUMENT,
                        "none of the %lld entries of the importance matrix names a tensor of '%s': it was "
                        "made for another model",
                        (long long)rdg_imatrix_n(p->imatrix), rdg_gguf_path(q->in));
    if (p->imatrix && n_used < rdg_imatrix_n(p->imatrix))
        rdg_log_warn(p->log, "%lld of the %lld entries of the importance matrix name no tensor of the model",
                     (long long)(rdg_imatrix_n(p->imatrix) - n_used), (long long)rdg_imatrix_n(p->imatrix));
    return rdg_recipe_plan(&rq, &model, q->plan, q->n_tensors, q->arena, p->log, e);
}

/* Input that is quantised already has lost precision once; doing so twice must be asked for. */
static rdg_err check_requantise(const quantizer *q, rdg_error *e)
{
    for (int64_t i = 0; i < q->n_tensors; i++) {
        const rdg_recipe_tensor *t = &q->plan[i];
        if (t->chosen == t->type || !rdg_type_is_quantised(t->type)) continue;
        if (!rdg_type_can_dequantise(t->type))
            return rdg_fail(e, RDG_E_UNSUPPORTED,
                            "tensor '%s' is stored as %s, which cannot be read as numbers", t->name,
                            rdg_type_name(t->type));
        if (!q->p->allow_requantise)
            return rdg_fail(e, RDG_E_UNSUPPORTED,
                            "tensor '%s' is quantised already (%s): quantise the original F16, BF16 or F32 "
                            "model, or allow "
                            "requantising, which costs quality",
                            t->name, rdg_type_name(t->type));
    }
    return RDG_OK;
}

static rdg_err add_warning(quantizer *q, int64_t i, char *text, rdg_error *e)
{
    rdg_quantize_tensor *r = &q->report[i];
    if (text && r->warning) text = rdg_arena_format(q->arena, "%s; %s", r->warning, text);
    if (!text) return rdg_fail(e, RDG_E_NOMEM, "no memory for warnings");
    r->warning = text;
    return RDG_OK;
}

/* Fills the report's sizes and, so that a dry run shows them too, the warnings. */
static rdg_err describe(quantizer *q, rdg_error *e)
{
    for (int64_t i = 0; i < q->n_tensors; i++) {
        const rdg_gguf_tensor *t = rdg_gguf_tensor_at(q->in, i);
        const rdg_recipe_tensor *plan = &q->plan[i];
        rdg_quantize_tensor *r = &q->report[i];
        r->type_in = t->type;
        r->type_out = plan->chosen;
        r->n_columns = t->dim[0];
        r->n_rows = (int64_t)(t->n_elements / (uint64_t)t->dim[0]);
        r->bytes_in = t->bytes;
        r->bytes_out = (uint64_t)(rdg_type_row_bytes(r->type_out, r->n_columns) * r->n_rows);
        bool same = r->type_in == r->type_out;
        r->rmse = same ? 0.0 : NAN;
        r->weighted_rmse = NAN;
        if (plan->warning) r->warning = plan->warning;
        if (!q->p->imatrix || same || !rdg_type_is_quantised(r->type_out)) continue;
        const rdg_imatrix_entry *entry = plan->has_importance ? find_entry(q, t->name) : NULL;
        int64_t n_empty = 0;
        for (int64_t k = 0; entry && k < entry->n_matrices; k++) n_empty += !(entry->counts[k] > 0.0f);
        rdg_err err = RDG_OK;
        bool usual = strcmp(t->name, "token_embd.weight") == 0 || strcmp(t->name, "output.weight") == 0;
        if (!entry && usual) /* matrices are made without these two unless asked for */
            rdg_log_info(q->p->log, "tensor '%s': the importance matrix has no entry for it, as usual",
                         t->name);
        else if (!entry)
            err =
                add_warning(q, i, rdg_arena_format(q->arena, "the importance matrix has no entry for it"), e);
        else if (n_empty)
            err = add_warning(
                q, i,
                rdg_arena_format(q->arena,
                                 "%lld of %lld matrices (experts) saw no token of the calibration "
                                 "text; their columns count equally",
                                 (long long)n_empty, (long long)entry->n_matrices),
                e);
        if (err) return err;
    }
    for (int64_t i = 0; i < q->n_tensors; i++)
        if (q->report[i].warning)
            rdg_log_warn(q->p->log, "tensor '%s': %s", q->report[i].name, q->report[i].warning);
    return RDG_OK;
}

/* Header
 * ------------------------------------------------------------------------------------------------------- */

static bool is_dropped(rdg_str key)
{
    /* the writer itself drops the split keys */
    static const char *const prefixes[] = {"quantize.imatrix.", RDG_CHECKSUM_KEY};
    for (int i = 0; i < RDG_COUNTOF(prefixes); i++) {
        size_t n = strlen(prefixes[i]);
        if (key.n >= n && memcmp(key.p, prefixes[i], n) == 0) return true;
    }
    return false;
}

static rdg_err declare(quantizer *q, rdg_error *e)
{
    const rdg_quantize_params *p = q->p;
    bool any_quantised = false;
    for (int64_t i = 0; i < rdg_gguf_n_kv(q->in); i++) {
        const rdg_gguf_kv *kv = rdg_gguf_kv_at(q->in, i);
        if (!is_dropped(kv->key)) rdg_gguf_set_kv(q->w, kv);
    }
    for (int64_t i = 0; i < q->n_tensors; i++) {
        const rdg_gguf_tensor *t = rdg_gguf_tensor_at(q->in, i);
        rdg_gguf_add_tensor(q->w, t->name, q->plan[i].chosen, t->n_dims, t->dim);
        any_quantised |= rdg_type_is_quantised(q->plan[i].chosen);
    }
    rdg_gguf_set_u32(q->w, "general.file_type", (uint32_t)p->recipe);
    if (any_quantised) rdg_gguf_set_u32(q->w, "general.quantization_version", QUANTIZATION_VERSION);
    if (p->imatrix) {
        if (p->imatrix_path) rdg_gguf_set_str(q->w, "quantize.imatrix.file", p->imatrix_path);
        if (rdg_imatrix_n_datasets(p->imatrix) > 0)
            rdg_gguf_set_str(q->w, "quantize.imatrix.dataset", rdg_imatrix_dataset(p->imatrix, 0));
        rdg_gguf_set_i32(q->w, "quantize.imatrix.entries_count", (int32_t)rdg_imatrix_n(p->imatrix));
        rdg_gguf_set_i32(q->w, "quantize.imatrix.chunks_count",
                         (int32_t)RDG_MIN(rdg_imatrix_chunk_count(p->imatrix), INT32_MAX));
    }
    if (p->split_bytes) rdg_gguf_writer_split(q->w, p->split_bytes);
    return rdg_checksum_reserve(q->w, q->n_tensors, e);
}

/* Data
 * ---------------------------------------------------------------------------------------------------------
 */

/* A read of the map beyond a file that was cut raises SIGBUS: look right before each step. */
static rdg_err emit(quantizer *q, const void *data, size_t n, size_t bytes_in, rdg_error *e)
{
    rdg_hash64_update(&q->hash, data, n);
    rdg_err err = rdg_gguf_write_data(q->w, data, n, e);
    q->done += (double)bytes_in;
    if (!err && rdg_log_progress(q->p->log, "quantizing", q->done, q->total))
        err = rdg_fail(e, RDG_E_CANCELLED, "quantising was cancelled");
    return err;
}

static rdg_err copy_tensor(quantizer *q, const rdg_gguf_tensor *t, rdg_error *e)
{
    const unsigned char *src = t->data;
    rdg_err err = RDG_OK;
    for (uint64_t at = 0; at < t->bytes && !err;) {
        size_t n = (size_t)RDG_MIN(t->bytes - at, (uint64_t)STEP_COPY_BYTES);
        if ((err = rdg_gguf_recheck(q->in, e))) break;
        err = emit(q, src + at, n, n, e);
        rdg_map_release(src + at, n);
        at += n;
    }
    return err;
}

static rdg_err reserve_piece(quantizer *q, size_t bytes, rdg_error *e)
{
    if (bytes <= q->piece_bytes) return RDG_OK;
    rdg_free(q->piece);
    q->piece = rdg_alloc(bytes);
    q->piece_bytes = q->piece ? bytes : 0;
    return q->piece ? RDG_OK : rdg_fail(e, RDG_E_NOMEM, "no memory for a piece of %zu bytes", bytes);
}

/* The importance of every matrix of the tensor, *values NULL if there is none. */
static rdg_err importance_of(const quantizer *q, const rdg_gguf_tensor *t, const rdg_recipe_tensor *plan,
                             float **values, rdg_error *e)
{
    *values = NULL;
    if (!plan->has_importance || !rdg_type_is_quantised(plan->chosen)) return RDG_OK;
    const rdg_imatrix_entry *entry = find_entry(q, t->name);
    int64_t n = entry->n_columns * entry->n_matrices; /* == dim[0] * n_matrices(t): check_entry */
    *values = rdg_alloc_array((size_t)n, sizeof **values);
    if (!*values) return rdg_fail(e, RDG_E_NOMEM, "no memory for the importance of '%s'", t->name);
    rdg_imatrix_values(entry, *values);
    return rdg_importance_check(*values, n, e);
}

static rdg_err convert_tensor(quantizer *q, const rdg_gguf_tensor *t, const rdg_recipe_tensor *plan,
                              rdg_quantize_tensor *report, rdg_error *e)
{
    int64_t n_columns = report->n_columns, group = rdg_rows_group(n_columns);
    int64_t step = RDG_MAX(STEP_ELEMENTS / n_columns / group, 1) * group;
    size_t row_in = (size_t)rdg_type_row_bytes(t->type, n_columns);
    size_t row_out = (size_t)rdg_type_row_bytes(plan->chosen, n_columns);
    float *importance = NULL;
    rdg_rows_error sums = {0};
    rdg_err err = importance_of(q, t, plan, &importance, e);
    if (!err) err = reserve_piece(q, (size_t)RDG_MIN(step, report->n_rows) * row_out, e);
    for (int64_t row = 0; row < report->n_rows && !err; row += step) {
        const rdg_rows piece = {
            .type_in = t->type,
            .type_out = plan->chosen,
            .src = (const unsigned char *)t->data + (size_t)row * row_in,
            .dst = q->piece,
            .n_rows = RDG_MIN(step, report->n_rows - row),
            .n_columns = n_columns,
            .importance = importance,
            .first_row = row,
            .rows_per_matrix = t->dim[1],
        };
        size_t bytes_in = (size_t)piece.n_rows * row_in;
        if ((err = rdg_gguf_recheck(q->in, e))) break;
        err = rdg_quantise_rows_parallel(q->pool, &piece, &sums, e);
        if (!err) err = emit(q, q->piece, (size_t)piece.n_rows * row_out, bytes_in, e);
        rdg_map_release(piece.src, bytes_in);
    }
    report->rmse = sqrt(sums.squares / (double)t->n_elements);
    report->weighted_rmse = sums.weight > 0 ? sqrt(sums.weighted / sums.weight) : NAN;
    rdg_free(importance);
    return err ? rdg_fail_prefix(e, err, "tensor '%s'", t->name) : RDG_OK;
}

static rdg_err write_data(quantizer *q, rdg_error *e)
{
    rdg_err err = RDG_OK;
    for (int64_t i = 0; i < q->n_tensors && !err; i++) {
        const rdg_gguf_tensor *t = rdg_gguf_tensor_at(q->in, i);
        rdg_hash64_init(&q->hash);
        if (q->plan[i].chosen == t->type)
            err = copy_tensor(q, t, e);
        else
            err = convert_tensor(q, t, &q->plan[i], &q->report[i], e);
        rdg_checksum_append(&q->checksums, rdg_hash64_value(&q->hash));
    }
    return err ? err : rdg_checksum_store(q->w, &q->checksums, e);
}

/* The call
 * ----------------------------------------------------------------------------------------------------- */

void rdg_quantize_result_finish(rdg_quantize_result *r)
{
    if (!r) return;
    if (r->owner) rdg_arena_finish(r->owner);
    rdg_free(r->owner);
    *r = (rdg_quantize_result){0};
}

static rdg_err check_params(const char *in, const char *out, const rdg_quantize_params *p, rdg_error *e)
{
    if (!in || !p) return rdg_fail(e, RDG_E_ARGUMENT, "an input file and parameters are needed");
    if (!out && !p->dry_run) return rdg_fail(e, RDG_E_ARGUMENT, "an output file is needed");
    if (p->n_threads < 1)
        return rdg_fail(e, RDG_E_ARGUMENT, "n_threads is %d, it must be 1 or more", p->n_threads);
    if (!p->dry_run && same_file(in, out))
        return rdg_fail(e, RDG_E_ARGUMENT,
                        "'%s' is input and output: the original would be lost, give another name", in);
    return RDG_OK;
}

static rdg_err prepare(quantizer *q, const char *in, rdg_quantize_result *r, rdg_error *e)
{
    rdg_err err = rdg_gguf_open(in, q->p->log, &q->in, e);
    if (err) return err;
    q->n_tensors = rdg_gguf_n_tensors(q->in);
    q->plan = rdg_arena_array(q->arena, (size_t)q->n_tensors, sizeof *q->plan);
    q->report = rdg_arena_array(q->arena, (size_t)q->n_tensors, sizeof *q->report);
    if (!q->plan || !q->report)
        return rdg_fail(e, RDG_E_NOMEM, "no memory for the list of %lld tensors", (long long)q->n_tensors);
    for (int64_t i = 0; i < q->n_tensors; i++) {
        const rdg_gguf_tensor *t = rdg_gguf_tensor_at(q->in, i);
        q->report[i].name = rdg_arena_strndup(q->arena, t->name, strlen(t->name));
        if (!q->report[i].name) return rdg_fail(e, RDG_E_NOMEM, "no memory for tensor names");
        q->total += (double)t->bytes;
        r->n_elements += t->n_elements;
    }
    r->tensors = q->report;
    r->n_tensors = q->n_tensors;
    r->bytes_in = rdg_gguf_file_bytes(q->in);
    if ((err = decide(q, e)) || (err = check_requantise(q, e))) return err;
    return describe(q, e);
}

static rdg_err produce(quantizer *q, const char *out, rdg_quantize_result *r, rdg_error *e)
{
    rdg_err err = rdg_gguf_writer_create(q->p->dry_run && !out ? "dry run" : out, &q->w, e);
    if (!err) err = declare(q, e);
    if (!err && q->p->dry_run) return rdg_gguf_writer_measure(q->w, &r->bytes_out, e);
    if (!err) err = rdg_pool_create(q->p->n_threads, &q->pool, e);
    if (!err) err = rdg_gguf_writer_begin(q->w, e);
    if (!err) err = write_data(q, e);
    if (!err) err = rdg_gguf_writer_finish(q->w, e);
    if (!err) r->bytes_out = rdg_gguf_writer_bytes(q->w);
    return err;
}

rdg_err rdg_quantize_file(const char *in, const char *out, const rdg_quantize_params *p,
                          rdg_quantize_result *r, rdg_error *e)
{
    rdg_quantize_result local = {0};
    double start = rdg_clock_seconds();
    quantizer q = {.p = p};
    rdg_buf_init(&q.checksums);
    rdg_err err = check_params(in, out, p, e);
    if (r) *r = local;
    if (err) return err;
    local.owner = q.arena = rdg_alloc(sizeof *q.arena);
    if (!q.arena) return rdg_fail(e, RDG_E_NOMEM, "no memory to quantise '%s'", in);
    rdg_arena_init(q.arena);
    err = prepare(&q, in, &local, e);
    if (!err) err = produce(&q, out, &local, e);
    rdg_buf_finish(&q.checksums);
    rdg_free(q.piece);
    rdg_pool_destroy(q.pool);
    rdg_gguf_writer_destroy(q.w);
    rdg_gguf_close(q.in);
    local.seconds = rdg_clock_seconds() - start;
    if (err || !r)
        rdg_quantize_result_finish(&local);
    else
        *r = local;
    return err;
}
