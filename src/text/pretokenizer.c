/* Compiled pre-tokenisers over PCRE2, see pretokenizer.h. Expressions are written for another engine
 * (Oniguruma); what differs is translated: \s means Unicode White_Space there, and ^ and $ match at every
 * line. An expression may come from a file: matching is limited, and JIT code that runs out of stack is not
 * an error but is repeated by the interpreter, whose memory is limited too. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretokenizer.h"
#include "base/clock.h"
#include "format/names.h"
#include "text/utf8.h"

#include <pcre2.h>
#include <string.h>

enum { MATCH_LIMIT = 10000000, DEPTH_LIMIT = 1000000, HEAP_LIMIT_KIB = 64 * 1024, NEST_LIMIT = 100 };

struct rdg_pretokenizer {
    pcre2_general_context *general;
    pcre2_match_context *limits;
    size_t n;
    struct expression {
        pcre2_code *code;
        bool jit;
    } expressions[];
};

static void *pcre_alloc(PCRE2_SIZE bytes, void *user)
{
    (void)user;
    return rdg_alloc(bytes);
}

static void pcre_free(void *p, void *user)
{
    (void)user;
    rdg_free(p);
}

/* \s and \S by their Unicode property: PCRE2's own \s has U+180E as well. */
static void translate(rdg_buf *b, rdg_str from)
{
    for (size_t i = 0; i < from.n; i++) {
        if (from.p[i] != '\\' || i + 1 == from.n) {
            rdg_buf_putc(b, from.p[i]);
            continue;
        }
        i++;
        if (from.p[i] == 's') {
            rdg_buf_puts(b, "\\p{White_Space}");
        } else if (from.p[i] == 'S') {
            rdg_buf_puts(b, "\\P{White_Space}");
        } else {
            rdg_buf_putc(b, '\\');
            rdg_buf_putc(b, from.p[i]);
        }
    }
}

static rdg_err compile(struct expression *x, rdg_str text, pcre2_compile_context *context, rdg_error *e)
{
    int code;
    PCRE2_SIZE at;
    PCRE2_UCHAR message[128];
    rdg_buf b;
    rdg_err err = RDG_OK;
    rdg_buf_init(&b);
    translate(&b, text);
    if (b.failed) {
        err = rdg_fail(e, RDG_E_NOMEM, "pre-tokeniser: out of memory");
        goto done;
    }
    x->code =
        pcre2_compile((PCRE2_SPTR)(b.data ? b.data : ""), b.len,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code, &at, context);
    if (!x->code) {
        pcre2_get_error_message(code, message, sizeof message);
        err = rdg_fail(e, code == PCRE2_ERROR_HEAP_FAILED ? RDG_E_NOMEM : RDG_E_MALFORMED,
                       "pre-tokeniser expression %s: %s at offset %zu", rdg_quote(text.p, text.n).text,
                       (char *)message, (size_t)at);
        goto done;
    }
    x->jit = pcre2_jit_compile(x->code, PCRE2_JIT_COMPLETE) == 0;
done:
    rdg_buf_finish(&b);
    return err;
}

rdg_err rdg_pretokenizer_create(const rdg_str *expressions, size_t n, rdg_pretokenizer **out, rdg_error *e)
{
    pcre2_compile_context *context = NULL;
    rdg_pretokenizer *p = NULL;
    rdg_err err = RDG_OK;
    size_t bytes;
    *out = NULL;
    if (RDG_MUL_OVERFLOW(n, sizeof p->expressions[0], &bytes) || RDG_ADD_OVERFLOW(bytes, sizeof *p, &bytes) ||
        !(p = rdg_alloc(bytes)))
        goto no_memory;
    p->n = n;
    p->general = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    p->limits = p->general ? pcre2_match_context_create(p->general) : NULL;
    context = p->general ? pcre2_compile_context_create(p->general) : NULL;
    if (!p->limits || !context) goto no_memory;
    pcre2_set_match_limit(p->limits, MATCH_LIMIT);
    pcre2_set_depth_limit(p->limits, DEPTH_LIMIT);
    pcre2_set_heap_limit(p->limits, HEAP_LIMIT_KIB);
    pcre2_set_parens_nest_limit(context, NEST_LIMIT);
    for (size_t i = 0; i < n && !err; i++) err = compile(&p->expressions[i], expressions[i], context, e);
    goto done;
no_memory:
    err = rdg_fail(e, RDG_E_NOMEM, "pre-tokeniser: out of memory");
done:
    pcre2_compile_context_free(context);
    if (err) {
        rdg_pretokenizer_destroy(p);
        p = NULL;
    }
    *out = p;
    return err;
}

void rdg_pretokenizer_destroy(rdg_pretokenizer *p)
{
    if (!p) return;
    for (size_t i = 0; i < p->n; i++) pcre2_code_free(p->expressions[i].code);
    pcre2_match_context_free(p->limits);
    pcre2_general_context_free(p->general);
    rdg_free(p);
}

/* Splitting ---------------------------------------------------------------------------------------------- */

typedef struct cuts {
    size_t *ends;
    size_t n, cap;
} cuts;

static bool push(cuts *c, size_t end)
{
    if (!rdg_grow(&c->ends, c->n, &c->cap, sizeof *c->ends)) return false;
    c->ends[c->n++] = end;
    return true;
}

static int match_at(const rdg_pretokenizer *p, const struct expression *x, const char *text, size_t n,
                    size_t at, pcre2_match_data *data)
{
    if (x->jit) {
        int rc = pcre2_jit_match(x->code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK, data, p->limits);
        if (rc != PCRE2_ERROR_JIT_STACKLIMIT) return rc;
    }
    return pcre2_match(x->code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, p->limits);
}

/* One match is limited by PCRE2. An expression from a file may still make each of very many matches costly,
 * so the whole call has a limit, too: some hundred times what the known expressions take. */
static const int64_t BUDGET_NS = 5000000000, BUDGET_NS_PER_BYTE = 20000;

typedef struct matcher {
    pcre2_match_data *data;
    int64_t deadline_ns;
    unsigned n_matches;
} matcher;

/* Cuts the piece text[0, n) that starts at `base` of the whole; valid UTF-8. */
static rdg_err cut_piece(const rdg_pretokenizer *p, const struct expression *x, const char *text, size_t n,
                         size_t base, matcher *m, cuts *out, rdg_error *e)
{
    const PCRE2_SIZE *ovector = pcre2_get_ovector_pointer(m->data);
    size_t at = 0, last = 0;
    while (at < n) {
        int rc = match_at(p, x, text, n, at, m->data);
        bool late = ++m->n_matches % 32 == 0 && rdg_clock_ns() > m->deadline_ns;
        if (late)
            return rdg_fail(e, RDG_E_LIMIT,
                            "pre-tokeniser: still at byte %zu after its time: the expression is too slow",
                            base + at);
        if (rc == PCRE2_ERROR_NOMATCH) break;
        if (rc < 0)
            return rdg_fail(e, rc == PCRE2_ERROR_NOMEMORY ? RDG_E_NOMEM : RDG_E_LIMIT,
                            "pre-tokeniser: matching stopped at byte %zu (PCRE2 code %d): the expression "
                            "backtracks too much",
                            base + at, rc);
        size_t from = ovector[0], to = ovector[1];
        if (from < last) from = last; /* \K in a lookaround can set odd bounds */
        if (to < from) to = from;
        if (from > last && !push(out, base + from)) goto no_memory;
        if (to > from && !push(out, base + to)) goto no_memory;
        last = to;
        at = to;
        if (to == from) { /* an empty match cuts and moves on by one character */
            uint32_t cp;
            at = to < n ? to + (size_t)rdg_utf8_decode(text + to, n - to, &cp) : n;
        }
    }
    if (last < n && !push(out, base + n)) goto no_memory;
    return RDG_OK;
no_memory:
    return rdg_fail(e, RDG_E_NOMEM, "pre-tokeniser: out of memory");
}

/* A copy with U+FFFD, three bytes, for each invalid byte; *at lists where in the copy they begin. */
static bool sanitize(const char *text, size_t n, rdg_buf *b, cuts *at)
{
    for (size_t i = 0; i < n; i++) {
        size_t valid = rdg_utf8_valid_prefix(text + i, n - i);
        rdg_buf_append(b, text + i, valid);
        i += valid;
        if (i == n) break;
        if (!push(at, b->len)) return false;
        rdg_buf_append(b, "\xef\xbf\xbd", 3);
    }
    return !b->failed;
}

rdg_err rdg_pretokenizer_split(const rdg_pretokenizer *p, const char *text, size_t n, size_t **ends,
                               size_t *n_ends, rdg_error *e)
{
    cuts now = {0}, next = {0}, invalid = {0};
    rdg_buf clean;
    matcher m = {0};
    rdg_err err = RDG_OK;
    rdg_buf_init(&clean);
    *ends = NULL;
    *n_ends = 0;
    if (rdg_utf8_valid_prefix(text, n) < n) {
        if (!sanitize(text, n, &clean, &invalid)) goto no_memory;
        text = clean.data;
        n = clean.len;
    }
    if (n && !push(&now, n)) goto no_memory;
    m.data = pcre2_match_data_create(8, p->general); /* only the whole match is asked for */
    if (!m.data) goto no_memory;
    m.deadline_ns = rdg_clock_ns() + BUDGET_NS + (int64_t)n * BUDGET_NS_PER_BYTE;
    for (size_t i = 0; i < p->n; i++) {
        next.n = 0;
        for (size_t k = 0, start = 0; k < now.n; start = now.ends[k++]) {
            err = cut_piece(p, &p->expressions[i], text + start, now.ends[k] - start, start, &m, &next, e);
            if (err) goto done;
        }
        cuts old = now;
        now = next;
        next = old;
    }
    for (size_t k = 0, i = 0; k < now.n; k++) { /* back to offsets of the original */
        while (i < invalid.n && invalid.ends[i] < now.ends[k]) i++;
        now.ends[k] -= 2 * i;
    }
    *ends = now.ends;
    *n_ends = now.n;
    now.ends = NULL;
    goto done;
no_memory:
    err = rdg_fail(e, RDG_E_NOMEM, "pre-tokeniser: out of memory");
done:
    pcre2_match_data_free(m.data);
    rdg_buf_finish(&clean);
    rdg_free(invalid.ends);
    rdg_free(next.ends);
    rdg_free(now.ends);
    return err;
}
