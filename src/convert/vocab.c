/* Tokenizer of a Hugging Face folder, see vocab.h. The facts are spread over up to seven files; when two of
 * them speak of the same thing, the one that the tokenizer of the model's own framework would obey wins:
 * tokenizer.json before tokenizer.model (which only adds scores), tokenizer_config.json before config.json.
 */
#include "convert/vocab.h"
#include "base/file.h"
#include "base/map.h"
#include "format/json.h"
#include "format/names.h"
#include "format/sentencepiece.h"
#include "format/tokenizer_json.h"
#include "text/pretokenizer.h"
#include "text/vocab.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_JSON_BYTES = 256 << 20,
    MAX_TEMPLATE_BYTES = 4 << 20,
    MAX_WARNINGS = 64,
    MAX_TEMPLATES = 64,
    MAX_TOKENS = 1 << 24,
    N_SELFTESTS = 8,
};

typedef struct converter {
    const char *dir;
    int64_t n_vocab;
    rdg_gguf_writer *writer;
    rdg_vocab_report *report;
    const rdg_log *log;
    rdg_error *e;
    rdg_vocab vocab;
    rdg_strmap index;                                      /* token text → id */
    json_t *tokenizer_config, *config, *generation_config; /* or NULL */
    json_t *added_decoder; /* {"id": {content, special, …}} or NULL; borrowed */
    json_t *added_json;    /* {"content": id} or NULL */
} converter;

static rdg_err no_memory(converter *c)
{
    return rdg_fail(c->e, RDG_E_NOMEM, "vocabulary: out of memory");
}

static void warn(converter *c, const char *fmt, ...) RDG_PRINTF(2, 3);
static void warn(converter *c, const char *fmt, ...)
{
    rdg_vocab_report *r = c->report;
    char text[700];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    rdg_log_warn(c->log, "%s", text);
    if (r->n_warnings == MAX_WARNINGS) return; /* the log has it */
    if (!r->warnings) r->warnings = rdg_arena_array(&r->arena, MAX_WARNINGS, sizeof *r->warnings);
    char *copy = rdg_arena_strndup(&r->arena, text, strlen(text));
    if (r->warnings && copy) r->warnings[r->n_warnings++] = copy;
}

void rdg_vocab_report_finish(rdg_vocab_report *r)
{
    rdg_arena_finish(&r->arena);
    *r = (rdg_vocab_report){0};
}

/* Files -------------------------------------------------------------------------------------------------- */

static rdg_err exists(converter *c, const char *name, bool *found)
{
    char *path = rdg_path_join(c->dir, name);
    if (!path) return no_memory(c);
    *found = rdg_file_exists(path);
    rdg_free(path);
    return RDG_OK;
}

static rdg_err read_file(converter *c, const char *name, size_t limit, char **data, size_t *bytes)
{
    char *path = rdg_path_join(c->dir, name);
    if (!path) return no_memory(c);
    rdg_err err = rdg_file_read(path, limit, false, data, bytes, c->e);
    rdg_free(path);
    return err;
}

/* An object from a small file; *out is NULL if there is no such file. */
static rdg_err read_object(converter *c, const char *name, json_t **out)
{
    char *data = NULL;
    size_t bytes = 0;
    *out = NULL;
    bool found = false;
    rdg_err err = exists(c, name, &found);
    if (err || !found) return err;
    err = read_file(c, name, MAX_JSON_BYTES, &data, &bytes);
    if (err) return err;
    err = rdg_json_parse(data, bytes, name, &rdg_json_small, out, c->e);
    rdg_free(data);
    return err;
}

/* Tokens ------------------------------------------------------------------------------------------------- */

/* Sizes the vocabulary for n_known tokens of the files and the rows of the embedding. */
static rdg_err size_vocab(converter *c, int64_t n_known)
{
    rdg_vocab *v = &c->vocab;
    int64_t n = c->n_vocab > 0 ? c->n_vocab : n_known;
    if (n <= 0 || n > MAX_TOKENS)
        return rdg_fail(c->e, RDG_E_LIMIT, "vocabulary: %lld tokens, 1 to %d are possible", (long long)n,
                        MAX_TOKENS);
    if (n_known > n)
        warn(c, "the tokenizer has %lld tokens but the model only %lld rows for them: the rest is left out",
             (long long)n_known, (long long)n);
    v->n_tokens = (int32_t)n;
    v->tokens = rdg_arena_array(&v->arena, (size_t)n, sizeof *v->tokens);
    v->types = rdg_arena_alloc(&v->arena, (size_t)n);
    v->strip = rdg_arena_alloc(&v->arena, (size_t)n);
    v->scores = v->kind == RDG_VOCAB_SPM || v->kind == RDG_VOCAB_UNIGRAM
                    ? rdg_arena_array(&v->arena, (size_t)n, sizeof *v->scores)
                    : NULL;
    if (!v->tokens || !v->types || !v->strip) return no_memory(c);
    if ((v->kind == RDG_VOCAB_SPM || v->kind == RDG_VOCAB_UNIGRAM) && !v->scores) return no_memory(c);
    return RDG_OK;
}

/* prefix + text becomes token id; ids beyond the model's rows were reported by size_vocab. */
static rdg_err set_token(converter *c, int32_t id, const char *prefix, rdg_str text, rdg_token_type type,
                         float score)
{
    rdg_vocab *v = &c->vocab;
    if (id >= v->n_tokens) return RDG_OK;
    size_t n_prefix = strlen(prefix);
    char *p = rdg_arena_alloc(&v->arena, n_prefix + text.n + 1);
    if (!p) return no_memory(c);
    memcpy(p, prefix, n_prefix);
    if (text.n) memcpy(p + n_prefix, text.p, text.n);
    v->tokens[id] = (rdg_str){p, n_prefix + text.n};
    v->types[id] = (unsigned char)type;
    if (v->scores) v->scores[id] = score;
    return RDG_OK;
}

static bool starts(rdg_str s, const char *p)
{
    return s.n >= strlen(p) && memcmp(s.p, p, strlen(p)) == 0;
}

static bool ends(rdg_str s, const char *p)
{
    return s.n >= strlen(p) && memcmp(s.p + s.n - strlen(p), p, strlen(p)) == 0;
}

static bool equals(rdg_str s, const char *p)
{
    return s.n == strlen(p) && memcmp(s.p, p, s.n) == 0;
}

/* Some files forget to mark their control tokens as special. */
static bool looks_special(rdg_str s)
{
    static const char *const known[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
    for (int i = 0; i < RDG_COUNTOF(known); i++)
        if (equals(s, known[i])) return true;
    return (starts(s, "<|") && ends(s, "|>")) || (starts(s, "<\xef\xbd\x9c") && ends(s, "\xef\xbd\x9c>")) ||
           (starts(s, "<unused") && ends(s, ">"));
}

static bool is_byte_token(rdg_str s)
{
    return s.n == 6 && starts(s, "<0x") && s.p[5] == '>' && strchr("0123456789ABCDEF", s.p[3]) &&
           strchr("0123456789ABCDEF", s.p[4]);
}

/* A user-defined token is matched in the text as it is, where spaces are still spaces. */
static rdg_err set_user_token(converter *c, int32_t id, rdg_str text, float score)
{
    rdg_buf b;
    rdg_buf_init(&b);
    for (size_t i = 0; i < text.n;) {
        if (text.n - i >= RDG_SPACE_MARK_N && memcmp(text.p + i, RDG_SPACE_MARK, RDG_SPACE_MARK_N) == 0) {
            rdg_buf_putc(&b, ' ');
            i += RDG_SPACE_MARK_N;
        } else {
            rdg_buf_putc(&b, text.p[i++]);
        }
    }
    rdg_err err = b.failed ? no_memory(c)
                           : set_token(c, id, "", (rdg_str){b.data ? b.data : "", b.len},
                                       RDG_TOKEN_USER_DEFINED, score);
    rdg_buf_finish(&b);
    return err;
}

enum { ADDED_SCORE = -1000, PADDING_SCORE = -10000 };

static rdg_err set_added(converter *c, const rdg_added_token *a)
{
    rdg_vocab *v = &c->vocab;
    if (a->id >= v->n_tokens) return RDG_OK;
    if (a->single_word)
        warn(c, "added token %s: single_word is not carried over", rdg_quote(a->text.p, a->text.n).text);
    v->strip[a->id] = (unsigned char)((a->lstrip ? RDG_STRIP_LEFT : 0) | (a->rstrip ? RDG_STRIP_RIGHT : 0));
    if (v->types[a->id] == RDG_TOKEN_UNKNOWN) return RDG_OK;
    if (a->special || looks_special(a->text))
        return set_token(c, a->id, "", a->text, RDG_TOKEN_CONTROL, ADDED_SCORE);
    return set_user_token(c, a->id, a->text, ADDED_SCORE);
}

/* Fills the ids that no file speaks of. */
static rdg_err fill_padding(converter *c)
{
    rdg_vocab *v = &c->vocab;
    for (int32_t i = 0; i < v->n_tokens; i++) {
        char text[32];
        if (v->tokens[i].p) continue;
        int n = snprintf(text, sizeof text, "[PAD%d]", (int)i);
        rdg_err err = set_token(c, i, "", (rdg_str){text, (size_t)n}, RDG_TOKEN_UNUSED, PADDING_SCORE);
        if (err) return err;
        c->report->n_padding++;
    }
    return RDG_OK;
}

/* From tokenizer.json ------------------------------------------------------------------------------------ */

/* BPE over characters with the spaces replaced, as converted from SentencePiece files. */
static bool is_sentencepiece_like(const rdg_tokenizer_json *t)
{
    return t->model == RDG_TOKENIZER_JSON_UNIGRAM ||
           (t->model == RDG_TOKENIZER_JSON_BPE && !t->byte_level && (t->metaspace || t->byte_fallback));
}

/* The name of the pre-tokeniser, or the expressions themselves. */
static rdg_err set_expressions(converter *c, const rdg_tokenizer_json *t)
{
    rdg_vocab *v = &c->vocab;
    char name[64];
    v->ignore_merges = t->ignore_merges;
    if (rdg_pre_rule_name(t->expressions, t->n_expressions, t->ignore_merges, name, sizeof name)) {
        v->pre = rdg_arena_strndup(&v->arena, name, strlen(name));
        return v->pre ? RDG_OK : no_memory(c);
    }
    v->pre = "default";
    /* An empty list would stand for those of the name: one that never matches cuts nothing. */
    static const rdg_str never = {"(?!)", 4};
    size_t n = t->n_expressions ? t->n_expressions : 1;
    const rdg_str *from = t->n_expressions ? t->expressions : &never;
    v->expressions = rdg_arena_array(&v->arena, n, sizeof *v->expressions);
    if (!v->expressions) return no_memory(c);
    for (size_t i = 0; i < n; i++) {
        v->expressions[i].n = from[i].n;
        v->expressions[i].p = rdg_arena_strndup(&v->arena, from[i].p, from[i].n);
        if (!v->expressions[i].p) return no_memory(c);
    }
    v->n_expressions = n;
    warn(c,
         "the pre-tokeniser has no common name: its %zu expressions are stored in the file, other programs "
         "will "
         "cut text as \"default\" and get different tokens",
         n);
    return RDG_OK;
}

static rdg_err copy_merges(converter *c, const rdg_tokenizer_json *t)
{
    rdg_vocab *v = &c->vocab;
    v->merges = rdg_arena_array(&v->arena, t->n_merges, sizeof *v->merges);
    if (!v->merges) return no_memory(c);
    for (size_t i = 0; i < t->n_merges; i++) {
        v->merges[i].n = t->merges[i].n;
        v->merges[i].p = rdg_arena_strndup(&v->arena, t->merges[i].p, t->merges[i].n);
        if (!v->merges[i].p) return no_memory(c);
    }
    v->n_merges = t->n_merges;
    return RDG_OK;
}

/* Programs that merge by score need scores in the order of the ranks. Ours uses the merges. */
static rdg_err scores_from_merges(converter *c)
{
    rdg_vocab *v = &c->vocab;
    rdg_strmap map;
    rdg_buf b;
    rdg_err err = RDG_OK;
    rdg_strmap_init(&map);
    rdg_buf_init(&b);
    for (int32_t i = 0; i < v->n_tokens && !err; i++) {
        if (!v->tokens[i].p) continue;
        v->scores[i] = v->types[i] == RDG_TOKEN_NORMAL ? -(float)(v->n_merges + 1) : 0.0f;
        if (!rdg_strmap_put(&map, v->tokens[i].p, v->tokens[i].n, i)) err = no_memory(c);
    }
    for (size_t rank = v->n_merges; rank-- > 0 && !err;) { /* backwards: the first rank of a result stays */
        rdg_str m = v->merges[rank];
        const char *space = memchr(m.p + 1, ' ', m.n - 1);
        rdg_buf_clear(&b);
        rdg_buf_append(&b, m.p, (size_t)(space - m.p));
        rdg_buf_append(&b, space + 1, (size_t)(m.p + m.n - space - 1));
        int32_t id = b.failed ? -1 : rdg_strmap_get(&map, b.data, b.len);
        if (b.failed) err = no_memory(c);
        if (id >= 0) v->scores[id] = -(float)rank;
    }
    rdg_buf_finish(&b);
    rdg_strmap_finish(&map);
    return err;
}

static rdg_err set_vocab_token(converter *c, const rdg_tokenizer_json *t, int32_t id)
{
    rdg_str text = t->tokens[id];
    rdg_vocab_kind kind = c->vocab.kind;
    rdg_token_type type = RDG_TOKEN_NORMAL;
    if (kind == RDG_VOCAB_WORDPIECE) {
        rdg_str prefix = t->continuing_prefix;
        if (text.n > prefix.n && prefix.n && memcmp(text.p, prefix.p, prefix.n) == 0)
            return set_token(c, id, "", (rdg_str){text.p + prefix.n, text.n - prefix.n}, type, 0);
        if (starts(text, "[") && ends(text, "]") && text.n > 2) return set_token(c, id, "", text, type, 0);
        return set_token(c, id, RDG_SPACE_MARK, text, type, 0);
    }
    if (kind != RDG_VOCAB_BPE) {
        if (id == t->unk_id)
            type = RDG_TOKEN_UNKNOWN;
        else if (t->byte_fallback && is_byte_token(text))
            type = RDG_TOKEN_BYTE;
    }
    return set_token(c, id, "", text, type, t->scores ? t->scores[id] : 0);
}

static rdg_err from_json(converter *c, const rdg_tokenizer_json *t)
{
    rdg_vocab *v = &c->vocab;
    rdg_err err;
    rdg_vocab_kind kind = t->model == RDG_TOKENIZER_JSON_WORDPIECE ? RDG_VOCAB_WORDPIECE
                          : t->model == RDG_TOKENIZER_JSON_UNIGRAM ? RDG_VOCAB_UNIGRAM
                          : t->byte_level                          ? RDG_VOCAB_BPE
                                                                   : RDG_VOCAB_SPM;
    if (kind == RDG_VOCAB_SPM && !is_sentencepiece_like(t))
        return rdg_fail(c->e, RDG_E_UNSUPPORTED,
                        "tokenizer.json: a BPE model that is neither byte-level nor SentencePiece-like");
    for (size_t i = 0; i < t->n_warnings; i++) warn(c, "tokenizer.json: %s", t->warnings[i]);
    rdg_vocab_set_kind(v, kind, "");
    for (int i = 0; i < RDG_SPECIAL_COUNT; i++) v->special[i] = -1; /* the files say which there are */
    if ((err = size_vocab(c, t->n_tokens))) return err;
    for (int32_t id = 0; id < t->n_tokens; id++)
        if (t->tokens[id].p && (err = set_vocab_token(c, t, id))) return err;
    for (size_t i = 0; i < t->n_added; i++) {
        const rdg_added_token *a = &t->added[i];
        /* With replaced spaces in its text it never matches the raw text; merging reaches it all the same. */
        bool reached =
            kind == RDG_VOCAB_SPM && t->in_vocab[a->id] && !a->special && starts(a->text, RDG_SPACE_MARK);
        if (!reached && (err = set_added(c, a))) return err;
    }
    v->normalize = t->normalize;
    if (t->model == RDG_TOKENIZER_JSON_BPE && (err = copy_merges(c, t))) return err;
    if (kind == RDG_VOCAB_BPE) {
        if ((err = set_expressions(c, t))) return err;
        v->add_space_prefix = false;
        if (t->add_prefix_space)
            warn(c, "tokenizer.json: pre_tokenizer: ByteLevel add_prefix_space is not carried over");
    } else if (kind == RDG_VOCAB_WORDPIECE) {
        v->pre = "default";
        if (t->bert_normalizer && !(t->bert_chinese_chars && t->bert_clean_text))
            warn(c, "tokenizer.json: normalizer: BertNormalizer always cleans text and isolates Chinese "
                    "characters here");
    } else {
        v->pre = "default";
        v->add_space_prefix = t->prepend;
        v->prefix_first_only = t->prepend_first;
        v->prefix_unless_space = t->prepend_unless_space;
        v->remove_extra_whitespaces = kind == RDG_VOCAB_UNIGRAM && t->collapse_spaces;
        if (v->remove_extra_whitespaces ? !t->strip_right : t->collapse_spaces || t->strip_right)
            warn(c, "tokenizer.json: normalizer: spaces are %s here",
                 v->remove_extra_whitespaces ? "removed at both ends" : "neither collapsed nor stripped");
        v->charsmap.n = t->charsmap.n;
        if (t->charsmap.n && !(v->charsmap.p = rdg_arena_strndup(&v->arena, t->charsmap.p, t->charsmap.n)))
            return no_memory(c);
        if (kind == RDG_VOCAB_SPM && (err = scores_from_merges(c))) return err;
    }
    v->special[RDG_SPECIAL_UNK] = t->unk_id < v->n_tokens ? t->unk_id : -1;
    v->add_bos = t->adds_bos;
    v->add_eos = t->adds_eos;
    if (t->bos_id < v->n_tokens) v->special[RDG_SPECIAL_BOS] = t->bos_id;
    if (t->eos_id < v->n_tokens && t->eos_id >= 0) v->special[RDG_SPECIAL_EOS] = t->eos_id;
    return RDG_OK;
}

/* From tokenizer.model ----------------------------------------------------------------------------------- */

static int64_t decoder_id(const char *key)
{
    int64_t id = 0;
    if (!*key) return -1;
    for (; *key; key++) {
        if (*key < '0' || *key > '9' || id >= MAX_TOKENS) return -1;
        id = id * 10 + (*key - '0');
    }
    return id;
}

/* The highest id + 1 among the added tokens of tokenizer_config.json and added_tokens.json. */
static int64_t added_bound(converter *c)
{
    int64_t bound = 0;
    const char *key;
    json_t *value;
    json_object_foreach(c->added_decoder, key, value) bound = RDG_MAX(bound, decoder_id(key) + 1);
    json_object_foreach(c->added_json, key, value) if (json_is_integer(value)) bound =
        RDG_MAX(bound, (int64_t)RDG_MIN(json_integer_value(value), MAX_TOKENS) + 1);
    return bound;
}

static rdg_err apply_added(converter *c)
{
    const char *key;
    json_t *value;
    rdg_err err;
    json_object_foreach(c->added_json, key, value)
    {
        json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || id >= MAX_TOKENS)
            return rdg_fail(c->e, RDG_E_MALFORMED, "added_tokens.json: the id of %s is out of range",
                            rdg_quote(key, strlen(key)).text);
        rdg_added_token a = {.text = {key, strlen(key)}, .id = (int32_t)id};
        if ((err = set_added(c, &a))) return err;
    }
    json_object_foreach(c->added_decoder, key, value)
    {
        int64_t id = decoder_id(key);
        json_t *content = json_object_get(value, "content");
        if (id < 0 || id >= MAX_TOKENS || !json_is_string(content))
            return rdg_fail(c->e, RDG_E_MALFORMED, "tokenizer_config.json: added_tokens_decoder: entry %s",
                            rdg_quote(key, strlen(key)).text);
        rdg_added_token a = {.text = {json_string_value(content), json_string_length(content)},
                             .id = (int32_t)id};
        a.special = json_is_true(json_object_get(value, "special"));
        a.lstrip = json_is_true(json_object_get(value, "lstrip"));
        a.rstrip = json_is_true(json_object_get(value, "rstrip"));
        a.single_word = json_is_true(json_object_get(value, "single_word"));
        if ((err = set_added(c, &a))) return err;
    }
    return RDG_OK;
}

static rdg_err from_sentencepiece(converter *c, const rdg_sentencepiece *m, const rdg_tokenizer_json *t)
{
    rdg_vocab *v = &c->vocab;
    rdg_err err;
    rdg_vocab_set_kind(v, m->unigram ? RDG_VOCAB_UNIGRAM : RDG_VOCAB_SPM, "");
    v->pre = "default";
    int64_t n = RDG_MAX((int64_t)m->n_tokens, t ? t->n_tokens : added_bound(c));
    if ((err = size_vocab(c, n))) return err;
    for (int32_t i = 0; i < m->n_tokens; i++) {
        rdg_token_type type = (rdg_token_type)m->types[i];
        if (type == RDG_TOKEN_USER_DEFINED)
            err = set_user_token(c, i, m->tokens[i], m->scores[i]);
        else
            err = set_token(c, i, "", m->tokens[i], type, m->scores[i]);
        if (err) return err;
    }
    if (t) {
        for (size_t i = 0; i < t->n_added; i++) {
            int32_t id = t->added[i].id;
            /* What the model itself has keeps its type. */
            if (id < m->n_tokens && id < v->n_tokens && v->types[id] != RDG_TOKEN_NORMAL) continue;
            if ((err = set_added(c, &t->added[i]))) return err;
        }
    } else if ((err = apply_added(c))) {
        return err;
    }
    v->special[RDG_SPECIAL_UNK] = m->unk_id < v->n_tokens ? m->unk_id : -1;
    v->special[RDG_SPECIAL_BOS] = m->bos_id < v->n_tokens ? m->bos_id : -1;
    v->special[RDG_SPECIAL_EOS] = m->eos_id < v->n_tokens ? m->eos_id : -1;
    v->special[RDG_SPECIAL_PAD] = m->pad_id < v->n_tokens ? m->pad_id : -1;
    v->add_bos = v->add_bos && v->special[RDG_SPECIAL_BOS] >= 0;
    if (t && t->has_post_processor) {
        v->add_bos = t->adds_bos;
        v->add_eos = t->adds_eos;
    }
    v->add_space_prefix = m->add_space_prefix;
    v->prefix_first_only =
        t ? t->prepend_first : json_is_false(json_object_get(c->tokenizer_config, "legacy"));
    v->remove_extra_whitespaces = m->remove_extra_whitespaces;
    v->charsmap.n = m->unigram ? m->charsmap.n : 0;
    if (v->charsmap.n && !(v->charsmap.p = rdg_arena_strndup(&v->arena, m->charsmap.p, m->charsmap.n)))
        return no_memory(c);
    return RDG_OK;
}

/* Ids, flags --------------------------------------------------------------------------------------------- */

static rdg_err build_index(converter *c)
{
    rdg_vocab *v = &c->vocab;
    if (!rdg_strmap_reserve(&c->index, (size_t)v->n_tokens)) return no_memory(c);
    for (int pass = 0; pass < 2; pass++) /* special tokens last: they win */
        for (int32_t i = 0; i < v->n_tokens; i++) {
            bool special = v->types[i] != RDG_TOKEN_NORMAL;
            if (special == (pass == 1) && !rdg_strmap_put(&c->index, v->tokens[i].p, v->tokens[i].n, i))
                return no_memory(c);
        }
    return RDG_OK;
}

/* "bos_token": "<s>" or {"content": "<s>"} */
static int32_t named_token(converter *c, const char *field)
{
    json_t *j = json_object_get(c->tokenizer_config, field);
    if (json_is_object(j)) j = json_object_get(j, "content");
    if (!json_is_string(j)) return -1;
    int32_t id = rdg_strmap_get(&c->index, json_string_value(j), json_string_length(j));
    if (id < 0)
        warn(c, "tokenizer_config.json: %s %s is not a token", field,
             rdg_quote(json_string_value(j), json_string_length(j)).text);
    return id;
}

static bool valid_id(converter *c, const json_t *j)
{
    return json_is_integer(j) && json_integer_value(j) >= 0 && json_integer_value(j) < c->vocab.n_tokens;
}

/* "bos_token_id" of a configuration: a number or a list, whose first member counts. */
static int32_t config_id(converter *c, const json_t *config, const char *field)
{
    json_t *j = json_object_get(config, field);
    if (!j) j = json_object_get(json_object_get(config, "text_config"), field);
    if (json_is_array(j)) j = json_array_get(j, 0);
    return valid_id(c, j) ? (int32_t)json_integer_value(j) : -1;
}

/* A second token that ends generation: only the list of generation_config.json names it. */
static void set_eot(converter *c)
{
    static const char *const files[] = {"generation_config.json", "config.json"};
    json_t *configs[] = {c->generation_config, c->config};
    for (int k = 0; k < RDG_COUNTOF(files); k++) {
        json_t *list = json_object_get(configs[k], "eos_token_id"), *j;
        size_t i;
        json_array_foreach(list, i, j)
        {
            if (!valid_id(c, j) || json_integer_value(j) == c->vocab.special[RDG_SPECIAL_EOS]) continue;
            if (c->vocab.special[RDG_SPECIAL_EOT] < 0)
                c->vocab.special[RDG_SPECIAL_EOT] = (int32_t)json_integer_value(j);
            else if (c->vocab.special[RDG_SPECIAL_EOM] < 0 &&
                     json_integer_value(j) != c->vocab.special[RDG_SPECIAL_EOT])
                c->vocab.special[RDG_SPECIAL_EOM] = (int32_t)json_integer_value(j);
        }
    }
}

static void set_specials(converter *c)
{
    static const struct {
        const char *token, *id;
        rdg_vocab_special special;
    } fields[] = {
        {"bos_token", "bos_token_id", RDG_SPECIAL_BOS},   {"eos_token", "eos_token_id", RDG_SPECIAL_EOS},
        {"unk_token", "unk_token_id", RDG_SPECIAL_UNK},   {"sep_token", "sep_token_id", RDG_SPECIAL_SEP},
        {"pad_token", "pad_token_id", RDG_SPECIAL_PAD},   {"cls_token", "cls_token_id", RDG_SPECIAL_CLS},
        {"mask_token", "mask_token_id", RDG_SPECIAL_MASK}};
    static const struct {
        const char *text;
        rdg_vocab_special special;
    } fim[] = {{"<|fim_prefix|>", RDG_SPECIAL_FIM_PRE}, {"<fim_prefix>", RDG_SPECIAL_FIM_PRE},
               {"<fim-prefix>", RDG_SPECIAL_FIM_PRE},   {"<|fim_suffix|>", RDG_SPECIAL_FIM_SUF},
               {"<fim_suffix>", RDG_SPECIAL_FIM_SUF},   {"<fim-suffix>", RDG_SPECIAL_FIM_SUF},
               {"<|fim_middle|>", RDG_SPECIAL_FIM_MID}, {"<fim_middle>", RDG_SPECIAL_FIM_MID},
               {"<fim-middle>", RDG_SPECIAL_FIM_MID},   {"<|fim_pad|>", RDG_SPECIAL_FIM_PAD},
               {"<fim_pad>", RDG_SPECIAL_FIM_PAD},      {"<|repo_name|>", RDG_SPECIAL_FIM_REP},
               {"<|file_sep|>", RDG_SPECIAL_FIM_SEP}};
    rdg_vocab *v = &c->vocab;
    for (int i = 0; i < RDG_COUNTOF(fields); i++) {
        int32_t id = named_token(c, fields[i].token);
        if (id < 0 && v->special[fields[i].special] < 0) {
            id = config_id(c, c->config, fields[i].id);
            if (id < 0) id = config_id(c, c->generation_config, fields[i].id);
        }
        if (id >= 0) v->special[fields[i].special] = id;
    }
    for (int i = 0; i < RDG_COUNTOF(fim); i++) {
        int32_t id = rdg_strmap_get(&c->index, fim[i].text, strlen(fim[i].text));
        if (id >= 0 && v->special[fim[i].special] < 0) v->special[fim[i].special] = id;
    }
    set_eot(c);
    if (v->kind == RDG_VOCAB_WORDPIECE)
        v->special[RDG_SPECIAL_BOS] = v->special[RDG_SPECIAL_EOS] = -1; /* cls and sep serve */
}

/* The flag of the configuration, if it is there, and no token that does not exist. */
static void set_flags(converter *c)
{
    rdg_vocab *v = &c->vocab;
    const struct {
        const char *field;
        bool *flag;
        int32_t id;
    } flags[] = {{"add_bos_token", &v->add_bos, v->special[RDG_SPECIAL_BOS]},
                 {"add_eos_token", &v->add_eos, v->special[RDG_SPECIAL_EOS]}};
    if (v->kind == RDG_VOCAB_WORDPIECE) return;
    for (int i = 0; i < RDG_COUNTOF(flags); i++) {
        json_t *j = json_object_get(c->tokenizer_config, flags[i].field);
        if (json_is_boolean(j)) *flags[i].flag = json_is_true(j);
        if (*flags[i].flag && flags[i].id < 0) {
            warn(c, "%s is set but there is no such token: it is not added", flags[i].field);
            *flags[i].flag = false;
        }
    }
}

/* Chat templates ----------------------------------------------------------------------------------------- */

static void set_template(converter *c, const json_t *text)
{
    rdg_gguf_set_strn(c->writer, "tokenizer.chat_template", json_string_value(text),
                      json_string_length(text));
}

/* [{"name": "default", "template": "…"}, …] */
static rdg_err set_named_templates(converter *c, json_t *list)
{
    rdg_str names[MAX_TEMPLATES];
    size_t n = 0, i;
    json_t *j;
    json_array_foreach(list, i, j)
    {
        json_t *name = json_object_get(j, "name"), *text = json_object_get(j, "template");
        if (!json_is_string(name) || !json_is_string(text) || json_string_length(name) == 0 ||
            json_string_length(name) > 64)
            return rdg_fail(c->e, RDG_E_MALFORMED,
                            "tokenizer_config.json: chat_template[%zu] has no name or no template", i);
        if (strcmp(json_string_value(name), "default") == 0) {
            set_template(c, text);
            continue;
        }
        if (n == MAX_TEMPLATES) {
            warn(c, "tokenizer_config.json: more than %d chat templates, the rest is left out",
                 MAX_TEMPLATES);
            break;
        }
        char key[128];
        snprintf(key, sizeof key, "tokenizer.chat_template.%s", json_string_value(name));
        rdg_gguf_set_strn(c->writer, key, json_string_value(text), json_string_length(text));
        names[n++] = (rdg_str){json_string_value(name), json_string_length(name)};
    }
    if (n) rdg_gguf_set_str_array(c->writer, "tokenizer.chat_templates", names, n);
    return RDG_OK;
}

static rdg_err set_templates(converter *c)
{
    char *data = NULL;
    size_t bytes = 0;
    json_t *file = NULL, *j = json_object_get(c->tokenizer_config, "chat_template");
    rdg_err err = RDG_OK;
    if (json_is_array(j) && (err = set_named_templates(c, j))) return err;
    bool found = false;
    if ((err = exists(c, "chat_template.jinja", &found))) return err;
    if (found) {
        if ((err = read_file(c, "chat_template.jinja", MAX_TEMPLATE_BYTES, &data, &bytes))) return err;
        rdg_gguf_set_strn(c->writer, "tokenizer.chat_template", data, bytes);
        rdg_free(data);
    } else if (json_is_string(j)) {
        set_template(c, j);
    } else if (!j) {
        if ((err = read_object(c, "chat_template.json", &file))) return err;
        j = json_object_get(file, "chat_template");
        if (json_is_string(j)) set_template(c, j);
        json_decref(file);
    }
    return err;
}

/* Whole -------------------------------------------------------------------------------------------------- */

/* What the tokenizer makes of a few texts, so that a reader can tell whether it agrees. */
static rdg_err add_selftests(converter *c)
{
    static const char *const texts[N_SELFTESTS] = {
        "Hello, world! It's 2026.",
        " leading, trailing ",
        "a\tb\n\n\n  c\r\n   d",
        "1234567890 3.14159 0x1F",
        "Ünïcödé façade naïve Ångström",
        "\xe4\xbd\xa0\xe5\xa5\xbd\xef\xbc\x8c\xe4\xb8\x96\xe7\x95\x8c "
        "\xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82",
        "\xf0\x9f\x99\x82\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80 \xc2\xa0x\xe2\x80\x83y",
        "for (int i = 0; i < n; i++) { x[i] += \"\\n\"; }",
    };
    struct rdg_vocab_selftest tests[N_SELFTESTS] = {0};
    int32_t *ids[N_SELFTESTS] = {0};
    rdg_tokenizer *t = NULL;
    rdg_err err = rdg_tokenizer_from_vocab(&c->vocab, c->log, &t, c->e);
    for (int i = 0; i < N_SELFTESTS && !err; i++) {
        tests[i].text = (rdg_str){texts[i], strlen(texts[i])};
        err = rdg_tokenize(t, texts[i], tests[i].text.n, (rdg_tokenize_params){0}, &ids[i], &tests[i].n_ids,
                           c->e);
        tests[i].ids = ids[i];
    }
    if (!err) err = rdg_vocab_write_selftests(tests, N_SELFTESTS, c->writer, c->e);
    for (int i = 0; i < N_SELFTESTS; i++) rdg_tokens_free(ids[i]);
    rdg_tokenizer_destroy(t);
    return err;
}

static rdg_err load_json(converter *c, const char *first, const char *second, rdg_tokenizer_json *t)
{
    char *a = NULL, *b = NULL;
    size_t a_bytes = 0, b_bytes = 0;
    rdg_err err = read_file(c, first, MAX_JSON_BYTES, &a, &a_bytes);
    if (!err && second) err = read_file(c, second, MAX_JSON_BYTES, &b, &b_bytes);
    if (!err)
        err = second ? rdg_tokenizer_json_parse_pair(a, a_bytes, b, b_bytes, t, c->e)
                     : rdg_tokenizer_json_parse(a, a_bytes, t, c->e);
    rdg_free(b);
    rdg_free(a);
    return err;
}

static rdg_err from_model_file(converter *c, const rdg_tokenizer_json *t)
{
    char *data = NULL;
    size_t bytes = 0;
    rdg_sentencepiece m;
    rdg_err err = read_file(c, "tokenizer.model", MAX_JSON_BYTES, &data, &bytes);
    if (err) return err;
    err = rdg_sentencepiece_parse(data, bytes, &m, c->e);
    rdg_free(data);
    if (err == RDG_E_MALFORMED && t) {
        warn(c, "%s: tokenizer.json is used alone", c->e->message);
        return from_json(c, t);
    }
    if (err) return err;
    err = from_sentencepiece(c, &m, t);
    rdg_sentencepiece_finish(&m);
    return err;
}

static rdg_err from_pair(converter *c)
{
    rdg_tokenizer_json t;
    const char *class_name = json_string_value(json_object_get(c->tokenizer_config, "tokenizer_class"));
    rdg_err err = load_json(c, "vocab.json", "merges.txt", &t);
    if (err) return err;
    rdg_str expressions[RDG_PRE_EXPRESSIONS];
    bool qwen = class_name && strncmp(class_name, "Qwen2", 5) == 0;
    t.n_expressions = rdg_pre_rule_expressions(rdg_pre_rule_find(qwen ? "qwen2" : "gpt-2"), expressions);
    t.expressions = expressions;
    if (!qwen && !(class_name && strncmp(class_name, "GPT2", 4) == 0))
        warn(c, "vocab.json: the pre-tokeniser of %s is not in the folder, GPT-2's is used",
             class_name ? class_name : "the model");
    /* The tokens that other files add go behind these. */
    int64_t bound = RDG_MAX((int64_t)t.n_tokens, added_bound(c));
    if (c->n_vocab <= 0) c->n_vocab = bound;
    err = from_json(c, &t);
    if (!err) err = apply_added(c);
    rdg_tokenizer_json_finish(&t);
    return err;
}

static rdg_err load_tokens(converter *c)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt"};
    enum { JSON, MODEL, VOCAB, MERGES };
    bool found[RDG_COUNTOF(names)];
    rdg_tokenizer_json t;
    rdg_err err;
    for (int i = 0; i < RDG_COUNTOF(names); i++)
        if ((err = exists(c, names[i], &found[i]))) return err;
    if (found[JSON]) {
        if ((err = load_json(c, "tokenizer.json", NULL, &t))) return err;
        err = found[MODEL] && is_sentencepiece_like(&t) ? from_model_file(c, &t) : from_json(c, &t);
        rdg_tokenizer_json_finish(&t);
        return err;
    }
    if (found[MODEL]) return from_model_file(c, NULL);
    if (found[VOCAB] && found[MERGES]) return from_pair(c);
    return rdg_fail(c->e, RDG_E_NOT_FOUND,
                    "%s: no tokenizer.json, tokenizer.model or vocab.json with merges.txt: the result will "
                    "work with token ids only",
                    c->dir);
}

rdg_err rdg_vocab_convert(const char *dir, int64_t n_vocab, rdg_gguf_writer *w, rdg_vocab_report *r,
                          const rdg_log *log, rdg_error *e)
{
    rdg_error local;
    converter c = {.dir = dir, .n_vocab = n_vocab, .writer = w, .report = r, .log = log, .e = e ? e : &local};
    rdg_err err;
    *r = (rdg_vocab_report){0};
    rdg_arena_init(&r->arena);
    rdg_vocab_init(&c.vocab);
    rdg_strmap_init(&c.index);
    if ((err = read_object(&c, "tokenizer_config.json", &c.tokenizer_config))) goto done;
    if ((err = read_object(&c, "config.json", &c.config))) goto done;
    if ((err = read_object(&c, "generation_config.json", &c.generation_config))) goto done;
    if ((err = read_object(&c, "added_tokens.json", &c.added_json))) goto done;
    c.added_decoder = json_object_get(c.tokenizer_config, "added_tokens_decoder");
    if ((err = load_tokens(&c))) goto done;
    if ((err = fill_padding(&c))) goto done;
    if ((err = build_index(&c))) goto done;
    set_specials(&c);
    set_flags(&c);
    snprintf(r->model, sizeof r->model, "%s", c.vocab.model);
    snprintf(r->pre, sizeof r->pre, "%s", c.vocab.pre);
    r->n_tokens = c.vocab.n_tokens;
    if ((err = rdg_vocab_write(&c.vocab, w, c.e))) goto done;
    if ((err = set_templates(&c))) goto done;
    err = add_selftests(&c);
done:
    json_decref(c.added_json);
    json_decref(c.generation_config);
    json_decref(c.config);
    json_decref(c.tokenizer_config);
    rdg_strmap_finish(&c.index);
    rdg_vocab_finish(&c.vocab);
    return err;
}
