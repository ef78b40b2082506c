/* Runs the tree. Scopes are lexical: a loop's pass, a macro, a block with a body of its own each open one,
 * "if" does not; a name is looked up outwards from where it is written, so a macro does not see its caller's
 * variables. */
#include "text/template_internal.h"

#include <stdio.h>
#include <string.h>

typedef enum flow { FLOW_ERROR, FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } flow;

static bool eval(tpl_run *r, const tpl_node *n, tpl_scope *s, tpl_value *out);
static flow execute(tpl_run *r, const tpl_nodes *body, tpl_scope *s);

/* Scopes ---------------------------------------------------------------------------------------------- */

tpl_value *tpl_scope_get(const tpl_scope *s, tpl_str name)
{
    for (tpl_binding *b = s->first; b; b = b->next)
        if (tpl_str_equal(b->name, name)) return &b->value;
    return NULL;
}

bool tpl_scope_set(tpl_run *r, tpl_scope *s, tpl_str name, tpl_value v)
{
    tpl_value *there = tpl_scope_get(s, name);
    if (!tpl_charge(r, (size_t)s->n * 4)) return false;
    if (there) {
        *there = v;
        return true;
    }
    tpl_binding *b = tpl_alloc(r, 1, sizeof *b);
    if (!b) return false;
    b->name = name;
    b->value = v;
    b->next = s->first;
    s->first = b;
    s->n++;
    return true;
}

static tpl_scope *scope_new(tpl_run *r, tpl_scope *parent)
{
    tpl_scope *s = tpl_alloc(r, 1, sizeof *s);
    if (s) s->parent = parent;
    return s;
}

static bool lookup(tpl_run *r, const tpl_scope *s, tpl_str name, tpl_value *out)
{
    for (; s; s = s->parent) {
        if (!tpl_charge(r, (size_t)s->n * 4)) return false;
        const tpl_value *there = tpl_scope_get(s, name);
        if (!there) continue;
        *out = *there;
        return true;
    }
    const tpl_function *f = tpl_function_find(tpl_globals, name);
    if (f)
        *out = (tpl_value){.kind = TPL_FUNCTION, .u.function = f};
    else
        *out = tpl_undefined_name(name);
    return true;
}

static bool assign(tpl_run *r, const tpl_node *target, tpl_value v, tpl_scope *s)
{
    r->line = target->line;
    if (target->kind == NODE_NAME) return tpl_scope_set(r, s, target->text, v);
    if (target->kind == NODE_NSREF) {
        tpl_value owner;
        if (!lookup(r, s, target->a->text, &owner)) return false;
        if (owner.kind != TPL_NAMESPACE)
            return tpl_fail(r, RDG_E_MALFORMED, "attributes can be set on a namespace only, and '%.*s' is %s",
                            (int)RDG_MIN(target->a->text.n, (size_t)48), target->a->text.p,
                            tpl_type_name(&owner));
        return tpl_scope_set(r, owner.u.ns, target->text, v);
    }
    tpl_list *items;
    if (!tpl_items(r, &v, &items)) return false;
    if (items->n != target->list.n)
        return tpl_fail(r, RDG_E_MALFORMED, "%lld values for %d names", (long long)items->n, target->list.n);
    if (!tpl_enter(r)) return false;
    for (int i = 0; i < target->list.n; i++)
        if (!assign(r, target->list.at[i], items->at[i], s)) return false;
    tpl_leave(r);
    return true;
}

/* Calls ----------------------------------------------------------------------------------------------- */

static bool eval_args(tpl_run *r, const tpl_call *c, tpl_scope *s, const tpl_value *caller, tpl_args *out)
{
    tpl_list *star = NULL;
    const tpl_dict *named = NULL;
    tpl_value v;
    *out = (tpl_args){0};
    int n = c ? c->args.n : 0, n_named = (c ? c->n_keywords : 0) + (caller != NULL);
    if (c && c->star && (!eval(r, c->star, s, &v) || !tpl_items(r, &v, &star))) return false;
    if (c && c->star_star) {
        if (!eval(r, c->star_star, s, &v)) return false;
        if (v.kind != TPL_DICT)
            return tpl_fail(r, RDG_E_MALFORMED, "** needs a dict, not %s", tpl_type_name(&v));
        named = v.u.dict;
    }
    if ((star && star->n > 10000) || (named && named->n > 10000))
        return tpl_fail(r, RDG_E_LIMIT, "a call with more than 10000 arguments");
    int total = n + (star ? (int)star->n : 0), total_named = n_named + (named ? (int)named->n : 0);
    if (total + total_named == 0) return true;
    out->at = tpl_alloc(r, (size_t)(total + total_named), sizeof *out->at);
    out->names = tpl_alloc(r, (size_t)total_named, sizeof *out->names);
    if (!out->at || !out->names) return false;
    out->named = out->at + total;
    for (int i = 0; i < n; i++)
        if (!eval(r, c->args.at[i], s, &out->at[i])) return false;
    for (int i = n; i < total; i++) out->at[i] = star->at[i - n];
    out->n = total;
    for (int i = 0; c && i < c->n_keywords; i++) {
        out->names[i] = c->keywords[i].name;
        if (!eval(r, c->keywords[i].value, s, &out->named[i])) return false;
    }
    if (caller) {
        out->names[n_named - 1] = TPL_STR("caller");
        out->named[n_named - 1] = *caller;
    }
    for (int i = n_named; i < total_named; i++) {
        const tpl_value *key = &named->keys[i - n_named];
        if (key->kind != TPL_STRING)
            return tpl_fail(r, RDG_E_MALFORMED, "** with a key that is not a string");
        for (int k = 0; k < i; k++)
            if (tpl_str_equal(out->names[k], key->u.s))
                return tpl_fail(r, RDG_E_MALFORMED, "an argument is given twice");
        out->names[i] = key->u.s;
        out->named[i] = named->values[i - n_named];
    }
    out->n_named = total_named;
    return true;
}

static const tpl_value *take_named(const tpl_args *args, tpl_str name, int *used)
{
    for (int i = 0; i < args->n_named; i++) {
        if (!tpl_str_equal(args->names[i], name)) continue;
        ++*used;
        return &args->named[i];
    }
    return NULL;
}

static bool is_param(const tpl_node *m, tpl_str name)
{
    for (int i = 0; i < m->list.n; i++)
        if (tpl_str_equal(m->list.at[i]->text, name)) return true;
    return false;
}

/* kwargs and varargs of a macro that asks for them, else an error for arguments that it does not know. */
static bool bind_rest(tpl_run *r, const tpl_node *m, const tpl_args *args, int used, bool with_caller,
                      tpl_scope *s)
{
    int n_name = (int)RDG_MIN(m->text.n, (size_t)48);
    if (m->op & TPL_USES_KWARGS && !is_param(m, TPL_STR("kwargs"))) {
        tpl_dict *d = tpl_dict_new(r, args->n_named);
        if (!d) return false;
        for (int i = 0; i < args->n_named; i++) {
            if (is_param(m, args->names[i]) || (with_caller && tpl_str_is(args->names[i], "caller")))
                continue;
            if (!tpl_dict_set(r, d, tpl_string(args->names[i]), args->named[i])) return false;
        }
        if (!tpl_scope_set(r, s, TPL_STR("kwargs"), (tpl_value){.kind = TPL_DICT, .u.dict = d})) return false;
    } else if (used < args->n_named) {
        for (int i = 0; i < args->n_named; i++)
            if (!is_param(m, args->names[i]) && !(with_caller && tpl_str_is(args->names[i], "caller")))
                return tpl_fail(r, RDG_E_MALFORMED, "the macro '%.*s' has no parameter '%.*s'", n_name,
                                m->text.p, (int)RDG_MIN(args->names[i].n, (size_t)48), args->names[i].p);
        return tpl_fail(r, RDG_E_MALFORMED, "the macro '%.*s' got an argument twice", n_name, m->text.p);
    }
    if (m->op & TPL_USES_VARARGS && !is_param(m, TPL_STR("varargs"))) {
        int64_t n = args->n > m->list.n ? args->n - m->list.n : 0;
        tpl_list *l = tpl_list_new(r, n);
        if (!l) return false;
        for (int64_t i = 0; i < n; i++)
            if (!tpl_list_add(r, l, args->at[m->list.n + i])) return false;
        return tpl_scope_set(r, s, TPL_STR("varargs"), tpl_list_value(TPL_TUPLE, l));
    }
    return args->n <= m->list.n ||
           tpl_fail(r, RDG_E_MALFORMED, "the macro '%.*s' takes at most %d arguments, not %d", n_name,
                    m->text.p, m->list.n, args->n);
}

static bool bind_params(tpl_run *r, const tpl_node *m, const tpl_args *args, tpl_scope *s)
{
    int used = 0;
    bool with_caller = m->op & TPL_USES_CALLER && !is_param(m, TPL_STR("caller"));
    for (int i = 0; i < m->list.n; i++) {
        tpl_str name = m->list.at[i]->text;
        int d = i - (m->list.n - m->other.n);
        const tpl_value *named = i < args->n ? NULL : take_named(args, name, &used);
        tpl_value v;
        if (i < args->n)
            v = args->at[i];
        else if (named)
            v = *named;
        else if (d < 0)
            v = tpl_undefined_name(name);
        else if (!eval(r, m->other.at[d], s, &v))
            return false;
        if (!tpl_scope_set(r, s, name, v)) return false;
    }
    if (with_caller) {
        const tpl_value *caller = take_named(args, TPL_STR("caller"), &used);
        if (!tpl_scope_set(r, s, TPL_STR("caller"), caller ? *caller : tpl_undefined_name(TPL_STR("caller"))))
            return false;
    }
    return bind_rest(r, m, args, used, with_caller, s);
}

/* Runs a body into a string of its own. */
static bool capture(tpl_run *r, const tpl_nodes *body, tpl_scope *s, tpl_value *out)
{
    tpl_buffer b = {0}, *outer = r->out;
    r->out = &b;
    bool ok = tpl_execute(r, body, s);
    r->out = outer;
    *out = tpl_string(tpl_buffer_str(&b));
    return ok;
}

static bool call_macro(tpl_run *r, const tpl_macro *m, const tpl_args *args, tpl_value *out)
{
    tpl_scope *s = scope_new(r, m->scope);
    int line = r->line;
    if (!s || !tpl_enter(r)) return false;
    if (!bind_params(r, m->node, args, s) || !capture(r, &m->node->body, s, out)) return false;
    tpl_leave(r);
    r->line = line;
    return true;
}

static bool run_for(tpl_run *r, tpl_node *n, const tpl_value *iterable, tpl_scope *outer, int depth);

static bool call_loop(tpl_run *r, const tpl_loop *l, const tpl_args *args, tpl_value *out)
{
    tpl_buffer b = {0}, *outer = r->out;
    if (!l->node || args->n != 1 || args->n_named)
        return tpl_fail(r, RDG_E_MALFORMED, "loop() needs a recursive loop and one argument");
    r->out = &b;
    bool ok = tpl_enter(r) && run_for(r, l->node, &args->at[0], l->scope, l->depth0 + 1);
    tpl_leave(r);
    r->out = outer;
    *out = tpl_string(tpl_buffer_str(&b));
    return ok;
}

bool tpl_call_value(tpl_run *r, const tpl_value *callee, const tpl_args *args, tpl_value *out)
{
    const tpl_function *f;
    tpl_str s = TPL_STR("");
    switch (callee->kind) {
    case TPL_MACRO: return call_macro(r, callee->u.macro, args, out);
    case TPL_LOOP: return call_loop(r, callee->u.loop, args, out);
    case TPL_FUNCTION:
    case TPL_METHOD:
        f = callee->kind == TPL_METHOD ? callee->u.method->function : callee->u.function;
        if (!f->call) return tpl_fail(r, RDG_E_UNSUPPORTED, "%s() is not supported", f->name);
        return f->call(r, callee->kind == TPL_METHOD ? &callee->u.method->self : NULL, args, out);
    case TPL_JOINER: /* nothing at first, then the separator */
        if (callee->u.cycler->position++) s = callee->u.cycler->items->at[0].u.s;
        *out = tpl_string(s);
        return true;
    case TPL_UNDEFINED: return tpl_undefined_error(r, callee);
    default: return tpl_fail(r, RDG_E_MALFORMED, "%s cannot be called", tpl_type_name(callee));
    }
}

/* Expressions ----------------------------------------------------------------------------------------- */

static bool eval_list(tpl_run *r, const tpl_node *n, tpl_scope *s, tpl_value *out)
{
    tpl_list *l = tpl_list_new(r, n->list.n);
    tpl_value v;
    if (!l) return false;
    for (int i = 0; i < n->list.n; i++)
        if (!eval(r, n->list.at[i], s, &v) || !tpl_list_add(r, l, v)) return false;
    *out = tpl_list_value(n->kind == NODE_LIST ? TPL_LIST : TPL_TUPLE, l);
    return true;
}

static bool eval_dict(tpl_run *r, const tpl_node *n, tpl_scope *s, tpl_value *out)
{
    tpl_dict *d = tpl_dict_new(r, n->list.n);
    tpl_value key, v;
    if (!d) return false;
    for (int i = 0; i < n->list.n; i++)
        if (!eval(r, n->list.at[i], s, &key) || !eval(r, n->other.at[i], s, &v) ||
            !tpl_dict_set(r, d, key, v))
            return false;
    *out = (tpl_value){.kind = TPL_DICT, .u.dict = d};
    return true;
}

static bool compare_once(tpl_run *r, int op, const tpl_value *a, const tpl_value *b, bool *out)
{
    static const char *const names[] = {[TOK_LT] = "<", [TOK_LE] = "<=", [TOK_GT] = ">", [TOK_GE] = ">="};
    int order;
    if (op == TOK_EQ || op == TOK_NE) {
        if (!tpl_equal(r, a, b, out)) return false;
        *out = *out == (op == TOK_EQ);
        return true;
    }
    if (op == TPL_IN || op == TPL_NOT_IN) {
        if (!tpl_contains(r, b, a, out)) return false;
        *out = *out == (op == TPL_IN);
        return true;
    }
    if (!tpl_less(r, a, b, names[op], &order)) return false;
    *out = order != 2 && (op == TOK_LT   ? order < 0
                          : op == TOK_LE ? order <= 0
                          : op == TOK_GT ? order > 0
                                         : order >= 0);
    return true;
}

static bool eval_compare(tpl_run *r, const tpl_node *n, tpl_scope *s, tpl_value *out)
{
    tpl_value a, b;
    bool holds = true;
    if (!eval(r, n->a, s, &a)) return false;
    for (int i = 0; holds && i < n->list.n; i++) {
        if (!eval(r, n->list.at[i], s, &b)) return false;
        r->line = n->line;
        if (!compare_once(r, n->ops[i], &a, &b, &holds)) return false;
        a = b;
    }
    *out = tpl_bool(holds);
    return true;
}

static bool eval_concat(tpl_run *r, const tpl_node *n, tpl_scope *s, tpl_value *out)
{
    tpl_value v;
    tpl_str all = TPL_STR(""), part;
    for (int i = 0; i < n->list.n; i++)
        if (!eval(r, n->list.at[i], s, &v) || !tpl_str_of(r, &v, &part) || !tpl_concat(r, all, part, &all))
            return false;
    *out = tpl_string(all);
    return true;
}

static bool eval_item(tpl_run *r, const tpl_node *n, tpl_scope *s, tpl_value *out)
{
    tpl_value owner, part[3];
    const tpl_node *k = n->b;
    if (!eval(r, n->a, s, &owner)) return false;
    if (k->kind != NODE_SLICE) {
        if (!eval(r, k, s, &part[0])) return false;
        r->line = n->line;
        return tpl_get_item(r, &owner, &part[0], out);
    }
    if ((k->a && !eval(r, k->a, s, &part[0])) || (k->b && !eval(r, k->b, s, &part[1])) ||
        (k->c && !eval(r, k->c, s, &part[2])))
        return false;
    r->line = n->line;
    return tpl_get_slice(r, &owner, k->a ? &part[0] : NULL, k->b ? &part[1] : NULL, k->c ? &part[2] : NULL,
                         out);
}

static bool eval_call(tpl_run *r, const tpl_node *n, tpl_scope *s, const tpl_value *caller, tpl_value *out)
{
    tpl_value callee;
    tpl_args args;
    if (!eval(r, n->a, s, &callee) || !eval_args(r, n->call, s, caller, &args)) return false;
    r->line = n->line;
    return tpl_call_value(r, &callee, &args, out);
}

/* input: the value that a filter block or set block feeds in; else NULL */
static bool eval_filter(tpl_run *r, const tpl_node *n, tpl_scope *s, const tpl_value *input, tpl_value *out)
{
    tpl_value v;
    tpl_args args;
    if (!n->a)
        v = *input;
    else if (n->a->kind == NODE_FILTER && input) {
        if (!tpl_enter(r) || !eval_filter(r, n->a, s, input, &v)) return false;
        tpl_leave(r);
    } else if (!eval(r, n->a, s, &v)) {
        return false;
    }
    r->line = n->line;
    if (!n->entry)
        return tpl_fail(r, RDG_E_UNSUPPORTED, "there is no filter '%.*s'",
                        (int)RDG_MIN(n->text.n, (size_t)48), n->text.p);
    return eval_args(r, n->call, s, NULL, &args) && tpl_call_filter(r, n->entry, &v, &args, out);
}

static bool eval_test(tpl_run *r, const tpl_node *n, tpl_scope *s, tpl_value *out)
{
    tpl_value v;
    tpl_args args;
    const tpl_test *t = n->entry;
    bool holds;
    if (!eval(r, n->a, s, &v)) return false;
    r->line = n->line;
    if (!t)
        return tpl_fail(r, RDG_E_UNSUPPORTED, "there is no test '%.*s'", (int)RDG_MIN(n->text.n, (size_t)48),
                        n->text.p);
    if (!eval_args(r, n->call, s, NULL, &args) || !t->call(r, &v, &args, &holds)) return false;
    *out = tpl_bool(holds);
    return true;
}

static bool eval_any(tpl_run *r, const tpl_node *n, tpl_scope *s, tpl_value *out)
{
    tpl_value a, b;
    r->line = n->line;
    switch (n->kind) {
    case NODE_CONST: *out = *n->value; return true;
    case NODE_NAME: return lookup(r, s, n->text, out);
    case NODE_TUPLE:
    case NODE_LIST: return eval_list(r, n, s, out);
    case NODE_DICT: return eval_dict(r, n, s, out);
    case NODE_COND:
        if (!eval(r, n->b, s, &a)) return false;
        if (tpl_truth(&a)) return eval(r, n->a, s, out);
        if (n->c) return eval(r, n->c, s, out);
        *out = tpl_undefined_hint("the inline if has no else part");
        return true;
    case NODE_OR:
    case NODE_AND:
        if (!eval(r, n->a, s, out)) return false;
        return tpl_truth(out) == (n->kind == NODE_OR) || eval(r, n->b, s, out);
    case NODE_NOT:
        if (!eval(r, n->a, s, &a)) return false;
        *out = tpl_bool(!tpl_truth(&a));
        return true;
    case NODE_NEG:
    case NODE_POS: return eval(r, n->a, s, &a) && tpl_negate(r, &a, n->kind == NODE_NEG, out);
    case NODE_COMPARE: return eval_compare(r, n, s, out);
    case NODE_BINARY:
        if (!eval(r, n->a, s, &a) || !eval(r, n->b, s, &b)) return false;
        r->line = n->line;
        return tpl_binary(r, n->op, &a, &b, out);
    case NODE_CONCAT: return eval_concat(r, n, s, out);
    case NODE_ATTR:
        if (!eval(r, n->a, s, &a)) return false;
        r->line = n->line;
        return tpl_get_attr(r, &a, n->text, out);
    case NODE_ITEM: return eval_item(r, n, s, out);
    case NODE_CALL: return eval_call(r, n, s, NULL, out);
    case NODE_FILTER: return eval_filter(r, n, s, NULL, out);
    case NODE_TEST: return eval_test(r, n, s, out);
    default: return tpl_fail(r, RDG_E_INTERNAL, "a node of kind %d as an expression", n->kind);
    }
}

static bool eval(tpl_run *r, const tpl_node *n, tpl_scope *s, tpl_value *out)
{
    if (!tpl_enter(r) || !tpl_charge(r, 0)) return false;
    bool ok = eval_any(r, n, s, out);
    tpl_leave(r);
    return ok;
}

/* Statements ------------------------------------------------------------------------------------------ */

static bool run_print(tpl_run *r, const tpl_node *n, tpl_scope *s)
{
    tpl_value v;
    tpl_str text;
    for (int i = 0; i < n->list.n; i++)
        if (!eval(r, n->list.at[i], s, &v) || !tpl_str_of(r, &v, &text) || !tpl_charge(r, text.n) ||
            !tpl_put(r, r->out, text))
            return false;
    return true;
}

/* The items that the loop's condition lets through. */
static bool filter_items(tpl_run *r, const tpl_node *n, tpl_scope *outer, tpl_list **items)
{
    tpl_list *kept = tpl_list_new(r, (*items)->n);
    if (!kept) return false;
    for (int64_t i = 0; i < (*items)->n; i++) {
        tpl_scope *s = scope_new(r, outer);
        tpl_value v;
        if (!s || !assign(r, n->a, (*items)->at[i], s) || !eval(r, n->c, s, &v)) return false;
        if (tpl_truth(&v) && !tpl_list_add(r, kept, (*items)->at[i])) return false;
    }
    *items = kept;
    return true;
}

static bool run_for(tpl_run *r, tpl_node *n, const tpl_value *iterable, tpl_scope *outer, int depth)
{
    tpl_list *items;
    tpl_loop *loop = tpl_alloc(r, 1, sizeof *loop);
    bool completed = false;
    r->line = n->line;
    if (!loop || !tpl_items(r, iterable, &items) || (n->c && !filter_items(r, n, outer, &items)))
        return false;
    *loop = (tpl_loop){.items = items, .depth0 = depth, .node = n->op ? n : NULL, .scope = outer};
    for (int64_t i = 0; i < items->n; i++) {
        tpl_scope *s = scope_new(r, outer);
        loop->index0 = i;
        if (!s || !tpl_scope_set(r, s, TPL_STR("loop"), (tpl_value){.kind = TPL_LOOP, .u.loop = loop}) ||
            !assign(r, n->a, items->at[i], s))
            return false;
        flow f = execute(r, &n->body, s);
        if (f == FLOW_ERROR) return false;
        if (f == FLOW_BREAK) break;
        completed = completed || f == FLOW_ON;
    }
    if (completed) return true; /* else is for loops of which no pass came to its end, as in Jinja */
    tpl_scope *s = scope_new(r, outer);
    return s && tpl_execute(r, &n->other, s);
}

static flow run_if(tpl_run *r, const tpl_node *n, tpl_scope *s)
{
    tpl_value v;
    if (!eval(r, n->a, s, &v)) return FLOW_ERROR;
    if (tpl_truth(&v)) return execute(r, &n->body, s);
    for (int i = 0; i < n->list.n; i++) {
        const tpl_node *branch = n->list.at[i];
        if (!eval(r, branch->a, s, &v)) return FLOW_ERROR;
        if (tpl_truth(&v)) return execute(r, &branch->body, s);
    }
    return execute(r, &n->other, s);
}

static bool run_set_block(tpl_run *r, const tpl_node *n, tpl_scope *s, bool print)
{
    tpl_value v, filtered;
    tpl_str text;
    tpl_scope *inner = scope_new(r, s);
    if (!inner || !capture(r, &n->body, inner, &v)) return false;
    if (n->c) {
        if (!eval_filter(r, n->c, inner, &v, &filtered)) return false;
        v = filtered;
    }
    if (!print) return assign(r, n->a, v, s);
    return tpl_str_of(r, &v, &text) && tpl_put(r, r->out, text);
}

static bool make_macro(tpl_run *r, tpl_node *n, tpl_scope *s, tpl_value *out)
{
    tpl_macro *m = tpl_alloc(r, 1, sizeof *m);
    if (!m) return false;
    m->node = n;
    m->scope = s;
    *out = (tpl_value){.kind = TPL_MACRO, .u.macro = m};
    return true;
}

static bool run_call_block(tpl_run *r, tpl_node *n, tpl_scope *s)
{
    tpl_value caller, v;
    tpl_str text;
    return make_macro(r, n, s, &caller) && eval_call(r, n->a, s, &caller, &v) && tpl_str_of(r, &v, &text) &&
           tpl_put(r, r->out, text);
}

static bool run_with(tpl_run *r, const tpl_node *n, tpl_scope *outer, tpl_scope *s)
{
    tpl_value v;
    for (int i = 0; i < n->list.n; i++)
        if (!eval(r, n->other.at[i], outer, &v) || !assign(r, n->list.at[i], v, s)) return false;
    return true;
}

static flow run_scope(tpl_run *r, const tpl_node *n, tpl_scope *outer)
{
    tpl_scope *s = scope_new(r, outer);
    if (!s || (n->kind == NODE_WITH && !run_with(r, n, outer, s))) return FLOW_ERROR;
    return execute(r, &n->body, s);
}

static flow run_node(tpl_run *r, tpl_node *n, tpl_scope *s)
{
    tpl_value v;
    bool ok;
    r->line = n->line;
    switch (n->kind) {
    case NODE_DATA: ok = tpl_charge(r, n->text.n) && tpl_put(r, r->out, n->text); break;
    case NODE_PRINT: ok = run_print(r, n, s); break;
    case NODE_FOR: ok = eval(r, n->b, s, &v) && run_for(r, n, &v, s, 0); break;
    case NODE_IF: return run_if(r, n, s);
    case NODE_SET: ok = eval(r, n->b, s, &v) && assign(r, n->a, v, s); break;
    case NODE_SET_BLOCK: ok = run_set_block(r, n, s, false); break;
    case NODE_FILTER_BLOCK: ok = run_set_block(r, n, s, true); break;
    case NODE_MACRO: ok = make_macro(r, n, s, &v) && tpl_scope_set(r, s, n->text, v); break;
    case NODE_CALL_BLOCK: ok = run_call_block(r, n, s); break;
    case NODE_WITH:
    case NODE_SCOPE: return run_scope(r, n, s);
    case NODE_BREAK: return FLOW_BREAK;
    case NODE_CONTINUE: return FLOW_CONTINUE;
    default: ok = tpl_fail(r, RDG_E_INTERNAL, "a node of kind %d as a statement", n->kind);
    }
    return ok ? FLOW_ON : FLOW_ERROR;
}

static flow execute(tpl_run *r, const tpl_nodes *body, tpl_scope *s)
{
    flow f = FLOW_ON;
    if (!tpl_enter(r)) return FLOW_ERROR;
    for (int i = 0; f == FLOW_ON && i < body->n; i++) {
        if (!tpl_charge(r, 0)) return FLOW_ERROR;
        f = run_node(r, body->at[i], s);
    }
    tpl_leave(r);
    return f;
}

bool tpl_execute(tpl_run *r, const tpl_nodes *body, tpl_scope *s)
{
    flow f = execute(r, body, s);
    if (f == FLOW_BREAK || f == FLOW_CONTINUE)
        return tpl_fail(r, RDG_E_MALFORMED, "{%% %s %%} outside of a loop",
                        f == FLOW_BREAK ? "break" : "continue");
    return f == FLOW_ON;
}
