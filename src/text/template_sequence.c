/* Filters on sequences: sorting, grouping, batches, mapping and selecting, joining. */
#include "text/template_internal.h"

#include <string.h>

#define FILTER(name) bool name(tpl_run *r, const tpl_value *self, const tpl_args *args, tpl_value *out)

/* Lookups in items ------------------------------------------------------------------------------------ */

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
        if (digits && end > i && end - i < 18 && tpl_parse_int(key.u.s, 10, &number, &too_big))
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

FILTER(tpl_f_sort)
{
    tpl_value v[3];
    tpl_list *items, *keys, *sorted;
    if (!tpl_bind(r, "sort", args, "reverse,case_sensitive,attribute", v) || !tpl_items(r, self, &items))
        return false;
    if (!sort_keys(r, items, &v[2], !tpl_switched_on(&v[1]), sort_tuple, &keys) ||
        !sort_items(r, items, keys, tpl_switched_on(&v[0]), &sorted))
        return false;
    *out = tpl_list_value(TPL_LIST, sorted);
    return true;
}

FILTER(tpl_f_dictsort)
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
        !sort_keys(r, items, &place, !tpl_switched_on(&v[0]), sort_key, &keys) ||
        !sort_items(r, items, keys, tpl_switched_on(&v[2]), &sorted))
        return false;
    *out = tpl_list_value(TPL_LIST, sorted);
    return true;
}

FILTER(tpl_f_unique)
{
    tpl_value v[2];
    tpl_list *items, *keys, *kept = tpl_list_new(r, 4);
    tpl_dict *seen = tpl_dict_new(r, 4);
    if (!kept || !seen || !tpl_bind(r, "unique", args, "case_sensitive,attribute", v) ||
        !tpl_items(r, self, &items) || !sort_keys(r, items, &v[1], !tpl_switched_on(&v[0]), sort_key, &keys))
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
    if (!sort_keys(r, items, &v[1], !tpl_switched_on(&v[0]), sort_key, &keys)) return false;
    for (int64_t i = 1; i < items->n; i++) {
        int order;
        if (!tpl_less(r, &keys->at[i], &keys->at[best], sign < 0 ? "<" : ">", &order)) return false;
        if (order == sign) best = i;
    }
    *out = items->at[best];
    return true;
}
FILTER(tpl_f_min)
{
    return extreme(r, "min", self, args, -1, out);
}
FILTER(tpl_f_max)
{
    return extreme(r, "max", self, args, 1, out);
}

FILTER(tpl_f_sum)
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

FILTER(tpl_f_groupby)
{
    tpl_value v[3];
    tpl_list *items, *keys, *sorted, *groups = tpl_list_new(r, 4), *group = NULL;
    if (!groups || !tpl_bind(r, "groupby", args, "attribute!,default,case_sensitive", v) ||
        !tpl_items(r, self, &items))
        return false;
    bool fold = !tpl_switched_on(&v[2]);
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

/* Sequences ------------------------------------------------------------------------------------------- */

FILTER(tpl_f_length)
{
    int64_t n;
    if (!tpl_no_args(r, "length", args) || !tpl_length(r, self, &n)) return false;
    *out = tpl_int(n);
    return true;
}

static bool end_item(tpl_run *r, const char *what, const tpl_value *self, const tpl_args *args, bool last,
                     tpl_value *out)
{
    tpl_list *items;
    if (!tpl_no_args(r, what, args)) return false;
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
FILTER(tpl_f_first)
{
    return end_item(r, "first", self, args, false, out);
}
FILTER(tpl_f_last)
{
    return end_item(r, "last", self, args, true, out);
}

FILTER(tpl_f_list)
{
    tpl_list *items;
    if (!tpl_no_args(r, "list", args) || !tpl_items(r, self, &items)) return false;
    *out = tpl_list_value(TPL_LIST, items);
    return true;
}

FILTER(tpl_f_items)
{
    tpl_list *items = tpl_list_new(r, 0);
    tpl_value v = {.kind = TPL_VIEW, .label = "dict_items"};
    if (!tpl_no_args(r, "items", args) || !items) return false;
    if (self->kind == TPL_DICT) {
        v.u.dict = self->u.dict;
        if (!tpl_items(r, &v, &items)) return false;
    } else if (self->kind != TPL_UNDEFINED) {
        return tpl_fail(r, RDG_E_MALFORMED, "items of %s, not of a dict", tpl_type_name(self));
    }
    return tpl_iterator_value(r, items, "generator", out);
}

FILTER(tpl_f_reverse)
{
    tpl_list *items, *l;
    tpl_value step = tpl_int(-1);
    if (!tpl_no_args(r, "reverse", args)) return false;
    if (self->kind == TPL_STRING) return tpl_get_slice(r, self, NULL, NULL, &step, out);
    if (!tpl_items(r, self, &items) || !(l = tpl_list_new(r, items->n))) return false;
    for (int64_t i = items->n - 1; i >= 0; i--)
        if (!tpl_list_add(r, l, items->at[i])) return false;
    return tpl_iterator_value(r, l, "list_reverseiterator", out);
}

FILTER(tpl_f_join)
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
    return tpl_join(r, separator, l, &s) && tpl_give(s, 0, out);
}

FILTER(tpl_f_default)
{
    tpl_value v[2];
    if (!tpl_bind(r, "default", args, "default_value,boolean", v)) return false;
    bool takes = self->kind == TPL_UNDEFINED || (tpl_switched_on(&v[1]) && !tpl_truth(self));
    *out = !takes ? *self : tpl_given(&v[0]) ? v[0] : tpl_string_z("");
    return true;
}

FILTER(tpl_f_attr)
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
FILTER(tpl_f_batch)
{
    tpl_value v[2];
    tpl_list *items, *batches = tpl_list_new(r, 4), *batch = NULL;
    int64_t size;
    if (!batches || !tpl_bind(r, "batch", args, "linecount!,fill_with", v) ||
        !tpl_want_int(r, "batch", &v[0], &size) || !tpl_items(r, self, &items))
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
FILTER(tpl_f_slice)
{
    tpl_value v[2];
    tpl_list *items, *slices = tpl_list_new(r, 4);
    int64_t n, at = 0;
    if (!slices || !tpl_bind(r, "slice", args, "slices!,fill_with", v) ||
        !tpl_want_int(r, "slice", &v[0], &n) || !tpl_items(r, self, &items))
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

/* The arguments without the first few positional ones. */
static tpl_args args_from(const tpl_args *args, int first)
{
    tpl_args rest = *args;
    rest.n = args->n > first ? args->n - first : 0;
    rest.at = rest.n ? args->at + first : NULL;
    return rest;
}

/* Mapping and selecting ------------------------------------------------------------------------------- */

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

FILTER(tpl_f_map)
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
    tpl_args rest = args_from(args, 1);
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
    tpl_args rest = args_from(args, used + 1);
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
FILTER(tpl_f_select)
{
    return choose(r, "select", self, args, false, true, out);
}
FILTER(tpl_f_reject)
{
    return choose(r, "reject", self, args, false, false, out);
}
FILTER(tpl_f_selectattr)
{
    return choose(r, "selectattr", self, args, true, true, out);
}
FILTER(tpl_f_rejectattr)
{
    return choose(r, "rejectattr", self, args, true, false, out);
}
