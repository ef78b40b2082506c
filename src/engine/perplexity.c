/* Perplexity and KL divergence over fixed chunks. Base files are format/logits_base.h's. */
#include "engine/session_internal.h"
#include "base/clock.h"
#include "base/sort.h"
#include "format/logits_base.h"
#include <ridge/evaluate.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What one scored row yields. */
typedef struct row_score {
    double nll, kl, nll_base;
    int64_t n_not_finite; /* logits that are NaN or infinite */
    bool same_top;
} row_score;

typedef struct chunk_job {
    const float *logits;    /* [n_rows][n_vocab] */
    const int32_t *targets; /* [n_rows] */
    const rdg_logits_base *shape;
    uint16_t *encode;            /* [n_rows][row_words], or NULL */
    const rdg_logits_base *base; /* or NULL */
    int64_t first_row;           /* of the base */
    row_score *scores;
} chunk_job;

static void score_rows(void *ctx, int thread, int n_threads)
{
    const chunk_job *j = ctx;
    const int64_t n_vocab = j->shape->n_vocab;
    for (int64_t r = thread; r < j->shape->n_rows; r += n_threads) {
        const float *logits = j->logits + r * n_vocab;
        int64_t top = 0, n_bad = 0;
        double sum = 0;
        for (int64_t v = 0; v < n_vocab; v++) n_bad += !isfinite(logits[v]);
        for (int64_t v = 1; v < n_vocab; v++)
            if (logits[v] > logits[top]) top = v;
        double max = logits[top];
        for (int64_t v = 0; v < n_vocab; v++) sum += exp(logits[v] - max);
        double log_sum = log(sum);
        row_score *s = &j->scores[r];
        *s = (row_score){.nll = -(logits[j->targets[r]] - max - log_sum), .n_not_finite = n_bad};
        const double shift = max + log_sum;
        if (j->encode)
            rdg_logits_base_encode(j->shape, logits, max, shift, j->encode + r * j->shape->row_words);
        if (!j->base) continue;
        s->kl = rdg_logits_base_divergence(j->base, j->first_row + r, logits, shift, top, &s->same_top);
        s->nll_base = rdg_logits_base_nll(j->base, j->first_row + r, j->targets[r]);
    }
}

typedef struct run {
    rdg_session *s;
    const rdg_perplexity_params *p;
    rdg_logits_base shape; /* of this run, and of what is saved */
    int32_t *chunk;
    row_score *scores; /* [n_chunks * n_rows] */
    uint16_t *encode;
    rdg_out out;
    rdg_map map;
    rdg_logits_base base; /* in the map */
} run;

static rdg_err open_base(run *r, const int32_t *tokens, rdg_error *e)
{
    const char *path = r->p->base;
    rdg_err err = rdg_map_open(&r->map, path, e);
    if (err) return err;
    err = rdg_logits_base_parse(r->map.data, r->map.bytes, r->shape.n_ctx, r->shape.n_vocab, &r->base, e);
    if (!err && r->shape.n_chunks > r->base.n_chunks) {
        rdg_log_warn(r->p->log, "the base has %" PRId64 " chunks: only these are compared", r->base.n_chunks);
        r->shape.n_chunks = r->base.n_chunks;
    }
    if (!err) err = rdg_logits_base_check(&r->base, tokens, r->shape.n_chunks, e);
    return err ? rdg_fail_prefix(e, err, "'%s'", path) : RDG_OK;
}

static rdg_err begin_save(run *r, const int32_t *tokens, rdg_error *e)
{
    rdg_err err = rdg_out_open(&r->out, r->p->save_base, e);
    if (!err) err = rdg_logits_base_begin(&r->out, &r->shape, tokens, e);
    if (err) return err;
    r->encode = rdg_alloc_array((size_t)(r->shape.n_rows * r->shape.row_words), sizeof *r->encode);
    return r->encode ? RDG_OK : rdg_fail(e, RDG_E_NOMEM, "no memory for base log-probabilities");
}

static rdg_err run_chunk(run *r, const int32_t *tokens, int64_t chunk, rdg_error *e)
{
    const rdg_tokenizer *t = r->s->model->tokenizer;
    int64_t first = r->shape.n_ctx / 2;
    memcpy(r->chunk, tokens + chunk * r->shape.n_ctx, (size_t)r->shape.n_ctx * sizeof *r->chunk);
    if (t && rdg_tokenizer_add_bos(t)) r->chunk[0] = rdg_tokenizer_bos(t);
    rdg_session_reset(r->s);
    rdg_err err = rdg_session_eval(r->s, r->chunk, first, RDG_LOGITS_NONE, e);
    if (!err) err = rdg_session_eval(r->s, r->chunk + first, r->shape.n_ctx - first, RDG_LOGITS_ALL, e);
    if (err) return err;
    chunk_job job = {.logits = rdg_session_logits(r->s, 0),
                     .targets = r->chunk + first + 1,
                     .shape = &r->shape,
                     .encode = r->encode,
                     .base = r->map.data ? &r->base : NULL,
                     .first_row = chunk * r->shape.n_rows,
                     .scores = r->scores + chunk * r->shape.n_rows};
    rdg_pool_run(r->s->pool, score_rows, &job);
    if (r->encode)
        err = rdg_out_write(&r->out, r->encode, (size_t)(r->shape.n_rows * r->shape.row_words) * 2, e);
    return err;
}

static double mean_and_stderr(const double *v, int64_t n, double *stderr_out)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += v[i];
    double mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) squares += (v[i] - mean) * (v[i] - mean);
    *stderr_out = n > 1 ? sqrt(squares / (double)n / (double)(n - 1)) : NAN;
    return mean;
}

/* Such a perplexity is no number, or worse, looks like one. */
static void report_not_finite(const run *r, rdg_perplexity_result *out)
{
    int64_t n_rows = 0, first = -1;
    out->n_not_finite = 0;
    for (int64_t i = 0; i < r->shape.n_chunks * r->shape.n_rows; i++) {
        if (!r->scores[i].n_not_finite) continue;
        if (first < 0) first = i;
        out->n_not_finite += r->scores[i].n_not_finite;
        n_rows++;
    }
    if (first >= 0)
        rdg_log_warn(r->p->log,
                     "%" PRId64 " logits are NaN or infinite, in %" PRId64 " of %" PRId64
                     " scored positions, the first in chunk %" PRId64 " at position %" PRId64
                     ": the perplexity means nothing; the weights are damaged or overflow",
                     out->n_not_finite, n_rows, r->shape.n_chunks * r->shape.n_rows, first / r->shape.n_rows,
                     r->shape.n_ctx / 2 + first % r->shape.n_rows);
}

static rdg_err summarise(const run *r, rdg_perplexity_result *out, rdg_error *e)
{
    int64_t n = r->shape.n_chunks * r->shape.n_rows, same = 0;
    double *v = rdg_alloc_array((size_t)n, sizeof *v), error;
    if (!v) return rdg_fail(e, RDG_E_NOMEM, "no memory for the result");
    for (int64_t i = 0; i < n; i++) v[i] = r->scores[i].nll;
    out->perplexity = exp(mean_and_stderr(v, n, &error));
    out->perplexity_stderr = out->perplexity * error;
    out->n_chunks = r->shape.n_chunks;
    out->n_scored_tokens = n;
    out->kl_mean = out->kl_stderr = out->kl_median = out->kl_p90 = out->kl_p99 = out->kl_max = NAN;
    out->same_top = out->ln_ratio = out->ln_ratio_stderr = NAN;
    if (r->map.data) {
        for (int64_t i = 0; i < n; i++) {
            v[i] = r->scores[i].nll - r->scores[i].nll_base;
            same += r->scores[i].same_top;
        }
        out->ln_ratio = mean_and_stderr(v, n, &out->ln_ratio_stderr);
        out->same_top = (double)same / (double)n;
        for (int64_t i = 0; i < n; i++) v[i] = r->scores[i].kl;
        out->kl_mean = mean_and_stderr(v, n, &out->kl_stderr);
        rdg_sort_doubles(v, (size_t)n);
        out->kl_median = v[n / 2];
        out->kl_p90 = v[(int64_t)(0.9 * (double)(n - 1))];
        out->kl_p99 = v[(int64_t)(0.99 * (double)(n - 1))];
        out->kl_max = v[n - 1];
    }
    rdg_free(v);
    return RDG_OK;
}

static rdg_err check_text(const run *r, int64_t n, rdg_error *e)
{
    if (r->shape.n_ctx < 4 || r->shape.n_ctx % 2)
        return rdg_fail(e, RDG_E_ARGUMENT, "chunks of %" PRId64 " tokens: an even number from 4 on is needed",
                        r->shape.n_ctx);
    if (r->shape.n_ctx > rdg_session_n_ctx(r->s))
        return rdg_fail(e, RDG_E_ARGUMENT, "chunks of %" PRId64 " tokens in a context of %" PRId64,
                        r->shape.n_ctx, rdg_session_n_ctx(r->s));
    if (n < 2 * r->shape.n_ctx)
        return rdg_fail(e, RDG_E_LIMIT,
                        "the text has %" PRId64 " tokens, perplexity needs two chunks of %" PRId64
                        "; give a longer text or a smaller -c",
                        n, r->shape.n_ctx);
    return RDG_OK;
}

rdg_err rdg_perplexity(rdg_session *s, const int32_t *tokens, int64_t n, const rdg_perplexity_params *p,
                       rdg_perplexity_result *result, rdg_error *e)
{
    double start = rdg_clock_seconds();
    run r = {.s = s,
             .p = p,
             .shape = rdg_logits_base_shape(p->n_ctx, s->model->hparams.n_vocab, 0),
             .out.fd = -1,
             .map.fd = -1};
    rdg_err err = check_text(&r, n, e);
    if (err) return err;
    r.shape.n_chunks = p->max_chunks > 0 ? RDG_MIN(p->max_chunks, n / r.shape.n_ctx) : n / r.shape.n_ctx;
    if (p->base && (err = open_base(&r, tokens, e))) goto done;
    r.chunk = rdg_alloc_array((size_t)r.shape.n_ctx, sizeof *r.chunk);
    r.scores = rdg_alloc_array((size_t)(r.shape.n_chunks * r.shape.n_rows), sizeof *r.scores);
    if (!r.chunk || !r.scores) {
        err = rdg_fail(e, RDG_E_NOMEM, "no memory for %" PRId64 " chunks", r.shape.n_chunks);
        goto done;
    }
    if (p->save_base && (err = begin_save(&r, tokens, e))) goto done;
    double sum = 0;
    for (int64_t c = 0; c < r.shape.n_chunks; c++) {
        if ((err = run_chunk(&r, tokens, c, e))) goto done;
        for (int64_t i = 0; i < r.shape.n_rows; i++) sum += r.scores[c * r.shape.n_rows + i].nll;
        if (p->chunk) p->chunk(p->user, c, r.shape.n_chunks, exp(sum / (double)((c + 1) * r.shape.n_rows)));
        if (rdg_log_progress(p->log, "perplexity", (double)(c + 1), (double)r.shape.n_chunks)) {
            err = rdg_fail(e, RDG_E_CANCELLED, "stopped after %" PRId64 " of %" PRId64 " chunks", c + 1,
                           r.shape.n_chunks);
            goto done;
        }
    }
    for (int64_t i = 0; i < r.shape.n_chunks * r.shape.n_rows && p->save_base && !err; i++)
        err = rdg_out_write(&r.out, &(float){(float)r.scores[i].nll}, sizeof(float), e);
    if (!err && p->save_base) err = rdg_out_commit(&r.out, e);
    if (err) goto done;
    report_not_finite(&r, result);
    err = summarise(&r, result, e);
    result->seconds = rdg_clock_seconds() - start;
done:
    rdg_out_close(&r.out);
    rdg_map_close(&r.map);
    rdg_free(r.encode);
    rdg_free(r.scores);
    rdg_free(r.chunk);
    return err;
}
