/* Rotation and window settings of config.json. Two generations of configs must be read: rope_theta and
 * rope_scaling at the top level, or all in rope_parameters (gemma3: one such object for each kind of layer).
 * Who reads only the first form silently gets base 10000. */
#include "convert/hf.h"
#include "model/arch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The object that describes the rotation of global layers, or NULL. */
static const json_t *rope_object(rdg_hf *c, const char *layer_type)
{
    const json_t *rope = rdg_hf_find(c, "rope_parameters|rope_scaling");
    if (!rope) return NULL;
    if (!json_is_object(rope)) {
        rdg_hf_fail(c, RDG_E_MALFORMED,
                    "%s/config.json: field 'rope_parameters' or 'rope_scaling' must be an object", c->dir);
        return NULL;
    }
    const json_t *inner = json_object_get(rope, layer_type);
    return json_is_object(inner) ? inner : rope;
}

/* A number of the rope object; fallback if it is absent. */
static double rope_real(rdg_hf *c, const json_t *rope, const char *key, double fallback)
{
    rdg_error why = {0};
    double v = fallback;
    rdg_err err = rope ? rdg_json_real(rope, key, &v, &why) : RDG_OK;
    if (err) rdg_hf_fail(c, err, "%s/config.json, rope settings: %s", c->dir, why.message);
    return err ? fallback : v;
}

/* As rope_real, then the top level of the config, then the fallback. */
static double rope_or_top(rdg_hf *c, const json_t *rope, const char *key, const char *top_names,
                          double fallback)
{
    return rope_real(c, rope, key, rdg_hf_real(c, top_names, fallback));
}

static float *generate(rdg_hf *c, const char *name, int64_t n)
{
    rdg_hf_generated *g = &c->generated[c->n_generated];
    if (c->n_generated >= RDG_COUNTOF(c->generated)) {
        rdg_hf_fail(c, RDG_E_INTERNAL, "too many generated tensors");
        return NULL;
    }
    g->data = rdg_arena_array(&c->arena, (size_t)n, sizeof(float));
    if (!g->data) {
        rdg_hf_fail(c, RDG_E_NOMEM, "no memory for '%s'", name);
        return NULL;
    }
    snprintf(g->name, sizeof g->name, "%s", name);
    g->n = n;
    c->n_generated++;
    return g->data;
}

/* Wavelengths beyond the original context are stretched by the factor, short ones kept, with a ramp between.
 */
static void llama3(rdg_hf *c, const json_t *rope, double base)
{
    double factor = rope_real(c, rope, "factor", 8.0);
    double low = rope_real(c, rope, "low_freq_factor", 1.0),
           high = rope_real(c, rope, "high_freq_factor", 4.0);
    double context = rope_real(c, rope, "original_max_position_embeddings", 8192.0);
    float *r = generate(c, "rope_freqs.weight", c->n_rot / 2);
    if (!r) return;
    if (!(factor > 0 && low > 0 && high > low && context > 0)) {
        rdg_hf_fail(
            c, RDG_E_MALFORMED,
            "%s/config.json: llama3 rope scaling with factor %g, low_freq_factor %g, high_freq_factor %g, "
            "original_max_position_embeddings %g is not possible",
            c->dir, factor, low, high, context);
        return;
    }
    for (int64_t i = 0; i < c->n_rot / 2; i++) {
        double wavelength = 2 * M_PI * pow(base, 2.0 * (double)i / (double)c->n_rot);
        double t = (context / wavelength - low) / (high - low);
        if (wavelength < context / high)
            r[i] = 1.0f;
        else if (wavelength > context / low)
            r[i] = (float)factor;
        else
            r[i] = (float)(1.0 / ((1.0 - t) / factor + t));
    }
}

static double mscale(double factor, double m)
{
    return factor > 1 ? 0.1 * m * log(factor) + 1.0 : 1.0;
}

/* Written as an integer, so it has to fit one. */
static bool is_context(double positions, double least)
{
    return positions >= least && positions <= INT32_MAX;
}

static void yarn(rdg_hf *c, const json_t *rope)
{
    double factor = rope_real(c, rope, "factor", NAN);
    double original = rope_or_top(c, rope, "original_max_position_embeddings",
                                  "original_max_position_embeddings", (double)c->n_ctx);
    if (!(factor > 0) || !is_context(original, 1)) {
        rdg_hf_fail(
            c, RDG_E_MALFORMED,
            "%s/config.json: yarn rope scaling needs a positive 'factor', and a number of positions in "
            "'original_max_position_embeddings'",
            c->dir);
        return;
    }
    rdg_hf_set_str(c, "rope.scaling.type", "yarn");
    rdg_hf_set_real(c, "rope.scaling.factor", factor);
    rdg_hf_set_int(c, "rope.scaling.original_context_length", (int64_t)original);
    double fast = rope_real(c, rope, "beta_fast", 32.0), slow = rope_real(c, rope, "beta_slow", 1.0);
    if (fast != 32.0) rdg_hf_set_real(c, "rope.scaling.yarn_beta_fast", fast);
    if (slow != 1.0) rdg_hf_set_real(c, "rope.scaling.yarn_beta_slow", slow);
    /* The file's factor multiplies 1 + 0.1 ln factor; the config's replaces it. */
    double usual = mscale(factor, 1.0), wanted = rope_real(c, rope, "attention_factor", 0.0);
    double m = rope_real(c, rope, "mscale", 0.0), m_all = rope_real(c, rope, "mscale_all_dim", 0.0);
    if (wanted == 0.0 && m != 0.0 && m_all != 0.0) wanted = mscale(factor, m) / mscale(factor, m_all);
    if (wanted != 0.0 && wanted != usual)
        rdg_hf_set_real(c, "rope.scaling.attn_factor", wanted / (1.0 + 0.1 * log(factor)));
    rdg_error why = {0};
    bool truncate = true;
    rdg_err err = rdg_json_bool(rope, "truncate", &truncate, &why);
    if (err) rdg_hf_fail(c, err, "%s/config.json, rope settings: %s", c->dir, why.message);
    const rdg_arch *arch = rdg_arch_find(c->cls->arch, strlen(c->cls->arch));
    if (arch && truncate == arch->yarn_exact) rdg_hf_set_bool(c, "rope.scaling.yarn_truncate", truncate);
}

static void longrope_factors(rdg_hf *c, const json_t *rope, const char *field, const char *name)
{
    const json_t *list = json_object_get(rope, field);
    if (!json_is_array(list) || json_array_size(list) != (size_t)(c->n_rot / 2)) {
        rdg_hf_fail(c, RDG_E_MALFORMED,
                    "%s/config.json: longrope '%s' must have %" PRId64 " numbers, one a pair", c->dir, field,
                    c->n_rot / 2);
        return;
    }
    float *r = generate(c, name, c->n_rot / 2);
    for (int64_t i = 0; r && i < c->n_rot / 2; i++) {
        const json_t *v = json_array_get(list, (size_t)i);
        r[i] = (float)json_number_value(v);
        if (!json_is_number(v) || !isfinite(r[i]) || r[i] <= 0)
            rdg_hf_fail(c, RDG_E_MALFORMED,
                        "%s/config.json: longrope '%s'[%" PRId64 "] must be a positive number", c->dir, field,
                        i);
    }
}

static void longrope(rdg_hf *c, const json_t *rope)
{
    double original = rdg_hf_real(c, "original_max_position_embeddings", 0.0);
    original = rope_real(c, rope, "original_max_position_embeddings", original);
    if (!is_context(original, 2)) {
        rdg_hf_fail(c, RDG_E_MALFORMED, "%s/config.json: longrope needs 'original_max_position_embeddings'",
                    c->dir);
        return;
    }
    double s = (double)c->n_ctx / original;
    double attn = s > 1 ? sqrt(1.0 + log(s) / log(original)) : 1.0;
    attn = rope_real(c, rope, "attention_factor", attn);
    rdg_hf_set_str(c, "rope.scaling.type", "longrope");
    rdg_hf_set_int(c, "rope.scaling.original_context_length", (int64_t)original);
    rdg_hf_set_real(c, "rope.scaling.attn_factor", attn);
    longrope_factors(c, rope, "long_factor", "rope_factors_long.weight");
    longrope_factors(c, rope, "short_factor", "rope_factors_short.weight");
}

void rdg_hf_read_rope(rdg_hf *c)
{
    const json_t *rope = rope_object(c, "full_attention");
    double base = rope_or_top(c, rope, "rope_theta", "rope_theta|rotary_emb_base", 10000.0);
    double share = rope_or_top(c, rope, "partial_rotary_factor", "partial_rotary_factor|rope_pct",
                               c->cls->rotary_default > 0 ? (double)c->cls->rotary_default : 1.0);
    if (c->failed) return;
    if (!(base > 0) || !(share > 0 && share <= 1)) {
        rdg_hf_fail(c, RDG_E_MALFORMED,
                    "%s/config.json: rope_theta %g and partial_rotary_factor %g: the one must be positive, "
                    "the other 0 … 1",
                    c->dir, base, share);
        return;
    }
    c->n_rot = (int64_t)(share * (double)c->head_dim);
    rdg_hf_set_real(c, "rope.freq_base", base);
    if (c->cls->writes_n_rot || c->n_rot != c->head_dim) rdg_hf_set_int(c, "rope.dimension_count", c->n_rot);

    const char *type = NULL;
    rdg_error why = {0};
    rdg_err err = RDG_OK;
    if (rope) err = rdg_json_str(rope, rdg_json_has(rope, "rope_type") ? "rope_type" : "type", &type, &why);
    if (err) rdg_hf_fail(c, err, "%s/config.json, rope settings: %s", c->dir, why.message);
    if (c->failed || !type || strcmp(type, "default") == 0 || strcmp(type, "none") == 0) return;
    if (strcmp(type, "linear") == 0) {
        double factor = rope_real(c, rope, "factor", NAN);
        if (!(factor > 0))
            rdg_hf_fail(c, RDG_E_MALFORMED, "%s/config.json: linear rope scaling needs a positive 'factor'",
                        c->dir);
        rdg_hf_set_str(c, "rope.scaling.type", "linear");
        rdg_hf_set_real(c, "rope.scaling.factor", factor);
    } else if (strcmp(type, "llama3") == 0) {
        llama3(c, rope, base);
    } else if (strcmp(type, "yarn") == 0) {
        yarn(c, rope);
    } else if (strcmp(type, "longrope") == 0 || strcmp(type, "su") == 0) {
        longrope(c, rope);
    } else if (strcmp(type, "dynamic") == 0) {
        rdg_hf_warn(c,
                    "dynamic rope scaling has no form in GGUF: the model is exact up to %" PRId64
                    " positions and not beyond",
                    c->n_ctx);
    } else {
        rdg_hf_fail(c, RDG_E_UNSUPPORTED,
                    "%s/config.json: rope scaling '%.40s' is not supported; known are linear, llama3, yarn "
                    "and longrope",
                    c->dir, type);
    }
}

/* Which layers see only the window: config's layer_types, else the class's habit. */
static void local_layers(rdg_hf *c, bool *local)
{
    const json_t *types = rdg_hf_find(c, "layer_types");
    if (json_is_array(types)) {
        if (json_array_size(types) != (size_t)c->n_layer) {
            rdg_hf_fail(c, RDG_E_MALFORMED,
                        "%s/config.json: field 'layer_types' has %zu entries for %" PRId64 " layers", c->dir,
                        json_array_size(types), c->n_layer);
            return;
        }
        for (int64_t i = 0; i < c->n_layer; i++) {
            const char *t = json_string_value(json_array_get(types, (size_t)i));
            if (t && strcmp(t, "sliding_attention") == 0)
                local[i] = true;
            else if (!t || strcmp(t, "full_attention") != 0)
                rdg_hf_fail(c, RDG_E_UNSUPPORTED,
                            "%s/config.json: layer_types[%" PRId64
                            "] is '%.40s', known are full_attention and "
                            "sliding_attention",
                            c->dir, i, t ? t : "not a string");
        }
        return;
    }
    int64_t period = rdg_hf_int(c, "sliding_window_pattern|_sliding_window_pattern", 1, RDG_MAX_LAYERS,
                                c->cls->window_period);
    int64_t first = period < 0 ? rdg_hf_int(c, "max_window_layers", 0, INT32_MAX, 0) : 0;
    for (int64_t i = first; i < c->n_layer; i++) local[i] = period <= 0 || i % period < period - 1;
}

void rdg_hf_read_window(rdg_hf *c)
{
    int64_t window = rdg_hf_int(c, "sliding_window", 0, INT32_MAX, 0);
    if (c->cls->window_period < 0 && !rdg_hf_bool(c, "use_sliding_window", false)) window = 0;
    const rdg_arch *arch = rdg_arch_find(c->cls->arch, strlen(c->cls->arch));
    if (c->failed || window == 0 || !arch) return;
    bool local[RDG_MAX_LAYERS] = {0}, any = false, usual = true;
    local_layers(c, local);
    for (int64_t i = 0; i < c->n_layer; i++) {
        int64_t period = arch->window_period;
        any |= local[i];
        usual &= local[i] == (period == 0 || i % period < period - 1);
    }
    if (!any) return;
    rdg_hf_set_int(c, "attention.sliding_window", window);
    if (usual || c->failed) return;
    char key[96];
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", c->cls->arch);
    rdg_gguf_set_array(c->writer, key, RDG_GGUF_BOOL, local, (uint64_t)c->n_layer);
}
