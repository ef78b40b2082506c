/* WordPiece ("bert"): clean, lower-case and strip accents, cut into words and punctuation, then the longest
 * token first. In the converted vocabulary the first token of a word begins with U+2581 and the others with
 * nothing. */
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

#include <utf8proc.h>
#include <string.h>

enum { MAX_WORD_CHARS = 100 }; /* longer words are unknown as a whole: that is how the models were trained */

rdg_err rdg_wordpiece_prepare(rdg_tokenizer *t, const rdg_log *log, rdg_error *e)
{
    const rdg_vocab *v = &t->vocab;
    if (v->special[RDG_SPECIAL_UNK] < 0)
        rdg_log_warn(log,
                     "tokenizer.ggml.unknown_token_id is missing: words outside the vocabulary are dropped");
    for (int32_t id = 0; id < v->n_tokens; id++) {
        rdg_str s = v->tokens[id];
        if (!rdg_vocab_is_ordinary(v, id) || s.n == 0) continue;
        if (!rdg_trie_put(&t->trie, s.p, s.n, id))
            return rdg_fail(e, RDG_E_NOMEM, "tokenizer: out of memory for %d tokens", (int)v->n_tokens);
    }
    return RDG_OK;
}

static bool is_chinese(uint32_t c)
{
    static const uint32_t ranges[][2] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df},
                                         {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf},
                                         {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
    for (int i = 0; i < RDG_COUNTOF(ranges); i++)
        if (c >= ranges[i][0] && c <= ranges[i][1]) return true;
    return false;
}

static bool is_punctuation(uint32_t c)
{
    if (c < 0x80)
        return (c > 0x20 && c < 0x30) || (c > 0x39 && c < 0x41) || (c > 0x5a && c < 0x61) ||
               (c > 0x7a && c < 0x7f);
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

/* Unassigned code points are kept; of the control characters that are white space only these three are. */
static bool is_control(uint32_t c)
{
    if (c == '\t' || c == '\n' || c == '\r') return false;
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CO;
}

/* Drops what cannot be read, makes every white space a space, and puts Chinese characters and punctuation
 * between spaces. Invalid bytes go, as U+FFFD does. */
static void clean(const char *text, size_t n, rdg_buf *out)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = rdg_utf8_decode(text + i, n - i, &cp);
        if (len == 0) {
            i++;
            continue;
        }
        bool space = rdg_is_space(cp) && !is_control(cp), alone = is_chinese(cp);
        if (space || alone) rdg_buf_putc(out, ' ');
        if (!space && cp != 0 && cp != 0xfffd && !is_control(cp)) rdg_buf_append(out, text + i, (size_t)len);
        if (alone) rdg_buf_putc(out, ' ');
        i += (size_t)len;
    }
}

/* One word, "▁" in front: greedy longest match, all or nothing. */
static rdg_err encode_word(const rdg_tokenizer *t, const char *word, size_t n, size_t n_chars, rdg_ids *ids,
                           rdg_error *e)
{
    size_t before = ids->n;
    size_t at = 0;
    while (at < n && n_chars <= MAX_WORD_CHARS) {
        /* A U+2581 of the text is not the mark of a word's beginning. */
        bool mark = n - at >= RDG_SPACE_MARK_N && memcmp(word + at, RDG_SPACE_MARK, RDG_SPACE_MARK_N) == 0;
        if (at > 0 && mark) break;
        int32_t node = 0, id = -1;
        size_t end = at;
        for (size_t i = at; i < n && (node = rdg_trie_step(&t->trie, node, (unsigned char)word[i])) >= 0;
             i++) {
            if (t->trie.values[node] < 0) continue;
            id = t->trie.values[node];
            end = i + 1;
        }
        if (id < 0) break;
        rdg_err err = rdg_ids_push(ids, id, e);
        if (err) return err;
        at = end;
    }
    if (at == n) return RDG_OK;
    ids->n = before;
    int32_t unk = t->vocab.special[RDG_SPECIAL_UNK];
    return unk >= 0 ? rdg_ids_push(ids, unk, e) : RDG_OK;
}

rdg_err rdg_wordpiece_encode(const rdg_tokenizer *t, const char *text, size_t n, bool prefix, rdg_ids *ids,
                             rdg_error *e)
{
    rdg_buf cleaned, normal, word;
    rdg_err err = RDG_OK;
    (void)prefix;
    rdg_buf_init(&cleaned);
    rdg_buf_init(&normal);
    rdg_buf_init(&word);
    clean(text, n, &cleaned);
    if (cleaned.failed) goto no_memory;
    if (cleaned.len == 0) goto done;
    if ((err = rdg_normalize(cleaned.data, cleaned.len, t->vocab.normalize, &normal, e))) goto done;
    for (size_t i = 0; i < normal.len && !err;) {
        size_t n_chars = 0;
        rdg_buf_clear(&word);
        rdg_buf_puts(&word, RDG_SPACE_MARK);
        while (i < normal.len) {
            uint32_t cp = 0;
            size_t len = (size_t)rdg_utf8_decode(normal.data + i, normal.len - i, &cp);
            bool punctuation = is_punctuation(cp);
            if (rdg_is_space(cp) || (punctuation && n_chars)) break;
            rdg_buf_append(&word, normal.data + i, len);
            n_chars++;
            i += len;
            if (punctuation) break;
        }
        if (word.failed) goto no_memory;
        if (n_chars)
            err = encode_word(t, word.data, word.len, n_chars, ids, e);
        else if (i < normal.len) { /* at a white space */
            uint32_t cp;
            i += (size_t)rdg_utf8_decode(normal.data + i, normal.len - i, &cp);
        }
    }
    goto done;
no_memory:
    err = rdg_fail(e, RDG_E_NOMEM, "tokenizer: out of memory for %zu bytes of text", n);
done:
    rdg_buf_finish(&word);
    rdg_buf_finish(&normal);
    rdg_buf_finish(&cleaned);
    return err;
}
