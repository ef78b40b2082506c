/* Perplexity, KL divergence, importance collection, speed, embeddings: what one does with a model besides
 * text. */
#ifndef RIDGE_EVALUATE_H
#define RIDGE_EVALUATE_H

#include <ridge/imatrix.h>
#include <ridge/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Perplexity as the field defines it (docs/formats.md, section 10): chunks of n_ctx tokens, BOS replacing the
 * first token of each if the model adds it, the second half of each chunk scored. */
typedef struct rdg_perplexity_params {
    int64_t n_ctx;         /* tokens a chunk, 512 */
    int64_t max_chunks;    /* 0 = all */
    const char *save_base; /* write log-probabilities here, or NULL */
    const char *base;      /* compare with log-probabilities written before, or NULL */
    /* Called after each chunk with the perplexity so far; may be NULL. */
    void (*chunk)(void *user, int64_t chunk, int64_t n_chunks, double perplexity);
    void *user;
    const rdg_log *log;
} rdg_perplexity_params;

typedef struct rdg_perplexity_result {
    double perplexity, perplexity_stderr;
    int64_t n_chunks, n_scored_tokens;
    int64_t n_not_finite; /* logits at the scored positions that are NaN or infinite; a warning says where */
    double seconds;
    /* With a base; NaN otherwise. KL in nats, base against this model, over the scored positions. */
    double kl_mean, kl_stderr, kl_median, kl_p90, kl_p99, kl_max;
    double same_top; /* share of positions with the same most likely token */
    double ln_ratio; /* mean ln(PPL / PPL_base) */
    double ln_ratio_stderr;
} rdg_perplexity_result;

/* tokens: the whole text tokenised once (rdg_tokenize with add_special). The session must be empty and its
 * context at least n_ctx. Needs 2 * n_ctx tokens. */
rdg_err rdg_perplexity(rdg_session *s, const int32_t *tokens, int64_t n, const rdg_perplexity_params *p,
                       rdg_perplexity_result *r, rdg_error *e);

typedef struct rdg_collect_params {
    int64_t n_ctx;      /* tokens a chunk, 512 */
    int64_t max_chunks; /* 0 = all */
    int n_threads;      /* 0 = physical cores */
    const char *device; /* NULL = cpu */
    int64_t gpu_layers; /* as in rdg_session_params */
    uint64_t device_memory_bytes;
    const char *dataset; /* name noted in the matrix; or NULL */
    const rdg_log *log;
} rdg_collect_params;
typedef struct rdg_collect_result {
    int64_t n_chunks, n_tokens;
    double seconds, perplexity; /* of the calibration text, a by-product */
} rdg_collect_result;
/* Sums of squared activations over calibration text. The same numbers from any number of threads. */
rdg_err rdg_imatrix_collect(rdg_model *m, const int32_t *tokens, int64_t n, const rdg_collect_params *p,
                            rdg_imatrix **out, rdg_collect_result *r, rdg_error *e);

/* Embeddings of one text's tokens: [n_embd] into out. */
typedef enum rdg_pooling { RDG_POOL_MEAN, RDG_POOL_CLS, RDG_POOL_LAST } rdg_pooling;
rdg_err rdg_embed_tokens(rdg_session *s, const int32_t *tokens, int64_t n, rdg_pooling pooling,
                         bool normalise, float *out, rdg_error *e);
/* A session whose result is hidden states, for rdg_embed_tokens. */
rdg_err rdg_session_create_embedding(rdg_model *m, const rdg_session_params *p, rdg_session **out,
                                     rdg_error *e);

/* Proves a file: architecture and hyper-parameters against every shape, finite values and scales, checksums
 * if the file has them. Each problem is one line to `problem`; the result is RDG_OK if the checks could be
 * made. */
rdg_err rdg_model_verify(const rdg_gguf *g, int n_threads, void (*problem)(void *user, const char *text),
                         void *user, const rdg_log *log, rdg_error *e);

#ifdef __cplusplus
}
#endif
#endif
