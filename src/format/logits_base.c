/* Base log-probabilities: reading them out of a file that may be hostile, comparing, writing. */
#include "format/logits_base.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char magic[8] = {'_', 'l', 'o', 'g', 'i', 't', 's', '_'};
/* magic and n_ctx, n_vocab, n_chunks; of a row scale and floor */
enum { HEAD_BYTES = 8 + 3 * 4, ROW_HEAD_WORDS = 4 };
#define FLOOR_NATS 16.0f

rdg_logits_base rdg_logits_base_shape(int64_t n_ctx, int64_t n_vocab, int64_t n_chunks)
{
    return (rdg_logits_base){.n_ctx = n_ctx,
                             .n_vocab = n_vocab,
                             .n_chunks = n_chunks,
                             .n_rows = n_ctx - n_ctx / 2 - 1,
                             .row_words = 2 * ((n_vocab + 1) / 2) + ROW_HEAD_WORDS};
}

rdg_err rdg_logits_base_parse(const void *data, size_t bytes, int64_t n_ctx, int64_t n_vocab,
                              rdg_logits_base *out, rdg_error *e)
{
    const unsigned char *p = data;
    int32_t head[3];
    if (bytes < HEAD_BYTES || memcmp(p, magic, sizeof magic) != 0)
        return rdg_fail(e, RDG_E_MALFORMED, "no file of base log-probabilities (made by --save-base)");
    memcpy(head, p + sizeof magic, sizeof head);
    if (head[0] != n_ctx || head[1] != n_vocab || n_ctx < 4 || n_vocab < 1 || head[2] < 1)
        return rdg_fail(e, RDG_E_MALFORMED,
                        "it has %d chunks, for a context of %d and a vocabulary of %d; this run has %" PRId64
                        " and %" PRId64,
                        head[2], head[0], head[1], n_ctx, n_vocab);
    *out = rdg_logits_base_shape(n_ctx, n_vocab, head[2]);
    /* Sizes of one chunk fit 63 bits as their factors fit 31; those of all are only multiplied once the
     * file is known to have them. */
    uint64_t tokens_bytes = (uint64_t)n_ctx * 4, nll_bytes = (uint64_t)out->n_rows * sizeof(float);
    uint64_t chunk_bytes = tokens_bytes + (uint64_t)out->n_rows * (uint64_t)out->row_words * 2;
    uint64_t rest = bytes - HEAD_BYTES, n = (uint64_t)out->n_chunks;
    bool with_nll = rest / n == chunk_bytes + nll_bytes;
    if (rest % n != 0 || (rest / n != chunk_bytes && !with_nll))
        return rdg_fail(e, RDG_E_MALFORMED,
                        "it has %zu bytes, its header asks for %d and %d chunks of %" PRIu64
                        "; it is damaged or cut short: make it again",
                        bytes, HEAD_BYTES, head[2], chunk_bytes);
    out->tokens = p + HEAD_BYTES;
    out->rows = (const uint16_t *)(const void *)(out->tokens + n * tokens_bytes);
    out->nll = with_nll ? p + HEAD_BYTES + n * chunk_bytes : NULL;
    return RDG_OK;
}

static const uint16_t *read_row(const rdg_logits_base *b, int64_t row, float *scale, float *floor_lp)
{
    const uint16_t *words = b->rows + row * b->row_words;
    memcpy(scale, words, sizeof *scale);
    memcpy(floor_lp, words + 2, sizeof *floor_lp);
    return words + ROW_HEAD_WORDS;
}

rdg_err rdg_logits_base_check(const rdg_logits_base *b, const int32_t *tokens, int64_t n_chunks, rdg_error *e)
{
    if (n_chunks < 0 || n_chunks > b->n_chunks)
        return rdg_fail(e, RDG_E_ARGUMENT, "%" PRId64 " chunks of a base of %" PRId64, n_chunks, b->n_chunks);
    if (memcmp(b->tokens, tokens, (size_t)(n_chunks * b->n_ctx) * 4) != 0)
        return rdg_fail(e, RDG_E_MALFORMED, "it was made from another text or tokenizer");
    for (int64_t i = 0; i < n_chunks * b->n_rows; i++) {
        float scale, floor_lp, nll = 0;
        read_row(b, i, &scale, &floor_lp);
        if (b->nll) memcpy(&nll, b->nll + (size_t)i * sizeof nll, sizeof nll);
        /* not above 1 e at the top: what exp() takes stays finite */
        if (!(scale >= 0 && floor_lp <= 1 && scale * 65535.0f + floor_lp <= 1 && floor_lp >= -FLT_MAX) ||
            !isfinite(nll))
            return rdg_fail(e, RDG_E_MALFORMED,
                            "the row of scored token %" PRId64
                            " holds no log-probabilities (scale %g, floor %g)",
                            i, (double)scale, (double)floor_lp);
    }
    return RDG_OK;
}

double rdg_logits_base_divergence(const rdg_logits_base *b, int64_t row, const float *logits, double shift,
                                  int64_t top, bool *same_top)
{
    float scale, floor_lp;
    const uint16_t *values = read_row(b, row, &scale, &floor_lp);
    int64_t base_top = 0;
    double kl = 0;
    for (int64_t v = 0; v < b->n_vocab; v++) {
        if (values[v] > values[base_top]) base_top = v;
        double lp_base = (double)scale * values[v] + floor_lp;
        if (lp_base > -FLOOR_NATS) kl += exp(lp_base) * (lp_base - (logits[v] - shift));
    }
    /* With equal 16-bit values at the top, the other model's own choice counts as agreement. */
    *same_top = values[top] == values[base_top];
    return kl;
}

double rdg_logits_base_nll(const rdg_logits_base *b, int64_t row, int32_t target)
{
    float scale, floor_lp, nll;
    if (b->nll) {
        memcpy(&nll, b->nll + (size_t)row * sizeof nll, sizeof nll);
        return nll;
    }
    const uint16_t *values = read_row(b, row, &scale, &floor_lp);
    return -((double)scale * values[target] + floor_lp);
}

rdg_err rdg_logits_base_begin(rdg_out *out, const rdg_logits_base *shape, const int32_t *tokens, rdg_error *e)
{
    const int32_t head[3] = {(int32_t)shape->n_ctx, (int32_t)shape->n_vocab, (int32_t)shape->n_chunks};
    rdg_err err = rdg_out_write(out, magic, sizeof magic, e);
    if (!err) err = rdg_out_write(out, head, sizeof head, e);
    if (!err) err = rdg_out_write(out, tokens, (size_t)(shape->n_chunks * shape->n_ctx) * 4, e);
    return err;
}

void rdg_logits_base_encode(const rdg_logits_base *shape, const float *logits, double max, double shift,
                            uint16_t *row)
{
    float top = (float)(max - shift), least = INFINITY;
    for (int64_t v = 0; v < shape->n_vocab; v++) least = fminf(least, logits[v]);
    float floor_lp = fmaxf((float)(least - shift), top - FLOOR_NATS);
    float scale = (top - floor_lp) / 65535.0f;
    memset(row, 0, (size_t)shape->row_words * sizeof *row);
    memcpy(row, &scale, sizeof scale);
    memcpy(row + 2, &floor_lp, sizeof floor_lp);
    float inverse = scale > 0 ? 1.0f / scale : 0;
    for (int64_t v = 0; v < shape->n_vocab; v++) {
        float q = ((float)(logits[v] - shift) - floor_lp) * inverse;
        row[ROW_HEAD_WORDS + v] = (uint16_t)lrintf(fminf(fmaxf(q, 0), 65535.0f));
    }
}
