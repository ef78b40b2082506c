/* Types by recipe: tensor by tensor against the tables in tests/data/recipes (five shapes, sixteen recipes),
 * and the rules that those shapes do not reach. */
#include <ridge/quantize.h>
#include "quant/recipe.h"
#include "base/compiler.h"
#include "../support/support.h"

#include <jansson.h>

static const char *const parts[] = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                    "ffn_gate", "ffn_up", "ffn_down"};

enum { MAX_TENSORS = 1200 };
typedef struct list {
    rdg_recipe_tensor t[MAX_TENSORS];
    char names[MAX_TENSORS][64];
    int n;
} list;

static void add(list *l, const char *name, int n_dims, int64_t n_columns, rdg_type type)
{
    assert_true(l->n < MAX_TENSORS);
    snprintf(l->names[l->n], sizeof l->names[0], "%s", name);
    l->t[l->n] = (rdg_recipe_tensor){.name = l->names[l->n],
                                     .n_dims = n_dims,
                                     .n_columns = n_columns,
                                     .type = type,
                                     .has_importance = true};
    l->n++;
}

static void add_llama(list *l, int n_layers, int64_t n_columns, bool tied, bool backwards)
{
    char name[64];
    l->n = 0;
    add(l, "token_embd.weight", 2, n_columns, RDG_TYPE_F16);
    if (!tied) add(l, "output.weight", 2, n_columns, RDG_TYPE_F16);
    for (int k = 0; k < n_layers; k++) {
        int i = backwards ? n_layers - 1 - k : k;
        for (int p = 0; p < RDG_COUNTOF(parts); p++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", i, parts[p]);
            add(l, name, 2, n_columns, RDG_TYPE_F16);
        }
        snprintf(name, sizeof name, "blk.%d.attn_norm.weight", i);
        add(l, name, 1, n_columns, RDG_TYPE_F32);
    }
    add(l, "output_norm.weight", 1, n_columns, RDG_TYPE_F32);
}

static rdg_recipe_request request(rdg_recipe r)
{
    return (rdg_recipe_request){.recipe = r, .output_type = -1, .token_embedding_type = -1};
}

static rdg_type chosen(const list *l, const char *name)
{
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->t[i].name, name)) return l->t[i].chosen;
    fail_msg("no tensor %s", name);
    return RDG_TYPE_F32;
}

static void plan(list *l, const rdg_recipe_request *rq, const rdg_recipe_model *m)
{
    rdg_arena arena;
    rdg_error e = {0};
    rdg_arena_init(&arena);
    assert_ok(rdg_recipe_plan(rq, m, l->t, l->n, &arena, NULL, &e), &e);
    for (int i = 0; i < l->n; i++) l->t[i].warning = l->t[i].warning ? "yes" : NULL; /* the arena goes */
    rdg_arena_finish(&arena);
}

static list l; /* large */

static void check_shape(const char *file)
{
    char path[512];
    json_error_t error;
    snprintf(path, sizeof path, "%s/data/recipes/%s.json", RIDGE_TEST_TREE, file);
    json_t *doc = json_load_file(path, 0, &error), *one;
    const char *recipe_name;
    int n_recipes = 0;
    if (!doc) fail_msg("%s: %s", path, error.text);
    rdg_recipe_model m = {
        .n_layers = json_integer_value(json_object_get(doc, "block_count")),
        .n_heads = json_integer_value(json_object_get(doc, "head_count")),
        .n_heads_kv = json_integer_value(json_object_get(doc, "head_count_kv")),
    };
    int64_t n_columns = json_integer_value(json_object_get(doc, "embedding_length"));
    json_object_foreach(json_object_get(doc, "recipes"), recipe_name, one)
    {
        for (int backwards = 0; backwards < 2; backwards++) {
            rdg_recipe r;
            size_t n_others = 0;
            assert_true(rdg_recipe_from_name(recipe_name, &r));
            rdg_recipe_request rq = request(r);
            add_llama(&l, (int)m.n_layers, n_columns, false, backwards);
            plan(&l, &rq, &m);
            for (int i = 0; i < l.n; i++) {
                const rdg_recipe_tensor *t = &l.t[i];
                json_t *other = json_object_get(json_object_get(one, "others"), t->name);
                const char *expected = json_string_value(other ? other : json_object_get(one, "most"));
                rdg_type type;
                if (t->n_dims == 1) {
                    assert_int_equal(t->chosen, RDG_TYPE_F32);
                    continue;
                }
                assert_true(rdg_type_from_name(expected, &type));
                n_others += other != NULL;
                if (t->chosen != type)
                    fail_msg("%s %s %s: %s, expected %s", file, recipe_name, t->name,
                             rdg_type_name(t->chosen), expected);
                assert_null(t->warning);
            }
            assert_int_equal(n_others, json_object_size(json_object_get(one, "others")));
        }
        n_recipes++;
    }
    assert_int_equal(n_recipes, 16);
    json_decref(doc);
}

static void reference_tables(void **state)
{
    (void)state;
    check_shape("l13-gqa2");
    check_shape("l16-gqa4");
    check_shape("l32-gqa1");
    check_shape("l32-gqa4");
    check_shape("l80-gqa8");
}

static void an_importance_matrix_changes_some_rules(void **state)
{
    const rdg_recipe_model m = {.n_layers = 16, .n_heads = 8, .n_heads_kv = 4};
    static const struct {
        rdg_recipe recipe;
        rdg_type first, later;
    } cases[] = {{RDG_RECIPE_IQ4_XS, RDG_TYPE_IQ4_XS, RDG_TYPE_IQ4_XS},
                 {RDG_RECIPE_IQ4_NL, RDG_TYPE_IQ4_NL, RDG_TYPE_IQ4_NL},
                 {RDG_RECIPE_Q4_0, RDG_TYPE_Q4_1, RDG_TYPE_Q4_0},
                 {RDG_RECIPE_Q5_0, RDG_TYPE_Q5_1, RDG_TYPE_Q5_0},
                 {RDG_RECIPE_Q4_K_S, RDG_TYPE_Q5_K, RDG_TYPE_Q4_K},
                 {RDG_RECIPE_Q2_K_S, RDG_TYPE_Q4_K, RDG_TYPE_Q2_K}};
    (void)state;
    for (int i = 0; i < RDG_COUNTOF(cases); i++) {
        rdg_recipe_request rq = request(cases[i].recipe);
        rq.has_imatrix = true;
        add_llama(&l, 16, 512, false, false);
        plan(&l, &rq, &m);
        assert_int_equal(chosen(&l, "blk.1.ffn_down.weight"), cases[i].first);
        assert_int_equal(chosen(&l, "blk.2.ffn_down.weight"), cases[i].later);
    }
}

typedef struct heard {
    rdg_log_level level;
    const char *part;
    int n, n_other;
} heard;

static void on_message(void *user, rdg_log_level level, const char *text)
{
    heard *h = user;
    bool wanted = level == h->level && h->part && strstr(text, h->part);
    h->n += wanted;
    h->n_other += !wanted;
}

/* Plans l; exactly one message, of this level and with this part, or none. */
static void messages_of(const rdg_recipe_request *rq, const rdg_recipe_model *m, rdg_log_level level,
                        const char *part)
{
    heard h = {.level = level, .part = part};
    rdg_log log = {.message = on_message, .user = &h};
    rdg_error e = {0};
    rdg_arena arena;
    rdg_arena_init(&arena);
    assert_int_equal(rdg_recipe_plan(rq, m, l.t, l.n, &arena, &log, &e), RDG_OK);
    rdg_arena_finish(&arena);
    assert_int_equal(h.n, part != NULL);
    assert_int_equal(h.n_other, 0);
}

static void tied_embeddings_are_the_output(void **state)
{
    const rdg_recipe_model m = {.n_layers = 2, .n_heads = 8, .n_heads_kv = 8};
    (void)state;
    rdg_recipe_request rq = request(RDG_RECIPE_Q4_K_M);
    add_llama(&l, 2, 512, true, false);
    plan(&l, &rq, &m);
    assert_int_equal(chosen(&l, "token_embd.weight"), RDG_TYPE_Q6_K);
    rq = request(RDG_RECIPE_Q8_0);
    plan(&l, &rq, &m);
    assert_int_equal(chosen(&l, "token_embd.weight"), RDG_TYPE_Q8_0);
    rq = request(RDG_RECIPE_F16);
    plan(&l, &rq, &m);
    assert_int_equal(chosen(&l, "token_embd.weight"), RDG_TYPE_F16);
    rq = request(RDG_RECIPE_Q4_K_M);
    rq.output_type = RDG_TYPE_Q8_0;
    plan(&l, &rq, &m);
    assert_int_equal(chosen(&l, "token_embd.weight"), RDG_TYPE_Q8_0);
    rq.output_type = -1;
    rq.token_embedding_type = RDG_TYPE_Q5_0;
    plan(&l, &rq, &m);
    assert_int_equal(chosen(&l, "token_embd.weight"), RDG_TYPE_Q5_0);
    rq.output_type = RDG_TYPE_Q8_0; /* both: the one that names the tensor, and a warning */
    messages_of(&rq, &m, RDG_LOG_WARN, "the output's type Q8_0 is not used");
    assert_int_equal(chosen(&l, "token_embd.weight"), RDG_TYPE_Q5_0);
    rq.token_embedding_type = -1;
    messages_of(&rq, &m, RDG_LOG_INFO, "Q8_0 goes to token_embd.weight");
    assert_int_equal(chosen(&l, "token_embd.weight"), RDG_TYPE_Q8_0);
    rq.token_embedding_type = RDG_TYPE_Q8_0;
    messages_of(&rq, &m, RDG_LOG_WARN, NULL);
    add_llama(&l, 2, 512, false, false); /* not tied: each its own, nothing to say */
    rq.token_embedding_type = RDG_TYPE_Q5_0;
    messages_of(&rq, &m, RDG_LOG_WARN, NULL);
    assert_int_equal(chosen(&l, "token_embd.weight"), RDG_TYPE_Q5_0);
    assert_int_equal(chosen(&l, "output.weight"), RDG_TYPE_Q8_0);
}

static void experts(void **state)
{
    static const struct {
        int n_experts;
        rdg_recipe recipe;
        rdg_type v, k, out, down0, down2, shexp3;
    } cases[] = {
        {8, RDG_RECIPE_Q4_K_M, RDG_TYPE_Q8_0, RDG_TYPE_Q8_0, RDG_TYPE_Q5_K, RDG_TYPE_Q6_K, RDG_TYPE_Q4_K,
         RDG_TYPE_Q6_K},
        {64, RDG_RECIPE_Q4_K_M, RDG_TYPE_Q6_K, RDG_TYPE_Q4_K, RDG_TYPE_Q4_K, RDG_TYPE_Q6_K, RDG_TYPE_Q4_K,
         RDG_TYPE_Q6_K},
        {8, RDG_RECIPE_Q3_K_L, RDG_TYPE_Q8_0, RDG_TYPE_Q8_0, RDG_TYPE_Q3_K, RDG_TYPE_Q5_K, RDG_TYPE_Q5_K,
         RDG_TYPE_Q5_K},
        {8, RDG_RECIPE_Q2_K, RDG_TYPE_Q8_0, RDG_TYPE_Q8_0, RDG_TYPE_Q5_K, RDG_TYPE_Q3_K, RDG_TYPE_Q3_K,
         RDG_TYPE_Q3_K},
        {8, RDG_RECIPE_Q5_K_S, RDG_TYPE_Q8_0, RDG_TYPE_Q8_0, RDG_TYPE_Q5_K, RDG_TYPE_Q5_K, RDG_TYPE_Q5_K,
         RDG_TYPE_Q5_K},
    };
    (void)state;
    for (int c = 0; c < RDG_COUNTOF(cases); c++) {
        const rdg_recipe_model m = {
            .n_layers = 8, .n_heads = 8, .n_heads_kv = 8, .n_experts = cases[c].n_experts};
        char name[64];
        l.n = 0;
        for (int i = 0; i < 8;
             i++) { /* two ffn_down tensors a layer: the layer counts, not the running number */
            static const char *const moe[] = {"attn_k",        "attn_v",         "attn_output",
                                              "ffn_down_exps", "ffn_down_shexp", "ffn_gate_inp"};
            for (int p = 0; p < RDG_COUNTOF(moe); p++) {
                snprintf(name, sizeof name, "blk.%d.%s.weight", i, moe[p]);
                add(&l, name, strstr(moe[p], "exps") ? 3 : 2, 512, RDG_TYPE_BF16);
            }
        }
        rdg_recipe_request rq = request(cases[c].recipe);
        plan(&l, &rq, &m);
        assert_int_equal(chosen(&l, "blk.0.attn_v.weight"), cases[c].v);
        assert_int_equal(chosen(&l, "blk.0.attn_k.weight"), cases[c].k);
        assert_int_equal(chosen(&l, "blk.0.attn_output.weight"), cases[c].out);
        assert_int_equal(chosen(&l, "blk.0.ffn_down_exps.weight"), cases[c].down0);
        assert_int_equal(chosen(&l, "blk.2.ffn_down_exps.weight"), cases[c].down2);
        assert_int_equal(chosen(&l, "blk.3.ffn_down_shexp.weight"), cases[c].shexp3);
        assert_int_equal(chosen(&l, "blk.3.ffn_gate_inp.weight"), RDG_TYPE_BF16);
    }
}

static void fused_qkv(void **state)
{
    static const struct {
        rdg_recipe recipe;
        rdg_type type;
    } cases[] = {{RDG_RECIPE_Q4_K_M, RDG_TYPE_Q5_K}, {RDG_RECIPE_Q4_K_S, RDG_TYPE_Q4_K},
                 {RDG_RECIPE_Q5_K_M, RDG_TYPE_Q6_K}, {RDG_RECIPE_Q3_K_M, RDG_TYPE_Q4_K},
                 {RDG_RECIPE_Q3_K_L, RDG_TYPE_Q4_K}, {RDG_RECIPE_Q3_K_S, RDG_TYPE_Q3_K}};
    const rdg_recipe_model m = {.n_layers = 1, .n_heads = 8, .n_heads_kv = 8};
    (void)state;
    for (int i = 0; i < RDG_COUNTOF(cases); i++) {
        rdg_recipe_request rq = request(cases[i].recipe);
        l.n = 0;
        add(&l, "blk.0.attn_qkv.weight", 2, 768, RDG_TYPE_F32);
        plan(&l, &rq, &m);
        assert_int_equal(chosen(&l, "blk.0.attn_qkv.weight"), cases[i].type);
    }
}

static void rows_that_do_not_divide(void **state)
{
    static const struct {
        rdg_recipe recipe;
        int64_t n_columns;
        rdg_type type, output;
    } cases[] = {
        {RDG_RECIPE_Q4_K_S, 96, RDG_TYPE_Q5_0, RDG_TYPE_Q8_0},
        {RDG_RECIPE_Q4_K_S, 100, RDG_TYPE_F16, RDG_TYPE_F16},
        {RDG_RECIPE_Q5_K_S, 96, RDG_TYPE_Q5_1, RDG_TYPE_Q8_0},
        {RDG_RECIPE_Q6_K, 96, RDG_TYPE_Q8_0, RDG_TYPE_Q8_0},
        {RDG_RECIPE_Q3_K_S, 96, RDG_TYPE_IQ4_NL, RDG_TYPE_Q8_0},
        {RDG_RECIPE_IQ4_XS, 96, RDG_TYPE_IQ4_NL, RDG_TYPE_Q8_0},
        {RDG_RECIPE_Q4_0, 96, RDG_TYPE_Q4_0, RDG_TYPE_Q8_0},
        {RDG_RECIPE_Q4_0, 50, RDG_TYPE_F16, RDG_TYPE_F16},
        {RDG_RECIPE_BF16, 50, RDG_TYPE_BF16, RDG_TYPE_BF16},
    };
    const rdg_recipe_model m = {.n_layers = 1, .n_heads = 8, .n_heads_kv = 8};
    (void)state;
    for (int i = 0; i < RDG_COUNTOF(cases); i++) {
        rdg_recipe_request rq = request(cases[i].recipe);
        l.n = 0;
        add(&l, "blk.0.attn_q.weight", 2, cases[i].n_columns, RDG_TYPE_F32);
        add(&l, "output.weight", 2, cases[i].n_columns, RDG_TYPE_F32);
        plan(&l, &rq, &m);
        assert_int_equal(chosen(&l, "blk.0.attn_q.weight"), cases[i].type);
        assert_int_equal(chosen(&l, "output.weight"), cases[i].output);
        rdg_type base;
        assert_true(rdg_recipe_base_type(cases[i].recipe, &base));
        assert_true((l.t[0].warning != NULL) == (cases[i].type != base)); /* a fallback is never silent */
    }
}

static void what_is_left_alone(void **state)
{
    static const char *const names[] = {"blk.0.attn_norm.weight", "blk.0.ffn_gate_inp.weight",
                                        "position_embd.weight",   "token_types.weight",
                                        "blk.0.attn_q.bias",      "blk.0.attn_q_norm.weight",
                                        "rope_freqs.weight.x",    "blk.0.ssm_conv1d.weight"};
    const rdg_recipe_model m = {.n_layers = 1, .n_heads = 8, .n_heads_kv = 8};
    rdg_recipe_request rq = request(RDG_RECIPE_Q4_K_M);
    (void)state;
    l.n = 0;
    for (int i = 0; i < RDG_COUNTOF(names); i++) add(&l, names[i], 2, 512, RDG_TYPE_F32);
    add(&l, "blk.0.attn_q.weight", 1, 512, RDG_TYPE_F32);
    add(&l, "blk.0.ids.weight", 2, 512, RDG_TYPE_I32);
    plan(&l, &rq, &m);
    for (int i = 0; i < l.n; i++) {
        assert_false(l.t[i].quantisable);
        assert_int_equal(l.t[i].chosen, l.t[i].type);
    }
}

static int n_warnings;
static void count_warning(void *user, rdg_log_level level, const char *text)
{
    (void)user;
    (void)text;
    n_warnings += level == RDG_LOG_WARN;
}

static void overrides_and_pure(void **state)
{
    const rdg_recipe_model m = {.n_layers = 8, .n_heads = 8, .n_heads_kv = 8};
    const rdg_tensor_override o[] = {{"blk\\.[01]\\.ffn_down", RDG_TYPE_Q8_0},
                                     {"ffn_down|norm", RDG_TYPE_Q5_0},
                                     {"no such", RDG_TYPE_F16}};
    const rdg_log log = {.message = count_warning};
    rdg_recipe_request rq = request(RDG_RECIPE_Q4_K_M);
    rdg_arena arena;
    rdg_error e = {0};
    (void)state;
    rdg_arena_init(&arena);
    rq.overrides = o;
    rq.n_overrides = 3;
    add_llama(&l, 8, 512, false, false);
    n_warnings = 0;
    assert_ok(rdg_recipe_plan(&rq, &m, l.t, l.n, &arena, &log, &e), &e);
    assert_int_equal(n_warnings, 1);
    assert_int_equal(chosen(&l, "blk.1.ffn_down.weight"), RDG_TYPE_Q8_0);
    assert_int_equal(chosen(&l, "blk.2.ffn_down.weight"), RDG_TYPE_Q5_0);
    assert_int_equal(chosen(&l, "blk.2.attn_norm.weight"), RDG_TYPE_F32);
    assert_int_equal(chosen(&l, "blk.0.attn_v.weight"), RDG_TYPE_Q6_K);
    rq.pure = true;
    assert_ok(rdg_recipe_plan(&rq, &m, l.t, l.n, &arena, NULL, &e), &e);
    assert_int_equal(chosen(&l, "blk.0.attn_v.weight"), RDG_TYPE_Q4_K);
    assert_int_equal(chosen(&l, "output.weight"), RDG_TYPE_Q4_K);
    assert_int_equal(chosen(&l, "blk.1.ffn_down.weight"), RDG_TYPE_Q8_0);

    const rdg_tensor_override bad = {"blk(", RDG_TYPE_Q8_0}, slow = {"^(([a-z0-9._])+)+[A-Z]", RDG_TYPE_Q8_0},
                              unsupported = {"ffn", RDG_TYPE_IQ2_S};
    rq.n_overrides = 1;
    rq.overrides = &bad;
    assert_error(rdg_recipe_plan(&rq, &m, l.t, l.n, &arena, NULL, &e), RDG_E_ARGUMENT, &e, "position 4");
    rq.overrides = &slow;
    assert_error(rdg_recipe_plan(&rq, &m, l.t, l.n, &arena, NULL, &e), RDG_E_LIMIT, &e, "steps");
    rq.overrides = &unsupported;
    assert_error(rdg_recipe_plan(&rq, &m, l.t, l.n, &arena, NULL, &e), RDG_E_UNSUPPORTED, &e, "IQ2_S");
    rdg_arena_finish(&arena);
}

static void two_bits_need_importance(void **state)
{
    const rdg_recipe_model m = {.n_layers = 2, .n_heads = 8, .n_heads_kv = 8};
    rdg_recipe_request rq = request(RDG_RECIPE_Q2_K_S);
    rdg_arena arena;
    rdg_error e = {0};
    (void)state;
    rdg_arena_init(&arena);
    add_llama(&l, 2, 512, false, false);
    for (int i = 0; i < l.n; i++) l.t[i].has_importance = false;
    assert_error(rdg_recipe_plan(&rq, &m, l.t, l.n, &arena, NULL, &e), RDG_E_ARGUMENT, &e,
                 "importance matrix");
    for (int i = 0; i < l.n; i++) l.t[i].has_importance = strcmp(l.t[i].name, "token_embd.weight") != 0;
    assert_ok(rdg_recipe_plan(&rq, &m, l.t, l.n, &arena, NULL, &e), &e);
    rdg_arena_finish(&arena);
}

static void names(void **state)
{
    rdg_recipe r;
    (void)state;
    assert_true(rdg_recipe_from_name("q4_k_m", &r));
    assert_int_equal(r, RDG_RECIPE_Q4_K_M);
    assert_string_equal(rdg_recipe_name(RDG_RECIPE_IQ4_XS), "IQ4_XS");
    assert_string_equal(rdg_recipe_name((rdg_recipe)99), "?");
    assert_false(rdg_recipe_from_name("Q4_K_X", &r));
    /* every recipe of the public list is in the table */
    char text[512], *save = NULL;
    int n = 0;
    snprintf(text, sizeof text, "%s", rdg_recipe_list());
    for (char *p = strtok_r(text, " ", &save); p; p = strtok_r(NULL, " ", &save), n++) {
        rdg_type base;
        assert_true(rdg_recipe_from_name(p, &r));
        assert_string_equal(rdg_recipe_name(r), p);
        assert_true(rdg_recipe_base_type(r, &base));
        assert_true(rdg_type_can_quantise(base));
    }
    assert_int_equal(n, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_tables),
        cmocka_unit_test(an_importance_matrix_changes_some_rules),
        cmocka_unit_test(tied_embeddings_are_the_output),
        cmocka_unit_test(experts),
        cmocka_unit_test(fused_qkv),
        cmocka_unit_test(rows_that_do_not_divide),
        cmocka_unit_test(what_is_left_alone),
        cmocka_unit_test(overrides_and_pure),
        cmocka_unit_test(two_bits_need_importance),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
