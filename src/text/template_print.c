/* Values to text: Python's str() and repr(), json.dumps(), and % and format() formatting. */
#include "text/template_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { MAX_WIDTH = 10000 };

/* str and repr ---------------------------------------------------------------------------------------- */

/* The shortest decimal that reads back as f, in Python's layout: exponent form below 1e-4 and from 1e16 on.
 */
bool tpl_format_double(double f, char out[40])
{
    char text[40], digits[24];
    int precision = 0, n = 0;
    if (!isfinite(f)) {
        snprintf(out, 40, "%s", isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return false;
    }
    for (; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, f);
        if (strtod(text, NULL) == f) break;
    }
    int exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    for (const char *p = text; *p != 'e'; p++)
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    char *o = out;
    if (signbit(f)) *o++ = '-';
    if (exponent >= -4 && exponent < 16) {
        if (exponent < 0) {
            o += snprintf(o, 8, "0.%.*s", -exponent - 1, "0000");
            memcpy(o, digits, (size_t)n);
            o += n;
        } else {
            for (int i = 0; i <= exponent; i++) *o++ = i < n ? digits[i] : '0';
            *o++ = '.';
            for (int i = exponent + 1; i < n; i++) *o++ = digits[i];
            if (n <= exponent + 1) *o++ = '0';
        }
        *o = 0;
    } else {
        *o++ = digits[0];
        if (n > 1) {
            *o++ = '.';
            memcpy(o, digits + 1, (size_t)n - 1);
            o += n - 1;
        }
        snprintf(o, 14, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    }
    return true;
}

static bool put_int(tpl_run *r, tpl_buffer *b, int64_t i)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)i);
    return tpl_put_z(r, b, text);
}

static bool is_printable(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    case UTF8PROC_CATEGORY_ZS: return c == ' ';
    default: return true;
    }
}

static bool repr_string(tpl_run *r, tpl_buffer *b, tpl_str s)
{
    bool single = s.n && memchr(s.p, '\'', s.n), two = s.n && memchr(s.p, '"', s.n);
    char quote = single && !two ? '"' : '\'', text[12];
    if (!tpl_charge(r, s.n) || !tpl_put_char(r, b, (uint32_t)quote, false)) return false;
    for (size_t i = 0, k; i < s.n; i += k) {
        uint32_t c = tpl_char_at(s.p + i);
        k = tpl_char_bytes(s.p + i);
        text[0] = 0;
        if (c == (uint32_t)quote || c == '\\')
            snprintf(text, sizeof text, "\\%c", (char)c);
        else if (c == '\n' || c == '\r' || c == '\t')
            snprintf(text, sizeof text, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (!is_printable(c))
            snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        if (text[0] ? !tpl_put_z(r, b, text) : !tpl_put(r, b, tpl_sub(s, i, i + k))) return false;
    }
    return tpl_put_char(r, b, (uint32_t)quote, false);
}

static bool repr_list(tpl_run *r, tpl_buffer *b, const tpl_list *l, const char *open, const char *close)
{
    if (!tpl_put_z(r, b, open)) return false;
    for (int64_t i = 0; i < l->n; i++)
        if ((i && !tpl_put_z(r, b, ", ")) || !tpl_repr(r, b, &l->at[i])) return false;
    return tpl_put_z(r, b, close);
}

static bool repr_dict(tpl_run *r, tpl_buffer *b, const tpl_dict *d)
{
    if (!tpl_put_z(r, b, "{")) return false;
    for (int64_t i = 0; i < d->n; i++)
        if ((i && !tpl_put_z(r, b, ", ")) || !tpl_repr(r, b, &d->keys[i]) || !tpl_put_z(r, b, ": ") ||
            !tpl_repr(r, b, &d->values[i]))
            return false;
    return tpl_put_z(r, b, "}");
}

static bool repr_view(tpl_run *r, tpl_buffer *b, const tpl_value *v)
{
    tpl_list *items;
    return tpl_items(r, v, &items) && tpl_put_z(r, b, v->label) && repr_list(r, b, items, "([", "])");
}

/* The attributes of a namespace, in the order of their creation. */
static bool repr_namespace(tpl_run *r, tpl_buffer *b, const tpl_value *v)
{
    tpl_list *names = tpl_list_new(r, 4);
    if (!names || !tpl_put_z(r, b, "<Namespace {")) return false;
    for (const tpl_binding *k = v->u.ns->first; k; k = k->next)
        if (!tpl_list_add(r, names, tpl_string(k->name))) return false;
    for (int64_t i = names->n - 1; i >= 0; i--) {
        const tpl_value *value = tpl_scope_get(v->u.ns, names->at[i].u.s);
        if (!tpl_repr(r, b, &names->at[i]) || !tpl_put_z(r, b, ": ") || !tpl_repr(r, b, value) ||
            (i && !tpl_put_z(r, b, ", ")))
            return false;
    }
    return tpl_put_z(r, b, "}>");
}

static bool repr_range(tpl_run *r, tpl_buffer *b, const tpl_value *v)
{
    return tpl_put_z(r, b, "range(") && put_int(r, b, v->u.range.start) && tpl_put_z(r, b, ", ") &&
           put_int(r, b, v->u.range.stop) &&
           (v->u.range.step == 1 || (tpl_put_z(r, b, ", ") && put_int(r, b, v->u.range.step))) &&
           tpl_put_z(r, b, ")");
}

static bool repr_any(tpl_run *r, tpl_buffer *b, const tpl_value *v)
{
    char text[40];
    switch (v->kind) {
    case TPL_UNDEFINED: return tpl_put_z(r, b, "Undefined");
    case TPL_NONE: return tpl_put_z(r, b, "None");
    case TPL_BOOL: return tpl_put_z(r, b, v->u.b ? "True" : "False");
    case TPL_INT: return put_int(r, b, v->u.i);
    case TPL_FLOAT: tpl_format_double(v->u.f, text); return tpl_put_z(r, b, text);
    case TPL_STRING:
        if (!v->flag) return repr_string(r, b, v->u.s);
        return tpl_put_z(r, b, "Markup(") && repr_string(r, b, v->u.s) && tpl_put_z(r, b, ")");
    case TPL_LIST: return repr_list(r, b, v->u.list, "[", "]");
    case TPL_TUPLE: return repr_list(r, b, v->u.list, "(", v->u.list->n == 1 ? ",)" : ")");
    case TPL_DICT: return repr_dict(r, b, v->u.dict);
    case TPL_VIEW: return repr_view(r, b, v);
    case TPL_RANGE: return repr_range(r, b, v);
    case TPL_NAMESPACE: return repr_namespace(r, b, v);
    case TPL_MACRO:
        return tpl_put_z(r, b, "<Macro ") && repr_string(r, b, v->u.macro->node->text) &&
               tpl_put_z(r, b, ">");
    case TPL_LOOP:
        return tpl_put_z(r, b, "<LoopContext ") && put_int(r, b, v->u.loop->index0 + 1) &&
               tpl_put_z(r, b, "/") && put_int(r, b, v->u.loop->items->n) && tpl_put_z(r, b, ">");
    case TPL_FUNCTION:
    case TPL_METHOD:
        return tpl_put_z(r, b, "<function ") &&
               tpl_put_z(r, b, v->kind == TPL_FUNCTION ? v->u.function->name : v->u.method->function->name) &&
               tpl_put_z(r, b, ">");
    case TPL_ITERATOR:
        return tpl_put_z(r, b, "<") && tpl_put_z(r, b, v->u.iterator->label) && tpl_put_z(r, b, " object>");
    case TPL_CYCLER: return tpl_put_z(r, b, "<Cycler>");
    case TPL_JOINER: return tpl_put_z(r, b, "<Joiner>");
    }
    return false;
}

bool tpl_repr(tpl_run *r, tpl_buffer *b, const tpl_value *v)
{
    if (!tpl_enter(r)) return false;
    bool ok = repr_any(r, b, v);
    tpl_leave(r);
    return ok;
}

bool tpl_str_of(tpl_run *r, const tpl_value *v, tpl_str *out)
{
    tpl_buffer b = {0};
    if (v->kind == TPL_STRING) {
        *out = v->u.s;
    } else if (v->kind == TPL_UNDEFINED) {
        *out = TPL_STR("");
    } else {
        if (!tpl_charge(r, 0) || !tpl_repr(r, &b, v)) return false;
        *out = tpl_buffer_str(&b);
    }
    return true;
}

/* JSON ------------------------------------------------------------------------------------------------ */

typedef struct json_style {
    bool ascii, sort_keys;
    tpl_str indent;    /* of one level; p NULL: everything on one line */
    tpl_str item, key; /* separators */
} json_style;

static bool put_json_string(tpl_run *r, tpl_buffer *b, tpl_str s, const json_style *style)
{
    static const char plain[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    if (!tpl_charge(r, s.n) || !tpl_put_z(r, b, "\"")) return false;
    for (size_t i = 0, k; i < s.n; i += k) {
        uint32_t c = tpl_char_at(s.p + i);
        char text[16] = "";
        k = tpl_char_bytes(s.p + i);
        const char *letter = c && c < 0x80 ? strchr(plain, (int)c) : NULL;
        if (letter)
            snprintf(text, sizeof text, "\\%c", letters[letter - plain]);
        else if (c < 0x20 || (style->ascii && c > 0x7f && c < 0x10000))
            snprintf(text, sizeof text, "\\u%04x", c);
        else if (style->ascii && c >= 0x10000)
            snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                     0xdc00 + ((c - 0x10000) & 0x3ff));
        if (text[0] ? !tpl_put_z(r, b, text) : !tpl_put(r, b, tpl_sub(s, i, i + k))) return false;
    }
    return tpl_put_z(r, b, "\"");
}

static bool put_json_newline(tpl_run *r, tpl_buffer *b, const json_style *style, int level)
{
    return !style->indent.p || (tpl_put_z(r, b, "\n") && tpl_put_fill(r, b, style->indent, level));
}

static bool put_json_scalar(tpl_run *r, tpl_buffer *b, const tpl_value *v)
{
    char text[40];
    switch (v->kind) {
    case TPL_NONE: return tpl_put_z(r, b, "null");
    case TPL_BOOL: return tpl_put_z(r, b, v->u.b ? "true" : "false");
    case TPL_INT: return put_int(r, b, v->u.i);
    case TPL_FLOAT:
        if (!tpl_format_double(v->u.f, text))
            snprintf(text, sizeof text, "%s", isnan(v->u.f) ? "NaN" : v->u.f < 0 ? "-Infinity" : "Infinity");
        return tpl_put_z(r, b, text);
    default: return tpl_fail(r, RDG_E_MALFORMED, "tojson: %s has no JSON form", tpl_type_name(v));
    }
}

static bool put_json_key(tpl_run *r, tpl_buffer *b, const tpl_value *key, const json_style *style)
{
    tpl_buffer text = {0};
    if (key->kind == TPL_STRING) return put_json_string(r, b, key->u.s, style);
    if (key->kind == TPL_TUPLE)
        return tpl_fail(r, RDG_E_MALFORMED, "tojson: %s as a key", tpl_type_name(key));
    return put_json_scalar(r, &text, key) && put_json_string(r, b, tpl_buffer_str(&text), style);
}

static bool put_json_value(tpl_run *r, tpl_buffer *b, const tpl_value *v, const json_style *style, int level);

/* The places of a dict's entries in the order of their keys. */
static bool sorted_places(tpl_run *r, const tpl_dict *d, int64_t **out)
{
    int64_t *places = tpl_alloc(r, (size_t)d->n, sizeof *places);
    if (!places) return false;
    for (int64_t i = 0; i < d->n; i++) {
        int64_t j = i;
        for (; j > 0; j--) {
            int order;
            if (!tpl_less(r, &d->keys[places[j - 1]], &d->keys[i], "<", &order)) return false;
            if (order <= 0) break;
            places[j] = places[j - 1];
        }
        places[j] = i;
    }
    *out = places;
    return true;
}

static bool put_json_dict(tpl_run *r, tpl_buffer *b, const tpl_dict *d, const json_style *style, int level)
{
    int64_t *places = NULL;
    if (d->n == 0) return tpl_put_z(r, b, "{}");
    if ((style->sort_keys && !sorted_places(r, d, &places)) || !tpl_put_z(r, b, "{")) return false;
    for (int64_t k = 0; k < d->n; k++) {
        int64_t i = places ? places[k] : k;
        if ((k && !tpl_put(r, b, style->item)) || !put_json_newline(r, b, style, level + 1) ||
            !put_json_key(r, b, &d->keys[i], style) || !tpl_put(r, b, style->key) ||
            !put_json_value(r, b, &d->values[i], style, level + 1))
            return false;
    }
    return put_json_newline(r, b, style, level) && tpl_put_z(r, b, "}");
}

static bool put_json_value(tpl_run *r, tpl_buffer *b, const tpl_value *v, const json_style *style, int level)
{
    bool ok;
    if (v->kind == TPL_STRING) return put_json_string(r, b, v->u.s, style);
    if (!tpl_enter(r) || !tpl_charge(r, 0)) return false;
    if (v->kind == TPL_DICT) {
        ok = put_json_dict(r, b, v->u.dict, style, level);
    } else if (v->kind == TPL_LIST || v->kind == TPL_TUPLE) {
        const tpl_list *l = v->u.list;
        ok = tpl_put_z(r, b, "[");
        for (int64_t i = 0; ok && i < l->n; i++)
            ok = (!i || tpl_put(r, b, style->item)) && put_json_newline(r, b, style, level + 1) &&
                 put_json_value(r, b, &l->at[i], style, level + 1);
        ok = ok && (!l->n || put_json_newline(r, b, style, level)) && tpl_put_z(r, b, "]");
    } else {
        ok = put_json_scalar(r, b, v);
    }
    tpl_leave(r);
    return ok;
}

bool tpl_to_json(tpl_run *r, const tpl_value *self, const tpl_args *args, tpl_value *out)
{
    tpl_value v[4];
    tpl_buffer b = {0}, spaces = {0};
    json_style style = {.item = TPL_STR(", "), .key = TPL_STR(": ")};
    int64_t width;
    if (!tpl_bind(r, "tojson", args, "ensure_ascii,indent,separators,sort_keys", v)) return false;
    style.ascii = tpl_given(&v[0]) && tpl_truth(&v[0]);
    style.sort_keys = tpl_given(&v[3]) && tpl_truth(&v[3]);
    if (tpl_given(&v[1]) && v[1].kind != TPL_NONE) {
        style.item = TPL_STR(",");
        if (v[1].kind == TPL_STRING) {
            style.indent = v[1].u.s;
        } else if (tpl_as_int(&v[1], &width)) {
            if (width > MAX_WIDTH)
                return tpl_fail(r, RDG_E_LIMIT, "tojson: an indent of %lld", (long long)width);
            if (!tpl_put_fill(r, &spaces, TPL_STR(" "), width)) return false;
            style.indent = tpl_buffer_str(&spaces);
        } else {
            return tpl_fail(r, RDG_E_MALFORMED, "tojson: indent is %s", tpl_type_name(&v[1]));
        }
    }
    if (tpl_given(&v[2]) && v[2].kind != TPL_NONE) {
        const tpl_list *l = v[2].kind == TPL_TUPLE || v[2].kind == TPL_LIST ? v[2].u.list : NULL;
        if (!l || l->n != 2 || l->at[0].kind != TPL_STRING || l->at[1].kind != TPL_STRING)
            return tpl_fail(r, RDG_E_MALFORMED, "tojson: separators must be two strings");
        style.item = l->at[0].u.s;
        style.key = l->at[1].u.s;
    }
    if (!put_json_value(r, &b, self, &style, 0)) return false;
    *out = tpl_string(tpl_buffer_str(&b));
    return true;
}

/* Formatting ------------------------------------------------------------------------------------------ */

typedef struct spec {
    bool left, zero, plus, space, alternate;
    char align; /* of format(): < > ^ =, or 0 */
    uint32_t fill;
    int width, precision; /* precision -1: none */
    char type;
} spec;

static bool put_padded(tpl_run *r, tpl_buffer *b, tpl_str s, const spec *f, char align)
{
    int64_t missing = f->width - tpl_chars(s);
    int64_t left = missing <= 0 ? 0 : align == '>' ? missing : align == '^' ? missing / 2 : 0;
    char fill[4];
    tpl_str unit = {
        fill,
        (size_t)utf8proc_encode_char((utf8proc_int32_t)(f->fill ? f->fill : ' '), (utf8proc_uint8_t *)fill),
        NULL};
    return tpl_put_fill(r, b, unit, left) && tpl_put(r, b, s) && tpl_put_fill(r, b, unit, missing - left);
}

static bool put_number(tpl_run *r, tpl_buffer *b, const tpl_value *v, const spec *f)
{
    char text[512], format[24];
    int64_t i;
    bool is_int = strchr("dixXo", f->type) != NULL;
    if (v->kind == TPL_UNDEFINED) return tpl_undefined_error(r, v);
    if (!tpl_is_number(v))
        return tpl_fail(r, RDG_E_MALFORMED, "format '%c' needs a number, not %s", f->type, tpl_type_name(v));
    if (f->precision > 60) return tpl_fail(r, RDG_E_LIMIT, "a precision of %d digits", f->precision);
    if (is_int && !tpl_as_int(v, &i)) {
        double d = tpl_as_double(v);
        if (f->type != 'd' && f->type != 'i')
            return tpl_fail(r, RDG_E_MALFORMED, "format '%c' needs an integer", f->type);
        if (!(fabs(d) < 9e18))
            return tpl_fail(r, RDG_E_UNSUPPORTED, "an integer beyond 64 bits is not supported");
        i = (int64_t)d;
    }
    const char *sign = f->plus ? "+" : f->space ? " " : "";
    if (is_int) {
        bool negative = i < 0;
        unsigned long long u = negative ? 0ull - (unsigned long long)i : (unsigned long long)i;
        const char *prefix = !f->alternate    ? ""
                             : f->type == 'x' ? "0x"
                             : f->type == 'X' ? "0X"
                             : f->type == 'o' ? "0o"
                                              : "";
        snprintf(format, sizeof format, "%%s%%s%%.*ll%c", f->type == 'd' || f->type == 'i' ? 'u' : f->type);
        snprintf(text, sizeof text, format, negative ? "-" : sign, prefix,
                 f->precision < 0 ? 1 : f->precision, u);
    } else {
        snprintf(format, sizeof format, "%%%s%s.*%c", *sign ? sign : "", f->alternate ? "#" : "", f->type);
        int n = snprintf(text, sizeof text, format, f->precision < 0 ? 6 : f->precision, tpl_as_double(v));
        if (n < 0 || (size_t)n >= sizeof text)
            return tpl_fail(r, RDG_E_LIMIT, "a number of %d characters", n);
    }
    size_t n = strlen(text), at = text[0] == '-' || text[0] == '+' || text[0] == ' ';
    if (f->zero && !f->left && (size_t)f->width > n) {
        tpl_str s = {text, n, NULL};
        return tpl_put(r, b, tpl_sub(s, 0, at)) && tpl_put_fill(r, b, TPL_STR("0"), f->width - (int64_t)n) &&
               tpl_put(r, b, tpl_sub(s, at, n));
    }
    return put_padded(r, b, (tpl_str){text, n, NULL}, f, f->left ? '<' : f->align ? f->align : '>');
}

static bool read_number(tpl_run *r, tpl_str s, size_t *i, int *out)
{
    *out = 0;
    for (; *i < s.n && s.p[*i] >= '0' && s.p[*i] <= '9'; ++*i) {
        *out = *out * 10 + (s.p[*i] - '0');
        if (*out > MAX_WIDTH) return tpl_fail(r, RDG_E_LIMIT, "a width or precision beyond %d", MAX_WIDTH);
    }
    return true;
}

static bool put_text(tpl_run *r, tpl_buffer *b, const tpl_value *v, const spec *f, char align)
{
    tpl_buffer text = {0};
    tpl_str s;
    if (f->type == 'r' ? !tpl_repr(r, &text, v) : !tpl_str_of(r, v, &s)) return false;
    if (f->type == 'r') s = tpl_buffer_str(&text);
    if (f->precision >= 0) s = tpl_sub(s, 0, tpl_char_offset(s, f->precision));
    return put_padded(r, b, s, f, align);
}

bool tpl_percent(tpl_run *r, tpl_str format, const tpl_value *args, tpl_value *out)
{
    tpl_buffer b = {0};
    tpl_list one = {(tpl_value *)args, 1, 1};
    const tpl_list *list = args->kind == TPL_TUPLE ? args->u.list : &one;
    int64_t used = 0;
    size_t i = 0;
    if (!tpl_charge(r, format.n)) return false;
    while (i < format.n) {
        size_t start = i;
        while (i < format.n && format.p[i] != '%') i++;
        if (!tpl_put(r, &b, tpl_sub(format, start, i))) return false;
        if (i >= format.n) break;
        spec f = {.precision = -1};
        const tpl_value *v = NULL;
        i++;
        if (i < format.n && format.p[i] == '(') {
            size_t name = ++i;
            while (i < format.n && format.p[i] != ')') i++;
            tpl_value *there = NULL;
            if (args->kind != TPL_DICT) return tpl_fail(r, RDG_E_MALFORMED, "'%%(' needs a dict");
            if (!tpl_dict_find_str(r, args->u.dict, tpl_sub(format, name, i), &there)) return false;
            if (!there) return tpl_fail(r, RDG_E_MALFORMED, "'%%(' names a key that is not there");
            v = there;
            i++;
        }
        for (; i < format.n && strchr("-0+ #", format.p[i]); i++) {
            f.left |= format.p[i] == '-';
            f.zero |= format.p[i] == '0';
            f.plus |= format.p[i] == '+';
            f.space |= format.p[i] == ' ';
            f.alternate |= format.p[i] == '#';
        }
        if (!read_number(r, format, &i, &f.width)) return false;
        if (i < format.n && format.p[i] == '.') {
            i++;
            if (!read_number(r, format, &i, &f.precision)) return false;
        }
        if (i >= format.n) return tpl_fail(r, RDG_E_MALFORMED, "a '%%' at the end of a format");
        f.type = format.p[i++];
        if (f.type == '%') {
            if (!tpl_put_z(r, &b, "%")) return false;
            continue;
        }
        if (!strchr("srdixXofFeEgG", f.type))
            return tpl_fail(r, RDG_E_UNSUPPORTED, "the format '%%%c' is not supported", f.type);
        if (!v) {
            if (used >= list->n) return tpl_fail(r, RDG_E_MALFORMED, "more formats than arguments");
            v = &list->at[used++];
        }
        if (f.type == 's' || f.type == 'r' ? !put_text(r, &b, v, &f, f.left ? '<' : '>')
                                           : !put_number(r, &b, v, &f))
            return false;
    }
    /* What can be subscripted could be meant for %(name)s, so that Python does not complain. */
    bool mapping = args->kind == TPL_DICT || args->kind == TPL_LIST || args->kind == TPL_RANGE ||
                   args->kind == TPL_UNDEFINED;
    if (used < list->n && !mapping) return tpl_fail(r, RDG_E_MALFORMED, "more arguments than formats");
    *out = tpl_string(tpl_buffer_str(&b));
    return true;
}

/* [[fill]align][sign][#][0][width][.precision][type] */
static bool read_spec(tpl_run *r, tpl_str s, spec *f)
{
    size_t i = 0, k = s.n ? tpl_char_bytes(s.p) : 0;
    *f = (spec){.precision = -1};
    if (s.n > k && strchr("<>^=", s.p[k])) {
        f->fill = tpl_char_at(s.p);
        f->align = s.p[k];
        i = k + 1;
    } else if (s.n && strchr("<>^=", s.p[0])) {
        f->align = s.p[0];
        i = 1;
    }
    for (; i < s.n && strchr("+- #", s.p[i]); i++) {
        f->plus |= s.p[i] == '+';
        f->space |= s.p[i] == ' ';
        f->alternate |= s.p[i] == '#';
    }
    if (i < s.n && s.p[i] == '0') f->zero = true;
    if (!read_number(r, s, &i, &f->width)) return false;
    if (i < s.n && s.p[i] == '.') {
        i++;
        if (!read_number(r, s, &i, &f->precision)) return false;
    }
    if (i < s.n) f->type = s.p[i++];
    if (i < s.n || (f->type && !strchr("sdxXofFeEgG", f->type)) || f->align == '=')
        return tpl_fail(r, RDG_E_UNSUPPORTED, "the format '%.*s' is not supported",
                        (int)RDG_MIN(s.n, (size_t)40), s.p);
    return true;
}

/* One {field} of format(). */
static bool put_field(tpl_run *r, tpl_buffer *b, tpl_str field, const tpl_args *args, int *next)
{
    size_t n = 0, end;
    const tpl_value *v = NULL;
    spec f;
    while (n < field.n && field.p[n] != ':' && field.p[n] != '!') n++;
    tpl_str name = tpl_sub(field, 0, n);
    end = n;
    char conversion = 0;
    if (end < field.n && field.p[end] == '!') {
        if (end + 1 < field.n) conversion = field.p[end + 1];
        end += 2;
        if (conversion != 'r' && conversion != 's')
            return tpl_fail(r, RDG_E_UNSUPPORTED, "format: a conversion other than !r and !s");
    }
    if (end < field.n && field.p[end] != ':')
        return tpl_fail(r, RDG_E_MALFORMED, "format: unexpected text in a field");
    if (!read_spec(r, end < field.n ? tpl_sub(field, end + 1, field.n) : TPL_STR(""), &f)) return false;
    size_t digits = 0;
    int index = 0;
    if (!read_number(r, name, &digits, &index)) return false;
    if (digits == name.n) {
        if (name.n == 0) index = (*next)++;
        if (index < args->n) v = &args->at[index];
    } else {
        for (int i = 0; i < args->n_named; i++)
            if (tpl_str_equal(args->names[i], name)) v = &args->named[i];
    }
    if (!v)
        return tpl_fail(r, RDG_E_MALFORMED, "format: there is no argument '%.*s'",
                        (int)RDG_MIN(name.n, (size_t)40), name.p);
    bool number = tpl_is_number(v) && v->kind != TPL_BOOL && !conversion;
    if (conversion == 'r') f.type = 'r';
    if (!number && f.type && f.type != 's' && f.type != 'r')
        return tpl_fail(r, RDG_E_MALFORMED, "format '%c' with %s", f.type, tpl_type_name(v));
    if (number && f.type && f.type != 's') return put_number(r, b, v, &f);
    if (number && (f.plus || f.space || f.zero || f.precision >= 0)) {
        if (v->kind == TPL_FLOAT)
            return tpl_fail(r, RDG_E_UNSUPPORTED, "format: a float needs a type such as 'f'");
        f.type = 'd';
        return put_number(r, b, v, &f);
    }
    return put_text(r, b, v, &f, f.align ? f.align : number ? '>' : '<');
}

bool tpl_format_method(tpl_run *r, const tpl_value *self, const tpl_args *args, tpl_value *out)
{
    tpl_buffer b = {0};
    tpl_str s = self->u.s;
    int next = 0;
    if (!tpl_charge(r, s.n)) return false;
    for (size_t i = 0; i < s.n;) {
        if ((s.p[i] == '{' || s.p[i] == '}') && i + 1 < s.n && s.p[i + 1] == s.p[i]) {
            if (!tpl_put(r, &b, tpl_sub(s, i, i + 1))) return false;
            i += 2;
        } else if (s.p[i] == '{') {
            size_t end = i + 1;
            while (end < s.n && s.p[end] != '}' && s.p[end] != '{') end++;
            if (end >= s.n || s.p[end] == '{')
                return tpl_fail(r, RDG_E_MALFORMED, "format: a '{' is not closed");
            if (!put_field(r, &b, tpl_sub(s, i + 1, end), args, &next)) return false;
            i = end + 1;
        } else if (s.p[i] == '}') {
            return tpl_fail(r, RDG_E_MALFORMED, "format: a '}' without its '{'");
        } else {
            size_t start = i;
            while (i < s.n && s.p[i] != '{' && s.p[i] != '}') i++;
            if (!tpl_put(r, &b, tpl_sub(s, start, i))) return false;
        }
    }
    unsigned flag = self->flag;
    *out = tpl_string(tpl_buffer_str(&b));
    out->flag = flag;
    return true;
}
