/* The methods of strings that templates may call. */
#include "text/template_internal.h"

#include <string.h>
#include <utf8proc.h>

/* Splitting ------------------------------------------------------------------------------------------- */

/* Split at white space; limit < 0: everywhere. */
static bool split_space(tpl_run *r, tpl_str s, int64_t limit, tpl_list *out)
{
    for (s = tpl_strip(s, NULL, true, false); s.n; s = tpl_strip(s, NULL, true, false)) {
        size_t i = 0;
        if (limit >= 0 && out->n == limit) return tpl_add_str(r, out, s);
        while (i < s.n && !tpl_is_space(tpl_char_at(s.p + i))) i += tpl_char_bytes(s.p + i);
        if (!tpl_add_str(r, out, tpl_sub(s, 0, i))) return false;
        s = tpl_sub(s, i, s.n);
    }
    return true;
}

/* The same from the right; the words come in reverse. */
static bool rsplit_space(tpl_run *r, tpl_str s, int64_t limit, tpl_list *out)
{
    for (s = tpl_strip(s, NULL, false, true); s.n; s = tpl_strip(s, NULL, false, true)) {
        size_t i = s.n;
        if (limit >= 0 && out->n == limit) return tpl_add_str(r, out, s);
        while (i > 0) {
            size_t last = i - 1;
            while (last > 0 && ((unsigned char)s.p[last] & 0xc0) == 0x80) last--;
            if (tpl_is_space(tpl_char_at(s.p + last))) break;
            i = last;
        }
        if (!tpl_add_str(r, out, tpl_sub(s, i, s.n))) return false;
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
        if (!tpl_add_str(r, out, from_right ? tpl_sub(s, at + separator.n, s.n) : tpl_sub(s, 0, at)))
            return false;
        s = from_right ? tpl_sub(s, 0, at) : tpl_sub(s, at + separator.n, s.n);
    }
    return tpl_add_str(r, out, s);
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

/* Methods --------------------------------------------------------------------------------------------- */

static bool strip_method(tpl_run *r, const char *what, const tpl_value *self, const tpl_args *args, bool left,
                         bool right, tpl_value *out)
{
    tpl_value v[1];
    tpl_str chars;
    if (!tpl_bind(r, what, args, "chars", v)) return false;
    bool some = tpl_given(&v[0]) && v[0].kind != TPL_NONE;
    if (some && !tpl_want_str(r, what, &v[0], &chars)) return false;
    if (!tpl_charge(r, some && chars.n > 16 ? self->u.s.n * (chars.n / 16) : self->u.s.n)) return false;
    return tpl_give(tpl_strip(self->u.s, some ? &chars : NULL, left, right), self->flag, out);
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
    return tpl_no_args(r, "upper", args) && tpl_upper(r, self->u.s, &s) && tpl_give(s, self->flag, out);
}
METHOD(m_lower)
{
    tpl_str s;
    return tpl_no_args(r, "lower", args) && tpl_lower(r, self->u.s, &s) && tpl_give(s, self->flag, out);
}
METHOD(m_capitalize)
{
    tpl_str s;
    return tpl_no_args(r, "capitalize", args) && tpl_capitalize(r, self->u.s, &s) &&
           tpl_give(s, self->flag, out);
}
METHOD(m_swapcase)
{
    tpl_str s;
    return tpl_no_args(r, "swapcase", args) &&
           tpl_change_case(r, self->u.s, TPL_CASE_SWAP, TPL_CASE_SWAP, &s) && tpl_give(s, self->flag, out);
}

/* A letter behind a letter is small, any other is a capital. */
METHOD(m_title)
{
    tpl_buffer b = {0};
    bool in_word = false;
    tpl_str s = self->u.s;
    if (!tpl_no_args(r, "title", args) || !tpl_charge(r, s.n)) return false;
    for (size_t i = 0; i < s.n; i += tpl_char_bytes(s.p + i)) {
        if (!tpl_put_cased(r, &b, s, i, in_word ? TPL_CASE_LOWER : TPL_CASE_TITLE)) return false;
        in_word = tpl_is_cased((utf8proc_int32_t)tpl_char_at(s.p + i));
    }
    return tpl_give(tpl_buffer_str(&b), self->flag, out);
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
        if (!tpl_want_str(r, what, &at[i], &s) || !tpl_charge(r, s.n)) return false;
        found = found || (at_end ? tpl_ends(part.u.s, s) : tpl_starts(part.u.s, s));
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
    if (!tpl_want_str(r, "replace", &v[0], &from) || !tpl_want_str(r, "replace", &v[1], &to)) return false;
    if (tpl_given(&v[2]) && !tpl_want_int(r, "replace", &v[2], &count)) return false;
    return tpl_replace(r, self->u.s, from, to, count, &s) && tpl_give(s, self->flag, out);
}

/* find, index, count, rfind, rindex between start and end */
static bool search(tpl_run *r, const char *what, const tpl_value *self, const tpl_args *args, bool last,
                   bool must, tpl_value *out)
{
    tpl_value v[3], part;
    tpl_str needle;
    size_t at;
    int64_t start = 0, chars = tpl_chars(self->u.s);
    if (!tpl_bind(r, what, args, "sub!,start,end", v) || !tpl_want_str(r, what, &v[0], &needle)) return false;
    if (tpl_given(&v[1]) && v[1].kind != TPL_NONE && !tpl_want_int(r, what, &v[1], &start)) return false;
    if (!tpl_get_slice(r, self, tpl_given(&v[1]) ? &v[1] : NULL, tpl_given(&v[2]) ? &v[2] : NULL, NULL,
                       &part))
        return false;
    if (start < 0) start = RDG_MAX(0, start + chars);
    if (!(last ? tpl_find_last(r, part.u.s, needle, &at) : tpl_find(r, part.u.s, needle, 0, &at)))
        return false;
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
    if (!tpl_bind(r, "count", args, "sub!,start,end", v) || !tpl_want_str(r, "count", &v[0], &needle))
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
        if (!tpl_want_str(r, "join", &items->at[i], &s)) return false;
    if (self->flag) { /* what is not escaped yet is escaped */
        tpl_list *escaped = tpl_list_new(r, items->n);
        if (!escaped) return false;
        for (int64_t i = 0; i < items->n; i++) {
            tpl_value e;
            if (!tpl_escape(r, &items->at[i], &e) || !tpl_list_add(r, escaped, e)) return false;
        }
        items = escaped;
    }
    return tpl_join(r, self->u.s, items, &s) && tpl_give(s, self->flag, out);
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
    if (!tpl_bind(r, what, args, "affix!", v) || !tpl_want_str(r, what, &v[0], &a)) return false;
    if (at_end ? tpl_ends(s, a) : tpl_starts(s, a))
        s = at_end ? tpl_sub(s, 0, s.n - a.n) : tpl_sub(s, a.n, s.n);
    return tpl_give(s, self->flag, out);
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
    if (!l || !tpl_bind(r, what, args, "sep!", v) || !tpl_want_str(r, what, &v[0], &sep)) return false;
    if (sep.n == 0) return tpl_fail(r, RDG_E_MALFORMED, "%s: the separator is empty", what);
    if (!(last ? tpl_find_last(r, s, sep, &at) : tpl_find(r, s, sep, 0, &at))) return false;
    if (at == SIZE_MAX) {
        if (!tpl_add_str(r, l, last ? TPL_STR("") : s) || !tpl_add_str(r, l, TPL_STR("")) ||
            !tpl_add_str(r, l, last ? s : TPL_STR("")))
            return false;
    } else if (!tpl_add_str(r, l, tpl_sub(s, 0, at)) || !tpl_add_str(r, l, tpl_sub(s, at, at + sep.n)) ||
               !tpl_add_str(r, l, tpl_sub(s, at + sep.n, s.n))) {
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
    if (!tpl_bind(r, what, args, "width!,fillchar", v) || !tpl_want_int(r, what, &v[0], &width)) return false;
    if (tpl_given(&v[1]) && !tpl_want_str(r, what, &v[1], &fill)) return false;
    if (tpl_chars(fill) != 1) return tpl_fail(r, RDG_E_MALFORMED, "%s: the fill must be one character", what);
    int64_t missing = width > have ? width - have : 0;
    int64_t left = side < 0 ? missing : side > 0 ? 0 : missing / 2 + (missing & width & 1);
    return tpl_put_fill(r, &b, fill, left) && tpl_put(r, &b, self->u.s) &&
           tpl_put_fill(r, &b, fill, missing - left) && tpl_give(tpl_buffer_str(&b), self->flag, out);
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
    if (!tpl_bind(r, "zfill", args, "width!", v) || !tpl_want_int(r, "zfill", &v[0], &width)) return false;
    size_t sign = s.n && (s.p[0] == '-' || s.p[0] == '+') ? 1 : 0;
    return tpl_put(r, &b, tpl_sub(s, 0, sign)) && tpl_put_fill(r, &b, TPL_STR("0"), width - have) &&
           tpl_put(r, &b, tpl_sub(s, sign, s.n)) && tpl_give(tpl_buffer_str(&b), self->flag, out);
}

/* All characters are of a class, and there is one. */
static bool all_of(tpl_run *r, const char *what, const tpl_value *self, const tpl_args *args,
                   bool (*is)(utf8proc_int32_t c), tpl_value *out)
{
    tpl_str s = self->u.s;
    bool all = s.n > 0;
    if (!tpl_no_args(r, what, args) || !tpl_charge(r, s.n)) return false;
    for (size_t i = 0; all && i < s.n; i += tpl_char_bytes(s.p + i))
        all = is((utf8proc_int32_t)tpl_char_at(s.p + i));
    *out = tpl_bool(all);
    return true;
}
static bool is_decimal(utf8proc_int32_t c)
{
    return utf8proc_category(c) == UTF8PROC_CATEGORY_ND;
}
static bool is_digit(utf8proc_int32_t c)
{
    return is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 ||
           (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089);
}
static bool is_space(utf8proc_int32_t c)
{
    return tpl_is_space((uint32_t)c);
}
METHOD(m_isalpha)
{
    return all_of(r, "isalpha", self, args, tpl_is_letter, out);
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
    return all_of(r, "isnumeric", self, args, tpl_is_numeric, out);
}
METHOD(m_isalnum)
{
    return all_of(r, "isalnum", self, args, tpl_is_alnum, out);
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
    return tpl_no_args(r, "isascii", args);
}
METHOD(m_isupper)
{
    *out = tpl_bool(tpl_is_case(self->u.s, true));
    return tpl_no_args(r, "isupper", args);
}
METHOD(m_islower)
{
    *out = tpl_bool(tpl_is_case(self->u.s, false));
    return tpl_no_args(r, "islower", args);
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
