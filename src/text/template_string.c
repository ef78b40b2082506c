/* Strings of the template engine: building, searching, changing case, and the methods that templates call on
 * them. Positions that templates see count characters (code points); inside, everything is bytes. */
#include "text/template_internal.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* Building -------------------------------------------------------------------------------------------- */

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

/* Looking --------------------------------------------------------------------------------------------- */

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

bool tpl_starts(tpl_str s, tpl_str with)
{
    return s.n >= with.n && (with.n == 0 || memcmp(s.p, with.p, with.n) == 0);
}

bool tpl_ends(tpl_str s, tpl_str with)
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
        size_t tried = 0;
        for (; p <= last && (p = memchr(p, needle.p[0], (size_t)(last - p) + 1)); p++) {
            tried++;
            if (memcmp(p, needle.p, needle.n) != 0) continue;
            *at = (size_t)(p - hay.p);
            break;
        }
        return tpl_charge(r, (*at == SIZE_MAX ? hay.n : *at) - from + tried * 4);
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

bool tpl_find_last(tpl_run *r, tpl_str hay, tpl_str needle, size_t *at)
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

/* Characters ------------------------------------------------------------------------------------------ */

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

bool tpl_put_cased(tpl_run *r, tpl_buffer *b, tpl_str s, size_t at, tpl_letter_case how)
{
    utf8proc_int32_t c = (utf8proc_int32_t)tpl_char_at(s.p + at);
    bool from_input = s.origin && s.origin[at];
    if (how == TPL_CASE_SWAP) how = utf8proc_islower(c) ? TPL_CASE_UPPER : TPL_CASE_LOWER;
    if (c == 0xdf && how != TPL_CASE_LOWER) /* the one letter in common use that grows */
        return tpl_put_char(r, b, 'S', from_input) &&
               tpl_put_char(r, b, how == TPL_CASE_TITLE ? 's' : 'S', from_input);
    c = how == TPL_CASE_UPPER   ? utf8proc_toupper(c)
        : how == TPL_CASE_LOWER ? utf8proc_tolower(c)
                                : utf8proc_totitle(c);
    return tpl_put_char(r, b, (uint32_t)c, from_input);
}

/* The first character in one case, the others in another. */
bool tpl_change_case(tpl_run *r, tpl_str s, tpl_letter_case first, tpl_letter_case rest, tpl_str *out)
{
    tpl_buffer b = {0};
    if (!tpl_charge(r, s.n)) return false;
    for (size_t i = 0; i < s.n; i += tpl_char_bytes(s.p + i))
        if (!tpl_put_cased(r, &b, s, i, i == 0 ? first : rest)) return false;
    *out = tpl_buffer_str(&b);
    return true;
}

bool tpl_upper(tpl_run *r, tpl_str s, tpl_str *out)
{
    return tpl_change_case(r, s, TPL_CASE_UPPER, TPL_CASE_UPPER, out);
}

bool tpl_lower(tpl_run *r, tpl_str s, tpl_str *out)
{
    return tpl_change_case(r, s, TPL_CASE_LOWER, TPL_CASE_LOWER, out);
}

bool tpl_capitalize(tpl_run *r, tpl_str s, tpl_str *out)
{
    return tpl_change_case(r, s, TPL_CASE_TITLE, TPL_CASE_LOWER, out);
}

bool tpl_is_cased(utf8proc_int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT;
}

bool tpl_is_letter(utf8proc_int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return tpl_is_cased(c) || k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_LO;
}

bool tpl_is_numeric(utf8proc_int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool tpl_is_alnum(utf8proc_int32_t c)
{
    return tpl_is_letter(c) || tpl_is_numeric(c);
}

bool tpl_is_word(uint32_t c)
{
    return c == '_' || tpl_is_alnum((utf8proc_int32_t)c);
}

bool tpl_is_case(tpl_str s, bool upper)
{
    bool any = false;
    for (size_t i = 0; i < s.n; i += tpl_char_bytes(s.p + i)) {
        utf8proc_int32_t c = (utf8proc_int32_t)tpl_char_at(s.p + i);
        if (!tpl_is_cased(c)) continue;
        if (upper ? !utf8proc_isupper(c) : !utf8proc_islower(c)) return false;
        any = true;
    }
    return any;
}

/* Whole-string operations ----------------------------------------------------------------------------- */

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

bool tpl_add_str(tpl_run *r, tpl_list *l, tpl_str s)
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
            if (!tpl_add_str(r, *out, tpl_sub(s, start, keep_ends ? next : i))) return false;
            start = next;
        }
        i = next;
    }
    return start == s.n || tpl_add_str(r, *out, tpl_sub(s, start, s.n));
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
