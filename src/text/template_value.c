/* What Python's values do: truth, equality, order, iteration, attributes and items, arithmetic.
 * Integers have 64 bits: a result beyond is an error, never a wrong number. */
#include "text/template_internal.h"

#include <math.h>
#include <string.h>

/* Making
 * ------------------------------------------------------------------------------------------------------- */

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

static tpl_value undefined_of(const tpl_value *owner, tpl_why why, tpl_str name)
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

/* Asking
 * ------------------------------------------------------------------------------------------------------- */

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

static int64_t range_length(const tpl_value *v)
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
    case TPL_RANGE: return range_length(v);
    case TPL_LOOP: return v->u.loop->items->n;
    default: return 0;
    }
}

bool tpl_length(tpl_run *r, const tpl_value *v, int64_t *n)
{
    if (!tpl_has_length(v)) return tpl_fail(r, RDG_E_MALFORMED, "%s has no length", tpl_type_name(v));
    *n = length_of(v);
    return tpl_charge(r, v->kind == TPL_STRING ? v->u.s.n / 8 : 0);
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

/* Iterating
 * ---------------------------------------------------------------------------------------------------- */

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

/* Comparing
 * ---------------------------------------------------------------------------------------------------- */

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
        int64_t n = range_length(a);
        *out = n == range_length(b) && (n == 0 || a->u.range.start == b->u.range.start) &&
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
        int64_t i, n = range_length(haystack), step = haystack->u.range.step;
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

/* Attributes and items
 * ----------------------------------------------------------------------------------------- */

static bool bind_method(tpl_run *r, const tpl_value *v, const tpl_function *f, tpl_value *out)
{
    tpl_bound *m = tpl_alloc(r, 1, sizeof *m);
    if (!m) return false;
    m->self = *v;
    m->function = f;
    *out = (tpl_value){.kind = TPL_METHOD, .u.method = m};
    return true;
}

static const tpl_function *method_table(const tpl_value *v)
{
    switch (v->kind) {
    case TPL_STRING: return tpl_string_methods;
    case TPL_LIST: return tpl_list_methods;
    case TPL_TUPLE: return tpl_tuple_methods;
    case TPL_DICT: return tpl_dict_methods;
    case TPL_VIEW: return tpl_view_methods;
    case TPL_LOOP: return tpl_loop_methods;
    case TPL_CYCLER: return tpl_cycler_methods;
    case TPL_INT:
    case TPL_BOOL: return tpl_int_methods;
    case TPL_FLOAT: return tpl_float_methods;
    default: return NULL;
    }
}

/* Methods that Python has and the sandbox takes away because they change their object. */
static bool is_mutator(const tpl_value *v, tpl_str name)
{
    static const char *const list[] = {"append", "clear",  "extend",  "insert",
                                       "pop",    "remove", "reverse", "sort"};
    static const char *const dict[] = {"clear", "pop", "popitem", "setdefault", "update"};
    const char *const *names = v->kind == TPL_LIST ? list : dict;
    int n = v->kind == TPL_LIST ? RDG_COUNTOF(list) : v->kind == TPL_DICT ? RDG_COUNTOF(dict) : 0;
    for (int i = 0; i < n; i++)
        if (tpl_str_is(name, names[i])) return true;
    return false;
}

static bool loop_attr(tpl_run *r, const tpl_loop *l, tpl_str name, tpl_value *out)
{
    int64_t i = l->index0, n = l->items->n;
    (void)r;
    if (tpl_str_is(name, "index"))
        *out = tpl_int(i + 1);
    else if (tpl_str_is(name, "index0"))
        *out = tpl_int(i);
    else if (tpl_str_is(name, "revindex"))
        *out = tpl_int(n - i);
    else if (tpl_str_is(name, "revindex0"))
        *out = tpl_int(n - i - 1);
    else if (tpl_str_is(name, "first"))
        *out = tpl_bool(i == 0);
    else if (tpl_str_is(name, "last"))
        *out = tpl_bool(i == n - 1);
    else if (tpl_str_is(name, "length"))
        *out = tpl_int(n);
    else if (tpl_str_is(name, "depth"))
        *out = tpl_int(l->depth0 + 1);
    else if (tpl_str_is(name, "depth0"))
        *out = tpl_int(l->depth0);
    else if (tpl_str_is(name, "previtem"))
        *out = i > 0 ? l->items->at[i - 1] : tpl_undefined_hint("there is no previous item");
    else if (tpl_str_is(name, "nextitem"))
        *out = i + 1 < n ? l->items->at[i + 1] : tpl_undefined_hint("there is no next item");
    else
        return false;
    return true;
}

/* Attributes that are not methods; false: there is none of that name. */
static bool plain_attr(tpl_run *r, const tpl_value *v, tpl_str name, tpl_value *out)
{
    if (v->kind == TPL_LOOP) return loop_attr(r, v->u.loop, name, out);
    if (v->kind == TPL_NAMESPACE) {
        const tpl_value *there = tpl_scope_get(v->u.ns, name);
        if (there) *out = *there;
        return there != NULL;
    }
    if (v->kind == TPL_MACRO && tpl_str_is(name, "name")) {
        *out = tpl_string(v->u.macro->node->text);
        return true;
    }
    if (v->kind == TPL_TUPLE && v->flag && (tpl_str_is(name, "grouper") || tpl_str_is(name, "list"))) {
        *out = v->u.list->at[name.n == 4];
        return true;
    }
    if (v->kind == TPL_RANGE &&
        (tpl_str_is(name, "start") || tpl_str_is(name, "stop") || tpl_str_is(name, "step"))) {
        *out = tpl_int(name.p[2] == 'a'   ? v->u.range.start
                       : name.p[2] == 'o' ? v->u.range.stop
                                          : v->u.range.step);
        return true;
    }
    if (tpl_is_number(v) && (tpl_str_is(name, "real") || tpl_str_is(name, "imag"))) {
        bool real = name.p[0] == 'r';
        if (v->kind == TPL_FLOAT)
            *out = tpl_float(real ? v->u.f : 0);
        else
            *out = tpl_int(!real ? 0 : v->kind == TPL_BOOL ? v->u.b : v->u.i);
        return true;
    }
    if (v->kind == TPL_CYCLER && tpl_str_is(name, "current")) {
        *out = v->u.cycler->items->at[v->u.cycler->position];
        return true;
    }
    return false;
}

/* An attribute, a method, or an undefined value that says why not. *found: false if v has no such attribute.
 */
static bool attribute(tpl_run *r, const tpl_value *v, tpl_str name, bool *found, tpl_value *out)
{
    *found = true;
    if (v->kind == TPL_UNDEFINED) return tpl_undefined_error(r, v);
    if (plain_attr(r, v, name, out)) return true;
    const tpl_function *table = method_table(v), *f = table ? tpl_function_find(table, name) : NULL;
    if (f) return bind_method(r, v, f, out);
    if (is_mutator(v, name)) {
        *out = undefined_of(v, TPL_WHY_UNSAFE, name);
        return true;
    }
    *found = false;
    *out = undefined_of(v, TPL_WHY_ATTRIBUTE, name);
    return true;
}

bool tpl_get_attr(tpl_run *r, const tpl_value *v, tpl_str name, tpl_value *out)
{
    bool found;
    tpl_value *there;
    if (!attribute(r, v, name, &found, out)) return false;
    if (found || v->kind != TPL_DICT) return true;
    if (!tpl_dict_find_str(r, v->u.dict, name, &there)) return false;
    if (there) *out = *there;
    return true;
}

static bool index_of(int64_t i, int64_t n, int64_t *out)
{
    *out = i < 0 ? i + n : i;
    return *out >= 0 && *out < n;
}

bool tpl_get_item(tpl_run *r, const tpl_value *v, const tpl_value *key, tpl_value *out)
{
    int64_t i;
    bool found;
    if (v->kind == TPL_UNDEFINED) return tpl_undefined_error(r, v);
    if (v->kind == TPL_DICT) {
        tpl_value *there = NULL;
        bool hashable = key->kind != TPL_LIST && key->kind != TPL_DICT;
        if (hashable && !tpl_dict_find(r, v->u.dict, key, &there)) return false;
        if (there) {
            *out = *there;
            return true;
        }
    } else if ((v->kind == TPL_LIST || v->kind == TPL_TUPLE) && tpl_as_int(key, &i)) {
        if (index_of(i, v->u.list->n, &i)) {
            *out = v->u.list->at[i];
            return true;
        }
    } else if (v->kind == TPL_RANGE && tpl_as_int(key, &i)) {
        if (index_of(i, range_length(v), &i)) {
            *out = tpl_int(v->u.range.start + i * v->u.range.step);
            return true;
        }
    } else if (v->kind == TPL_STRING && tpl_as_int(key, &i)) {
        if (!tpl_charge(r, v->u.s.n / 8)) return false;
        if (index_of(i, tpl_chars(v->u.s), &i)) {
            size_t at = tpl_char_offset(v->u.s, i);
            *out = tpl_string(tpl_sub(v->u.s, at, at + tpl_char_bytes(v->u.s.p + at)));
            out->flag = v->flag;
            return true;
        }
    }
    if (key->kind == TPL_STRING) return attribute(r, v, key->u.s, &found, out);
    *out = undefined_of(v, TPL_WHY_ELEMENT, TPL_STR(""));
    return true;
}

/* One bound of a slice, as Python clamps it. */
static int64_t slice_bound(const tpl_value *v, int64_t n, int64_t step, bool is_stop)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1, i = 0;
    if (!v || !tpl_as_int(v, &i)) return (step > 0) == is_stop ? high : low;
    if (i < 0) i = i < -n ? low : RDG_MAX(low, i + n);
    return RDG_MIN(i, high);
}

static bool is_bound(const tpl_value *v)
{
    return !v || v->kind == TPL_NONE || v->kind == TPL_INT || v->kind == TPL_BOOL;
}

bool tpl_get_slice(tpl_run *r, const tpl_value *v, const tpl_value *start, const tpl_value *stop,
                   const tpl_value *step, tpl_value *out)
{
    int64_t n, by = 1;
    if (v->kind == TPL_UNDEFINED) return tpl_undefined_error(r, v);
    if (v->kind != TPL_STRING && v->kind != TPL_LIST && v->kind != TPL_TUPLE && v->kind != TPL_RANGE)
        return tpl_fail(r, RDG_E_MALFORMED, "%s cannot be sliced", tpl_type_name(v));
    if (!is_bound(start) || !is_bound(stop) || !is_bound(step))
        return tpl_fail(r, RDG_E_MALFORMED, "the bounds of a slice must be integers");
    if (step) tpl_as_int(step, &by);
    if (by == 0) return tpl_fail(r, RDG_E_MALFORMED, "a slice's step is zero");
    if (!tpl_length(r, v, &n)) return false;
    by = RDG_MAX(-n - 1, RDG_MIN(by, n + 1));
    int64_t from = slice_bound(start, n, by, false), to = slice_bound(stop, n, by, true);
    int64_t count =
        by > 0 ? (to > from ? (to - from - 1) / by + 1 : 0) : (from > to ? (from - to - 1) / -by + 1 : 0);
    if (v->kind == TPL_RANGE) {
        int64_t base = v->u.range.start, s = v->u.range.step;
        *out = *v;
        out->u.range.start = base + from * s;
        out->u.range.step = s * by;
        out->u.range.stop = base + to * s;
        return true;
    }
    if (v->kind == TPL_STRING && by == 1) {
        size_t a = tpl_char_offset(v->u.s, from),
               z = a + tpl_char_offset(tpl_sub(v->u.s, a, v->u.s.n), count);
        *out = *v;
        out->u.s = tpl_sub(v->u.s, a, z);
        return tpl_charge(r, v->u.s.n / 8);
    }
    tpl_list *items, *l;
    tpl_buffer b = {0};
    if (!tpl_charge(r, (size_t)count * 8) || !tpl_items(r, v, &items) || !(l = tpl_list_new(r, count)))
        return false;
    for (int64_t i = 0; i < count; i++) {
        const tpl_value *item = &items->at[from + i * by];
        if (v->kind == TPL_STRING ? !tpl_put(r, &b, item->u.s) : !tpl_list_add(r, l, *item)) return false;
    }
    *out = v->kind == TPL_STRING ? tpl_string(tpl_buffer_str(&b)) : tpl_list_value(v->kind, l);
    if (v->kind == TPL_STRING) out->flag = v->flag;
    return true;
}

/* Arithmetic
 * --------------------------------------------------------------------------------------------------- */

static const char *op_text(int op)
{
    switch (op) {
    case TOK_ADD: return "+";
    case TOK_SUB: return "-";
    case TOK_MUL: return "*";
    case TOK_DIV: return "/";
    case TOK_FLOORDIV: return "//";
    case TOK_MOD: return "%";
    default: return "**";
    }
}

static bool overflow(tpl_run *r, int op)
{
    return tpl_fail(r, RDG_E_UNSUPPORTED, "the result of '%s' is beyond 64 bits, which is not supported",
                    op_text(op));
}

static bool int_power(tpl_run *r, int64_t a, int64_t b, tpl_value *out)
{
    int64_t result = 1;
    if (b < 0) {
        if (a == 0) return tpl_fail(r, RDG_E_MALFORMED, "zero to a negative power");
        *out = tpl_float(pow((double)a, (double)b));
        return true;
    }
    if (a == 0 || a == 1 || a == -1) {
        *out = tpl_int(b == 0 ? 1 : a == -1 && b % 2 == 0 ? 1 : a);
        return true;
    }
    for (; b > 0; b--)
        if (RDG_MUL_OVERFLOW(result, a, &result)) return overflow(r, TOK_POW); /* within 63 rounds */
    *out = tpl_int(result);
    return true;
}

static bool int_binary(tpl_run *r, int op, int64_t a, int64_t b, tpl_value *out)
{
    int64_t v = 0;
    if ((op == TOK_DIV || op == TOK_FLOORDIV || op == TOK_MOD) && b == 0)
        return tpl_fail(r, RDG_E_MALFORMED, "division by zero");
    switch (op) {
    case TOK_ADD:
        if (RDG_ADD_OVERFLOW(a, b, &v)) return overflow(r, op);
        break;
    case TOK_SUB:
        if (__builtin_sub_overflow(a, b, &v)) return overflow(r, op);
        break;
    case TOK_MUL:
        if (RDG_MUL_OVERFLOW(a, b, &v)) return overflow(r, op);
        break;
    case TOK_DIV: *out = tpl_float((double)a / (double)b); return true;
    case TOK_FLOORDIV:
        if (a == INT64_MIN && b == -1) return overflow(r, op);
        v = a / b - (a % b != 0 && (a < 0) != (b < 0));
        break;
    case TOK_MOD:
        v = b == -1 ? 0 : a % b;
        if (v != 0 && (v < 0) != (b < 0)) v += b;
        break;
    default: return int_power(r, a, b, out);
    }
    *out = tpl_int(v);
    return true;
}

static bool float_binary(tpl_run *r, int op, double a, double b, tpl_value *out)
{
    double v;
    if ((op == TOK_DIV || op == TOK_FLOORDIV || op == TOK_MOD) && b == 0)
        return tpl_fail(r, RDG_E_MALFORMED, "division by zero");
    switch (op) {
    case TOK_ADD: v = a + b; break;
    case TOK_SUB: v = a - b; break;
    case TOK_MUL: v = a * b; break;
    case TOK_DIV: v = a / b; break;
    case TOK_FLOORDIV:
    case TOK_MOD: {
        double rest = fmod(a, b), quotient = (a - rest) / b;
        if (rest != 0 && (rest < 0) != (b < 0)) {
            rest += b;
            quotient -= 1;
        } else if (rest == 0) {
            rest = copysign(0.0, b);
        }
        if (quotient != 0) {
            double whole = floor(quotient);
            quotient = quotient - whole > 0.5 ? whole + 1 : whole;
        } else {
            quotient = copysign(0.0, a / b);
        }
        v = op == TOK_MOD ? rest : quotient;
        break;
    }
    default:
        if (a == 0 && b < 0) return tpl_fail(r, RDG_E_MALFORMED, "zero to a negative power");
        if (a < 0 && b != floor(b))
            return tpl_fail(r, RDG_E_UNSUPPORTED, "complex numbers are not supported");
        v = pow(a, b);
        if (isinf(v) && !isinf(a) && !isinf(b))
            return tpl_fail(r, RDG_E_MALFORMED, "the result of '**' is too large");
    }
    *out = tpl_float(v);
    return true;
}

static bool repeat(tpl_run *r, const tpl_value *v, int64_t times, tpl_value *out)
{
    if (v->kind == TPL_STRING) {
        tpl_buffer b = {0};
        if (!tpl_put_fill(r, &b, v->u.s, times)) return false;
        *out = *v;
        out->u.s = tpl_buffer_str(&b);
        return true;
    }
    int64_t n = v->u.list->n, total;
    if (times < 0) times = 0;
    if (RDG_MUL_OVERFLOW(n, times, &total)) total = INT64_MAX / 64;
    tpl_list *l = tpl_charge(r, (size_t)total * 8) ? tpl_list_new(r, total) : NULL;
    if (!l) return false;
    for (int64_t i = 0; i < total; i++)
        if (!tpl_list_add(r, l, v->u.list->at[i % n])) return false;
    *out = tpl_list_value(v->kind, l);
    return true;
}

static bool add_lists(tpl_run *r, const tpl_value *a, const tpl_value *b, tpl_value *out)
{
    const tpl_list *x = a->u.list, *y = b->u.list;
    tpl_list *l = tpl_charge(r, (size_t)(x->n + y->n) * 8) ? tpl_list_new(r, x->n + y->n) : NULL;
    if (!l) return false;
    for (int64_t i = 0; i < x->n + y->n; i++)
        if (!tpl_list_add(r, l, i < x->n ? x->at[i] : y->at[i - x->n])) return false;
    *out = tpl_list_value(a->kind, l);
    return true;
}

static bool is_sequence(const tpl_value *v)
{
    return v->kind == TPL_STRING || v->kind == TPL_LIST || v->kind == TPL_TUPLE;
}

bool tpl_binary(tpl_run *r, int op, const tpl_value *a, const tpl_value *b, tpl_value *out)
{
    int64_t i, j;
    if (a->kind == TPL_STRING && op == TOK_MOD) {
        unsigned flag = a->flag;
        if (!tpl_percent(r, a->u.s, b, out)) return false;
        out->flag = flag;
        return true;
    }
    if (a->kind == TPL_UNDEFINED) return tpl_undefined_error(r, a);
    if (b->kind == TPL_UNDEFINED) return tpl_undefined_error(r, b);
    if (tpl_is_number(a) && tpl_is_number(b)) {
        if (tpl_as_int(a, &i) && tpl_as_int(b, &j)) return int_binary(r, op, i, j, out);
        return float_binary(r, op, tpl_as_double(a), tpl_as_double(b), out);
    }
    if (op == TOK_ADD && a->kind == TPL_STRING && b->kind == TPL_STRING) {
        tpl_value x = *a, y = *b; /* escaped text escapes its neighbour */
        bool markup = a->flag || b->flag;
        if (markup && (!tpl_escape(r, a, &x) || !tpl_escape(r, b, &y))) return false;
        *out = tpl_string(TPL_STR(""));
        out->flag = markup;
        return tpl_concat(r, x.u.s, y.u.s, &out->u.s);
    }
    if (op == TOK_ADD && a->kind == b->kind && (a->kind == TPL_LIST || a->kind == TPL_TUPLE))
        return add_lists(r, a, b, out);
    if (op == TOK_MUL && is_sequence(a) && tpl_as_int(b, &j)) return repeat(r, a, j, out);
    if (op == TOK_MUL && is_sequence(b) && tpl_as_int(a, &i)) return repeat(r, b, i, out);
    return tpl_fail(r, RDG_E_MALFORMED, "'%s' between %s and %s", op_text(op), tpl_type_name(a),
                    tpl_type_name(b));
}

bool tpl_negate(tpl_run *r, const tpl_value *a, bool minus, tpl_value *out)
{
    int64_t i;
    if (a->kind == TPL_UNDEFINED) return tpl_undefined_error(r, a);
    if (a->kind == TPL_FLOAT) {
        *out = tpl_float(minus ? -a->u.f : a->u.f);
    } else if (tpl_as_int(a, &i)) {
        if (minus && i == INT64_MIN) return overflow(r, TOK_SUB);
        *out = tpl_int(minus ? -i : i);
    } else {
        return tpl_fail(r, RDG_E_MALFORMED, "'%s' before %s", minus ? "-" : "+", tpl_type_name(a));
    }
    return true;
}

/* Binding arguments
 * -------------------------------------------------------------------------------------------- */

bool tpl_given(const tpl_value *v)
{
    return !(v->kind == TPL_UNDEFINED && v->flag == TPL_WHY_HINT && v->u.s.p == NULL);
}

bool tpl_bind(tpl_run *r, const char *what, const tpl_args *args, const char *spec, tpl_value *v)
{
    int i = 0, used = 0;
    for (const char *at = spec; *at; i++) {
        size_t n = strcspn(at, ",");
        bool must = at[n - 1] == '!';
        tpl_str name = {at, must ? n - 1 : n, NULL};
        v[i] = (tpl_value){.kind = TPL_UNDEFINED, .flag = TPL_WHY_HINT};
        if (i < args->n) v[i] = args->at[i];
        for (int k = 0; k < args->n_named; k++) {
            if (!tpl_str_equal(args->names[k], name)) continue;
            if (i < args->n)
                return tpl_fail(r, RDG_E_MALFORMED, "%s got '%.*s' twice", what, (int)name.n, name.p);
            v[i] = args->named[k];
            used++;
        }
        if (must && !tpl_given(&v[i]))
            return tpl_fail(r, RDG_E_MALFORMED, "%s needs the argument '%.*s'", what, (int)name.n, name.p);
        at += n;
        if (*at == ',') at++;
    }
    if (args->n > i)
        return tpl_fail(r, RDG_E_MALFORMED, "%s takes at most %d arguments, not %d", what, i, args->n);
    for (int k = 0; used < args->n_named && k < args->n_named; k++) {
        const char *found = NULL;
        for (const char *at = spec; *at && !found; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
            size_t n = strcspn(at, ",!");
            if (args->names[k].n == n && memcmp(at, args->names[k].p, n) == 0) found = at;
        }
        if (!found)
            return tpl_fail(r, RDG_E_MALFORMED, "%s has no argument '%.*s'", what,
                            (int)RDG_MIN(args->names[k].n, (size_t)48), args->names[k].p);
    }
    return true;
}
