/* Filters: what stands behind "|". Those that Jinja evaluates lazily give an iterator, as there, but do their
 * work at once: a template sees the difference only in whether an unused result may hide an error. */
#include "text/template_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILTER(name) static bool name(tpl_run *r, const tpl_value *self, const tpl_args *args, tpl_value *out)

static bool no_args(tpl_run *r, const char *what, const tpl_args *args)
{
    return args->n + args->n_named == 0 || tpl_fail(r, RDG_E_MALFORMED, "%s takes no arguments", what);
}

/* str(self), and whether it is escaped text */
static bool text_of(tpl_run *r, const tpl_value *self, tpl_str *s, unsigned *flag)
{
    *flag = self->kind == TPL_STRING ? self->flag : 0;
    return tpl_str_of(r, self, s);
}

static bool give(tpl_str s, unsigned flag, tpl_value *out)
{
    *out = tpl_string(s);
    out->flag = flag;
    return true;
}

static bool want_int(tpl_run *r, const char *what, const tpl_value *v, int64_t *out)
{
    if (v->kind == TPL_UNDEFINED) return tpl_undefined_error(r, v);
    return tpl_as_int(v, out) ||
           tpl_fail(r, RDG_E_MALFORMED, "%s needs an integer, not %s", what, tpl_type_name(v));
}

static bool flag_of(const tpl_value *v)
{
    return tpl_given(v) && tpl_truth(v);
}

bool tpl_call_filter(tpl_run *r, const tpl_function *f, const tpl_value *self, const tpl_args *args,
                     tpl_value *out)
{
    if (!f->call) return tpl_fail(r, RDG_E_UNSUPPORTED, "the filter '%s' is not supported", f->name);
    return tpl_charge(r, 0) && f->call(r, self, args, out);
}

/* Text
 * ---------------------------------------------------------------------------------------------------------
 */

static bool cased(tpl_run *r, const char *what, const tpl_value *self, const tpl_args *args,
                  bool (*change)(tpl_run *r, tpl_str s, tpl_str *out), tpl_value *out)
{
    tpl_str s;
    unsigned flag;
    return no_args(r, what, args) && text_of(r, self, &s, &flag) && change(r, s, &s) && give(s, flag, out);
}
FILTER(f_upper)
{
    return cased(r, "upper", self, args, tpl_upper, out);
}
FILTER(f_lower)
{
    return cased(r, "lower", self, args, tpl_lower, out);
}
FILTER(f_capitalize)
{
    return cased(r, "capitalize", self, args, tpl_capitalize, out);
}

/* Words begin behind white space, - ( { [ < only. */
FILTER(f_title)
{
    tpl_str s, word;
    tpl_buffer b = {0};
    unsigned flag;
    if (!no_args(r, "title", args) || !text_of(r, self, &s, &flag)) return false;
    for (size_t i = 0; i < s.n;) {
        size_t start = i;
        bool gap = strchr("-({[<", s.p[i]) || tpl_is_space(tpl_char_at(s.p + i));
        while (i < s.n && gap == (strchr("-({[<", s.p[i]) || tpl_is_space(tpl_char_at(s.p + i))))
            i += tpl_char_bytes(s.p + i);
        if (!tpl_capitalize(r, tpl_sub(s, start, i), &word) || !tpl_put(r, &b, word)) return false;
    }
    return give(tpl_buffer_str(&b), flag, out);
}

FILTER(f_trim)
{
    tpl_value v[1];
    tpl_str s, chars;
    unsigned flag;
    if (!tpl_bind(r, "trim", args, "chars", v) || !text_of(r, self, &s, &flag) || !tpl_charge(r, s.n))
        return false;
    bool some = tpl_given(&v[0]) && v[0].kind != TPL_NONE;
    if (some && v[0].kind != TPL_STRING)
        return tpl_fail(r, RDG_E_MALFORMED, "trim: chars is %s", tpl_type_name(&v[0]));
    if (some) chars = v[0].u.s;
    if (some && chars.n > 16 && !tpl_charge(r, s.n * (chars.n / 16))) return false;
    return give(tpl_strip(s, some ? &chars : NULL, true, true), flag, out);
}

FILTER(f_replace)
{
    tpl_value v[3];
    tpl_str s, from, to;
    int64_t count = -1;
    if (!tpl_bind(r, "replace", args, "old!,new!,count", v)) return false;
    if (tpl_given(&v[2]) && v[2].kind != TPL_NONE && !want_int(r, "replace", &v[2], &count)) return false;
    return tpl_str_of(r, self, &s) && tpl_str_of(r, &v[0], &from) && tpl_str_of(r, &v[1], &to) &&
           tpl_replace(r, s, from, to, count, &s) && give(s, 0, out);
}

FILTER(f_string)
{
    tpl_str s;
    unsigned flag;
    return no_args(r, "string", args) && text_of(r, self, &s, &flag) && give(s, flag, out);
}
FILTER(f_safe)
{
    tpl_str s;
    return no_args(r, "safe", args) && tpl_str_of(r, self, &s) && give(s, 1, out);
}
FILTER(f_escape)
{
    return no_args(r, "escape", args) && tpl_escape(r, self, out);
}
FILTER(f_forceescape)
{
    tpl_str s;
    tpl_value plain;
    return no_args(r, "forceescape", args) && tpl_str_of(r, self, &s) && give(s, 0, &plain) &&
           tpl_escape(r, &plain, out);
}

FILTER(f_indent)
{
    tpl_value v[3];
    tpl_buffer b = {0};
    tpl_list *lines;
    int64_t width = 4;
    if (!tpl_bind(r, "indent", args, "width,first,blank", v)) return false;
    if (self->kind == TPL_UNDEFINED) return tpl_undefined_error(r, self);
    if (self->kind != TPL_STRING)
        return tpl_fail(r, RDG_E_MALFORMED, "indent: %s is no string", tpl_type_name(self));
    tpl_str unit = TPL_STR(" "), s = self->u.s;
    if (tpl_given(&v[0]) && v[0].kind == TPL_STRING) {
        unit = v[0].u.s;
        width = 1;
    } else if (tpl_given(&v[0]) && !want_int(r, "indent", &v[0], &width)) {
        return false;
    }
    bool first = flag_of(&v[1]), blank = flag_of(&v[2]);
    /* A newline at the end opens one more line, which is empty. */
    if (!tpl_concat(r, s, TPL_STR("\n"), &s) || !tpl_split_lines(r, s, false, &lines)) return false;
    for (int64_t i = 0; i < lines->n; i++) {
        tpl_str line = lines->at[i].u.s;
        bool indents = i == 0 ? first : blank || line.n > 0;
        if ((i && !tpl_put_z(r, &b, "\n")) || (indents && !tpl_put_fill(r, &b, unit, width)) ||
            !tpl_put(r, &b, line))
            return false;
    }
    return give(tpl_buffer_str(&b), self->flag, out);
}

FILTER(f_center)
{
    tpl_value v[1];
    tpl_buffer b = {0};
    tpl_str s;
    unsigned flag;
    int64_t width = 80;
    if (!tpl_bind(r, "center", args, "width", v) || !text_of(r, self, &s, &flag)) return false;
    if (tpl_given(&v[0]) && !want_int(r, "center", &v[0], &width)) return false;
    int64_t have = tpl_chars(s), missing = width > have ? width - have : 0,
            left = missing / 2 + (missing & width & 1);
    return tpl_put_fill(r, &b, TPL_STR(" "), left) && tpl_put(r, &b, s) &&
           tpl_put_fill(r, &b, TPL_STR(" "), missing - left) && give(tpl_buffer_str(&b), flag, out);
}

FILTER(f_truncate)
{
    tpl_value v[4];
    tpl_buffer b = {0};
    tpl_str s, end = TPL_STR("...");
    int64_t length = 255, leeway = 5;
    if (!tpl_bind(r, "truncate", args, "length,killwords,end,leeway", v)) return false;
    if (self->kind != TPL_STRING)
        return tpl_fail(r, RDG_E_MALFORMED, "truncate: %s is no string", tpl_type_name(self));
    if (tpl_given(&v[0]) && !want_int(r, "truncate", &v[0], &length)) return false;
    if (tpl_given(&v[2]) && !tpl_str_of(r, &v[2], &end)) return false;
    if (tpl_given(&v[3]) && v[3].kind != TPL_NONE && !want_int(r, "truncate", &v[3], &leeway)) return false;
    if (length < tpl_chars(end) || leeway < 0)
        return tpl_fail(r, RDG_E_MALFORMED, "truncate: the length or leeway is too small");
    s = self->u.s;
    *out = *self;
    if (tpl_chars(s) - leeway <= length) return true;
    s = tpl_sub(s, 0, tpl_char_offset(s, length - tpl_chars(end)));
    if (!flag_of(&v[1])) { /* back to the last space */
        size_t n = s.n;
        while (n > 0 && s.p[n - 1] != ' ') n--;
        if (n > 0) s = tpl_sub(s, 0, n - 1);
    }
    return tpl_put(r, &b, s) && tpl_put(r, &b, end) && give(tpl_buffer_str(&b), self->flag, out);
}

FILTER(f_wordcount)
{
    tpl_str s;
    int64_t n = 0;
    bool in_word = false;
    if (!no_args(r, "wordcount", args) || !tpl_str_of(r, self, &s) || !tpl_charge(r, s.n)) return false;
    for (size_t i = 0; i < s.n; i += tpl_char_bytes(s.p + i)) {
        bool word = tpl_is_word(tpl_char_at(s.p + i));
        n += word && !in_word;
        in_word = word;
    }
    *out = tpl_int(n);
    return true;
}

FILTER(f_urlencode)
{
    tpl_str s;
    tpl_buffer b = {0};
    if (!no_args(r, "urlencode", args)) return false;
    if (self->kind != TPL_STRING && tpl_iterable(self))
        return tpl_fail(r, RDG_E_UNSUPPORTED, "urlencode of %s is not supported", tpl_type_name(self));
    if (!tpl_str_of(r, self, &s)) return false;
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        char text[4];
        snprintf(text, sizeof text, "%%%02X", c);
        bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z' && c < 0x80) ||
                     (c && strchr("_.-~/", c));
        if (plain ? !tpl_put(r, &b, tpl_sub(s, i, i + 1)) : !tpl_put_z(r, &b, text)) return false;
    }
    return give(tpl_buffer_str(&b), 0, out);
}

FILTER(f_format)
{
    tpl_str s;
    unsigned flag;
    tpl_list l = {args->at, args->n, args->n};
    tpl_value v = tpl_list_value(TPL_TUPLE, &l);
    if (args->n && args->n_named)
        return tpl_fail(r, RDG_E_MALFORMED, "format takes positional or named arguments, not both");
    if (args->n_named) {
        tpl_dict *d = tpl_dict_new(r, args->n_named);
        for (int i = 0; d && i < args->n_named; i++)
            if (!tpl_dict_set(r, d, tpl_string(args->names[i]), args->named[i])) return false;
        v = (tpl_value){.kind = TPL_DICT, .u.dict = d};
        if (!d) return false;
    }
    if (!text_of(r, self, &s, &flag) || !tpl_percent(r, s, &v, out)) return false;
    out->flag = flag;
    return true;
}

/* Numbers
 * ------------------------------------------------------------------------------------------------------ */

/* Python's int(text, base); false: it is none. */
static bool parse_int(tpl_str s, int64_t base, int64_t *out, bool *too_big)
{
    bool negative = false, any = false;
    size_t i = 0;
    *out = 0;
    *too_big = false;
    s = tpl_strip(s, NULL, true, true);
    if (s.n && (s.p[0] == '-' || s.p[0] == '+')) negative = s.p[i++] == '-';
    if (i + 1 < s.n && s.p[i] == '0' &&
        ((base == 16 && (s.p[i + 1] | 32) == 'x') || (base == 8 && (s.p[i + 1] | 32) == 'o') ||
         (base == 2 && (s.p[i + 1] | 32) == 'b')))
        i += 2;
    for (; i < s.n; i++) {
        char c = s.p[i];
        if (c == '_' && any && i + 1 < s.n && s.p[i - 1] != '_') continue;
        int64_t d = c >= '0' && c <= '9'                 ? c - '0'
                    : (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10
                                                         : 99;
        if (d >= base) return false;
        any = true;
        if (RDG_MUL_OVERFLOW(*out, base, out) || RDG_ADD_OVERFLOW(*out, negative ? -d : d, out))
            *too_big = true;
    }
    return any;
}

/* Python's float(text). */
static bool parse_float(tpl_str s, double *out)
{
    char text[64], *end;
    s = tpl_strip(s, NULL, true, true);
    if (s.n == 0 || s.n >= sizeof text) return false;
    for (size_t i = 0; i < s.n; i++) text[i] = s.p[i];
    text[s.n] = 0;
    const char *p = text + (text[0] == '-' || text[0] == '+');
    if (strspn(text, "0123456789+-.eE") != s.n) {
        static const char *const words[] = {"inf", "infinity", "nan"};
        bool known = false;
        for (int i = 0; i < 3; i++) {
            size_t k = 0;
            while (words[i][k] && (p[k] | 32) == words[i][k]) k++;
            known = known || (!words[i][k] && !p[k]);
        }
        if (!known) return false;
    }
    *out = strtod(text, &end);
    return end == text + s.n;
}

static bool int_of_double(tpl_run *r, double d, int64_t *out)
{
    if (!(fabs(d) < 9.2e18))
        return tpl_fail(r, RDG_E_UNSUPPORTED, "int: an integer beyond 64 bits is not supported");
    *out = (int64_t)d;
    return true;
}

FILTER(f_int)
{
    tpl_value v[2];
    int64_t i = 0, base = 10;
    double d;
    bool too_big = false;
    if (!tpl_bind(r, "int", args, "default,base", v)) return false;
    if (tpl_given(&v[1]) && !want_int(r, "int", &v[1], &base)) return false;
    if (base < 2 || base > 36)
        return tpl_fail(r, RDG_E_UNSUPPORTED, "int: the base %lld is not supported", (long long)base);
    if (self->kind == TPL_UNDEFINED) return tpl_undefined_error(r, self);
    *out = tpl_given(&v[0]) ? v[0] : tpl_int(0);
    if (tpl_as_int(self, &i)) {
        *out = tpl_int(i);
    } else if (self->kind == TPL_STRING && parse_int(self->u.s, base, &i, &too_big)) {
        if (too_big) return tpl_fail(r, RDG_E_UNSUPPORTED, "int: an integer beyond 64 bits is not supported");
        *out = tpl_int(i);
    } else if (self->kind == TPL_FLOAT || (self->kind == TPL_STRING && parse_float(self->u.s, &d))) {
        if (self->kind == TPL_FLOAT) d = self->u.f;
        if (isinf(d) && self->kind == TPL_FLOAT)
            return tpl_fail(r, RDG_E_MALFORMED, "int of an infinite number");
        if (!isfinite(d)) return true;
        if (!int_of_double(r, d, &i)) return false;
        *out = tpl_int(i);
    }
    return true;
}

FILTER(f_float)
{
    tpl_value v[1];
    double d;
    if (!tpl_bind(r, "float", args, "default", v)) return false;
    if (self->kind == TPL_UNDEFINED) return tpl_undefined_error(r, self);
    *out = tpl_given(&v[0]) ? v[0] : tpl_float(0);
    if (tpl_is_number(self))
        *out = tpl_float(tpl_as_double(self));
    else if (self->kind == TPL_STRING && parse_float(self->u.s, &d))
        *out = tpl_float(d);
    return true;
}

FILTER(f_abs)
{
    if (!no_args(r, "abs", args)) return false;
    if (self->kind == TPL_UNDEFINED) return tpl_undefined_error(r, self);
    if (!tpl_is_number(self)) return tpl_fail(r, RDG_E_MALFORMED, "abs of %s", tpl_type_name(self));
    if (self->kind == TPL_FLOAT) {
        *out = tpl_float(fabs(self->u.f));
        return true;
    }
    return tpl_negate(r, self, tpl_as_double(self) < 0, out);
}

FILTER(f_round)
{
    tpl_value v[2];
    int64_t precision = 0;
    char text[400];
    tpl_str method = TPL_STR("common");
    if (!tpl_bind(r, "round", args, "precision,method", v)) return false;
    if (tpl_given(&v[0]) && !want_int(r, "round", &v[0], &precision)) return false;
    if (tpl_given(&v[1]) && !tpl_str_of(r, &v[1], &method)) return false;
    if (self->kind == TPL_UNDEFINED) return tpl_undefined_error(r, self);
    if (!tpl_is_number(self)) return tpl_fail(r, RDG_E_MALFORMED, "round of %s", tpl_type_name(self));
    if (precision < -18 || precision > 30)
        return tpl_fail(r, RDG_E_UNSUPPORTED, "round: a precision of %lld", (long long)precision);
    double d = tpl_as_double(self), scale = pow(10, (double)precision);
    bool ceils = tpl_str_is(method, "ceil");
    if (ceils || tpl_str_is(method, "floor")) {
        if (!isfinite(d)) return tpl_fail(r, RDG_E_MALFORMED, "round of an infinite number");
        *out = tpl_float((ceils ? ceil(d * scale) : floor(d * scale)) / scale);
        return true;
    }
    if (!tpl_str_is(method, "common"))
        return tpl_fail(r, RDG_E_MALFORMED, "round: the method must be common, ceil or floor");
    if (self->kind != TPL_FLOAT) {
        int64_t i, unit = 1;
        tpl_as_int(self, &i);
        for (int64_t k = precision; k < 0; k++) unit *= 10;
        int64_t rest = i % unit, half = unit / 2, down = i - rest;
        if (rest < 0) rest += unit, down -= unit;
        if (unit > 1 && (rest > half || (rest == half && (down / unit) % 2 != 0))) down += unit;
        *out = tpl_int(unit == 1 ? i : down);
        return true;
    }
    if (precision >= 0) { /* the C library rounds the exact value, ties to even, as Python does */
        if (!isfinite(d)) {
            *out = *self;
            return true;
        }
        snprintf(text, sizeof text, "%.*f", (int)precision, d);
        *out = tpl_float(strtod(text, NULL));
        return true;
    }
    *out = tpl_float(nearbyint(d * scale) / scale);
    return true;
}

/* Lookups in items
 * --------------------------------------------------------------------------------------------- */

/* item.attribute, where attribute is "a.b.0" or a number; none: the item itself. */
static bool follow(tpl_run *r, tpl_value item, const tpl_value *attribute, tpl_value *out)
{
    *out = item;
    if (!tpl_given(attribute) || attribute->kind == TPL_NONE) return true;
    if (attribute->kind != TPL_STRING) return tpl_get_item(r, &item, attribute, out);
    tpl_str path = attribute->u.s;
    for (size_t i = 0; i <= path.n;) {
        size_t end = i;
        bool digits = true;
        while (end < path.n && path.p[end] != '.') end++;
        tpl_value key = tpl_string(tpl_sub(path, i, end));
        for (size_t k = i; k < end; k++) digits = digits && path.p[k] >= '0' && path.p[k] <= '9';
        int64_t number;
        bool too_big;
        if (digits && end > i && end - i < 18 && parse_int(key.u.s, 10, &number, &too_big))
            key = tpl_int(number);
        item = *out;
        if (!tpl_get_item(r, &item, &key, out)) return false;
        i = end + 1;
    }
    return true;
}

/* The key by which an item is sorted or compared: its attribute, in lower case unless case matters. */
static bool sort_key(tpl_run *r, const tpl_value *item, const tpl_value *attribute, bool fold, tpl_value *out)
{
    if (!follow(r, *item, attribute, out)) return false;
    return !fold || out->kind != TPL_STRING || tpl_lower(r, out->u.s, &out->u.s);
}

/* The key of the sort filter: a tuple of one key for each attribute of "a,b". */
static bool sort_tuple(tpl_run *r, const tpl_value *item, const tpl_value *attribute, bool fold,
                       tpl_value *out)
{
    tpl_list *tuple = tpl_list_new(r, 1);
    tpl_value key;
    if (!tuple) return false;
    *out = tpl_list_value(TPL_TUPLE, tuple);
    if (!tpl_given(attribute) || attribute->kind != TPL_STRING)
        return sort_key(r, item, attribute, fold, &key) && tpl_list_add(r, tuple, key);
    tpl_str s = attribute->u.s;
    for (size_t at = 0, end; at <= s.n; at = end + 1) {
        for (end = at; end < s.n && s.p[end] != ',';) end++;
        tpl_value part = tpl_string(tpl_sub(s, at, end));
        if (!sort_key(r, item, &part, fold, &key) || !tpl_list_add(r, tuple, key)) return false;
    }
    return true;
}

typedef bool key_of(tpl_run *r, const tpl_value *item, const tpl_value *attribute, bool fold, tpl_value *out);

static bool sort_keys(tpl_run *r, const tpl_list *items, const tpl_value *attribute, bool fold,
                      key_of *key_of_item, tpl_list **out)
{
    if (!(*out = tpl_list_new(r, items->n))) return false;
    for (int64_t i = 0; i < items->n; i++) {
        tpl_value key;
        if (!key_of_item(r, &items->at[i], attribute, fold, &key) || !tpl_list_add(r, *out, key))
            return false;
    }
    return true;
}

/* Stable merge sort of places by keys. */
static bool merge_sort(tpl_run *r, const tpl_value *keys, int64_t *places, int64_t *scratch, int64_t n,
                       bool reverse)
{
    if (n < 2) return true;
    int64_t half = n / 2, i = 0, j = half, k = 0;
    if (!merge_sort(r, keys, places, scratch, half, reverse) ||
        !merge_sort(r, keys, places + half, scratch, n - half, reverse))
        return false;
    while (i < half && j < n) {
        int order;
        if (!tpl_less(r, &keys[places[j]], &keys[places[i]], "<", &order)) return false;
        bool second = reverse ? order == 1 : order < 0;
        scratch[k++] = second ? places[j++] : places[i++];
    }
    while (i < half) scratch[k++] = places[i++];
    while (j < n) scratch[k++] = places[j++];
    memcpy(places, scratch, (size_t)n * sizeof *places);
    return true;
}

static bool sort_items(tpl_run *r, const tpl_list *items, const tpl_list *keys, bool reverse, tpl_list **out)
{
    int64_t n = items->n, *places = tpl_alloc(r, (size_t)n, sizeof *places),
            *scratch = tpl_alloc(r, (size_t)n, sizeof *scratch);
    if (!places || !scratch || !(*out = tpl_list_new(r, n))) return false;
    for (int64_t i = 0; i < n; i++) places[i] = i;
    if (!merge_sort(r, keys->at, places, scratch, n, reverse)) return false;
    for (int64_t i = 0; i < n; i++)
        if (!tpl_list_add(r, *out, items->at[places[i]])) return false;
    return true;
}

FILTER(f_sort)
{
    tpl_value v[3];
    tpl_list *items, *keys, *sorted;
    if (!tpl_bind(r, "sort", args, "reverse,case_sensitive,attribute", v) || !tpl_items(r, self, &items))
        return false;
    if (!sort_keys(r, items, &v[2], !flag_of(&v[1]), sort_tuple, &keys) ||
        !sort_items(r, items, keys, flag_of(&v[0]), &sorted))
        return false;
    *out = tpl_list_value(TPL_LIST, sorted);
    return true;
}

FILTER(f_dictsort)
{
    tpl_value v[3], items_view;
    tpl_list *items, *keys, *sorted;
    tpl_str by = TPL_STR("key");
    if (!tpl_bind(r, "dictsort", args, "case_sensitive,by,reverse", v)) return false;
    if (self->kind == TPL_UNDEFINED) return tpl_undefined_error(r, self);
    if (self->kind != TPL_DICT) return tpl_fail(r, RDG_E_MALFORMED, "dictsort of %s", tpl_type_name(self));
    if (tpl_given(&v[1]) && !tpl_str_of(r, &v[1], &by)) return false;
    if (!tpl_str_is(by, "key") && !tpl_str_is(by, "value"))
        return tpl_fail(r, RDG_E_MALFORMED, "dictsort sorts by key or value");
    items_view = (tpl_value){.kind = TPL_VIEW, .label = "dict_items", .u.dict = self->u.dict};
    tpl_value place = tpl_int(tpl_str_is(by, "value"));
    if (!tpl_items(r, &items_view, &items) ||
        !sort_keys(r, items, &place, !flag_of(&v[0]), sort_key, &keys) ||
        !sort_items(r, items, keys, flag_of(&v[2]), &sorted))
        return false;
    *out = tpl_list_value(TPL_LIST, sorted);
    return true;
}

FILTER(f_unique)
{
    tpl_value v[2];
    tpl_list *items, *keys, *kept = tpl_list_new(r, 4);
    tpl_dict *seen = tpl_dict_new(r, 4);
    if (!kept || !seen || !tpl_bind(r, "unique", args, "case_sensitive,attribute", v) ||
        !tpl_items(r, self, &items) || !sort_keys(r, items, &v[1], !flag_of(&v[0]), sort_key, &keys))
        return false;
    for (int64_t i = 0; i < items->n; i++) {
        tpl_value *there;
        if (!tpl_hashable(r, &keys->at[i]) || !tpl_dict_find(r, seen, &keys->at[i], &there)) return false;
        if (there) continue;
        if (!tpl_dict_set(r, seen, keys->at[i], tpl_none()) || !tpl_list_add(r, kept, items->at[i]))
            return false;
    }
    return tpl_iterator_value(r, kept, "generator", out);
}

static bool extreme(tpl_run *r, const char *what, const tpl_value *self, const tpl_args *args, int sign,
                    tpl_value *out)
{
    tpl_value v[2];
    tpl_list *items, *keys;
    int64_t best = 0;
    if (!tpl_bind(r, what, args, "case_sensitive,attribute", v) || !tpl_items(r, self, &items)) return false;
    if (items->n == 0) {
        *out = tpl_undefined_hint("the sequence is empty and has no smallest or largest item");
        return true;
    }
    if (!sort_keys(r, items, &v[1], !flag_of(&v[0]), sort_key, &keys)) return false;
    for (int64_t i = 1; i < items->n; i++) {
        int order;
        if (!tpl_less(r, &keys->at[i], &keys->at[best], sign < 0 ? "<" : ">", &order)) return false;
        if (order == sign) best = i;
    }
    *out = items->at[best];
    return true;
}
FILTER(f_min)
{
    return extreme(r, "min", self, args, -1, out);
}
FILTER(f_max)
{
    return extreme(r, "max", self, args, 1, out);
}

FILTER(f_sum)
{
    tpl_value v[2], total, next;
    tpl_list *items;
    if (!tpl_bind(r, "sum", args, "attribute,start", v) || !tpl_items(r, self, &items)) return false;
    total = tpl_given(&v[1]) ? v[1] : tpl_int(0);
    if (total.kind == TPL_STRING) return tpl_fail(r, RDG_E_MALFORMED, "sum does not join strings");
    for (int64_t i = 0; i < items->n; i++) {
        if (!follow(r, items->at[i], &v[0], &next)) return false;
        tpl_value so_far = total;
        if (!tpl_binary(r, TOK_ADD, &so_far, &next, &total)) return false;
    }
    *out = total;
    return true;
}

FILTER(f_groupby)
{
    tpl_value v[3];
    tpl_list *items, *keys, *sorted, *groups = tpl_list_new(r, 4), *group = NULL;
    if (!groups || !tpl_bind(r, "groupby", args, "attribute!,default,case_sensitive", v) ||
        !tpl_items(r, self, &items))
        return false;
    bool fold = !flag_of(&v[2]);
    if (!sort_keys(r, items, &v[0], fold, sort_key, &keys)) return false;
    for (int64_t i = 0; i < keys->n; i++)
        if (keys->at[i].kind == TPL_UNDEFINED && tpl_given(&v[1])) keys->at[i] = v[1];
    tpl_list *sorted_keys;
    if (!sort_items(r, items, keys, false, &sorted) || !sort_items(r, keys, keys, false, &sorted_keys))
        return false;
    for (int64_t i = 0; i < sorted->n; i++) {
        bool same = false;
        if (i && !tpl_equal(r, &sorted_keys->at[i], &sorted_keys->at[i - 1], &same)) return false;
        if (!same) {
            tpl_value name, pair;
            if (!(group = tpl_list_new(r, 4)) || !follow(r, sorted->at[i], &v[0], &name)) return false;
            if (name.kind == TPL_UNDEFINED && tpl_given(&v[1])) name = v[1];
            if (!tpl_pair(r, name, tpl_list_value(TPL_LIST, group), &pair)) return false;
            pair.flag = 1;
            if (!tpl_list_add(r, groups, pair)) return false;
        }
        if (!tpl_list_add(r, group, sorted->at[i])) return false;
    }
    *out = tpl_list_value(TPL_LIST, groups);
    return true;
}

/* Sequences
 * ---------------------------------------------------------------------------------------------------- */

FILTER(f_length)
{
    int64_t n;
    if (!no_args(r, "length", args) || !tpl_length(r, self, &n)) return false;
    *out = tpl_int(n);
    return true;
}

static bool end_item(tpl_run *r, const char *what, const tpl_value *self, const tpl_args *args, bool last,
                     tpl_value *out)
{
    tpl_list *items;
    if (!no_args(r, what, args)) return false;
    if (last && self->kind == TPL_ITERATOR)
        return tpl_fail(r, RDG_E_MALFORMED, "last of %s", tpl_type_name(self));
    if (self->kind == TPL_ITERATOR) { /* takes one item, the others stay */
        tpl_iterator *it = self->u.iterator;
        *out = it->next < it->list->n ? it->list->at[it->next++]
                                      : tpl_undefined_hint("the sequence is empty and has no first item");
        return true;
    }
    if (!tpl_items(r, self, &items)) return false;
    if (items->n)
        *out = items->at[last ? items->n - 1 : 0];
    else
        *out = tpl_undefined_hint(last ? "the sequence is empty and has no last item"
                                       : "the sequence is empty and has no first item");
    return true;
}
FILTER(f_first)
{
    return end_item(r, "first", self, args, false, out);
}
FILTER(f_last)
{
    return end_item(r, "last", self, args, true, out);
}

FILTER(f_list)
{
    tpl_list *items;
    if (!no_args(r, "list", args) || !tpl_items(r, self, &items)) return false;
    *out = tpl_list_value(TPL_LIST, items);
    return true;
}

FILTER(f_items)
{
    tpl_list *items = tpl_list_new(r, 0);
    tpl_value v = {.kind = TPL_VIEW, .label = "dict_items"};
    if (!no_args(r, "items", args) || !items) return false;
    if (self->kind == TPL_DICT) {
        v.u.dict = self->u.dict;
        if (!tpl_items(r, &v, &items)) return false;
    } else if (self->kind != TPL_UNDEFINED) {
        return tpl_fail(r, RDG_E_MALFORMED, "items of %s, not of a dict", tpl_type_name(self));
    }
    return tpl_iterator_value(r, items, "generator", out);
}

FILTER(f_reverse)
{
    tpl_list *items, *l;
    tpl_value step = tpl_int(-1);
    if (!no_args(r, "reverse", args)) return false;
    if (self->kind == TPL_STRING) return tpl_get_slice(r, self, NULL, NULL, &step, out);
    if (!tpl_items(r, self, &items) || !(l = tpl_list_new(r, items->n))) return false;
    for (int64_t i = items->n - 1; i >= 0; i--)
        if (!tpl_list_add(r, l, items->at[i])) return false;
    return tpl_iterator_value(r, l, "list_reverseiterator", out);
}

FILTER(f_join)
{
    tpl_value v[2], item;
    tpl_list *items, *l;
    tpl_str separator = TPL_STR(""), s;
    if (!tpl_bind(r, "join", args, "d,attribute", v) || !tpl_items(r, self, &items) ||
        !(l = tpl_list_new(r, items->n)))
        return false;
    if (tpl_given(&v[0]) && !tpl_str_of(r, &v[0], &separator)) return false;
    for (int64_t i = 0; i < items->n; i++)
        if (!follow(r, items->at[i], &v[1], &item) || !tpl_list_add(r, l, item)) return false;
    return tpl_join(r, separator, l, &s) && give(s, 0, out);
}

FILTER(f_default)
{
    tpl_value v[2];
    if (!tpl_bind(r, "default", args, "default_value,boolean", v)) return false;
    bool takes = self->kind == TPL_UNDEFINED || (flag_of(&v[1]) && !tpl_truth(self));
    *out = !takes ? *self : tpl_given(&v[0]) ? v[0] : tpl_string_z("");
    return true;
}

FILTER(f_attr)
{
    tpl_value v[1], found;
    if (!tpl_bind(r, "attr", args, "name!", v)) return false;
    if (v[0].kind != TPL_STRING)
        return tpl_fail(r, RDG_E_MALFORMED, "attr: the name is %s", tpl_type_name(&v[0]));
    if (!tpl_get_attr(r, self, v[0].u.s, &found)) return false;
    tpl_value *entry = NULL; /* a dict's entries are items, not attributes */
    if (self->kind == TPL_DICT && found.kind != TPL_METHOD &&
        !tpl_dict_find_str(r, self->u.dict, v[0].u.s, &entry))
        return false;
    if (entry)
        found = (tpl_value){
            .kind = TPL_UNDEFINED, .flag = TPL_WHY_ATTRIBUTE, .label = tpl_type_name(self), .u.s = v[0].u.s};
    *out = found;
    return true;
}

/* Lists of n items each; the last one filled up. */
FILTER(f_batch)
{
    tpl_value v[2];
    tpl_list *items, *batches = tpl_list_new(r, 4), *batch = NULL;
    int64_t size;
    if (!batches || !tpl_bind(r, "batch", args, "linecount!,fill_with", v) ||
        !want_int(r, "batch", &v[0], &size) || !tpl_items(r, self, &items))
        return false;
    for (int64_t i = 0; i < items->n; i++) {
        if (!batch || batch->n == size) {
            if (!(batch = tpl_list_new(r, 4)) || !tpl_list_add(r, batches, tpl_list_value(TPL_LIST, batch)))
                return false;
        }
        if (!tpl_list_add(r, batch, items->at[i])) return false;
    }
    while (batch && tpl_given(&v[1]) && v[1].kind != TPL_NONE && batch->n < size)
        if (!tpl_charge(r, 0) || !tpl_list_add(r, batch, v[1])) return false;
    return tpl_iterator_value(r, batches, "generator", out);
}

/* n lists of about the same length */
FILTER(f_slice)
{
    tpl_value v[2];
    tpl_list *items, *slices = tpl_list_new(r, 4);
    int64_t n, at = 0;
    if (!slices || !tpl_bind(r, "slice", args, "slices!,fill_with", v) || !want_int(r, "slice", &v[0], &n) ||
        !tpl_items(r, self, &items))
        return false;
    if (n == 0) return tpl_fail(r, RDG_E_MALFORMED, "slice into zero parts");
    for (int64_t i = 0; i < n; i++) {
        int64_t size = items->n / n + (i < items->n % n);
        tpl_list *l = tpl_charge(r, 0) ? tpl_list_new(r, size) : NULL;
        if (!l) return false;
        for (int64_t k = 0; k < size; k++)
            if (!tpl_list_add(r, l, items->at[at++])) return false;
        if (tpl_given(&v[1]) && v[1].kind != TPL_NONE && i >= items->n % n && !tpl_list_add(r, l, v[1]))
            return false;
        if (!tpl_list_add(r, slices, tpl_list_value(TPL_LIST, l))) return false;
    }
    return tpl_iterator_value(r, slices, "generator", out);
}

/* Mapping and selecting
 * ----------------------------------------------------------------------------------------- */

static bool map_attribute(tpl_run *r, const tpl_list *items, const tpl_args *args, tpl_list *l)
{
    tpl_value v[2], item;
    if (!tpl_bind(r, "map", args, "attribute,default", v)) return false;
    for (int64_t i = 0; i < items->n; i++) {
        if (!follow(r, items->at[i], &v[0], &item)) return false;
        if (item.kind == TPL_UNDEFINED && tpl_given(&v[1]) && v[1].kind != TPL_NONE) item = v[1];
        if (!tpl_list_add(r, l, item)) return false;
    }
    return true;
}

FILTER(f_map)
{
    tpl_list *items, *l = tpl_list_new(r, 4);
    if (!l) return false;
    if (!tpl_truth(self)) return tpl_iterator_value(r, l, "generator", out);
    if (!tpl_items(r, self, &items)) return false;
    if (args->n == 0) {
        if (args->n_named == 0 ||
            (!tpl_str_is(args->names[0], "attribute") && !tpl_str_is(args->names[0], "default")))
            return tpl_fail(r, RDG_E_MALFORMED, "map needs a filter or an attribute");
        return map_attribute(r, items, args, l) && tpl_iterator_value(r, l, "generator", out);
    }
    tpl_args rest = {args->at + 1, args->n - 1, args->names, args->named, args->n_named};
    const tpl_function *f =
        args->at[0].kind == TPL_STRING ? tpl_function_find(tpl_filters, args->at[0].u.s) : NULL;
    for (int64_t i = 0; i < items->n; i++) {
        tpl_value v;
        if (!f) return tpl_fail(r, RDG_E_UNSUPPORTED, "map: there is no such filter");
        if (!tpl_enter(r) || !tpl_call_filter(r, f, &items->at[i], &rest, &v) || !tpl_list_add(r, l, v))
            return false;
        tpl_leave(r);
    }
    return tpl_iterator_value(r, l, "generator", out);
}

static bool choose(tpl_run *r, const char *what, const tpl_value *self, const tpl_args *args,
                   bool by_attribute, bool keep, tpl_value *out)
{
    tpl_list *items, *l = tpl_list_new(r, 4);
    int used = by_attribute;
    if (!l) return false;
    if (!tpl_truth(self)) return tpl_iterator_value(r, l, "generator", out);
    if (args->n < used) return tpl_fail(r, RDG_E_MALFORMED, "%s needs the name of an attribute", what);
    if (!tpl_items(r, self, &items)) return false;
    const tpl_test *t =
        args->n > used && args->at[used].kind == TPL_STRING ? tpl_test_find(args->at[used].u.s) : NULL;
    bool has_test = args->n > used;
    tpl_args rest = {args->at + used + 1, args->n - used - 1, args->names, args->named, args->n_named};
    for (int64_t i = 0; i < items->n; i++) {
        tpl_value v = items->at[i];
        bool holds;
        if (has_test && !t) return tpl_fail(r, RDG_E_UNSUPPORTED, "%s: there is no such test", what);
        if (by_attribute && !follow(r, items->at[i], &args->at[0], &v)) return false;
        if (!t)
            holds = tpl_truth(&v);
        else if (!t->call(r, &v, &rest, &holds))
            return false;
        if (holds == keep && !tpl_list_add(r, l, items->at[i])) return false;
    }
    return tpl_iterator_value(r, l, "generator", out);
}
FILTER(f_select)
{
    return choose(r, "select", self, args, false, true, out);
}
FILTER(f_reject)
{
    return choose(r, "reject", self, args, false, false, out);
}
FILTER(f_selectattr)
{
    return choose(r, "selectattr", self, args, true, true, out);
}
FILTER(f_rejectattr)
{
    return choose(r, "rejectattr", self, args, true, false, out);
}

const tpl_function tpl_filters[] = {
    {"abs", f_abs},
    {"attr", f_attr},
    {"batch", f_batch},
    {"capitalize", f_capitalize},
    {"center", f_center},
    {"count", f_length},
    {"d", f_default},
    {"default", f_default},
    {"dictsort", f_dictsort},
    {"e", f_escape},
    {"escape", f_escape},
    {"first", f_first},
    {"float", f_float},
    {"forceescape", f_forceescape},
    {"format", f_format},
    {"groupby", f_groupby},
    {"indent", f_indent},
    {"int", f_int},
    {"items", f_items},
    {"join", f_join},
    {"last", f_last},
    {"length", f_length},
    {"list", f_list},
    {"lower", f_lower},
    {"map", f_map},
    {"max", f_max},
    {"min", f_min},
    {"reject", f_reject},
    {"rejectattr", f_rejectattr},
    {"replace", f_replace},
    {"reverse", f_reverse},
    {"round", f_round},
    {"safe", f_safe},
    {"select", f_select},
    {"selectattr", f_selectattr},
    {"slice", f_slice},
    {"sort", f_sort},
    {"string", f_string},
    {"sum", f_sum},
    {"title", f_title},
    {"tojson", tpl_to_json},
    {"trim", f_trim},
    {"truncate", f_truncate},
    {"unique", f_unique},
    {"upper", f_upper},
    {"urlencode", f_urlencode},
    {"wordcount", f_wordcount},
    {"filesizeformat", NULL},
    {"pprint", NULL},
    {"random", NULL},
    {"striptags", NULL},
    {"urlize", NULL},
    {"wordwrap", NULL},
    {"xmlattr", NULL},
    {NULL, NULL},
};
