/* Tests: what stands behind "is". */
#include "text/template_internal.h"

#define TEST(name) static bool name(tpl_run *r, const tpl_value *self, const tpl_args *args, bool *out)

static bool no_args(tpl_run *r, const tpl_args *args)
{
    return args->n + args->n_named == 0 || tpl_fail(r, RDG_E_MALFORMED, "this test takes no argument");
}

#define KIND_TEST(name, condition)                                                                           \
    TEST(name)                                                                                               \
    {                                                                                                        \
        *out = (condition);                                                                                  \
        return no_args(r, args);                                                                             \
    }
KIND_TEST(t_defined, self->kind != TPL_UNDEFINED)
KIND_TEST(t_undefined, self->kind == TPL_UNDEFINED)
KIND_TEST(t_none, self->kind == TPL_NONE)
KIND_TEST(t_boolean, self->kind == TPL_BOOL)
KIND_TEST(t_true, self->kind == TPL_BOOL && self->u.b)
KIND_TEST(t_false, self->kind == TPL_BOOL && !self->u.b)
KIND_TEST(t_integer, self->kind == TPL_INT)
KIND_TEST(t_float, self->kind == TPL_FLOAT)
KIND_TEST(t_number, tpl_is_number(self))
KIND_TEST(t_string, self->kind == TPL_STRING)
KIND_TEST(t_mapping, self->kind == TPL_DICT)
KIND_TEST(t_iterable, tpl_iterable(self))
KIND_TEST(t_sequence, tpl_has_length(self) && self->kind != TPL_VIEW && self->kind != TPL_LOOP)
KIND_TEST(t_escaped, self->kind == TPL_STRING && self->flag)
KIND_TEST(t_callable, self->kind == TPL_MACRO || self->kind == TPL_FUNCTION || self->kind == TPL_METHOD ||
                          self->kind == TPL_UNDEFINED || self->kind == TPL_JOINER || self->kind == TPL_LOOP)

static bool modulo_is(tpl_run *r, const tpl_value *self, const tpl_value *by, int64_t rest, bool *out)
{
    tpl_value m, want = tpl_int(rest);
    return tpl_binary(r, TOK_MOD, self, by, &m) && tpl_equal(r, &m, &want, out);
}
TEST(t_odd)
{
    tpl_value two = tpl_int(2);
    return no_args(r, args) && modulo_is(r, self, &two, 1, out);
}
TEST(t_even)
{
    tpl_value two = tpl_int(2);
    return no_args(r, args) && modulo_is(r, self, &two, 0, out);
}
TEST(t_divisibleby)
{
    tpl_value v[1];
    return tpl_bind(r, "divisibleby", args, "num!", v) && modulo_is(r, self, &v[0], 0, out);
}

static bool case_is(tpl_run *r, const tpl_value *self, const tpl_args *args, bool upper, bool *out)
{
    tpl_str s;
    if (!no_args(r, args) || !tpl_str_of(r, self, &s) || !tpl_charge(r, s.n)) return false;
    *out = tpl_is_case(s, upper);
    return true;
}
TEST(t_upper)
{
    return case_is(r, self, args, true, out);
}
TEST(t_lower)
{
    return case_is(r, self, args, false, out);
}

TEST(t_in)
{
    tpl_value v[1];
    return tpl_bind(r, "in", args, "seq!", v) && tpl_contains(r, &v[0], self, out);
}
TEST(t_sameas)
{
    tpl_value v[1];
    if (!tpl_bind(r, "sameas", args, "other!", v)) return false;
    *out = tpl_same(self, &v[0]);
    return true;
}
TEST(t_filter)
{
    *out = self->kind == TPL_STRING && tpl_function_find(tpl_filters, self->u.s) != NULL;
    return no_args(r, args);
}
TEST(t_test)
{
    *out = self->kind == TPL_STRING && tpl_test_find(self->u.s) != NULL;
    return no_args(r, args);
}

/* Comparisons by name */
static bool compare(tpl_run *r, const tpl_value *self, const tpl_args *args, const char *op, bool *out)
{
    tpl_value v[1];
    int order;
    if (!tpl_bind(r, op, args, "other!", v)) return false;
    if (op[0] == '=' || op[0] == '!') {
        if (!tpl_equal(r, self, &v[0], out)) return false;
        *out = *out == (op[0] == '=');
        return true;
    }
    if (!tpl_less(r, self, &v[0], op, &order)) return false;
    bool or_equal = op[1] == '=';
    *out = order != 2 && ((or_equal && order == 0) || (op[0] == '<' ? order < 0 : order > 0));
    return true;
}
TEST(t_eq)
{
    return compare(r, self, args, "==", out);
}
TEST(t_ne)
{
    return compare(r, self, args, "!=", out);
}
TEST(t_lt)
{
    return compare(r, self, args, "<", out);
}
TEST(t_le)
{
    return compare(r, self, args, "<=", out);
}
TEST(t_gt)
{
    return compare(r, self, args, ">", out);
}
TEST(t_ge)
{
    return compare(r, self, args, ">=", out);
}

const tpl_test tpl_tests[] = {
    {"defined", t_defined},
    {"undefined", t_undefined},
    {"none", t_none},
    {"boolean", t_boolean},
    {"true", t_true},
    {"false", t_false},
    {"integer", t_integer},
    {"float", t_float},
    {"number", t_number},
    {"string", t_string},
    {"mapping", t_mapping},
    {"iterable", t_iterable},
    {"sequence", t_sequence},
    {"escaped", t_escaped},
    {"callable", t_callable},
    {"odd", t_odd},
    {"even", t_even},
    {"divisibleby", t_divisibleby},
    {"upper", t_upper},
    {"lower", t_lower},
    {"in", t_in},
    {"sameas", t_sameas},
    {"filter", t_filter},
    {"test", t_test},
    {"==", t_eq},
    {"eq", t_eq},
    {"equalto", t_eq},
    {"!=", t_ne},
    {"ne", t_ne},
    {"<", t_lt},
    {"lt", t_lt},
    {"lessthan", t_lt},
    {"<=", t_le},
    {"le", t_le},
    {">", t_gt},
    {"gt", t_gt},
    {"greaterthan", t_gt},
    {">=", t_ge},
    {"ge", t_ge},
    {NULL, NULL},
};

const tpl_test *tpl_test_find(tpl_str name)
{
    for (const tpl_test *t = tpl_tests; t->name; t++)
        if (tpl_str_is(name, t->name)) return t;
    return NULL;
}
