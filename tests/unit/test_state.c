/* State files: a restored session goes on as the saved one would have, to the bit; a file that is cut,
 * damaged, hostile or another model's is refused and leaves the session as it was. Shifting a full context
 * gives what evaluating the shorter text gives. Usage: test_state [gpu] [SEED] */
#include "../support/support.h"
#include "base/clock.h"
#include "base/rng.h"
#include "device/trace/trace.h"
#include "engine/decode.h"
#include "engine/session_internal.h"
#include "format/state.h"
#include "graph/gpu_exec.h"
#include <ridge/ridge.h>

#include <math.h>
#include <unistd.h>

#ifndef RIDGE_SOURCE_DIR
#define RIDGE_SOURCE_DIR "."
#endif

enum { LLAMA, WINDOW, ABSOLUTE, ROPE3, Q8, TRAINED_ON, TURNED, N_MODELS };
static const struct {
    const char *folder;
    rdg_recipe type;
} sources[N_MODELS] = {
    [LLAMA] = {"llama", RDG_RECIPE_F32},   [WINDOW] = {"gemma3", RDG_RECIPE_F32},
    [ABSOLUTE] = {"gpt2", RDG_RECIPE_F32}, [ROPE3] = {"llama-rope3", RDG_RECIPE_F32},
    [Q8] = {"llama", RDG_RECIPE_Q8_0},     [TRAINED_ON] = {"llama", RDG_RECIPE_F32},
    [TURNED] = {"llama", RDG_RECIPE_F32},
};
static rdg_model *models[N_MODELS];
static char folder[] = "/tmp/ridge-state-XXXXXX", state_path[64], other_path[64];
static rdg_rng rng;
static uint64_t given_seed;

static size_t read_file(const char *path, unsigned char **data)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    *data = malloc(8 << 20);
    assert_non_null(*data);
    size_t n = fread(*data, 1, 8 << 20, f);
    fclose(f);
    return n;
}

/* Other weights in the same shapes: the second half of the file becomes zeros. */
static void train_on(const char *path)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    long n = ftell(f) / 2;
    fseek(f, n, SEEK_SET);
    while (n--) fputc(0, f);
    fclose(f);
}

/* Another rope base: the number behind the key and its type. */
static void turn(const char *path)
{
    static const char key[] = "llama.rope.freq_base";
    unsigned char *data, *at;
    size_t n = read_file(path, &data);
    float base = 12345;
    for (at = data; at < data + n - 64 && memcmp(at, key, strlen(key)) != 0; at++) {
    }
    assert_true(at < data + n - 64);
    memcpy(at + strlen(key) + 4, &base, sizeof base);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(data, 1, n, f);
    fclose(f);
    free(data);
}

static int load_models(void **state)
{
    (void)state;
    rdg_error e = {0};
    const uint64_t seed = given_seed ? given_seed : (uint64_t)rdg_clock_ns();
    printf("seed %llu\n", (unsigned long long)seed);
    rdg_rng_seed(&rng, seed);
    if (!mkdtemp(folder)) return -1;
    snprintf(state_path, sizeof state_path, "%s/a.state", folder);
    snprintf(other_path, sizeof other_path, "%s/b.state", folder);
    for (int i = 0; i < N_MODELS; i++) {
        char from[512], to[128];
        rdg_convert_params p = {.type = sources[i].type, .n_threads = 1};
        snprintf(from, sizeof from, "%s/tests/data/golden/%s", RIDGE_SOURCE_DIR, sources[i].folder);
        snprintf(to, sizeof to, "%s/model.gguf", folder);
        if (rdg_convert(from, to, &p, NULL, &e)) {
            print_error("%s\n", e.message);
            return -1;
        }
        if (i == TRAINED_ON) train_on(to);
        if (i == TURNED) turn(to);
        if (rdg_model_load(to, NULL, &models[i], &e)) {
            print_error("%s\n", e.message);
            return -1;
        }
        unlink(to); /* the map stays */
    }
    return 0;
}

static int drop_models(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++) rdg_model_release(models[i]);
    unlink(state_path);
    unlink(other_path);
    rmdir(folder);
    return 0;
}

/* NULL where there is no such device. */
static rdg_session *session_on(const char *device, int model, rdg_type k, rdg_type v, int64_t n_ctx,
                               int64_t n_batch)
{
    rdg_error e = {0};
    rdg_session *s;
    rdg_session_params p = {
        .n_ctx = n_ctx, .n_batch = n_batch, .n_threads = 1, .kv_type_k = k, .kv_type_v = v, .device = device};
    if (rdg_session_create(models[model], &p, &s, &e) == RDG_OK) return s;
    if (!strcmp(device, "cpu")) fail_msg("%s", e.message);
    return NULL;
}

static rdg_session *session(int model, rdg_type type, int64_t n_ctx, int64_t n_batch)
{
    return session_on("cpu", model, type, type, n_ctx, n_batch);
}

static void random_tokens(int model, int32_t *out, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = (int32_t)rdg_rng_below(&rng, (uint64_t)rdg_model_get_info(models[model])->n_vocab);
}

static int32_t largest(const float *logits, int64_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* Sums in another order, and now and then an element of the cache that they round to the step beside: what a
 * few such steps may do to logits of about 1: one of Q8_0 has done 2e-3. */
static float slack_of(rdg_type cache)
{
    switch (cache) {
    case RDG_TYPE_F32: return 2e-4f;
    case RDG_TYPE_F16: return 2e-4f + 4 * 0x1p-11f;
    case RDG_TYPE_BF16: return 2e-4f + 4 * 0x1p-8f;
    case RDG_TYPE_Q8_0: return 1e-2f;
    default: return 0.2f; /* Q4_0 */
    }
}

/* Both go on greedily for n tokens with the same logits: to the bit if `exact`. */
static void go_on_alike(rdg_session *a, rdg_session *b, int n, bool exact)
{
    rdg_error e = {0};
    int64_t n_vocab = rdg_model_get_info(a->model)->n_vocab;
    const float slack = fmaxf(slack_of(a->params.kv_type_k), slack_of(a->params.kv_type_v));
    for (int i = 0; i < n; i++) {
        const float *la = rdg_session_logits(a, 0), *lb = rdg_session_logits(b, 0);
        assert_non_null(la);
        assert_non_null(lb);
        for (int64_t v = 0; v < n_vocab; v++) {
            if (exact && memcmp(&la[v], &lb[v], sizeof *la)) fail_msg("token %d, logit %d", i, (int)v);
            if (!(fabsf(la[v] - lb[v]) <= slack))
                fail_msg("token %d, logit %d: %g, %g", i, (int)v, la[v], lb[v]);
        }
        int32_t token = largest(la, n_vocab);
        assert_ok(rdg_session_eval(a, &token, 1, RDG_LOGITS_LAST, &e), &e);
        assert_ok(rdg_session_eval(b, &token, 1, RDG_LOGITS_LAST, &e), &e);
    }
}

/* Going on after a restore
 * ------------------------------------------------------------------------------------ */

/* What is saved again is the same file, whatever the layout it went through. */
static void saves_the_same(rdg_session *s)
{
    rdg_error e = {0};
    unsigned char *one, *two;
    assert_ok(rdg_session_save_state(s, other_path, "a note", 6, &e), &e);
    size_t n_one = read_file(state_path, &one), n_two = read_file(other_path, &two);
    assert_int_equal(n_one, n_two);
    assert_memory_equal(one, two, n_one);
    free(one);
    free(two);
}

static void goes_on(const char *device, int model, rdg_type k, rdg_type v)
{
    enum { N_PROMPT = 61, N_MORE = 12 };
    rdg_error e = {0};
    int32_t prompt[N_PROMPT];
    random_tokens(model, prompt, N_PROMPT);
    rdg_session *a = session_on(device, model, k, v, 96, 8), *b = session_on(device, model, k, v, 96, 8);
    rdg_session *c = session_on(device, model, k, v, 80, 64), *cpu = session_on("cpu", model, k, v, 96, 32);
    assert_true(a && b && c && cpu);
    assert_ok(rdg_session_eval(a, prompt, N_PROMPT, RDG_LOGITS_LAST, &e), &e);
    assert_ok(rdg_session_save_state(a, state_path, "a note", 6, &e), &e);
    char *note;
    size_t note_bytes;
    random_tokens(model, prompt + 9, 3); /* another sequence, which must leave no trace */
    assert_ok(rdg_session_eval(b, prompt + 2, 40, RDG_LOGITS_ALL, &e), &e);
    assert_ok(rdg_session_load_state(b, state_path, &note, &note_bytes, &e), &e);
    assert_int_equal(note_bytes, 6);
    assert_string_equal(note, "a note");
    rdg_text_free(note);
    assert_int_equal(rdg_session_n_past(b), N_PROMPT);
    assert_memory_equal(rdg_session_tokens(a), rdg_session_tokens(b), N_PROMPT * sizeof *prompt);
    assert_null(rdg_session_logits(b, 1));
    saves_the_same(b);
    assert_ok(rdg_session_load_state(c, state_path, NULL, NULL, &e), &e);
    saves_the_same(c);
    assert_ok(rdg_session_load_state(cpu, state_path, NULL, NULL, &e), &e);
    saves_the_same(cpu);
    go_on_alike(a, b, N_MORE, true);
    assert_ok(rdg_session_load_state(b, state_path, NULL, NULL, &e), &e); /* from another layout, too */
    go_on_alike(c, b, N_MORE, false);
    assert_ok(rdg_session_load_state(b, state_path, NULL, NULL, &e), &e);
    go_on_alike(cpu, b, N_MORE, false);
    rdg_session_destroy(a);
    rdg_session_destroy(b);
    rdg_session_destroy(c);
    rdg_session_destroy(cpu);
}

static const rdg_type cache_types[] = {RDG_TYPE_F32, RDG_TYPE_F16, RDG_TYPE_BF16, RDG_TYPE_Q8_0,
                                       RDG_TYPE_Q4_0};

static void it_goes_on_as_if_nothing_had_happened(void **state)
{
    (void)state;
    for (int m = 0; m <= ABSOLUTE; m++)
        for (int t = 0; t < RDG_COUNTOF(cache_types); t++) goes_on("cpu", m, cache_types[t], cache_types[t]);
    goes_on("cpu", WINDOW, RDG_TYPE_Q8_0, RDG_TYPE_F16);
}

/* Caches of one sequence in two places. */
static void divided(void)
{
    rdg_error e = {0};
    int32_t prompt[30];
    rdg_session *a, *b = session(WINDOW, RDG_TYPE_F16, 96, 8);
    rdg_session_params p = {.n_ctx = 96,
                            .n_batch = 8,
                            .n_threads = 1,
                            .kv_type_k = RDG_TYPE_F16,
                            .kv_type_v = RDG_TYPE_F16,
                            .device = "vulkan",
                            .gpu_layers = 3};
    random_tokens(WINDOW, prompt, 30);
    assert_ok(rdg_session_create(models[WINDOW], &p, &a, &e), &e);
    rdg_placement places[RDG_PLACEMENTS_MAX];
    assert_int_equal(rdg_session_placements(a, places), 2);
    assert_ok(rdg_session_eval(a, prompt, 30, RDG_LOGITS_LAST, &e), &e);
    assert_ok(rdg_session_save_state(a, state_path, NULL, 0, &e), &e);
    assert_ok(rdg_session_load_state(b, state_path, NULL, NULL, &e), &e);
    go_on_alike(a, b, 5, false);
    assert_ok(rdg_session_load_state(a, state_path, NULL, NULL, &e), &e);
    assert_ok(rdg_session_load_state(b, state_path, NULL, NULL, &e), &e);
    go_on_alike(a, b, 5, false);
    rdg_session_destroy(a);
    rdg_session_destroy(b);
}

static void it_goes_on_on_a_gpu(void **state)
{
    (void)state;
    rdg_session *s = session_on("vulkan", LLAMA, RDG_TYPE_F16, RDG_TYPE_F16, 8, 8);
    if (!s) {
        print_message("no Vulkan device\n");
        skip();
    }
    rdg_session_destroy(s);
    for (int t = 0; t < RDG_COUNTOF(cache_types); t++)
        goes_on("vulkan", WINDOW, cache_types[t], cache_types[t]);
    goes_on("vulkan", LLAMA, RDG_TYPE_F16, RDG_TYPE_F16);
    divided();
}

typedef struct picks {
    int32_t p[8];
    int n;
} picks;

static bool on_token(void *user, int32_t token)
{
    picks *k = user;
    if (k->n < 8) k->p[k->n++] = token;
    return true;
}

/* What the device picks by itself belongs to the sequence; its logits are nobody's. */
static void decoding_on_the_device_is_remembered(void **state)
{
    (void)state;
    static const char *const devices[] = {"cpu", "vulkan"};
    for (int d = 0; d < 2; d++) {
        rdg_error e = {0};
        int32_t prompt[5];
        int64_t n_done;
        picks k = {.n = 0};
        rdg_session *s = session_on(devices[d], LLAMA, RDG_TYPE_F16, RDG_TYPE_F16, 32, 8);
        rdg_session *b = session_on("cpu", LLAMA, RDG_TYPE_F16, RDG_TYPE_F16, 32, 8);
        if (!s) {
            rdg_session_destroy(b);
            continue;
        }
        random_tokens(LLAMA, prompt, 5);
        assert_ok(rdg_session_eval(s, prompt, 5, RDG_LOGITS_LAST, &e), &e);
        assert_ok(rdg_session_decode_greedy(s, 7, 6, on_token, &k, &n_done, &e), &e);
        assert_int_equal(rdg_session_n_past(s), 11);
        assert_int_equal(rdg_session_tokens(s)[5], 7);
        assert_memory_equal(rdg_session_tokens(s) + 6, k.p, 5 * sizeof *k.p);
        assert_ok(rdg_session_save_state(s, state_path, NULL, 0, &e), &e);
        assert_ok(rdg_session_load_state(b, state_path, NULL, NULL, &e), &e);
        if (d == 1) assert_null(rdg_session_logits(b, 0));
        assert_ok(rdg_session_eval(s, &k.p[5], 1, RDG_LOGITS_LAST, &e), &e);
        assert_ok(rdg_session_eval(b, &k.p[5], 1, RDG_LOGITS_LAST, &e), &e);
        go_on_alike(s, b, 3, false);
        rdg_session_destroy(s);
        rdg_session_destroy(b);
    }
}

/* Nothing to decode is nothing done, in a full context too, which has no room for one token more. */
static void decoding_nothing(void **state)
{
    (void)state;
    static const char *const devices[] = {"cpu", "trace", "vulkan"};
    for (int d = 0; d < 3; d++) {
        rdg_error e = {0};
        int32_t prompt[8];
        int64_t n_done = 9;
        rdg_session *s = session_on(devices[d], LLAMA, RDG_TYPE_F16, RDG_TYPE_F16, 8, 8);
        if (!s) continue;
        random_tokens(LLAMA, prompt, 8);
        assert_ok(rdg_session_eval(s, prompt, 8, RDG_LOGITS_LAST, &e), &e);
        assert_ok(rdg_session_decode_greedy(s, 7, 0, on_token, NULL, &n_done, &e), &e);
        assert_ok(rdg_session_decode_greedy(s, 7, -1, on_token, NULL, &n_done, &e), &e);
        assert_int_equal(n_done, 0);
        assert_non_null(rdg_session_logits(s, 0));
        assert_error(rdg_session_decode_greedy(s, 7, 1, on_token, NULL, &n_done, &e), RDG_E_CONTEXT_FULL, &e,
                     "-c");
        rdg_session_destroy(s);
    }
}

/* A device that fails in the middle of a restore leaves an empty session, of which nothing is remembered. */
static void a_restore_that_fails_leaves_nothing(void **state)
{
    (void)state;
    rdg_error e = {0};
    int32_t prompt[40];
    random_tokens(WINDOW, prompt, 40);
    rdg_session *a = session(WINDOW, RDG_TYPE_F16, 96, 8);
    assert_ok(rdg_session_eval(a, prompt, 40, RDG_LOGITS_LAST, &e), &e);
    assert_ok(rdg_session_save_state(a, state_path, NULL, 0, &e), &e);
    rdg_session_destroy(a);
    rdg_session *s = session_on("trace", WINDOW, RDG_TYPE_F16, RDG_TYPE_F16, 96, 8);
    assert_ok(rdg_session_eval(s, prompt, 3, RDG_LOGITS_LAST, &e), &e);
    int n_empty = 0;
    for (int64_t nth = 1;; nth++) {
        assert_true(nth < 1000);
        rdg_trace_fail_at(rdg_exec_gpu_device(s->exec), nth, RDG_E_NOMEM);
        rdg_err err = rdg_session_load_state(s, state_path, NULL, NULL, &e);
        rdg_trace_fail_at(rdg_exec_gpu_device(s->exec), 0, RDG_OK);
        if (!err) break;
        assert_int_equal(err, RDG_E_NOMEM);
        n_empty += s->n_past == 0; /* else it failed before the restore began */
        assert_int_equal(s->window_first, 0);
        assert_ok(rdg_session_truncate(s, 0, &e), &e);
        assert_ok(rdg_session_eval(s, prompt, 2, RDG_LOGITS_LAST, &e), &e);
    }
    assert_true(n_empty > 10);
    assert_true(s->window_first > 0);
    rdg_session_destroy(s);
}

/* A window's cache goes back as far as it was saved, and no farther. */
static void going_back_after_a_restore(void **state)
{
    (void)state;
    rdg_error e = {0};
    int32_t prompt[40];
    random_tokens(WINDOW, prompt, 40);
    rdg_session *a = session(WINDOW, RDG_TYPE_F32, 96, 8), *b = session(WINDOW, RDG_TYPE_F32, 96, 64);
    assert_ok(rdg_session_eval(a, prompt, 40, RDG_LOGITS_LAST, &e), &e);
    assert_ok(rdg_session_save_state(a, state_path, NULL, 0, &e), &e); /* 32 slots: positions 8 to 39 */
    assert_ok(rdg_session_load_state(b, state_path, NULL, NULL, &e), &e);
    assert_error(rdg_session_truncate(b, 20, &e), RDG_E_UNSUPPORTED, &e, "sliding window");
    assert_ok(rdg_session_save_state(b, other_path, NULL, 0, &e), &e);
    assert_ok(rdg_session_load_state(a, other_path, NULL, NULL, &e), &e); /* nothing was made up */
    assert_ok(rdg_session_truncate(b, 30, &e), &e);
    assert_ok(rdg_session_eval(b, prompt + 30, 10, RDG_LOGITS_LAST, &e), &e);
    go_on_alike(a, b, 5, false);
    assert_ok(rdg_session_truncate(b, 0, &e), &e);
    assert_ok(rdg_session_eval(b, prompt, 40, RDG_LOGITS_LAST, &e), &e);
    assert_ok(rdg_session_truncate(b, 20, &e), &e); /* its own tokens: all 64 + 16 slots are good */
    rdg_session_destroy(a);
    rdg_session_destroy(b);
}

/* Refusals
 * ---------------------------------------------------------------------------------------------------- */

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    rdg_error e = {0};
    int32_t prompt[20];
    random_tokens(LLAMA, prompt, 20);
    rdg_session *a = session(LLAMA, RDG_TYPE_F16, 32, 8);
    assert_ok(rdg_session_eval(a, prompt, 20, RDG_LOGITS_LAST, &e), &e);
    assert_ok(rdg_session_save_state(a, state_path, NULL, 0, &e), &e);
    const struct {
        int model;
        rdg_type type;
        int64_t n_ctx;
        rdg_err err;
        const char *part;
    } cases[] = {
        {ROPE3, RDG_TYPE_F16, 32, RDG_E_UNSUPPORTED, "another model"},
        {Q8, RDG_TYPE_F16, 32, RDG_E_UNSUPPORTED, "another model"},
        {TRAINED_ON, RDG_TYPE_F16, 32, RDG_E_UNSUPPORTED, "another model"},
        {TURNED, RDG_TYPE_F16, 32, RDG_E_UNSUPPORTED, "another model"},
        {WINDOW, RDG_TYPE_F16, 32, RDG_E_UNSUPPORTED, "'llama "},
        {LLAMA, RDG_TYPE_Q8_0, 32, RDG_E_UNSUPPORTED, "KV cache of F16 and F16, this session one of Q8_0"},
        {LLAMA, RDG_TYPE_F16, 19, RDG_E_CONTEXT_FULL, "20 tokens"},
        {LLAMA, RDG_TYPE_F16, 20, RDG_OK, ""},
    };
    for (int i = 0; i < RDG_COUNTOF(cases); i++) {
        rdg_session *s = session(cases[i].model, cases[i].type, cases[i].n_ctx, 8);
        e = (rdg_error){0};
        assert_error(rdg_session_load_state(s, state_path, NULL, NULL, &e), cases[i].err, &e, cases[i].part);
        if (cases[i].err) assert_non_null(strstr(e.message, state_path));
        rdg_session_destroy(s);
    }
    assert_error(rdg_session_load_state(a, "/nonexistent/state", NULL, NULL, &e), RDG_E_IO, &e,
                 "/nonexistent/state");
    rdg_session_destroy(a);
    rdg_session_params p = {.n_ctx = 8, .n_threads = 1, .kv_type_k = RDG_TYPE_F16, .kv_type_v = RDG_TYPE_F16};
    assert_ok(rdg_session_create_embedding(models[LLAMA], &p, &a, &e), &e);
    assert_error(rdg_session_save_state(a, state_path, NULL, 0, &e), RDG_E_UNSUPPORTED, &e, "no state");
    rdg_session_destroy(a);
}

/* A small valid file, and a session that it suits. */
typedef struct victim {
    rdg_session *s;
    unsigned char *data, *copy;
    size_t n;
    float logit; /* of what the session holds */
} victim;

enum { VICTIM_TOKENS = 20, VICTIM_OWN = 4, AT_TOKENS = 128 };

static void make_victim(victim *v)
{
    rdg_error e = {0};
    int32_t prompt[VICTIM_TOKENS];
    random_tokens(WINDOW, prompt, VICTIM_TOKENS);
    v->s = session(WINDOW, RDG_TYPE_Q4_0, 32, 8);
    assert_ok(rdg_session_eval(v->s, prompt, VICTIM_TOKENS, RDG_LOGITS_LAST, &e), &e);
    assert_ok(rdg_session_save_state(v->s, state_path, "note", 4, &e), &e);
    v->n = read_file(state_path, &v->data);
    v->copy = malloc(v->n);
    assert_non_null(v->copy);
    assert_ok(rdg_session_truncate(v->s, 0, &e), &e);
    assert_ok(rdg_session_eval(v->s, prompt, VICTIM_OWN, RDG_LOGITS_LAST, &e), &e);
    v->logit = rdg_session_logits(v->s, 0)[3];
}

static void drop_victim(victim *v)
{
    rdg_session_destroy(v->s);
    free(v->data);
    free(v->copy);
}

/* The n bytes are refused with one of the errors of input, and nothing has changed. */
static void refused(victim *v, const unsigned char *data, size_t n, const char *part)
{
    rdg_error e = {0};
    rdg_err err = rdg_session_restore_state(v->s, data, n, NULL, NULL, &e);
    if (err != RDG_E_MALFORMED && err != RDG_E_UNSUPPORTED && err != RDG_E_LIMIT && err != RDG_E_CONTEXT_FULL)
        fail_msg("%s: %s", rdg_err_name(err), e.message);
    if (part && !strstr(e.message, part)) fail_msg("'%s' should hold '%s'", e.message, part);
    assert_int_equal(rdg_session_n_past(v->s), VICTIM_OWN);
    assert_true(rdg_session_logits(v->s, 0)[3] == v->logit);
}

static void fix_sum(unsigned char *data, size_t n)
{
    rdg_hash64 h;
    rdg_hash64_init(&h);
    rdg_hash64_update(&h, data, n - 8);
    uint64_t sum = rdg_hash64_value(&h);
    memcpy(data + n - 8, &sum, 8);
}

static void cut_files_are_refused(void **state)
{
    (void)state;
    victim v;
    make_victim(&v);
    for (size_t n = 0; n < v.n; n += n < 600 || n + 200 > v.n ? 1 : 37) {
        unsigned char *exact = malloc(n ? n : 1); /* so that a checker sees a read past the end */
        assert_non_null(exact);
        memcpy(exact, v.data, n);
        refused(&v, exact, n, n < 8 ? "RDGSTATE" : "state file");
        if (n >= 136) { /* a header that agrees with the cut */
            uint64_t bytes = n;
            memcpy(exact + 16, &bytes, 8);
            fix_sum(exact, n);
            refused(&v, exact, n, "bytes are left");
        }
        free(exact);
    }
    drop_victim(&v);
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    victim v;
    make_victim(&v);
    for (int i = 0; i < 4000; i++) {
        size_t at = i < RDG_STATE_HEAD_BYTES * 8 ? (size_t)i / 8 : (size_t)rdg_rng_below(&rng, v.n);
        memcpy(v.copy, v.data, v.n);
        v.copy[at] ^= (unsigned char)(1 << i % 8);
        refused(&v, v.copy, v.n, NULL);
    }
    /* One file behind another. */
    unsigned char *two = malloc(2 * v.n);
    assert_non_null(two);
    memcpy(two, v.data, v.n);
    memcpy(two + v.n, v.data, v.n);
    refused(&v, two, 2 * v.n, "its header says");
    free(two);
    drop_victim(&v);
}

/* Numbers that lie, in files whose checksum is right. Two have a history elsewhere: cache rows written
 * without a check of offset and size, and a product of sizes that wraps. */
static void hostile_files_are_refused(void **state)
{
    (void)state;
    victim v;
    make_victim(&v);
    size_t n_vocab = (size_t)rdg_model_get_info(models[WINDOW])->n_vocab;
    size_t record = AT_TOKENS + VICTIM_TOKENS * 4 + n_vocab * 4 + 4;
    const struct {
        size_t at;
        int bytes;
        uint64_t value;
        const char *part;
    } cases[] = {
        {8, 4, 2, "version 2"},
        {12, 4, 0xffffffff, "records"},
        {12, 4, 65536, "but only"},
        {12, 4, 1, "more than the header"},
        {16, 8, UINT64_MAX, "its header says"},
        {32, 4, RDG_TYPE_Q4_K, "no cache's"},
        {36, 4, 0xffffffff, "no cache's"},
        {40, 4, 0xffffffff, "vocabulary"},
        {40, 4, 1, "vocabulary"},
        {44, 4, 1, "logits"},
        {44, 4, 0x7fffffff, "logits"},
        {48, 8, UINT64_MAX, "tokens are not possible"},
        {48, 8, INT32_MAX, "but only"},
        {48, 8, 1 << 20, "but only"},
        {56, 8, UINT64_MAX, "but only"},
        {56, 8, UINT64_MAX - 7, "but only"},
        {64, 4, 2, "flags"},
        {64, 4, 1, "rotates"},
        {68, 4, 1, "flags"},
        {AT_TOKENS, 4, 0xffffffff, "token -1 at index 0"},
        {AT_TOKENS + 4, 4, n_vocab, "at index 1"},
        {record, 4, 1, "layer 1"},
        {record, 4, 0xffffffff, "layer 4294967295"},
        {record + 4, 4, 2, "kind 2"},
        {record + 8, 4, 0, "elements of type Q4_0"},
        {record + 8, 4, 33, "elements of type Q4_0"},
        {record + 8, 4, 0x10020, "elements of type Q4_0"},
        {record + 12, 4, 0, "0 heads"},
        {record + 12, 4, 0x10000, "but only"}, /* 2^16 heads, many positions: no product may wrap */
        {record + 12, 4, 0xffffffff, "heads"},
        {record + 16, 8, 1, "do not end"},
        {record + 16, 8, UINT64_MAX, "do not end"}, /* first + n_positions wraps */
        {record + 24, 8, UINT64_MAX, "do not end"},
        {record + 24, 8, (uint64_t)1 << 63, "do not end"},
        {record + 24, 8, 33, "do not end"}, /* more positions than the session has slots */
        {record + 24, 8, 0, "do not end"},
    };
    for (int i = 0; i < RDG_COUNTOF(cases); i++) {
        memcpy(v.copy, v.data, v.n);
        memcpy(v.copy + cases[i].at, &cases[i].value, (size_t)cases[i].bytes);
        fix_sum(v.copy, v.n);
        refused(&v, v.copy, v.n, cases[i].part);
    }
    /* The largest record that its own fields allow: 2^16 heads of 2^16 elements. */
    const uint64_t first = 0;
    const uint32_t most = 1 << 16, f32[2] = {RDG_TYPE_F32, RDG_TYPE_F32};
    unsigned char *p = v.copy;
    memcpy(p, v.data, v.n);
    memcpy(p + 32, f32, 8);
    memcpy(p + record + 8, &most, 4);
    memcpy(p + record + 12, &most, 4);
    memcpy(p + record + 16, &first, 8);
    fix_sum(p, v.n);
    refused(&v, p, v.n, "1310720 cache rows of 262144 bytes, but only");
    drop_victim(&v);
}

/* A window layer that begins too late would attend to what is not there. */
static void a_window_must_be_whole(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_state_file f;
    rdg_state_record r;
    victim v;
    make_victim(&v);
    rdg_state_writer w;
    assert_ok(rdg_state_parse(v.data, v.n, &f, &e), &e);
    for (int late = 0; late < 2; late++) { /* positions 4 or 5 to 19: the window is 16 */
        size_t at = f.records_at;
        uint64_t rows = 0;
        int64_t begin = VICTIM_TOKENS - 16 + late;
        for (uint32_t i = 0; i < f.head.n_records; i++) {
            assert_ok(rdg_state_next(&f, &at, &r, &e), &e);
            bool local = models[WINDOW]->hparams.layer_flags[r.layer] & RDG_LAYER_LOCAL;
            rows += r.n_heads * r.row_bytes * (uint64_t)(local ? VICTIM_TOKENS - begin : VICTIM_TOKENS);
        }
        assert_ok(rdg_state_writer_open(&w, other_path, &f.head, (const int32_t *)(void *)f.tokens,
                                        (const float *)(void *)f.logits, (const char *)f.note, rows, &e),
                  &e);
        at = f.records_at;
        for (uint32_t i = 0; i < f.head.n_records; i++) {
            assert_ok(rdg_state_next(&f, &at, &r, &e), &e);
            if (models[WINDOW]->hparams.layer_flags[r.layer] & RDG_LAYER_LOCAL) r.first = begin;
            r.n_positions = VICTIM_TOKENS - r.first;
            assert_ok(rdg_state_write_record(&w, &r, &e), &e);
            for (uint32_t h = 0; h < r.n_heads; h++)
                assert_ok(rdg_state_write(&w, r.rows + (h * VICTIM_TOKENS + (size_t)r.first) * r.row_bytes,
                                          (size_t)r.n_positions * r.row_bytes, &e),
                          &e);
        }
        assert_ok(rdg_state_writer_commit(&w, &e), &e);
        rdg_state_writer_close(&w);
        rdg_session *s = session(WINDOW, RDG_TYPE_Q4_0, 32, 8);
        e = (rdg_error){0};
        assert_error(rdg_session_load_state(s, other_path, NULL, NULL, &e), late ? RDG_E_MALFORMED : RDG_OK,
                     &e, late ? "looks back to 4" : "");
        rdg_session_destroy(s);
    }
    drop_victim(&v);
}

/* Shifting
 * ---------------------------------------------------------------------------------------------------- */

static void a_shifted_context_is_the_shorter_text(void **state)
{
    (void)state;
    for (int m = 0; m <= ABSOLUTE; m++) {
        enum { N = 64, KEEP = 3, DROP = 20 };
        rdg_error e = {0};
        int32_t prompt[N];
        random_tokens(m, prompt, N);
        rdg_session *a = session(m, RDG_TYPE_F32, N, 8), *b = session(m, RDG_TYPE_F32, N, 8);
        assert_ok(rdg_session_eval(a, prompt, N, RDG_LOGITS_LAST, &e), &e);
        assert_error(rdg_session_eval(a, prompt, 1, RDG_LOGITS_LAST, &e), RDG_E_CONTEXT_FULL, &e, "-c");
        assert_ok(rdg_session_shift(a, KEEP, DROP, &e), &e);
        assert_int_equal(rdg_session_n_past(a), N - DROP);
        memmove(prompt + KEEP, prompt + KEEP + DROP, (N - KEEP - DROP) * sizeof *prompt);
        assert_memory_equal(rdg_session_tokens(a), prompt, (N - DROP) * sizeof *prompt);
        assert_ok(rdg_session_eval(b, prompt, N - DROP, RDG_LOGITS_LAST, &e), &e);
        go_on_alike(a, b, 8, false);
        rdg_session_destroy(a);
        rdg_session_destroy(b);
    }
    rdg_error e = {0};
    const int32_t token = 5;
    rdg_session *s = session(LLAMA, RDG_TYPE_F32, 8, 8);
    assert_ok(rdg_session_eval(s, &token, 1, RDG_LOGITS_LAST, &e), &e);
    const int64_t wrong[][2] = {{0, 0},         {0, -1}, {-1, 1}, {0, INT64_MAX},
                                {INT64_MAX, 1}, {1, 1},  {0, 2},  {0, INT64_MIN}};
    for (int i = 0; i < RDG_COUNTOF(wrong); i++)
        assert_error(rdg_session_shift(s, wrong[i][0], wrong[i][1], &e), RDG_E_ARGUMENT, &e, "cannot keep");
    assert_ok(rdg_session_shift(s, 0, 1, &e), &e);
    assert_int_equal(rdg_session_n_past(s), 0);
    rdg_session_destroy(s);
}

/* With any argument: the test on a GPU alone, which takes a software driver some seconds. */
int main(int argc, char **argv)
{
    const bool on_gpu = argc > 1 && !strcmp(argv[1], "gpu");
    if (argc > 1 + on_gpu) given_seed = strtoull(argv[1 + on_gpu], NULL, 0);
    const struct CMUnitTest gpu[] = {cmocka_unit_test(it_goes_on_on_a_gpu)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_goes_on_as_if_nothing_had_happened),
        cmocka_unit_test(decoding_on_the_device_is_remembered),
        cmocka_unit_test(decoding_nothing),
        cmocka_unit_test(a_restore_that_fails_leaves_nothing),
        cmocka_unit_test(going_back_after_a_restore),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(hostile_files_are_refused),
        cmocka_unit_test(a_window_must_be_whole),
        cmocka_unit_test(a_shifted_context_is_the_shorter_text),
    };
    return on_gpu ? cmocka_run_group_tests(gpu, load_models, drop_models)
                  : cmocka_run_group_tests(tests, load_models, drop_models);
}
