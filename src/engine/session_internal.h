/* Inside of rdg_session, for the engine (imatrix, perplexity, bench, state files). */
#ifndef RDG_ENGINE_SESSION_INTERNAL_H
#define RDG_ENGINE_SESSION_INTERNAL_H

#include "engine/model_internal.h"
#include "graph/exec.h"

/* Plans made ready, the most recently used kept. One for decode, one per prefill size: a prompt of any length
 * needs the full batch and one remainder, so a handful is plenty. */
enum { SESSION_PLANS = 8 };

typedef struct session_plan {
    rdg_prepared *prepared;
    int64_t n_tokens, n_outputs;
} session_plan;

struct rdg_session {
    rdg_model *model;
    rdg_session_params params; /* resolved: no zeros left that mean "default" */
    bool collect_imatrix, embeddings;
    rdg_pool *pool;
    rdg_exec *exec;
    session_plan plans[SESSION_PLANS];
    int n_plans, next_victim;
    int32_t *positions, *output_rows; /* [n_batch] */
    int32_t *tokens;                  /* [n_ctx]: the sequence, n_past of them */
    int64_t n_past;
    /* After a restore: positions below this are in no window's cache, whatever its size. */
    int64_t window_first;
    float *logits; /* rows gathered over the steps of one eval */
    size_t logits_cap;
    int64_t n_logits_rows;
    int64_t logits_at; /* n_past when the last row was computed */
    rdg_error lost;    /* a device error is sticky */
};

/* Like rdg_session_create with what only the engine asks for. */
rdg_err rdg_session_create_for(rdg_model *m, const rdg_session_params *p, bool collect_imatrix,
                               bool embeddings, rdg_session **out, rdg_error *e);
/* The prepared plan for n_tokens and n_outputs, made at first use. */
rdg_err rdg_session_plan(rdg_session *s, int64_t n_tokens, int64_t n_outputs, rdg_prepared **out,
                         rdg_error *e);
/* Starts a new sequence: keeps memory and plans. */
void rdg_session_reset(rdg_session *s);
/* Room for so many rows of logits. */
rdg_err rdg_session_reserve_logits(rdg_session *s, int64_t rows, rdg_error *e);
/* rdg_session_load_state from memory. */
rdg_err rdg_session_restore_state(rdg_session *s, const void *data, size_t bytes, char **note,
                                  size_t *note_bytes, rdg_error *e);

#endif
