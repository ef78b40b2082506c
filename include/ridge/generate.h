/* Decoding: evaluate a token, pick the next one, go on. */
#ifndef RIDGE_GENERATE_H
#define RIDGE_GENERATE_H

#include <ridge/model.h>
#include <ridge/sampler.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Evaluates `token`, then each token that the sampler picks, n tokens in all or until on_token returns false.
 * on_token gets each pick, which the sampler has accepted; the last one has not been evaluated. *n_done:
 * tokens evaluated.
 *
 * Where the session's device can pick by the sampler's settings it does so, and the next token is under way
 * while on_token looks at one; otherwise the host picks from the logits of each. The tokens are the same as
 * far as the logits are: both use one definition and the random numbers of the sampler's seed.
 * rdg_session_logits has nothing afterwards. */
rdg_err rdg_session_generate(rdg_session *s, rdg_sampler *sampler, int32_t token, int64_t n,
                             bool (*on_token)(void *user, int32_t token), void *user, int64_t *n_done,
                             rdg_error *e);

/* NULL if rdg_session_generate picks on the device; otherwise why the host does, naming the setting. */
const char *rdg_session_picks_on_host(const rdg_session *s, const rdg_sampler *sampler);

#ifdef __cplusplus
}
#endif
#endif
