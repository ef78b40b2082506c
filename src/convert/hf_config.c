/* config.json: typed access with aliases, and the keys that every architecture shares. */
#include "convert/hf.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { KEY_CAP = 160 };

void rdg_hf_fail(rdg_hf *c, rdg_err code, const char *fmt, ...)
{
    if (c->failed) return;
    char text[sizeof c->error.message];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    c->failed = rdg_fail(&c->error, code, "%s", text);
}

void rdg_hf_warn(rdg_hf *c, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    rdg_log_warn(c->log, "%s", text);
    rdg_hf_keep_warning(c, text);
}

void rdg_hf_keep_warning(rdg_hf *c, const char *text)
{
    char *copy = rdg_strdup(text);
    if (!copy || !rdg_grow(&c->warnings, c->n_warnings, &c->cap_warnings, sizeof *c->warnings)) {
        rdg_free(copy);
        rdg_hf_fail(c, RDG_E_NOMEM, "no memory for a warning");
        return;
    }
    c->warnings[c->n_warnings++] = copy;
}

/* Fields
 * ------------------------------------------------------------------------------------------------------- */

/* The object and the alias that hold the field; false if none does. `key` has room for KEY_CAP bytes. */
static bool locate(const rdg_hf *c, const char *names, const json_t **object, char *key)
{
    const json_t *places[] = {c->text, c->root, c->defaults};
    for (int i = 0; i < RDG_COUNTOF(places); i++) {
        for (const char *p = names; places[i] && *p;) {
            size_t n = strcspn(p, "|");
            snprintf(key, KEY_CAP, "%.*s", (int)n, p);
            if (rdg_json_has(places[i], key)) {
                *object = places[i];
                return true;
            }
            p += n + (p[n] == '|');
        }
    }
    return false;
}

static void missing(rdg_hf *c, const char *names)
{
    rdg_hf_fail(c, RDG_E_MALFORMED, "%s/config.json: field '%s' is missing", c->dir, names);
}

/* An error of the JSON getters, with the file in front. */
static void keep(rdg_hf *c, rdg_err err, const rdg_error *why)
{
    rdg_hf_fail(c, err, "%s/config.json: %s", c->dir, why->message);
}

int64_t rdg_hf_int(rdg_hf *c, const char *names, int64_t lo, int64_t hi, int64_t fallback)
{
    char key[KEY_CAP];
    const json_t *object;
    rdg_error why = {0};
    int64_t safe = fallback == RDG_HF_REQUIRED ? lo : fallback, v = safe;
    if (c->failed) return safe;
    if (!locate(c, names, &object, key)) {
        if (fallback == RDG_HF_REQUIRED) missing(c, names);
        return safe;
    }
    rdg_err err = rdg_json_int(object, key, lo, hi, &v, &why);
    if (err) keep(c, err, &why);
    return err ? safe : v;
}

double rdg_hf_real(rdg_hf *c, const char *names, double fallback)
{
    char key[KEY_CAP];
    const json_t *object;
    rdg_error why = {0};
    double safe = isnan(fallback) ? 1.0 : fallback, v = safe;
    if (c->failed) return safe;
    if (!locate(c, names, &object, key)) {
        if (isnan(fallback)) missing(c, names);
        return safe;
    }
    rdg_err err = rdg_json_real(object, key, &v, &why);
    if (err) keep(c, err, &why);
    return err ? safe : v;
}

bool rdg_hf_bool(rdg_hf *c, const char *names, bool fallback)
{
    char key[KEY_CAP];
    const json_t *object;
    rdg_error why = {0};
    bool v = fallback;
    if (c->failed || !locate(c, names, &object, key)) return fallback;
    rdg_err err = rdg_json_bool(object, key, &v, &why);
    if (err) keep(c, err, &why);
    return err ? fallback : v;
}

const char *rdg_hf_str(rdg_hf *c, const char *names, const char *fallback)
{
    char key[KEY_CAP];
    const json_t *object;
    rdg_error why = {0};
    const char *v = fallback;
    if (c->failed || !locate(c, names, &object, key)) return fallback;
    rdg_err err = rdg_json_str(object, key, &v, &why);
    if (err) keep(c, err, &why);
    return err ? fallback : v;
}

const json_t *rdg_hf_find(rdg_hf *c, const char *names)
{
    char key[KEY_CAP];
    const json_t *object;
    return !c->failed && locate(c, names, &object, key) ? json_object_get(object, key) : NULL;
}

void rdg_hf_expect_bool(rdg_hf *c, const char *names, bool want, const char *why)
{
    if (rdg_hf_bool(c, names, want) == want) return;
    rdg_hf_fail(c, RDG_E_UNSUPPORTED, "%s/config.json: field '%s' is %s: %s", c->dir, names,
                want ? "false" : "true", why);
}

/* Keys
 * ---------------------------------------------------------------------------------------------------------
 */

static void key_of(const rdg_hf *c, const char *suffix, char out[KEY_CAP])
{
    snprintf(out, KEY_CAP, "%s.%s", c->cls->arch, suffix);
}

void rdg_hf_set_int(rdg_hf *c, const char *suffix, int64_t v)
{
    char key[KEY_CAP];
    key_of(c, suffix, key);
    if (!c->failed) rdg_gguf_set_u32(c->writer, key, (uint32_t)v);
}

void rdg_hf_set_real(rdg_hf *c, const char *suffix, double v)
{
    char key[KEY_CAP];
    key_of(c, suffix, key);
    if (!c->failed) rdg_gguf_set_f32(c->writer, key, (float)v);
}

void rdg_hf_set_bool(rdg_hf *c, const char *suffix, bool v)
{
    char key[KEY_CAP];
    key_of(c, suffix, key);
    if (!c->failed) rdg_gguf_set_bool(c->writer, key, v);
}

void rdg_hf_set_str(rdg_hf *c, const char *suffix, const char *v)
{
    char key[KEY_CAP];
    key_of(c, suffix, key);
    if (!c->failed) rdg_gguf_set_str(c->writer, key, v);
}

/* Opening
 * ------------------------------------------------------------------------------------------------------- */

static void find_class(rdg_hf *c)
{
    const json_t *list = rdg_hf_find(c, "architectures");
    const char *name = NULL;
    if (json_is_array(list) && json_array_size(list) > 0) name = json_string_value(json_array_get(list, 0));
    if (!name) {
        rdg_hf_fail(c, RDG_E_MALFORMED, "%s/config.json: field 'architectures' must name one model class",
                    c->dir);
        return;
    }
    c->cls = rdg_hf_class_find(name);
    if (!c->cls)
        rdg_hf_fail(c, RDG_E_UNSUPPORTED,
                    "%s/config.json: field 'architectures' is '%.80s', supported are: %s", c->dir, name,
                    rdg_hf_class_list());
}

static void init(rdg_hf *c, const char *dir, const rdg_log *log)
{
    memset(c, 0, sizeof *c);
    c->dir = dir;
    c->log = log;
    rdg_arena_init(&c->arena);
}

static rdg_err open_root(rdg_hf *c, rdg_error *e)
{
    rdg_err err;
    /* Multimodal wrappers keep the language model's fields in an object of their own. The root's
     * "architectures" rules. */
    find_class(c);
    const json_t *text = NULL;
    if (!c->failed && c->cls->defaults) {
        err = rdg_json_parse(c->cls->defaults, strlen(c->cls->defaults), c->cls->name, NULL, &c->defaults, e);
        if (err) return err;
    }
    if (!c->failed && rdg_json_has(c->root, "text_config")) {
        text = json_object_get(c->root, "text_config");
        if (!json_is_object(text))
            rdg_hf_fail(c, RDG_E_MALFORMED, "%s/config.json: field 'text_config' must be an object", c->dir);
        else
            c->text = text;
    }
    if (c->failed && e) *e = c->error;
    return c->failed;
}

rdg_err rdg_hf_open(rdg_hf *c, const char *dir, const rdg_log *log, rdg_error *e)
{
    init(c, dir, log);
    if (!rdg_file_exists(dir)) return rdg_fail_errno(e, RDG_E_IO, errno, "cannot open '%s'", dir);
    if (!rdg_is_directory(dir))
        return rdg_fail(e, RDG_E_ARGUMENT,
                        "'%s' is not a folder: a Hugging Face model is a folder with config.json and "
                        "*.safetensors (a GGUF file gets another type from `ridge quantize`)",
                        dir);
    char *path = rdg_path_join(dir, "config.json");
    if (!path) return rdg_fail(e, RDG_E_NOMEM, "no memory for a path");
    rdg_err err = rdg_json_load(path, NULL, &c->root, e);
    if (err && !rdg_file_exists(path) && errno == ENOENT)
        err = rdg_fail(e, RDG_E_IO, "'%s' has no config.json: it is no Hugging Face model", dir);
    rdg_free(path);
    return err ? err : open_root(c, e);
}

rdg_err rdg_hf_parse(rdg_hf *c, const char *dir, const char *config, size_t n, rdg_error *e)
{
    init(c, dir, NULL);
    rdg_err err = rdg_json_parse(config, n, "config.json", NULL, &c->root, e);
    return err ? err : open_root(c, e);
}

void rdg_hf_close(rdg_hf *c)
{
    for (size_t i = 0; i < c->n_warnings; i++) rdg_free(c->warnings[i]);
    rdg_free(c->warnings);
    json_decref(c->defaults);
    json_decref(c->root);
    rdg_arena_finish(&c->arena);
    memset(c, 0, sizeof *c);
}

/* Common keys
 * ---------------------------------------------------------------------------------------------------- */

static void check_activation(rdg_hf *c)
{
    const char *act = rdg_hf_str(c, "hidden_activation|hidden_act|activation_function", NULL);
    if (!act || !c->cls->activations) return;
    size_t n = strlen(act);
    for (const char *p = c->cls->activations; *p;) {
        size_t m = strcspn(p, "|");
        if (m == n && memcmp(p, act, n) == 0) return;
        p += m + (p[m] == '|');
    }
    rdg_hf_fail(c, RDG_E_UNSUPPORTED, "%s/config.json: field 'hidden_act' is '%.40s', %s needs %s", c->dir,
                act, c->cls->name, c->cls->activations);
}

/* Checkpoints of other quantisers: their tensors would be refused one by one, this says why. */
static void check_quantisation(rdg_hf *c)
{
    const json_t *q = rdg_hf_find(c, "quantization_config");
    const char *method = json_string_value(json_object_get(q, "quant_method"));
    if (!q || (method && strcmp(method, "mxfp4") == 0)) return;
    rdg_hf_fail(c, RDG_E_UNSUPPORTED,
                "%s/config.json: field 'quantization_config' says that the model is quantised with '%.40s'; "
                "convert from the "
                "unquantised model",
                c->dir, method ? method : "an unnamed method");
}

static void read_heads(rdg_hf *c)
{
    c->n_head = rdg_hf_int(c, "num_attention_heads|n_head", 1, 4096, RDG_HF_REQUIRED);
    c->n_head_kv = rdg_hf_int(c, "num_key_value_heads", 1, 4096, c->n_head);
    bool given = rdg_hf_find(c, "head_dim") != NULL;
    if (c->failed) return;
    if (!given && c->n_embd % c->n_head)
        rdg_hf_fail(c, RDG_E_MALFORMED,
                    "%s/config.json: hidden_size %" PRId64
                    " is not a multiple of num_attention_heads %" PRId64,
                    c->dir, c->n_embd, c->n_head);
    c->head_dim = rdg_hf_int(c, "head_dim", 2, 1024, c->n_embd / c->n_head);
    rdg_hf_set_int(c, "attention.head_count", c->n_head);
    rdg_hf_set_int(c, "attention.head_count_kv", c->n_head_kv);
    if (given) {
        rdg_hf_set_int(c, "attention.key_length", c->head_dim);
        rdg_hf_set_int(c, "attention.value_length", c->head_dim);
    }
}

static void read_experts(rdg_hf *c)
{
    c->n_expert = rdg_hf_int(c, "num_local_experts|num_experts|n_routed_experts", 0, 1024, 0);
    c->n_ff_expert = rdg_hf_int(c, "moe_intermediate_size", 1, INT32_MAX, c->n_ff);
    if (c->n_expert == 0) return;
    rdg_hf_set_int(c, "expert_count", c->n_expert);
    rdg_hf_set_int(
        c, "expert_used_count",
        rdg_hf_int(c, "num_experts_per_tok|num_experts_per_token", 1, c->n_expert, RDG_HF_REQUIRED));
    if (rdg_hf_find(c, "moe_intermediate_size"))
        rdg_hf_set_int(c, "expert_feed_forward_length", c->n_ff_expert);
}

void rdg_hf_read_config(rdg_hf *c)
{
    check_quantisation(c);
    check_activation(c);
    c->n_layer = rdg_hf_int(c, "num_hidden_layers|n_layers|n_layer|num_layers", 1, 1024, RDG_HF_REQUIRED);
    c->n_embd = rdg_hf_int(c, "hidden_size|n_embd", 1, 1 << 18, RDG_HF_REQUIRED);
    c->n_ctx = rdg_hf_int(c, "max_position_embeddings|n_positions|n_ctx", 1, INT32_MAX, RDG_HF_REQUIRED);
    c->n_ff = rdg_hf_int(c, "intermediate_size|n_inner", 1, 1 << 22,
                         c->cls->four_times_ff ? 4 * c->n_embd : RDG_HF_REQUIRED);
    rdg_hf_set_int(c, "block_count", c->n_layer);
    rdg_hf_set_int(c, "context_length", c->n_ctx);
    rdg_hf_set_int(c, "embedding_length", c->n_embd);
    rdg_hf_set_int(c, "feed_forward_length", c->n_ff);
    read_heads(c);
    read_experts(c);
    if (c->cls->layer_norm)
        rdg_hf_set_real(c, "attention.layer_norm_epsilon",
                        rdg_hf_real(c, "layer_norm_eps|layer_norm_epsilon|norm_epsilon", 1e-5));
    else
        rdg_hf_set_real(c, "attention.layer_norm_rms_epsilon", rdg_hf_real(c, "rms_norm_eps", NAN));
    c->tied = rdg_hf_find(c, "tie_word_embeddings") ? rdg_hf_bool(c, "tie_word_embeddings", false) : -1;
    if (c->cls->always_tied) c->tied = 1;
    c->n_rot = c->head_dim;
    if (!c->cls->no_rope) rdg_hf_read_rope(c);
    rdg_hf_read_window(c);
    if (c->cls->keys && !c->failed) c->cls->keys(c);
}
