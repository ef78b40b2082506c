/* Tokens to tree: recursive descent over Jinja's grammar. Two rules that surprise: ** binds to the left and
 * weaker than a sign, and a test takes its argument without parentheses ("x is divisibleby 3"). Depth is
 * bounded, so no template can exhaust the stack. */
#include "text/template_internal.h"

#include <stdio.h>
#include <string.h>

typedef struct parser {
    tpl_compiler *c;
    const tpl_token *t; /* the current token */
    int depth;
    int uses; /* TPL_USES_… seen since the macro began */
} parser;

static tpl_node *parse_expression(parser *p, bool with_condition);
static tpl_node *parse_tuple(parser *p, bool simple, bool with_condition, const char *end_name, bool parens,
                             bool with_namespace);
static tpl_node *parse_unary(parser *p, bool with_filter);
static bool parse_body(parser *p, tpl_nodes *body, const char *const *ends);

/* Tools ----------------------------------------------------------------------------------------------- */

#define FAIL(p, ...) ((void)tpl_compile_fail((p)->c, RDG_E_MALFORMED, (p)->t->line, __VA_ARGS__), NULL)

static const char *describe(const tpl_token *t, char out[64])
{
    static const struct {
        tpl_token_kind kind;
        const char *text;
    } names[] = {{TOK_EOF, "the end of the template"},
                 {TOK_DATA, "text"},
                 {TOK_BLOCK_BEGIN, "{%"},
                 {TOK_BLOCK_END, "%}"},
                 {TOK_VAR_BEGIN, "{{"},
                 {TOK_VAR_END, "}}"},
                 {TOK_STRING, "a string"}};
    for (int i = 0; i < RDG_COUNTOF(names); i++)
        if (names[i].kind == t->kind) return names[i].text;
    snprintf(out, 64, "'%.*s'", (int)RDG_MIN(t->text.n, (size_t)48), t->text.p);
    return out;
}

static void *unexpected(parser *p, const char *wanted)
{
    char text[64];
    return FAIL(p, "%s where %s is due", describe(p->t, text), wanted);
}

static bool is_name(const tpl_token *t, const char *name)
{
    return t->kind == TOK_NAME && tpl_str_is(t->text, name);
}

static bool skip(parser *p, tpl_token_kind kind)
{
    if (p->t->kind != kind) return false;
    p->t++;
    return true;
}

static bool skip_name(parser *p, const char *name)
{
    if (!is_name(p->t, name)) return false;
    p->t++;
    return true;
}

static bool expect(parser *p, tpl_token_kind kind, const char *what)
{
    if (skip(p, kind)) return true;
    unexpected(p, what);
    return false;
}

static tpl_node *node_new(parser *p, tpl_node_kind kind, int line)
{
    tpl_node *n = tpl_compile_alloc(p->c, sizeof *n);
    if (n) {
        n->kind = kind;
        n->line = line;
    }
    return n;
}

static tpl_node *node_of(parser *p, tpl_node_kind kind, int line, int op, tpl_node *a, tpl_node *b)
{
    if (p->c->err) return NULL;
    tpl_node *n = node_new(p, kind, line);
    if (n) {
        n->op = op;
        n->a = a;
        n->b = b;
    }
    return n;
}

static tpl_node *node_const(parser *p, int line, tpl_value v)
{
    tpl_node *n = node_new(p, NODE_CONST, line);
    if (n) n->value = tpl_compile_alloc(p->c, sizeof v);
    if (!n || !n->value) return NULL;
    *n->value = v;
    return n;
}

/* A list that grows in the arena; what it leaves behind is at most its own size again. */
static bool list_add(parser *p, tpl_nodes *list, tpl_node *n)
{
    if (!n) return false;
    if ((list->n & (list->n - 1)) == 0) { /* 0, 1, 2, 4, … : full */
        int cap = list->n ? list->n * 2 : 1;
        tpl_node **fresh = tpl_compile_alloc(p->c, (size_t)cap * sizeof *fresh);
        if (!fresh) return false;
        if (list->n) memcpy(fresh, list->at, (size_t)list->n * sizeof *fresh);
        list->at = fresh;
    }
    list->at[list->n++] = n;
    return true;
}

static bool enter(parser *p)
{
    if (++p->depth <= p->c->limits->max_depth) return true;
    return tpl_compile_fail(p->c, RDG_E_LIMIT, p->t->line, "it is nested deeper than %d levels",
                            p->c->limits->max_depth);
}

/* Primary expressions --------------------------------------------------------------------------------- */

static tpl_node *parse_string(parser *p)
{
    const tpl_token *first = p->t;
    size_t n = 0, used = 0;
    while (p->t->kind == TOK_STRING) n += p->t++->text.n;
    tpl_str s = first->text;
    if (p->t - first > 1) { /* neighbours are joined */
        char *joined = tpl_compile_alloc(p->c, n + 1);
        if (!joined) return NULL;
        for (const tpl_token *t = first; t < p->t; t++) {
            if (t->text.n) memcpy(joined + used, t->text.p, t->text.n);
            used += t->text.n;
        }
        s = (tpl_str){joined, n, NULL};
    }
    return node_const(p, first->line, tpl_string(s));
}

static tpl_node *parse_list(parser *p)
{
    tpl_node *n = node_new(p, NODE_LIST, p->t->line);
    p->t++;
    while (n && p->t->kind != TOK_RBRACKET) {
        if (n->list.n && !expect(p, TOK_COMMA, "',' or ']'")) return NULL;
        if (p->t->kind == TOK_RBRACKET) break;
        if (!list_add(p, &n->list, parse_expression(p, true))) return NULL;
    }
    p->t++;
    return n;
}

/* list: keys; other: values */
static tpl_node *parse_dict(parser *p)
{
    tpl_node *n = node_new(p, NODE_DICT, p->t->line);
    p->t++;
    while (n && p->t->kind != TOK_RBRACE) {
        if (n->list.n && !expect(p, TOK_COMMA, "',' or '}'")) return NULL;
        if (p->t->kind == TOK_RBRACE) break;
        if (!list_add(p, &n->list, parse_expression(p, true)) || !expect(p, TOK_COLON, "':'") ||
            !list_add(p, &n->other, parse_expression(p, true)))
            return NULL;
    }
    p->t++;
    return n;
}

static tpl_node *parse_name(parser *p, bool with_namespace)
{
    static const struct {
        const char *name;
        tpl_value value;
    } constants[] = {
        {"true", {.kind = TPL_BOOL, .u.b = true}},
        {"True", {.kind = TPL_BOOL, .u.b = true}},
        {"false", {.kind = TPL_BOOL, .u.b = false}},
        {"False", {.kind = TPL_BOOL, .u.b = false}},
        {"none", {.kind = TPL_NONE}},
        {"None", {.kind = TPL_NONE}},
    };
    const tpl_token *t = p->t++;
    for (int i = 0; i < RDG_COUNTOF(constants); i++)
        if (tpl_str_is(t->text, constants[i].name)) return node_const(p, t->line, constants[i].value);
    if (with_namespace && p->t->kind == TOK_DOT) {
        p->t++;
        if (p->t->kind != TOK_NAME) return unexpected(p, "the attribute's name");
        tpl_node *n = node_new(p, NODE_NSREF, t->line), *owner = node_new(p, NODE_NAME, t->line);
        if (!n || !owner) return NULL;
        owner->text = t->text;
        n->a = owner;
        n->text = p->t++->text;
        return n;
    }
    if (tpl_str_is(t->text, "caller")) p->uses |= TPL_USES_CALLER;
    if (tpl_str_is(t->text, "kwargs")) p->uses |= TPL_USES_KWARGS;
    if (tpl_str_is(t->text, "varargs")) p->uses |= TPL_USES_VARARGS;
    tpl_node *n = node_new(p, NODE_NAME, t->line);
    if (n) n->text = t->text;
    return n;
}

static tpl_node *parse_primary(parser *p, bool with_namespace)
{
    tpl_node *n = NULL;
    if (!enter(p)) return NULL;
    switch (p->t->kind) {
    case TOK_NAME: n = parse_name(p, with_namespace); break;
    case TOK_STRING: n = parse_string(p); break;
    case TOK_INT:
        n = node_const(p, p->t->line, tpl_int(p->t->number.i));
        p->t++;
        break;
    case TOK_FLOAT:
        n = node_const(p, p->t->line, tpl_float(p->t->number.f));
        p->t++;
        break;
    case TOK_LPAREN:
        p->t++;
        n = parse_tuple(p, false, true, NULL, true, false);
        if (n && !expect(p, TOK_RPAREN, "')'")) n = NULL;
        break;
    case TOK_LBRACKET: n = parse_list(p); break;
    case TOK_LBRACE: n = parse_dict(p); break;
    default: unexpected(p, "an expression");
    }
    p->depth--;
    return n;
}

/* An expression, or several with commas between. The end of a tuple shows by the token that follows. */
static tpl_node *parse_tuple(parser *p, bool simple, bool with_condition, const char *end_name, bool parens,
                             bool with_namespace)
{
    int line = p->t->line;
    tpl_node *tuple = node_new(p, NODE_TUPLE, line);
    bool is_tuple = false;
    if (!tuple) return NULL;
    for (;;) {
        tpl_token_kind k = p->t->kind;
        if (k == TOK_VAR_END || k == TOK_BLOCK_END || k == TOK_RPAREN ||
            (end_name && is_name(p->t, end_name)))
            break;
        if (!list_add(p, &tuple->list,
                      simple ? parse_primary(p, with_namespace) : parse_expression(p, with_condition)))
            return NULL;
        if (p->t->kind != TOK_COMMA) break;
        is_tuple = true;
        p->t++;
    }
    if (is_tuple) return tuple;
    if (tuple->list.n) return tuple->list.at[0];
    if (!parens) return unexpected(p, "an expression");
    return tuple;
}

/* Postfix, filters, tests ----------------------------------------------------------------------------- */

static tpl_call *parse_arguments(parser *p)
{
    int line = p->t->line, cap = 0;
    tpl_call *call = tpl_compile_alloc(p->c, sizeof *call);
    bool comma = false;
    p->t++;
    while (call && p->t->kind != TOK_RPAREN) {
        if (comma && !expect(p, TOK_COMMA, "',' or ')'")) return NULL;
        if (p->t->kind == TOK_RPAREN) break;
        comma = true;
        if (p->t->kind == TOK_MUL && !call->star && !call->star_star) {
            p->t++;
            if (!(call->star = parse_expression(p, true))) return NULL;
        } else if (p->t->kind == TOK_POW && !call->star_star) {
            p->t++;
            if (!(call->star_star = parse_expression(p, true))) return NULL;
        } else if (p->t->kind == TOK_NAME && p->t[1].kind == TOK_ASSIGN && !call->star_star) {
            if (call->n_keywords == cap) {
                cap = cap ? cap * 2 : 4;
                tpl_keyword *fresh = tpl_compile_alloc(p->c, (size_t)cap * sizeof *fresh);
                if (!fresh) return NULL;
                if (call->n_keywords) memcpy(fresh, call->keywords, (size_t)call->n_keywords * sizeof *fresh);
                call->keywords = fresh;
            }
            tpl_keyword *k = &call->keywords[call->n_keywords++];
            for (int i = 0; i + 1 < call->n_keywords; i++)
                if (tpl_str_equal(call->keywords[i].name, p->t->text))
                    return FAIL(p, "the argument '%.*s' is given twice",
                                (int)RDG_MIN(p->t->text.n, (size_t)48), p->t->text.p);
            k->name = p->t->text;
            p->t += 2;
            if (!(k->value = parse_expression(p, true))) return NULL;
        } else {
            if (call->star || call->star_star || call->n_keywords) {
                tpl_compile_fail(p->c, RDG_E_MALFORMED, line, "a positional argument behind a named one");
                return NULL;
            }
            if (!list_add(p, &call->args, parse_expression(p, true))) return NULL;
        }
    }
    p->t++;
    return call;
}

static tpl_node *parse_call(parser *p, tpl_node *callee)
{
    tpl_node *n = node_of(p, NODE_CALL, p->t->line, 0, callee, NULL);
    if (n && !(n->call = parse_arguments(p))) n = NULL;
    return n;
}

/* [a], [a:b:c], [a, b] */
static tpl_node *parse_subscript_part(parser *p)
{
    int line = p->t->line;
    tpl_node *part[3] = {NULL, NULL, NULL};
    int i = 0;
    if (p->t->kind != TOK_COLON) {
        part[0] = parse_expression(p, true);
        if (!part[0] || p->t->kind != TOK_COLON) return part[0];
    }
    while (i < 2 && skip(p, TOK_COLON)) {
        i++;
        if (p->t->kind == TOK_COLON || p->t->kind == TOK_RBRACKET || p->t->kind == TOK_COMMA) continue;
        if (!(part[i] = parse_expression(p, true))) return NULL;
    }
    tpl_node *n = node_of(p, NODE_SLICE, line, 0, part[0], part[1]);
    if (n) n->c = part[2];
    return n;
}

static tpl_node *parse_subscript(parser *p, tpl_node *owner)
{
    int line = p->t->line;
    if (skip(p, TOK_DOT)) {
        const tpl_token *t = p->t++;
        if (t->kind == TOK_NAME) {
            tpl_node *n = node_of(p, NODE_ATTR, line, 0, owner, NULL);
            if (n) n->text = t->text;
            return n;
        }
        p->t = t;
        if (t->kind != TOK_INT) return unexpected(p, "an attribute's name");
        p->t++;
        return node_of(p, NODE_ITEM, line, 0, owner, node_const(p, line, tpl_int(t->number.i)));
    }
    p->t++;
    tpl_node *tuple = node_new(p, NODE_TUPLE, line);
    while (tuple && p->t->kind != TOK_RBRACKET) {
        if (tuple->list.n && !expect(p, TOK_COMMA, "',' or ']'")) return NULL;
        if (!list_add(p, &tuple->list, parse_subscript_part(p))) return NULL;
    }
    p->t++;
    if (!tuple) return NULL;
    for (int i = 0; i < tuple->list.n; i++)
        if (tuple->list.n != 1 && tuple->list.at[i]->kind == NODE_SLICE)
            return FAIL(p, "a slice among several subscripts");
    return node_of(p, NODE_ITEM, line, 0, owner, tuple->list.n == 1 ? tuple->list.at[0] : tuple);
}

static tpl_node *parse_postfix(parser *p, tpl_node *n)
{
    while (n) {
        if (p->t->kind == TOK_DOT || p->t->kind == TOK_LBRACKET)
            n = parse_subscript(p, n);
        else if (p->t->kind == TOK_LPAREN)
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* NAME or NAME.NAME…: the name of a filter or test */
static bool parse_dotted(parser *p, tpl_str *name)
{
    const tpl_token *first = p->t;
    if (!expect(p, TOK_NAME, "a name")) return false;
    *name = first->text;
    while (p->t->kind == TOK_DOT) {
        p->t++;
        if (!expect(p, TOK_NAME, "a name")) return false;
        name->n = (size_t)(p->t[-1].text.p + p->t[-1].text.n - name->p);
    }
    return true;
}

/* One filter, at its name. */
static tpl_node *parse_filter(parser *p, tpl_node *input)
{
    tpl_node *n = node_of(p, NODE_FILTER, p->t->line, 0, input, NULL);
    if (!n || !parse_dotted(p, &n->text)) return NULL;
    n->entry = tpl_function_find(tpl_filters, n->text);
    if (p->t->kind == TOK_LPAREN && !(n->call = parse_arguments(p))) return NULL;
    return n;
}

static tpl_node *parse_test(parser *p, tpl_node *input)
{
    int line = p->t->line;
    p->t++;
    bool negated = skip_name(p, "not");
    tpl_node *n = node_of(p, NODE_TEST, line, 0, input, NULL);
    if (!n || !parse_dotted(p, &n->text)) return NULL;
    n->entry = tpl_test_find(n->text);
    tpl_token_kind k = p->t->kind;
    bool word = k == TOK_NAME && !is_name(p->t, "else") && !is_name(p->t, "or") && !is_name(p->t, "and");
    if (k == TOK_LPAREN) {
        if (!(n->call = parse_arguments(p))) return NULL;
    } else if (word || k == TOK_STRING || k == TOK_INT || k == TOK_FLOAT || k == TOK_LBRACKET ||
               k == TOK_LBRACE) {
        if (is_name(p->t, "is")) return FAIL(p, "tests cannot be chained with 'is'");
        n->call = tpl_compile_alloc(p->c, sizeof *n->call);
        if (!n->call || !list_add(p, &n->call->args, parse_postfix(p, parse_primary(p, false)))) return NULL;
    }
    return negated ? node_of(p, NODE_NOT, line, 0, n, NULL) : n;
}

static tpl_node *parse_filters(parser *p, tpl_node *n)
{
    while (n) {
        if (skip(p, TOK_PIPE))
            n = parse_filter(p, n);
        else if (is_name(p->t, "is"))
            n = parse_test(p, n);
        else if (p->t->kind == TOK_LPAREN)
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* Operators, from tight to loose ---------------------------------------------------------------------- */

static tpl_node *parse_unary(parser *p, bool with_filter)
{
    tpl_node *n;
    int line = p->t->line;
    if (p->t->kind == TOK_SUB || p->t->kind == TOK_ADD) {
        tpl_node_kind kind = p->t->kind == TOK_SUB ? NODE_NEG : NODE_POS;
        p->t++;
        if (!enter(p)) return NULL;
        n = parse_unary(p, false);
        p->depth--;
        if (n) n = node_of(p, kind, line, 0, n, NULL);
    } else {
        n = parse_primary(p, false);
    }
    n = parse_postfix(p, n);
    return with_filter ? parse_filters(p, n) : n;
}

/* Levels of left-associative operators; the tightest is last. */
enum { LEVEL_SUM, LEVEL_CONCAT, LEVEL_PRODUCT, LEVEL_POWER, LEVEL_UNARY };
static bool level_has(int level, tpl_token_kind k)
{
    switch (level) {
    case LEVEL_SUM: return k == TOK_ADD || k == TOK_SUB;
    case LEVEL_CONCAT: return k == TOK_TILDE;
    case LEVEL_PRODUCT: return k == TOK_MUL || k == TOK_DIV || k == TOK_FLOORDIV || k == TOK_MOD;
    default: return k == TOK_POW;
    }
}

static tpl_node *parse_level(parser *p, int level)
{
    if (level == LEVEL_UNARY) return parse_unary(p, true);
    int line = p->t->line;
    tpl_node *left = parse_level(p, level + 1);
    while (left && level_has(level, p->t->kind)) {
        int op = p->t->kind;
        p->t++;
        tpl_node *right = parse_level(p, level + 1);
        if (!right) return NULL;
        if (op != TOK_TILDE) {
            left = node_of(p, NODE_BINARY, line, op, left, right);
        } else if (left->kind == NODE_CONCAT && left->op == TOK_TILDE) { /* a ~ b ~ c is one node */
            if (!list_add(p, &left->list, right)) return NULL;
        } else {
            tpl_node *n = node_of(p, NODE_CONCAT, line, op, NULL, NULL);
            if (!n || !list_add(p, &n->list, left) || !list_add(p, &n->list, right)) return NULL;
            left = n;
        }
        line = p->t->line;
    }
    if (left && left->kind == NODE_CONCAT) left->op = 0; /* complete: one in parentheses is not taken apart */
    return left;
}

static tpl_node *parse_compare(parser *p)
{
    int line = p->t->line;
    tpl_node *first = parse_level(p, LEVEL_SUM), *n = NULL;
    while (first) {
        int op = p->t->kind;
        if (op >= TOK_EQ && op <= TOK_GE) {
            p->t++;
        } else if (skip_name(p, "in")) {
            op = TPL_IN;
        } else if (is_name(p->t, "not") && is_name(p->t + 1, "in")) {
            p->t += 2;
            op = TPL_NOT_IN;
        } else {
            break;
        }
        if (!n && !(n = node_of(p, NODE_COMPARE, line, 0, first, NULL))) return NULL;
        if ((n->list.n & (n->list.n - 1)) == 0) {
            int *fresh = tpl_compile_alloc(p->c, (size_t)(n->list.n ? n->list.n * 2 : 1) * sizeof *fresh);
            if (!fresh) return NULL;
            if (n->list.n) memcpy(fresh, n->ops, (size_t)n->list.n * sizeof *fresh);
            n->ops = fresh;
        }
        n->ops[n->list.n] = op;
        if (!list_add(p, &n->list, parse_level(p, LEVEL_SUM))) return NULL;
    }
    return n ? n : first;
}

static tpl_node *parse_not(parser *p)
{
    int line = p->t->line;
    if (!is_name(p->t, "not")) return parse_compare(p);
    p->t++;
    if (!enter(p)) return NULL;
    tpl_node *n = parse_not(p);
    p->depth--;
    return n ? node_of(p, NODE_NOT, line, 0, n, NULL) : NULL;
}

static tpl_node *parse_and(parser *p)
{
    int line = p->t->line;
    tpl_node *left = parse_not(p);
    while (left && skip_name(p, "and")) {
        tpl_node *right = parse_not(p);
        left = right ? node_of(p, NODE_AND, line, 0, left, right) : NULL;
        line = p->t->line;
    }
    return left;
}

static tpl_node *parse_or(parser *p)
{
    int line = p->t->line;
    tpl_node *left = parse_and(p);
    while (left && skip_name(p, "or")) {
        tpl_node *right = parse_and(p);
        left = right ? node_of(p, NODE_OR, line, 0, left, right) : NULL;
        line = p->t->line;
    }
    return left;
}

/* a: value if true, b: condition, c: value if false or NULL */
static tpl_node *parse_expression(parser *p, bool with_condition)
{
    int line = p->t->line;
    if (!enter(p)) return NULL;
    tpl_node *n = parse_or(p);
    while (n && with_condition && skip_name(p, "if")) {
        tpl_node *condition = parse_or(p), *no = NULL;
        if (!condition || (skip_name(p, "else") && !(no = parse_expression(p, true)))) return NULL;
        n = node_of(p, NODE_COND, line, 0, n, condition);
        if (n) n->c = no;
        line = p->t->line;
    }
    p->depth--;
    return n;
}

/* Statements ------------------------------------------------------------------------------------------ */

static bool assignable(const tpl_node *n)
{
    if (n->kind == NODE_NAME || n->kind == NODE_NSREF) return true;
    if (n->kind != NODE_TUPLE) return false;
    for (int i = 0; i < n->list.n; i++)
        if (!assignable(n->list.at[i])) return false;
    return true;
}

static tpl_node *parse_target(parser *p, const char *end_name, bool with_namespace)
{
    tpl_node *n = parse_tuple(p, true, true, end_name, false, with_namespace);
    if (n && !assignable(n)) return FAIL(p, "it is not possible to assign to this");
    return n;
}

/* The rest of a tag, the body, and the name of the end tag, whose %} is left. */
static bool parse_block(parser *p, tpl_nodes *body, const char *const *ends)
{
    int line = p->t->line;
    skip(p, TOK_COLON);
    if (!expect(p, TOK_BLOCK_END, "%}") || !enter(p) || !parse_body(p, body, ends)) return false;
    p->depth--;
    if (p->t->kind == TOK_EOF)
        return tpl_compile_fail(p->c, RDG_E_MALFORMED, line, "the block that begins here has no {%% %s %%}",
                                ends[0]);
    return true;
}

static bool parse_block_to(parser *p, tpl_nodes *body, const char *end)
{
    const char *ends[] = {end, NULL};
    if (!parse_block(p, body, ends)) return false;
    p->t++;
    return true;
}

/* a: target, b: iterable, c: condition or NULL; body; other: else; op: 1 = recursive */
static tpl_node *parse_for(parser *p, int line)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    tpl_node *n = node_new(p, NODE_FOR, line);
    if (!n || !(n->a = parse_target(p, "in", false))) return NULL;
    if (n->a->kind == NODE_NAME && tpl_str_is(n->a->text, "loop"))
        return FAIL(p, "a loop variable cannot be named loop");
    if (!skip_name(p, "in")) return unexpected(p, "'in'");
    if (!(n->b = parse_tuple(p, false, false, "recursive", false, false))) return NULL;
    if (skip_name(p, "if") && !(n->c = parse_expression(p, true))) return NULL;
    n->op = skip_name(p, "recursive");
    if (!parse_block(p, &n->body, ends)) return NULL;
    if (tpl_str_is(p->t++->text, "else") && !parse_block_to(p, &n->other, "endfor")) return NULL;
    return n;
}

/* a: condition; body; other: else part, where an elif is a NODE_IF of its own, in `list` of the first */
static tpl_node *parse_if(parser *p, int line)
{
    static const char *const ends[] = {"endif", "elif", "else", NULL};
    tpl_node *first = node_new(p, NODE_IF, line), *n = first;
    while (n) {
        if (!(n->a = parse_tuple(p, false, false, NULL, false, false)) || !parse_block(p, &n->body, ends))
            return NULL;
        const tpl_token *t = p->t++;
        if (is_name(t, "elif")) {
            n = node_new(p, NODE_IF, t->line);
            if (!list_add(p, &first->list, n)) return NULL;
            continue;
        }
        if (is_name(t, "else") && !parse_block_to(p, &first->other, "endif")) return NULL;
        return first;
    }
    return NULL;
}

/* a: target, b: value; or a set block: body and, in c, its filters around a missing input */
static tpl_node *parse_set(parser *p, int line)
{
    tpl_node *n = node_new(p, NODE_SET, line);
    if (!n || !(n->a = parse_target(p, NULL, true))) return NULL;
    if (skip(p, TOK_ASSIGN)) return (n->b = parse_tuple(p, false, true, NULL, false, false)) ? n : NULL;
    n->kind = NODE_SET_BLOCK;
    while (skip(p, TOK_PIPE))
        if (!(n->c = parse_filter(p, n->c))) return NULL;
    return parse_block_to(p, &n->body, "endset") ? n : NULL;
}

/* list: parameters (NODE_NAME); other: defaults of the last of them */
static bool parse_signature(parser *p, tpl_node *n)
{
    if (!expect(p, TOK_LPAREN, "'('")) return false;
    while (p->t->kind != TOK_RPAREN) {
        if (n->list.n && !expect(p, TOK_COMMA, "',' or ')'")) return false;
        if (p->t->kind != TOK_NAME) return unexpected(p, "a parameter's name") != NULL;
        tpl_node *name = node_new(p, NODE_NAME, p->t->line);
        if (!list_add(p, &n->list, name)) return false;
        name->text = p->t++->text;
        if (skip(p, TOK_ASSIGN)) {
            if (!list_add(p, &n->other, parse_expression(p, true))) return false;
        } else if (n->other.n) {
            return FAIL(p, "a parameter without a default behind one with a default") != NULL;
        }
    }
    p->t++;
    return true;
}

/* The body of a macro or call block; op: which of caller, kwargs, varargs it uses. */
static bool parse_macro_body(parser *p, tpl_node *n, const char *end)
{
    int outer = p->uses;
    p->uses = 0;
    if (!parse_block_to(p, &n->body, end)) return false;
    n->op = p->uses;
    p->uses |= outer;
    return true;
}

static tpl_node *parse_macro(parser *p, int line)
{
    tpl_node *n = node_new(p, NODE_MACRO, line);
    if (!n) return NULL;
    if (p->t->kind != TOK_NAME) return unexpected(p, "the macro's name");
    n->text = p->t++->text;
    return parse_signature(p, n) && parse_macro_body(p, n, "endmacro") ? n : NULL;
}

/* a: the call; the rest is the macro named caller */
static tpl_node *parse_call_block(parser *p, int line)
{
    tpl_node *n = node_new(p, NODE_CALL_BLOCK, line);
    if (!n || (p->t->kind == TOK_LPAREN && !parse_signature(p, n))) return NULL;
    n->text = TPL_STR("caller");
    n->a = parse_expression(p, true);
    if (n->a && n->a->kind != NODE_CALL) return FAIL(p, "{%% call %%} needs the call of a macro");
    return n->a && parse_macro_body(p, n, "endcall") ? n : NULL;
}

/* c: the filters around a missing input */
static tpl_node *parse_filter_block(parser *p, int line)
{
    tpl_node *n = node_new(p, NODE_FILTER_BLOCK, line);
    if (!n || !(n->c = parse_filter(p, NULL))) return NULL;
    while (skip(p, TOK_PIPE))
        if (!(n->c = parse_filter(p, n->c))) return NULL;
    return parse_block_to(p, &n->body, "endfilter") ? n : NULL;
}

/* list: targets, other: values */
static tpl_node *parse_with(parser *p, int line)
{
    tpl_node *n = node_new(p, NODE_WITH, line);
    while (n && p->t->kind != TOK_BLOCK_END && p->t->kind != TOK_COLON) {
        if (n->list.n && !expect(p, TOK_COMMA, "','")) return NULL;
        if (!list_add(p, &n->list, parse_target(p, NULL, false)) || !expect(p, TOK_ASSIGN, "'='") ||
            !list_add(p, &n->other, parse_expression(p, true)))
            return NULL;
    }
    return n && parse_block_to(p, &n->body, "endwith") ? n : NULL;
}

/* {% generation %} marks what the model wrote, for training; rendering passes it through. */
static tpl_node *parse_generation(parser *p, int line)
{
    tpl_node *n = node_new(p, NODE_SCOPE, line);
    return n && parse_block_to(p, &n->body, "endgeneration") ? n : NULL;
}

static tpl_node *parse_break(parser *p, int line)
{
    return node_new(p, NODE_BREAK, line);
}

static tpl_node *parse_continue(parser *p, int line)
{
    return node_new(p, NODE_CONTINUE, line);
}

/* list: expressions */
static tpl_node *parse_print(parser *p, int line)
{
    tpl_node *n = node_new(p, NODE_PRINT, line);
    while (n && p->t->kind != TOK_BLOCK_END) {
        if (n->list.n && !expect(p, TOK_COMMA, "','")) return NULL;
        if (!list_add(p, &n->list, parse_expression(p, true))) return NULL;
    }
    return n;
}

static tpl_node *parse_statement(parser *p)
{
    static const struct {
        const char *name;
        tpl_node *(*parse)(parser *p, int line); /* NULL: refused by name */
    } table[] = {
        {"if", parse_if},
        {"for", parse_for},
        {"set", parse_set},
        {"macro", parse_macro},
        {"call", parse_call_block},
        {"filter", parse_filter_block},
        {"with", parse_with},
        {"generation", parse_generation},
        {"break", parse_break},
        {"continue", parse_continue},
        {"print", parse_print},
        {"include", NULL},
        {"import", NULL},
        {"from", NULL},
        {"extends", NULL},
        {"block", NULL},
        {"autoescape", NULL},
        {"do", NULL},
        {"trans", NULL},
        {"debug", NULL},
    };
    const tpl_token *t = p->t;
    if (t->kind != TOK_NAME) return unexpected(p, "the name of a tag");
    p->t++;
    for (int i = 0; i < RDG_COUNTOF(table); i++) {
        if (!tpl_str_is(t->text, table[i].name)) continue;
        if (table[i].parse) return table[i].parse(p, t->line);
        tpl_compile_fail(p->c, RDG_E_UNSUPPORTED, t->line,
                         "the tag {%% %s %%} is not supported in a chat template", table[i].name);
        return NULL;
    }
    tpl_compile_fail(p->c, RDG_E_MALFORMED, t->line, "unknown tag '%.*s'",
                     (int)RDG_MIN(t->text.n, (size_t)48), t->text.p);
    return NULL;
}

/* Up to the end of the template or one of the end tags, at whose name it stops. */
static bool parse_body(parser *p, tpl_nodes *body, const char *const *ends)
{
    while (p->t->kind != TOK_EOF) {
        int line = p->t->line;
        tpl_node *n;
        if (p->t->kind == TOK_DATA) {
            n = node_new(p, NODE_DATA, line);
            if (n) n->text = p->t->text;
            p->t++;
        } else if (skip(p, TOK_VAR_BEGIN)) {
            n = node_new(p, NODE_PRINT, line);
            if (!n || !list_add(p, &n->list, parse_tuple(p, false, true, NULL, false, false)) ||
                !expect(p, TOK_VAR_END, "}}"))
                return false;
        } else {
            p->t++; /* {% */
            for (int i = 0; ends && ends[i]; i++)
                if (is_name(p->t, ends[i])) return true;
            n = parse_statement(p);
            if (!n || !expect(p, TOK_BLOCK_END, "%}")) return false;
        }
        if (!list_add(p, body, n)) return false;
    }
    return true;
}

bool tpl_parse(tpl_compiler *c, tpl_nodes *body)
{
    parser p = {.c = c, .t = c->tokens};
    return parse_body(&p, body, NULL) && !c->err;
}
