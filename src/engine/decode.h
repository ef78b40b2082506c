/* Greedy decoding, on the device where it can. */
#ifndef RDG_ENGINE_DECODE_H
#define RDG_ENGINE_DECODE_H

#include "engine/session_internal.h"

/* Evaluates `token` and then each token picked (the largest logit, the first of equals), n tokens in all or
 * until on_token returns false. on_token gets each pick; the last one has not been evaluated. *n_done: tokens
 * evaluated. */
rdg_err rdg_session_decode_greedy(rdg_session *s, int32_t token, int64_t n,
                                  bool (*on_token)(void *user, int32_t token), void *user, int64_t *n_done,
                                  rdg_error *e);

#endif
