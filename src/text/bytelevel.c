/* Byte-level BPE ("gpt2"): every byte stands for a printable character, so any text can be expressed. */
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

#include <string.h>

static bool is_own_char(uint32_t b)
{
    return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
}

/* The other 68 bytes take U+0100 and up, in order: 0x00-0x20, 0x7f-0xa0, 0xad. */
uint32_t rdg_byte_to_char(unsigned char byte)
{
    if (is_own_char(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    if (byte <= 0xa0) return 0x100u + 0x21u + (byte - 0x7fu);
    return 0x100u + 0x21u + 0x22u;
}

int rdg_char_to_byte(uint32_t cp)
{
    if (cp < 0x100) return is_own_char(cp) ? (int)cp : -1;
    uint32_t i = cp - 0x100;
    if (i <= 0x20) return (int)i;
    if (i < 0x21 + 0x22) return (int)(i - 0x21 + 0x7f);
    return i == 0x21 + 0x22 ? 0xad : -1;
}

rdg_err rdg_bpe_prepare(rdg_tokenizer *t, const rdg_log *log, rdg_error *e)
{
    const rdg_vocab *v = &t->vocab;
    rdg_buf b;
    rdg_err err = RDG_OK;
    size_t n_bad = 0;
    int n_missing = 0;
    rdg_buf_init(&b);
    if (v->n_merges > UINT32_MAX / 2 || !rdg_intmap_reserve(&t->bpe.pairs, v->n_merges)) goto no_memory;
    for (size_t rank = 0; rank < v->n_merges; rank++) {
        rdg_str l, r;
        if (!rdg_vocab_merge(v, rank, &l, &r, &b)) {
            n_bad++;
            continue;
        }
        if (b.failed) goto no_memory;
        int32_t left = rdg_tokenizer_symbol(t, l.p, l.n), right = rdg_tokenizer_symbol(t, r.p, r.n);
        int32_t result = rdg_tokenizer_symbol(t, b.data, b.len);
        if (left < 0 || right < 0 || result < 0 || !rdg_bpe_add(&t->bpe, left, right, result, (uint32_t)rank))
            goto no_memory;
    }
    for (int i = 0; i < 256; i++) {
        char c[4];
        size_t n = (size_t)rdg_utf8_encode(rdg_byte_to_char((unsigned char)i), c);
        t->byte_token[i] = rdg_tokenizer_ordinary(t, c, n);
        t->byte_symbol[i] = rdg_tokenizer_symbol(t, c, n);
        if (t->byte_symbol[i] < 0) goto no_memory;
        n_missing += t->byte_token[i] < 0;
    }
    if (n_bad)
        rdg_log_warn(log, "tokenizer.ggml.merges: %zu of %zu lines have no two parts and are ignored", n_bad,
                     v->n_merges);
    /* Usual: the 13 bytes that UTF-8 never uses. */
    if (n_missing)
        rdg_log_info(log, "tokenizer.ggml.tokens: %d of 256 bytes have no token and vanish from text",
                     n_missing);
    rdg_str named[RDG_PRE_EXPRESSIONS];
    const rdg_pre_rule *rule = v->pre[0] ? rdg_pre_rule_find(v->pre) : rdg_pre_rule_default();
    if (v->n_expressions) {
        err = rdg_pretokenizer_create(v->expressions, v->n_expressions, &t->pre, e);
    } else {
        if (!rule) {
            rdg_log_warn(
                log,
                "tokenizer.ggml.pre \"%s\" is not known: text is cut as for \"default\", tokens may differ",
                v->pre);
            rule = rdg_pre_rule_default();
        } else if (!v->pre[0]) {
            rdg_log_warn(log,
                         "tokenizer.ggml.pre is missing: text is cut as for \"default\", tokens may differ");
        }
        err = rdg_pretokenizer_create(named, rdg_pre_rule_expressions(rule, named), &t->pre, e);
    }
    goto done;
no_memory:
    err = rdg_fail(e, RDG_E_NOMEM, "tokenizer: out of memory for %zu merges", v->n_merges);
done:
    rdg_buf_finish(&b);
    return err;
}

/* A symbol that only merges know: its characters one by one. */
static rdg_err push_extra(const rdg_tokenizer *t, int32_t symbol, rdg_ids *ids, rdg_error *e)
{
    rdg_str s = t->extra[symbol - t->vocab.n_tokens];
    for (size_t i = 0; i < s.n;) {
        uint32_t cp = 0;
        int len = rdg_utf8_decode(s.p + i, s.n - i, &cp);
        int byte = len ? rdg_char_to_byte(cp) : -1;
        if (byte >= 0 && t->byte_token[byte] >= 0) {
            rdg_err err = rdg_ids_push(ids, t->byte_token[byte], e);
            if (err) return err;
        }
        i += len ? (size_t)len : 1;
    }
    return RDG_OK;
}

/* The token that is this piece as a whole, or -1. */
static rdg_err whole_piece(const rdg_tokenizer *t, const char *text, size_t n, rdg_buf *b, int32_t *id,
                           rdg_error *e)
{
    *id = -1;
    if (n > 512) return RDG_OK; /* longer than any token in use */
    rdg_buf_clear(b);
    for (size_t i = 0; i < n; i++) {
        char c[4];
        rdg_buf_append(b, c, (size_t)rdg_utf8_encode(rdg_byte_to_char((unsigned char)text[i]), c));
    }
    if (b->failed) return rdg_fail(e, RDG_E_NOMEM, "tokenizer: out of memory");
    *id = rdg_tokenizer_ordinary(t, b->data, b->len);
    return RDG_OK;
}

static rdg_err encode_piece(const rdg_tokenizer *t, const char *text, size_t n, rdg_bpe_work *w, rdg_buf *b,
                            rdg_ids *ids, rdg_error *e)
{
    rdg_err err;
    if (t->vocab.ignore_merges) {
        int32_t id;
        if ((err = whole_piece(t, text, n, b, &id, e))) return err;
        if (id >= 0) return rdg_ids_push(ids, id, e);
    }
    w->n = 0;
    for (size_t i = 0; i < n; i++)
        if (!rdg_bpe_push(w, t->byte_symbol[(unsigned char)text[i]]))
            return rdg_fail(e, RDG_E_NOMEM, "tokenizer: out of memory for a word of %zu bytes", n);
    if ((err = rdg_bpe_merge(&t->bpe, w, e))) return err;
    for (size_t i = 0; i < w->n; i++) {
        int32_t symbol = w->symbols[i];
        err = symbol < t->vocab.n_tokens ? rdg_ids_push(ids, symbol, e) : push_extra(t, symbol, ids, e);
        if (err) return err;
    }
    return RDG_OK;
}

rdg_err rdg_bpe_encode(const rdg_tokenizer *t, const char *text, size_t n, bool prefix, rdg_ids *ids,
                       rdg_error *e)
{
    rdg_bpe_work work = {0};
    rdg_piece_cache cache;
    rdg_buf normal, prefixed, b;
    size_t *ends = NULL, n_ends = 0, start = 0;
    rdg_err err;
    rdg_buf_init(&normal);
    rdg_buf_init(&prefixed);
    rdg_buf_init(&b);
    rdg_piece_cache_init(&cache);
    if (t->vocab.normalize) {
        if ((err = rdg_normalize(text, n, t->vocab.normalize, &normal, e))) goto done;
        text = normal.data ? normal.data : "";
        n = normal.len;
    }
    if (prefix && n && text[0] != ' ') {
        rdg_buf_putc(&prefixed, ' ');
        rdg_buf_append(&prefixed, text, n);
        if (prefixed.failed) {
            err = rdg_fail(e, RDG_E_NOMEM, "tokenizer: out of memory for %zu bytes of text", n);
            goto done;
        }
        text = prefixed.data;
        n = prefixed.len;
    }
    if ((err = rdg_pretokenizer_split(t->pre, text, n, &ends, &n_ends, e))) goto done;
    for (size_t i = 0; i < n_ends && !err; start = ends[i++]) {
        bool found;
        size_t length = ends[i] - start, at = ids->n;
        if ((err = rdg_piece_cache_get(&cache, text + start, length, ids, &found, e)) || found) continue;
        err = encode_piece(t, text + start, length, &work, &b, ids, e);
        if (!err) rdg_piece_cache_put(&cache, text + start, length, ids, at);
    }
done:
    rdg_free(ends);
    rdg_piece_cache_finish(&cache);
    rdg_bpe_work_finish(&work);
    rdg_buf_finish(&b);
    rdg_buf_finish(&prefixed);
    rdg_buf_finish(&normal);
    return err;
}
