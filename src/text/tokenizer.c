/* The tokenizer: preparation from a vocabulary, the way from text to ids and back, and streaming output. What
 * is special about each kind of vocabulary is in bytelevel.c, spm.c, unigram.c and wordpiece.c. */
#include "text/tokenizer_impl.h"
#include "base/err.h"
#include "format/names.h"
#include "text/utf8.h"

#include <string.h>

static const struct {
    rdg_err (*prepare)(rdg_tokenizer *t, const rdg_log *log, rdg_error *e);
    rdg_err (*encode)(const rdg_tokenizer *t, const char *text, size_t n, bool prefix, rdg_ids *ids,
                      rdg_error *e);
} kinds[RDG_VOCAB_KIND_COUNT] = {
    [RDG_VOCAB_SPM] = {rdg_spm_prepare, rdg_spm_encode},
    [RDG_VOCAB_BPE] = {rdg_bpe_prepare, rdg_bpe_encode},
    [RDG_VOCAB_WORDPIECE] = {rdg_wordpiece_prepare, rdg_wordpiece_encode},
    [RDG_VOCAB_UNIGRAM] = {rdg_unigram_prepare, rdg_unigram_encode},
};

static rdg_err no_memory(const rdg_tokenizer *t, rdg_error *e)
{
    return rdg_fail(e, RDG_E_NOMEM, "tokenizer: out of memory for %d tokens", (int)t->vocab.n_tokens);
}

rdg_err rdg_ids_push(rdg_ids *ids, int32_t id, rdg_error *e)
{
    if (!rdg_grow(&ids->p, ids->n, &ids->cap, sizeof *ids->p))
        return rdg_fail(e, RDG_E_NOMEM, "tokenizer: out of memory after %zu tokens", ids->n);
    ids->p[ids->n++] = id;
    return RDG_OK;
}

/* Lookups ------------------------------------------------------------------------------------------------ */

int32_t rdg_tokenizer_ordinary(const rdg_tokenizer *t, const char *text, size_t n)
{
    int32_t id = rdg_strmap_get(&t->index, text, n);
    return id >= 0 && rdg_vocab_is_ordinary(&t->vocab, id) ? id : -1;
}

int32_t rdg_tokenizer_symbol(rdg_tokenizer *t, const char *text, size_t n)
{
    int32_t symbol = rdg_tokenizer_ordinary(t, text, n);
    if (symbol < 0) symbol = rdg_strmap_get(&t->extra_index, text, n);
    if (symbol >= 0) return symbol;
    if (t->n_extra >= (size_t)(INT32_MAX - t->vocab.n_tokens)) return -1;
    char *copy = rdg_arena_strndup(&t->arena, text, n);
    symbol = t->vocab.n_tokens + (int32_t)t->n_extra;
    if (!copy || !rdg_grow(&t->extra, t->n_extra, &t->extra_cap, sizeof *t->extra)) return -1;
    if (!rdg_strmap_put(&t->extra_index, copy, n, symbol)) return -1;
    t->extra[t->n_extra++] = (rdg_str){copy, n};
    return symbol;
}

rdg_err rdg_tokenizer_push_bytes(const rdg_tokenizer *t, const char *text, size_t n, rdg_ids *ids,
                                 rdg_error *e)
{
    int32_t unk = t->vocab.special[RDG_SPECIAL_UNK];
    bool unknown = false;
    rdg_err err = RDG_OK;
    for (size_t i = 0; i < n && !err; i++) {
        int32_t id = t->byte_token[(unsigned char)text[i]];
        if (id < 0) id = rdg_tokenizer_ordinary(t, text + i, 1);
        if (id >= 0)
            err = rdg_ids_push(ids, id, e);
        else
            unknown = true;
    }
    return !err && unknown && unk >= 0 ? rdg_ids_push(ids, unk, e) : err;
}

/* Piece cache -------------------------------------------------------------------------------------------- */

enum { CACHE_PIECE_BYTES = 64, CACHE_PIECES = 1 << 16 };

void rdg_piece_cache_init(rdg_piece_cache *c)
{
    *c = (rdg_piece_cache){0};
    rdg_strmap_init(&c->map);
}

void rdg_piece_cache_finish(rdg_piece_cache *c)
{
    rdg_strmap_finish(&c->map);
    rdg_free(c->spans);
    *c = (rdg_piece_cache){0};
}

rdg_err rdg_piece_cache_get(const rdg_piece_cache *c, const char *text, size_t n, rdg_ids *ids, bool *found,
                            rdg_error *e)
{
    int32_t i = n <= CACHE_PIECE_BYTES ? rdg_strmap_get(&c->map, text, n) : -1;
    *found = i >= 0;
    rdg_err err = RDG_OK;
    for (size_t k = 0; *found && k < c->spans[i].n && !err; k++)
        err = rdg_ids_push(ids, ids->p[c->spans[i].at + k], e);
    return err;
}

void rdg_piece_cache_put(rdg_piece_cache *c, const char *text, size_t n, const rdg_ids *ids, size_t at)
{
    if (n > CACHE_PIECE_BYTES || c->n >= CACHE_PIECES) return;
    if (!rdg_grow(&c->spans, c->n, &c->cap, sizeof *c->spans)) return;
    if (!rdg_strmap_put(&c->map, text, n, (int32_t)c->n)) return;
    c->spans[c->n].at = at;
    c->spans[c->n++].n = (uint32_t)(ids->n - at);
}

/* Preparation -------------------------------------------------------------------------------------------- */

/* "<0x0A>", upper-case digits: its byte, else -1. */
static int byte_of(rdg_str s)
{
    static const char digits[] = "0123456789ABCDEF";
    if (s.n != 6 || memcmp(s.p, "<0x", 3) != 0 || s.p[5] != '>') return -1;
    const char *high = memchr(digits, s.p[3], 16), *low = memchr(digits, s.p[4], 16);
    return high && low ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

/* All texts; ordinary tokens last, so that they win over special ones of the same text. */
static rdg_err build_index(rdg_tokenizer *t, rdg_error *e)
{
    const rdg_vocab *v = &t->vocab;
    if (!rdg_strmap_reserve(&t->index, (size_t)v->n_tokens)) return no_memory(t, e);
    for (int pass = 0; pass < 2; pass++)
        for (int32_t id = 0; id < v->n_tokens; id++)
            if (rdg_vocab_is_ordinary(v, id) == (pass == 1) &&
                !rdg_strmap_put(&t->index, v->tokens[id].p, v->tokens[id].n, id))
                return no_memory(t, e);
    return RDG_OK;
}

static rdg_err build_bytes(rdg_tokenizer *t, rdg_error *e)
{
    const rdg_vocab *v = &t->vocab;
    for (int32_t id = 0; id < v->n_tokens; id++) {
        if (v->types[id] != RDG_TOKEN_BYTE) continue;
        int byte = byte_of(v->tokens[id]);
        if (byte < 0)
            return rdg_fail(
                e, RDG_E_MALFORMED,
                "tokenizer.ggml.tokens: token %d %s is marked as a byte but is not <0x00> to <0xFF>", (int)id,
                rdg_quote(v->tokens[id].p, v->tokens[id].n).text);
        t->byte_token[byte] = id;
    }
    return RDG_OK;
}

static bool is_end_name(rdg_str s)
{
    static const char *const names[] = {
        "<|eot_id|>",
        "<|im_end|>",
        "<|end|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "<|eom_id|>",
        "<EOT>",
        "<\xef\xbd\x9c"
        "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
    };
    for (int i = 0; i < RDG_COUNTOF(names); i++)
        if (s.n == strlen(names[i]) && memcmp(s.p, names[i], s.n) == 0) return true;
    return false;
}

/* Which tokens end generation; those known by name are control tokens whatever the file says. */
static rdg_err build_ends(rdg_tokenizer *t, rdg_error *e)
{
    static const rdg_vocab_special ends[] = {RDG_SPECIAL_EOS,     RDG_SPECIAL_EOT,     RDG_SPECIAL_EOM,
                                             RDG_SPECIAL_FIM_PAD, RDG_SPECIAL_FIM_REP, RDG_SPECIAL_FIM_SEP};
    rdg_vocab *v = &t->vocab;
    t->is_end = rdg_arena_array(&t->arena, (size_t)v->n_tokens, sizeof *t->is_end);
    if (!t->is_end) return no_memory(t, e);
    for (int32_t id = 0; id < v->n_tokens; id++) {
        if (!is_end_name(v->tokens[id])) continue;
        t->is_end[id] = true;
        v->types[id] = RDG_TOKEN_CONTROL;
    }
    for (int i = 0; i < RDG_COUNTOF(ends); i++)
        if (v->special[ends[i]] >= 0) t->is_end[v->special[ends[i]]] = true;
    return RDG_OK;
}

/* Each position of a text is compared with the beginnings of all these, so their length is bounded. */
enum { MAX_SPECIAL_BYTES = 1024 };

static rdg_err build_special(rdg_tokenizer *t, const rdg_log *log, rdg_error *e)
{
    const rdg_vocab *v = &t->vocab;
    size_t n_long = 0;
    for (int32_t id = 0; id < v->n_tokens; id++) {
        rdg_str s = v->tokens[id];
        bool user = v->types[id] == RDG_TOKEN_USER_DEFINED;
        bool any = user || v->types[id] == RDG_TOKEN_CONTROL || v->types[id] == RDG_TOKEN_UNKNOWN;
        if (any && s.n > MAX_SPECIAL_BYTES) {
            n_long++;
            continue;
        }
        if (user && !rdg_special_add(&t->special[0], s.p, s.n, id)) return no_memory(t, e);
        if (any && !rdg_special_add(&t->special[1], s.p, s.n, id)) return no_memory(t, e);
    }
    for (int i = 0; i < 2; i++) rdg_special_seal(&t->special[i]);
    if (n_long)
        rdg_log_warn(
            log, "tokenizer.ggml.tokens: %zu special tokens longer than %d bytes are not recognised in text",
            n_long, MAX_SPECIAL_BYTES);
    return RDG_OK;
}

/* Output text of an ordinary token. */
static void append_output(const rdg_tokenizer *t, rdg_str s, rdg_buf *b)
{
    bool bytes = t->vocab.kind == RDG_VOCAB_BPE;
    bool word_start = s.n >= RDG_SPACE_MARK_N && memcmp(s.p, RDG_SPACE_MARK, RDG_SPACE_MARK_N) == 0;
    for (size_t i = 0; i < s.n;) {
        uint32_t cp = 0;
        int len = rdg_utf8_decode(s.p + i, s.n - i, &cp), byte = bytes && len ? rdg_char_to_byte(cp) : -1;
        if (len == 0) len = 1;
        if (byte >= 0)
            rdg_buf_putc(b, (char)byte);
        else if (!bytes && cp == 0x2581 && (t->vocab.kind != RDG_VOCAB_WORDPIECE || (i == 0 && word_start)))
            rdg_buf_putc(b, ' ');
        else
            rdg_buf_append(b, s.p + i, (size_t)len);
        i += (size_t)len;
    }
}

/* One block holds the output of all tokens. */
static rdg_err build_output(rdg_tokenizer *t, rdg_error *e)
{
    const rdg_vocab *v = &t->vocab;
    rdg_buf b;
    size_t at = 0;
    rdg_buf_init(&b);
    t->output = rdg_arena_array(&t->arena, (size_t)v->n_tokens, sizeof *t->output);
    if (!t->output) goto no_memory;
    for (int32_t id = 0; id < v->n_tokens; id++) {
        size_t before = b.len;
        if (v->types[id] == RDG_TOKEN_BYTE)
            rdg_buf_putc(&b, (char)byte_of(v->tokens[id]));
        else if (rdg_vocab_is_ordinary(v, id))
            append_output(t, v->tokens[id], &b);
        else
            rdg_buf_append(&b, v->tokens[id].p, v->tokens[id].n);
        if (b.failed) goto no_memory;
        t->output[id].n = b.len - before;
    }
    char *block = rdg_arena_strndup(&t->arena, b.data ? b.data : "", b.len);
    if (!block) goto no_memory;
    for (int32_t id = 0; id < v->n_tokens; id++) {
        t->output[id].p = block + at;
        at += t->output[id].n;
    }
    rdg_buf_finish(&b);
    return RDG_OK;
no_memory:
    rdg_buf_finish(&b);
    return no_memory(t, e);
}

/* The texts with known ids that the converter left in the file. A difference is the reader's business to
 * know, but no reason to refuse the model: it also comes from another version of the Unicode tables. */
static rdg_err run_selftests(const rdg_tokenizer *t, const rdg_log *log, rdg_error *e)
{
    size_t n_failed = 0;
    rdg_err err = RDG_OK;
    for (size_t i = 0; i < t->vocab.n_selftests && !err; i++) {
        const struct rdg_vocab_selftest *s = &t->vocab.selftests[i];
        int32_t *ids = NULL;
        size_t n = 0;
        err = rdg_tokenize(t, s->text.p, s->text.n, (rdg_tokenize_params){0}, &ids, &n, e);
        if (!err && (n != s->n_ids || (n && memcmp(ids, s->ids, n * sizeof *ids) != 0))) n_failed++;
        rdg_tokens_free(ids);
    }
    if (n_failed)
        rdg_log_warn(
            log, "tokenizer: %zu of %zu reference texts in the file give other tokens than when it was made",
            n_failed, t->vocab.n_selftests);
    return err;
}

rdg_err rdg_tokenizer_from_vocab(rdg_vocab *v, const rdg_log *log, rdg_tokenizer **out, rdg_error *e)
{
    rdg_tokenizer *t = rdg_alloc(sizeof *t);
    rdg_err err;
    *out = NULL;
    if (!t) {
        rdg_vocab_finish(v);
        return rdg_fail(e, RDG_E_NOMEM, "tokenizer: out of memory");
    }
    t->vocab = *v;
    rdg_vocab_init(v);
    v = &t->vocab;
    rdg_arena_init(&t->arena);
    rdg_strmap_init(&t->index);
    rdg_strmap_init(&t->extra_index);
    rdg_bpe_init(&t->bpe);
    for (int i = 0; i < 256; i++) t->byte_token[i] = t->byte_symbol[i] = -1;
    if (!rdg_special_init(&t->special[0]) || !rdg_special_init(&t->special[1]) || !rdg_trie_init(&t->trie)) {
        err = no_memory(t, e);
        goto fail;
    }
    if (v->kind == RDG_VOCAB_WORDPIECE) { /* these go around the text */
        if (v->special[RDG_SPECIAL_CLS] >= 0) v->special[RDG_SPECIAL_BOS] = v->special[RDG_SPECIAL_CLS];
        if (v->special[RDG_SPECIAL_SEP] >= 0) v->special[RDG_SPECIAL_EOS] = v->special[RDG_SPECIAL_SEP];
    }
    if ((err = build_ends(t, e))) goto fail;
    if ((err = build_index(t, e))) goto fail;
    if ((err = build_bytes(t, e))) goto fail;
    if ((err = build_special(t, log, e))) goto fail;
    if ((err = build_output(t, e))) goto fail;
    if ((err = kinds[v->kind].prepare(t, log, e))) goto fail;
    if ((err = run_selftests(t, log, e))) goto fail;
    *out = t;
    return RDG_OK;
fail:
    rdg_tokenizer_destroy(t);
    return err;
}

rdg_err rdg_tokenizer_create(const rdg_gguf *g, const rdg_log *log, rdg_tokenizer **out, rdg_error *e)
{
    rdg_vocab v;
    *out = NULL;
    rdg_err err = rdg_vocab_read(g, log, &v, e);
    return err ? err : rdg_tokenizer_from_vocab(&v, log, out, e);
}

void rdg_tokenizer_destroy(rdg_tokenizer *t)
{
    if (!t) return;
    rdg_trie_finish(&t->trie);
    rdg_strmap_finish(&t->extra_index);
    rdg_free(t->extra);
    rdg_bpe_finish(&t->bpe);
    rdg_pretokenizer_destroy(t->pre);
    for (int i = 0; i < 2; i++) rdg_special_finish(&t->special[i]);
    rdg_strmap_finish(&t->index);
    rdg_arena_finish(&t->arena);
    rdg_vocab_finish(&t->vocab);
    rdg_free(t);
}

/* Text to ids -------------------------------------------------------------------------------------------- */

static size_t space_after(const char *p, size_t n)
{
    size_t i = 0;
    uint32_t cp = 0;
    for (int len; i < n && (len = rdg_utf8_decode(p + i, n - i, &cp)) && rdg_is_space(cp); i += (size_t)len) {
    }
    return i;
}

/* Bytes of white space at the end. */
static size_t space_before(const char *p, size_t n)
{
    size_t end = n;
    while (end > 0) {
        size_t start = end - 1;
        uint32_t cp = 0;
        while (start > 0 && end - start < 4 && ((unsigned char)p[start] & 0xc0) == 0x80) start--;
        if (rdg_utf8_decode(p + start, end - start, &cp) != (int)(end - start) || !rdg_is_space(cp)) break;
        end = start;
    }
    return n - end;
}

static unsigned strip_of(const rdg_tokenizer *t, int32_t id)
{
    return id >= 0 && t->vocab.strip ? t->vocab.strip[id] : 0;
}

/* Special tokens next to a fragment may swallow its white space. */
static void strip_fragments(const rdg_tokenizer *t, const char *text, rdg_special_part *parts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        rdg_special_part *p = &parts[i];
        if (p->id >= 0) continue;
        if (i && strip_of(t, parts[i - 1].id) & RDG_STRIP_RIGHT)
            p->start += space_after(text + p->start, p->end - p->start);
        if (i + 1 < n && strip_of(t, parts[i + 1].id) & RDG_STRIP_LEFT)
            p->end -= space_before(text + p->start, p->end - p->start);
    }
}

/* The fragment brings a space of its own that the model takes for the space prefix. */
static bool has_prefix(const rdg_tokenizer *t, const char *p, size_t n)
{
    if (!t->vocab.prefix_unless_space) return false;
    /* leading spaces that are going to be removed do not count */
    if (p[0] == ' ') return !(t->vocab.kind == RDG_VOCAB_UNIGRAM && t->vocab.remove_extra_whitespaces);
    return n >= RDG_SPACE_MARK_N && memcmp(p, RDG_SPACE_MARK, RDG_SPACE_MARK_N) == 0;
}

static rdg_err tokenize(const rdg_tokenizer *t, const char *text, size_t n, rdg_tokenize_params params,
                        const rdg_special_filter *filter, int32_t **ids, size_t *n_ids, rdg_error *e)
{
    const rdg_vocab *v = &t->vocab;
    rdg_special_part *parts = NULL;
    size_t n_parts = 0;
    rdg_ids out = {0};
    bool prefix = v->add_space_prefix; /* due for the next fragment */
    rdg_err err = RDG_OK;
    *ids = NULL;
    *n_ids = 0;
    if (params.add_special && v->add_bos && v->special[RDG_SPECIAL_BOS] >= 0)
        err = rdg_ids_push(&out, v->special[RDG_SPECIAL_BOS], e);
    if (!err)
        err = rdg_special_split(&t->special[params.parse_special], text, n, filter, &parts, &n_parts, e);
    if (!err) strip_fragments(t, text, parts, n_parts);
    for (size_t i = 0; i < n_parts && !err; i++) {
        const rdg_special_part *p = &parts[i];
        if (p->id >= 0) {
            err = rdg_ids_push(&out, p->id, e);
            prefix = v->add_space_prefix && !v->prefix_first_only;
        } else if (p->end > p->start) {
            prefix = prefix && !has_prefix(t, text + p->start, p->end - p->start);
            err = kinds[v->kind].encode(t, text + p->start, p->end - p->start, prefix, &out, e);
            prefix = false;
        }
    }
    if (!err && params.add_special && v->add_eos && v->special[RDG_SPECIAL_EOS] >= 0)
        err = rdg_ids_push(&out, v->special[RDG_SPECIAL_EOS], e);
    rdg_free(parts);
    if (err) {
        rdg_free(out.p);
        return err;
    }
    *ids = out.p;
    *n_ids = out.n;
    return RDG_OK;
}

rdg_err rdg_tokenize(const rdg_tokenizer *t, const char *text, size_t n, rdg_tokenize_params params,
                     int32_t **ids, size_t *n_ids, rdg_error *e)
{
    return tokenize(t, text, n, params, NULL, ids, n_ids, e);
}

typedef struct foreign {
    const rdg_tokenizer *t;
    const rdg_template_span *spans;
    size_t n;
} foreign;

/* User-defined tokens are text like any other. A control token that lies in a span, or that a span would
 * complete, is none. */
static bool not_foreign(const void *user, int32_t id, size_t start, size_t end)
{
    const foreign *f = user;
    size_t low = 0, high = f->n; /* the first span that ends behind start */
    if (f->t->vocab.types[id] == RDG_TOKEN_USER_DEFINED) return true;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (f->spans[middle].end > start)
            high = middle;
        else
            low = middle + 1;
    }
    return low == f->n || f->spans[low].begin >= end;
}

rdg_err rdg_tokenize_spans(const rdg_tokenizer *t, const char *text, size_t n, const rdg_template_span *spans,
                           size_t n_spans, bool add_special, int32_t **ids, size_t *n_ids, rdg_error *e)
{
    const foreign f = {.t = t, .spans = spans, .n = n_spans};
    const rdg_special_filter filter = {.accepts = not_foreign, .user = &f};
    const rdg_tokenize_params params = {.add_special = add_special, .parse_special = true};
    *ids = NULL;
    *n_ids = 0;
    for (size_t i = 0, at = 0; i < n_spans; at = spans[i++].end)
        if (spans[i].begin < at || spans[i].end <= spans[i].begin || spans[i].end > n)
            return rdg_fail(
                e, RDG_E_ARGUMENT,
                "span %zu, bytes %zu to %zu, is empty, behind the text's %zu or before an earlier one", i,
                spans[i].begin, spans[i].end, n);
    return tokenize(t, text, n, params, &filter, ids, n_ids, e);
}

void rdg_tokens_free(int32_t *ids)
{
    rdg_free(ids);
}

/* Ids to text -------------------------------------------------------------------------------------------- */

static bool in_range(const rdg_tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->vocab.n_tokens;
}

rdg_str rdg_token_bytes(const rdg_tokenizer *t, int32_t id, bool special)
{
    if (!in_range(t, id)) return (rdg_str){"", 0};
    unsigned type = t->vocab.types[id];
    bool hidden = type == RDG_TOKEN_CONTROL || type == RDG_TOKEN_UNKNOWN || type == RDG_TOKEN_UNUSED;
    return hidden && !special ? (rdg_str){"", 0} : t->output[id];
}

rdg_str rdg_token_piece(const rdg_tokenizer *t, int32_t id)
{
    return in_range(t, id) ? t->vocab.tokens[id] : (rdg_str){"", 0};
}

rdg_token_type rdg_token_kind(const rdg_tokenizer *t, int32_t id)
{
    return in_range(t, id) ? (rdg_token_type)t->vocab.types[id] : RDG_TOKEN_UNDEFINED;
}

/* Text begins with a space that is not part of it. */
static bool adds_space(const rdg_tokenizer *t)
{
    return t->vocab.add_space_prefix || t->vocab.kind == RDG_VOCAB_WORDPIECE;
}

static bool is_text(const rdg_tokenizer *t, int32_t id)
{
    return in_range(t, id) && (rdg_vocab_is_ordinary(&t->vocab, id) || t->vocab.types[id] == RDG_TOKEN_BYTE);
}

rdg_err rdg_detokenize(const rdg_tokenizer *t, const int32_t *ids, size_t n_ids, bool special, char **text,
                       size_t *n, rdg_error *e)
{
    rdg_buf b;
    bool started = !adds_space(t);
    rdg_buf_init(&b);
    *text = NULL;
    *n = 0;
    for (size_t i = 0; i < n_ids; i++) {
        rdg_str s = rdg_token_bytes(t, ids[i], special);
        if (!started && s.n && is_text(t, ids[i])) {
            if (s.p[0] == ' ' && rdg_vocab_is_ordinary(&t->vocab, ids[i])) s = (rdg_str){s.p + 1, s.n - 1};
            started = true;
        }
        rdg_buf_append(&b, s.p, s.n);
    }
    *n = b.len;
    *text = rdg_buf_take(&b);
    if (!*text) {
        *n = 0;
        return rdg_fail(e, RDG_E_NOMEM, "detokenise: out of memory for %zu tokens", n_ids);
    }
    return RDG_OK;
}

void rdg_text_free(char *text)
{
    rdg_free(text);
}

/* Properties --------------------------------------------------------------------------------------------- */

int64_t rdg_tokenizer_n_vocab(const rdg_tokenizer *t)
{
    return t->vocab.n_tokens;
}

int32_t rdg_tokenizer_bos(const rdg_tokenizer *t)
{
    return t->vocab.special[RDG_SPECIAL_BOS];
}

int32_t rdg_tokenizer_eos(const rdg_tokenizer *t)
{
    return t->vocab.special[RDG_SPECIAL_EOS];
}

int32_t rdg_tokenizer_eot(const rdg_tokenizer *t)
{
    return t->vocab.special[RDG_SPECIAL_EOT];
}

int32_t rdg_tokenizer_unk(const rdg_tokenizer *t)
{
    return t->vocab.special[RDG_SPECIAL_UNK];
}

bool rdg_tokenizer_add_bos(const rdg_tokenizer *t)
{
    return t->vocab.add_bos && t->vocab.special[RDG_SPECIAL_BOS] >= 0;
}

bool rdg_tokenizer_add_eos(const rdg_tokenizer *t)
{
    return t->vocab.add_eos && t->vocab.special[RDG_SPECIAL_EOS] >= 0;
}

bool rdg_token_is_end(const rdg_tokenizer *t, int32_t id)
{
    return in_range(t, id) && t->is_end[id];
}

int32_t rdg_token_find(const rdg_tokenizer *t, const char *piece, size_t n)
{
    return rdg_strmap_get(&t->index, piece, n);
}

const char *rdg_tokenizer_model(const rdg_tokenizer *t)
{
    return t->vocab.model;
}

const char *rdg_tokenizer_pre(const rdg_tokenizer *t)
{
    return t->vocab.pre;
}

/* Streaming ---------------------------------------------------------------------------------------------- */

void rdg_stream_init(rdg_stream *s, const rdg_tokenizer *t)
{
    *s = (rdg_stream){.tokenizer = t};
}

/* Whether the n < 4 bytes can still become a character. */
static bool may_grow(const char *p, size_t n)
{
    unsigned char c = (unsigned char)p[0];
    size_t len = c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 1;
    if (n >= len) return false;
    for (size_t i = 1; i < n; i++)
        if (((unsigned char)p[i] & 0xc0) != 0x80) return false;
    unsigned char second =
        n > 1 ? (unsigned char)p[1] : 0x90; /* 0x90 suits every first byte but 0xe0 and 0xed */
    if (n > 1 && ((c == 0xe0 && second < 0xa0) || (c == 0xed && second > 0x9f) ||
                  (c == 0xf0 && second < 0x90) || (c == 0xf4 && second > 0x8f)))
        return false;
    return true;
}

rdg_err rdg_stream_token(rdg_stream *s, int32_t id, bool special,
                         void (*emit)(void *user, const char *text, size_t n), void *user)
{
    rdg_str text = rdg_token_bytes(s->tokenizer, id, special);
    if (!s->started && text.n && is_text(s->tokenizer, id)) {
        if (adds_space(s->tokenizer) && text.p[0] == ' ' && rdg_vocab_is_ordinary(&s->tokenizer->vocab, id))
            text = (rdg_str){text.p + 1, text.n - 1};
        s->started = true;
    }
    for (size_t i = 0; i < text.n;) {
        uint32_t cp;
        if (s->n_pending == 0) { /* pass on what is whole in one go */
            size_t whole = i;
            for (int len; whole < text.n; whole += (size_t)len) {
                len = rdg_utf8_decode(text.p + whole, text.n - whole, &cp);
                if (len == 0 && may_grow(text.p + whole, text.n - whole)) break;
                if (len == 0) len = 1; /* never becomes a character */
            }
            if (whole > i) emit(user, text.p + i, whole - i);
            i = whole;
            if (i == text.n) break;
        }
        s->pending[s->n_pending++] = text.p[i++];
        if (may_grow(s->pending, s->n_pending)) continue;
        /* A whole character, or bytes that never become one: then the last byte may begin another. */
        bool whole = rdg_utf8_decode(s->pending, s->n_pending, &cp) == (int)s->n_pending;
        size_t n = whole || s->n_pending == 1 ? s->n_pending : s->n_pending - 1;
        emit(user, s->pending, n);
        if (n < s->n_pending) i--;
        s->n_pending = 0;
    }
    return RDG_OK;
}

void rdg_stream_finish(rdg_stream *s, void (*emit)(void *user, const char *text, size_t n), void *user)
{
    if (s->n_pending) emit(user, s->pending, s->n_pending);
    s->n_pending = 0;
}
