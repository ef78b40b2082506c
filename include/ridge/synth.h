/* Models with real shapes and random weights, for benchmarks where weights cannot be had. */
#ifndef RIDGE_SYNTH_H
#define RIDGE_SYNTH_H

#include <ridge/quantize.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rdg_synth_params {
    const char *like; /* a name of rdg_synth_list() */
    rdg_recipe recipe;
    int64_t n_layers; /* 0 = as many as the model has */
    uint64_t seed;
    const rdg_log *log;
} rdg_synth_params;

const char *rdg_synth_list(void); /* "llama-1b llama-3b …" */
/* Writes a GGUF without tokenizer. Weights are blocks of properly quantised normal random numbers, drawn from
 * a pool with repetition: every block is valid and no two rows are equal, but it is no model. */
rdg_err rdg_synth(const char *out, const rdg_synth_params *p, uint64_t *bytes, int64_t *n_params,
                  rdg_error *e);

#ifdef __cplusplus
}
#endif
#endif
