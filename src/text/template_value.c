/* What Python's values do: truth, length, iteration, equality, order, membership. */
#include "text/template_internal.h"

#include <math.h>
#include <string.h>

/* Making ---------------------------------------------------------------------------------------------- */

tpl_value tpl_string(tpl_str s)
{
    return (tpl_value){.kind = TPL_STRING, .u.s = s};
}

tpl_value tpl_string_z(const char *literal)
{
    return tpl_string((tpl_str){literal, strlen(literal), NULL});
}

tpl_value tpl_int(int64_t i)
{
    return (tpl_value){.kind = TPL_INT, .u.i = i};
}

tpl_value tpl_float(double f)
{
    return (tpl_value){.kind = TPL_FLOAT, .u.f = f};
}

tpl_value tpl_bool(bool b)
{
    return (tpl_value){.kind = TPL_BOOL, .u.b = b};
}

tpl_value tpl_none(void)
{
    return (tpl_value){.kind = TPL_NONE};
}

tpl_value tpl_undefined_hint(const char *hint)
{
    return (tpl_value){.kind = TPL_UNDEFINED, .flag = TPL_WHY_HINT, .u.s = {hint, strlen(hint), NULL}};
}

tpl_value tpl_undefined_name(tpl_str name)
{
    return (tpl_value){.kind = TPL_UNDEFINED, .flag = TPL_WHY_NAME, .u.s = name};
}

tpl_value tpl_undefined_of(const tpl_value *owner, tpl_why why, tpl_str name)
{
    return (tpl_value){.kind = TPL_UNDEFINED, .flag = why, .label = tpl_type_name(owner), .u.s = name};
}

bool tpl_undefined_error(tpl_run *r, const tpl_value *v)
{
    int n = (int)RDG_MIN(v->u.s.n, (size_t)200);
    const char *p = v->u.s.p ? v->u.s.p : "";
    switch ((tpl_why)v->flag) {
    case TPL_WHY_NAME: return tpl_fail(r, RDG_E_MALFORMED, "'%.*s' is undefined", n, p);
    case TPL_WHY_ATTRIBUTE: return tpl_fail(r, RDG_E_MALFORMED, "%s has no attribute '%.*s'", v->label, n, p);
    case TPL_WHY_ELEMENT: return tpl_fail(r, RDG_E_MALFORMED, "%s has no such element", v->label);
    case TPL_WHY_UNSAFE:
        return tpl_fail(r, RDG_E_UNSUPPORTED,
                        "'%.*s' of %s may not be used: a template cannot change its data", n, p, v->label);
    case TPL_WHY_HINT: break;
    }
    return tpl_fail(r, RDG_E_MALFORMED, "%.*s", n, p);
}

tpl_list *tpl_list_new(tpl_run *r, int64_t cap)
{
    tpl_list *l = tpl_alloc(r, 1, sizeof *l);
    if (l && cap > 0 && !(l->at = tpl_alloc(r, (size_t)cap, sizeof *l->at))) return NULL;
    if (l) l->cap = cap;
    return l;
}

bool tpl_list_add(tpl_run *r, tpl_list *l, tpl_value v)
{
    if (l->n == l->cap) {
        int64_t cap = l->cap ? l->cap * 2 : 4;
        tpl_value *at = tpl_alloc(r, (size_t)cap, sizeof *at);
        if (!at) return false;
        if (l->n) memcpy(at, l->at, (size_t)l->n * sizeof *at);
        l->at = at;
        l->cap = cap;
    }
    l->at[l->n++] = v;
    return true;
}

tpl_value tpl_list_value(tpl_kind kind, tpl_list *l)
{
    return (tpl_value){.kind = kind, .u.list = l};
}

bool tpl_pair(tpl_run *r, tpl_value a, tpl_value b, tpl_value *out)
{
    tpl_list *l = tpl_list_new(r, 2);
    if (!l) return false;
    *out = tpl_list_value(TPL_TUPLE, l);
    return tpl_list_add(r, l, a) && tpl_list_add(r, l, b);
}

bool tpl_iterator_value(tpl_run *r, tpl_list *l, const char *label, tpl_value *out)
{
    tpl_iterator *it = tpl_alloc(r, 1, sizeof *it);
    if (!it) return false;
    it->list = l;
    it->label = label;
    *out = (tpl_value){.kind = TPL_ITERATOR, .u.iterator = it};
    return true;
}

tpl_dict *tpl_dict_new(tpl_run *r, int64_t cap)
{
    tpl_dict *d = tpl_alloc(r, 1, sizeof *d);
    if (!d || cap <= 0) return d;
    d->keys = tpl_alloc(r, (size_t)cap, sizeof *d->keys);
    d->values = tpl_alloc(r, (size_t)cap, sizeof *d->values);
    d->cap = cap;
    return d->keys && d->values ? d : NULL;
}

bool tpl_dict_find(tpl_run *r, const tpl_dict *d, const tpl_value *key, tpl_value **value)
{
    *value = NULL;
    if (key->kind == TPL_STRING) return tpl_dict_find_str(r, d, key->u.s, value);
    for (int64_t i = 0; i < d->n; i++) {
        bool equal;
        if (!tpl_equal(r, &d->keys[i], key, &equal)) return false;
        if (!equal) continue;
        *value = &d->values[i];
        break;
    }
    return true;
}

bool tpl_dict_find_str(tpl_run *r, const tpl_dict *d, tpl_str key, tpl_value **value)
{
    int64_t i = 0;
    while (i < d->n && !(d->keys[i].kind == TPL_STRING && tpl_str_equal(d->keys[i].u.s, key))) i++;
    *value = i < d->n ? &d->values[i] : NULL;
    return tpl_charge(r, (size_t)i * 8);
}

bool tpl_dict_set(tpl_run *r, tpl_dict *d, tpl_value key, tpl_value v)
{
    tpl_value *there;
    if (!tpl_hashable(r, &key) || !tpl_dict_find(r, d, &key, &there)) return false;
    if (there) {
        *there = v;
        return true;
    }
    if (d->n == d->cap) {
        int64_t cap = d->cap ? d->cap * 2 : 4;
        tpl_value *keys = tpl_alloc(r, (size_t)cap, sizeof *keys),
                  *values = tpl_alloc(r, (size_t)cap, sizeof *values);
        if (!keys || !values) return false;
        if (d->n) memcpy(keys, d->keys, (size_t)d->n * sizeof *keys);
        if (d->n) memcpy(values, d->values, (size_t)d->n * sizeof *values);
        d->keys = keys;
        d->values = values;
        d->cap = cap;
    }
    d->keys[d->n] = key;
    d->values[d->n++] = v;
    return true;
}

bool tpl_hashable(tpl_run *r, const tpl_value *v)
{
    if (v->kind == TPL_LIST || v->kind == TPL_DICT || v->kind == TPL_VIEW)
        return tpl_fail(r, RDG_E_MALFORMED, "%s cannot be a key", tpl_type_name(v));
    if (v->kind != TPL_TUPLE) return true;
    if (!tpl_enter(r)) return false;
    for (int64_t i = 0; i < v->u.list->n; i++)
        if (!tpl_hashable(r, &v->u.list->at[i])) return false;
    tpl_leave(r);
    return true;
}

/* Asking ---------------------------------------------------------------------------------------------- */

bool tpl_is_number(const tpl_value *v)
{
    return v->kind == TPL_INT || v->kind == TPL_FLOAT || v->kind == TPL_BOOL;
}

bool tpl_as_int(const tpl_value *v, int64_t *i)
{
    if (v->kind == TPL_INT)
        *i = v->u.i;
    else if (v->kind == TPL_BOOL)
        *i = v->u.b;
    else
        return false;
    return true;
}

double tpl_as_double(const tpl_value *v)
{
    return v->kind == TPL_FLOAT ? v->u.f : v->kind == TPL_INT ? (double)v->u.i : v->u.b;
}

const char *tpl_type_name(const tpl_value *v)
{
    static const char *const names[] = {
        [TPL_UNDEFINED] = "an undefined value",
        [TPL_NONE] = "none",
        [TPL_BOOL] = "a boolean",
        [TPL_INT] = "an integer",
        [TPL_FLOAT] = "a float",
        [TPL_STRING] = "a string",
        [TPL_LIST] = "a list",
        [TPL_TUPLE] = "a tuple",
        [TPL_DICT] = "a dict",
        [TPL_VIEW] = "a view of a dict",
        [TPL_ITERATOR] = "an iterator",
        [TPL_RANGE] = "a range",
        [TPL_NAMESPACE] = "a namespace",
        [TPL_LOOP] = "the loop variable",
        [TPL_MACRO] = "a macro",
        [TPL_FUNCTION] = "a function",
        [TPL_METHOD] = "a method",
        [TPL_CYCLER] = "a cycler",
        [TPL_JOINER] = "a joiner",
    };
    return names[v->kind];
}

int64_t tpl_range_length(const tpl_value *v)
{
    int64_t start = v->u.range.start, stop = v->u.range.stop, step = v->u.range.step;
    if (step > 0 ? start >= stop : start <= stop) return 0;
    return step > 0 ? (stop - start - 1) / step + 1 : (start - stop - 1) / -step + 1;
}

bool tpl_has_length(const tpl_value *v)
{
    switch (v->kind) {
    case TPL_UNDEFINED:
    case TPL_STRING:
    case TPL_LIST:
    case TPL_TUPLE:
    case TPL_DICT:
    case TPL_VIEW:
    case TPL_RANGE:
    case TPL_LOOP: return true;
    default: return false;
    }
}

static int64_t length_of(const tpl_value *v)
{
    switch (v->kind) {
    case TPL_STRING: return tpl_chars(v->u.s);
    case TPL_LIST:
    case TPL_TUPLE: return v->u.list->n;
    case TPL_VIEW:
    case TPL_DICT: return v->u.dict->n;
    case TPL_RANGE: return tpl_range_length(v);
    case TPL_LOOP: return v->u.loop->items->n;
    default: return 0;
    }
}

bool tpl_length(tpl_run *r, const tpl_value *v, int64_t *n)
{
    if (!tpl_has_length(v)) return tpl_fail(r, RDG_E_MALFORMED, "%s has no length", tpl_type_name(v));
    *n = length_of(v);
    return tpl_charge(r, v->kind == TPL_STRING ? v->u.s.n : 0);
}

bool tpl_truth(const tpl_value *v)
{
    switch (v->kind) {
    case TPL_NONE: return false;
    case TPL_BOOL: return v->u.b;
    case TPL_INT: return v->u.i != 0;
    case TPL_FLOAT: return v->u.f != 0;
    case TPL_STRING: return v->u.s.n != 0;
    default: return !tpl_has_length(v) || length_of(v) != 0;
    }
}

bool tpl_iterable(const tpl_value *v)
{
    return tpl_has_length(v) || v->kind == TPL_ITERATOR;
}

/* Iterating ------------------------------------------------------------------------------------------- */

static bool view_items(tpl_run *r, const tpl_value *v, tpl_list *l)
{
    const tpl_dict *d = v->u.dict;
    bool pairs = v->kind == TPL_VIEW && strcmp(v->label, "dict_items") == 0;
    bool values = v->kind == TPL_VIEW && strcmp(v->label, "dict_values") == 0;
    for (int64_t i = 0; i < d->n; i++) {
        tpl_value item = values ? d->values[i] : d->keys[i];
        if (pairs && !tpl_pair(r, d->keys[i], d->values[i], &item)) return false;
        if (!tpl_list_add(r, l, item)) return false;
    }
    return true;
}

bool tpl_items(tpl_run *r, const tpl_value *v, tpl_list **items)
{
    if (!tpl_iterable(v)) return tpl_fail(r, RDG_E_MALFORMED, "%s cannot be iterated over", tpl_type_name(v));
    if (v->kind == TPL_LIST || v->kind == TPL_TUPLE) {
        *items = v->u.list;
        return true;
    }
    if (v->kind == TPL_ITERATOR || v->kind == TPL_LOOP) {
        /* A loop is an iterator over what is left of itself; here it hands out a copy without going on. */
        tpl_list *all = v->kind == TPL_LOOP ? v->u.loop->items : v->u.iterator->list;
        int64_t done = v->kind == TPL_LOOP ? v->u.loop->index0 + 1 : v->u.iterator->next;
        if (v->kind == TPL_ITERATOR) v->u.iterator->next = all->n;
        if (!(*items = tpl_alloc(r, 1, sizeof **items))) return false;
        **items = (tpl_list){all->at ? all->at + done : NULL, all->n - done, all->n - done};
        return true;
    }
    int64_t n = length_of(v);
    if (!tpl_charge(r, (size_t)n * 8) || !(*items = tpl_list_new(r, n))) return false;
    switch (v->kind) {
    case TPL_STRING:
        for (size_t i = 0, k; i < v->u.s.n; i += k) {
            k = tpl_char_bytes(v->u.s.p + i);
            tpl_value c = tpl_string(tpl_sub(v->u.s, i, i + k));
            if (!tpl_list_add(r, *items, c)) return false;
        }
        return true;
    case TPL_RANGE:
        for (int64_t i = 0; i < n; i++)
            if (!tpl_list_add(r, *items, tpl_int(v->u.range.start + i * v->u.range.step))) return false;
        return true;
    case TPL_DICT:
    case TPL_VIEW: return view_items(r, v, *items);
    default: return true; /* undefined: empty */
    }
}

/* Comparing ------------------------------------------------------------------------------------------- */

static int compare_numbers(const tpl_value *a, const tpl_value *b)
{
    int64_t i, j;
    if (tpl_as_int(a, &i) && tpl_as_int(b, &j)) return (i > j) - (i < j);
    double x = tpl_as_double(a), y = tpl_as_double(b);
    return (x > y) - (x < y);
}

static bool is_nan(const tpl_value *v)
{
    return v->kind == TPL_FLOAT && isnan(v->u.f);
}

static bool lists_equal(tpl_run *r, const tpl_list *a, const tpl_list *b, bool *out)
{
    *out = a->n == b->n;
    for (int64_t i = 0; *out && i < a->n; i++)
        if (!tpl_equal(r, &a->at[i], &b->at[i], out)) return false;
    return true;
}

static bool dicts_equal(tpl_run *r, const tpl_dict *a, const tpl_dict *b, bool *out)
{
    *out = a->n == b->n;
    for (int64_t i = 0; *out && i < a->n; i++) {
        tpl_value *there;
        if (!tpl_dict_find(r, b, &a->keys[i], &there)) return false;
        if (!there)
            *out = false;
        else if (!tpl_equal(r, &a->values[i], there, out))
            return false;
    }
    return true;
}

bool tpl_same(const tpl_value *a, const tpl_value *b)
{
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case TPL_NONE: return true;
    case TPL_BOOL: return a->u.b == b->u.b;
    case TPL_INT: return a->u.i == b->u.i;
    case TPL_FLOAT: return a->u.f == b->u.f;
    case TPL_STRING: return tpl_str_equal(a->u.s, b->u.s);
    case TPL_LIST:
    case TPL_TUPLE: return a->u.list == b->u.list;
    case TPL_DICT: return a->u.dict == b->u.dict;
    case TPL_NAMESPACE: return a->u.ns == b->u.ns;
    case TPL_MACRO: return a->u.macro == b->u.macro;
    case TPL_FUNCTION: return a->u.function == b->u.function;
    default: return false;
    }
}

bool tpl_equal(tpl_run *r, const tpl_value *a, const tpl_value *b, bool *out)
{
    *out = false;
    if (!tpl_charge(r, 0)) return false;
    if (tpl_is_number(a) && tpl_is_number(b)) {
        *out = !is_nan(a) && !is_nan(b) && compare_numbers(a, b) == 0;
        return true;
    }
    if (a->kind != b->kind) return true;
    if (a->kind == TPL_UNDEFINED) {
        *out = true;
        return true;
    }
    if (a->kind == TPL_STRING) {
        *out = tpl_str_equal(a->u.s, b->u.s);
        return tpl_charge(r, a->u.s.n == b->u.s.n ? a->u.s.n : 0);
    }
    if (a->kind == TPL_RANGE) {
        int64_t n = tpl_range_length(a);
        *out = n == tpl_range_length(b) && (n == 0 || a->u.range.start == b->u.range.start) &&
               (n < 2 || a->u.range.step == b->u.range.step);
        return true;
    }
    if (a->kind != TPL_LIST && a->kind != TPL_TUPLE && a->kind != TPL_DICT) {
        *out = tpl_same(a, b);
        return true;
    }
    if (!tpl_enter(r)) return false;
    bool ok = a->kind == TPL_DICT ? dicts_equal(r, a->u.dict, b->u.dict, out)
                                  : lists_equal(r, a->u.list, b->u.list, out);
    tpl_leave(r);
    return ok;
}

/* *order < 0, 0, > 0; 2: they are not comparable by order, as with NaN. */
bool tpl_less(tpl_run *r, const tpl_value *a, const tpl_value *b, const char *op, int *order)
{
    if (!tpl_charge(r, 0)) return false;
    if (tpl_is_number(a) && tpl_is_number(b)) {
        *order = is_nan(a) || is_nan(b) ? 2 : compare_numbers(a, b);
        return true;
    }
    if (a->kind == TPL_STRING && b->kind == TPL_STRING) {
        int c = tpl_str_compare(a->u.s, b->u.s);
        *order = (c > 0) - (c < 0);
        return tpl_charge(r, RDG_MIN(a->u.s.n, b->u.s.n));
    }
    if ((a->kind == TPL_LIST || a->kind == TPL_TUPLE) && a->kind == b->kind) {
        const tpl_list *x = a->u.list, *y = b->u.list;
        int64_t i = 0;
        for (; i < x->n && i < y->n; i++) {
            bool equal;
            if (!tpl_equal(r, &x->at[i], &y->at[i], &equal)) return false;
            if (equal) continue;
            if (!tpl_enter(r) || !tpl_less(r, &x->at[i], &y->at[i], op, order)) return false;
            tpl_leave(r);
            return true;
        }
        *order = (x->n > y->n) - (x->n < y->n);
        return true;
    }
    if (a->kind == TPL_UNDEFINED) return tpl_undefined_error(r, a);
    if (b->kind == TPL_UNDEFINED) return tpl_undefined_error(r, b);
    return tpl_fail(r, RDG_E_MALFORMED, "'%s' between %s and %s", op, tpl_type_name(a), tpl_type_name(b));
}

bool tpl_contains(tpl_run *r, const tpl_value *haystack, const tpl_value *needle, bool *out)
{
    tpl_list *items;
    *out = false;
    if (haystack->kind == TPL_STRING) {
        size_t at;
        if (needle->kind == TPL_UNDEFINED) return tpl_undefined_error(r, needle);
        if (needle->kind != TPL_STRING)
            return tpl_fail(r, RDG_E_MALFORMED, "'in' a string needs a string on its left, not %s",
                            tpl_type_name(needle));
        if (!tpl_find(r, haystack->u.s, needle->u.s, 0, &at)) return false;
        *out = at != SIZE_MAX;
        return true;
    }
    if (haystack->kind == TPL_DICT) {
        tpl_value *there;
        if (!tpl_hashable(r, needle) || !tpl_dict_find(r, haystack->u.dict, needle, &there)) return false;
        *out = there != NULL;
        return true;
    }
    if (haystack->kind == TPL_NONE || !tpl_iterable(haystack))
        return tpl_fail(r, RDG_E_MALFORMED, "'in' %s", tpl_type_name(haystack));
    if (haystack->kind == TPL_RANGE) {
        int64_t i, n = tpl_range_length(haystack), step = haystack->u.range.step;
        if (tpl_as_int(needle, &i)) {
            int64_t offset = i - haystack->u.range.start;
            *out = n > 0 && offset % step == 0 && offset / step >= 0 && offset / step < n;
            return true;
        }
    }
    if (!tpl_items(r, haystack, &items)) return false;
    for (int64_t i = 0; !*out && i < items->n; i++)
        if (!tpl_equal(r, &items->at[i], needle, out)) return false;
    return true;
}
