/* Hyper-parameters of hostile and odd files: every refusal names the key and the value; and what is derived
 * from them. */
#include "../support/support.h"
#include "base/mem.h"
#include "model/arch.h"

#include <inttypes.h>
#include <math.h>
#include <unistd.h>

typedef enum value_kind { SKIP, U32, F32, STR, BOOL, ARR, FLAGS } value_kind;
typedef struct key {
    const char *key;
    value_kind kind;
    double v;
    const char *s;
} key;

static char path[] = "/tmp/ridge-arch-XXXXXX";

/* A file of architecture `arch` with the keys of a small model, changed by `changes` (ends with key NULL). */
static rdg_gguf *make(const char *arch, const key *changes)
{
    static const key base[] = {{"block_count", U32, 4, NULL},
                               {"embedding_length", U32, 64, NULL},
                               {"context_length", U32, 256, NULL},
                               {"feed_forward_length", U32, 128, NULL},
                               {"attention.head_count", U32, 4, NULL},
                               {"attention.head_count_kv", U32, 2, NULL},
                               {"attention.layer_norm_rms_epsilon", F32, 1e-5, NULL},
                               {NULL, SKIP, 0, NULL}};
    rdg_gguf_writer *w;
    rdg_gguf *g;
    rdg_error e = {0};
    const int64_t dim[2] = {64, 32};
    static const float zeros[64 * 32];
    assert_ok(rdg_gguf_writer_create(path, &w, &e), &e);
    if (arch) rdg_gguf_set_str(w, "general.architecture", arch);
    for (int pass = 0; pass < 2; pass++) {
        for (const key *k = pass ? changes : base; k && k->key; k++) {
            char full[128];
            uint32_t array[5] = {(uint32_t)k->v, (uint32_t)k->v, (uint32_t)k->v, (uint32_t)k->v, 7};
            bool flags[4] = {true, false, false, true};
            snprintf(full, sizeof full, "%s%s%s", strchr(k->key, ':') ? "" : arch,
                     strchr(k->key, ':') ? "" : ".", k->key);
            char *colon = strchr(full, ':'); /* "tokenizer:ggml.…": not below the architecture */
            if (colon) *colon = '.';
            switch (k->kind) {
            case SKIP: rdg_gguf_unset(w, full); break;
            case U32: rdg_gguf_set_u32(w, full, (uint32_t)k->v); break;
            case F32: rdg_gguf_set_f32(w, full, (float)k->v); break;
            case STR: rdg_gguf_set_str(w, full, k->s); break;
            case BOOL: rdg_gguf_set_bool(w, full, k->v != 0); break;
            case ARR: /* s: which entries, "4", "4x" with a different last one, "5" */
                if (k->s[1] == 'x') array[3]++;
                rdg_gguf_set_array(w, full, RDG_GGUF_UINT32, array, (uint64_t)(k->s[0] - '0'));
                break;
            case FLAGS: rdg_gguf_set_array(w, full, RDG_GGUF_BOOL, flags, (uint64_t)k->v); break;
            }
        }
    }
    rdg_gguf_add_tensor(w, "token_embd.weight", RDG_TYPE_F32, 2, dim);
    assert_ok(rdg_gguf_writer_begin(w, &e), &e);
    assert_ok(rdg_gguf_write_data(w, zeros, sizeof zeros, &e), &e);
    assert_ok(rdg_gguf_writer_finish(w, &e), &e);
    rdg_gguf_writer_destroy(w);
    assert_ok(rdg_gguf_open(path, NULL, &g, &e), &e);
    unlink(path);
    return g;
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        key change;
        rdg_err code;
        const char *a, *b; /* both must be in the message */
    } t[] = {
        {{"block_count", SKIP, 0, NULL}, RDG_E_MALFORMED, "'llama.block_count'", "missing"},
        {{"block_count", U32, 0, NULL}, RDG_E_MALFORMED, "'llama.block_count'", "is 0"},
        {{"block_count", U32, 5000, NULL}, RDG_E_MALFORMED, "'llama.block_count'", "is 5000"},
        {{"block_count", STR, 0, "four"}, RDG_E_MALFORMED, "llama.block_count", ""},
        {{"block_count", F32, 4, NULL}, RDG_E_MALFORMED, "llama.block_count", ""},
        {{"embedding_length", U32, 4294967295.0, NULL},
         RDG_E_MALFORMED,
         "'llama.embedding_length'",
         "4294967295"},
        {{"embedding_length", U32, 66, NULL},
         RDG_E_MALFORMED,
         "'llama.embedding_length' is 66",
         "attention.head_count"},
        {{"context_length", U32, 0, NULL}, RDG_E_MALFORMED, "'llama.context_length'", "is 0"},
        {{"feed_forward_length", SKIP, 0, NULL}, RDG_E_MALFORMED, "'llama.feed_forward_length'", "missing"},
        {{"attention.head_count", U32, 0, NULL}, RDG_E_MALFORMED, "'llama.attention.head_count'", "is 0"},
        {{"attention.head_count_kv", U32, 0, NULL},
         RDG_E_MALFORMED,
         "'llama.attention.head_count_kv'",
         "is 0"},
        {{"attention.head_count_kv", U32, 3, NULL}, RDG_E_MALFORMED, "not a multiple", "head_count_kv' 3"},
        {{"attention.head_count_kv", ARR, 2, "4x"},
         RDG_E_UNSUPPORTED,
         "'llama.attention.head_count_kv'",
         "in block 3"},
        {{"attention.head_count_kv", ARR, 2, "3"},
         RDG_E_MALFORMED,
         "'llama.attention.head_count_kv'",
         "array of 4"},
        {{"attention.key_length", U32, 15, NULL}, RDG_E_MALFORMED, "'llama.attention.key_length'", "15"},
        {{"attention.key_length", U32, 2048, NULL},
         RDG_E_MALFORMED,
         "'llama.attention.key_length'",
         "is 2048"},
        {{"rope.dimension_count", U32, 18, NULL}, RDG_E_MALFORMED, "'llama.rope.dimension_count'", "is 18"},
        {{"rope.dimension_count", U32, 8, NULL}, RDG_E_MALFORMED, "'llama.rope.dimension_count'", "is 8"},
        {{"rope.freq_base", F32, 0, NULL}, RDG_E_MALFORMED, "'llama.rope.freq_base'", "is 0"},
        {{"rope.freq_base", F32, -10000, NULL}, RDG_E_MALFORMED, "'llama.rope.freq_base'", "is -10000"},
        {{"rope.freq_base", F32, 3e38, NULL}, RDG_E_MALFORMED, "'llama.rope.freq_base'", "is 3e+38"},
        {{"rope.freq_base", U32, 10000, NULL}, RDG_E_MALFORMED, "llama.rope.freq_base", ""},
        {{"rope.scaling.type", STR, 0, "spiral"}, RDG_E_UNSUPPORTED, "'llama.rope.scaling.type'", "'spiral'"},
        {{"rope.scaling.factor", F32, 0, NULL}, RDG_E_MALFORMED, "'llama.rope.scaling.factor'", "is 0"},
        {{"attention.layer_norm_rms_epsilon", F32, 0, NULL},
         RDG_E_MALFORMED,
         "'llama.attention.layer_norm_rms_epsilon'",
         "is 0"},
        {{"attention.layer_norm_rms_epsilon", F32, 2, NULL},
         RDG_E_MALFORMED,
         "llama.attention.layer_norm_rms_epsilon",
         ""},
        {{"attention.layer_norm_rms_epsilon", SKIP, 0, NULL},
         RDG_E_MALFORMED,
         "'llama.attention.layer_norm_rms_epsilon'",
         "missing"},
        {{"expert_count", U32, 70000, NULL}, RDG_E_MALFORMED, "'llama.expert_count'", "is 70000"},
        {{"expert_count", U32, 8, NULL}, RDG_E_MALFORMED, "'llama.expert_used_count'", "missing"},
        {{"attention.sliding_window_pattern", FLAGS, 3, NULL},
         RDG_E_MALFORMED,
         "sliding_window_pattern'",
         "must have 4"},
        {{"attention.causal", U32, 1, NULL}, RDG_E_MALFORMED, "llama.attention.causal", ""},
        {{"tokenizer:ggml.bos_token_id", U32, 32, NULL},
         RDG_E_MALFORMED,
         "'tokenizer.ggml.bos_token_id' is 32",
         "32 tokens"},
        {{"tokenizer:ggml.eos_token_id", STR, 0, "2"}, RDG_E_MALFORMED, "tokenizer.ggml.eos_token_id", ""},
        {{"tokenizer:ggml.tokens", ARR, 0, "5"}, RDG_OK, "", ""},
    };
    rdg_hparams *h = rdg_alloc(sizeof *h);
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        const key changes[2] = {t[i].change, {NULL, SKIP, 0, NULL}};
        const rdg_arch *arch;
        rdg_error e = {0};
        rdg_gguf *g = make("llama", changes);
        if (t[i].code) {
            assert_error(rdg_hparams_read(g, &arch, h, &e), t[i].code, &e, t[i].a);
            if (!strstr(e.message, t[i].b)) print_error("\"%s\" should hold \"%s\"\n", e.message, t[i].b);
            assert_non_null(strstr(e.message, t[i].b));
            assert_null(arch);
        } else {
            assert_ok(rdg_hparams_read(g, &arch, h, &e), &e);
        }
        rdg_gguf_close(g);
    }
    rdg_free(h);
}

static void unknown_architecture(void **state)
{
    (void)state;
    const rdg_arch *arch;
    rdg_error e = {0};
    rdg_hparams *h = rdg_alloc(sizeof *h);
    rdg_gguf *g = make("mamba", NULL);
    assert_error(rdg_hparams_read(g, &arch, h, &e), RDG_E_UNSUPPORTED, &e, "'mamba'");
    assert_non_null(strstr(e.message, "gpt-oss"));
    rdg_gguf_close(g);
    rdg_free(h);
}

static void derived(void **state)
{
    (void)state;
    const rdg_arch *arch;
    rdg_error e = {0};
    rdg_hparams *h = rdg_alloc(sizeof *h);
    /* an array of equal values counts as the value; a legacy key scales */
    const key legacy[] = {
        {"attention.head_count_kv", ARR, 2, "4"}, {"rope.scale_linear", F32, 4, NULL}, {NULL, SKIP, 0, NULL}};
    rdg_gguf *g = make("llama", legacy);
    assert_ok(rdg_hparams_read(g, &arch, h, &e), &e);
    assert_int_equal(h->n_head_kv, 2);
    assert_int_equal(h->head_dim_k, 16);
    assert_int_equal(h->n_rot, 16);
    assert_int_equal(h->n_vocab, 32);
    assert_float_equal(h->rope.freq_scale, 0.25, 0);
    assert_float_equal(h->rope.freq_base, 10000, 0);
    assert_true(h->causal);
    rdg_gguf_close(g);
    /* gemma3: five local layers and a global one, two bases; a pattern of the file's own wins */
    const key window[] = {{"attention.sliding_window", U32, 16, NULL},
                          {"rope.freq_base", F32, 1e6, NULL},
                          {"block_count", U32, 7, NULL},
                          {NULL, SKIP, 0, NULL}};
    g = make("gemma3", window);
    assert_ok(rdg_hparams_read(g, &arch, h, &e), &e);
    for (int il = 0; il < 7; il++) assert_int_equal(h->layer_flags[il], il == 5 ? 0 : RDG_LAYER_LOCAL);
    assert_float_equal(h->rope.freq_base, 1e6, 0);
    assert_float_equal(h->rope_local.freq_base, 10000, 0);
    assert_float_equal(h->embedding_scale, 8, 0);
    rdg_gguf_close(g);
    const key flags[] = {{"attention.sliding_window", U32, 16, NULL},
                         {"attention.sliding_window_pattern", FLAGS, 4, NULL},
                         {NULL, SKIP, 0, NULL}};
    g = make("gemma3", flags);
    assert_ok(rdg_hparams_read(g, &arch, h, &e), &e);
    assert_int_equal(h->layer_flags[0], RDG_LAYER_LOCAL);
    assert_int_equal(h->layer_flags[1], 0);
    assert_int_equal(h->layer_flags[3], RDG_LAYER_LOCAL);
    rdg_gguf_close(g);
    /* the largest gemma2 scales by the average head */
    const key large[] = {
        {"block_count", U32, 46, NULL}, {"attention.key_length", U32, 8, NULL}, {NULL, SKIP, 0, NULL}};
    g = make("gemma2", large);
    assert_ok(rdg_hparams_read(g, &arch, h, &e), &e);
    assert_float_equal(h->attention_scale, 0.25, 1e-7);
    rdg_gguf_close(g);
    /* phi3 files from before the window had a key */
    const key phi[] = {
        {"block_count", U32, 32, NULL}, {"context_length", U32, 4096, NULL}, {NULL, SKIP, 0, NULL}};
    g = make("phi3", phi);
    assert_ok(rdg_hparams_read(g, &arch, h, &e), &e);
    assert_int_equal(h->window, 2047);
    rdg_gguf_close(g);
    /* granite without rotation */
    const key granite[] = {{"rope.scaling.finetuned", BOOL, 0, NULL}, {NULL, SKIP, 0, NULL}};
    g = make("granite", granite);
    assert_ok(rdg_hparams_read(g, &arch, h, &e), &e);
    assert_true(h->layer_flags[2] & RDG_LAYER_NO_ROPE);
    rdg_gguf_close(g);
    /* yarn, rounded: n = 16, L = 64, base 10000: cdim(32) < 0, cdim(1) = 16 ln(64 / 2 pi) / (2 ln 10000)
     * = 2.016 */
    const key yarn[] = {{"rope.scaling.type", STR, 0, "yarn"},
                        {"rope.scaling.factor", F32, 4, NULL},
                        {"rope.scaling.original_context_length", U32, 64, NULL},
                        {NULL, SKIP, 0, NULL}};
    g = make("qwen2", yarn);
    assert_ok(rdg_hparams_read(g, &arch, h, &e), &e);
    assert_float_equal(h->rope.corr_low, 0, 0);
    assert_float_equal(h->rope.corr_high, 3, 0);
    assert_float_equal(h->rope.magnitude, 1 + 0.1 * log(4), 1e-6);
    rdg_gguf_close(g);
    g = make("gpt-oss", yarn);
    assert_ok(rdg_hparams_read(g, &arch, h, &e), &e);
    assert_float_equal(h->rope.corr_high, 16 * log(64 / (2 * M_PI)) / (2 * log(10000)), 1e-5);
    rdg_gguf_close(g);
    rdg_free(h);
}

int main(void)
{
    int fd = mkstemp(path);
    if (fd < 0 || close(fd)) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(refusals), cmocka_unit_test(unknown_architecture),
                                       cmocka_unit_test(derived)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
