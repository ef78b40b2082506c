/* Perplexity and KL divergence over fixed chunks. The base file holds, per scored token, n_vocab 16-bit log
 * probabilities between the largest and 16 nats below it (the field's format, docs/formats.md section 10),
 * and behind them, where other readers stop, one f32 per scored token: -ln p of the token that came. The
 * 16-bit values cannot give that: clipping the unlikely ones would bias ln(PPL/base). */
#include "engine/session_internal.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/sort.h"
#include <ridge/evaluate.h>

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char base_magic[8] = {'_', 'l', 'o', 'g', 'i', 't', 's', '_'};
enum { BASE_HEADER_BYTES = 8 + 3 * 4 };
#define BASE_FLOOR_NATS 16.0f

/* What one scored row yields. */
typedef struct row_score {
    double nll, kl, nll_base;
    int64_t n_not_finite; /* logits that are NaN or infinite */
    bool same_top;
} row_score;

typedef struct chunk_job {
    const float *logits; /* [n_rows][n_vocab] */
    int64_t n_rows, n_vocab;
    const int32_t *targets; /* [n_rows] */
    uint16_t *encode;       /* [n_rows][row_words], or NULL */
    const uint16_t *base;   /* the same, or NULL */
    int64_t row_words;
    row_score *scores;
} chunk_job;

static int64_t base_row_words(int64_t n_vocab)
{
    return 2 * ((n_vocab + 1) / 2) + 4;
}

static void encode_row(const chunk_job *j, const float *logits, double max, double log_sum, uint16_t *out)
{
    float top = (float)(max - log_sum - max), least = INFINITY;
    for (int64_t v = 0; v < j->n_vocab; v++) least = fminf(least, logits[v]);
    float floor_lp = fmaxf((float)(least - max - log_sum), top - BASE_FLOOR_NATS);
    float scale = (top - floor_lp) / 65535.0f;
    memset(out, 0, (size_t)j->row_words * sizeof *out);
    memcpy(out, &scale, 4);
    memcpy(out + 2, &floor_lp, 4);
    float inverse = scale > 0 ? 1.0f / scale : 0;
    for (int64_t v = 0; v < j->n_vocab; v++) {
        float q = ((float)(logits[v] - max - log_sum) - floor_lp) * inverse;
        out[4 + v] = (uint16_t)lrintf(fminf(fmaxf(q, 0), 65535.0f));
    }
}

static void compare_row(const chunk_job *j, const float *logits, double max, double log_sum, int64_t top,
                        const uint16_t *base, int32_t target, row_score *score)
{
    float scale, floor_lp;
    memcpy(&scale, base, 4);
    memcpy(&floor_lp, base + 2, 4);
    int64_t base_top = 0;
    double kl = 0;
    for (int64_t v = 0; v < j->n_vocab; v++) {
        if (base[4 + v] > base[4 + base_top]) base_top = v;
        double lp_base = (double)scale * base[4 + v] + floor_lp;
        if (lp_base > -BASE_FLOOR_NATS) kl += exp(lp_base) * (lp_base - (logits[v] - max - log_sum));
    }
    score->kl = kl;
    /* With equal 16-bit values at the top, this model's own choice counts as agreement. */
    score->same_top = base[4 + top] == base[4 + base_top];
    score->nll_base = -((double)scale * base[4 + target] + floor_lp);
}

static void score_rows(void *ctx, int thread, int n_threads)
{
    const chunk_job *j = ctx;
    for (int64_t r = thread; r < j->n_rows; r += n_threads) {
        const float *logits = j->logits + r * j->n_vocab;
        int64_t top = 0, n_bad = 0;
        double sum = 0;
        for (int64_t v = 0; v < j->n_vocab; v++) n_bad += !isfinite(logits[v]);
        for (int64_t v = 1; v < j->n_vocab; v++)
            if (logits[v] > logits[top]) top = v;
        double max = logits[top];
        for (int64_t v = 0; v < j->n_vocab; v++) sum += exp(logits[v] - max);
        double log_sum = log(sum);
        row_score *s = &j->scores[r];
        *s = (row_score){.nll = -(logits[j->targets[r]] - max - log_sum), .n_not_finite = n_bad};
        if (j->encode) encode_row(j, logits, max, log_sum, j->encode + r * j->row_words);
        if (j->base) compare_row(j, logits, max, log_sum, top, j->base + r * j->row_words, j->targets[r], s);
    }
}

typedef struct run {
    rdg_session *s;
    const rdg_perplexity_params *p;
    int64_t n_ctx, n_chunks, n_rows, n_vocab, row_words;
    int32_t *chunk;
    row_score *scores; /* [n_chunks * n_rows] */
    uint16_t *encode;
    rdg_out out;
    rdg_map base;
    const unsigned char *base_nll; /* the f32 trailer of the base, or NULL */
} run;

/* Rows of the base file, which are only 4-byte aligned behind header and tokens: always even, so u16 access
 * is fine. */
static const uint16_t *base_rows(const run *r, int64_t chunk)
{
    int32_t total;
    memcpy(&total, r->base.data + 16, 4);
    return (const uint16_t *)(r->base.data + BASE_HEADER_BYTES + (size_t)total * (size_t)r->n_ctx * 4) +
           chunk * r->n_rows * r->row_words;
}

/* A scale that is no number would make the divergence one that is none. */
static rdg_err check_base_values(const run *r, rdg_error *e)
{
    const uint16_t *row = base_rows(r, 0);
    for (int64_t i = 0; i < r->n_chunks * r->n_rows; i++, row += r->row_words) {
        float scale, floor_lp, nll = 0;
        memcpy(&scale, row, 4);
        memcpy(&floor_lp, row + 2, 4);
        if (r->base_nll) memcpy(&nll, r->base_nll + i * 4, 4);
        /* not above 1 e at the top: what exp() takes stays finite */
        if (!(scale >= 0 && floor_lp <= 1 && scale * 65535.0f + floor_lp <= 1 && floor_lp >= -FLT_MAX) ||
            !isfinite(nll))
            return rdg_fail(e, RDG_E_MALFORMED,
                            "'%s': the row of scored token %" PRId64
                            " holds no log-probabilities (scale %g, floor %g)",
                            r->p->base, i, (double)scale, (double)floor_lp);
    }
    return RDG_OK;
}

static rdg_err open_base(run *r, const int32_t *tokens, rdg_error *e)
{
    const char *path = r->p->base;
    rdg_err err = rdg_map_open(&r->base, path, e);
    if (err) return err;
    int32_t head[3];
    if (r->base.bytes < BASE_HEADER_BYTES || memcmp(r->base.data, base_magic, 8) != 0)
        return rdg_fail(e, RDG_E_MALFORMED,
                        "'%s' is not a file of base log-probabilities (made by --save-base)", path);
    memcpy(head, r->base.data + 8, sizeof head);
    if (head[0] != r->n_ctx || head[1] != r->n_vocab || head[2] < 1)
        return rdg_fail(e, RDG_E_MALFORMED,
                        "'%s' is for a context of %d and a vocabulary of %d, this run has %" PRId64
                        " and %" PRId64,
                        path, head[0], head[1], r->n_ctx, r->n_vocab);
    if (r->n_chunks > head[2]) {
        rdg_log_warn(r->p->log, "the base has %d chunks: only these are compared", head[2]);
        r->n_chunks = head[2];
    }
    uint64_t need = BASE_HEADER_BYTES + (uint64_t)head[2] * (uint64_t)r->n_ctx * 4 +
                    (uint64_t)head[2] * (uint64_t)r->n_rows * (uint64_t)r->row_words * 2;
    uint64_t trailer = (uint64_t)head[2] * (uint64_t)r->n_rows * sizeof(float);
    if (r->base.bytes == need + trailer)
        r->base_nll = r->base.data + need;
    else if (r->base.bytes != need)
        return rdg_fail(e, RDG_E_MALFORMED, "'%s' has %zu bytes, its header asks for %" PRIu64, path,
                        r->base.bytes, need);
    if (memcmp(r->base.data + BASE_HEADER_BYTES, tokens, (size_t)(r->n_chunks * r->n_ctx) * 4) != 0)
        return rdg_fail(e, RDG_E_MALFORMED, "'%s' was made from another text or tokenizer", path);
    return check_base_values(r, e);
}

static rdg_err begin_save(run *r, const int32_t *tokens, rdg_error *e)
{
    int32_t head[3] = {(int32_t)r->n_ctx, (int32_t)r->n_vocab, (int32_t)r->n_chunks};
    rdg_err err = rdg_out_open(&r->out, r->p->save_base, e);
    if (!err) err = rdg_out_write(&r->out, base_magic, 8, e);
    if (!err) err = rdg_out_write(&r->out, head, sizeof head, e);
    if (!err) err = rdg_out_write(&r->out, tokens, (size_t)(r->n_chunks * r->n_ctx) * 4, e);
    if (err) return err;
    r->encode = rdg_alloc_array((size_t)(r->n_rows * r->row_words), sizeof *r->encode);
    return r->encode ? RDG_OK : rdg_fail(e, RDG_E_NOMEM, "no memory for base log-probabilities");
}

static rdg_err run_chunk(run *r, const int32_t *tokens, int64_t chunk, rdg_error *e)
{
    const rdg_tokenizer *t = r->s->model->tokenizer;
    int64_t first = r->n_ctx / 2;
    memcpy(r->chunk, tokens + chunk * r->n_ctx, (size_t)r->n_ctx * sizeof *r->chunk);
    if (t && rdg_tokenizer_add_bos(t)) r->chunk[0] = rdg_tokenizer_bos(t);
    rdg_session_reset(r->s);
    rdg_err err = rdg_session_eval(r->s, r->chunk, first, RDG_LOGITS_NONE, e);
    if (!err) err = rdg_session_eval(r->s, r->chunk + first, r->n_ctx - first, RDG_LOGITS_ALL, e);
    if (err) return err;
    chunk_job job = {.logits = rdg_session_logits(r->s, 0),
                     .n_rows = r->n_rows,
                     .n_vocab = r->n_vocab,
                     .targets = r->chunk + first + 1,
                     .encode = r->encode,
                     .row_words = r->row_words,
                     .base = r->base.data ? base_rows(r, chunk) : NULL,
                     .scores = r->scores + chunk * r->n_rows};
    rdg_pool_run(r->s->pool, score_rows, &job);
    for (int64_t i = 0; i < r->n_rows && r->base_nll; i++) {
        float nll;
        memcpy(&nll, r->base_nll + (size_t)(chunk * r->n_rows + i) * sizeof nll, sizeof nll);
        job.scores[i].nll_base = nll;
    }
    if (r->encode) err = rdg_out_write(&r->out, r->encode, (size_t)(r->n_rows * r->row_words) * 2, e);
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
    for (int64_t i = 0; i < r->n_chunks * r->n_rows; i++) {
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
                     out->n_not_finite, n_rows, r->n_chunks * r->n_rows, first / r->n_rows,
                     r->n_ctx / 2 + first % r->n_rows);
}

static rdg_err summarise(const run *r, rdg_perplexity_result *out, rdg_error *e)
{
    int64_t n = r->n_chunks * r->n_rows, same = 0;
    double *v = rdg_alloc_array((size_t)n, sizeof *v), error;
    if (!v) return rdg_fail(e, RDG_E_NOMEM, "no memory for the result");
    for (int64_t i = 0; i < n; i++) v[i] = r->scores[i].nll;
    out->perplexity = exp(mean_and_stderr(v, n, &error));
    out->perplexity_stderr = out->perplexity * error;
    out->n_chunks = r->n_chunks;
    out->n_scored_tokens = n;
    out->kl_mean = out->kl_stderr = out->kl_median = out->kl_p90 = out->kl_p99 = out->kl_max = NAN;
    out->same_top = out->ln_ratio = out->ln_ratio_stderr = NAN;
    if (r->base.data) {
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
    if (r->n_ctx < 4 || r->n_ctx % 2 || r->n_ctx > rdg_session_n_ctx(r->s))
        return rdg_fail(e, RDG_E_ARGUMENT,
                        "chunks of %" PRId64 " tokens: an even number from 4 to the context of %" PRId64
                        " is needed",
                        r->n_ctx, rdg_session_n_ctx(r->s));
    if (n < 2 * r->n_ctx)
        return rdg_fail(e, RDG_E_LIMIT,
                        "the text has %" PRId64 " tokens, perplexity needs two chunks of %" PRId64
                        "; give a longer text or a smaller -c",
                        n, r->n_ctx);
    return RDG_OK;
}

rdg_err rdg_perplexity(rdg_session *s, const int32_t *tokens, int64_t n, const rdg_perplexity_params *p,
                       rdg_perplexity_result *result, rdg_error *e)
{
    double start = rdg_clock_seconds();
    run r = {
        .s = s, .p = p, .n_ctx = p->n_ctx, .n_vocab = s->model->hparams.n_vocab, .out.fd = -1, .base.fd = -1};
    rdg_err err = check_text(&r, n, e);
    if (err) return err;
    r.n_chunks = p->max_chunks > 0 ? RDG_MIN(p->max_chunks, n / r.n_ctx) : n / r.n_ctx;
    r.n_rows = r.n_ctx - r.n_ctx / 2 - 1;
    r.row_words = base_row_words(r.n_vocab);
    if (p->base && (err = open_base(&r, tokens, e))) goto done;
    r.chunk = rdg_alloc_array((size_t)r.n_ctx, sizeof *r.chunk);
    r.scores = rdg_alloc_array((size_t)(r.n_chunks * r.n_rows), sizeof *r.scores);
    if (!r.chunk || !r.scores) {
        err = rdg_fail(e, RDG_E_NOMEM, "no memory for %" PRId64 " chunks", r.n_chunks);
        goto done;
    }
    if (p->save_base && (err = begin_save(&r, tokens, e))) goto done;
    double sum = 0;
    for (int64_t c = 0; c < r.n_chunks; c++) {
        if ((err = run_chunk(&r, tokens, c, e))) goto done;
        for (int64_t i = 0; i < r.n_rows; i++) sum += r.scores[c * r.n_rows + i].nll;
        if (p->chunk) p->chunk(p->user, c, r.n_chunks, exp(sum / (double)((c + 1) * r.n_rows)));
        if (rdg_log_progress(p->log, "perplexity", (double)(c + 1), (double)r.n_chunks)) {
            err = rdg_fail(e, RDG_E_CANCELLED, "stopped after %" PRId64 " of %" PRId64 " chunks", c + 1,
                           r.n_chunks);
            goto done;
        }
    }
    for (int64_t i = 0; i < r.n_chunks * r.n_rows && p->save_base && !err; i++)
        err = rdg_out_write(&r.out, &(float){(float)r.scores[i].nll}, sizeof(float), e);
    if (!err && p->save_base) err = rdg_out_commit(&r.out, e);
    if (err) goto done;
    report_not_finite(&r, result);
    err = summarise(&r, result, e);
    result->seconds = rdg_clock_seconds() - start;
done:
    rdg_out_close(&r.out);
    rdg_map_close(&r.base);
    rdg_free(r.encode);
    rdg_free(r.scores);
    rdg_free(r.chunk);
    return err;
}
