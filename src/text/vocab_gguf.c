/* The tokenizer.* keys of a GGUF file: the only place that knows their names. Keys under ridge.tokenizer.*
 * are ours: they carry what the common keys cannot say (expressions of an unnamed pre-tokeniser,
 * normalisation, whitespace that special tokens swallow, reference tokenisations). Files come from anywhere:
 * every count is checked against the number of tokens before it is used. */
#include "text/vocab.h"
#include "format/tokenizer_json.h"

#include <math.h>
#include <string.h>

enum { MAX_TOKENS = 1 << 24, MAX_EXPRESSIONS = 64, MAX_EXPRESSION_BYTES = 1 << 16, MAX_SELFTESTS = 256 };

#define KEY_EXPRESSIONS     "ridge.tokenizer.pre_expressions"
#define KEY_IGNORE_MERGES   "ridge.tokenizer.ignore_merges"
#define KEY_PREFIX_BYTES    "ridge.tokenizer.byte_level_space_prefix"
#define KEY_PREFIX_FIRST    "ridge.tokenizer.space_prefix_first_only"
#define KEY_PREFIX_UNLESS   "ridge.tokenizer.space_prefix_unless_space"
#define KEY_NORMALIZE       "ridge.tokenizer.normalize"
#define KEY_STRIP_LEFT      "ridge.tokenizer.strip_left"
#define KEY_STRIP_RIGHT     "ridge.tokenizer.strip_right"
#define KEY_SELFTEST_TEXTS  "ridge.tokenizer.selftest.texts"
#define KEY_SELFTEST_COUNTS "ridge.tokenizer.selftest.counts"
#define KEY_SELFTEST_IDS    "ridge.tokenizer.selftest.ids"

static const char *const special_keys[RDG_SPECIAL_COUNT] = {
    [RDG_SPECIAL_BOS] = "tokenizer.ggml.bos_token_id",
    [RDG_SPECIAL_EOS] = "tokenizer.ggml.eos_token_id",
    [RDG_SPECIAL_EOT] = "tokenizer.ggml.eot_token_id",
    [RDG_SPECIAL_EOM] = "tokenizer.ggml.eom_token_id",
    [RDG_SPECIAL_UNK] = "tokenizer.ggml.unknown_token_id",
    [RDG_SPECIAL_SEP] = "tokenizer.ggml.seperator_token_id", /* sic */
    [RDG_SPECIAL_PAD] = "tokenizer.ggml.padding_token_id",
    [RDG_SPECIAL_CLS] = "tokenizer.ggml.cls_token_id",
    [RDG_SPECIAL_MASK] = "tokenizer.ggml.mask_token_id",
    [RDG_SPECIAL_FIM_PRE] = "tokenizer.ggml.fim_pre_token_id",
    [RDG_SPECIAL_FIM_SUF] = "tokenizer.ggml.fim_suf_token_id",
    [RDG_SPECIAL_FIM_MID] = "tokenizer.ggml.fim_mid_token_id",
    [RDG_SPECIAL_FIM_PAD] = "tokenizer.ggml.fim_pad_token_id",
    [RDG_SPECIAL_FIM_REP] = "tokenizer.ggml.fim_rep_token_id",
    [RDG_SPECIAL_FIM_SEP] = "tokenizer.ggml.fim_sep_token_id",
};

static rdg_err no_memory(rdg_error *e)
{
    return rdg_fail(e, RDG_E_NOMEM, "tokenizer: out of memory");
}

/* A key's absence is no error here. */
static rdg_err optional(rdg_err err)
{
    return err == RDG_E_NOT_FOUND ? RDG_OK : err;
}

/* Strings ------------------------------------------------------------------------------------------------ */

/* Copies an array of strings into one block. *out stays NULL and *n 0 when the key is absent. */
static rdg_err read_strings(const rdg_gguf *g, const char *key, size_t limit, rdg_arena *a, rdg_str **out,
                            size_t *n, rdg_error *e)
{
    const rdg_gguf_kv *kv;
    rdg_err err = rdg_gguf_get_array(g, key, RDG_GGUF_STRING, &kv, e);
    if (err) return err;
    if (kv->count > limit)
        return rdg_fail(e, RDG_E_LIMIT, "%s: %llu entries, at most %zu are read", key,
                        (unsigned long long)kv->count, limit);
    size_t bytes = 0;
    for (uint64_t i = 0; i < kv->count; i++)
        if (RDG_ADD_OVERFLOW(bytes, kv->strings[i].n + 1, &bytes)) return no_memory(e);
    rdg_str *copy = rdg_arena_array(a, (size_t)kv->count, sizeof *copy);
    char *text = rdg_arena_alloc(a, bytes);
    if (!copy || !text) return no_memory(e);
    for (uint64_t i = 0; i < kv->count; i++) {
        rdg_str s = kv->strings[i];
        if (s.n) memcpy(text, s.p, s.n);
        copy[i] = (rdg_str){text, s.n};
        text += s.n + 1; /* the arena is zeroed: each ends in NUL */
    }
    *out = copy;
    *n = (size_t)kv->count;
    return RDG_OK;
}

/* A short text that becomes a C string. */
static rdg_err read_name(const rdg_gguf *g, const char *key, rdg_arena *a, const char **out, rdg_error *e)
{
    rdg_str s;
    rdg_err err = rdg_gguf_get_str(g, key, &s, e);
    if (err) return optional(err);
    if (s.n > 256 || memchr(s.p, 0, s.n))
        return rdg_fail(e, RDG_E_MALFORMED, "%s: %zu bytes that are no name", key, s.n);
    *out = rdg_arena_strndup(a, s.p, s.n);
    return *out ? RDG_OK : no_memory(e);
}

/* Per-token arrays --------------------------------------------------------------------------------------- */

static rdg_err per_token(const rdg_gguf *g, const char *key, rdg_gguf_value_type element, int32_t n,
                         const rdg_gguf_kv **kv, rdg_error *e)
{
    rdg_err err = rdg_gguf_get_array(g, key, element, kv, e);
    if (!err && (*kv)->count != (uint64_t)n)
        err = rdg_fail(e, RDG_E_MALFORMED, "%s: %llu entries for %d tokens", key,
                       (unsigned long long)(*kv)->count, (int)n);
    return err;
}

static rdg_err read_types(const rdg_gguf *g, rdg_vocab *v, rdg_error *e)
{
    const rdg_gguf_kv *kv;
    v->types = rdg_arena_alloc(&v->arena, (size_t)v->n_tokens);
    if (!v->types) return no_memory(e);
    memset(v->types, RDG_TOKEN_NORMAL, (size_t)v->n_tokens);
    rdg_err err = per_token(g, "tokenizer.ggml.token_type", RDG_GGUF_INT32, v->n_tokens, &kv, e);
    if (err) return optional(err);
    for (int32_t i = 0; i < v->n_tokens; i++) {
        int64_t type = rdg_gguf_kv_int(kv, (uint64_t)i);
        if (type < RDG_TOKEN_UNDEFINED || type > RDG_TOKEN_BYTE)
            return rdg_fail(e, RDG_E_MALFORMED, "tokenizer.ggml.token_type: token %d has unknown type %lld",
                            (int)i, (long long)type);
        v->types[i] = (unsigned char)type;
    }
    return RDG_OK;
}

static rdg_err read_scores(const rdg_gguf *g, rdg_vocab *v, rdg_error *e)
{
    const rdg_gguf_kv *kv;
    rdg_err err = per_token(g, "tokenizer.ggml.scores", RDG_GGUF_FLOAT32, v->n_tokens, &kv, e);
    if (err) return optional(err);
    v->scores = rdg_arena_array(&v->arena, (size_t)v->n_tokens, sizeof *v->scores);
    if (!v->scores) return no_memory(e);
    for (int32_t i = 0; i < v->n_tokens; i++) {
        v->scores[i] = (float)rdg_gguf_kv_float(kv, (uint64_t)i);
        if (!isfinite(v->scores[i]))
            return rdg_fail(e, RDG_E_MALFORMED, "tokenizer.ggml.scores: token %d has no finite score",
                            (int)i);
    }
    return RDG_OK;
}

/* Ids ---------------------------------------------------------------------------------------------------- */

static bool is_special(const rdg_vocab *v, int32_t id)
{
    return v->types[id] == RDG_TOKEN_CONTROL || v->types[id] == RDG_TOKEN_USER_DEFINED ||
           v->types[id] == RDG_TOKEN_UNKNOWN;
}

static rdg_err read_specials(const rdg_gguf *g, const rdg_log *log, rdg_vocab *v, rdg_error *e)
{
    bool typed = v->kind == RDG_VOCAB_BPE || rdg_gguf_find(g, "tokenizer.ggml.token_type");
    for (int i = 0; i < RDG_SPECIAL_COUNT; i++) {
        uint32_t id;
        rdg_err err = rdg_gguf_get_u32(g, special_keys[i], &id, e);
        if (err == RDG_E_NOT_FOUND) {
            /* An id that only the kind implies: token 11 of a byte-level vocabulary is most often a comma. */
            if (v->special[i] >= v->n_tokens ||
                (typed && v->special[i] >= 0 && !is_special(v, v->special[i])))
                v->special[i] = -1;
        } else if (err) {
            return err;
        } else if (id >= (uint32_t)v->n_tokens) {
            v->special[i] = -1;
            if (id != UINT32_MAX) /* written by some tools for "none" */
                rdg_log_warn(log, "%s: id %u is ignored, there are %d tokens", special_keys[i], (unsigned)id,
                             (int)v->n_tokens);
        } else {
            v->special[i] = (int32_t)id;
        }
    }
    return RDG_OK;
}

static rdg_err read_flags(const rdg_gguf *g, rdg_vocab *v, rdg_error *e)
{
    /* The common key was never meant for byte-level vocabularies, though some files have it. */
    const char *prefix = v->kind == RDG_VOCAB_BPE ? KEY_PREFIX_BYTES : "tokenizer.ggml.add_space_prefix";
    const struct {
        const char *key;
        bool *flag;
    } flags[] = {{"tokenizer.ggml.add_bos_token", &v->add_bos},
                 {"tokenizer.ggml.add_eos_token", &v->add_eos},
                 {prefix, &v->add_space_prefix},
                 {"tokenizer.ggml.remove_extra_whitespaces", &v->remove_extra_whitespaces},
                 {KEY_IGNORE_MERGES, &v->ignore_merges},
                 {KEY_PREFIX_FIRST, &v->prefix_first_only},
                 {KEY_PREFIX_UNLESS, &v->prefix_unless_space}};
    for (int i = 0; i < RDG_COUNTOF(flags); i++) {
        rdg_err err = optional(rdg_gguf_get_bool(g, flags[i].key, flags[i].flag, e));
        if (err) return err;
    }
    uint32_t normalize;
    rdg_err err = rdg_gguf_get_u32(g, KEY_NORMALIZE, &normalize, e);
    if (err) return optional(err);
    v->normalize = normalize & (RDG_NORMALIZE_STRIP_ACCENTS * 2 - 1);
    return RDG_OK;
}

static bool equals(rdg_str s, const char *text)
{
    return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

static rdg_err read_strip_list(const rdg_gguf *g, const char *key, unsigned char bit, rdg_vocab *v,
                               rdg_error *e)
{
    const rdg_gguf_kv *kv;
    rdg_err err = rdg_gguf_get_array(g, key, RDG_GGUF_INT32, &kv, e);
    if (err) return err;
    for (uint64_t i = 0; i < kv->count; i++) {
        int64_t id = rdg_gguf_kv_int(kv, i);
        if (id < 0 || id >= v->n_tokens)
            return rdg_fail(e, RDG_E_MALFORMED, "%s: id %lld, there are %d tokens", key, (long long)id,
                            (int)v->n_tokens);
        v->strip[id] |= bit;
    }
    return RDG_OK;
}

/* Whitespace next to special tokens: our own keys, or what is known of Phi-3, whose files do not say it. */
static rdg_err read_strip(const rdg_gguf *g, rdg_vocab *v, rdg_error *e)
{
    static const char *const kept[] = {"<unk>", "<s>", "<|endoftext|>"};
    rdg_str architecture = {"", 0};
    v->strip = rdg_arena_alloc(&v->arena, (size_t)v->n_tokens);
    if (!v->strip) return no_memory(e);
    rdg_err left = read_strip_list(g, KEY_STRIP_LEFT, RDG_STRIP_LEFT, v, e);
    if (optional(left)) return left;
    rdg_err right = read_strip_list(g, KEY_STRIP_RIGHT, RDG_STRIP_RIGHT, v, e);
    if (optional(right)) return right;
    if (left == RDG_OK || right == RDG_OK || v->kind != RDG_VOCAB_SPM) return RDG_OK;
    rdg_err err = optional(rdg_gguf_get_str(g, "general.architecture", &architecture, e));
    if (err || !equals(architecture, "phi3")) return err;
    for (int32_t id = 0; id < v->n_tokens; id++) {
        bool strip = is_special(v, id);
        for (int i = 0; i < RDG_COUNTOF(kept); i++)
            if (equals(v->tokens[id], kept[i])) strip = false;
        if (strip) v->strip[id] |= RDG_STRIP_RIGHT;
    }
    return RDG_OK;
}

/* The rest ----------------------------------------------------------------------------------------------- */

static rdg_err read_selftests(const rdg_gguf *g, rdg_vocab *v, rdg_error *e)
{
    const rdg_gguf_kv *counts, *ids;
    rdg_str *texts;
    size_t n;
    rdg_err err = read_strings(g, KEY_SELFTEST_TEXTS, MAX_SELFTESTS, &v->arena, &texts, &n, e);
    if (err) return optional(err);
    if ((err = rdg_gguf_get_array(g, KEY_SELFTEST_COUNTS, RDG_GGUF_INT32, &counts, e))) return optional(err);
    if ((err = rdg_gguf_get_array(g, KEY_SELFTEST_IDS, RDG_GGUF_INT32, &ids, e))) return optional(err);
    if (counts->count != n)
        return rdg_fail(e, RDG_E_MALFORMED, KEY_SELFTEST_COUNTS ": %llu entries for %zu texts",
                        (unsigned long long)counts->count, n);
    int32_t *copy = rdg_arena_array(&v->arena, (size_t)ids->count, sizeof *copy);
    v->selftests = rdg_arena_array(&v->arena, n, sizeof *v->selftests);
    if (!copy || !v->selftests) return no_memory(e);
    for (uint64_t i = 0; i < ids->count; i++) copy[i] = (int32_t)rdg_gguf_kv_int(ids, i);
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t count = rdg_gguf_kv_int(counts, i);
        if (count < 0 || (uint64_t)count > ids->count - at)
            return rdg_fail(e, RDG_E_MALFORMED, KEY_SELFTEST_COUNTS ": text %zu has %lld of %llu ids left", i,
                            (long long)count, (unsigned long long)(ids->count - at));
        v->selftests[i].text = texts[i];
        v->selftests[i].ids = copy + at;
        v->selftests[i].n_ids = (size_t)count;
        at += (uint64_t)count;
    }
    v->n_selftests = n;
    return RDG_OK;
}

static rdg_err read_charsmap(const rdg_gguf *g, rdg_vocab *v, rdg_error *e)
{
    const char *key = "tokenizer.ggml.precompiled_charsmap";
    const rdg_gguf_kv *kv = rdg_gguf_find(g, key);
    if (!kv) return RDG_OK;
    if (kv->type != RDG_GGUF_ARRAY ||
        (kv->element_type != RDG_GGUF_UINT8 && kv->element_type != RDG_GGUF_INT8))
        return rdg_fail(e, RDG_E_MALFORMED, "%s: not an array of bytes", key);
    v->charsmap.n = (size_t)kv->count;
    v->charsmap.p = rdg_arena_strndup(&v->arena, (const char *)kv->data, v->charsmap.n);
    return v->charsmap.p ? RDG_OK : no_memory(e);
}

static rdg_err read_expressions(const rdg_gguf *g, rdg_vocab *v, rdg_error *e)
{
    rdg_err err =
        read_strings(g, KEY_EXPRESSIONS, MAX_EXPRESSIONS, &v->arena, &v->expressions, &v->n_expressions, e);
    if (err) return optional(err);
    for (size_t i = 0; i < v->n_expressions; i++)
        if (v->expressions[i].n > MAX_EXPRESSION_BYTES)
            return rdg_fail(e, RDG_E_LIMIT, KEY_EXPRESSIONS "[%zu]: %zu bytes, at most %d are read", i,
                            v->expressions[i].n, MAX_EXPRESSION_BYTES);
    return RDG_OK;
}

static rdg_err read_kind(const rdg_gguf *g, rdg_vocab *v, rdg_error *e)
{
    const char *model = NULL;
    rdg_err err = read_name(g, "tokenizer.ggml.model", &v->arena, &model, e);
    if (!err) err = read_name(g, "tokenizer.ggml.pre", &v->arena, &v->pre, e);
    if (err) return err;
    if (!model || strcmp(model, "none") == 0 || strcmp(model, "no_vocab") == 0)
        return rdg_fail(e, RDG_E_NOT_FOUND, "the file has no tokenizer (tokenizer.ggml.model is %s)",
                        model ? model : "absent");
    for (int k = 0; k < RDG_VOCAB_KIND_COUNT; k++) {
        if (strcmp(model, rdg_vocab_kind_name((rdg_vocab_kind)k)) != 0) continue;
        rdg_vocab_set_kind(v, (rdg_vocab_kind)k, v->pre);
        return RDG_OK;
    }
    return rdg_fail(e, RDG_E_UNSUPPORTED,
                    "tokenizer.ggml.model \"%s\"; llama, gpt2, bert and t5 are supported", model);
}

rdg_err rdg_vocab_read(const rdg_gguf *g, const rdg_log *log, rdg_vocab *v, rdg_error *e)
{
    size_t n = 0;
    rdg_err err;
    rdg_vocab_init(v);
    if ((err = read_kind(g, v, e))) goto fail;
    err = read_strings(g, "tokenizer.ggml.tokens", MAX_TOKENS, &v->arena, &v->tokens, &n, e);
    if (err == RDG_E_NOT_FOUND || (!err && n == 0))
        err = rdg_fail(e, RDG_E_MALFORMED,
                       "tokenizer.ggml.tokens is missing or empty, tokenizer.ggml.model is %s", v->model);
    if (err) goto fail;
    v->n_tokens = (int32_t)n;
    if ((err = read_types(g, v, e))) goto fail;
    if ((err = read_scores(g, v, e))) goto fail;
    err = read_strings(g, "tokenizer.ggml.merges", 2 * (size_t)MAX_TOKENS, &v->arena, &v->merges,
                       &v->n_merges, e);
    if (optional(err)) goto fail;
    if ((err = read_specials(g, log, v, e))) goto fail;
    if ((err = read_flags(g, v, e))) goto fail;
    if ((err = read_strip(g, v, e))) goto fail;
    if ((err = read_expressions(g, v, e))) goto fail;
    if ((err = read_charsmap(g, v, e))) goto fail;
    if ((err = read_selftests(g, v, e))) goto fail;
    return RDG_OK;
fail:
    rdg_vocab_finish(v);
    return err;
}

/* Writing ------------------------------------------------------------------------------------------------ */

static rdg_err write_strip(const rdg_vocab *v, rdg_gguf_writer *w, const char *key, unsigned char bit,
                           rdg_error *e)
{
    int32_t n = 0, *ids = rdg_alloc_array((size_t)v->n_tokens, sizeof *ids);
    if (!ids) return no_memory(e);
    for (int32_t i = 0; i < v->n_tokens; i++)
        if (v->strip[i] & bit) ids[n++] = i;
    if (n) rdg_gguf_set_array(w, key, RDG_GGUF_INT32, ids, (uint64_t)n);
    rdg_free(ids);
    return RDG_OK;
}

rdg_err rdg_vocab_write_selftests(const struct rdg_vocab_selftest *tests, size_t n, rdg_gguf_writer *w,
                                  rdg_error *e)
{
    size_t total = 0, at = 0;
    for (size_t i = 0; i < n; i++) total += tests[i].n_ids;
    rdg_str *texts = rdg_alloc_array(n, sizeof *texts);
    int32_t *counts = rdg_alloc_array(n, sizeof *counts);
    int32_t *ids = rdg_alloc_array(total, sizeof *ids);
    rdg_err err = texts && counts && ids ? RDG_OK : no_memory(e);
    if (!err) {
        for (size_t i = 0; i < n; i++) {
            texts[i] = tests[i].text;
            counts[i] = (int32_t)tests[i].n_ids;
            if (tests[i].n_ids) memcpy(ids + at, tests[i].ids, tests[i].n_ids * sizeof *ids);
            at += tests[i].n_ids;
        }
        rdg_gguf_set_str_array(w, KEY_SELFTEST_TEXTS, texts, n);
        rdg_gguf_set_array(w, KEY_SELFTEST_COUNTS, RDG_GGUF_INT32, counts, n);
        rdg_gguf_set_array(w, KEY_SELFTEST_IDS, RDG_GGUF_INT32, ids, total);
    }
    rdg_free(ids);
    rdg_free(counts);
    rdg_free(texts);
    return err;
}

rdg_err rdg_vocab_write(const rdg_vocab *v, rdg_gguf_writer *w, rdg_error *e)
{
    size_t n = (size_t)v->n_tokens;
    int32_t *types = rdg_alloc_array(n, sizeof *types);
    if (!types) return no_memory(e);
    for (size_t i = 0; i < n; i++) types[i] = v->types[i];
    rdg_gguf_set_str(w, "tokenizer.ggml.model", v->model);
    if (v->pre[0]) rdg_gguf_set_str(w, "tokenizer.ggml.pre", v->pre);
    rdg_gguf_set_str_array(w, "tokenizer.ggml.tokens", v->tokens, n);
    rdg_gguf_set_array(w, "tokenizer.ggml.token_type", RDG_GGUF_INT32, types, n);
    rdg_free(types);
    if (v->scores) rdg_gguf_set_array(w, "tokenizer.ggml.scores", RDG_GGUF_FLOAT32, v->scores, n);
    if (v->n_merges) rdg_gguf_set_str_array(w, "tokenizer.ggml.merges", v->merges, v->n_merges);
    for (int i = 0; i < RDG_SPECIAL_COUNT; i++)
        if (v->special[i] >= 0) rdg_gguf_set_u32(w, special_keys[i], (uint32_t)v->special[i]);
    rdg_gguf_set_bool(w, "tokenizer.ggml.add_bos_token", v->add_bos);
    rdg_gguf_set_bool(w, "tokenizer.ggml.add_eos_token", v->add_eos);
    if (v->kind == RDG_VOCAB_SPM || v->kind == RDG_VOCAB_UNIGRAM)
        rdg_gguf_set_bool(w, "tokenizer.ggml.add_space_prefix", v->add_space_prefix);
    if (v->kind == RDG_VOCAB_UNIGRAM) {
        rdg_gguf_set_bool(w, "tokenizer.ggml.remove_extra_whitespaces", v->remove_extra_whitespaces);
        if (v->charsmap.n)
            rdg_gguf_set_array(w, "tokenizer.ggml.precompiled_charsmap", RDG_GGUF_UINT8, v->charsmap.p,
                               v->charsmap.n);
    }
    if (v->n_expressions) rdg_gguf_set_str_array(w, KEY_EXPRESSIONS, v->expressions, v->n_expressions);
    if (v->kind == RDG_VOCAB_BPE) {
        rdg_gguf_set_bool(w, KEY_IGNORE_MERGES, v->ignore_merges);
        if (v->add_space_prefix) rdg_gguf_set_bool(w, KEY_PREFIX_BYTES, true);
    }
    if (v->prefix_first_only) rdg_gguf_set_bool(w, KEY_PREFIX_FIRST, true);
    if (v->prefix_unless_space) rdg_gguf_set_bool(w, KEY_PREFIX_UNLESS, true);
    if (v->normalize || v->kind == RDG_VOCAB_WORDPIECE) rdg_gguf_set_u32(w, KEY_NORMALIZE, v->normalize);
    if (v->strip) {
        rdg_err err = write_strip(v, w, KEY_STRIP_LEFT, RDG_STRIP_LEFT, e);
        if (!err) err = write_strip(v, w, KEY_STRIP_RIGHT, RDG_STRIP_RIGHT, e);
        if (err) return err;
    }
    return RDG_OK;
}
