/* Tokens of a vocabulary: their texts, types, scores and merges, from tokenizer.json or tokenizer.model. Ids
 * beyond the model's rows are left out, ids without a token become padding. */
#include "convert/vocab_impl.h"
#include "format/names.h"
#include "text/pretokenizer.h"

#include <stdio.h>
#include <string.h>

/* Tokens ------------------------------------------------------------------------------------------------- */

/* Sizes the vocabulary for n_known tokens of the files and the rows of the embedding. */
static rdg_err size_vocab(converter *c, int64_t n_known)
{
    rdg_vocab *v = &c->vocab;
    int64_t n = c->n_vocab > 0 ? c->n_vocab : n_known;
    if (n <= 0 || n > RDG_VOCAB_MAX_TOKENS)
        return rdg_fail(c->e, RDG_E_LIMIT, "vocabulary: %lld tokens, 1 to %d are possible", (long long)n,
                        RDG_VOCAB_MAX_TOKENS);
    if (n_known > n)
        rdg_vocab_warn(
            c, "the tokenizer has %lld tokens but the model only %lld rows for them: the rest is left out",
            (long long)n_known, (long long)n);
    v->n_tokens = (int32_t)n;
    v->tokens = rdg_arena_array(&v->arena, (size_t)n, sizeof *v->tokens);
    v->types = rdg_arena_alloc(&v->arena, (size_t)n);
    v->strip = rdg_arena_alloc(&v->arena, (size_t)n);
    v->scores = v->kind == RDG_VOCAB_SPM || v->kind == RDG_VOCAB_UNIGRAM
                    ? rdg_arena_array(&v->arena, (size_t)n, sizeof *v->scores)
                    : NULL;
    if (!v->tokens || !v->types || !v->strip) return rdg_vocab_no_memory(c);
    if ((v->kind == RDG_VOCAB_SPM || v->kind == RDG_VOCAB_UNIGRAM) && !v->scores)
        return rdg_vocab_no_memory(c);
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
    if (!p) return rdg_vocab_no_memory(c);
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
    rdg_err err = b.failed ? rdg_vocab_no_memory(c)
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
        rdg_vocab_warn(c, "added token %s: single_word is not carried over",
                       rdg_quote(a->text.p, a->text.n).text);
    v->strip[a->id] = (unsigned char)((a->lstrip ? RDG_STRIP_LEFT : 0) | (a->rstrip ? RDG_STRIP_RIGHT : 0));
    if (v->types[a->id] == RDG_TOKEN_UNKNOWN) return RDG_OK;
    if (a->special || looks_special(a->text))
        return set_token(c, a->id, "", a->text, RDG_TOKEN_CONTROL, ADDED_SCORE);
    return set_user_token(c, a->id, a->text, ADDED_SCORE);
}

/* Fills the ids that no file speaks of. */
rdg_err rdg_vocab_fill_padding(converter *c)
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
bool rdg_vocab_is_sentencepiece_like(const rdg_tokenizer_json *t)
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
        return v->pre ? RDG_OK : rdg_vocab_no_memory(c);
    }
    v->pre = "default";
    /* An empty list would stand for those of the name: one that never matches cuts nothing. */
    static const rdg_str never = {"(?!)", 4};
    size_t n = t->n_expressions ? t->n_expressions : 1;
    const rdg_str *from = t->n_expressions ? t->expressions : &never;
    v->expressions = rdg_arena_array(&v->arena, n, sizeof *v->expressions);
    if (!v->expressions) return rdg_vocab_no_memory(c);
    for (size_t i = 0; i < n; i++) {
        v->expressions[i].n = from[i].n;
        v->expressions[i].p = rdg_arena_strndup(&v->arena, from[i].p, from[i].n);
        if (!v->expressions[i].p) return rdg_vocab_no_memory(c);
    }
    v->n_expressions = n;
    rdg_vocab_warn(
        c,
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
    if (!v->merges) return rdg_vocab_no_memory(c);
    for (size_t i = 0; i < t->n_merges; i++) {
        v->merges[i].n = t->merges[i].n;
        v->merges[i].p = rdg_arena_strndup(&v->arena, t->merges[i].p, t->merges[i].n);
        if (!v->merges[i].p) return rdg_vocab_no_memory(c);
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
        if (!rdg_strmap_put(&map, v->tokens[i].p, v->tokens[i].n, i)) err = rdg_vocab_no_memory(c);
    }
    for (size_t rank = v->n_merges; rank-- > 0 && !err;) { /* backwards: the first rank of a result stays */
        rdg_str left, right;
        bool cut = rdg_vocab_merge(v, rank, &left, &right, &b);
        int32_t id = cut && !b.failed ? rdg_strmap_get(&map, b.data, b.len) : -1;
        if (b.failed) err = rdg_vocab_no_memory(c);
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

rdg_err rdg_vocab_from_json(converter *c, const rdg_tokenizer_json *t)
{
    rdg_vocab *v = &c->vocab;
    rdg_err err;
    rdg_vocab_kind kind = t->model == RDG_TOKENIZER_JSON_WORDPIECE ? RDG_VOCAB_WORDPIECE
                          : t->model == RDG_TOKENIZER_JSON_UNIGRAM ? RDG_VOCAB_UNIGRAM
                          : t->byte_level                          ? RDG_VOCAB_BPE
                                                                   : RDG_VOCAB_SPM;
    if (kind == RDG_VOCAB_SPM && !rdg_vocab_is_sentencepiece_like(t))
        return rdg_fail(c->e, RDG_E_UNSUPPORTED,
                        "tokenizer.json: a BPE model that is neither byte-level nor SentencePiece-like");
    for (size_t i = 0; i < t->n_warnings; i++) rdg_vocab_warn(c, "tokenizer.json: %s", t->warnings[i]);
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
        v->add_space_prefix = t->add_prefix_space && t->n_expressions <= 1;
        if (t->add_prefix_space && !v->add_space_prefix)
            rdg_vocab_warn(
                c,
                "tokenizer.json: pre_tokenizer: ByteLevel add_prefix_space behind other steps is not carried "
                "over");
    } else if (kind == RDG_VOCAB_WORDPIECE) {
        v->pre = "default";
        if (t->bert_normalizer && !(t->bert_chinese_chars && t->bert_clean_text))
            rdg_vocab_warn(
                c, "tokenizer.json: normalizer: BertNormalizer always cleans text and isolates Chinese "
                   "characters here");
    } else {
        v->pre = "default";
        v->add_space_prefix = t->prepend;
        v->prefix_first_only = t->prepend_first;
        v->prefix_unless_space = t->prepend_unless_space;
        v->remove_extra_whitespaces = kind == RDG_VOCAB_UNIGRAM && t->collapse_spaces;
        if (v->remove_extra_whitespaces ? !t->strip_right : t->collapse_spaces || t->strip_right)
            rdg_vocab_warn(c, "tokenizer.json: normalizer: spaces are %s here",
                           v->remove_extra_whitespaces ? "removed at both ends"
                                                       : "neither collapsed nor stripped");
        v->charsmap.n = t->charsmap.n;
        if (t->charsmap.n && !(v->charsmap.p = rdg_arena_strndup(&v->arena, t->charsmap.p, t->charsmap.n)))
            return rdg_vocab_no_memory(c);
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
        if (*key < '0' || *key > '9' || id >= RDG_VOCAB_MAX_TOKENS) return -1;
        id = id * 10 + (*key - '0');
    }
    return id;
}

/* The highest id + 1 among the added tokens of tokenizer_config.json and added_tokens.json. */
int64_t rdg_vocab_added_bound(converter *c)
{
    int64_t bound = 0;
    const char *key;
    json_t *value;
    json_object_foreach(c->added_decoder, key, value) bound = RDG_MAX(bound, decoder_id(key) + 1);
    json_object_foreach(c->added_json, key, value) if (json_is_integer(value)) bound =
        RDG_MAX(bound, (int64_t)RDG_MIN(json_integer_value(value), RDG_VOCAB_MAX_TOKENS) + 1);
    return bound;
}

rdg_err rdg_vocab_apply_added(converter *c)
{
    const char *key;
    json_t *value;
    rdg_err err;
    json_object_foreach(c->added_json, key, value)
    {
        json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || id >= RDG_VOCAB_MAX_TOKENS)
            return rdg_fail(c->e, RDG_E_MALFORMED, "added_tokens.json: the id of %s is out of range",
                            rdg_quote(key, strlen(key)).text);
        rdg_added_token a = {.text = {key, strlen(key)}, .id = (int32_t)id};
        if ((err = set_added(c, &a))) return err;
    }
    json_object_foreach(c->added_decoder, key, value)
    {
        int64_t id = decoder_id(key);
        json_t *content = json_object_get(value, "content");
        if (id < 0 || id >= RDG_VOCAB_MAX_TOKENS || !json_is_string(content))
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

rdg_err rdg_vocab_from_sentencepiece(converter *c, const rdg_sentencepiece *m, const rdg_tokenizer_json *t)
{
    rdg_vocab *v = &c->vocab;
    rdg_err err;
    rdg_vocab_set_kind(v, m->unigram ? RDG_VOCAB_UNIGRAM : RDG_VOCAB_SPM, "");
    v->pre = "default";
    int64_t n = RDG_MAX((int64_t)m->n_tokens, t ? t->n_tokens : rdg_vocab_added_bound(c));
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
    } else if ((err = rdg_vocab_apply_added(c))) {
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
        return rdg_vocab_no_memory(c);
    return RDG_OK;
}
