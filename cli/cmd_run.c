#include "commands.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "generate.h"

#include <string.h>
#include <sys/resource.h>

typedef struct options {
    const char *prompt, *file, *tokens, *kv_type, *load_state, *save_state;
    int64_t n, n_ctx, n_batch, n_keep;
    bool ignore_eos, special, shift;
    cli_sampling sampling;
} options;

static const options defaults = {
    .n = -1, .kv_type = "f16", .n_batch = 512, .n_keep = -1, .sampling = CLI_SAMPLING_DEFAULTS};

static const cli_option table[] = {
    {"--prompt", "-p", "TEXT", CLI_STRING, offsetof(options, prompt), 0, 0, "the text to continue"},
    {"--file", "-f", "FILE", CLI_STRING, offsetof(options, file), 0, 0,
     "read the prompt from FILE (- = standard input)"},
    {"--tokens", NULL, "1,2,3", CLI_STRING, offsetof(options, tokens), 0, 0,
     "the prompt as token ids, as they are: no BOS is added; also for models without a tokenizer"},
    {"--predict", "-n", "N", CLI_INT, offsetof(options, n), -1, 1e9,
     "tokens to generate (default: -1 = until the end or the context is full)"},
    CLI_CONTEXT_ROW(options),
    CLI_BATCH_ROW(options),
    CLI_KV_TYPE_ROW(options),
    {"--load-state", NULL, "F", CLI_STRING, offsetof(options, load_state), 0, 0,
     "go on from a state that was saved; the prompt, if there is one, continues it"},
    {"--save-state", NULL, "F", CLI_STRING, offsetof(options, save_state), 0, 0,
     "write tokens and KV cache to F at the end"},
    {"--shift", NULL, NULL, CLI_FLAG, offsetof(options, shift), 0, 0,
     "when the context is full, drop the oldest tokens and go on (default: stop)"},
    {"--keep", NULL, "N", CLI_INT, offsetof(options, n_keep), 0, 1e9,
     "tokens at the start that a shift keeps (default: BOS, if there is one)"},
    {"--ignore-eos", NULL, NULL, CLI_FLAG, offsetof(options, ignore_eos), 0, 0, "go on after an end token"},
    {"--special", NULL, NULL, CLI_FLAG, offsetof(options, special), 0, 0,
     "control tokens in the prompt count as such, and are printed"},
    CLI_SAMPLING_OPTIONS(options, sampling),
    {NULL, NULL, NULL, CLI_FLAG, 0, 0, 0, NULL},
};

typedef struct job {
    cli *c;
    const options *o;
    rdg_model *model;
    rdg_session *session;
    rdg_sampler *sampler;
    char *text_in; /* -p or -f */
    size_t n_text_in;
    int32_t *prompt;
    size_t n_prompt;
    int64_t n_restored, n_keep, n_dropped;
    rdg_buf text; /* generated */
    cli_generation g;
    double load_seconds, prefill_seconds, load_rss_bytes;
    rdg_load_info load;
} job;

static int on_text(void *user, const char *text, size_t n)
{
    job *j = user;
    rdg_buf_append(&j->text, text, n);
    if (j->c->common.json) return 0;
    fwrite(text, 1, n, stdout);
    return fflush(stdout) != 0;
}

/* The prompt's ids, from --tokens or from the text. */
static rdg_err tokenize_prompt(job *j, rdg_error *e)
{
    const rdg_tokenizer *t = rdg_model_tokenizer(j->model);
    bool text = j->o->prompt || j->o->file;
    if (j->o->tokens) return cli_parse_ids(j->o->tokens, &j->prompt, &j->n_prompt, e);
    if (!text && j->o->load_state) return RDG_OK;
    if (!t)
        return rdg_fail(e, RDG_E_UNSUPPORTED,
                        "'%s' has no tokenizer; give the prompt as token ids (--tokens)", j->c->args[0]);
    rdg_tokenize_params p = {.add_special = !j->n_restored, .parse_special = j->o->special};
    return rdg_tokenize(t, j->text_in, j->n_text_in, p, &j->prompt, &j->n_prompt, e);
}

/* A prompt that does not fit: an error, or without what is oldest in it, which is what a shift would leave.
 */
static rdg_err fit_prompt(job *j, rdg_error *e)
{
    int64_t n_ctx = rdg_session_n_ctx(j->session), n = (int64_t)j->n_prompt + j->n_restored;
    if (n <= n_ctx) return RDG_OK;
    if (!j->o->shift)
        return rdg_fail(
            e, RDG_E_CONTEXT_FULL,
            "the prompt's %lld tokens do not fit into the context of %lld; use a larger one (-c), or "
            "--shift to drop the oldest tokens",
            (long long)n, (long long)n_ctx);
    int64_t n_drop = n - n_ctx + (n_ctx - j->n_keep) / 2; /* the prompt's last token stays */
    int64_t behind = j->n_restored > j->n_keep ? j->n_restored - j->n_keep : 0; /* droppable, evaluated */
    int64_t old = n_drop < behind ? n_drop : behind, fresh = n_drop - old;
    int64_t keep = j->n_keep > j->n_restored ? j->n_keep - j->n_restored : 0; /* of the prompt */
    rdg_err err = old ? rdg_session_shift(j->session, j->n_keep, old, e) : RDG_OK;
    if (err) return err;
    memmove(j->prompt + keep, j->prompt + keep + fresh,
            (j->n_prompt - (size_t)(keep + fresh)) * sizeof *j->prompt);
    j->n_prompt -= (size_t)fresh;
    j->n_dropped += n_drop;
    cli_warn(
        j->c,
        "the prompt's %lld tokens do not fit into the context of %lld: the oldest %lld behind the first %lld "
        "are dropped",
        (long long)n, (long long)n_ctx, (long long)n_drop, (long long)j->n_keep);
    return RDG_OK;
}

/* --keep, or BOS if the text has one. */
static rdg_err choose_keep(job *j, rdg_error *e)
{
    const rdg_tokenizer *t = rdg_model_tokenizer(j->model);
    int64_t n_ctx = rdg_session_n_ctx(j->session);
    const int32_t *first = j->n_restored ? rdg_session_tokens(j->session) : j->prompt;
    bool bos =
        t && rdg_tokenizer_bos(t) >= 0 && (j->n_restored || j->n_prompt) && *first == rdg_tokenizer_bos(t);
    j->n_keep = j->o->n_keep >= 0 ? j->o->n_keep : bos && n_ctx > 1;
    if (j->o->shift && j->n_keep >= n_ctx)
        return rdg_fail(e, RDG_E_ARGUMENT, "--keep %lld leaves nothing to drop in a context of %lld",
                        (long long)j->n_keep, (long long)n_ctx);
    return RDG_OK;
}

static rdg_err make_prompt(job *j, rdg_error *e)
{
    rdg_err err = RDG_OK;
    if (j->o->load_state) err = rdg_session_load_state(j->session, j->o->load_state, NULL, NULL, e);
    j->n_restored = rdg_session_n_past(j->session);
    if (!err) err = tokenize_prompt(j, e);
    if (!err && j->n_prompt == 0 && !j->o->load_state)
        err = rdg_fail(
            e, RDG_E_ARGUMENT, "%s",
            j->o->tokens ? "--tokens is empty"
                         : "the prompt is empty and the vocabulary has no BOS token; give a prompt with -p");
    if (!err && j->n_prompt == 0 && !rdg_session_logits(j->session, 0))
        err = rdg_fail(e, RDG_E_ARGUMENT,
                       "the state has no logits to go on from; give a prompt (-p or --tokens)");
    if (!err) err = choose_keep(j, e);
    return err ? err : fit_prompt(j, e);
}

/* Of this program: what getrusage tells begins with the peak of whoever started it. */
static double peak_rss_bytes(void)
{
    char line[128];
    double kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %lf", &kib) == 1) break;
    if (f) fclose(f);
    struct rusage usage;
    if (kib <= 0 && !getrusage(RUSAGE_SELF, &usage)) kib = (double)usage.ru_maxrss;
    return kib * 1024;
}

static rdg_err prepare(job *j, rdg_type kv, rdg_error *e)
{
    double start = rdg_clock_seconds();
    rdg_session_params sp = cli_session_params(j->c, kv);
    sp.n_ctx = j->o->n_ctx;
    sp.n_batch = j->o->n_batch;
    rdg_err err = rdg_model_load(j->c->args[0], &j->c->log, &j->model, e);
    if (!err) err = rdg_session_create(j->model, &sp, &j->session, e);
    if (!err) err = make_prompt(j, e);
    if (!err) err = rdg_session_load(j->session, &j->load, e);
    if (!err) err = cli_make_sampler(j->c, &j->o->sampling, j->model, &j->sampler, e);
    j->load_seconds = rdg_clock_seconds() - start;
    j->load_rss_bytes = peak_rss_bytes();
    return err;
}

static void on_shift(void *user, int64_t n_dropped, int64_t n_evaluated)
{
    job *j = user;
    j->n_dropped += n_dropped;
    cli_warn(j->c,
             "the context of %lld is full: the oldest %lld tokens behind the first %lld are dropped, the "
             "%lld after "
             "them evaluated again",
             (long long)rdg_session_n_ctx(j->session), (long long)n_dropped, (long long)j->n_keep,
             (long long)n_evaluated);
}

/* The state ends with the text: a last token that was printed but not evaluated yet is part of it. */
static rdg_err save_state(job *j, const cli_generate_params *p, rdg_error *e)
{
    rdg_err err = RDG_OK;
    if (!strcmp(j->g.finish_reason, "length") && j->g.n_tokens) {
        err = cli_make_room(p, e);
        if (!err) err = rdg_session_eval(j->session, &j->g.tokens[j->g.n_tokens - 1], 1, RDG_LOGITS_LAST, e);
    } else if (!strcmp(j->g.finish_reason, "context")) {
        cli_warn(j->c, "the context is full: the state lacks the last token");
    }
    return err ? err : rdg_session_save_state(j->session, j->o->save_state, NULL, 0, e);
}

static rdg_err generate(job *j, rdg_error *e)
{
    cli_generate_params p = {.session = j->session,
                             .sampler = j->sampler,
                             .tokenizer = rdg_model_tokenizer(j->model),
                             .max_tokens = j->o->n,
                             .ignore_end = j->o->ignore_eos,
                             .show_special = j->o->special,
                             .shift = j->o->shift,
                             .n_keep = j->n_keep,
                             .on_text = on_text,
                             .log = &j->c->log,
                             .on_shift = on_shift,
                             .user = j};
    double start = rdg_clock_seconds();
    rdg_err err = RDG_OK;
    for (int64_t i = 0; i < j->n_restored && !err; i++)
        err = rdg_sampler_accept(j->sampler, rdg_session_tokens(j->session)[i], e);
    if (!err && j->n_prompt) err = cli_prefill(&p, j->prompt, j->n_prompt, e);
    j->prefill_seconds = rdg_clock_seconds() - start;
    if (!err) err = cli_generate(&p, &j->g, e);
    return !err && j->o->save_state ? save_state(j, &p, e) : err;
}

static double per_second(int64_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

/* n_evaluated: tokens that the time was spent on. */
static json_t *speed_json(int64_t n, int64_t n_evaluated, double seconds)
{
    return json_pack("{s:I, s:o, s:o}", "n_tokens", (json_int_t)n, "seconds", cli_real(seconds),
                     "tokens_per_second", cli_real(per_second(n_evaluated, seconds)));
}

/* The first token comes from the prompt's logits, each other one from evaluating the one before. */
static int64_t decode_steps(const job *j)
{
    return j->g.n_tokens > 0 ? (int64_t)j->g.n_tokens - 1 : 0;
}

static json_t *load_json(const rdg_load_info *l)
{
    return json_pack("{s:I, s:o, s:o}", "bytes", (json_int_t)l->bytes, "seconds", cli_real(l->seconds),
                     "bytes_per_second", cli_real(l->seconds > 0 ? (double)l->bytes / l->seconds : 0));
}

/* Where the tokens were picked, and why not on the device. */
static json_t *sampling_json(const job *j)
{
    return j->g.on_host ? json_pack("{s:s, s:s}", "where", "host", "reason", j->g.on_host)
                        : json_pack("{s:s}", "where", "device");
}

static int report(job *j)
{
    cli *c = j->c;
    const rdg_model_info *info = rdg_model_get_info(j->model);
    double rss = peak_rss_bytes();
    if (c->common.json) {
        json_t *prompt = json_array(), *tokens = json_array();
        for (size_t i = 0; i < j->n_prompt; i++) json_array_append_new(prompt, json_integer(j->prompt[i]));
        for (size_t i = 0; i < j->g.n_tokens; i++)
            json_array_append_new(tokens, json_integer(j->g.tokens[i]));
        json_t *place = cli_placement_json(j->session);
        json_t *text = rdg_model_tokenizer(j->model) ? cli_str(j->text.data ? j->text.data : "", j->text.len)
                                                     : json_null();
        return cli_print_json(
            c, json_pack("{s:o, s:I, s:I, s:o, s:o, s:s, s:o, s:o, s:I, s:o, s:o, s:o, s:s, s:I, s:o, s:o}",
                         "text", text, "n_restored_tokens", (json_int_t)j->n_restored, "n_dropped_tokens",
                         (json_int_t)j->n_dropped, "prompt_tokens", prompt, "tokens", tokens, "finish_reason",
                         j->g.finish_reason, "load_seconds", cli_real(j->load_seconds), "map_seconds",
                         cli_real(info->map_seconds), "load_peak_rss_bytes", (json_int_t)j->load_rss_bytes,
                         "upload", load_json(&j->load), "prefill",
                         speed_json((int64_t)j->n_prompt, (int64_t)j->n_prompt, j->prefill_seconds), "decode",
                         speed_json((int64_t)j->g.n_tokens, decode_steps(j), j->g.seconds), "device",
                         rdg_session_device(j->session), "peak_rss_bytes", (json_int_t)rss, "placement",
                         place, "sampling", sampling_json(j)));
    }
    putchar('\n');
    if (j->o->n > 0 && !strcmp(j->g.finish_reason, "context"))
        cli_warn(c, "the context of %lld is full after %zu of %lld tokens; use a larger one (-c), or --shift",
                 (long long)rdg_session_n_ctx(j->session), j->g.n_tokens, (long long)j->o->n);
    char size[32], rate[32] = "";
    if (decode_steps(j) > 0)
        snprintf(rate, sizeof rate, ", %.1f/s", per_second(decode_steps(j), j->g.seconds));
    if (j->o->save_state)
        cli_note(c, "\nstate of %lld tokens saved to '%s'", (long long)rdg_session_n_past(j->session),
                 j->o->save_state);
    cli_note(c, "\nmap + parse %.3f s · prompt %zu tokens, %.1f/s · generated %zu tokens%s (%s) · peak %s",
             info->map_seconds, j->n_prompt, per_second((int64_t)j->n_prompt, j->prefill_seconds),
             j->g.n_tokens, rate, j->g.finish_reason, cli_bytes(rss, size, sizeof size));
    return cli_finish_stdout(c);
}

/* What the reply continues: the text as it was given, or what the ids stand for. */
static rdg_err echo_prompt(job *j, rdg_error *e)
{
    const rdg_tokenizer *t = rdg_model_tokenizer(j->model);
    char *text = NULL;
    size_t n = 0;
    if (!j->o->tokens) {
        fwrite(j->text_in, 1, j->n_text_in, stdout);
    } else if (t) {
        rdg_err err = rdg_detokenize(t, j->prompt, j->n_prompt, j->o->special, &text, &n, e);
        if (err) return err;
        fwrite(text, 1, n, stdout);
        rdg_text_free(text);
    } else {
        for (size_t i = 0; i < j->n_prompt; i++) printf(i ? " %d" : "%d", (int)j->prompt[i]);
    }
    fflush(stdout);
    return RDG_OK;
}

static int run(cli *c, void *opts)
{
    const options *o = opts;
    rdg_error e = {0};
    rdg_type kv;
    if ((o->prompt != NULL) + (o->file != NULL) + (o->tokens != NULL) > 1)
        return cli_usage(c, "give one of -p TEXT, -f FILE and --tokens");
    if (!rdg_type_from_name(o->kv_type, &kv)) return cli_usage(c, "unknown type '%s'", o->kv_type);
    job j = {.c = c, .o = o};
    rdg_err err = cli_read_text(o->prompt ? o->prompt : "", o->file, &j.text_in, &j.n_text_in, &e);
    if (!err) err = prepare(&j, kv, &e);
    if (!err && !c->common.json) err = echo_prompt(&j, &e);
    if (!err) err = generate(&j, &e);
    int rc = err ? cli_error(c, &e) : report(&j);
    cli_generation_finish(&j.g);
    rdg_buf_finish(&j.text);
    rdg_sampler_destroy(j.sampler);
    rdg_session_destroy(j.session);
    rdg_tokens_free(j.prompt);
    rdg_model_release(j.model);
    rdg_free(j.text_in);
    return rc;
}

const cli_command cmd_run = {
    .name = "run",
    .group = "pipeline",
    .summary = "continue a prompt, streaming",
    .usage = "MODEL [-p TEXT | -f FILE | --tokens 1,2,3]",
    .description =
        "Generates text token by token. The same seed gives the same text, whatever the number of threads. A "
        "model without a tokenizer takes token ids (--tokens) and prints token ids.\n\n"
        "--save-state keeps the tokens and the KV cache in a file; a later run with --load-state goes on "
        "from there without evaluating them again. It needs the same model file and --kv-type; the "
        "context may be another one.",
    .options = table,
    .defaults = &defaults,
    .options_bytes = sizeof defaults,
    .min_args = 1,
    .max_args = 1,
    .uses = CLI_MODEL | CLI_SEED,
    .run = run,
};
