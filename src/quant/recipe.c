/* The recipes as data. A tensor belongs to one category by its name; the first row of its category that lists
 * the recipe and whose condition holds gives the type, otherwise the recipe's base type stands. */
#include "quant/recipe.h"
#include "base/err.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Recipes by name
 * ---------------------------------------------------------------------------------------------- */

typedef struct recipe_row {
    const char *name;
    rdg_recipe recipe;
    rdg_type base;
} recipe_row;

#define ROW(name, base)                                                                                      \
    {                                                                                                        \
#name, RDG_RECIPE_##name, RDG_TYPE_##base                                                            \
    }
static const recipe_row recipes[] = {
    ROW(F32, F32),     ROW(F16, F16),     ROW(BF16, BF16),   ROW(Q4_0, Q4_0),     ROW(Q4_1, Q4_1),
    ROW(Q5_0, Q5_0),   ROW(Q5_1, Q5_1),   ROW(Q8_0, Q8_0),   ROW(Q2_K, Q2_K),     ROW(Q2_K_S, Q2_K),
    ROW(Q3_K_S, Q3_K), ROW(Q3_K_M, Q3_K), ROW(Q3_K_L, Q3_K), ROW(Q4_K_S, Q4_K),   ROW(Q4_K_M, Q4_K),
    ROW(Q5_K_S, Q5_K), ROW(Q5_K_M, Q5_K), ROW(Q6_K, Q6_K),   ROW(IQ4_NL, IQ4_NL), ROW(IQ4_XS, IQ4_XS),
};
#undef ROW

static const recipe_row *find_recipe(rdg_recipe r)
{
    for (int i = 0; i < RDG_COUNTOF(recipes); i++)
        if (recipes[i].recipe == r) return &recipes[i];
    return NULL;
}

bool rdg_recipe_from_name(const char *name, rdg_recipe *out)
{
    for (int i = 0; i < RDG_COUNTOF(recipes); i++) {
        if (strcasecmp(recipes[i].name, name) == 0) {
            *out = recipes[i].recipe;
            return true;
        }
    }
    return false;
}

const char *rdg_recipe_name(rdg_recipe r)
{
    const recipe_row *row = find_recipe(r);
    return row ? row->name : "?";
}

const char *rdg_recipe_list(void)
{
#define NAME(name, id) " " #name
    return &(RDG_RECIPE_MAP(NAME))[1]; /* without the first blank */
#undef NAME
}

bool rdg_recipe_base_type(rdg_recipe recipe, rdg_type *out)
{
    const recipe_row *row = find_recipe(recipe);
    if (row) *out = row->base;
    return row != NULL;
}

/* What is quantised at all
 * ------------------------------------------------------------------------------------- */

/* Small, sensitive or not used in a product: any of these in the name keeps a tensor as it is. */
static const char *const never[] = {
    "_norm.weight",
    "ffn_gate_inp.weight",
    "position_embd.weight",
    "token_types.weight",
    "ssm_conv1d",
    "attn_rel_b.weight",
    "time_mix_first.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "shortconv.conv.weight",
    ".position_embd",
    ".patch_embd",
};

static bool is_quantisable(const rdg_recipe_tensor *t)
{
    size_t n = strlen(t->name);
    if (n < 6 || strcmp(t->name + n - 6, "weight") != 0 || t->n_dims < 2) return false;
    if (!rdg_type_is_quantised(t->type) && !rdg_type_can_dequantise(t->type))
        return false; /* integers, F64 */
    for (int i = 0; i < RDG_COUNTOF(never); i++)
        if (strstr(t->name, never[i])) return false;
    return true;
}

/* Categories and rules
 * ----------------------------------------------------------------------------------------- */

typedef enum category { OTHER, OUTPUT, TOKEN_EMBD, ATTN_V, ATTN_K, ATTN_QKV, ATTN_OUTPUT, FFN_DOWN } category;

static const struct {
    const char *part;
    category category;
} parts[] = {
    {"attn_v.weight", ATTN_V},           {"attn_k.weight", ATTN_K}, {"attn_qkv.weight", ATTN_QKV},
    {"attn_output.weight", ATTN_OUTPUT}, {"ffn_down", FFN_DOWN},
};

static category categorise(const char *name, bool tied)
{
    if (strcmp(name, "output.weight") == 0) return OUTPUT;
    if (strcmp(name, "token_embd.weight") == 0) return tied ? OUTPUT : TOKEN_EMBD;
    for (int i = 0; i < RDG_COUNTOF(parts); i++)
        if (strstr(name, parts[i].part)) return parts[i].category;
    return OTHER;
}

typedef enum condition {
    ALWAYS,
    EIGHT_EXPERTS,
    MORE,                 /* i in the first or last eighth of n, or every third in between */
    FIRST_TWO,            /* i < 2 */
    FIRST_FOUR,           /* i < 4 */
    FIRST_SIXTEENTH,      /* i < n / 16 */
    FIRST_EIGHTH,         /* i < n / 8 */
    FIRST_EIGHTH_PLAIN,   /* and no importance matrix */
    FIRST_EIGHTH_IMATRIX, /* and an importance matrix */
    GQA_FOUR,             /* four or more query heads share a key/value head */
    NOT_EIGHT_EXPERTS,
} condition;

typedef struct rule {
    category category;
    rdg_recipe recipe;
    condition condition;
    rdg_type type;
} rule;

#define RULE(category, recipe, condition, type)                                                              \
    {                                                                                                        \
        category, RDG_RECIPE_##recipe, condition, RDG_TYPE_##type                                            \
    }
static const rule rules[] = {
    RULE(ATTN_V, Q2_K, GQA_FOUR, Q4_K),
    RULE(ATTN_V, Q2_K, ALWAYS, Q3_K),
    RULE(ATTN_V, Q2_K_S, GQA_FOUR, Q4_K),
    RULE(ATTN_V, Q3_K_M, FIRST_TWO, Q5_K),
    RULE(ATTN_V, Q3_K_M, ALWAYS, Q4_K),
    RULE(ATTN_V, Q3_K_L, ALWAYS, Q5_K),
    RULE(ATTN_V, Q4_K_S, FIRST_FOUR, Q5_K),
    RULE(ATTN_V, Q4_K_M, MORE, Q6_K),
    RULE(ATTN_V, Q5_K_M, MORE, Q6_K),
    RULE(ATTN_V, IQ4_NL, GQA_FOUR, Q5_K),
    RULE(ATTN_V, IQ4_XS, GQA_FOUR, Q5_K),

    RULE(ATTN_OUTPUT, Q2_K, EIGHT_EXPERTS, Q5_K),
    RULE(ATTN_OUTPUT, Q2_K, ALWAYS, Q3_K),
    RULE(ATTN_OUTPUT, Q3_K_S, EIGHT_EXPERTS, Q5_K),
    RULE(ATTN_OUTPUT, Q3_K_M, EIGHT_EXPERTS, Q5_K),
    RULE(ATTN_OUTPUT, Q3_K_M, ALWAYS, Q4_K),
    RULE(ATTN_OUTPUT, Q3_K_L, NOT_EIGHT_EXPERTS, Q5_K),
    RULE(ATTN_OUTPUT, Q4_K_S, EIGHT_EXPERTS, Q5_K),
    RULE(ATTN_OUTPUT, Q4_K_M, EIGHT_EXPERTS, Q5_K),
    RULE(ATTN_OUTPUT, IQ4_NL, EIGHT_EXPERTS, Q5_K),
    RULE(ATTN_OUTPUT, IQ4_XS, EIGHT_EXPERTS, Q5_K),

    RULE(ATTN_QKV, Q3_K_M, ALWAYS, Q4_K),
    RULE(ATTN_QKV, Q3_K_L, ALWAYS, Q4_K),
    RULE(ATTN_QKV, Q4_K_M, ALWAYS, Q5_K),
    RULE(ATTN_QKV, Q5_K_M, ALWAYS, Q6_K),

    RULE(FFN_DOWN, Q2_K, ALWAYS, Q3_K),
    RULE(FFN_DOWN, Q2_K_S, FIRST_EIGHTH, Q4_K),
    RULE(FFN_DOWN, Q3_K_M, FIRST_SIXTEENTH, Q5_K),
    RULE(FFN_DOWN, Q3_K_M, ALWAYS, Q4_K),
    RULE(FFN_DOWN, Q3_K_L, ALWAYS, Q5_K),
    RULE(FFN_DOWN, Q4_K_S, FIRST_EIGHTH, Q5_K),
    RULE(FFN_DOWN, Q4_K_M, MORE, Q6_K),
    RULE(FFN_DOWN, Q5_K_M, MORE, Q6_K),
    RULE(FFN_DOWN, IQ4_NL, FIRST_EIGHTH_PLAIN, Q5_K),
    RULE(FFN_DOWN, IQ4_XS, FIRST_EIGHTH_PLAIN, Q5_K),
    RULE(FFN_DOWN, Q4_0, FIRST_EIGHTH_IMATRIX, Q4_1),
    RULE(FFN_DOWN, Q5_0, FIRST_EIGHTH_IMATRIX, Q5_1),
};
#undef RULE

typedef struct position {
    int64_t i, n; /* which of how many tensors of its category */
} position;

static bool holds(condition c, const rdg_recipe_request *rq, const rdg_recipe_model *m, position p)
{
    switch (c) {
    case ALWAYS: return true;
    case EIGHT_EXPERTS: return m->n_experts == 8;
    case NOT_EIGHT_EXPERTS: return m->n_experts != 8;
    case MORE: return p.i < p.n / 8 || p.i >= 7 * p.n / 8 || (p.i - p.n / 8) % 3 == 2;
    case FIRST_TWO: return p.i < 2;
    case FIRST_FOUR: return p.i < 4;
    case FIRST_SIXTEENTH: return p.i < p.n / 16;
    case FIRST_EIGHTH: return p.i < p.n / 8;
    case FIRST_EIGHTH_PLAIN: return p.i < p.n / 8 && !rq->has_imatrix;
    case FIRST_EIGHTH_IMATRIX: return p.i < p.n / 8 && rq->has_imatrix;
    case GQA_FOUR: return m->n_heads_kv > 0 && m->n_heads / m->n_heads_kv >= 4;
    }
    return false;
}

static rdg_type by_rules(const rdg_recipe_request *rq, const rdg_recipe_model *m, category c, position p,
                         int64_t n_columns, rdg_type base)
{
    rdg_type type = base;
    for (int i = 0; i < RDG_COUNTOF(rules); i++) {
        const rule *r = &rules[i];
        if (r->category == c && r->recipe == rq->recipe && holds(r->condition, rq, m, p)) {
            type = r->type;
            break;
        }
    }
    /* Rules that hold in every recipe. */
    if (c == OUTPUT && base != RDG_TYPE_Q8_0)
        type = n_columns % rdg_type_block_elems(base) ? RDG_TYPE_Q8_0 : RDG_TYPE_Q6_K;
    if (c == ATTN_V && m->n_layers == 80 && m->n_heads != m->n_heads_kv &&
        (type == RDG_TYPE_Q3_K || type == RDG_TYPE_Q4_K))
        type = RDG_TYPE_Q5_K; /* taken for a 70B model: its few value heads are cheap */
    if ((c == ATTN_V || c == ATTN_K) && m->n_experts == 8) type = RDG_TYPE_Q8_0;
    return type;
}

/* Rows whose length is no multiple of the block get another type, F16 if even 32 is too long. */
static const struct {
    rdg_type wanted, instead;
} fallbacks[] = {
    {RDG_TYPE_IQ4_XS, RDG_TYPE_IQ4_NL}, {RDG_TYPE_Q2_K, RDG_TYPE_IQ4_NL}, {RDG_TYPE_Q3_K, RDG_TYPE_IQ4_NL},
    {RDG_TYPE_TQ1_0, RDG_TYPE_Q4_0},    {RDG_TYPE_TQ2_0, RDG_TYPE_Q4_0},  {RDG_TYPE_Q4_K, RDG_TYPE_Q5_0},
    {RDG_TYPE_Q5_K, RDG_TYPE_Q5_1},     {RDG_TYPE_Q6_K, RDG_TYPE_Q8_0},   {RDG_TYPE_NVFP4, RDG_TYPE_MXFP4},
    {RDG_TYPE_Q1_0, RDG_TYPE_Q4_0},     {RDG_TYPE_Q2_0, RDG_TYPE_Q4_0},
};

static rdg_type fallback(rdg_type wanted, int64_t n_columns)
{
    if (n_columns % rdg_type_block_elems(wanted) == 0) return wanted;
    for (int i = 0; i < RDG_COUNTOF(fallbacks); i++)
        if (fallbacks[i].wanted == wanted && n_columns % 32 == 0) return fallbacks[i].instead;
    return RDG_TYPE_F16;
}

/* Overrides
 * ---------------------------------------------------------------------------------------------------- */

/* Names are short; a pattern that needs more steps than this is a mistake or an attack. */
enum { MATCH_LIMIT = 100000, DEPTH_LIMIT = 1000, HEAP_LIMIT_KIB = 1024 };

static void *pattern_alloc(PCRE2_SIZE n, void *user)
{
    (void)user;
    return rdg_alloc(n);
}

static void pattern_free(void *p, void *user)
{
    (void)user;
    rdg_free(p);
}

typedef struct patterns {
    pcre2_general_context *general;
    pcre2_compile_context *compile;
    pcre2_code **code;
    int64_t *n_selected;
    int n;
    pcre2_match_data *data;
    pcre2_match_context *context;
} patterns;

static void patterns_finish(patterns *p)
{
    for (int i = 0; p->code && i < p->n; i++) pcre2_code_free(p->code[i]);
    rdg_free(p->code);
    rdg_free(p->n_selected);
    pcre2_match_data_free(p->data);
    pcre2_match_context_free(p->context);
    pcre2_compile_context_free(p->compile);
    pcre2_general_context_free(p->general);
}

static rdg_err patterns_init(patterns *p, const rdg_recipe_request *rq, rdg_error *e)
{
    *p = (patterns){0};
    if (rq->n_overrides <= 0) return RDG_OK;
    p->code = rdg_alloc_array((size_t)rq->n_overrides, sizeof *p->code);
    p->n_selected = rdg_alloc_array((size_t)rq->n_overrides, sizeof *p->n_selected);
    p->general = pcre2_general_context_create(pattern_alloc, pattern_free, NULL);
    p->compile = pcre2_compile_context_create(p->general);
    p->data = pcre2_match_data_create(1, p->general);
    p->context = pcre2_match_context_create(p->general);
    if (!p->code || !p->n_selected || !p->general || !p->compile || !p->data || !p->context)
        return rdg_fail(e, RDG_E_NOMEM, "out of memory for %d tensor type patterns", rq->n_overrides);
    pcre2_set_match_limit(p->context, MATCH_LIMIT);
    pcre2_set_depth_limit(p->context, DEPTH_LIMIT);
    pcre2_set_heap_limit(p->context, HEAP_LIMIT_KIB);
    for (p->n = 0; p->n < rq->n_overrides; p->n++) {
        const rdg_tensor_override *o = &rq->overrides[p->n];
        int code;
        PCRE2_SIZE at;
        if (!rdg_type_can_quantise(o->type))
            return rdg_fail(e, RDG_E_UNSUPPORTED, "pattern '%s': quantising to type %s is not supported",
                            o->pattern, rdg_type_name(o->type));
        p->code[p->n] =
            pcre2_compile((PCRE2_SPTR)o->pattern, PCRE2_ZERO_TERMINATED, 0, &code, &at, p->compile);
        if (!p->code[p->n]) {
            if (code == PCRE2_ERROR_HEAP_FAILED)
                return rdg_fail(e, RDG_E_NOMEM, "no memory for pattern '%s'", o->pattern);
            PCRE2_UCHAR text[256] = "";
            pcre2_get_error_message(code, text, sizeof text);
            return rdg_fail(e, RDG_E_ARGUMENT, "pattern '%s', position %zu: %s", o->pattern, (size_t)at,
                            (char *)text);
        }
    }
    return RDG_OK;
}

/* Index of the first override whose pattern occurs in the name, or -1. */
static rdg_err patterns_find(patterns *p, const rdg_recipe_request *rq, const char *name, int *found,
                             rdg_error *e)
{
    *found = -1;
    for (int i = 0; i < p->n; i++) {
        int rc = pcre2_match(p->code[i], (PCRE2_SPTR)name, strlen(name), 0, 0, p->data, p->context);
        if (rc >= 0) {
            p->n_selected[i]++;
            *found = i;
            return RDG_OK;
        }
        if (rc == PCRE2_ERROR_NOMEMORY)
            return rdg_fail(e, RDG_E_NOMEM, "no memory to match '%s'", rq->overrides[i].pattern);
        if (rc != PCRE2_ERROR_NOMATCH)
            return rdg_fail(e, RDG_E_LIMIT, "pattern '%s' takes too many steps on '%s'; simplify it",
                            rq->overrides[i].pattern, name);
    }
    return RDG_OK;
}

/* The plan
 * ----------------------------------------------------------------------------------------------------- */

/* Parses "blk.<number>." at the start; -1 if it is not there. */
static int64_t layer_of(const char *name)
{
    int64_t layer = 0;
    if (strncmp(name, "blk.", 4) != 0) return -1;
    const char *p = name + 4;
    for (; *p >= '0' && *p <= '9' && p - name < 13; p++) layer = 10 * layer + (*p - '0');
    return *p == '.' && p > name + 4 ? layer : -1;
}

typedef struct ranked {
    int64_t layer, index;
} ranked;

static int by_layer(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* at[t].i = which tensor of the category t is, in layer order. */
static void rank_category(category c, const category *of, const rdg_recipe_tensor *tensors, int64_t n_tensors,
                          ranked *scratch, position *at)
{
    int64_t n = 0;
    for (int64_t t = 0; t < n_tensors; t++)
        if (of[t] == c) scratch[n++] = (ranked){layer_of(tensors[t].name), t};
    qsort(scratch, (size_t)n, sizeof *scratch, by_layer);
    for (int64_t i = 0; i < n; i++) at[scratch[i].index] = (position){i, n};
}

/* token_embd.weight of a tied model is output and embedding at once. The option that names the tensor wins.
 */
static int explicit_type(const rdg_recipe_request *rq, category c, bool is_token_embd)
{
    if (is_token_embd && rq->token_embedding_type >= 0) return rq->token_embedding_type;
    return c == OUTPUT ? rq->output_type : -1;
}

static void report_tied(const rdg_recipe_request *rq, const rdg_log *log)
{
    if (rq->output_type < 0) return;
    const char *output = rdg_type_name((rdg_type)rq->output_type);
    if (rq->token_embedding_type < 0)
        rdg_log_info(
            log,
            "the model has no output.weight, token_embd.weight takes its place: the output's type %s "
            "goes to token_embd.weight",
            output);
    else if (rq->token_embedding_type != rq->output_type)
        rdg_log_warn(log,
                     "the model has no output.weight, token_embd.weight takes its place and gets the token "
                     "embedding's type %s: the output's type %s is not used",
                     rdg_type_name((rdg_type)rq->token_embedding_type), output);
}

static rdg_err choose(const rdg_recipe_request *rq, const rdg_recipe_model *m, patterns *p, category c,
                      position at, rdg_type base, rdg_recipe_tensor *t, rdg_arena *arena, const rdg_log *log,
                      rdg_error *e)
{
    bool is_token_embd = strcmp(t->name, "token_embd.weight") == 0;
    rdg_type wanted = base;
    int found, given = explicit_type(rq, c, is_token_embd);
    rdg_err err = patterns_find(p, rq, t->name, &found, e);
    if (err) return err;
    if (found >= 0)
        wanted = rq->overrides[found].type;
    else if (given >= 0)
        wanted = (rdg_type)given;
    else if (!rq->pure && rdg_type_is_quantised(base))
        wanted = by_rules(rq, m, c, at, t->n_columns, base);
    if (found < 0 && is_token_embd && c == OUTPUT) report_tied(rq, log);
    t->chosen = fallback(wanted, t->n_columns);
    if (t->chosen != wanted) {
        t->warning = rdg_arena_format(arena, "%lld columns are no multiple of %lld: %s instead of %s",
                                      (long long)t->n_columns, (long long)rdg_type_block_elems(wanted),
                                      rdg_type_name(t->chosen), rdg_type_name(wanted));
        if (!t->warning) return rdg_fail(e, RDG_E_NOMEM, "out of memory for warnings");
    }
    if (rq->recipe == RDG_RECIPE_Q2_K_S && t->chosen == RDG_TYPE_Q2_K && !t->has_importance && !is_token_embd)
        return rdg_fail(
            e, RDG_E_ARGUMENT,
            "recipe Q2_K_S stores '%s' as Q2_K, which needs importance: give an importance matrix that has "
            "this tensor, or use Q2_K",
            t->name);
    return RDG_OK;
}

static rdg_err check_request(const rdg_recipe_request *rq, rdg_type *base, rdg_error *e)
{
    if (!rdg_recipe_base_type(rq->recipe, base))
        return rdg_fail(e, RDG_E_ARGUMENT, "recipe %d is unknown; there are %s", (int)rq->recipe,
                        rdg_recipe_list());
    const int explicit_types[2] = {rq->output_type, rq->token_embedding_type};
    for (int i = 0; i < 2; i++)
        if (explicit_types[i] >= 0 && !rdg_type_can_quantise((rdg_type)explicit_types[i]))
            return rdg_fail(
                e, RDG_E_UNSUPPORTED, "the type of the %s: quantising to type %s is not supported",
                i == 0 ? "output" : "token embedding", rdg_type_name((rdg_type)explicit_types[i]));
    return RDG_OK;
}

rdg_err rdg_recipe_plan(const rdg_recipe_request *rq, const rdg_recipe_model *model,
                        rdg_recipe_tensor *tensors, int64_t n_tensors, rdg_arena *arena, const rdg_log *log,
                        rdg_error *e)
{
    patterns p = {0};
    category *of = NULL;
    position *at = NULL;
    ranked *scratch = NULL;
    rdg_type base;
    bool tied = true;
    rdg_err err = check_request(rq, &base, e);
    if (err) return err;
    err = patterns_init(&p, rq, e);
    if (err) goto done;
    of = rdg_alloc_array((size_t)n_tensors, sizeof *of);
    at = rdg_alloc_array((size_t)n_tensors, sizeof *at);
    scratch = rdg_alloc_array((size_t)n_tensors, sizeof *scratch);
    if (!of || !at || !scratch) {
        err = rdg_fail(e, RDG_E_NOMEM, "out of memory for the types of %lld tensors", (long long)n_tensors);
        goto done;
    }
    for (int64_t t = 0; t < n_tensors; t++)
        if (strcmp(tensors[t].name, "output.weight") == 0) tied = false;
    for (int64_t t = 0; t < n_tensors; t++) of[t] = categorise(tensors[t].name, tied);
    rank_category(ATTN_V, of, tensors, n_tensors, scratch, at);
    rank_category(FFN_DOWN, of, tensors, n_tensors, scratch, at);
    for (int64_t t = 0; t < n_tensors; t++) {
        if (of[t] != FFN_DOWN) continue;
        at[t].n = model->n_layers; /* experts: several ffn_down tensors a layer, so the layer itself counts */
        if (model->n_experts > 1 && layer_of(tensors[t].name) >= 0) at[t].i = layer_of(tensors[t].name);
    }
    for (int64_t t = 0; t < n_tensors && !err; t++) {
        tensors[t].warning = NULL;
        tensors[t].chosen = tensors[t].type;
        tensors[t].quantisable = is_quantisable(&tensors[t]);
        if (tensors[t].quantisable)
            err = choose(rq, model, &p, of[t], at[t], base, &tensors[t], arena, log, e);
    }
    for (int i = 0; i < p.n && !err; i++)
        if (p.n_selected[i] == 0)
            rdg_log_warn(log, "tensor type pattern '%s' selects no tensor%s", rq->overrides[i].pattern,
                         i ? " that an earlier pattern leaves" : "");
done:
    rdg_free(scratch);
    rdg_free(at);
    rdg_free(of);
    patterns_finish(&p);
    return err;
}
