/* SentencePiece's BPE ("llama"): merges characters by the score of what they become; what is no token at the
 * end is spelled in bytes. The merges are prepared as pairs of symbols: each ordinary token cut in two at
 * every character, where both sides are tokens or single characters, ranked by the token's score. A file that
 * has merges of its own (converted from tokenizer.json) is taken at its word instead. */
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_MERGED_BYTES = 256
}; /* cutting is quadratic in the length; tokens in use have at most a few dozen bytes */

static rdg_err no_memory(const rdg_tokenizer *t, rdg_error *e)
{
    return rdg_fail(e, RDG_E_NOMEM, "tokenizer: out of memory for %d tokens", (int)t->vocab.n_tokens);
}

/* A character at p: a valid one or a single byte. */
static size_t char_bytes(const char *p, size_t n)
{
    uint32_t cp;
    int len = rdg_utf8_decode(p, n, &cp);
    return len ? (size_t)len : 1;
}

/* Adds all cuts of token id. */
static bool add_cuts(rdg_tokenizer *t, int32_t id, uint32_t rank)
{
    rdg_str s = t->vocab.tokens[id];
    size_t first = char_bytes(s.p, s.n);
    for (size_t at = first; at < s.n; at += char_bytes(s.p + at, s.n - at)) {
        size_t rest = s.n - at;
        int32_t left = rdg_tokenizer_ordinary(t, s.p, at), right = rdg_tokenizer_ordinary(t, s.p + at, rest);
        if (left < 0 && at == first && (left = rdg_tokenizer_symbol(t, s.p, at)) < 0) return false;
        if (right < 0 && char_bytes(s.p + at, rest) == rest &&
            (right = rdg_tokenizer_symbol(t, s.p + at, rest)) < 0)
            return false;
        if (left >= 0 && right >= 0 && !rdg_bpe_add(&t->bpe, left, right, id, rank)) return false;
    }
    return true;
}

typedef struct scored {
    float score;
    int32_t id;
} scored;

static int by_score(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static rdg_err pairs_from_scores(rdg_tokenizer *t, const rdg_log *log, rdg_error *e)
{
    const rdg_vocab *v = &t->vocab;
    size_t n = 0, n_long = 0;
    scored *order = rdg_alloc_array((size_t)v->n_tokens, sizeof *order);
    if (!order) return no_memory(t, e);
    for (int32_t id = 0; id < v->n_tokens; id++) {
        /* of equal texts only the one that the index knows */
        if (!rdg_vocab_is_ordinary(v, id) ||
            rdg_tokenizer_ordinary(t, v->tokens[id].p, v->tokens[id].n) != id)
            continue;
        if (v->tokens[id].n == 0) continue;
        if (v->tokens[id].n > MAX_MERGED_BYTES) {
            n_long++;
            continue;
        }
        order[n++] = (scored){v->scores ? v->scores[id] : 0.0f, id};
    }
    qsort(order, n, sizeof *order, by_score);
    uint32_t rank = 0;
    for (size_t i = 0; i < n; i++) {
        if (i && order[i].score != order[i - 1].score) rank++;
        if (!add_cuts(t, order[i].id, rank)) {
            rdg_free(order);
            return no_memory(t, e);
        }
    }
    rdg_free(order);
    if (n_long)
        rdg_log_warn(log,
                     "tokenizer.ggml.tokens: %zu tokens longer than %d bytes are never produced from text",
                     n_long, MAX_MERGED_BYTES);
    return RDG_OK;
}

static rdg_err pairs_from_merges(rdg_tokenizer *t, const rdg_log *log, rdg_error *e)
{
    const rdg_vocab *v = &t->vocab;
    size_t n_bad = 0;
    rdg_buf b;
    rdg_err err = RDG_OK;
    rdg_buf_init(&b);
    for (size_t rank = 0; rank < v->n_merges && !err; rank++) {
        rdg_str l, r;
        bool cut = rdg_vocab_merge(v, rank, &l, &r, &b);
        if (b.failed) {
            err = no_memory(t, e);
            break;
        }
        int32_t result = cut ? rdg_tokenizer_ordinary(t, b.data, b.len) : -1;
        if (result < 0) {
            n_bad++;
            continue;
        }
        int32_t left = rdg_tokenizer_symbol(t, l.p, l.n), right = rdg_tokenizer_symbol(t, r.p, r.n);
        if (left < 0 || right < 0 || !rdg_bpe_add(&t->bpe, left, right, result, (uint32_t)rank))
            err = no_memory(t, e);
    }
    rdg_buf_finish(&b);
    if (n_bad)
        rdg_log_warn(log, "tokenizer.ggml.merges: %zu of %zu lines do not give a token and are ignored",
                     n_bad, v->n_merges);
    return err;
}

/* Whether some token goes on with U+2581 after another character. */
static bool crosses_words(rdg_str s)
{
    for (size_t i = 1; i + RDG_SPACE_MARK_N <= s.n; i++) {
        if (memcmp(s.p + i, RDG_SPACE_MARK, RDG_SPACE_MARK_N) != 0) continue;
        if (i < RDG_SPACE_MARK_N || memcmp(s.p + i - RDG_SPACE_MARK_N, RDG_SPACE_MARK, RDG_SPACE_MARK_N) != 0)
            return true;
    }
    return false;
}

rdg_err rdg_spm_prepare(rdg_tokenizer *t, const rdg_log *log, rdg_error *e)
{
    const rdg_vocab *v = &t->vocab;
    if (!v->scores && !v->n_merges)
        return rdg_fail(e, RDG_E_MALFORMED, "tokenizer.ggml.scores is missing, tokenizer.ggml.model is %s",
                        v->model);
    rdg_err err = v->n_merges ? pairs_from_merges(t, log, e) : pairs_from_scores(t, log, e);
    if (err) return err;
    t->words = true;
    for (int32_t id = 0; id < v->n_tokens && t->words; id++)
        if (rdg_vocab_is_ordinary(v, id) && crosses_words(v->tokens[id])) t->words = false;
    return RDG_OK;
}

/* Symbols of a piece, and where each begins, so that what stays unknown can be spelled. */
static rdg_err encode_piece(const rdg_tokenizer *t, const char *text, size_t n, rdg_bpe_work *w, rdg_ids *ids,
                            rdg_error *e)
{
    w->n = 0;
    size_t at = 0;
    for (size_t i = 0; i < n;) {
        size_t len = char_bytes(text + i, n - i);
        int32_t symbol = rdg_tokenizer_ordinary(t, text + i, len);
        if (symbol < 0) symbol = rdg_strmap_get(&t->extra_index, text + i, len);
        if (!rdg_bpe_push(w, symbol))
            return rdg_fail(e, RDG_E_NOMEM, "tokenizer: out of memory for a word of %zu bytes", n);
        i += len;
    }
    rdg_err err = rdg_bpe_merge(&t->bpe, w, e);
    for (size_t i = 0; i < w->n && !err; i++) {
        int32_t symbol = w->symbols[i];
        size_t len;
        if (symbol >= 0 && symbol < t->vocab.n_tokens) {
            err = rdg_ids_push(ids, symbol, e);
            len = t->vocab.tokens[symbol].n;
        } else {
            /* an unknown character, or a text that only merges know */
            len = symbol < 0 ? char_bytes(text + at, n - at) : t->extra[symbol - t->vocab.n_tokens].n;
            err = rdg_tokenizer_push_bytes(t, text + at, len, ids, e);
        }
        at += len;
    }
    return err;
}

rdg_err rdg_spm_encode(const rdg_tokenizer *t, const char *text, size_t n, bool prefix, rdg_ids *ids,
                       rdg_error *e)
{
    rdg_bpe_work work = {0};
    rdg_piece_cache cache;
    rdg_buf normal, b;
    rdg_err err = RDG_OK;
    rdg_buf_init(&normal);
    rdg_buf_init(&b);
    rdg_piece_cache_init(&cache);
    if (n == 0) goto done;
    if (t->vocab.normalize) {
        if ((err = rdg_normalize(text, n, t->vocab.normalize, &normal, e))) goto done;
        text = normal.data ? normal.data : "";
        n = normal.len;
    }
    if (prefix) rdg_buf_puts(&b, RDG_SPACE_MARK);
    for (size_t i = 0; i < n; i++) {
        if (text[i] == ' ')
            rdg_buf_puts(&b, RDG_SPACE_MARK);
        else
            rdg_buf_putc(&b, text[i]);
    }
    if (b.failed) {
        err = rdg_fail(e, RDG_E_NOMEM, "tokenizer: out of memory for %zu bytes of text", n);
        goto done;
    }
    for (size_t start = 0, end; start < b.len && !err; start = end) {
        bool found, mark_before = true; /* leading marks belong to the word behind them */
        for (end = start; end < b.len;) {
            bool mark = b.len - end >= RDG_SPACE_MARK_N &&
                        memcmp(b.data + end, RDG_SPACE_MARK, RDG_SPACE_MARK_N) == 0;
            if (mark && !mark_before && t->words) break;
            mark_before = mark;
            end += mark ? RDG_SPACE_MARK_N : 1;
        }
        size_t at = ids->n;
        if ((err = rdg_piece_cache_get(&cache, b.data + start, end - start, ids, &found, e)) || found)
            continue;
        err = encode_piece(t, b.data + start, end - start, &work, ids, e);
        if (!err) rdg_piece_cache_put(&cache, b.data + start, end - start, ids, at);
    }
done:
    rdg_piece_cache_finish(&cache);
    rdg_bpe_work_finish(&work);
    rdg_buf_finish(&b);
    rdg_buf_finish(&normal);
    return err;
}
