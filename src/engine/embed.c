/* Embeddings: hidden states of a whole text, pooled and normalised. */
#include "engine/session_internal.h"
#include <ridge/evaluate.h>

#include <math.h>
#include <string.h>

rdg_err rdg_session_create_embedding(rdg_model *m, const rdg_session_params *p, rdg_session **out,
                                     rdg_error *e)
{
    return rdg_session_create_for(m, p, false, true, out, e);
}

rdg_err rdg_embed_tokens(rdg_session *s, const int32_t *tokens, int64_t n, rdg_pooling pooling,
                         bool normalise, float *out, rdg_error *e)
{
    int64_t n_embd = s->model->hparams.n_embd;
    rdg_session_reset(s);
    rdg_err err = rdg_session_eval(s, tokens, n, RDG_LOGITS_ALL, e);
    if (err) return err;
    if (pooling == RDG_POOL_MEAN) {
        for (int64_t c = 0; c < n_embd; c++) {
            double sum = 0;
            for (int64_t i = 0; i < n; i++) sum += rdg_session_logits(s, i)[c];
            out[c] = (float)(sum / (double)n);
        }
    } else {
        memcpy(out, rdg_session_logits(s, pooling == RDG_POOL_CLS ? 0 : n - 1), (size_t)n_embd * sizeof *out);
    }
    double squares = 0;
    for (int64_t c = 0; c < n_embd; c++) squares += (double)out[c] * out[c];
    if (!isfinite(squares))
        return rdg_fail(e, RDG_E_MALFORMED, "the embedding is not finite; the model is broken");
    for (int64_t c = 0; c < n_embd && normalise && squares > 0; c++) out[c] = (float)(out[c] / sqrt(squares));
    return RDG_OK;
}
