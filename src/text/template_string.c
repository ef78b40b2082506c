/* Strings of the template engine: building, searching, changing case, and the methods that templates call on
 * them. Positions that templates see count characters (code points); inside, everything is bytes. */
#include "text/template_internal.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* Building
 * ----------------------------------------------------------------------------------------------------- */

static bool reserve(tpl_run *r, tpl_buffer *b, size_t extra)
{
    if (extra > r->limits->max_output_bytes || b->n > r->limits->max_output_bytes - extra)
        return tpl_fail(r, RDG_E_LIMIT, "a string or the output grows beyond %zu bytes",
                        r->limits->max_output_bytes);
    if (b->n + extra <= b->cap) return true;
    size_t cap = b->cap < 32 ? 32 : b->cap * 2;
    if (cap < b->n + extra) cap = b->n + extra;
    char *p = tpl_alloc(r, cap, 1);
    if (!p) return false;
    if (b->n) memcpy(p, b->p, b->n);
    if (b->origin) {
        unsigned char *origin = tpl_alloc(r, cap, 1);
        if (!origin) return false;
        memcpy(origin, b->origin, b->n);
        b->origin = origin;
    }
    b->p = p;
    b->cap = cap;
    return true;
}

/* The origin of the n bytes that are about to be appended; NULL: ones, if `ones`, else zeros. */
static bool put_origin(tpl_run *r, tpl_buffer *b, const unsigned char *origin, bool ones, size_t n)
{
    if (!b->origin) {
        if (!origin && !ones) return true;
        if (!(b->origin = tpl_alloc(r, b->cap, 1))) return false; /* zeros */
    }
    if (origin)
        memcpy(b->origin + b->n, origin, n);
    else
        memset(b->origin + b->n, ones, n);
    return true;
}

bool tpl_put(tpl_run *r, tpl_buffer *b, tpl_str s)
{
    if (s.n == 0) return true;
    if (!reserve(r, b, s.n) || !put_origin(r, b, s.origin, false, s.n)) return false;
    memcpy(b->p + b->n, s.p, s.n);
    b->n += s.n;
    return true;
}

bool tpl_put_z(tpl_run *r, tpl_buffer *b, const char *s)
{
    return tpl_put(r, b, (tpl_str){s, strlen(s), NULL});
}

bool tpl_put_char(tpl_run *r, tpl_buffer *b, uint32_t c, bool from_input)
{
    unsigned char bytes[4];
    size_t n = (size_t)utf8proc_encode_char((utf8proc_int32_t)c, bytes);
    if (!reserve(r, b, n) || !put_origin(r, b, NULL, from_input, n)) return false;
    memcpy(b->p + b->n, bytes, n);
    b->n += n;
    return true;
}

bool tpl_put_fill(tpl_run *r, tpl_buffer *b, tpl_str unit, int64_t times)
{
    size_t total;
    if (times <= 0 || unit.n == 0) return true;
    if (RDG_MUL_OVERFLOW(unit.n, (size_t)times, &total)) total = SIZE_MAX;
    if (!reserve(r, b, total) || !tpl_charge(r, total)) return false;
    for (int64_t i = 0; i < times; i++)
        if (!tpl_put(r, b, unit)) return false;
    return true;
}

tpl_str tpl_buffer_str(const tpl_buffer *b)
{
    return (tpl_str){b->p ? b->p : "", b->n, b->origin};
}

/* a + b. If a is the end of the newest concatenation, it is extended where it lies: text that a template
 * piles up piece by piece then costs its length, not its square. */
bool tpl_concat(tpl_run *r, tpl_str a, tpl_str b, tpl_str *out)
{
    tpl_buffer *tail = &r->tail;
    if (b.n == 0) {
        *out = a;
        return true;
    }
    if (a.n == 0) {
        *out = b;
        return true;
    }
    bool extends = tail->p && a.p + a.n == tail->p + tail->n && a.p >= tail->p &&
                   tail->n + b.n <= tail->cap &&
                   (a.origin ? tail->origin && a.origin == tail->origin + (a.p - tail->p) : !tail->origin);
    if (!tpl_charge(r, b.n)) return false;
    if (!extends) {
        tpl_buffer fresh = {0};
        if (!tpl_charge(r, a.n) ||
            !reserve(r, &fresh, a.n + b.n + RDG_MIN(a.n, r->limits->max_output_bytes / 4)) ||
            !tpl_put(r, &fresh, a))
            return false;
        *tail = fresh;
    } else if (a.n + b.n > r->limits->max_output_bytes) {
        return tpl_fail(r, RDG_E_LIMIT, "a string grows beyond %zu bytes", r->limits->max_output_bytes);
    }
    size_t start = tail->n - a.n;
    if (!tpl_put(r, tail, b)) return false;
    *out = (tpl_str){tail->p + start, a.n + b.n, tail->origin ? tail->origin + start : NULL};
    return true;
}

/* Looking
 * ------------------------------------------------------------------------------------------------------ */

tpl_str tpl_sub(tpl_str s, size_t from, size_t to)
{
    return (tpl_str){s.p + from, to - from, s.origin ? s.origin + from : NULL};
}

bool tpl_str_equal(tpl_str a, tpl_str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool tpl_str_is(tpl_str a, const char *literal)
{
    size_t n = strlen(literal);
    return a.n == n && (n == 0 || memcmp(a.p, literal, n) == 0);
}

/* The order of UTF-8 bytes is the order of code points. */
int tpl_str_compare(tpl_str a, tpl_str b)
{
    size_t n = RDG_MIN(a.n, b.n);
    int c = n ? memcmp(a.p, b.p, n) : 0;
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

static bool starts(tpl_str s, tpl_str with)
{
    return s.n >= with.n && (with.n == 0 || memcmp(s.p, with.p, with.n) == 0);
}

static bool ends(tpl_str s, tpl_str with)
{
    return s.n >= with.n && (with.n == 0 || memcmp(s.p + s.n - with.n, with.p, with.n) == 0);
}

/* Short needles by trial, long ones by Knuth, Morris and Pratt, so that no input makes the search quadratic.
 */
bool tpl_find(tpl_run *r, tpl_str hay, tpl_str needle, size_t from, size_t *at)
{
    *at = SIZE_MAX;
    if (from > hay.n || needle.n > hay.n - from) return tpl_charge(r, 0);
    if (needle.n == 0) {
        *at = from;
        return true;
    }
    if (needle.n <= 16) {
        const char *p = hay.p + from, *last = hay.p + hay.n - needle.n;
        while (p <= last && (p = memchr(p, needle.p[0], (size_t)(last - p) + 1))) {
            if (memcmp(p, needle.p, needle.n) == 0) {
                *at = (size_t)(p - hay.p);
                break;
            }
            p++;
        }
        return tpl_charge(r, (*at == SIZE_MAX ? hay.n : *at) - from);
    }
    size_t *back = tpl_alloc(r, needle.n, sizeof *back);
    if (!back || !tpl_charge(r, needle.n + hay.n - from)) return false;
    for (size_t i = 1, k = 0; i < needle.n; i++) {
        while (k && needle.p[i] != needle.p[k]) k = back[k - 1];
        k += needle.p[i] == needle.p[k];
        back[i] = k;
    }
    for (size_t i = from, k = 0; i < hay.n; i++) {
        while (k && hay.p[i] != needle.p[k]) k = back[k - 1];
        k += hay.p[i] == needle.p[k];
        if (k == needle.n) {
            *at = i + 1 - needle.n;
            return true;
        }
    }
    return true;
}

static bool find_last(tpl_run *r, tpl_str hay, tpl_str needle, size_t *at)
{
    *at = SIZE_MAX;
    for (size_t i = 0;; i = *at + 1) {
        size_t next;
        if (!tpl_find(r, hay, needle, i, &next)) return false;
        if (next == SIZE_MAX) return true;
        *at = next;
        if (next >= hay.n) return true;
    }
}

/* Characters
 * --------------------------------------------------------------------------------------------------- */

size_t tpl_char_bytes(const char *p)
{
    unsigned char c = (unsigned char)*p;
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

uint32_t tpl_char_at(const char *p)
{
    size_t n = tpl_char_bytes(p);
    static const unsigned char mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t c = (unsigned char)*p & mask[n];
    for (size_t i = 1; i < n; i++) c = c << 6 | ((unsigned char)p[i] & 0x3f);
    return c;
}

bool tpl_valid_utf8(const char *p, size_t n, size_t *bad_at)
{
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)p + i, (utf8proc_ssize_t)(n - i), &c);
        if (k <= 0) {
            *bad_at = i;
            return false;
        }
        i += (size_t)k;
    }
    return true;
}

/* What Python's str.isspace says. */
bool tpl_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
           c == 0x3000;
}

int64_t tpl_chars(tpl_str s)
{
    int64_t n = 0;
    for (size_t i = 0; i < s.n; i++) n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
    return n;
}

/* Byte offset of a character; the end if there are not so many. */
size_t tpl_char_offset(tpl_str s, int64_t index)
{
    size_t at = 0;
    for (; index > 0 && at < s.n; index--) at += tpl_char_bytes(s.p + at);
    return at;
}

static bool strips(uint32_t c, const tpl_str *chars)
{
    if (!chars) return tpl_is_space(c);
    for (size_t i = 0; i < chars->n; i += tpl_char_bytes(chars->p + i))
        if (tpl_char_at(chars->p + i) == c) return true;
    return false;
}

tpl_str tpl_strip(tpl_str s, const tpl_str *chars, bool left, bool right)
{
    size_t from = 0, to = s.n;
    while (left && from < to && strips(tpl_char_at(s.p + from), chars)) from += tpl_char_bytes(s.p + from);
    while (right && to > from) {
        size_t last = to - 1;
        while (last > from && ((unsigned char)s.p[last] & 0xc0) == 0x80) last--;
        if (!strips(tpl_char_at(s.p + last), chars)) break;
        to = last;
    }
    return tpl_sub(s, from, to);
}

typedef enum letter_case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_SWAP } letter_case;

static bool put_cased(tpl_run *r, tpl_buffer *b, tpl_str s, size_t at, letter_case how)
{
    utf8proc_int32_t c = (utf8proc_int32_t)tpl_char_at(s.p + at);
    bool from_input = s.origin && s.origin[at];
    if (how == CASE_SWAP) how = utf8proc_islower(c) ? CASE_UPPER : CASE_LOWER;
    if (c == 0xdf && how != CASE_LOWER) /* the one letter in common use that grows */
        return tpl_put_char(r, b, 'S', from_input) &&
               tpl_put_char(r, b, how == CASE_TITLE ? 's' : 'S', from_input);
    c = how == CASE_UPPER   ? utf8proc_toupper(c)
        : how == CASE_LOWER ? utf8proc_tolower(c)
                            : utf8proc_totitle(c);
    return tpl_put_char(r, b, (uint32_t)c, from_input);
}

/* The first character in one case, the others in another. */
static bool change_case(tpl_run *r, tpl_str s, letter_case first, letter_case rest, tpl_str *out)
{
    tpl_buffer b = {0};
    if (!tpl_charge(r, s.n)) return false;
    for (size_t i = 0; i < s.n; i += tpl_char_bytes(s.p + i))
        if (!put_cased(r, &b, s, i, i == 0 ? first : rest)) return false;
    *out = tpl_buffer_str(&b);
    return true;
}

bool tpl_upper(tpl_run *r, tpl_str s, tpl_str *out)
{
    return change_case(r, s, CASE_UPPER, CASE_UPPER, out);
}

bool tpl_lower(tpl_run *r, tpl_str s, tpl_str *out)
{
    return change_case(r, s, CASE_LOWER, CASE_LOWER, out);
}

bool tpl_capitalize(tpl_run *r, tpl_str s, tpl_str *out)
{
    return change_case(r, s, CASE_TITLE, CASE_LOWER, out);
}

static bool is_cased(utf8proc_int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT;
}

static bool is_letter(utf8proc_int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return is_cased(c) || k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_LO;
}

bool tpl_is_case(tpl_str s, bool upper)
{
    bool any = false;
    for (size_t i = 0; i < s.n; i += tpl_char_bytes(s.p + i)) {
        utf8proc_int32_t c = (utf8proc_int32_t)tpl_char_at(s.p + i);
        if (!is_cased(c)) continue;
        if (upper ? !utf8proc_isupper(c) : !utf8proc_islower(c)) return false;
        any = true;
    }
    return any;
}

/* Whole-string operations
 * --------------------------------------------------------------------------------------- */

bool tpl_replace(tpl_run *r, tpl_str s, tpl_str from, tpl_str to, int64_t count, tpl_str *out)
{
    tpl_buffer b = {0};
    size_t done = 0, at = 0;
    *out = s;
    while (count != 0) {
        size_t next;
        if (from.n == 0) { /* in front of every character and at the end */
            next = at;
            if (at > s.n) break;
        } else if (!tpl_find(r, s, from, at, &next)) {
            return false;
        }
        if (next == SIZE_MAX) break;
        if (!tpl_put(r, &b, tpl_sub(s, done, next)) || !tpl_put(r, &b, to) || !tpl_charge(r, to.n))
            return false;
        done = next + from.n;
        at = from.n ? done : next < s.n ? next + tpl_char_bytes(s.p + next) : s.n + 1;
        if (count > 0) count--;
    }
    if (done == 0 && b.n == 0 && from.n) return true;
    if (!tpl_put(r, &b, tpl_sub(s, done, s.n))) return false;
    *out = tpl_buffer_str(&b);
    return true;
}

bool tpl_escape(tpl_run *r, const tpl_value *v, tpl_value *out)
{
    static const struct {
        char c;
        const char *text;
    } table[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    tpl_buffer b = {0};
    tpl_str s;
    if (v->kind == TPL_STRING && v->flag) {
        *out = *v;
        return true;
    }
    if (!tpl_str_of(r, v, &s) || !tpl_charge(r, s.n)) return false;
    for (size_t i = 0; i < s.n; i++) {
        int k = 0;
        while (k < RDG_COUNTOF(table) && table[k].c != s.p[i]) k++;
        if (k == RDG_COUNTOF(table) ? !tpl_put(r, &b, tpl_sub(s, i, i + 1))
                                    : !tpl_put_z(r, &b, table[k].text))
            return false;
    }
    *out = tpl_string(tpl_buffer_str(&b));
    out->flag = 1;
    return true;
}

static bool add_str(tpl_run *r, tpl_list *l, tpl_str s)
{
    return tpl_charge(r, 0) && tpl_list_add(r, l, tpl_string(s));
}

bool tpl_split_lines(tpl_run *r, tpl_str s, bool keep_ends, tpl_list **out)
{
    size_t start = 0;
    if (!(*out = tpl_list_new(r, 4))) return false;
    for (size_t i = 0; i < s.n;) {
        uint32_t c = tpl_char_at(s.p + i);
        size_t next = i + tpl_char_bytes(s.p + i);
        if ((c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029) {
            if (c == '\r' && next < s.n && s.p[next] == '\n') next++;
            if (!add_str(r, *out, tpl_sub(s, start, keep_ends ? next : i))) return false;
            start = next;
        }
        i = next;
    }
    return start == s.n || add_str(r, *out, tpl_sub(s, start, s.n));
}

bool tpl_join(tpl_run *r, tpl_str separator, const tpl_list *items, tpl_str *out)
{
    tpl_buffer b = {0};
    for (int64_t i = 0; i < items->n; i++) {
        tpl_str s;
        if (!tpl_str_of(r, &items->at[i], &s) || (i && !tpl_put(r, &b, separator)) || !tpl_put(r, &b, s) ||
            !tpl_charge(r, s.n + separator.n))
            return false;
    }
    *out = tpl_buffer_str(&b);
    return true;
}

/* Split at white space; limit < 0: everywhere. */
static bool split_space(tpl_run *r, tpl_str s, int64_t limit, tpl_list *out)
{
    for (s = tpl_strip(s, NULL, true, false); s.n; s = tpl_strip(s, NULL, true, false)) {
        size_t i = 0;
        if (limit >= 0 && out->n == limit) return add_str(r, out, s);
        while (i < s.n && !tpl_is_space(tpl_char_at(s.p + i))) i += tpl_char_bytes(s.p + i);
        if (!add_str(r, out, tpl_sub(s, 0, i))) return false;
        s = tpl_sub(s, i, s.n);
    }
    return true;
}

/* The same from the right; the words come in reverse. */
static bool rsplit_space(tpl_run *r, tpl_str s, int64_t limit, tpl_list *out)
{
    for (s = tpl_strip(s, NULL, false, true); s.n; s = tpl_strip(s, NULL, false, true)) {
        size_t i = s.n;
        if (limit >= 0 && out->n == limit) return add_str(r, out, s);
        while (i > 0) {
            size_t last = i - 1;
            while (last > 0 && ((unsigned char)s.p[last] & 0xc0) == 0x80) last--;
            if (tpl_is_space(tpl_char_at(s.p + last))) break;
            i = last;
        }
        if (!add_str(r, out, tpl_sub(s, i, s.n))) return false;
        s = tpl_sub(s, 0, i);
    }
    return true;
}

static bool split_at(tpl_run *r, tpl_str s, tpl_str separator, int64_t limit, bool from_right, tpl_list *out)
{
    while (limit < 0 || out->n < limit) {
        size_t at;
        if (from_right) {
            /* The last match of the text that is left, by trial from behind. */
            for (at = s.n >= separator.n ? s.n - separator.n + 1 : 0; at > 0; at--) {
                if (s.p[at - 1] != separator.p[0]) continue;
                if (!tpl_charge(r, separator.n)) return false;
                if (memcmp(s.p + at - 1, separator.p, separator.n) == 0) break;
            }
            if (!tpl_charge(r, s.n - at)) return false;
            at = at ? at - 1 : SIZE_MAX;
        } else if (!tpl_find(r, s, separator, 0, &at)) {
            return false;
        }
        if (at == SIZE_MAX) break;
        if (!add_str(r, out, from_right ? tpl_sub(s, at + separator.n, s.n) : tpl_sub(s, 0, at)))
            return false;
        s = from_right ? tpl_sub(s, 0, at) : tpl_sub(s, at + separator.n, s.n);
    }
    return add_str(r, out, s);
}

static bool split(tpl_run *r, const tpl_value *self, const tpl_args *args, bool from_right, tpl_value *out)
{
    tpl_value v[2];
    int64_t limit = -1;
    tpl_list *l = tpl_list_new(r, 4);
    if (!l || !tpl_bind(r, from_right ? "rsplit" : "split", args, "sep,maxsplit", v)) return false;
    if (tpl_given(&v[1]) && !tpl_as_int(&v[1], &limit))
        return tpl_fail(r, RDG_E_MALFORMED, "split: maxsplit is %s, not an integer", tpl_type_name(&v[1]));
    if (limit < 0) limit = -1;
    if (!tpl_given(&v[0]) || v[0].kind == TPL_NONE) {
        if (!tpl_charge(r, self->u.s.n) || !(from_right ? rsplit_space : split_space)(r, self->u.s, limit, l))
            return false;
    } else if (v[0].kind != TPL_STRING || v[0].u.s.n == 0) {
        return tpl_fail(r, RDG_E_MALFORMED, "split: the separator is %s",
                        v[0].kind == TPL_STRING ? "empty" : tpl_type_name(&v[0]));
    } else if (!split_at(r, self->u.s, v[0].u.s, limit, from_right, l)) {
        return false;
    }
    for (int64_t i = 0; from_right && i < l->n / 2; i++) {
        tpl_value t = l->at[i];
        l->at[i] = l->at[l->n - 1 - i];
        l->at[l->n - 1 - i] = t;
    }
    for (int64_t i = 0; i < l->n; i++) l->at[i].flag = self->flag;
    *out = tpl_list_value(TPL_LIST, l);
    return true;
}

/* Methods
 * ------------------------------------------------------------------------------------------------------ */

/* A result that is escaped if self was. */
static bool give(const tpl_value *self, tpl_str s, tpl_value *out)
{
    unsigned flag = self->flag;
    *out = tpl_string(s);
    out->flag = flag;
    return true;
}

static bool no_args(tpl_run *r, const char *what, const tpl_args *args)
{
    return args->n + args->n_named == 0 || tpl_fail(r, RDG_E_MALFORMED, "%s takes no arguments", what);
}

static bool want_str(tpl_run *r, const char *what, const tpl_value *v, tpl_str *out)
{
    *out = TPL_STR("");
    if (v->kind == TPL_UNDEFINED) return tpl_undefined_error(r, v);
    if (v->kind != TPL_STRING)
        return tpl_fail(r, RDG_E_MALFORMED, "%s needs a string, not %s", what, tpl_type_name(v));
    *out = v->u.s;
    return true;
}

static bool want_int(tpl_run *r, const char *what, const tpl_value *v, int64_t *out)
{
    if (v->kind == TPL_UNDEFINED) return tpl_undefined_error(r, v);
    return tpl_as_int(v, out) ||
           tpl_fail(r, RDG_E_MALFORMED, "%s needs an integer, not %s", what, tpl_type_name(v));
}

static bool strip_method(tpl_run *r, const char *what, const tpl_value *self, const tpl_args *args, bool left,
                         bool right, tpl_value *out)
{
    tpl_value v[1];
    tpl_str chars;
    if (!tpl_bind(r, what, args, "chars", v)) return false;
    bool some = tpl_given(&v[0]) && v[0].kind != TPL_NONE;
    if (some && !want_str(r, what, &v[0], &chars)) return false;
    if (!tpl_charge(r, some && chars.n > 16 ? self->u.s.n * (chars.n / 16) : self->u.s.n)) return false;
    return give(self, tpl_strip(self->u.s, some ? &chars : NULL, left, right), out);
}

#define METHOD(name) static bool name(tpl_run *r, const tpl_value *self, const tpl_args *args, tpl_value *out)

METHOD(m_strip)
{
    return strip_method(r, "strip", self, args, true, true, out);
}
METHOD(m_lstrip)
{
    return strip_method(r, "lstrip", self, args, true, false, out);
}
METHOD(m_rstrip)
{
    return strip_method(r, "rstrip", self, args, false, true, out);
}
METHOD(m_split)
{
    return split(r, self, args, false, out);
}
METHOD(m_rsplit)
{
    return split(r, self, args, true, out);
}
METHOD(m_upper)
{
    tpl_str s;
    return no_args(r, "upper", args) && tpl_upper(r, self->u.s, &s) && give(self, s, out);
}
METHOD(m_lower)
{
    tpl_str s;
    return no_args(r, "lower", args) && tpl_lower(r, self->u.s, &s) && give(self, s, out);
}
METHOD(m_capitalize)
{
    tpl_str s;
    return no_args(r, "capitalize", args) && tpl_capitalize(r, self->u.s, &s) && give(self, s, out);
}
METHOD(m_swapcase)
{
    tpl_str s;
    return no_args(r, "swapcase", args) && change_case(r, self->u.s, CASE_SWAP, CASE_SWAP, &s) &&
           give(self, s, out);
}

/* A letter behind a letter is small, any other is a capital. */
METHOD(m_title)
{
    tpl_buffer b = {0};
    bool in_word = false;
    tpl_str s = self->u.s;
    if (!no_args(r, "title", args) || !tpl_charge(r, s.n)) return false;
    for (size_t i = 0; i < s.n; i += tpl_char_bytes(s.p + i)) {
        if (!put_cased(r, &b, s, i, in_word ? CASE_LOWER : CASE_TITLE)) return false;
        in_word = is_cased((utf8proc_int32_t)tpl_char_at(s.p + i));
    }
    return give(self, tpl_buffer_str(&b), out);
}

/* startswith, endswith: a string or a tuple of them; start and end in characters */
static bool affix(tpl_run *r, const char *what, const tpl_value *self, const tpl_args *args, bool at_end,
                  tpl_value *out)
{
    tpl_value v[3], part;
    bool found = false;
    if (!tpl_bind(r, what, args, "prefix!,start,end", v)) return false;
    if (!tpl_get_slice(r, self, tpl_given(&v[1]) ? &v[1] : NULL, tpl_given(&v[2]) ? &v[2] : NULL, NULL,
                       &part))
        return false;
    const tpl_value *at = v[0].kind == TPL_TUPLE ? v[0].u.list->at : &v[0];
    for (int64_t i = 0, n = v[0].kind == TPL_TUPLE ? v[0].u.list->n : 1; i < n; i++) {
        tpl_str s;
        if (!want_str(r, what, &at[i], &s) || !tpl_charge(r, s.n)) return false;
        found = found || (at_end ? ends(part.u.s, s) : starts(part.u.s, s));
    }
    *out = tpl_bool(found);
    return true;
}
METHOD(m_startswith)
{
    return affix(r, "startswith", self, args, false, out);
}
METHOD(m_endswith)
{
    return affix(r, "endswith", self, args, true, out);
}

METHOD(m_replace)
{
    tpl_value v[3];
    tpl_str from, to, s;
    int64_t count = -1;
    if (!tpl_bind(r, "replace", args, "old!,new!,count", v)) return false;
    if (self->flag && !tpl_escape(r, &v[1], &v[1])) return false;
    if (!want_str(r, "replace", &v[0], &from) || !want_str(r, "replace", &v[1], &to)) return false;
    if (tpl_given(&v[2]) && !want_int(r, "replace", &v[2], &count)) return false;
    return tpl_replace(r, self->u.s, from, to, count, &s) && give(self, s, out);
}

/* find, index, count, rfind, rindex between start and end */
static bool search(tpl_run *r, const char *what, const tpl_value *self, const tpl_args *args, bool last,
                   bool must, tpl_value *out)
{
    tpl_value v[3], part;
    tpl_str needle;
    size_t at;
    int64_t start = 0, chars = tpl_chars(self->u.s);
    if (!tpl_bind(r, what, args, "sub!,start,end", v) || !want_str(r, what, &v[0], &needle)) return false;
    if (tpl_given(&v[1]) && v[1].kind != TPL_NONE && !want_int(r, what, &v[1], &start)) return false;
    if (!tpl_get_slice(r, self, tpl_given(&v[1]) ? &v[1] : NULL, tpl_given(&v[2]) ? &v[2] : NULL, NULL,
                       &part))
        return false;
    if (start < 0) start = RDG_MAX(0, start + chars);
    if (!(last ? find_last(r, part.u.s, needle, &at) : tpl_find(r, part.u.s, needle, 0, &at))) return false;
    if (start > chars) at = SIZE_MAX;
    if (at == SIZE_MAX && must) return tpl_fail(r, RDG_E_MALFORMED, "%s: substring not found", what);
    *out = tpl_int(at == SIZE_MAX ? -1 : start + tpl_chars(tpl_sub(part.u.s, 0, at)));
    return true;
}
METHOD(m_find)
{
    return search(r, "find", self, args, false, false, out);
}
METHOD(m_rfind)
{
    return search(r, "rfind", self, args, true, false, out);
}
METHOD(m_index)
{
    return search(r, "index", self, args, false, true, out);
}
METHOD(m_rindex)
{
    return search(r, "rindex", self, args, true, true, out);
}

METHOD(m_count)
{
    tpl_value v[3], part;
    tpl_str needle;
    int64_t n = 0;
    if (!tpl_bind(r, "count", args, "sub!,start,end", v) || !want_str(r, "count", &v[0], &needle))
        return false;
    if (!tpl_get_slice(r, self, tpl_given(&v[1]) ? &v[1] : NULL, tpl_given(&v[2]) ? &v[2] : NULL, NULL,
                       &part))
        return false;
    for (size_t at = 0; needle.n; at += needle.n) {
        if (!tpl_find(r, part.u.s, needle, at, &at)) return false;
        if (at == SIZE_MAX) break;
        n++;
    }
    *out = tpl_int(needle.n ? n : tpl_chars(part.u.s) + 1);
    return true;
}

METHOD(m_join)
{
    tpl_value v[1];
    tpl_list *items;
    tpl_str s;
    if (!tpl_bind(r, "join", args, "iterable!", v) || !tpl_items(r, &v[0], &items)) return false;
    for (int64_t i = 0; i < items->n; i++)
        if (!want_str(r, "join", &items->at[i], &s)) return false;
    if (self->flag) { /* what is not escaped yet is escaped */
        tpl_list *escaped = tpl_list_new(r, items->n);
        if (!escaped) return false;
        for (int64_t i = 0; i < items->n; i++) {
            tpl_value e;
            if (!tpl_escape(r, &items->at[i], &e) || !tpl_list_add(r, escaped, e)) return false;
        }
        items = escaped;
    }
    return tpl_join(r, self->u.s, items, &s) && give(self, s, out);
}

METHOD(m_splitlines)
{
    tpl_value v[1];
    tpl_list *l;
    if (!tpl_bind(r, "splitlines", args, "keepends", v) || !tpl_charge(r, self->u.s.n)) return false;
    if (!tpl_split_lines(r, self->u.s, tpl_given(&v[0]) && tpl_truth(&v[0]), &l)) return false;
    *out = tpl_list_value(TPL_LIST, l);
    return true;
}

static bool cut_affix(tpl_run *r, const char *what, const tpl_value *self, const tpl_args *args, bool at_end,
                      tpl_value *out)
{
    tpl_value v[1];
    tpl_str a, s = self->u.s;
    if (!tpl_bind(r, what, args, "affix!", v) || !want_str(r, what, &v[0], &a)) return false;
    if (at_end ? ends(s, a) : starts(s, a)) s = at_end ? tpl_sub(s, 0, s.n - a.n) : tpl_sub(s, a.n, s.n);
    return give(self, s, out);
}
METHOD(m_removeprefix)
{
    return cut_affix(r, "removeprefix", self, args, false, out);
}
METHOD(m_removesuffix)
{
    return cut_affix(r, "removesuffix", self, args, true, out);
}

static bool partition(tpl_run *r, const char *what, const tpl_value *self, const tpl_args *args, bool last,
                      tpl_value *out)
{
    tpl_value v[1];
    tpl_str sep, s = self->u.s;
    size_t at;
    tpl_list *l = tpl_list_new(r, 3);
    if (!l || !tpl_bind(r, what, args, "sep!", v) || !want_str(r, what, &v[0], &sep)) return false;
    if (sep.n == 0) return tpl_fail(r, RDG_E_MALFORMED, "%s: the separator is empty", what);
    if (!(last ? find_last(r, s, sep, &at) : tpl_find(r, s, sep, 0, &at))) return false;
    if (at == SIZE_MAX) {
        if (!add_str(r, l, last ? TPL_STR("") : s) || !add_str(r, l, TPL_STR("")) ||
            !add_str(r, l, last ? s : TPL_STR("")))
            return false;
    } else if (!add_str(r, l, tpl_sub(s, 0, at)) || !add_str(r, l, tpl_sub(s, at, at + sep.n)) ||
               !add_str(r, l, tpl_sub(s, at + sep.n, s.n))) {
        return false;
    }
    *out = tpl_list_value(TPL_TUPLE, l);
    return true;
}
METHOD(m_partition)
{
    return partition(r, "partition", self, args, false, out);
}
METHOD(m_rpartition)
{
    return partition(r, "rpartition", self, args, true, out);
}

/* ljust, rjust, center, zfill */
static bool pad(tpl_run *r, const char *what, const tpl_value *self, const tpl_args *args, int side,
                tpl_value *out)
{
    tpl_value v[2];
    tpl_buffer b = {0};
    tpl_str fill = TPL_STR(" ");
    int64_t width, have = tpl_chars(self->u.s);
    if (!tpl_bind(r, what, args, "width!,fillchar", v) || !want_int(r, what, &v[0], &width)) return false;
    if (tpl_given(&v[1]) && !want_str(r, what, &v[1], &fill)) return false;
    if (tpl_chars(fill) != 1) return tpl_fail(r, RDG_E_MALFORMED, "%s: the fill must be one character", what);
    int64_t missing = width > have ? width - have : 0;
    int64_t left = side < 0 ? missing : side > 0 ? 0 : missing / 2 + (missing & width & 1);
    return tpl_put_fill(r, &b, fill, left) && tpl_put(r, &b, self->u.s) &&
           tpl_put_fill(r, &b, fill, missing - left) && give(self, tpl_buffer_str(&b), out);
}
METHOD(m_ljust)
{
    return pad(r, "ljust", self, args, 1, out);
}
METHOD(m_rjust)
{
    return pad(r, "rjust", self, args, -1, out);
}
METHOD(m_center)
{
    return pad(r, "center", self, args, 0, out);
}
METHOD(m_zfill)
{
    tpl_value v[1];
    tpl_buffer b = {0};
    tpl_str s = self->u.s;
    int64_t width, have = tpl_chars(s);
    if (!tpl_bind(r, "zfill", args, "width!", v) || !want_int(r, "zfill", &v[0], &width)) return false;
    size_t sign = s.n && (s.p[0] == '-' || s.p[0] == '+') ? 1 : 0;
    return tpl_put(r, &b, tpl_sub(s, 0, sign)) && tpl_put_fill(r, &b, TPL_STR("0"), width - have) &&
           tpl_put(r, &b, tpl_sub(s, sign, s.n)) && give(self, tpl_buffer_str(&b), out);
}

/* All characters are of a class, and there is one. */
static bool all_of(tpl_run *r, const char *what, const tpl_value *self, const tpl_args *args,
                   bool (*is)(utf8proc_int32_t c), tpl_value *out)
{
    tpl_str s = self->u.s;
    bool all = s.n > 0;
    if (!no_args(r, what, args) || !tpl_charge(r, s.n)) return false;
    for (size_t i = 0; all && i < s.n; i += tpl_char_bytes(s.p + i))
        all = is((utf8proc_int32_t)tpl_char_at(s.p + i));
    *out = tpl_bool(all);
    return true;
}
static bool is_decimal(utf8proc_int32_t c)
{
    return utf8proc_category(c) == UTF8PROC_CATEGORY_ND;
}
/* Superscripts and the like count as digits or numbers too. */
static bool is_numeric(utf8proc_int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}
static bool is_digit(utf8proc_int32_t c)
{
    return is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 ||
           (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089);
}
static bool is_alnum(utf8proc_int32_t c)
{
    return is_letter(c) || is_numeric(c);
}
bool tpl_is_word(uint32_t c)
{
    return c == '_' || is_alnum((utf8proc_int32_t)c);
}
static bool is_space(utf8proc_int32_t c)
{
    return tpl_is_space((uint32_t)c);
}
METHOD(m_isalpha)
{
    return all_of(r, "isalpha", self, args, is_letter, out);
}
METHOD(m_isdigit)
{
    return all_of(r, "isdigit", self, args, is_digit, out);
}
METHOD(m_isdecimal)
{
    return all_of(r, "isdecimal", self, args, is_decimal, out);
}
METHOD(m_isnumeric)
{
    return all_of(r, "isnumeric", self, args, is_numeric, out);
}
METHOD(m_isalnum)
{
    return all_of(r, "isalnum", self, args, is_alnum, out);
}
METHOD(m_isspace)
{
    return all_of(r, "isspace", self, args, is_space, out);
}
METHOD(m_isascii)
{
    bool ascii = true;
    for (size_t i = 0; i < self->u.s.n; i++) ascii = ascii && (unsigned char)self->u.s.p[i] < 0x80;
    *out = tpl_bool(ascii);
    return no_args(r, "isascii", args);
}
METHOD(m_isupper)
{
    *out = tpl_bool(tpl_is_case(self->u.s, true));
    return no_args(r, "isupper", args);
}
METHOD(m_islower)
{
    *out = tpl_bool(tpl_is_case(self->u.s, false));
    return no_args(r, "islower", args);
}

const tpl_function tpl_string_methods[] = {
    {"strip", m_strip},
    {"lstrip", m_lstrip},
    {"rstrip", m_rstrip},
    {"split", m_split},
    {"rsplit", m_rsplit},
    {"upper", m_upper},
    {"lower", m_lower},
    {"casefold", m_lower},
    {"capitalize", m_capitalize},
    {"swapcase", m_swapcase},
    {"title", m_title},
    {"startswith", m_startswith},
    {"endswith", m_endswith},
    {"replace", m_replace},
    {"find", m_find},
    {"rfind", m_rfind},
    {"index", m_index},
    {"rindex", m_rindex},
    {"count", m_count},
    {"join", m_join},
    {"splitlines", m_splitlines},
    {"removeprefix", m_removeprefix},
    {"removesuffix", m_removesuffix},
    {"partition", m_partition},
    {"rpartition", m_rpartition},
    {"ljust", m_ljust},
    {"rjust", m_rjust},
    {"center", m_center},
    {"zfill", m_zfill},
    {"isalpha", m_isalpha},
    {"isdigit", m_isdigit},
    {"isdecimal", m_isdecimal},
    {"isnumeric", m_isnumeric},
    {"isalnum", m_isalnum},
    {"isspace", m_isspace},
    {"isascii", m_isascii},
    {"isupper", m_isupper},
    {"islower", m_islower},
    {"format", tpl_format_method},
    {"encode", NULL},
    {"expandtabs", NULL},
    {"format_map", NULL},
    {"isidentifier", NULL},
    {"isprintable", NULL},
    {"istitle", NULL},
    {"maketrans", NULL},
    {"translate", NULL},
    {NULL, NULL},
};
