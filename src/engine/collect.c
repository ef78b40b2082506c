/* Collecting an importance matrix: sessions whose plans carry sumsq nodes, over chunks of calibration text.
 * Sums are taken out after every chunk and added in double, so that long texts lose nothing and threads
 * change nothing. */
#include "engine/session_internal.h"
#include "base/clock.h"
#include <ridge/evaluate.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct collected {
    const char *weight;
    int64_t n_columns, n_matrices;
    int32_t sums_index, counts_index;
    double *sums, *counts;
} collected;

typedef struct collector {
    rdg_session *s;
    collected *items;
    size_t n_items;
    float *buffer; /* of the largest state */
    size_t largest;
} collector;

/* One item a pair of states (sums, then counts) of the full-batch plan. */
static rdg_err list_items(collector *c, int64_t n_tokens, rdg_error *e)
{
    rdg_prepared *prepared;
    rdg_err err = rdg_session_plan(c->s, n_tokens, n_tokens, &prepared, e);
    if (err) return err;
    const rdg_plan *p = prepared->plan;
    c->items = rdg_alloc_array(p->n_states + 1, sizeof *c->items);
    if (!c->items) return rdg_fail(e, RDG_E_NOMEM, "no memory for an importance matrix");
    for (size_t i = 0; i + 1 < p->n_states; i++) {
        if (p->states[i].kind != RDG_STATE_IMATRIX_SUMS) continue;
        const rdg_tensor *shape = &p->states[i].shape;
        collected *item = &c->items[c->n_items++];
        *item = (collected){.weight = p->states[i].weight,
                            .n_columns = shape->dim[0],
                            .n_matrices = shape->dim[1],
                            .sums_index = p->states[i].index,
                            .counts_index = p->states[i + 1].index};
        size_t n = (size_t)(item->n_columns * item->n_matrices);
        c->largest = RDG_MAX(c->largest, n);
        item->sums = rdg_alloc_array(n, sizeof *item->sums);
        item->counts = rdg_alloc_array((size_t)item->n_matrices, sizeof *item->counts);
        if (!item->sums || !item->counts)
            return rdg_fail(e, RDG_E_NOMEM, "no memory for an importance matrix");
    }
    c->buffer = rdg_alloc_array(c->largest, sizeof *c->buffer);
    if (!c->buffer) return rdg_fail(e, RDG_E_NOMEM, "no memory for an importance matrix");
    return RDG_OK;
}

/* Adds a state to its total and clears it. */
static rdg_err drain(collector *c, rdg_state_kind kind, int32_t index, double *total, int64_t n,
                     const char *name, rdg_error *e)
{
    const rdg_exec_class *class = c->s->exec->class;
    size_t bytes = (size_t)n * sizeof *c->buffer;
    rdg_err err = class->read_state(c->s->exec, kind, index, c->buffer, bytes, e);
    if (err) return err;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(c->buffer[i]))
            return rdg_fail(e, RDG_E_MALFORMED,
                            "the input of '%s' is not finite in channel %" PRId64
                            "; the model is broken or overflows",
                            name, i);
        total[i] += c->buffer[i];
    }
    memset(c->buffer, 0, bytes);
    return class->write_state(c->s->exec, kind, index, c->buffer, bytes, e);
}

static rdg_err drain_all(collector *c, rdg_error *e)
{
    for (size_t i = 0; i < c->n_items; i++) {
        collected *it = &c->items[i];
        rdg_err err = drain(c, RDG_STATE_IMATRIX_SUMS, it->sums_index, it->sums,
                            it->n_columns * it->n_matrices, it->weight, e);
        if (!err)
            err = drain(c, RDG_STATE_IMATRIX_COUNTS, it->counts_index, it->counts, it->n_matrices, it->weight,
                        e);
        if (err) return err;
    }
    return RDG_OK;
}

static rdg_err to_imatrix(collector *c, rdg_imatrix *m, rdg_error *e)
{
    for (size_t i = 0; i < c->n_items; i++) {
        const collected *it = &c->items[i];
        float *counts = rdg_alloc_array((size_t)it->n_matrices, sizeof *counts);
        if (!counts) return rdg_fail(e, RDG_E_NOMEM, "no memory for an importance matrix");
        for (int64_t k = 0; k < it->n_columns * it->n_matrices; k++) c->buffer[k] = (float)it->sums[k];
        for (int64_t k = 0; k < it->n_matrices; k++) counts[k] = (float)it->counts[k];
        rdg_err err = rdg_imatrix_add(m, it->weight, it->n_columns, it->n_matrices, c->buffer, counts, e);
        rdg_free(counts);
        if (err) return err;
    }
    return RDG_OK;
}

/* Sum of -ln p over the second half of the chunk: the perplexity that comes for free. */
static double chunk_nll(const rdg_session *s, const int32_t *chunk, int64_t n_ctx)
{
    double sum = 0;
    for (int64_t i = n_ctx / 2; i < n_ctx - 1; i++) {
        const float *l = rdg_session_logits(s, i);
        double max = l[0], total = 0;
        for (int64_t v = 1; v < s->model->hparams.n_vocab; v++) max = fmax(max, l[v]);
        for (int64_t v = 0; v < s->model->hparams.n_vocab; v++) total += exp(l[v] - max);
        sum += log(total) + max - l[chunk[i + 1]];
    }
    return sum;
}

static rdg_err collect_chunks(collector *c, const int32_t *tokens, int64_t n_chunks,
                              const rdg_collect_params *p, rdg_collect_result *r, rdg_error *e)
{
    const rdg_tokenizer *t = c->s->model->tokenizer;
    rdg_err err = RDG_OK;
    double nll = 0;
    int32_t *chunk = rdg_alloc_array((size_t)p->n_ctx, sizeof *chunk);
    if (!chunk) return rdg_fail(e, RDG_E_NOMEM, "no memory for a chunk");
    for (int64_t i = 0; i < n_chunks && !err; i++) {
        memcpy(chunk, tokens + i * p->n_ctx, (size_t)p->n_ctx * sizeof *chunk);
        if (t && rdg_tokenizer_add_bos(t)) chunk[0] = rdg_tokenizer_bos(t);
        rdg_session_reset(c->s);
        err = rdg_session_eval(c->s, chunk, p->n_ctx, RDG_LOGITS_ALL, e);
        if (!err) err = drain_all(c, e);
        if (!err) nll += chunk_nll(c->s, chunk, p->n_ctx);
        if (!err && rdg_log_progress(p->log, "imatrix", (double)(i + 1), (double)n_chunks))
            err = rdg_fail(e, RDG_E_CANCELLED, "stopped after %" PRId64 " of %" PRId64 " chunks", i + 1,
                           n_chunks);
    }
    r->n_chunks = n_chunks;
    r->n_tokens = n_chunks * p->n_ctx;
    r->perplexity = exp(nll / (double)(n_chunks * (p->n_ctx - p->n_ctx / 2 - 1)));
    rdg_free(chunk);
    return err;
}

rdg_err rdg_imatrix_collect(rdg_model *m, const int32_t *tokens, int64_t n, const rdg_collect_params *p,
                            rdg_imatrix **out, rdg_collect_result *r, rdg_error *e)
{
    double start = rdg_clock_seconds();
    collector c = {0};
    rdg_imatrix *matrix = NULL;
    *out = NULL;
    if (p->n_ctx < 4)
        return rdg_fail(e, RDG_E_ARGUMENT, "chunks of %" PRId64 " tokens are too short", p->n_ctx);
    if (!m->hparams.causal)
        return rdg_fail(e, RDG_E_UNSUPPORTED, "an importance matrix of a '%s' model is not supported",
                        m->arch->name);
    int64_t n_chunks = n / p->n_ctx;
    if (p->max_chunks > 0) n_chunks = RDG_MIN(n_chunks, p->max_chunks);
    if (n_chunks < 1)
        return rdg_fail(e, RDG_E_LIMIT,
                        "the text has %" PRId64 " tokens, one chunk needs %" PRId64
                        "; give a longer text or a smaller -c",
                        n, p->n_ctx);
    rdg_session_params sp;
    rdg_session_defaults(&sp);
    sp.n_ctx = sp.n_batch = p->n_ctx;
    sp.n_threads = p->n_threads;
    sp.device = p->device;
    sp.gpu_layers = p->gpu_layers;
    sp.device_memory_bytes = p->device_memory_bytes;
    sp.log = p->log;
    rdg_err err = rdg_session_create_for(m, &sp, true, false, &c.s, e);
    if (err) goto done;
    if ((err = list_items(&c, p->n_ctx, e))) goto done;
    if ((err = collect_chunks(&c, tokens, n_chunks, p, r, e))) goto done;
    if ((err = rdg_imatrix_create(&matrix, e))) goto done;
    if ((err = to_imatrix(&c, matrix, e))) goto done;
    rdg_imatrix_set_chunks(matrix, n_chunks, p->n_ctx);
    if (p->dataset && (err = rdg_imatrix_add_dataset(matrix, p->dataset, e))) goto done;
    r->seconds = rdg_clock_seconds() - start;
    *out = matrix;
    matrix = NULL;
done:
    rdg_imatrix_destroy(matrix);
    for (size_t i = 0; i < c.n_items; i++) {
        rdg_free(c.items[i].counts);
        rdg_free(c.items[i].sums);
    }
    rdg_free(c.buffer);
    rdg_free(c.items);
    rdg_session_destroy(c.s);
    return err;
}
