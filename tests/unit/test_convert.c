/* Conversion of made-up folders: names, completeness, transforms, settings of config.json, types. Whole
 * models are compared with a framework's numbers in tests/golden. */
#include "../support/support.h"
#include "../support/hf_folder.h"
#include "base/file.h"
#include "convert/outputs.h"
#include "model/arch.h"
#include <ridge/convert.h>
#include <ridge/quantize.h>

#include <dirent.h>
#include <time.h>

static uint64_t seed;

#define LLAMA_CONFIG                                                                                         \
    "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 64, \"intermediate_size\": 96, "           \
    "\"num_hidden_layers\": 2, "                                                                             \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 128, "             \
    "\"rms_norm_eps\": 1e-5, "                                                                               \
    "\"vocab_size\": 32, \"hidden_act\": \"silu\""

/* All tensors of LLAMA_CONFIG but `without` (NULL = none). */
static void add_llama(hf_folder *f, const char *dtype, const char *without)
{
    static const struct {
        const char *name;
        int64_t d0, d1;
    } block[] = {{"input_layernorm.weight", 64, 0},   {"post_attention_layernorm.weight", 64, 0},
                 {"self_attn.q_proj.weight", 64, 64}, {"self_attn.k_proj.weight", 32, 64},
                 {"self_attn.v_proj.weight", 32, 64}, {"self_attn.o_proj.weight", 64, 64},
                 {"mlp.gate_proj.weight", 96, 64},    {"mlp.up_proj.weight", 96, 64},
                 {"mlp.down_proj.weight", 64, 96}};
    hf_folder_random(f, "model.embed_tokens.weight", dtype, 32, 64, 0);
    hf_folder_random(f, "model.norm.weight", dtype, 64, 0, 0);
    if (!without || strcmp(without, "lm_head.weight") != 0)
        hf_folder_random(f, "lm_head.weight", dtype, 32, 64, 0);
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < sizeof block / sizeof *block; k++) {
            char name[128];
            snprintf(name, sizeof name, "model.layers.%d.%s", i, block[k].name);
            if (!without || strcmp(name, without) != 0)
                hf_folder_random(f, name, dtype, block[k].d0, block[k].d1, 0);
        }
    }
}

static rdg_err convert_to(const hf_folder *f, const char *out, int type, int n_threads, rdg_convert_result *r,
                          rdg_error *e)
{
    rdg_convert_params p = {.type = type, .n_threads = n_threads};
    return rdg_convert(f->dir, out, &p, r, e);
}

static rdg_err convert(const hf_folder *f, int type, rdg_error *e)
{
    return convert_to(f, f->out, type, 2, NULL, e);
}

static rdg_gguf *convert_and_open(const hf_folder *f, int type)
{
    rdg_error e = {0};
    rdg_gguf *g = NULL;
    assert_ok(convert(f, type, &e), &e);
    assert_ok(rdg_gguf_open(f->out, NULL, &g, &e), &e);
    return g;
}

/* Nothing but the two inputs may lie in the folder. */
static void assert_no_output(const hf_folder *f)
{
    DIR *d = opendir(f->dir);
    for (struct dirent *entry = readdir(d); entry; entry = readdir(d)) {
        const char *n = entry->d_name;
        if (n[0] == '.' || strcmp(n, "config.json") == 0 || strcmp(n, "model.safetensors") == 0) continue;
        print_error("left behind: %s\n", n);
        fail();
    }
    closedir(d);
}

/* Names
 * ----------------------------------------------------------------------------------------------------------
 */

static void patterns(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *name;
        bool match;
        int64_t i, e;
        const char *suffix;
    } t[] = {
        {"layers.{i}.mlp.up_proj.*", "layers.12.mlp.up_proj.weight", true, 12, -1, ".weight"},
        {"layers.{i}.mlp.up_proj.*", "layers.12.mlp.up_proj.bias", true, 12, -1, ".bias"},
        {"layers.{i}.mlp.up_proj.*", "layers.12.mlp.up_proj.weight_scale", false, 0, 0, ""},
        {"layers.{i}.mlp.up_proj.*", "layers.12.mlp.up_proj", false, 0, 0, ""},
        {"layers.{i}.x", "layers.012.x", false, 0, 0, ""},
        {"layers.{i}.x", "layers.-1.x", false, 0, 0, ""},
        {"layers.{i}.x", "layers..x", false, 0, 0, ""},
        {"layers.{i}.x", "layers.0.xy", false, 0, 0, ""},
        {"layers.{i}.x", "layers.99999999999999999999.x", false, 0, 0, ""},
        {"a.{i}.e.{e}.w", "a.3.e.17.w", true, 3, 17, ""},
        {"tower.**", "tower.anything.at.all", true, -1, -1, ""},
        {"tower.**", "tower.", false, 0, 0, ""},
    };
    for (size_t k = 0; k < sizeof t / sizeof *t; k++) {
        int64_t i, e;
        const char *suffix;
        bool match = rdg_map_match(t[k].pattern, t[k].name, &i, &e, &suffix);
        if (match != t[k].match) print_error("%s against %s\n", t[k].pattern, t[k].name);
        assert_int_equal(match, t[k].match);
        if (!match) continue;
        assert_int_equal(i, t[k].i);
        assert_int_equal(e, t[k].e);
        assert_string_equal(suffix, t[k].suffix);
    }
}

/* The lists for messages name what the tables have, and every class leads to an architecture. */
static void lists(void **state)
{
    (void)state;
    char text[1024];
    int n = 0;
    snprintf(text, sizeof text, "%s", rdg_hf_class_list());
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "), n++) {
        const rdg_hf_class *c = rdg_hf_class_find(word);
        assert_non_null(c);
        assert_string_equal(c->name, word);
        assert_non_null(rdg_arch_find(c->arch, strlen(c->arch)));
    }
    assert_int_equal(n, 20);
    n = 0;
    snprintf(text, sizeof text, "%s", rdg_arch_list());
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "), n++)
        assert_non_null(rdg_arch_find(word, strlen(word)));
    int in_table = 0;
    while (rdg_arch_at(in_table)) in_table++;
    assert_int_equal(n, in_table);
    assert_null(rdg_arch_find("llam", 4));
    assert_null(rdg_arch_find("llamaa", 6));
}

/* Refusals
 * -------------------------------------------------------------------------------------------------------- */

typedef struct refusal {
    const char *config;  /* what follows LLAMA_CONFIG, or a whole config when it begins with '{' */
    const char *without; /* tensor left out */
    const char *extra;   /* tensor added, [64, 64] */
    const char *extra_dtype;
    rdg_err code;
    const char *message;
} refusal;

static void refusals(void **state)
{
    (void)state;
    static const refusal t[] = {
        {"}", "model.layers.1.mlp.up_proj.weight", NULL, NULL, RDG_E_MALFORMED,
         "'model.layers.1.mlp.up_proj.weight'"},
        {"}", "model.layers.0.self_attn.k_proj.weight", NULL, NULL, RDG_E_MALFORMED,
         "'model.layers.0.self_attn.k_proj.weight'"},
        {", \"tie_word_embeddings\": false}", "lm_head.weight", NULL, NULL, RDG_E_MALFORMED,
         "'lm_head.weight'"},
        {"}", NULL, "model.layers.1.mlp.gate.weight", "BF16", RDG_E_UNSUPPORTED,
         "'model.layers.1.mlp.gate.weight'"},
        {"}", NULL, "model.layers.2.mlp.up_proj.weight", "BF16", RDG_E_MALFORMED,
         "'model.layers.2.mlp.up_proj.weight'"},
        {"}", "model.layers.1.self_attn.o_proj.weight", "model.layers.1.self_attn.o_proj.weight", "F8_E4M3",
         RDG_E_UNSUPPORTED, "dtype F8_E4M3"},
        {"}", "model.layers.1.self_attn.o_proj.weight", "model.layers.1.self_attn.o_proj.weight", "I32",
         RDG_E_UNSUPPORTED, "dtype I32"},
        {"}", "model.layers.1.self_attn.k_proj.weight", "model.layers.1.self_attn.k_proj.weight", "BF16",
         RDG_E_MALFORMED, "'model.layers.1.self_attn.k_proj.weight'"},
        {"}", "model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight", "BF16",
         RDG_E_MALFORMED, "blk.1.ffn_up.weight"},
        {", \"head_dim\": 48}", NULL, NULL, NULL, RDG_E_MALFORMED, "_proj.weight"},
        {", \"num_experts\": \"many\"}", NULL, NULL, NULL, RDG_E_MALFORMED, "num_experts"},
        {", \"rope_theta\": -1}", NULL, NULL, NULL, RDG_E_MALFORMED, "rope_theta"},
        {", \"rope_scaling\": {\"rope_type\": \"spiral\"}}", NULL, NULL, NULL, RDG_E_UNSUPPORTED, "'spiral'"},
        {", \"rope_scaling\": {\"type\": \"linear\"}}", NULL, NULL, NULL, RDG_E_MALFORMED, "factor"},
        {", \"rope_scaling\": {\"type\": \"longrope\", \"long_factor\": [1], "
         "\"original_max_position_embeddings\": 64}}",
         NULL, NULL, NULL, RDG_E_MALFORMED, "long_factor"},
        {", \"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4}}", NULL, NULL, NULL,
         RDG_E_UNSUPPORTED, "'gptq'"},
        {"{\"architectures\": [\"MambaForCausalLM\"]}", NULL, NULL, NULL, RDG_E_UNSUPPORTED,
         "'MambaForCausalLM'"},
        {"{\"architectures\": []}", NULL, NULL, NULL, RDG_E_MALFORMED, "architectures"},
        {"{\"architectures\": [\"LlamaForCausalLM\"], \"text_config\": 3}", NULL, NULL, NULL, RDG_E_MALFORMED,
         "text_config"},
        {"{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 64}", NULL, NULL, NULL,
         RDG_E_MALFORMED, "num_hidden_layers"},
        {"{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_act\": \"relu\"}", NULL, NULL, NULL,
         RDG_E_UNSUPPORTED, "'relu'"},
        {"{\"architectures\": [\"LlamaForCausalLM\"], \"num_hidden_layers\": 999999}", NULL, NULL, NULL,
         RDG_E_MALFORMED, "num_hidden_layers"},
    };
    for (size_t k = 0; k < sizeof t / sizeof *t; k++) {
        hf_folder f;
        rdg_error e = {0};
        char config[2048];
        int64_t shape[2] = {64, 64};
        static const unsigned char zeros[64 * 64 * 4];
        hf_folder_make(&f, seed);
        snprintf(config, sizeof config, "%s%s", t[k].config[0] == '{' ? "" : LLAMA_CONFIG, t[k].config);
        hf_folder_config(&f, config);
        add_llama(&f, "BF16", t[k].without);
        if (t[k].extra)
            hf_folder_bytes(&f, t[k].extra, t[k].extra_dtype, 2, shape, zeros,
                            sizeof zeros / (strcmp(t[k].extra_dtype, "I32") == 0    ? 1
                                            : strcmp(t[k].extra_dtype, "BF16") == 0 ? 2
                                                                                    : 4));
        hf_folder_write(&f);
        assert_error(convert(&f, -1, &e), t[k].code, &e, t[k].message);
        assert_no_output(&f);
        hf_folder_remove(&f);
    }
}

static void not_a_folder(void **state)
{
    (void)state;
    hf_folder f;
    rdg_error e = {0};
    char path[400];
    rdg_convert_params p = {.type = -1};
    hf_folder_make(&f, seed);
    assert_error(convert(&f, -1, &e), RDG_E_IO, &e, "config.json");
    hf_folder_config(&f, LLAMA_CONFIG "}");
    snprintf(path, sizeof path, "%s/config.json", f.dir);
    assert_error(rdg_convert(path, f.out, &p, NULL, &e), RDG_E_ARGUMENT, &e, "not a folder");
    snprintf(path, sizeof path, "%s/nothing", f.dir);
    assert_error(rdg_convert(path, f.out, &p, NULL, &e), RDG_E_IO, &e, "nothing");
    hf_folder_remove(&f);
}

/* A value that F16 cannot hold is an error that names the tensor; BF16 keeps it. */
static void overflow(void **state)
{
    (void)state;
    hf_folder f;
    rdg_error e = {0};
    int64_t shape[2] = {64, 64};
    static rdg_bfloat16 big[64 * 64];
    big[100] = rdg_bfloat16_from_f32(1e5f);
    hf_folder_make(&f, seed);
    hf_folder_config(&f, LLAMA_CONFIG "}");
    add_llama(&f, "BF16", "model.layers.1.self_attn.o_proj.weight");
    hf_folder_bytes(&f, "model.layers.1.self_attn.o_proj.weight", "BF16", 2, shape, big, sizeof big);
    hf_folder_write(&f);
    assert_error(convert(&f, RDG_RECIPE_F16, &e), RDG_E_LIMIT, &e, "'blk.1.attn_output.weight' holds 99840");
    assert_no_output(&f);
    assert_ok(convert(&f, -1, &e), &e);
    hf_folder_remove(&f);
}

/* Values
 * ----------------------------------------------------------------------------------------------------------
 */

/* The data of a tensor as stored in the folder. */
static const unsigned char *source_data(const hf_folder *f, const char *name)
{
    char key[160];
    size_t begin = 0;
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *p = strstr(f->header.data, key);
    assert_non_null(p);
    assert_int_equal(sscanf(strstr(p, "data_offsets"), "data_offsets\": [%zu", &begin), 1);
    return (const unsigned char *)f->data.data + begin;
}

/* auto keeps BF16 bit for bit; q and k are permuted by the published formula; vectors become F32. */
static void types_and_permutation(void **state)
{
    (void)state;
    hf_folder f;
    hf_folder_make(&f, seed);
    hf_folder_config(&f, LLAMA_CONFIG "}");
    add_llama(&f, "BF16", NULL);
    hf_folder_write(&f);
    rdg_gguf *g = convert_and_open(&f, -1);
    const rdg_gguf_tensor *t = rdg_gguf_tensor_find(g, "blk.1.ffn_down.weight");
    assert_int_equal(t->type, RDG_TYPE_BF16);
    assert_int_equal(t->dim[0], 96);
    assert_int_equal(t->dim[1], 64);
    assert_memory_equal(t->data, source_data(&f, "model.layers.1.mlp.down_proj.weight"), t->bytes);
    t = rdg_gguf_tensor_find(g, "blk.1.attn_k.weight");
    const unsigned char *src = source_data(&f, "model.layers.1.self_attn.k_proj.weight");
    enum { HD = 16, ROW = 64 * 2 };
    for (int h = 0; h < 2; h++)
        for (int s = 0; s < 2; s++)
            for (int i = 0; i < HD / 2; i++)
                assert_memory_equal((const unsigned char *)t->data + (h * HD + 2 * i + s) * ROW,
                                    src + (h * HD + s * HD / 2 + i) * ROW, ROW);
    t = rdg_gguf_tensor_find(g, "output_norm.weight");
    assert_int_equal(t->type, RDG_TYPE_F32);
    src = source_data(&f, "model.norm.weight");
    for (int i = 0; i < 64; i++) {
        rdg_bfloat16 h;
        float v;
        memcpy(&h, src + 2 * i, 2);
        memcpy(&v, (const char *)t->data + 4 * i, 4);
        assert_true(rdg_bfloat16_to_f32(h) == v);
    }
    uint32_t file_type = 0;
    assert_int_equal(rdg_gguf_get_u32(g, "general.file_type", &file_type, NULL), RDG_OK);
    assert_int_equal(file_type, RDG_RECIPE_BF16);
    rdg_gguf_close(g);
    hf_folder_remove(&f);
}

static void assert_same_file(const char *a, const char *b)
{
    char *x, *y;
    size_t n, m;
    rdg_error e = {0};
    assert_ok(rdg_file_read(a, (size_t)1 << 30, false, &x, &n, &e), &e);
    assert_ok(rdg_file_read(b, (size_t)1 << 30, false, &y, &m, &e), &e);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    rdg_free(x);
    rdg_free(y);
}

/* Any number of threads writes the same bytes, and so does an F32 source that holds the same values. */
static void threads(void **state)
{
    (void)state;
    hf_folder f;
    rdg_error e = {0};
    char two[300];
    hf_folder_make(&f, seed);
    hf_folder_config(&f, LLAMA_CONFIG "}");
    add_llama(&f, "BF16", NULL);
    hf_folder_write(&f);
    snprintf(two, sizeof two, "%s/two.gguf", f.dir);
    static const int types[] = {-1, RDG_RECIPE_F32, RDG_RECIPE_Q8_0, RDG_RECIPE_Q4_K_M};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        assert_ok(convert_to(&f, f.out, types[i], 1, NULL, &e), &e);
        assert_ok(convert_to(&f, two, types[i], 5, NULL, &e), &e);
        assert_same_file(f.out, two);
    }
    hf_folder_remove(&f);
}

/* Straight to a quantised type gives the tensors that conversion and quantisation one after the other give.
 */
static void straight_to_quantised(void **state)
{
    (void)state;
    static const int recipes[] = {RDG_RECIPE_Q8_0, RDG_RECIPE_Q4_0, RDG_RECIPE_Q4_K_M};
    for (size_t k = 0; k < sizeof recipes / sizeof *recipes; k++) {
        hf_folder f;
        rdg_error e = {0};
        rdg_gguf *a = NULL, *b = NULL;
        char two[300];
        hf_folder_make(&f, seed);
        hf_folder_config(&f, LLAMA_CONFIG "}");
        add_llama(&f, "BF16", NULL);
        hf_folder_write(&f);
        snprintf(two, sizeof two, "%s/two.gguf", f.dir);
        assert_ok(convert(&f, -1, &e), &e);
        rdg_quantize_params q = {
            .recipe = (rdg_recipe)recipes[k], .n_threads = 1, .output_type = -1, .token_embedding_type = -1};
        assert_ok(rdg_quantize_file(f.out, two, &q, NULL, &e), &e);
        assert_ok(convert(&f, recipes[k], &e), &e);
        assert_ok(rdg_gguf_open(f.out, NULL, &a, &e), &e);
        assert_ok(rdg_gguf_open(two, NULL, &b, &e), &e);
        assert_int_equal(rdg_gguf_n_tensors(a), rdg_gguf_n_tensors(b));
        for (int64_t i = 0; i < rdg_gguf_n_tensors(a); i++) {
            const rdg_gguf_tensor *t = rdg_gguf_tensor_at(a, i), *u = rdg_gguf_tensor_find(b, t->name);
            assert_non_null(u);
            if (t->type != u->type)
                print_error("%s: %s and %s\n", t->name, rdg_type_name(t->type), rdg_type_name(u->type));
            assert_int_equal(t->type, u->type);
            assert_memory_equal(t->data, u->data, t->bytes);
        }
        uint32_t v = 0;
        assert_int_equal(rdg_gguf_get_u32(a, "general.file_type", &v, NULL), RDG_OK);
        assert_int_equal(v, recipes[k]);
        assert_int_equal(rdg_gguf_get_u32(a, "general.quantization_version", &v, NULL), RDG_OK);
        assert_int_equal(v, 2);
        rdg_gguf_close(a);
        rdg_gguf_close(b);
        hf_folder_remove(&f);
    }
}

/* A stored lm_head beside tied embeddings is not written; without the field its presence decides. */
static void tied(void **state)
{
    (void)state;
    static const struct {
        const char *config, *without;
        bool output;
    } t[] = {{", \"tie_word_embeddings\": true}", NULL, false},
             {", \"tie_word_embeddings\": false}", NULL, true},
             {"}", NULL, true},
             {", \"tie_word_embeddings\": null}", "lm_head.weight", false},
             {", \"tie_word_embeddings\": true}", "lm_head.weight", false}};
    for (size_t k = 0; k < sizeof t / sizeof *t; k++) {
        hf_folder f;
        char config[1024];
        hf_folder_make(&f, seed);
        snprintf(config, sizeof config, "%s%s", LLAMA_CONFIG, t[k].config);
        hf_folder_config(&f, config);
        add_llama(&f, "F16", t[k].without);
        hf_folder_write(&f);
        rdg_gguf *g = convert_and_open(&f, -1);
        assert_int_equal(rdg_gguf_tensor_find(g, "output.weight") != NULL, t[k].output);
        assert_int_equal(rdg_gguf_tensor_find(g, "token_embd.weight")->type, RDG_TYPE_F16);
        rdg_gguf_close(g);
        hf_folder_remove(&f);
    }
}

/* config.json
 * ------------------------------------------------------------------------------------------------------ */

static double real_key(const rdg_gguf *g, const char *key)
{
    float v = NAN;
    rdg_gguf_get_f32(g, key, &v, NULL);
    return (double)v;
}

static int64_t int_key(const rdg_gguf *g, const char *key)
{
    int64_t v = -1;
    rdg_gguf_get_i64(g, key, &v, NULL);
    return v;
}

static void str_key(const rdg_gguf *g, const char *key, char out[64])
{
    rdg_str s = {"", 0};
    rdg_gguf_get_str(g, key, &s, NULL);
    snprintf(out, 64, "%.*s", (int)s.n, s.p);
}

static rdg_gguf *with_config(hf_folder *f, const char *rest)
{
    char config[2048];
    hf_folder_make(f, seed);
    snprintf(config, sizeof config, "%s%s", LLAMA_CONFIG, rest);
    hf_folder_config(f, config);
    add_llama(f, "BF16", NULL);
    hf_folder_write(f);
    return convert_and_open(f, -1);
}

/* Both generations of rope settings give the same file. */
static void rope_forms(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {", \"rope_theta\": 500000.0, \"rope_scaling\": null}",
         ", \"rope_parameters\": {\"rope_theta\": 500000.0, \"rope_type\": \"default\"}}"},
        {", \"rope_theta\": 10000, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}}",
         ", \"rope_parameters\": {\"rope_theta\": 10000.0, \"rope_type\": \"linear\", \"factor\": 4.0}}"},
        {", \"rope_theta\": 1e6, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, "
         "\"original_max_position_embeddings\": 32}}",
         ", \"rope_parameters\": {\"rope_theta\": 1e6, \"rope_type\": \"yarn\", \"factor\": 4.0, "
         "\"original_max_position_embeddings\": 32}}"},
        {", \"rope_theta\": 500000.0, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 32.0, "
         "\"original_max_position_embeddings\": 64}}",
         ", \"rope_parameters\": {\"rope_theta\": 500000.0, \"rope_type\": \"llama3\", \"factor\": 32.0, "
         "\"high_freq_factor\": 4.0, "
         "\"low_freq_factor\": 1.0, \"original_max_position_embeddings\": 64}}"},
    };
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
        hf_folder a, b;
        rdg_gguf *x = with_config(&a, pairs[k][0]), *y = with_config(&b, pairs[k][1]);
        rdg_gguf_close(x);
        rdg_gguf_close(y);
        /* the names of the folders differ */
        rdg_error e = {0};
        rdg_convert_params p = {.type = -1, .name = "same"};
        assert_ok(rdg_convert(a.dir, a.out, &p, NULL, &e), &e);
        assert_ok(rdg_convert(b.dir, b.out, &p, NULL, &e), &e);
        assert_same_file(a.out, b.out);
        hf_folder_remove(&a);
        hf_folder_remove(&b);
    }
}

static void rope_keys(void **state)
{
    (void)state;
    hf_folder f;
    char type[64];
    rdg_gguf *g = with_config(
        &f, ", \"rope_theta\": 1e6, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, "
            "\"original_max_position_embeddings\": 32, \"beta_fast\": 24, \"attention_factor\": 1.5}}");
    str_key(g, "llama.rope.scaling.type", type);
    assert_string_equal(type, "yarn");
    assert_float_equal(real_key(g, "llama.rope.scaling.factor"), 4, 0);
    assert_int_equal(int_key(g, "llama.rope.scaling.original_context_length"), 32);
    assert_float_equal(real_key(g, "llama.rope.scaling.yarn_beta_fast"), 24, 0);
    assert_true(isnan(real_key(g, "llama.rope.scaling.yarn_beta_slow")));
    /* what the reader makes of it: the config's factor itself */
    const rdg_arch *arch;
    rdg_hparams *h = rdg_alloc(sizeof *h);
    rdg_error e = {0};
    assert_ok(rdg_hparams_read(g, &arch, h, &e), &e);
    assert_float_equal(h->rope.magnitude, 1.5, 1e-6);
    assert_float_equal(h->rope.freq_scale, 0.25, 0);
    assert_float_equal(h->rope.ext_factor, 1, 0);
    /* cdim(b) = n ln(L / 2 pi b) / (2 ln base) for n = 16, L = 32, base 1e6: below 0 and 0.94 */
    assert_float_equal(h->rope.corr_low, 0, 0);
    assert_float_equal(h->rope.corr_high, 1, 0);
    rdg_gguf_close(g);
    hf_folder_remove(&f);

    g = with_config(&f, ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 8}, \"sliding_window\": "
                        "null, \"head_dim\": null}");
    assert_ok(rdg_hparams_read(g, &arch, h, &e), &e);
    assert_float_equal(h->rope.freq_scale, 0.125, 0);
    assert_float_equal(h->rope.freq_base, 10000, 0);
    assert_int_equal(h->window, 0);
    assert_int_equal(h->head_dim_k, 16);
    assert_null(rdg_gguf_find(g, "llama.attention.key_length"));
    rdg_gguf_close(g);
    hf_folder_remove(&f);

    /* longrope: two tensors and a magnitude */
    g = with_config(
        &f,
        ", \"rope_scaling\": {\"type\": \"longrope\", \"long_factor\": [1,2,3,4,5,6,7,8], \"short_factor\": "
        "[1,1,1,1,1,1,1,1.5]}, \"original_max_position_embeddings\": 32}");
    assert_ok(rdg_hparams_read(g, &arch, h, &e), &e);
    assert_true(h->longrope);
    assert_int_equal(h->n_ctx_orig, 32);
    assert_float_equal(h->rope.magnitude, sqrt(1 + log(128.0 / 32) / log(32.0)), 1e-6);
    const float *factors = rdg_gguf_tensor_find(g, "rope_factors_long.weight")->data;
    assert_float_equal(factors[7], 8, 0);
    factors = rdg_gguf_tensor_find(g, "rope_factors_short.weight")->data;
    assert_float_equal(factors[7], 1.5, 0);
    rdg_gguf_close(g);
    hf_folder_remove(&f);
    rdg_free(h);
}

/* A multimodal wrapper: fields in text_config, tensors behind language_model. */
static void wrapper(void **state)
{
    (void)state;
    hf_folder f;
    char config[1024], *p;
    snprintf(config, sizeof config,
             "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 1, \"text_config\": %s}}",
             LLAMA_CONFIG);
    hf_folder_make(&f, seed);
    hf_folder_config(&f, config);
    add_llama(&f, "BF16", "lm_head.weight");
    rdg_buf renamed;
    rdg_buf_init(&renamed);
    for (p = f.header.data; *p;) {
        if (strncmp(p, "\"model.", 7) == 0) {
            rdg_buf_puts(&renamed, "\"language_model.model.");
            p += 7;
        } else {
            rdg_buf_putc(&renamed, *p++);
        }
    }
    rdg_buf_finish(&f.header);
    f.header = renamed;
    hf_folder_write(&f);
    rdg_gguf *g = convert_and_open(&f, -1);
    assert_int_equal(int_key(g, "llama.embedding_length"), 64);
    assert_int_equal(rdg_gguf_n_tensors(g), 20);
    rdg_gguf_close(g);
    hf_folder_remove(&f);
}

static void warnings(void **state)
{
    (void)state;
    hf_folder f;
    rdg_error e = {0};
    rdg_convert_result r;
    hf_folder_make(&f, seed);
    hf_folder_config(&f, LLAMA_CONFIG ", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.0}}");
    add_llama(&f, "BF16", NULL);
    hf_folder_write(&f);
    assert_ok(convert_to(&f, f.out, -1, 1, &r, &e), &e);
    assert_int_equal(r.n_warnings, 2);
    assert_non_null(strstr(r.warnings[0], "dynamic"));
    assert_non_null(strstr(r.warnings[1], "token ids"));
    assert_string_equal(r.architecture, "llama");
    assert_int_equal(r.n_tensors, 21);
    assert_int_equal(r.n_params, 2 * 32 * 64 + 64 + 2 * (2 * 64 + 2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64));
    rdg_convert_result_finish(&r);
    hf_folder_remove(&f);
}

/* Experts
 * -----------------------------------------------------------------------------------------------------------
 */

enum { E = 4, EMBD = 64, FF = 32 };

static void add_gpt_oss(hf_folder *f, bool mxfp4, const unsigned char *blocks, const unsigned char *scales)
{
    char name[128];
    hf_folder_config(
        f,
        "{\"architectures\": [\"GptOssForCausalLM\"], \"hidden_size\": 64, \"intermediate_size\": 32, "
        "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 32, "
        "\"max_position_embeddings\": 128, \"rms_norm_eps\": 1e-5, \"num_local_experts\": 4, "
        "\"num_experts_per_tok\": 2, \"sliding_window\": 16, \"tie_word_embeddings\": false}");
    hf_folder_random(f, "model.embed_tokens.weight", "BF16", 32, EMBD, 0);
    hf_folder_random(f, "model.norm.weight", "BF16", EMBD, 0, 0);
    hf_folder_random(f, "lm_head.weight", "BF16", 32, EMBD, 0);
    static const struct {
        const char *name;
        int64_t d0, d1;
    } block[] = {{"input_layernorm.weight", EMBD, 0},
                 {"post_attention_layernorm.weight", EMBD, 0},
                 {"self_attn.sinks", 2, 0},
                 {"self_attn.q_proj.weight", 64, EMBD},
                 {"self_attn.k_proj.weight", 32, EMBD},
                 {"self_attn.v_proj.weight", 32, EMBD},
                 {"self_attn.o_proj.weight", EMBD, 64},
                 {"mlp.router.weight", E, EMBD},
                 {"mlp.router.bias", E, 0},
                 {"mlp.experts.gate_up_proj_bias", E, 2 * FF},
                 {"mlp.experts.down_proj_bias", E, EMBD}};
    for (size_t k = 0; k < sizeof block / sizeof *block; k++) {
        snprintf(name, sizeof name, "model.layers.0.%s", block[k].name);
        hf_folder_random(f, name, "BF16", block[k].d0, block[k].d1, 0);
    }
    if (!mxfp4) {
        hf_folder_random(f, "model.layers.0.mlp.experts.gate_up_proj", "BF16", E, EMBD, 2 * FF);
        hf_folder_random(f, "model.layers.0.mlp.experts.down_proj", "BF16", E, FF, EMBD);
    } else {
        int64_t gu[4] = {E, 2 * FF, EMBD / 32, 16}, d[4] = {E, EMBD, FF / 32, 16};
        size_t n_gu = E * 2 * FF * EMBD / 32, n_d = E * EMBD * FF / 32;
        hf_folder_bytes(f, "model.layers.0.mlp.experts.gate_up_proj_blocks", "U8", 4, gu, blocks, n_gu * 16);
        hf_folder_bytes(f, "model.layers.0.mlp.experts.gate_up_proj_scales", "U8", 3, gu, scales, n_gu);
        hf_folder_bytes(f, "model.layers.0.mlp.experts.down_proj_blocks", "U8", 4, d, blocks, n_d * 16);
        hf_folder_bytes(f, "model.layers.0.mlp.experts.down_proj_scales", "U8", 3, d, scales, n_d);
    }
    hf_folder_write(f);
}

/* Value (row, column) of expert e by the framework's layout: two values a byte, the low nibble first. */
static double mxfp4_value(const unsigned char *blocks, const unsigned char *scales, int64_t n_rows,
                          int64_t n_columns, int64_t e, int64_t row, int64_t column)
{
    static const double values[16] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};
    int64_t block = (e * n_rows + row) * (n_columns / 32) + column / 32, k = column % 32;
    unsigned nibble = blocks[block * 16 + k / 2] >> (k % 2 ? 4 : 0) & 15;
    return values[nibble] * ldexp(1.0, (int)scales[block] - 127);
}

static void assert_mxfp4(const rdg_gguf *g, const char *name, const unsigned char *blocks,
                         const unsigned char *scales, int64_t n_rows_stored, int64_t n_columns, int64_t step,
                         int64_t first)
{
    const rdg_gguf_tensor *t = rdg_gguf_tensor_find(g, name);
    rdg_error e = {0};
    float row[EMBD];
    assert_non_null(t);
    assert_int_equal(t->type, RDG_TYPE_MXFP4);
    assert_int_equal(t->dim[0], n_columns);
    assert_int_equal(t->dim[1], n_rows_stored / step);
    assert_int_equal(t->dim[2], E);
    int64_t row_bytes = rdg_type_row_bytes(RDG_TYPE_MXFP4, n_columns);
    for (int64_t x = 0; x < E; x++) {
        for (int64_t r = 0; r < t->dim[1]; r++) {
            assert_ok(rdg_dequantise_rows(RDG_TYPE_MXFP4,
                                          (const char *)t->data + (x * t->dim[1] + r) * row_bytes, row, 1,
                                          n_columns, &e),
                      &e);
            for (int64_t c = 0; c < n_columns; c++)
                assert_true((double)row[c] ==
                            mxfp4_value(blocks, scales, n_rows_stored, n_columns, x, r * step + first, c));
        }
    }
}

static void mxfp4(void **state)
{
    (void)state;
    hf_folder f;
    rdg_error e = {0};
    static unsigned char blocks[E * 2 * FF * EMBD / 2], scales[E * 2 * FF * EMBD / 32];
    static const int types[] = {-1, RDG_RECIPE_F32, RDG_RECIPE_Q4_0};
    hf_folder_make(&f, seed);
    for (size_t i = 0; i < sizeof blocks; i++) blocks[i] = (unsigned char)rdg_rng_next(&f.rng);
    for (size_t i = 0; i < sizeof scales; i++) scales[i] = (unsigned char)(100 + rdg_rng_below(&f.rng, 50));
    add_gpt_oss(&f, true, blocks, scales);
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        rdg_gguf *g = convert_and_open(&f, types[k]);
        assert_mxfp4(g, "blk.0.ffn_gate_exps.weight", blocks, scales, 2 * FF, EMBD, 2, 0);
        assert_mxfp4(g, "blk.0.ffn_up_exps.weight", blocks, scales, 2 * FF, EMBD, 2, 1);
        assert_mxfp4(g, "blk.0.ffn_down_exps.weight", blocks, scales, EMBD, FF, 1, 0);
        rdg_gguf_close(g);
    }
    hf_folder_remove(&f);

    /* a scale that is no number, and scales that are missing */
    hf_folder_make(&f, seed);
    scales[77] = 255;
    add_gpt_oss(&f, true, blocks, scales);
    assert_error(convert(&f, -1, &e), RDG_E_MALFORMED, &e, "gate_up_proj_scales");
    assert_no_output(&f);
    hf_folder_remove(&f);
}

/* gate and up alternate along the last axis and everything is stored (in, out). */
static void gpt_oss_split(void **state)
{
    (void)state;
    hf_folder f;
    hf_folder_make(&f, seed);
    add_gpt_oss(&f, false, NULL, NULL);
    rdg_gguf *g = convert_and_open(&f, -1);
    const unsigned char *src = source_data(&f, "model.layers.0.mlp.experts.gate_up_proj");
    static const char *const names[] = {"blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight"};
    for (int parity = 0; parity < 2; parity++) {
        const rdg_gguf_tensor *t = rdg_gguf_tensor_find(g, names[parity]);
        assert_int_equal(t->type, RDG_TYPE_BF16);
        for (int e = 0; e < E; e++)
            for (int r = 0; r < FF; r++)
                for (int c = 0; c < EMBD; c++)
                    assert_memory_equal((const char *)t->data + 2 * ((e * FF + r) * EMBD + c),
                                        src + 2 * ((e * EMBD + c) * 2 * FF + 2 * r + parity), 2);
    }
    const rdg_gguf_tensor *bias = rdg_gguf_tensor_find(g, "blk.0.ffn_up_exps.bias");
    src = source_data(&f, "model.layers.0.mlp.experts.gate_up_proj_bias");
    assert_int_equal(bias->type, RDG_TYPE_F32);
    for (int e = 0; e < E; e++) {
        for (int r = 0; r < FF; r++) {
            rdg_bfloat16 h;
            float v;
            memcpy(&h, src + 2 * (e * 2 * FF + 2 * r + 1), 2);
            memcpy(&v, (const char *)bias->data + 4 * (e * FF + r), 4);
            assert_true(rdg_bfloat16_to_f32(h) == v);
        }
    }
    rdg_gguf_close(g);
    hf_folder_remove(&f);
}

/* One tensor an expert, all experts (in, out), all experts (out, in): the same file. */
static void fused_experts(void **state)
{
    (void)state;
    enum { IN = 64, OUT = 24 };
    static rdg_bfloat16 gate_up[E][2 * OUT][IN], down[E][IN][OUT], t_gate_up[E][IN][2 * OUT],
        t_down[E][OUT][IN];
    hf_folder f[3];
    rdg_error e = {0};
    rdg_rng rng;
    char name[128];
    rdg_rng_seed(&rng, seed);
    for (int x = 0; x < E; x++)
        for (int r = 0; r < 2 * OUT; r++)
            for (int c = 0; c < IN; c++) {
                t_gate_up[x][c][r] = gate_up[x][r][c] = rdg_bfloat16_from_f32(rdg_rng_normal(&rng));
                if (r < OUT) t_down[x][r][c] = down[x][c][r] = rdg_bfloat16_from_f32(rdg_rng_normal(&rng));
            }
    for (int k = 0; k < 3; k++) {
        hf_folder_make(&f[k], seed);
        hf_folder_config(
            &f[k],
            "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"hidden_size\": 64, \"intermediate_size\": 48, "
            "\"moe_intermediate_size\": 24, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
            "\"num_key_value_heads\": 1, \"head_dim\": 32, \"max_position_embeddings\": 128, "
            "\"rms_norm_eps\": 1e-5, \"num_experts\": 4, \"num_experts_per_tok\": 2, \"norm_topk_prob\": "
            "true, "
            "\"tie_word_embeddings\": true}");
        hf_folder_random(&f[k], "model.embed_tokens.weight", "BF16", 32, IN, 0);
        hf_folder_random(&f[k], "model.norm.weight", "BF16", IN, 0, 0);
        hf_folder_random(&f[k], "model.layers.0.input_layernorm.weight", "BF16", IN, 0, 0);
        hf_folder_random(&f[k], "model.layers.0.post_attention_layernorm.weight", "BF16", IN, 0, 0);
        hf_folder_random(&f[k], "model.layers.0.self_attn.q_proj.weight", "BF16", 64, IN, 0);
        hf_folder_random(&f[k], "model.layers.0.self_attn.k_proj.weight", "BF16", 32, IN, 0);
        hf_folder_random(&f[k], "model.layers.0.self_attn.v_proj.weight", "BF16", 32, IN, 0);
        hf_folder_random(&f[k], "model.layers.0.self_attn.o_proj.weight", "BF16", IN, 64, 0);
        hf_folder_random(&f[k], "model.layers.0.self_attn.q_norm.weight", "BF16", 32, 0, 0);
        hf_folder_random(&f[k], "model.layers.0.self_attn.k_norm.weight", "BF16", 32, 0, 0);
        hf_folder_random(&f[k], "model.layers.0.mlp.gate.weight", "BF16", E, IN, 0);
        for (int x = 0; x < E && k == 0; x++) {
            int64_t wide[2] = {OUT, IN}, tall[2] = {IN, OUT};
            snprintf(name, sizeof name, "model.layers.0.mlp.experts.%d.gate_proj.weight", x);
            hf_folder_bytes(&f[k], name, "BF16", 2, wide, gate_up[x][0], sizeof gate_up[x] / 2);
            snprintf(name, sizeof name, "model.layers.0.mlp.experts.%d.up_proj.weight", x);
            hf_folder_bytes(&f[k], name, "BF16", 2, wide, gate_up[x][OUT], sizeof gate_up[x] / 2);
            snprintf(name, sizeof name, "model.layers.0.mlp.experts.%d.down_proj.weight", x);
            hf_folder_bytes(&f[k], name, "BF16", 2, tall, down[x], sizeof down[x]);
        }
        int64_t gu[2][3] = {{E, IN, 2 * OUT}, {E, 2 * OUT, IN}}, d[2][3] = {{E, OUT, IN}, {E, IN, OUT}};
        if (k > 0) {
            hf_folder_bytes(&f[k], "model.layers.0.mlp.experts.gate_up_proj", "BF16", 3, gu[k - 1],
                            k == 1 ? (void *)t_gate_up : (void *)gate_up, sizeof gate_up);
            hf_folder_bytes(&f[k], "model.layers.0.mlp.experts.down_proj", "BF16", 3, d[k - 1],
                            k == 1 ? (void *)t_down : (void *)down, sizeof down);
        }
        hf_folder_write(&f[k]);
        rdg_convert_params p = {.type = -1, .name = "same", .n_threads = 2};
        assert_ok(rdg_convert(f[k].dir, f[k].out, &p, NULL, &e), &e);
        if (k > 0) assert_same_file(f[0].out, f[k].out);
    }
    for (int k = 0; k < 3; k++) hf_folder_remove(&f[k]);
}

/* Importance of experts: each matrix has its own columns' values. As quantising afterwards with the same
 * matrix. */
static void with_importance(void **state)
{
    (void)state;
    hf_folder f;
    rdg_error e = {0};
    rdg_imatrix *m;
    rdg_gguf *a = NULL, *b = NULL;
    char two[300], name[128];
    hf_folder_make(&f, seed);
    hf_folder_config(
        &f, "{\"architectures\": [\"MixtralForCausalLM\"], \"hidden_size\": 64, \"intermediate_size\": 96, "
            "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"max_position_embeddings\": 128, "
            "\"vocab_size\": 32, "
            "\"rms_norm_eps\": 1e-5, \"num_local_experts\": 4, \"num_experts_per_tok\": 1, "
            "\"tie_word_embeddings\": true}");
    hf_folder_random(&f, "model.embed_tokens.weight", "F32", 32, 64, 0);
    hf_folder_random(&f, "model.norm.weight", "F32", 64, 0, 0);
    hf_folder_random(&f, "model.layers.0.input_layernorm.weight", "F32", 64, 0, 0);
    hf_folder_random(&f, "model.layers.0.post_attention_layernorm.weight", "F32", 64, 0, 0);
    static const char *const qkvo[] = {"q", "k", "v", "o"};
    for (int k = 0; k < 4; k++) {
        snprintf(name, sizeof name, "model.layers.0.self_attn.%s_proj.weight", qkvo[k]);
        hf_folder_random(&f, name, "F32", 64, 64, 0);
    }
    hf_folder_random(&f, "model.layers.0.block_sparse_moe.gate.weight", "F32", E, 64, 0);
    for (int x = 0; x < E; x++) {
        for (int k = 1; k <= 3; k++) {
            snprintf(name, sizeof name, "model.layers.0.block_sparse_moe.experts.%d.w%d.weight", x, k);
            hf_folder_random(&f, name, "F32", k == 2 ? 64 : 96, k == 2 ? 96 : 64, 0);
        }
    }
    hf_folder_write(&f);
    static float sums[E * 96], counts[E] = {10, 20, 0, 5};
    for (int i = 0; i < E * 96; i++)
        sums[i] = counts[i % (E * 64) / 64] > 0 ? expf(3 * rdg_rng_normal(&f.rng)) : 0;
    assert_ok(rdg_imatrix_create(&m, &e), &e);
    assert_ok(rdg_imatrix_add(m, "blk.0.ffn_up_exps.weight", 64, E, sums, counts, &e), &e);
    assert_ok(rdg_imatrix_add(m, "blk.0.ffn_gate_exps.weight", 64, E, sums, counts, &e), &e);
    assert_ok(rdg_imatrix_add(m, "blk.0.attn_q.weight", 64, 1, sums, counts, &e), &e);
    snprintf(two, sizeof two, "%.255s/two.gguf", f.dir);
    assert_ok(convert(&f, -1, &e), &e);
    rdg_quantize_params q = {.recipe = RDG_RECIPE_Q4_0,
                             .imatrix = m,
                             .n_threads = 1,
                             .output_type = -1,
                             .token_embedding_type = -1};
    assert_ok(rdg_quantize_file(f.out, two, &q, NULL, &e), &e);
    rdg_convert_params p = {.type = RDG_RECIPE_Q4_0, .imatrix = m, .n_threads = 3};
    rdg_convert_result r;
    assert_ok(rdg_convert(f.dir, f.out, &p, &r, &e), &e);
    bool told = false; /* the expert without samples */
    for (int i = 0; i < r.n_warnings; i++)
        told |= strstr(r.warnings[i], "no samples for 1 of 4 experts") != NULL;
    assert_true(told);
    rdg_convert_result_finish(&r);
    assert_ok(rdg_gguf_open(f.out, NULL, &a, &e), &e);
    assert_ok(rdg_gguf_open(two, NULL, &b, &e), &e);
    for (int64_t i = 0; i < rdg_gguf_n_tensors(a); i++) {
        const rdg_gguf_tensor *t = rdg_gguf_tensor_at(a, i), *u = rdg_gguf_tensor_find(b, t->name);
        if (t->type != u->type)
            print_error("%s: %s and %s\n", t->name, rdg_type_name(t->type), rdg_type_name(u->type));
        assert_int_equal(t->type, u->type);
        assert_memory_equal(t->data, u->data, t->bytes);
    }
    rdg_gguf_close(a);
    rdg_gguf_close(b);
    /* a matrix made for another model */
    assert_ok(rdg_imatrix_add(m, "blk.0.attn_k.weight", 32, 1, sums, counts, &e), &e);
    assert_error(rdg_convert(f.dir, f.out, &p, NULL, &e), RDG_E_MALFORMED, &e, "'blk.0.attn_k.weight'");
    rdg_imatrix_destroy(m);
    hf_folder_remove(&f);
}

/* An expert that is missing, one too many, and two sources of the same output. */
static void expert_refusals(void **state)
{
    (void)state;
    hf_folder f;
    rdg_error e = {0};
    for (int k = 0; k < 3; k++) {
        hf_folder_make(&f, seed);
        hf_folder_config(
            &f,
            "{\"architectures\": [\"MixtralForCausalLM\"], \"hidden_size\": 64, \"intermediate_size\": 48, "
            "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"max_position_embeddings\": 128, "
            "\"vocab_size\": 32, "
            "\"rms_norm_eps\": 1e-5, \"num_local_experts\": 2, \"num_experts_per_tok\": 1, "
            "\"tie_word_embeddings\": true}");
        hf_folder_random(&f, "model.embed_tokens.weight", "BF16", 32, 64, 0);
        hf_folder_random(&f, "model.layers.0.block_sparse_moe.experts.0.w1.weight", "BF16", 48, 64, 0);
        if (k == 1)
            hf_folder_random(&f, "model.layers.0.block_sparse_moe.experts.2.w1.weight", "BF16", 48, 64, 0);
        if (k == 2) hf_folder_random(&f, "language_model.model.embed_tokens.weight", "BF16", 32, 64, 0);
        hf_folder_write(&f);
        if (k == 0) assert_error(convert(&f, -1, &e), RDG_E_MALFORMED, &e, "missing");
        if (k == 1) assert_error(convert(&f, -1, &e), RDG_E_MALFORMED, &e, "experts.2.w1.weight");
        if (k == 2) assert_error(convert(&f, -1, &e), RDG_E_MALFORMED, &e, "both mean 'token_embd.weight'");
        hf_folder_remove(&f);
    }
}

int main(void)
{
    seed = (uint64_t)time(NULL) * 1000003u ^ (uint64_t)getpid();
    print_message("seed %" PRIu64 "\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns),
        cmocka_unit_test(lists),
        cmocka_unit_test(refusals),
        cmocka_unit_test(not_a_folder),
        cmocka_unit_test(overflow),
        cmocka_unit_test(types_and_permutation),
        cmocka_unit_test(threads),
        cmocka_unit_test(straight_to_quantised),
        cmocka_unit_test(tied),
        cmocka_unit_test(rope_forms),
        cmocka_unit_test(rope_keys),
        cmocka_unit_test(wrapper),
        cmocka_unit_test(warnings),
        cmocka_unit_test(mxfp4),
        cmocka_unit_test(gpt_oss_split),
        cmocka_unit_test(fused_experts),
        cmocka_unit_test(with_importance),
        cmocka_unit_test(expert_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
