/* Methods of lists, tuples, dicts, numbers, loops and cyclers; the global functions; strftime. */
#include "text/template_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RANGE_BOUND = 1000000000 };

#define METHOD(name) static bool name(tpl_run *r, const tpl_value *self, const tpl_args *args, tpl_value *out)

const tpl_function *tpl_function_find(const tpl_function *table, tpl_str name)
{
    for (; table->name; table++)
        if (tpl_str_is(name, table->name)) return table;
    return NULL;
}

/* Dicts ----------------------------------------------------------------------------------------------- */

METHOD(d_get)
{
    tpl_value v[2], *there;
    if (!tpl_bind(r, "get", args, "key!,default", v) || !tpl_hashable(r, &v[0]) ||
        !tpl_dict_find(r, self->u.dict, &v[0], &there))
        return false;
    *out = there ? *there : tpl_given(&v[1]) ? v[1] : tpl_none();
    return true;
}

static bool view(tpl_run *r, const char *what, const char *label, const tpl_value *self, const tpl_args *args,
                 tpl_value *out)
{
    *out = (tpl_value){.kind = TPL_VIEW, .label = label, .u.dict = self->u.dict};
    return tpl_no_args(r, what, args);
}
METHOD(d_items)
{
    return view(r, "items", "dict_items", self, args, out);
}
METHOD(d_keys)
{
    return view(r, "keys", "dict_keys", self, args, out);
}
METHOD(d_values)
{
    return view(r, "values", "dict_values", self, args, out);
}
METHOD(m_copy) /* nothing changes, so the same will do */
{
    *out = *self;
    return tpl_no_args(r, "copy", args);
}

const tpl_function tpl_dict_methods[] = {
    {"get", d_get},   {"items", d_items}, {"keys", d_keys}, {"values", d_values},
    {"copy", m_copy}, {"fromkeys", NULL}, {NULL, NULL},
};
const tpl_function tpl_view_methods[] = {{"isdisjoint", NULL}, {"mapping", NULL}, {NULL, NULL}};

/* Lists and tuples ------------------------------------------------------------------------------------ */

METHOD(l_count)
{
    tpl_value v[1];
    int64_t n = 0;
    if (!tpl_bind(r, "count", args, "value!", v)) return false;
    for (int64_t i = 0; i < self->u.list->n; i++) {
        bool equal;
        if (!tpl_equal(r, &self->u.list->at[i], &v[0], &equal)) return false;
        n += equal;
    }
    *out = tpl_int(n);
    return true;
}

METHOD(l_index)
{
    tpl_value v[1];
    if (!tpl_bind(r, "index", args, "value!", v)) return false;
    for (int64_t i = 0; i < self->u.list->n; i++) {
        bool equal;
        if (!tpl_equal(r, &self->u.list->at[i], &v[0], &equal)) return false;
        if (!equal) continue;
        *out = tpl_int(i);
        return true;
    }
    return tpl_fail(r, RDG_E_MALFORMED, "index: the value is not in the list");
}

const tpl_function tpl_list_methods[] = {
    {"count", l_count}, {"index", l_index}, {"copy", m_copy}, {NULL, NULL}};
const tpl_function tpl_tuple_methods[] = {{"count", l_count}, {"index", l_index}, {NULL, NULL}};

/* Numbers --------------------------------------------------------------------------------------------- */

METHOD(i_bit_length)
{
    int64_t i = 0, n = 0;
    if (!tpl_no_args(r, "bit_length", args) || !tpl_as_int(self, &i)) return false;
    for (uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i; u; u >>= 1) n++;
    *out = tpl_int(n);
    return true;
}
METHOD(f_is_integer)
{
    *out = tpl_bool(isfinite(self->u.f) && floor(self->u.f) == self->u.f);
    return tpl_no_args(r, "is_integer", args);
}

const tpl_function tpl_int_methods[] = {{"bit_length", i_bit_length}, {NULL, NULL}};
const tpl_function tpl_float_methods[] = {{"is_integer", f_is_integer}, {NULL, NULL}};

/* Loops, cyclers -------------------------------------------------------------------------------------- */

METHOD(loop_cycle)
{
    if (args->n == 0 || args->n_named)
        return tpl_fail(r, RDG_E_MALFORMED, "loop.cycle needs values to cycle through");
    *out = args->at[self->u.loop->index0 % args->n];
    return true;
}

METHOD(loop_changed)
{
    tpl_loop *l = self->u.loop;
    tpl_list *now = tpl_list_new(r, args->n);
    tpl_value a, b;
    bool equal = false;
    if (!now) return false;
    for (int i = 0; i < args->n; i++)
        if (!tpl_list_add(r, now, args->at[i])) return false;
    a = tpl_list_value(TPL_TUPLE, now);
    if (l->changed) {
        b = tpl_list_value(TPL_TUPLE, l->changed);
        if (!tpl_equal(r, &a, &b, &equal)) return false;
    }
    l->changed = now;
    *out = tpl_bool(!equal);
    return true;
}

METHOD(cycler_next)
{
    tpl_cycler *c = self->u.cycler;
    *out = c->items->at[c->position];
    c->position = (c->position + 1) % c->items->n;
    return tpl_no_args(r, "next", args);
}
METHOD(cycler_reset)
{
    self->u.cycler->position = 0;
    *out = tpl_none();
    return tpl_no_args(r, "reset", args);
}

const tpl_function tpl_loop_methods[] = {{"cycle", loop_cycle}, {"changed", loop_changed}, {NULL, NULL}};
const tpl_function tpl_cycler_methods[] = {{"next", cycler_next}, {"reset", cycler_reset}, {NULL, NULL}};

/* Global functions ------------------------------------------------------------------------------------ */

METHOD(g_range)
{
    int64_t v[3] = {0, 0, 1};
    (void)self;
    if (args->n < 1 || args->n > 3 || args->n_named)
        return tpl_fail(r, RDG_E_MALFORMED, "range takes one to three numbers");
    for (int i = 0; i < args->n; i++) {
        if (args->at[i].kind == TPL_UNDEFINED) return tpl_undefined_error(r, &args->at[i]);
        if (!tpl_as_int(&args->at[i], &v[i]))
            return tpl_fail(r, RDG_E_MALFORMED, "range of %s", tpl_type_name(&args->at[i]));
        if (v[i] < -RANGE_BOUND || v[i] > RANGE_BOUND)
            return tpl_fail(r, RDG_E_LIMIT, "range: a bound of %lld", (long long)v[i]);
    }
    if (args->n == 1) {
        v[1] = v[0];
        v[0] = 0;
    }
    if (v[2] == 0) return tpl_fail(r, RDG_E_MALFORMED, "range with a step of zero");
    *out = (tpl_value){.kind = TPL_RANGE, .u.range = {v[0], v[1], v[2]}};
    int64_t n;
    if (!tpl_length(r, out, &n)) return false;
    return n <= r->limits->max_range || tpl_fail(r, RDG_E_LIMIT, "range of %lld elements; the limit is %lld",
                                                 (long long)n, (long long)r->limits->max_range);
}

/* The entries of a dict, or of pairs. */
static bool add_entries(tpl_run *r, tpl_dict *d, const tpl_value *from)
{
    tpl_list *items, *pair;
    if (from->kind == TPL_DICT) {
        for (int64_t i = 0; i < from->u.dict->n; i++)
            if (!tpl_dict_set(r, d, from->u.dict->keys[i], from->u.dict->values[i])) return false;
        return true;
    }
    if (!tpl_items(r, from, &items)) return false;
    for (int64_t i = 0; i < items->n; i++) {
        if (!tpl_items(r, &items->at[i], &pair)) return false;
        if (pair->n != 2)
            return tpl_fail(r, RDG_E_MALFORMED, "dict: an element of %lld values where a pair is due",
                            (long long)pair->n);
        if (!tpl_dict_set(r, d, pair->at[0], pair->at[1])) return false;
    }
    return true;
}

METHOD(g_dict)
{
    tpl_dict *d = tpl_dict_new(r, args->n_named);
    (void)self;
    if (args->n > 1) return tpl_fail(r, RDG_E_MALFORMED, "dict takes at most one positional argument");
    if (!d || (args->n && !add_entries(r, d, &args->at[0]))) return false;
    for (int i = 0; i < args->n_named; i++)
        if (!tpl_dict_set(r, d, tpl_string(args->names[i]), args->named[i])) return false;
    *out = (tpl_value){.kind = TPL_DICT, .u.dict = d};
    return true;
}

METHOD(g_namespace)
{
    tpl_value entries;
    tpl_scope *s = tpl_alloc(r, 1, sizeof *s);
    if (!s || !g_dict(r, self, args, &entries)) return false;
    const tpl_dict *d = entries.u.dict;
    for (int64_t i = 0; i < d->n; i++) {
        if (d->keys[i].kind != TPL_STRING)
            return tpl_fail(r, RDG_E_UNSUPPORTED, "namespace: a name that is %s", tpl_type_name(&d->keys[i]));
        if (!tpl_scope_set(r, s, d->keys[i].u.s, d->values[i])) return false;
    }
    *out = (tpl_value){.kind = TPL_NAMESPACE, .u.ns = s};
    return true;
}

static bool cycler_new(tpl_run *r, tpl_kind kind, const tpl_value *items, int n, tpl_value *out)
{
    tpl_cycler *c = tpl_alloc(r, 1, sizeof *c);
    if (!c || !(c->items = tpl_list_new(r, n))) return false;
    for (int i = 0; i < n; i++)
        if (!tpl_list_add(r, c->items, items[i])) return false;
    *out = (tpl_value){.kind = kind, .u.cycler = c};
    return true;
}

METHOD(g_cycler)
{
    (void)self;
    if (args->n == 0 || args->n_named)
        return tpl_fail(r, RDG_E_MALFORMED, "cycler needs values to cycle through");
    return cycler_new(r, TPL_CYCLER, args->at, args->n, out);
}

METHOD(g_joiner)
{
    tpl_value v[1];
    tpl_str s;
    (void)self;
    if (!tpl_bind(r, "joiner", args, "sep", v)) return false;
    if (!tpl_given(&v[0])) v[0] = tpl_string_z(", ");
    if (!tpl_str_of(r, &v[0], &s)) return false;
    v[0] = tpl_string(s);
    return cycler_new(r, TPL_JOINER, v, 1, out);
}

METHOD(g_raise)
{
    tpl_value v[1];
    tpl_str s;
    (void)self;
    (void)out;
    if (!tpl_bind(r, "raise_exception", args, "message!", v) || !tpl_str_of(r, &v[0], &s)) return false;
    return tpl_fail(r, RDG_E_UNSUPPORTED, "the template refuses the conversation: %.*s",
                    (int)RDG_MIN(s.n, (size_t)600), s.p);
}

/* Time ------------------------------------------------------------------------------------------------ */

static int day_of_year(const rdg_template_time *t)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    bool leap = (t->year % 4 == 0 && t->year % 100 != 0) || t->year % 400 == 0;
    return before[t->month - 1] + t->day + (leap && t->month > 2);
}

/* 0 = Sunday */
static int day_of_week(const rdg_template_time *t)
{
    int y = t->year - 1;
    return (int)(((int64_t)y * 365 + y / 4 - y / 100 + y / 400 + day_of_year(t)) % 7);
}

static bool valid_time(const rdg_template_time *t)
{
    static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return t->year >= 1 && t->year <= 9999 && t->month >= 1 && t->month <= 12 && t->day >= 1 &&
           t->day <= days[t->month - 1] && t->hour >= 0 && t->hour <= 23 && t->minute >= 0 &&
           t->minute <= 59 && t->second >= 0 && t->second <= 60;
}

static const char *const weekdays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                       "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                     "July",    "August",   "September", "October", "November", "December"};

/* One directive; false: there is none of that letter. plain: without leading zeros ("%-d"). */
static bool time_part(const rdg_template_time *t, char c, bool plain, char out[64])
{
    int hour12 = t->hour % 12 ? t->hour % 12 : 12, week = day_of_week(t), of_year = day_of_year(t);
    const struct {
        char c;
        int value, width;
    } numbers[] = {
        {'d', t->day, 2},
        {'m', t->month, 2},
        {'H', t->hour, 2},
        {'I', hour12, 2},
        {'M', t->minute, 2},
        {'S', t->second, 2},
        {'y', t->year % 100, 2},
        {'Y', t->year, 4},
        {'j', of_year, 3},
        {'w', week, 1},
        {'u', week ? week : 7, 1},
        {'f', 0, 6},
        {'U', (of_year + 6 - week) / 7, 2},
        {'W', (of_year + 6 - (week + 6) % 7) / 7, 2},
        {'C', t->year / 100, 2},
    };
    for (int i = 0; i < RDG_COUNTOF(numbers); i++) {
        if (numbers[i].c != c) continue;
        snprintf(out, 64, "%0*d", plain ? 1 : numbers[i].width, numbers[i].value);
        return true;
    }
    switch (c) {
    case 'B': snprintf(out, 64, "%s", months[t->month - 1]); break;
    case 'b':
    case 'h': snprintf(out, 64, "%.3s", months[t->month - 1]); break;
    case 'A': snprintf(out, 64, "%s", weekdays[week]); break;
    case 'a': snprintf(out, 64, "%.3s", weekdays[week]); break;
    case 'p': snprintf(out, 64, "%s", t->hour < 12 ? "AM" : "PM"); break;
    case 'e': snprintf(out, 64, "%*d", plain ? 1 : 2, t->day); break;
    case 'F': snprintf(out, 64, "%04d-%02d-%02d", t->year, t->month, t->day); break;
    case 'T':
    case 'X': snprintf(out, 64, "%02d:%02d:%02d", t->hour, t->minute, t->second); break;
    case 'R': snprintf(out, 64, "%02d:%02d", t->hour, t->minute); break;
    case 'D':
    case 'x': snprintf(out, 64, "%02d/%02d/%02d", t->month, t->day, t->year % 100); break;
    case 'c':
        snprintf(out, 64, "%.3s %.3s %2d %02d:%02d:%02d %d", weekdays[week], months[t->month - 1], t->day,
                 t->hour, t->minute, t->second, t->year);
        break;
    case 'n': snprintf(out, 64, "\n"); break;
    case 't': snprintf(out, 64, "\t"); break;
    case '%': snprintf(out, 64, "%%"); break;
    case 'Z':
    case 'z': out[0] = 0; break; /* the time has no zone */
    default: return false;
    }
    return true;
}

METHOD(g_strftime_now)
{
    const rdg_template_time *t = &r->input->now;
    tpl_value v[1];
    tpl_buffer b = {0};
    tpl_str s;
    (void)self;
    if (!tpl_bind(r, "strftime_now", args, "format!", v) || !tpl_str_of(r, &v[0], &s) || !tpl_charge(r, s.n))
        return false;
    if (!valid_time(t)) return tpl_fail(r, RDG_E_ARGUMENT, "strftime_now: the caller gave no valid time");
    for (size_t i = 0; i < s.n;) {
        char text[64];
        size_t start = i;
        while (i < s.n && s.p[i] != '%') i++;
        if (!tpl_put(r, &b, tpl_sub(s, start, i))) return false;
        if (i >= s.n) break;
        bool plain = i + 1 < s.n && s.p[i + 1] == '-';
        i += 1 + plain;
        if (i >= s.n || !time_part(t, s.p[i], plain, text))
            return tpl_fail(r, RDG_E_UNSUPPORTED, "strftime_now: the directive '%%%c' is not supported",
                            i < s.n ? s.p[i] : ' ');
        if (!tpl_put_z(r, &b, text)) return false;
        i++;
    }
    *out = tpl_string(tpl_buffer_str(&b));
    return true;
}

const tpl_function tpl_globals[] = {
    {"range", g_range},
    {"dict", g_dict},
    {"namespace", g_namespace},
    {"cycler", g_cycler},
    {"joiner", g_joiner},
    {"raise_exception", g_raise},
    {"strftime_now", g_strftime_now},
    {"lipsum", NULL},
    {NULL, NULL},
};
