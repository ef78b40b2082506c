/* Unicode normalisation over utf8proc. Text need not be valid UTF-8: valid runs are normalised, other bytes
 * kept. */
#include "text/tokenizer_impl.h"
#include "format/tokenizer_json.h"
#include "text/utf8.h"

#include <utf8proc.h>

typedef struct codepoints {
    utf8proc_int32_t *p;
    size_t n, cap;
} codepoints;

static bool push(codepoints *c, utf8proc_int32_t cp)
{
    if (!rdg_grow(&c->p, c->n, &c->cap, sizeof *c->p)) return false;
    c->p[c->n++] = cp;
    return true;
}

/* Lower case as Rust has it, which is what the models were trained with: U+0130 becomes two characters. */
static bool lower(codepoints *c)
{
    codepoints out = {0};
    for (size_t i = 0; i < c->n; i++) {
        bool ok =
            c->p[i] == 0x130 ? push(&out, 'i') && push(&out, 0x307) : push(&out, utf8proc_tolower(c->p[i]));
        if (!ok) {
            rdg_free(out.p);
            return false;
        }
    }
    rdg_free(c->p);
    *c = out;
    return true;
}

static void strip_accents(codepoints *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        if (utf8proc_category(c->p[i]) != UTF8PROC_CATEGORY_MN) c->p[n++] = c->p[i];
    c->n = n;
}

/* Decomposes valid text into code points, in canonical order. */
static rdg_err decompose(const char *text, size_t n, int options, codepoints *c, rdg_error *e)
{
    utf8proc_ssize_t need = utf8proc_decompose((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, NULL, 0,
                                               (utf8proc_option_t)options);
    if (need < 0) return rdg_fail(e, RDG_E_LIMIT, "normalisation: %s", utf8proc_errmsg(need));
    /* one more: re-encoding adds a NUL */
    utf8proc_int32_t *p = rdg_realloc_array(c->p, (size_t)need + 1, sizeof *p);
    if (!p) return rdg_fail(e, RDG_E_NOMEM, "normalisation: out of memory for %zu bytes of text", n);
    c->p = p;
    c->cap = (size_t)need + 1;
    c->n = (size_t)utf8proc_decompose((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, p, need,
                                      (utf8proc_option_t)options);
    return RDG_OK;
}

static rdg_err normalize_run(const char *text, size_t n, unsigned steps, codepoints *c, rdg_buf *out,
                             rdg_error *e)
{
    const unsigned compose = RDG_NORMALIZE_NFC | RDG_NORMALIZE_NFKC,
                   compat = RDG_NORMALIZE_NFKC | RDG_NORMALIZE_NFKD;
    int options = 0;
    if (steps & (compose | RDG_NORMALIZE_NFD | compat | RDG_NORMALIZE_STRIP_ACCENTS))
        options |= UTF8PROC_DECOMPOSE;
    if (steps & compat) options |= UTF8PROC_COMPAT;
    rdg_err err = decompose(text, n, options, c, e);
    if (err) return err;
    if (steps & compose) {
        utf8proc_ssize_t left =
            utf8proc_normalize_utf32(c->p, (utf8proc_ssize_t)c->n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        if (left < 0) return rdg_fail(e, RDG_E_LIMIT, "normalisation: %s", utf8proc_errmsg(left));
        c->n = (size_t)left;
    }
    if ((steps & RDG_NORMALIZE_LOWERCASE) && !lower(c))
        return rdg_fail(e, RDG_E_NOMEM, "normalisation: out of memory");
    if (steps & RDG_NORMALIZE_STRIP_ACCENTS) strip_accents(c);
    for (size_t i = 0; i < c->n; i++) {
        char bytes[4];
        rdg_buf_append(out, bytes, (size_t)rdg_utf8_encode((uint32_t)c->p[i], bytes));
    }
    return RDG_OK;
}

rdg_err rdg_normalize(const char *text, size_t n, unsigned steps, rdg_buf *out, rdg_error *e)
{
    codepoints c = {0};
    rdg_err err = RDG_OK;
    for (size_t i = 0; i < n && !err;) {
        size_t valid = rdg_utf8_valid_prefix(text + i, n - i);
        if (valid) {
            err = normalize_run(text + i, valid, steps, &c, out, e);
            i += valid;
        } else {
            rdg_buf_putc(out, text[i++]);
        }
    }
    rdg_free(c.p);
    if (!err && out->failed)
        err = rdg_fail(e, RDG_E_NOMEM, "normalisation: out of memory for %zu bytes of text", n);
    return err;
}
