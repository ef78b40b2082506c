/* The trained demo models against reference.json: token ids of the prompts, the ten highest logits behind
 * each prompt, 64 greedy tokens and the decoded text.
 *
 *   test_trained [--device=DEVICE] [--gpu-layers=N] MODEL_DIR…
 *
 * ridge-small is tested too when RIDGE_TEST_DATA names the folder that holds it. Converted to F32 and run
 * with an F32 cache, as the reference was. */
#include "golden.h"

enum { MAX_IDS = 256, TOP = 10 };
static const double bound = 2e-2;
static const char *device; /* NULL = the CPU */
static int64_t gpu_layers; /* 0 = all */

typedef struct outcome {
    int ids, greedy, text, examples; /* how many agree, and of how many */
    double error;
} outcome;

static rdg_err tokenise(const rdg_model *m, const char *text, int32_t *ids, size_t *n, rdg_error *e)
{
    int32_t *got = NULL;
    rdg_err err = rdg_tokenize(rdg_model_tokenizer(m), text, strlen(text),
                               (rdg_tokenize_params){.add_special = true}, &got, n, e);
    if (!err && *n <= MAX_IDS) memcpy(ids, got, *n * sizeof *ids);
    rdg_tokens_free(got);
    return err;
}

static rdg_err generate(rdg_session *s, int64_t n_vocab, int32_t *out, int n, rdg_error *e)
{
    rdg_err err = RDG_OK;
    for (int i = 0; i < n && !err; i++) {
        out[i] = golden_argmax(rdg_session_logits(s, 0), n_vocab);
        err = rdg_session_eval(s, out + i, 1, RDG_LOGITS_LAST, e);
    }
    return err;
}

static rdg_err check_example(rdg_model *m, const json_t *x, outcome *o, rdg_error *e)
{
    int32_t want[MAX_IDS], ids[MAX_IDS], greedy[MAX_IDS], all[2 * MAX_IDS];
    size_t n_ids = 0, n_text = 0;
    char *text = NULL;
    rdg_session *s = NULL;
    rdg_session_params p;
    int64_t n_vocab = rdg_model_get_info(m)->n_vocab;
    rdg_err err = tokenise(m, json_string_value(json_object_get(x, "prompt")), ids, &n_ids, e);
    int n_want = golden_ints(json_object_get(x, "token_ids"), want, MAX_IDS);
    if (err) return err;
    o->examples++;
    o->ids += n_ids == (size_t)n_want && memcmp(ids, want, n_ids * sizeof *ids) == 0;

    rdg_session_defaults(&p);
    p.kv_type_k = p.kv_type_v = RDG_TYPE_F32;
    p.n_ctx = 512;
    p.device = device;
    p.gpu_layers = gpu_layers;
    p.n_threads = 2;
    err = rdg_session_create(m, &p, &s, e);
    if (!err) err = rdg_session_eval(s, want, n_want, RDG_LOGITS_LAST, e);
    const json_t *top = json_object_get(x, "last_logits_top10");
    for (size_t i = 0; i < TOP && !err; i++) {
        const json_t *pair = json_array_get(top, i);
        int64_t id = json_integer_value(json_array_get(pair, 0));
        double d = fabs(json_number_value(json_array_get(pair, 1)) - (double)rdg_session_logits(s, 0)[id]);
        if (!(d <= o->error)) o->error = d;
    }
    int n_greedy = golden_ints(json_object_get(x, "greedy_tokens"), all + n_want, MAX_IDS);
    memcpy(all, want, (size_t)n_want * sizeof *all);
    if (!err) err = generate(s, n_vocab, greedy, n_greedy, e);
    if (!err)
        o->greedy += n_greedy == 64 && memcmp(greedy, all + n_want, (size_t)n_greedy * sizeof *greedy) == 0;
    if (!err)
        err = rdg_detokenize(rdg_model_tokenizer(m), all, (size_t)(n_want + n_greedy), false, &text, &n_text,
                             e);
    const char *expected = json_string_value(json_object_get(x, "text"));
    if (!err) o->text += n_text == strlen(expected) && memcmp(text, expected, n_text) == 0;
    rdg_text_free(text);
    rdg_session_destroy(s);
    return err;
}

static bool check(const char *dir)
{
    char path[600];
    golden_temp temp;
    rdg_error e = {0};
    json_t *root = NULL;
    rdg_model *m = NULL;
    outcome o = {0};
    rdg_convert_result result = {0};
    if (!golden_temp_make(&temp)) return false;
    rdg_convert_params p = {.type = RDG_RECIPE_F32, .n_threads = 2};
    snprintf(path, sizeof path, "%s/reference.json", dir);
    rdg_err err = rdg_json_load(path, NULL, &root, &e);
    if (!err) err = rdg_convert(dir, temp.file, &p, &result, &e);
    for (int i = 0; i < result.n_warnings; i++) printf("warning: %s\n", result.warnings[i]);
    if (!err) err = rdg_model_load(temp.file, NULL, &m, &e);
    if (!err && !rdg_model_tokenizer(m)) {
        snprintf(e.message, sizeof e.message, "the converted model has no tokenizer");
        err = RDG_E_NOT_FOUND;
    }
    const json_t *examples = json_object_get(root, "examples");
    for (size_t i = 0; i < json_array_size(examples) && !err; i++)
        err = check_example(m, json_array_get(examples, i), &o, &e);
    bool ok = !err && o.examples > 0 && o.ids == o.examples && o.greedy == o.examples &&
              o.text == o.examples && o.error <= bound;
    if (err)
        printf("%s: %s: %s\n", dir, rdg_err_name(err), e.message);
    else
        printf("%s: of %d prompts: ids %d, greedy %d, text %d; top-10 logits within %.2e: %s\n", dir,
               o.examples, o.ids, o.greedy, o.text, o.error, ok ? "ok" : "FAIL");
    rdg_model_release(m);
    json_decref(root);
    rdg_convert_result_finish(&result);
    golden_temp_remove(&temp);
    return ok;
}

int main(int argc, char **argv)
{
    int failures = 0;
    char path[600];
    const char *data = getenv("RIDGE_TEST_DATA");
    bool known = true;
    for (; known && argc > 1 && !strncmp(argv[1], "--", 2); argv++, argc--)
        known = golden_option(argv[1], &device, &gpu_layers);
    if (!known || argc < 2) {
        fprintf(stderr, "usage: test_trained [--device=NAME] [--gpu-layers=N] MODEL_DIR…\n");
        return 2;
    }
    if (!golden_has_device(device)) return 77;
    for (int i = 1; i < argc; i++) failures += !check(argv[i]);
    if (data && *data) {
        snprintf(path, sizeof path, "%s/models/ridge-small", data);
        failures += !check(path);
    } else {
        printf("ridge-small: SKIPPED (RIDGE_TEST_DATA is not set)\n");
    }
    return failures != 0;
}
