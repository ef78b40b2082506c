/* Compiling and rendering: limits, budgets, the conversation as values, the result with its input spans. */
#include "text/template_internal.h"
#include "format/json.h"

#include <stdio.h>
#include <string.h>

static const rdg_template_limits default_limits = {
    .max_template_bytes = 1 << 20,
    .max_memory_bytes = 256 << 20,
    .max_output_bytes = 32 << 20,
    .max_steps = 20000000,
    .max_range = 100000,
    .max_depth = 400,
};

/* Compiling ------------------------------------------------------------------------------------------- */

static rdg_err read_limits(const rdg_template_limits *given, rdg_template_limits *l, rdg_error *e)
{
    *l = given ? *given : default_limits;
    if (l->max_template_bytes == 0) l->max_template_bytes = default_limits.max_template_bytes;
    if (l->max_memory_bytes == 0) l->max_memory_bytes = default_limits.max_memory_bytes;
    if (l->max_output_bytes == 0) l->max_output_bytes = default_limits.max_output_bytes;
    if (l->max_steps == 0) l->max_steps = default_limits.max_steps;
    if (l->max_range == 0) l->max_range = default_limits.max_range;
    if (l->max_depth == 0) l->max_depth = default_limits.max_depth;
    if (l->max_steps < 0 || l->max_range < 0 || l->max_depth < 0 || l->max_depth > 2000)
        return rdg_fail(e, RDG_E_ARGUMENT,
                        "template limits: max_steps %lld, max_range %lld and max_depth %d must not be "
                        "negative, and max_depth not above 2000",
                        (long long)l->max_steps, (long long)l->max_range, l->max_depth);
    return RDG_OK;
}

rdg_err rdg_template_compile(const char *text, size_t n, const rdg_template_limits *limits,
                             rdg_template **out, rdg_error *e)
{
    rdg_template *t = NULL;
    tpl_compiler c = {.source = text, .n = n, .e = e};
    *out = NULL;
    t = rdg_alloc(sizeof *t);
    if (!t) return rdg_fail(e, RDG_E_NOMEM, "chat template: no memory");
    rdg_arena_init(&t->arena);
    rdg_err err = read_limits(limits, &t->limits, e);
    if (err) goto done;
    if (n > t->limits.max_template_bytes) {
        err = rdg_fail(e, RDG_E_LIMIT, "chat template: it has %zu bytes; the limit is %zu", n,
                       t->limits.max_template_bytes);
        goto done;
    }
    c.arena = &t->arena;
    c.limits = &t->limits;
    if (!tpl_lex(&c) || !tpl_parse(&c, &t->body)) {
        err = c.err ? c.err : rdg_fail(e, RDG_E_INTERNAL, "chat template: compiling failed without a reason");
        goto done;
    }
    *out = t;
    t = NULL;
done:
    rdg_free(c.tokens);
    rdg_template_destroy(t);
    return err;
}

void rdg_template_destroy(rdg_template *t)
{
    if (!t) return;
    rdg_arena_finish(&t->arena);
    rdg_free(t);
}

/* Budgets --------------------------------------------------------------------------------------------- */

bool tpl_fail(tpl_run *r, rdg_err code, const char *fmt, ...)
{
    char text[800];
    va_list ap;
    if (r->err) return false;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (char *p = text; *p; p++) /* a message is one line */
        if ((unsigned char)*p < 0x20) *p = ' ';
    if (r->line)
        r->err = rdg_fail(r->e, code, "chat template, line %d: %s", r->line, text);
    else
        r->err = rdg_fail(r->e, code, "chat template: %s", text);
    return false;
}

bool tpl_charge(tpl_run *r, size_t bytes)
{
    r->steps += 1 + (int64_t)(bytes / 64);
    return r->steps <= r->limits->max_steps ||
           tpl_fail(r, RDG_E_LIMIT, "it takes more than %lld steps", (long long)r->limits->max_steps);
}

void *tpl_alloc(tpl_run *r, size_t n, size_t elem_bytes)
{
    size_t bytes;
    void *p = NULL;
    if (RDG_MUL_OVERFLOW(n, elem_bytes, &bytes) || bytes > r->limits->max_memory_bytes ||
        r->arena.used_bytes > r->limits->max_memory_bytes - bytes) {
        tpl_fail(r, RDG_E_LIMIT, "it needs more than %zu bytes of memory", r->limits->max_memory_bytes);
    } else {
        p = rdg_arena_alloc(&r->arena, bytes);
        if (!p) tpl_fail(r, RDG_E_NOMEM, "no memory for rendering");
    }
    return p;
}

bool tpl_enter(tpl_run *r)
{
    return ++r->depth <= r->limits->max_depth ||
           tpl_fail(r, RDG_E_LIMIT, "it nests deeper than %d levels", r->limits->max_depth);
}

void tpl_leave(tpl_run *r)
{
    r->depth--;
}

/* The conversation ------------------------------------------------------------------------------------ */

/* Ones for the origin of input strings: they all share them. */
static bool input_string(tpl_run *r, const char *p, size_t n, tpl_str *out)
{
    char *copy = tpl_alloc(r, n + 1, 1);
    if (!copy) return false;
    if (n) memcpy(copy, p, n);
    *out = (tpl_str){copy, n, r->input_origin};
    return true;
}

static size_t longest_string(const json_t *j, int depth)
{
    size_t longest = 0, i;
    const char *key;
    json_t *v;
    if (json_is_string(j)) return json_string_length(j);
    if (depth > 2000) return 0; /* the conversion will refuse it */
    if (json_is_array(j)) {
        json_array_foreach((json_t *)j, i, v) longest = RDG_MAX(longest, longest_string(v, depth + 1));
    } else if (json_is_object(j)) {
        json_object_foreach((json_t *)j, key, v)
        {
            longest = RDG_MAX(longest, strlen(key));
            longest = RDG_MAX(longest, longest_string(v, depth + 1));
        }
    }
    return longest;
}

static bool json_container(tpl_run *r, const json_t *j, tpl_value *out)
{
    size_t i;
    const char *key;
    json_t *v;
    tpl_value item;
    if (json_is_array(j)) {
        tpl_list *l = tpl_list_new(r, (int64_t)json_array_size(j));
        if (!l) return false;
        json_array_foreach((json_t *)j, i,
                           v) if (!tpl_from_json(r, v, &item) || !tpl_list_add(r, l, item)) return false;
        *out = tpl_list_value(TPL_LIST, l);
        return true;
    }
    tpl_dict *d = tpl_dict_new(r, (int64_t)json_object_size(j));
    if (!d) return false;
    json_object_foreach((json_t *)j, key, v)
    {
        tpl_str s;
        if (!input_string(r, key, strlen(key), &s) || !tpl_from_json(r, v, &item)) return false;
        d->keys[d->n] = tpl_string(s);
        d->values[d->n++] = item;
    }
    *out = (tpl_value){.kind = TPL_DICT, .u.dict = d};
    return true;
}

bool tpl_from_json(tpl_run *r, const json_t *j, tpl_value *out)
{
    tpl_str s;
    switch (json_typeof(j)) {
    case JSON_NULL: *out = tpl_none(); return true;
    case JSON_TRUE:
    case JSON_FALSE: *out = tpl_bool(json_is_true(j)); return true;
    case JSON_INTEGER: *out = tpl_int(json_integer_value(j)); return true;
    case JSON_REAL: *out = tpl_float(json_real_value(j)); return true;
    case JSON_STRING:
        if (!input_string(r, json_string_value(j), json_string_length(j), &s)) return false;
        *out = tpl_string(s);
        return true;
    default: break;
    }
    if (!tpl_enter(r)) return false;
    bool ok = json_container(r, j, out);
    tpl_leave(r);
    return ok;
}

static bool set_token(tpl_run *r, const char *name, const char *text)
{
    size_t bad;
    if (!text) text = "";
    if (!tpl_valid_utf8(text, strlen(text), &bad))
        return tpl_fail(r, RDG_E_ARGUMENT, "%s is not valid UTF-8 at byte %zu", name, bad);
    return tpl_scope_set(r, r->globals, (tpl_str){name, strlen(name), NULL}, tpl_string_z(text));
}

static bool set_globals(tpl_run *r, const json_t *root)
{
    const char *key;
    json_t *v;
    tpl_value value;
    if (!json_is_object(root)) return tpl_fail(r, RDG_E_MALFORMED, "the input is not a JSON object");
    if (!json_object_get(root, "messages"))
        return tpl_fail(r, RDG_E_MALFORMED, "the input has no \"messages\"");
    size_t longest = longest_string(root, 0);
    unsigned char *ones = tpl_alloc(r, longest, 1);
    if (!ones || !(r->globals = tpl_alloc(r, 1, sizeof *r->globals))) return false;
    memset(ones, 1, longest);
    r->input_origin = ones;
    if (!tpl_scope_set(r, r->globals, TPL_STR("tools"), tpl_none()) ||
        !tpl_scope_set(r, r->globals, TPL_STR("add_generation_prompt"), tpl_bool(false)) ||
        !set_token(r, "bos_token", r->input->bos_token) || !set_token(r, "eos_token", r->input->eos_token))
        return false;
    json_object_foreach((json_t *)root, key, v)
    {
        tpl_str s;
        if (!input_string(r, key, strlen(key), &s)) return false;
        s.origin = NULL;
        if (!tpl_from_json(r, v, &value) || !tpl_scope_set(r, r->globals, s, value)) return false;
    }
    return true;
}

/* Rendering ------------------------------------------------------------------------------------------- */

static rdg_err give_result(const tpl_buffer *b, rdg_template_result *out, rdg_error *e)
{
    size_t n_spans = 0;
    for (size_t i = 0; b->origin && i < b->n; i++) n_spans += b->origin[i] && (i == 0 || !b->origin[i - 1]);
    out->text = rdg_strndup(b->p, b->n);
    out->input_spans = rdg_alloc_array(n_spans, sizeof *out->input_spans);
    if (!out->text || !out->input_spans) {
        rdg_template_result_free(out);
        return rdg_fail(e, RDG_E_NOMEM, "chat template: no memory for %zu bytes of output", b->n);
    }
    out->n = b->n;
    for (size_t i = 0; b->origin && i < b->n; i++) {
        if (!b->origin[i]) continue;
        size_t begin = i;
        while (i < b->n && b->origin[i]) i++;
        out->input_spans[out->n_input_spans++] = (rdg_template_span){begin, i};
    }
    return RDG_OK;
}

rdg_err rdg_template_render_json(const rdg_template *t, const json_t *root, const rdg_template_input *in,
                                 rdg_template_result *out, rdg_error *e)
{
    tpl_buffer text = {0};
    tpl_run r = {.template = t, .limits = &t->limits, .input = in, .out = &text, .e = e};
    *out = (rdg_template_result){0};
    rdg_arena_init(&r.arena);
    tpl_scope *scope = NULL;
    bool ok = set_globals(&r, root) && (scope = tpl_alloc(&r, 1, sizeof *scope)) != NULL;
    if (ok) {
        scope->parent = r.globals;
        ok = tpl_execute(&r, &t->body, scope);
    }
    rdg_err err = ok      ? give_result(&text, out, e)
                  : r.err ? r.err
                          : rdg_fail(e, RDG_E_INTERNAL, "chat template: it failed without a reason");
    rdg_arena_finish(&r.arena);
    return err;
}

rdg_err rdg_template_render(const rdg_template *t, const rdg_template_input *in, rdg_template_result *out,
                            rdg_error *e)
{
    const rdg_json_limits limits = {.max_bytes = t->limits.max_memory_bytes,
                                    .max_values = t->limits.max_memory_bytes / 160,
                                    .max_depth = t->limits.max_depth};
    json_t *root;
    *out = (rdg_template_result){0};
    if (!in->json) return rdg_fail(e, RDG_E_ARGUMENT, "chat template: there is no input");
    rdg_err err = rdg_json_parse(in->json, in->json_bytes, "chat template input", &limits, &root, e);
    if (err) return err;
    err = rdg_template_render_json(t, root, in, out, e);
    json_decref(root);
    return err;
}

void rdg_template_result_free(rdg_template_result *r)
{
    if (!r) return;
    rdg_free(r->input_spans);
    rdg_free(r->text);
    *r = (rdg_template_result){0};
}
