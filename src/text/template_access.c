/* Attributes, subscripts and slices; arithmetic; the binding of arguments to parameters.
 * Integers have 64 bits: a result beyond is an error, never a wrong number. */
#include "text/template_internal.h"

#include <math.h>
#include <string.h>

/* Attributes and items -------------------------------------------------------------------------------- */

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
        *out = tpl_undefined_of(v, TPL_WHY_UNSAFE, name);
        return true;
    }
    *found = false;
    *out = tpl_undefined_of(v, TPL_WHY_ATTRIBUTE, name);
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
        if (index_of(i, tpl_range_length(v), &i)) {
            *out = tpl_int(v->u.range.start + i * v->u.range.step);
            return true;
        }
    } else if (v->kind == TPL_STRING && tpl_as_int(key, &i)) {
        if (!tpl_charge(r, 2 * v->u.s.n)) return false;
        if (index_of(i, tpl_chars(v->u.s), &i)) {
            size_t at = tpl_char_offset(v->u.s, i);
            *out = tpl_string(tpl_sub(v->u.s, at, at + tpl_char_bytes(v->u.s.p + at)));
            out->flag = v->flag;
            return true;
        }
    }
    if (key->kind == TPL_STRING) return attribute(r, v, key->u.s, &found, out);
    *out = tpl_undefined_of(v, TPL_WHY_ELEMENT, TPL_STR(""));
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
        return tpl_charge(r, v->u.s.n);
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

/* Arithmetic ------------------------------------------------------------------------------------------ */

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

/* Binding arguments ----------------------------------------------------------------------------------- */

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

bool tpl_switched_on(const tpl_value *v)
{
    return tpl_given(v) && tpl_truth(v);
}

bool tpl_no_args(tpl_run *r, const char *what, const tpl_args *args)
{
    return args->n + args->n_named == 0 || tpl_fail(r, RDG_E_MALFORMED, "%s takes no arguments", what);
}

bool tpl_want_str(tpl_run *r, const char *what, const tpl_value *v, tpl_str *out)
{
    *out = TPL_STR("");
    if (v->kind == TPL_UNDEFINED) return tpl_undefined_error(r, v);
    if (v->kind != TPL_STRING)
        return tpl_fail(r, RDG_E_MALFORMED, "%s needs a string, not %s", what, tpl_type_name(v));
    *out = v->u.s;
    return true;
}

bool tpl_want_int(tpl_run *r, const char *what, const tpl_value *v, int64_t *out)
{
    if (v->kind == TPL_UNDEFINED) return tpl_undefined_error(r, v);
    return tpl_as_int(v, out) ||
           tpl_fail(r, RDG_E_MALFORMED, "%s needs an integer, not %s", what, tpl_type_name(v));
}

bool tpl_give(tpl_str s, unsigned flag, tpl_value *out)
{
    *out = tpl_string(s);
    out->flag = flag;
    return true;
}
