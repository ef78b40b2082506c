/* RoPE keys → the parameters of the rope operation. Three mechanisms meet here:
 * linear (angles divided by the factor), yarn (a ramp between divided and plain angles, and a magnitude), and
 * longrope (one divisor per pair, from tensors; only the magnitude is metadata). llama3 scaling has no keys
 * at all: it is the tensor rope_freqs.weight. */
#include "model/arch.h"

#include <string.h>

static bool is(rdg_str s, const char *word)
{
    return s.n == strlen(word) && memcmp(s.p, word, s.n) == 0;
}

static const float tiny = 1e-6f, huge = 1e9f;

/* The pair index at which `rotations` turns fit into the original context. */
static double yarn_dim(double rotations, double n_dims, double n_ctx, double base)
{
    return n_dims * log(n_ctx / (2 * M_PI * rotations)) / (2 * log(base));
}

static void yarn(rdg_keys *k, const rdg_arch *arch, rdg_hparams *h, float factor)
{
    rdg_rope_params *r = &h->rope;
    double fast = (double)rdg_key_float(k, "rope.scaling.yarn_beta_fast", tiny, huge, 32.0f);
    double slow = (double)rdg_key_float(k, "rope.scaling.yarn_beta_slow", tiny, huge, 1.0f);
    float attn = rdg_key_float(k, "rope.scaling.yarn_attn_factor", tiny, huge, 1.0f);
    attn = rdg_key_float(k, "rope.scaling.attn_factor", tiny, huge, attn);
    if (rdg_key_float(k, "rope.scaling.yarn_log_multiplier", -huge, huge, 0.0f) != 0.0f)
        rdg_keys_fail(k, RDG_E_UNSUPPORTED,
                      "key '%s.rope.scaling.yarn_log_multiplier' is not supported for this architecture",
                      k->arch);
    if (h->rope_base <= 1.0f)
        rdg_keys_fail(k, RDG_E_MALFORMED, "key '%s.rope.freq_base' is %g, yarn needs more than 1", k->arch,
                      (double)h->rope_base);
    double low = yarn_dim(fast, (double)h->n_rot, (double)h->n_ctx_orig, (double)h->rope_base);
    double high = yarn_dim(slow, (double)h->n_rot, (double)h->n_ctx_orig, (double)h->rope_base);
    /* Not a key of the field: written by our converter where a model departs from its architecture's habit.
     */
    if (rdg_key_bool(k, "rope.scaling.yarn_truncate", !arch->yarn_exact)) {
        low = floor(low);
        high = ceil(high);
    }
    r->freq_scale = 1.0f / factor;
    r->ext_factor = 1.0f;
    r->corr_low = (float)fmax(0.0, low);
    r->corr_high = (float)fmin((double)h->n_rot - 1, high);
    r->magnitude = (float)((double)attn * (1.0 + 0.1 * log((double)factor)));
}

void rdg_hparams_read_rope(rdg_keys *k, const rdg_arch *arch, rdg_hparams *h)
{
    h->rope_base = rdg_key_float(k, "rope.freq_base", tiny, 1e12f, 10000.0f);
    h->rope_base_local = rdg_key_float(k, "rope.freq_base_swa", tiny, 1e12f, h->rope_base);
    h->rope = (rdg_rope_params){
        .n_dims = (int32_t)h->n_rot, .freq_base = h->rope_base, .freq_scale = 1.0f, .magnitude = 1.0f};
    h->n_ctx_orig = rdg_key_int(k, "rope.scaling.original_context_length", 1, INT32_MAX, h->n_ctx_train);

    rdg_str type = rdg_key_str(k, "rope.scaling.type");
    float legacy = rdg_key_float(k, "rope.scale_linear", tiny, huge, 1.0f);
    float factor = rdg_key_float(k, "rope.scaling.factor", tiny, huge, legacy);
    if (is(type, "yarn")) {
        yarn(k, arch, h, factor);
    } else if (is(type, "longrope")) {
        h->longrope = true;
        h->rope.magnitude = rdg_key_float(k, "rope.scaling.attn_factor", tiny, huge, 1.0f);
    } else if (is(type, "linear")) {
        h->rope.freq_scale = 1.0f / factor;
    } else if (type.n == 0) {
        h->rope.freq_scale = 1.0f / legacy;
    } else if (!is(type, "none")) {
        rdg_keys_fail(k, RDG_E_UNSUPPORTED,
                      "key '%s.rope.scaling.type' is '%.*s', supported are none, linear, yarn and longrope",
                      k->arch, (int)(type.n > 64 ? 64 : type.n), type.p);
    }
    h->rope_local = h->rope;
    h->rope_local.freq_base = h->rope_base_local;
}
