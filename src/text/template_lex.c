/* Template text to tokens. Whitespace control is settled here: "-" strips to the neighbouring text, a block
 * or comment alone on its line loses its indentation (lstrip_blocks), and a newline behind a block or comment
 * goes (trim_blocks). The non-obvious rule: an end tag counts only while no bracket is open, so {{ {"a": {}}
 * }} needs its spaces. */
#include "text/template_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BRACKETS = 1000 };

typedef struct lexer {
    tpl_compiler *c;
    const char *p; /* normalised source */
    size_t n, at;
    int line;
    bool line_starting; /* what came last ended with a newline */
    char brackets[MAX_BRACKETS];
    int n_brackets;
} lexer;

bool tpl_compile_fail(tpl_compiler *c, rdg_err code, int line, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    if (c->err) return false;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    c->err = rdg_fail(c->e, code, "chat template, line %d: %s", line, text);
    return false;
}

void *tpl_compile_alloc(tpl_compiler *c, size_t bytes)
{
    void *p = NULL;
    if (bytes > c->limits->max_memory_bytes || c->arena->used_bytes > c->limits->max_memory_bytes - bytes) {
        if (!c->err)
            c->err =
                rdg_fail(c->e, RDG_E_LIMIT, "chat template: compiling needs more than %zu bytes of memory",
                         c->limits->max_memory_bytes);
    } else {
        p = rdg_arena_alloc(c->arena, bytes);
        if (!p && !c->err) c->err = rdg_fail(c->e, RDG_E_NOMEM, "chat template: no memory for compiling");
    }
    return p;
}

static bool push(lexer *x, tpl_token_kind kind, const char *p, size_t n)
{
    tpl_compiler *c = x->c;
    if (!rdg_grow(&c->tokens, c->n_tokens, &c->tokens_cap, sizeof *c->tokens)) {
        c->err = rdg_fail(c->e, RDG_E_NOMEM, "chat template: no memory for its tokens");
        return false;
    }
    c->tokens[c->n_tokens++] = (tpl_token){.kind = kind, .line = x->line, .text = {p, n, NULL}};
    return true;
}

static void advance(lexer *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x->line += x->p[x->at + i] == '\n';
    if (n) x->line_starting = x->p[x->at + n - 1] == '\n';
    x->at += n;
}

static bool looking_at(const lexer *x, size_t at, const char *what)
{
    size_t n = strlen(what);
    return x->n - at >= n && memcmp(x->p + at, what, n) == 0;
}

/* Bytes of whitespace from `at` on. */
static size_t space_from(const lexer *x, size_t at)
{
    size_t from = at;
    while (at < x->n && tpl_is_space(tpl_char_at(x->p + at))) at += tpl_char_bytes(x->p + at);
    return at - from;
}

/* Length of an end tag at `at` with the whitespace that it takes along; 0 if there is none. trims: takes a
 * newline. */
static size_t end_tag(const lexer *x, size_t at, const char *tag, bool trims)
{
    size_t sign = at < x->n && (x->p[at] == '-' || (x->p[at] == '+' && trims)) ? 1 : 0;
    if (!looking_at(x, at + sign, tag)) return 0;
    size_t n = sign + 2;
    if (sign && x->p[at] == '-')
        n += space_from(x, at + n);
    else if (!sign && trims && at + n < x->n && x->p[at + n] == '\n')
        n++;
    return n;
}

/* {%- raw %}: its length, or 0. */
static size_t raw_tag(const lexer *x, size_t at, const char *name)
{
    size_t i = at + 2;
    if (!looking_at(x, at, "{%")) return 0;
    if (i < x->n && (x->p[i] == '-' || x->p[i] == '+')) i++;
    i += space_from(x, i);
    if (!looking_at(x, i, name)) return 0;
    i += strlen(name);
    i += space_from(x, i);
    return i - at;
}

/* Text [from, to) in front of a tag whose sign is at `sign`; data as the tag's whitespace control leaves it.
 */
static bool push_data(lexer *x, size_t from, size_t to, char sign, bool is_variable)
{
    tpl_str s = {x->p + from, to - from, NULL};
    if (sign == '-') {
        s = tpl_strip(s, NULL, false, true);
    } else if (sign != '+' && !is_variable) {
        size_t line = s.n;
        while (line > 0 && s.p[line - 1] != '\n') line--;
        if (line > 0 || x->line_starting) {
            tpl_str last = tpl_sub(s, line, s.n);
            if (last.n && tpl_strip(last, NULL, true, false).n == 0) s.n = line;
        }
    }
    if (s.n && !push(x, TOK_DATA, s.p, s.n)) return false;
    x->at = from;
    advance(x, to - from);
    return true;
}

/* Numbers and strings --------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_char(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80 || is_digit((char)c);
}

/* digits, single underscores between them allowed; bytes from `at`, 0 if there is no digit */
static size_t digits_from(const lexer *x, size_t at, int base)
{
    size_t i = at;
    for (;;) {
        size_t j = i;
        if (i > at && j < x->n && x->p[j] == '_') j++;
        if (j >= x->n) break;
        int c = x->p[j] | 32;
        int digit = is_digit(x->p[j]) ? x->p[j] - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
        if (digit >= base) break;
        i = j + 1;
    }
    return i - at;
}

static bool lex_number(lexer *x)
{
    static const struct {
        const char *prefix;
        int base;
    } radix[] = {{"0x", 16}, {"0o", 8}, {"0b", 2}};
    char text[400];
    size_t start = x->at, n = digits_from(x, start, 10), used = 0;
    bool is_float = false;
    int base = 10;
    if (x->p[start] == '0' && start + 1 < x->n) {
        for (int i = 0; i < 3; i++) {
            if ((x->p[start + 1] | 32) != radix[i].prefix[1]) continue;
            size_t skip = start + 2 < x->n && x->p[start + 2] == '_' ? 3 : 2,
                   m = digits_from(x, start + skip, radix[i].base);
            if (m) {
                base = radix[i].base;
                n = skip + m;
            }
        }
    }
    if (base == 10 && !(start > 0 && x->p[start - 1] == '.')) {
        size_t m = n;
        if (start + m < x->n && x->p[start + m] == '.') {
            size_t fraction = digits_from(x, start + m + 1, 10);
            if (fraction) {
                m += 1 + fraction;
                is_float = true;
            }
        }
        if (start + m < x->n && (x->p[start + m] | 32) == 'e') {
            size_t sign =
                start + m + 1 < x->n && (x->p[start + m + 1] == '+' || x->p[start + m + 1] == '-') ? 1 : 0;
            size_t exponent = digits_from(x, start + m + 1 + sign, 10);
            if (exponent) {
                m += 1 + sign + exponent;
                is_float = true;
            }
        }
        if (is_float) n = m;
    }
    if (base == 10 && !is_float && x->p[start] == '0') { /* only zeros may follow a leading zero */
        n = 1;
        while (start + n < x->n && x->p[start + n] == '0') n++;
    }
    for (size_t i = base == 10 ? 0 : 2; i < n; i++) {
        if (x->p[start + i] == '_') continue;
        if (used + 1 >= sizeof text)
            return tpl_compile_fail(x->c, RDG_E_LIMIT, x->line, "a number of more than %zu digits",
                                    sizeof text - 2);
        text[used++] = x->p[start + i];
    }
    text[used] = 0;
    if (!push(x, is_float ? TOK_FLOAT : TOK_INT, x->p + start, n)) return false;
    tpl_token *t = &x->c->tokens[x->c->n_tokens - 1];
    if (is_float) {
        t->number.f = strtod(text, NULL);
    } else {
        int64_t value = 0;
        for (size_t i = 0; i < used; i++) {
            int digit = is_digit(text[i]) ? text[i] - '0' : (text[i] | 32) - 'a' + 10;
            if (RDG_MUL_OVERFLOW(value, (int64_t)base, &value) ||
                RDG_ADD_OVERFLOW(value, (int64_t)digit, &value))
                return tpl_compile_fail(x->c, RDG_E_UNSUPPORTED, x->line,
                                        "the number %.40s is beyond 64 bits, which is not supported", text);
        }
        t->number.i = value;
    }
    advance(x, n);
    return true;
}

static size_t put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    int extra = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    out[0] = (char)(lead[extra] | (c >> (6 * extra)));
    for (int i = 1; i <= extra; i++) out[i] = (char)(0x80 | ((c >> (6 * (extra - i))) & 0x3f));
    return (size_t)extra + 1;
}

/* One escape behind the backslash at s[*i]; moves *i on. */
static bool unescape(lexer *x, const char *s, size_t n, size_t *i, char *out, size_t *used)
{
    static const char simple[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    char c = s[*i + 1];
    if (c == '\n') {
        *i += 2;
        return true;
    }
    for (int k = 0; k < (int)sizeof simple - 1; k += 2) {
        if (simple[k] != c) continue;
        out[(*used)++] = simple[k + 1];
        *i += 2;
        return true;
    }
    int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : c >= '0' && c <= '7' ? 3 : 0, got = 0;
    int base = c >= '0' && c <= '7' ? 8 : 16;
    if (c == 'N')
        return tpl_compile_fail(x->c, RDG_E_UNSUPPORTED, x->line,
                                "the escape \\N in a string is not supported");
    if (digits == 0) { /* an unknown escape stands for itself */
        out[(*used)++] = '\\';
        *i += 1;
        return true;
    }
    size_t j = *i + (base == 8 ? 1 : 2);
    uint64_t code = 0;
    for (; got < digits && j < n; j++, got++) {
        int d = is_digit(s[j])                             ? s[j] - '0'
                : (s[j] | 32) >= 'a' && (s[j] | 32) <= 'f' ? (s[j] | 32) - 'a' + 10
                                                           : 99;
        if (d >= base) break;
        code = code * (uint64_t)base + (uint64_t)d;
    }
    if (base == 16 && got < digits)
        return tpl_compile_fail(x->c, RDG_E_MALFORMED, x->line, "the escape \\%c needs %d hexadecimal digits",
                                c, digits);
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return tpl_compile_fail(x->c, RDG_E_MALFORMED, x->line, "the escape \\%c%llx is no character", c,
                                (unsigned long long)code);
    *used += put_utf8(out + *used, (uint32_t)code);
    *i = j;
    return true;
}

static bool lex_string(lexer *x)
{
    char quote = x->p[x->at];
    size_t end = x->at + 1;
    while (end < x->n && x->p[end] != quote) end += x->p[end] == '\\' && end + 1 < x->n ? 2 : 1;
    if (end >= x->n) return tpl_compile_fail(x->c, RDG_E_MALFORMED, x->line, "a string is not closed");
    const char *s = x->p + x->at + 1;
    size_t n = end - x->at - 1, used = 0;
    char *out = tpl_compile_alloc(x->c, n + 1);
    if (!out) return false;
    for (size_t i = 0; i < n;) {
        if (s[i] != '\\')
            out[used++] = s[i++];
        else if (!unescape(x, s, n, &i, out, &used))
            return false; /* never longer than its source */
    }
    if (!push(x, TOK_STRING, out, used)) return false;
    advance(x, end + 1 - x->at);
    return true;
}

/* Expressions and tags -------------------------------------------------------------------------------- */

static bool lex_operator(lexer *x)
{
    static const struct {
        const char *text;
        tpl_token_kind kind;
    } table[] = {
        {"//", TOK_FLOORDIV}, {"**", TOK_POW},   {"==", TOK_EQ},      {"!=", TOK_NE},      {">=", TOK_GE},
        {"<=", TOK_LE},       {"+", TOK_ADD},    {"-", TOK_SUB},      {"/", TOK_DIV},      {"*", TOK_MUL},
        {"%", TOK_MOD},       {"~", TOK_TILDE},  {"[", TOK_LBRACKET}, {"]", TOK_RBRACKET}, {"(", TOK_LPAREN},
        {")", TOK_RPAREN},    {"{", TOK_LBRACE}, {"}", TOK_RBRACE},   {">", TOK_GT},       {"<", TOK_LT},
        {"=", TOK_ASSIGN},    {".", TOK_DOT},    {":", TOK_COLON},    {"|", TOK_PIPE},     {",", TOK_COMMA},
        {";", TOK_SEMICOLON},
    };
    for (int i = 0; i < RDG_COUNTOF(table); i++) {
        if (!looking_at(x, x->at, table[i].text)) continue;
        char c = table[i].text[0];
        if (c == '(' || c == '[' || c == '{') {
            if (x->n_brackets == MAX_BRACKETS)
                return tpl_compile_fail(x->c, RDG_E_LIMIT, x->line, "brackets are nested deeper than %d",
                                        MAX_BRACKETS);
            x->brackets[x->n_brackets++] = c == '(' ? ')' : c == '[' ? ']' : '}';
        } else if (c == ')' || c == ']' || c == '}') {
            if (x->n_brackets == 0)
                return tpl_compile_fail(x->c, RDG_E_MALFORMED, x->line, "unexpected '%c'", c);
            char want = x->brackets[--x->n_brackets];
            if (want != c)
                return tpl_compile_fail(x->c, RDG_E_MALFORMED, x->line, "'%c' where '%c' is due", c, want);
        }
        size_t n = strlen(table[i].text);
        if (!push(x, table[i].kind, x->p + x->at, n)) return false;
        advance(x, n);
        return true;
    }
    size_t n = tpl_char_bytes(x->p + x->at);
    return tpl_compile_fail(x->c, RDG_E_MALFORMED, x->line, "unexpected character '%.*s'", (int)n,
                            x->p + x->at);
}

/* From behind {% or {{ to behind its end. */
static bool lex_tag(lexer *x, bool is_variable)
{
    int begin_line = x->line;
    while (x->at < x->n) {
        size_t n = x->n_brackets ? 0 : end_tag(x, x->at, is_variable ? "}}" : "%}", !is_variable);
        unsigned char c = (unsigned char)x->p[x->at];
        size_t space = space_from(x, x->at);
        if (n) {
            if (!push(x, is_variable ? TOK_VAR_END : TOK_BLOCK_END, x->p + x->at, 2)) return false;
            advance(x, n);
            return true;
        }
        if (space) {
            advance(x, space);
        } else if (is_digit((char)c)) {
            if (!lex_number(x)) return false;
        } else if (is_name_char(c)) {
            size_t m = 1;
            while (x->at + m < x->n && is_name_char((unsigned char)x->p[x->at + m])) m++;
            if (!push(x, TOK_NAME, x->p + x->at, m)) return false;
            advance(x, m);
        } else if (c == '"' || c == '\'') {
            if (!lex_string(x)) return false;
        } else if (!lex_operator(x)) {
            return false;
        }
    }
    return tpl_compile_fail(x->c, RDG_E_MALFORMED, begin_line, "a %s is not closed",
                            is_variable ? "{{" : "{%");
}

static bool lex_comment(lexer *x)
{
    int line = x->line;
    for (size_t i = x->at; i < x->n; i++) {
        if (x->p[i] != '#' && x->p[i] != '-' && x->p[i] != '+') continue;
        size_t n = end_tag(x, i, "#}", true);
        if (!n) continue;
        advance(x, i - x->at + n);
        return true;
    }
    if (x->at >= x->n) return true; /* nothing behind it: Jinja does not mind */
    return tpl_compile_fail(x->c, RDG_E_MALFORMED, line, "a comment {# is not closed");
}

/* From behind {% raw to behind its {% endraw %}. */
static bool lex_raw(lexer *x)
{
    int line = x->line;
    size_t end = end_tag(x, x->at, "%}", false);
    advance(x, end); /* raw_begin is known to be there; it does not trim a newline */
    for (size_t i = x->at; i < x->n; i++) {
        size_t n = x->p[i] == '{' ? raw_tag(x, i, "endraw") : 0;
        size_t m = n ? end_tag(x, i + n, "%}", true) : 0;
        if (!m) continue;
        if (!push_data(x, x->at, i, x->p[i + 2], false)) return false;
        advance(x, n + m);
        return true;
    }
    if (x->at >= x->n) return true; /* nothing behind it: Jinja does not mind */
    return tpl_compile_fail(x->c, RDG_E_MALFORMED, line, "a {%% raw %%} has no {%% endraw %%}");
}

static bool lex_all(lexer *x)
{
    while (x->at < x->n) {
        size_t i = x->at;
        while (i < x->n && !(x->p[i] == '{' && i + 1 < x->n && strchr("{%#", x->p[i + 1]))) i++;
        if (i >= x->n) {
            if (!push(x, TOK_DATA, x->p + x->at, x->n - x->at)) return false;
            break;
        }
        char kind = x->p[i + 1], sign = i + 2 < x->n ? x->p[i + 2] : 0;
        size_t raw = kind == '%' ? raw_tag(x, i, "raw") : 0;
        /* {% raw +%} is not a raw tag */
        bool is_raw = raw && end_tag(x, i + raw, "%}", false);
        if (!push_data(x, x->at, i, sign, kind == '{')) return false;
        if (is_raw) {
            advance(x, raw);
            if (!lex_raw(x)) return false;
            continue;
        }
        if (kind != '#' && !push(x, kind == '{' ? TOK_VAR_BEGIN : TOK_BLOCK_BEGIN, x->p + i, 2)) return false;
        advance(x, 2 + (sign == '-' || sign == '+'));
        if (kind == '#' ? !lex_comment(x) : !lex_tag(x, kind == '{')) return false;
    }
    return push(x, TOK_EOF, "", 0);
}

bool tpl_lex(tpl_compiler *c)
{
    size_t bad, n = 0;
    if (!tpl_valid_utf8(c->source, c->n, &bad)) {
        c->err = rdg_fail(c->e, RDG_E_MALFORMED, "chat template: byte %zu is not valid UTF-8", bad);
        return false;
    }
    char *text = tpl_compile_alloc(c, c->n + 1);
    if (!text) return false;
    for (size_t i = 0; i < c->n; i++) { /* \r\n and \r become \n */
        text[n++] = c->source[i] == '\r' ? '\n' : c->source[i];
        if (c->source[i] == '\r' && i + 1 < c->n && c->source[i + 1] == '\n') i++;
    }
    if (n && text[n - 1] == '\n') n--; /* one newline at the very end is not part of the template */
    text[n] = 0;
    lexer x = {.c = c, .p = text, .n = n, .line = 1, .line_starting = true};
    return lex_all(&x);
}
