/* Filters: what stands behind "|". Those that Jinja evaluates lazily give an iterator, as there, but do their
 * work at once: a template sees the difference only in whether an unused result may hide an error. */
#include "text/template_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILTER(name) static bool name(tpl_run *r, const tpl_value *self, const tpl_args *args, tpl_value *out)

/* str(self), and whether it is escaped text */
static bool text_of(tpl_run *r, const tpl_value *self, tpl_str *s, unsigned *flag)
{
    *flag = self->kind == TPL_STRING ? self->flag : 0;
    return tpl_str_of(r, self, s);
}

bool tpl_call_filter(tpl_run *r, const tpl_function *f, const tpl_value *self, const tpl_args *args,
                     tpl_value *out)
{
    if (!f->call) return tpl_fail(r, RDG_E_UNSUPPORTED, "the filter '%s' is not supported", f->name);
    return tpl_charge(r, 0) && f->call(r, self, args, out);
}

/* Text ------------------------------------------------------------------------------------------------ */

static bool cased(tpl_run *r, const char *what, const tpl_value *self, const tpl_args *args,
                  bool (*change)(tpl_run *r, tpl_str s, tpl_str *out), tpl_value *out)
{
    tpl_str s;
    unsigned flag;
    return tpl_no_args(r, what, args) && text_of(r, self, &s, &flag) && change(r, s, &s) &&
           tpl_give(s, flag, out);
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
    if (!tpl_no_args(r, "title", args) || !text_of(r, self, &s, &flag)) return false;
    for (size_t i = 0; i < s.n;) {
        size_t start = i;
        bool gap = strchr("-({[<", s.p[i]) || tpl_is_space(tpl_char_at(s.p + i));
        while (i < s.n && gap == (strchr("-({[<", s.p[i]) || tpl_is_space(tpl_char_at(s.p + i))))
            i += tpl_char_bytes(s.p + i);
        if (!tpl_capitalize(r, tpl_sub(s, start, i), &word) || !tpl_put(r, &b, word)) return false;
    }
    return tpl_give(tpl_buffer_str(&b), flag, out);
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
    return tpl_give(tpl_strip(s, some ? &chars : NULL, true, true), flag, out);
}

FILTER(f_replace)
{
    tpl_value v[3];
    tpl_str s, from, to;
    int64_t count = -1;
    if (!tpl_bind(r, "replace", args, "old!,new!,count", v)) return false;
    if (tpl_given(&v[2]) && v[2].kind != TPL_NONE && !tpl_want_int(r, "replace", &v[2], &count)) return false;
    return tpl_str_of(r, self, &s) && tpl_str_of(r, &v[0], &from) && tpl_str_of(r, &v[1], &to) &&
           tpl_replace(r, s, from, to, count, &s) && tpl_give(s, 0, out);
}

FILTER(f_string)
{
    tpl_str s;
    unsigned flag;
    return tpl_no_args(r, "string", args) && text_of(r, self, &s, &flag) && tpl_give(s, flag, out);
}
FILTER(f_safe)
{
    tpl_str s;
    return tpl_no_args(r, "safe", args) && tpl_str_of(r, self, &s) && tpl_give(s, 1, out);
}
FILTER(f_escape)
{
    return tpl_no_args(r, "escape", args) && tpl_escape(r, self, out);
}
FILTER(f_forceescape)
{
    tpl_str s;
    tpl_value plain;
    return tpl_no_args(r, "forceescape", args) && tpl_str_of(r, self, &s) && tpl_give(s, 0, &plain) &&
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
    } else if (tpl_given(&v[0]) && !tpl_want_int(r, "indent", &v[0], &width)) {
        return false;
    }
    bool first = tpl_switched_on(&v[1]), blank = tpl_switched_on(&v[2]);
    /* A newline at the end opens one more line, which is empty. */
    if (!tpl_concat(r, s, TPL_STR("\n"), &s) || !tpl_split_lines(r, s, false, &lines)) return false;
    for (int64_t i = 0; i < lines->n; i++) {
        tpl_str line = lines->at[i].u.s;
        bool indents = i == 0 ? first : blank || line.n > 0;
        if ((i && !tpl_put_z(r, &b, "\n")) || (indents && !tpl_put_fill(r, &b, unit, width)) ||
            !tpl_put(r, &b, line))
            return false;
    }
    return tpl_give(tpl_buffer_str(&b), self->flag, out);
}

FILTER(f_center)
{
    tpl_value v[1];
    tpl_buffer b = {0};
    tpl_str s;
    unsigned flag;
    int64_t width = 80;
    if (!tpl_bind(r, "center", args, "width", v) || !text_of(r, self, &s, &flag)) return false;
    if (tpl_given(&v[0]) && !tpl_want_int(r, "center", &v[0], &width)) return false;
    int64_t have = tpl_chars(s), missing = width > have ? width - have : 0,
            left = missing / 2 + (missing & width & 1);
    return tpl_put_fill(r, &b, TPL_STR(" "), left) && tpl_put(r, &b, s) &&
           tpl_put_fill(r, &b, TPL_STR(" "), missing - left) && tpl_give(tpl_buffer_str(&b), flag, out);
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
    if (tpl_given(&v[0]) && !tpl_want_int(r, "truncate", &v[0], &length)) return false;
    if (tpl_given(&v[2]) && !tpl_str_of(r, &v[2], &end)) return false;
    if (tpl_given(&v[3]) && v[3].kind != TPL_NONE && !tpl_want_int(r, "truncate", &v[3], &leeway))
        return false;
    if (length < tpl_chars(end) || leeway < 0)
        return tpl_fail(r, RDG_E_MALFORMED, "truncate: the length or leeway is too small");
    s = self->u.s;
    *out = *self;
    if (tpl_chars(s) - leeway <= length) return true;
    s = tpl_sub(s, 0, tpl_char_offset(s, length - tpl_chars(end)));
    if (!tpl_switched_on(&v[1])) { /* back to the last space */
        size_t n = s.n;
        while (n > 0 && s.p[n - 1] != ' ') n--;
        if (n > 0) s = tpl_sub(s, 0, n - 1);
    }
    return tpl_put(r, &b, s) && tpl_put(r, &b, end) && tpl_give(tpl_buffer_str(&b), self->flag, out);
}

FILTER(f_wordcount)
{
    tpl_str s;
    int64_t n = 0;
    bool in_word = false;
    if (!tpl_no_args(r, "wordcount", args) || !tpl_str_of(r, self, &s) || !tpl_charge(r, s.n)) return false;
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
    if (!tpl_no_args(r, "urlencode", args)) return false;
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
    return tpl_give(tpl_buffer_str(&b), 0, out);
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

/* Numbers --------------------------------------------------------------------------------------------- */

/* Python's int(text, base); false: it is none. */
bool tpl_parse_int(tpl_str s, int64_t base, int64_t *out, bool *too_big)
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
    if (tpl_given(&v[1]) && !tpl_want_int(r, "int", &v[1], &base)) return false;
    if (base < 2 || base > 36)
        return tpl_fail(r, RDG_E_UNSUPPORTED, "int: the base %lld is not supported", (long long)base);
    if (self->kind == TPL_UNDEFINED) return tpl_undefined_error(r, self);
    *out = tpl_given(&v[0]) ? v[0] : tpl_int(0);
    if (tpl_as_int(self, &i)) {
        *out = tpl_int(i);
    } else if (self->kind == TPL_STRING && tpl_parse_int(self->u.s, base, &i, &too_big)) {
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
    if (!tpl_no_args(r, "abs", args)) return false;
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
    if (tpl_given(&v[0]) && !tpl_want_int(r, "round", &v[0], &precision)) return false;
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

/* The table ------------------------------------------------------------------------------------------- */

const tpl_function tpl_filters[] = {
    {"abs", f_abs},
    {"attr", tpl_f_attr},
    {"batch", tpl_f_batch},
    {"capitalize", f_capitalize},
    {"center", f_center},
    {"count", tpl_f_length},
    {"d", tpl_f_default},
    {"default", tpl_f_default},
    {"dictsort", tpl_f_dictsort},
    {"e", f_escape},
    {"escape", f_escape},
    {"first", tpl_f_first},
    {"float", f_float},
    {"forceescape", f_forceescape},
    {"format", f_format},
    {"groupby", tpl_f_groupby},
    {"indent", f_indent},
    {"int", f_int},
    {"items", tpl_f_items},
    {"join", tpl_f_join},
    {"last", tpl_f_last},
    {"length", tpl_f_length},
    {"list", tpl_f_list},
    {"lower", f_lower},
    {"map", tpl_f_map},
    {"max", tpl_f_max},
    {"min", tpl_f_min},
    {"reject", tpl_f_reject},
    {"rejectattr", tpl_f_rejectattr},
    {"replace", f_replace},
    {"reverse", tpl_f_reverse},
    {"round", f_round},
    {"safe", f_safe},
    {"select", tpl_f_select},
    {"selectattr", tpl_f_selectattr},
    {"slice", tpl_f_slice},
    {"sort", tpl_f_sort},
    {"string", f_string},
    {"sum", tpl_f_sum},
    {"title", f_title},
    {"tojson", tpl_to_json},
    {"trim", f_trim},
    {"truncate", f_truncate},
    {"unique", tpl_f_unique},
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
