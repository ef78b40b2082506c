/* Base files of a divergence (`perplexity --save-base`): what one model thought of a text, to compare another
 * with. For each scored token n_vocab 16-bit log-probabilities between the largest and 16 nats below it (the
 * field's format, docs/formats.md section 10), and behind them, where other readers stop, one f32 per scored
 * token: -ln p of the token that came. The 16-bit values cannot give that: clipping the unlikely ones would
 * bias ln(PPL/base).
 *
 * Threads: a const rdg_logits_base may be read by any number of threads. */
#ifndef RDG_FORMAT_LOGITS_BASE_H
#define RDG_FORMAT_LOGITS_BASE_H

#include "base/file.h"

/* A parsed file; borrows the bytes, which are 4-byte aligned. Rows count over all chunks. */
typedef struct rdg_logits_base {
    int64_t n_ctx, n_vocab, n_chunks;
    int64_t n_rows;              /* scored tokens of a chunk: the second half but the last */
    int64_t row_words;           /* 16-bit words of a row: scale, floor, n_vocab values, made even */
    const unsigned char *tokens; /* i32 [n_chunks][n_ctx] */
    const uint16_t *rows;        /* [n_chunks * n_rows][row_words] */
    const unsigned char *nll;    /* f32 [n_chunks * n_rows], or NULL in a file of another program */
} rdg_logits_base;

/* The sizes above of a file that is to be written, and of one to be read before its bytes are known. */
rdg_logits_base rdg_logits_base_shape(int64_t n_ctx, int64_t n_vocab, int64_t n_chunks);

/* The file must be for this context and vocabulary; n_chunks is its own. Messages lack its name. */
rdg_err rdg_logits_base_parse(const void *data, size_t bytes, int64_t n_ctx, int64_t n_vocab,
                              rdg_logits_base *out, rdg_error *e);
/* The first n_chunks are about these tokens ([n_chunks][n_ctx]) and hold numbers with which a comparison is
 * finite. To be called before the next two. */
rdg_err rdg_logits_base_check(const rdg_logits_base *b, const int32_t *tokens, int64_t n_chunks,
                              rdg_error *e);
/* Divergence in nats of row i from a model whose log-probabilities are logits[v] - shift. `top` is that
 * model's most likely token, *same_top whether the base agrees. */
double rdg_logits_base_divergence(const rdg_logits_base *b, int64_t row, const float *logits, double shift,
                                  int64_t top, bool *same_top);
/* -ln p of the token that came, as far as the file knows it. */
double rdg_logits_base_nll(const rdg_logits_base *b, int64_t row, int32_t target);

/* Writing: head and tokens, then encoded rows in order, then the f32 values of all rows. */
rdg_err rdg_logits_base_begin(rdg_out *out, const rdg_logits_base *shape, const int32_t *tokens,
                              rdg_error *e);
/* One row ([row_words]) from logits; max is the largest of them, shift as above. */
void rdg_logits_base_encode(const rdg_logits_base *shape, const float *logits, double max, double shift,
                            uint16_t *row);

#endif
