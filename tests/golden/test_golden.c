/* Tiny models of every architecture against logits that an independent framework computed from the same
 * weights.
 *
 *   test_golden [--device=DEVICE] [--gpu-layers=N] [--type=f32|f16] GOLDEN_DIR [NAME…]
 *
 * For each folder: convert to F32 (F16: within 2e-2, and what follows is not compared), load, evaluate 48
 * tokens with an F32 cache, compare at every position; 16 greedy tokens; then the same evaluated in pieces,
 * which must agree with the whole, and a longer sequence in pieces, so that the ring caches of windowed
 * layers go round several times. A plain program: its table is the useful output. */
#include "engine/decode.h"
#include "golden.h"
#include <ridge/evaluate.h>

enum { MAX_TOKENS = 64, LONG_TOKENS = 200, GREEDY = 16 };
static const double notable = 1e-4, split_bound = 1e-4;

static const char *const folders[] = {
    "llama",   "llama-tied", "llama-rope3", "llama-bias", "llama-hd", "mistral-swa", "mixtral", "qwen2",
    "qwen3",   "qwen2moe",   "qwen3moe",    "gemma2",     "gemma3",   "phi3",        "smollm3", "olmo2",
    "granite", "gptoss",     "gpt2",        "starcoder2", "stablelm", "glm4",
};

typedef struct expected {
    json_t *root;
    rdg_npy logits;
    int32_t ids[MAX_TOKENS], prompt[MAX_TOKENS], greedy[MAX_TOKENS];
    int n_ids, n_prompt, n_greedy;
    int64_t n_ctx; /* of the sessions: longrope's choice depends on it */
    bool hidden;   /* an encoder: rows are hidden states, and a text is one batch */
} expected;

static rdg_err read_expected(const char *dir, expected *x, rdg_error *e)
{
    char path[600];
    memset(x, 0, sizeof *x);
    snprintf(path, sizeof path, "%s/expected.json", dir);
    rdg_err err = rdg_json_load(path, NULL, &x->root, e);
    if (err) return err;
    x->n_ids = golden_ints(json_object_get(x->root, "token_ids"), x->ids, MAX_TOKENS);
    x->n_prompt = golden_ints(json_object_get(x->root, "greedy_prompt"), x->prompt, MAX_TOKENS);
    x->n_greedy = golden_ints(json_object_get(x->root, "greedy_tokens"), x->greedy, MAX_TOKENS);
    x->n_ctx = 256;
    const char *output = NULL;
    err = rdg_json_int(x->root, "n_ctx", 1, 256, &x->n_ctx, e);
    if (!err) err = rdg_json_str(x->root, "output", &output, e);
    if (err) return err;
    x->hidden = output && strcmp(output, "hidden") == 0;
    snprintf(path, sizeof path, "%s/logits.npy", dir);
    return rdg_npy_read(path, &x->logits, e);
}

static const char *device; /* NULL = the CPU */
static int64_t gpu_layers; /* 0 = all */
static rdg_recipe type = RDG_RECIPE_F32;
static double bound = 1e-3; /* against the reference, whose weights are F32 */

static rdg_err open_session(rdg_model *m, const expected *x, int64_t n_batch, rdg_session **s, rdg_error *e)
{
    rdg_session_params p;
    rdg_session_defaults(&p);
    p.device = device;
    p.gpu_layers = gpu_layers;
    p.kv_type_k = p.kv_type_v = RDG_TYPE_F32;
    p.n_ctx = x->n_ctx;
    p.n_batch = n_batch;
    p.n_threads = 2;
    if (!x->hidden) return rdg_session_create(m, &p, s, e);
    rdg_err err = rdg_session_create(m, &p, s, e); /* an encoder has no logits: this must be refused */
    if (err != RDG_E_UNSUPPORTED) {
        rdg_session_destroy(*s);
        *s = NULL;
        snprintf(e->message, sizeof e->message, "a session for logits was made for an encoder");
        return RDG_E_INTERNAL;
    }
    return rdg_session_create_embedding(m, &p, s, e);
}

/* Width of a row of output. */
static int64_t width(const rdg_model *m, const expected *x)
{
    return x->hidden ? rdg_model_get_info(m)->n_embd : rdg_model_get_info(m)->n_vocab;
}

/* Evaluates n tokens, `step` a call, in a session whose batch is n_batch; all logits into out. */
static rdg_err eval(rdg_model *m, const expected *x, const int32_t *ids, int64_t n, int64_t n_batch,
                    int64_t step, float *out, rdg_error *e)
{
    rdg_session *s;
    int64_t n_row = width(m, x);
    rdg_err err = open_session(m, x, n_batch, &s, e);
    for (int64_t i = 0; i < n && !err; i += step) {
        int64_t part = i + step < n ? step : n - i;
        err = rdg_session_eval(s, ids + i, part, RDG_LOGITS_ALL, e);
        for (int64_t k = 0; k < part && !err; k++)
            memcpy(out + (i + k) * n_row, rdg_session_logits(s, k), (size_t)n_row * sizeof *out);
    }
    rdg_session_destroy(s);
    return err;
}

typedef struct picks {
    int32_t *tokens;
    int n, max;
} picks;

static bool keep_pick(void *user, int32_t token)
{
    picks *p = user;
    if (p->n < p->max) p->tokens[p->n++] = token;
    return p->n < p->max;
}

/* The same tokens by rdg_session_decode_greedy, which stays on the device where it can. */
static rdg_err greedy_on_device(rdg_model *m, const expected *x, int32_t *got, rdg_error *e)
{
    rdg_session *s;
    int64_t n_done;
    picks p = {.tokens = got, .max = x->n_greedy};
    rdg_err err = open_session(m, x, 32, &s, e);
    if (!err) err = rdg_session_eval(s, x->prompt, x->n_prompt, RDG_LOGITS_LAST, e);
    if (!err) keep_pick(&p, golden_argmax(rdg_session_logits(s, 0), rdg_model_get_info(m)->n_vocab));
    if (!err) err = rdg_session_decode_greedy(s, got[0], x->n_greedy, keep_pick, &p, &n_done, e);
    if (!err && (n_done != x->n_greedy - 1 || rdg_session_n_past(s) != x->n_prompt + n_done))
        err = rdg_fail(e, RDG_E_INTERNAL, "greedy decoding stopped after %d tokens", (int)n_done);
    rdg_session_destroy(s);
    return err;
}

static rdg_err greedy(rdg_model *m, const expected *x, int32_t *got, rdg_error *e)
{
    rdg_session *s;
    rdg_err err = open_session(m, x, 32, &s, e);
    if (!err) err = rdg_session_eval(s, x->prompt, x->n_prompt, RDG_LOGITS_LAST, e);
    for (int i = 0; i < x->n_greedy && !err; i++) {
        got[i] = golden_argmax(rdg_session_logits(s, 0), rdg_model_get_info(m)->n_vocab);
        err = rdg_session_eval(s, got + i, 1, RDG_LOGITS_LAST, e);
    }
    rdg_session_destroy(s);
    return err;
}

/* The worst difference between a sequence evaluated at once and in pieces. */
static rdg_err splits(rdg_model *m, const expected *x, const int32_t *ids, int64_t n, double *worst,
                      rdg_error *e)
{
    static const int64_t pieces[][2] = {{1, 1},  {7, 7},  {16, 16},
                                        {16, 5}, {1, 48}, {7, 200}}; /* n_batch, tokens a call */
    int64_t n_vocab = rdg_model_get_info(m)->n_vocab;
    float *whole = malloc((size_t)(n * n_vocab) * sizeof *whole),
          *parts = malloc((size_t)(n * n_vocab) * sizeof *parts);
    rdg_err err = whole && parts ? eval(m, x, ids, n, n, n, whole, e) : RDG_E_NOMEM;
    *worst = 0;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces && !err; i++) {
        err = eval(m, x, ids, n, pieces[i][0], pieces[i][1], parts, e);
        double d = err ? 0 : golden_max_diff(whole, parts, n * n_vocab);
        if (d > *worst) *worst = d;
    }
    free(whole);
    free(parts);
    return err;
}

static rdg_err measure(rdg_model *m, const expected *x, double *error, double *split, double *ring,
                       bool *same, rdg_error *e)
{
    int64_t n_vocab = rdg_model_get_info(m)->n_vocab;
    int32_t got[MAX_TOKENS], longer[LONG_TOKENS];
    if (x->logits.n_elements != x->n_ids * width(m, x) || x->n_greedy != (x->hidden ? 0 : GREEDY)) {
        snprintf(e->message, sizeof e->message, "expected.json and logits.npy do not fit the model");
        return RDG_E_MALFORMED;
    }
    float *logits = malloc((size_t)x->logits.n_elements * sizeof *logits);
    if (!logits) return RDG_E_NOMEM;
    for (int i = 0; i < LONG_TOKENS; i++)
        longer[i] = (int32_t)((x->ids[i % x->n_ids] + 31 * (i / x->n_ids)) % n_vocab);
    rdg_err err = eval(m, x, x->ids, x->n_ids, 64, x->n_ids, logits, e);
    if (!err) *error = golden_max_diff(logits, x->logits.f32, x->logits.n_elements);
    *same = true;
    *split = *ring = 0;
    if (x->hidden || type != RDG_RECIPE_F32) goto done;
    if (!err) err = greedy(m, x, got, e);
    if (!err) *same = memcmp(got, x->greedy, GREEDY * sizeof *got) == 0;
    if (!err) err = greedy_on_device(m, x, got, e);
    if (!err) *same = *same && memcmp(got, x->greedy, GREEDY * sizeof *got) == 0;
    if (!err) err = splits(m, x, x->ids, x->n_ids, split, e);
    if (!err) err = splits(m, x, longer, x->n_ctx < LONG_TOKENS ? x->n_ctx : LONG_TOKENS, ring, e);
done:
    free(logits);
    return err;
}

static bool check(const char *root, const char *name)
{
    char dir[512];
    golden_temp temp;
    rdg_error e = {0};
    expected x = {0};
    rdg_convert_result result = {0};
    rdg_model *m = NULL;
    double error = INFINITY, split = INFINITY, ring = INFINITY;
    bool same = false, ok;
    snprintf(dir, sizeof dir, "%s/%s", root, name);
    if (!golden_temp_make(&temp)) {
        printf("%-12s cannot make a temporary folder\n", name);
        return false;
    }
    rdg_convert_params p = {.type = type, .n_threads = 2};
    rdg_err err = read_expected(dir, &x, &e);
    if (!err) err = rdg_convert(dir, temp.file, &p, &result, &e);
    if (!err) err = rdg_model_load(temp.file, NULL, &m, &e);
    if (!err) err = measure(m, &x, &error, &split, &ring, &same, &e);
    ok = !err && error <= bound && split <= split_bound && ring <= split_bound && same;
    if (err)
        printf("%-12s %s: %s\n", name, rdg_err_name(err), e.message);
    else
        printf("%-12s %-10s %10.2e %8s %10.2e %10.2e  %s%s\n", name, result.architecture, error,
               x.hidden || type != RDG_RECIPE_F32 ? "-"
               : same                             ? "16/16"
                                                  : "DIFFER",
               split, ring, ok ? "ok" : "FAIL",
               ok && error > notable && type == RDG_RECIPE_F32 ? " (over 1e-4: look into it)" : "");
    rdg_model_release(m);
    rdg_convert_result_finish(&result);
    rdg_npy_finish(&x.logits);
    json_decref(x.root);
    golden_temp_remove(&temp);
    return ok;
}

static bool read_type(const char *text)
{
    if (!strcmp(text, "--type=f16")) {
        type = RDG_RECIPE_F16;
        bound = 2e-2;
    }
    return !strcmp(text, "--type=f16") || !strcmp(text, "--type=f32");
}

int main(int argc, char **argv)
{
    int failures = 0, n = 0;
    bool known = true;
    for (; known && argc > 1 && !strncmp(argv[1], "--", 2); argv++, argc--)
        known = golden_option(argv[1], &device, &gpu_layers) || read_type(argv[1]);
    if (!known || argc < 2) {
        fprintf(stderr,
                "usage: test_golden [--device=NAME] [--gpu-layers=N] [--type=f32|f16] GOLDEN_DIR [NAME…]\n");
        return 2;
    }
    if (!golden_has_device(device)) return 77;
    printf("%-12s %-10s %10s %8s %10s %10s\n", "folder", "arch", "max error", "greedy", "in pieces", "long");
    for (int i = 2; i < argc; i++, n++) failures += !check(argv[1], argv[i]);
    for (size_t i = 0; argc == 2 && i < sizeof folders / sizeof *folders; i++, n++)
        failures += !check(argv[1], folders[i]);
    printf("%d of %d passed\n", n - failures, n);
    return failures != 0;
}
