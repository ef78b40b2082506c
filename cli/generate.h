/* What run and chat share: sampling options, prefill with a check of the context, and the decode loop. */
#ifndef RDG_CLI_GENERATE_H
#define RDG_CLI_GENERATE_H

#include "cli.h"

typedef struct cli_sampling {
    double temperature, top_p, min_p, typical_p, top_n_sigma, xtc_probability, xtc_threshold, repeat_penalty,
        frequency_penalty, presence_penalty, dry_multiplier, dry_base, dynatemp_range, dynatemp_exponent,
        mirostat_tau, mirostat_eta;
    int64_t top_k, repeat_last_n, dry_allowed_length, dry_last_n, mirostat;
    cli_list bias;
    const char *order;
} cli_sampling;

#define CLI_SAMPLING_DEFAULTS                                                                                \
    {                                                                                                        \
        .temperature = 0.8, .top_p = 0.95, .min_p = 0.05, .typical_p = 1, .xtc_threshold = 0.1,              \
        .repeat_penalty = 1, .dry_base = 1.75, .dynatemp_exponent = 1, .mirostat_tau = 5,                    \
        .mirostat_eta = 0.1, .top_k = 40, .repeat_last_n = 64, .dry_allowed_length = 2, .dry_last_n = -1     \
    }

#define CLI_SAMPLING_ROW(S, M, f, name, arg, kind, lo, hi, text)                                             \
    {                                                                                                        \
        name, NULL, arg, kind, offsetof(S, M) + offsetof(cli_sampling, f), lo, hi, text                      \
    }
/* Rows for an option table whose struct S has the member M of type cli_sampling. */
#define CLI_SAMPLING_OPTIONS(S, M)                                                                           \
    CLI_SAMPLING_ROW(S, M, temperature, "--temp", "T", CLI_FLOAT, 0, 100,                                    \
                     "temperature, 0 = greedy (default: 0.8)"),                                              \
        CLI_SAMPLING_ROW(S, M, top_k, "--top-k", "K", CLI_INT, 0, 1e9,                                       \
                         "keep the K most likely, 0 = off (default: 40)"),                                   \
        CLI_SAMPLING_ROW(S, M, top_p, "--top-p", "P", CLI_FLOAT, 0, 1,                                       \
                         "keep the most likely that sum to P, 1 = off (default: 0.95)"),                     \
        CLI_SAMPLING_ROW(S, M, min_p, "--min-p", "P", CLI_FLOAT, 0, 1,                                       \
                         "drop below P times the most likely, 0 = off (default: 0.05)"),                     \
        CLI_SAMPLING_ROW(S, M, typical_p, "--typical", "P", CLI_FLOAT, 0, 1,                                 \
                         "locally typical sampling, 1 = off"),                                               \
        CLI_SAMPLING_ROW(S, M, top_n_sigma, "--top-nsigma", "N", CLI_FLOAT, 0, 100,                          \
                         "keep logits within N deviations of the largest, 0 = off"),                         \
        CLI_SAMPLING_ROW(S, M, xtc_probability, "--xtc-probability", "P", CLI_FLOAT, 0, 1,                   \
                         "exclude top choices with this chance, 0 = off"),                                   \
        CLI_SAMPLING_ROW(S, M, xtc_threshold, "--xtc-threshold", "P", CLI_FLOAT, 0, 1,                       \
                         "what counts as a top choice (default: 0.1)"),                                      \
        CLI_SAMPLING_ROW(S, M, repeat_penalty, "--repeat-penalty", "R", CLI_FLOAT, 0.01, 100,                \
                         "penalty on repeated tokens, 1 = off"),                                             \
        CLI_SAMPLING_ROW(S, M, frequency_penalty, "--frequency-penalty", "R", CLI_FLOAT, -100, 100,          \
                         "penalty per occurrence, 0 = off"),                                                 \
        CLI_SAMPLING_ROW(S, M, presence_penalty, "--presence-penalty", "R", CLI_FLOAT, -100, 100,            \
                         "penalty on presence, 0 = off"),                                                    \
        CLI_SAMPLING_ROW(S, M, repeat_last_n, "--repeat-last-n", "N", CLI_INT, -1, 1e9,                      \
                         "tokens the penalties look at, -1 = all (default: 64)"),                            \
        CLI_SAMPLING_ROW(S, M, dry_multiplier, "--dry-multiplier", "M", CLI_FLOAT, 0, 100,                   \
                         "penalty on repeated sequences, 0 = off"),                                          \
        CLI_SAMPLING_ROW(S, M, dry_base, "--dry-base", "B", CLI_FLOAT, 1, 10,                                \
                         "growth of that penalty (default: 1.75)"),                                          \
        CLI_SAMPLING_ROW(S, M, dry_allowed_length, "--dry-allowed-length", "N", CLI_INT, 1, 1e6,             \
                         "length that is still free (default: 2)"),                                          \
        CLI_SAMPLING_ROW(S, M, dry_last_n, "--dry-last-n", "N", CLI_INT, -1, 1e9,                            \
                         "tokens it looks at, -1 = all"),                                                    \
        CLI_SAMPLING_ROW(S, M, dynatemp_range, "--dynatemp-range", "R", CLI_FLOAT, 0, 100,                   \
                         "temperature varies by R with entropy, 0 = off"),                                   \
        CLI_SAMPLING_ROW(S, M, dynatemp_exponent, "--dynatemp-exponent", "X", CLI_FLOAT, 0.01, 100,          \
                         "shape of that curve (default: 1)"),                                                \
        CLI_SAMPLING_ROW(S, M, mirostat, "--mirostat", "V", CLI_INT, 0, 2,                                   \
                         "mirostat version 1 or 2, 0 = off"),                                                \
        CLI_SAMPLING_ROW(S, M, mirostat_tau, "--mirostat-tau", "T", CLI_FLOAT, 0, 100,                       \
                         "target surprise in bits (default: 5)"),                                            \
        CLI_SAMPLING_ROW(S, M, mirostat_eta, "--mirostat-eta", "E", CLI_FLOAT, 0, 10,                        \
                         "learning rate (default: 0.1)"),                                                    \
        CLI_SAMPLING_ROW(S, M, bias, "--logit-bias", "ID=B", CLI_LIST, 0, 0,                                 \
                         "add B to a token's logit; may be repeated"),                                       \
        CLI_SAMPLING_ROW(S, M, order, "--samplers", "LIST", CLI_STRING, 0, 0,                                \
                         "order of the stages (default: "                                                    \
                         "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature)")

rdg_err cli_make_sampler(cli *c, const cli_sampling *o, const rdg_model *m, rdg_sampler **out, rdg_error *e);

typedef struct cli_generate_params {
    rdg_session *session;
    rdg_sampler *sampler;
    const rdg_tokenizer
        *tokenizer;     /* NULL: there is none; tokens are shown as " 123", and none ends a text */
    int64_t max_tokens; /* -1 = until an end token or the context is full */
    bool ignore_end, show_special;
    const char *stop_text; /* ends a text like an end token does, and is not shown; NULL: none */
    bool shift; /* a full context loses its oldest tokens behind the first n_keep, instead of ending the text
                 */
    int64_t n_keep;                                         /* below the context */
    int (*on_text)(void *user, const char *text, size_t n); /* whole characters; non-zero stops */
    bool (*stop)(void *user);                               /* asked before every token; may be NULL */
    /* Told when tokens were dropped and n_evaluated evaluated again; NULL if never wanted. */
    void (*on_shift)(void *user, int64_t n_dropped, int64_t n_evaluated);
    void *user;
    const rdg_log *log; /* where tokens are picked, and why; may be NULL */
} cli_generate_params;

typedef struct cli_generation {
    int32_t *tokens; /* generated, the end token included */
    size_t n_tokens, cap;
    const char *finish_reason; /* "length", "stop", "context", "interrupted" */
    double seconds;
    const char *on_host; /* why the host picked the tokens, NULL: the device did */
} cli_generation;
void cli_generation_finish(cli_generation *g);

/* Half of what may be dropped from a context that is full: shifting costs as much as evaluating the other
 * half. */
int64_t cli_shift_size(int64_t n_ctx, int64_t n_keep);
/* Room for one token more, by a shift if there is none and p asks for it; CONTEXT_FULL otherwise. */
rdg_err cli_make_room(const cli_generate_params *p, rdg_error *e);

/* Evaluates the prompt; a prompt that does not fit is an error before anything is computed. */
rdg_err cli_prefill(const cli_generate_params *p, const int32_t *prompt, size_t n, rdg_error *e);
rdg_err cli_generate(const cli_generate_params *p, cli_generation *g, rdg_error *e);

#endif
