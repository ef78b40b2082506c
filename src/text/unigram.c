/* Unigram ("t5"): the cut of the text whose tokens have the highest sum of log-probabilities, after
 * SentencePiece's own normalisation. That one is a table in the model file: a double-array trie from
 * character sequences to offsets of their replacements. It comes from the file, so every index into it is
 * checked. */
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

#include <math.h>
#include <string.h>

/* Charsmap ----------------------------------------------------------------------------------------------- */

typedef struct charsmap {
    const unsigned char *units; /* n_units little-endian 32-bit units */
    size_t n_units;
    const char *texts; /* NUL-terminated replacements */
    size_t n_texts;
} charsmap;

static uint32_t read_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* u32 bytes of the trie, the trie, the texts */
static bool open_charsmap(rdg_str s, charsmap *m)
{
    *m = (charsmap){0};
    if (s.n == 0) return true;
    if (s.n < 4) return false;
    uint32_t trie_bytes = read_u32((const unsigned char *)s.p);
    if (trie_bytes > s.n - 4 || trie_bytes % 4 || trie_bytes == 0) return false;
    m->units = (const unsigned char *)s.p + 4;
    m->n_units = trie_bytes / 4;
    m->texts = s.p + 4 + trie_bytes;
    m->n_texts = s.n - 4 - trie_bytes;
    return true;
}

/* The unit's fields: offset to its children, its label, whether it has a value. */
static size_t unit_offset(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/* The replacement of the longest mapped beginning of p; returns that beginning's length, 0 if there is none.
 */
static size_t map_prefix(const charsmap *m, const char *p, size_t n, rdg_str *replacement)
{
    size_t matched = 0, node, value = 0;
    if (m->n_units == 0) return 0;
    node = unit_offset(read_u32(m->units));
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)p[i];
        node ^= byte;
        if (byte == 0 || node >= m->n_units) break;
        uint32_t unit = read_u32(m->units + 4 * node);
        if ((unit & 0x800000ffu) != byte) break;
        node ^= unit_offset(unit);
        if (node >= m->n_units) break;
        if (unit >> 8 & 1) {
            matched = i + 1;
            value = read_u32(m->units + 4 * node) & 0x7fffffffu;
        }
    }
    if (matched == 0 || value >= m->n_texts) return 0;
    const char *text = m->texts + value, *nul = memchr(text, 0, m->n_texts - value);
    *replacement = (rdg_str){text, nul ? (size_t)(nul - text) : m->n_texts - value};
    return matched;
}

/* Preparation -------------------------------------------------------------------------------------------- */

/* Every position of a text is compared with the beginnings of all tokens; those in use have a few dozen
 * bytes. */
enum { MAX_PIECE_BYTES = 256 };

rdg_err rdg_unigram_prepare(rdg_tokenizer *t, const rdg_log *log, rdg_error *e)
{
    const rdg_vocab *v = &t->vocab;
    charsmap m;
    float lowest = 0;
    size_t n_long = 0;
    if (!v->scores)
        return rdg_fail(e, RDG_E_MALFORMED, "tokenizer.ggml.scores is missing, tokenizer.ggml.model is %s",
                        v->model);
    if (!open_charsmap(v->charsmap, &m))
        return rdg_fail(e, RDG_E_MALFORMED,
                        "tokenizer.ggml.precompiled_charsmap: %zu bytes do not hold the trie they announce",
                        v->charsmap.n);
    for (int32_t id = 0; id < v->n_tokens; id++) {
        rdg_str s = v->tokens[id];
        if (!rdg_vocab_is_ordinary(v, id) || s.n == 0) continue;
        if (s.n > MAX_PIECE_BYTES) {
            n_long++;
            continue;
        }
        if (v->scores[id] < lowest) lowest = v->scores[id];
        if (!rdg_trie_put(&t->trie, s.p, s.n, id))
            return rdg_fail(e, RDG_E_NOMEM, "tokenizer: out of memory for %d tokens", (int)v->n_tokens);
    }
    if (n_long)
        rdg_log_warn(log,
                     "tokenizer.ggml.tokens: %zu tokens longer than %d bytes are never produced from text",
                     n_long, MAX_PIECE_BYTES);
    t->unknown_score = lowest - 10.0f;
    if (v->special[RDG_SPECIAL_UNK] < 0 && t->byte_token[0] < 0)
        rdg_log_warn(
            log, "tokenizer.ggml.unknown_token_id is missing: characters outside the vocabulary are dropped");
    return RDG_OK;
}

/* Normalisation ------------------------------------------------------------------------------------------ */

/* Appends with spaces as marks; runs of them are one if the model wants it so. */
static void put_text(const rdg_tokenizer *t, rdg_buf *out, const char *p, size_t n, bool *after_space)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] != ' ') {
            rdg_buf_putc(out, p[i]);
            *after_space = false;
        } else if (!t->vocab.remove_extra_whitespaces || !*after_space) {
            rdg_buf_puts(out, RDG_SPACE_MARK);
            *after_space = true;
        }
    }
}

static void normalize(const rdg_tokenizer *t, const char *text, size_t n, bool prefix, rdg_buf *out)
{
    charsmap m;
    open_charsmap(t->vocab.charsmap, &m);
    bool collapse = t->vocab.remove_extra_whitespaces, after_space = collapse; /* leading spaces go, too */
    for (size_t i = 0; i < n;) {
        rdg_str s;
        uint32_t cp;
        size_t len = map_prefix(&m, text + i, n - i, &s);
        if (len == 0) {
            int valid = rdg_utf8_decode(text + i, n - i, &cp);
            len = valid ? (size_t)valid : 1;
            s = (rdg_str){text + i, len};
        }
        /* The space prefix stands before the first thing that is left. */
        if (prefix && s.n && !(collapse && s.n == 1 && s.p[0] == ' ')) {
            rdg_buf_puts(out, RDG_SPACE_MARK);
            prefix = false;
        }
        put_text(t, out, s.p, s.n, &after_space);
        i += len;
    }
    if (collapse && out->data)
        while (out->len >= RDG_SPACE_MARK_N &&
               memcmp(out->data + out->len - RDG_SPACE_MARK_N, RDG_SPACE_MARK, RDG_SPACE_MARK_N) == 0)
            out->data[out->len -= RDG_SPACE_MARK_N] = 0;
}

/* Viterbi ------------------------------------------------------------------------------------------------ */

typedef struct state {
    double score;
    int32_t id;     /* the token that ends here; -1: an unknown character */
    uint32_t start; /* where it begins */
} state;

static void best_path(const rdg_tokenizer *t, const char *text, size_t n, state *best)
{
    for (size_t i = 1; i <= n; i++) best[i].score = -HUGE_VAL;
    best[0].score = 0;
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t cp;
        int valid = rdg_utf8_decode(text + i, n - i, &cp), node = 0;
        len = valid ? (size_t)valid : 1;
        bool single = false; /* some token is exactly this character */
        for (size_t k = i; k < n && (node = rdg_trie_step(&t->trie, node, (unsigned char)text[k])) >= 0;
             k++) {
            int32_t id = t->trie.values[node];
            if (id < 0) continue;
            double score = best[i].score + t->vocab.scores[id];
            if (k + 1 - i == len) single = true;
            if (score > best[k + 1].score) best[k + 1] = (state){score, id, (uint32_t)i};
        }
        double score = best[i].score + t->unknown_score;
        if (!single && score > best[i + len].score) best[i + len] = (state){score, -1, (uint32_t)i};
    }
}

/* Follows the path back and turns it round by linking forward: best[start].start becomes the end. */
static rdg_err emit_path(const rdg_tokenizer *t, const char *text, size_t n, state *best, rdg_ids *ids,
                         rdg_error *e)
{
    int32_t unk = t->vocab.special[RDG_SPECIAL_UNK];
    rdg_err err = RDG_OK;
    bool after_unknown = false;
    int32_t id = best[n].id;
    for (uint32_t at = (uint32_t)n, start = best[n].start; at > 0;) {
        int32_t previous_id = best[start].id;
        uint32_t previous = best[start].start;
        best[start].id = id;
        best[start].start = at;
        at = start;
        id = previous_id;
        start = previous;
    }
    for (uint32_t at = 0; at < n && !err;) {
        uint32_t end = best[at].start;
        id = best[at].id;
        if (id >= 0)
            err = rdg_ids_push(ids, id, e);
        else if (t->byte_token[0] >= 0)
            err = rdg_tokenizer_push_bytes(t, text + at, end - at, ids, e);
        else if (unk >= 0 && !after_unknown) /* a run of unknown characters is one token */
            err = rdg_ids_push(ids, unk, e);
        after_unknown = id < 0;
        at = end;
    }
    return err;
}

rdg_err rdg_unigram_encode(const rdg_tokenizer *t, const char *text, size_t n, bool prefix, rdg_ids *ids,
                           rdg_error *e)
{
    rdg_buf normal, steps;
    state *best = NULL;
    rdg_err err = RDG_OK;
    rdg_buf_init(&normal);
    rdg_buf_init(&steps);
    if (t->vocab.normalize) {
        if ((err = rdg_normalize(text, n, t->vocab.normalize, &steps, e))) goto done;
        text = steps.data ? steps.data : "";
        n = steps.len;
    }
    normalize(t, text, n, prefix, &normal);
    if (normal.failed) goto no_memory;
    if (normal.len == 0) goto done;
    if (normal.len >= UINT32_MAX) {
        err = rdg_fail(e, RDG_E_LIMIT, "tokenizer: a fragment of %zu bytes is too long", normal.len);
        goto done;
    }
    best = rdg_alloc_array(normal.len + 1, sizeof *best);
    if (!best) goto no_memory;
    best_path(t, normal.data, normal.len, best);
    err = emit_path(t, normal.data, normal.len, best, ids, e);
    goto done;
no_memory:
    err = rdg_fail(e, RDG_E_NOMEM, "tokenizer: out of memory for %zu bytes of text", n);
done:
    rdg_free(best);
    rdg_buf_finish(&steps);
    rdg_buf_finish(&normal);
    return err;
}
