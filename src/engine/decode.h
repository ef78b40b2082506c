/* Decoding that stays on the device where it can. */
#ifndef RDG_ENGINE_DECODE_H
#define RDG_ENGINE_DECODE_H

#include "engine/session_internal.h"

/* Evaluates `token` and then each token picked, n tokens in all or until on_token returns false. Token i is
 * picked by the operation `sample` with the random number of `seed` and `step` + i: alike on every device, as
 * far as the logits are. */
typedef struct rdg_decode {
    int32_t token;
    int64_t n;
    rdg_sample_params sample; /* zeros: greedy */
    uint64_t seed;
    uint32_t step;
    bool (*on_token)(void *user, int32_t token); /* gets each pick; the last one has not been evaluated */
    /* The launches of each step with their times, see rdg_generate. UNSUPPORTED where the host picks. */
    void (*on_spans)(void *user, const rdg_launch_span *spans, int64_t n);
    void *user;
} rdg_decode;
/* The session's device picks the tokens; otherwise the host does, from the logits of each. */
bool rdg_session_picks_on_device(const rdg_session *s);
/* *n_done: tokens evaluated. */
rdg_err rdg_session_decode(rdg_session *s, const rdg_decode *d, int64_t *n_done, rdg_error *e);
rdg_err rdg_session_decode_greedy(rdg_session *s, int32_t token, int64_t n,
                                  bool (*on_token)(void *user, int32_t token), void *user, int64_t *n_done,
                                  rdg_error *e);

#endif
