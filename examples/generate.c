/* Continues a prompt: the whole of a program that embeds libridge. Public headers only.
 *
 *     generate MODEL.gguf "Once upon a time" [TOKENS]
 *     generate MODEL.gguf 1,15043,29892 [TOKENS]        where the model has no tokenizer
 *
 * Order of things: load the model (maps the file), make a session (the KV cache), evaluate the prompt, then
 * pick a token, print it, evaluate it, and so on. Every call says in an rdg_error what went wrong. */
#include <ridge/ridge.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Warnings of the library: it never prints by itself. */
static void on_message(void *user, rdg_log_level level, const char *text)
{
    (void)user;
    if (level == RDG_LOG_WARN) fprintf(stderr, "warning: %s\n", text);
}

/* The stream hands out whole UTF-8 characters only, though a token may end in the middle of one. */
static void print_text(void *user, const char *text, size_t n)
{
    fwrite(text, 1, n, user);
    fflush(user);
}

/* The prompt of a model without a tokenizer: ids separated by commas. NULL if it is none, or without memory.
 */
static int32_t *parse_ids(const char *text, size_t *n)
{
    int32_t *ids = malloc((strlen(text) + 1) * sizeof *ids);
    char *end;
    for (*n = 0; ids; text = end + 1) {
        long id = strtol(text, &end, 10);
        ids[(*n)++] = id < 0 || id > INT32_MAX ? -1 : (int32_t)id; /* eval refuses what is no token */
        if (end != text && !*end) return ids;
        if (end == text || *end != ',') break;
    }
    free(ids);
    return NULL;
}

/* tokenizer may be NULL: then ids are printed, and no token is known to end a text. */
static rdg_err generate(rdg_session *session, rdg_sampler *sampler, const rdg_tokenizer *tokenizer,
                        int n_tokens, rdg_error *e)
{
    rdg_stream stream;
    rdg_stream_init(&stream, tokenizer);
    stream.started = true; /* we continue a text: a leading space is part of it */
    rdg_err err = RDG_OK;
    for (int i = 0; i < n_tokens && rdg_session_n_past(session) < rdg_session_n_ctx(session); i++) {
        int32_t token;
        if ((err = rdg_sampler_pick(sampler, rdg_session_logits(session, 0), &token, e))) break;
        if ((err = rdg_sampler_accept(sampler, token, e))) break;
        if (tokenizer && rdg_token_is_end(tokenizer, token)) break;
        if (!tokenizer)
            printf(" %d", (int)token);
        else if ((err = rdg_stream_token(&stream, token, false, print_text, stdout)))
            break;
        if ((err = rdg_session_eval(session, &token, 1, RDG_LOGITS_LAST, e))) break;
    }
    rdg_stream_finish(&stream, print_text, stdout);
    return err;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: generate MODEL.gguf PROMPT [TOKENS]\n");
        return 2;
    }
    const char *prompt = argv[2];
    int n_tokens = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 64;
    rdg_error e = {0};
    rdg_log log = {.message = on_message};
    rdg_model *model = NULL;
    rdg_session *session = NULL;
    rdg_sampler *sampler = NULL;
    int32_t *ids = NULL, *given = NULL;
    size_t n_ids = 0;
    rdg_session_params session_params;
    rdg_session_defaults(&session_params);
    rdg_sampler_params sampler_params;
    rdg_sampler_defaults(&sampler_params);
    sampler_params.temperature = 0; /* greedy: the same text every time */

    rdg_err err = rdg_model_load(argv[1], &log, &model, &e);
    if (err) goto done;
    const rdg_tokenizer *tokenizer = rdg_model_tokenizer(model);
    if (tokenizer) {
        rdg_tokenize_params params = {.add_special = true};
        if ((err = rdg_tokenize(tokenizer, prompt, strlen(prompt), params, &ids, &n_ids, &e))) goto done;
    } else if (!(given = parse_ids(prompt, &n_ids))) {
        fprintf(stderr, "generate: the model has no tokenizer: give token ids, 1,2,3\n");
        rdg_model_release(model);
        return 2;
    }
    if ((err = rdg_session_create(model, &session_params, &session, &e))) goto done;
    if ((err = rdg_sampler_create(&sampler_params, rdg_model_get_info(model)->n_vocab, &sampler, &e)))
        goto done;
    if ((err = rdg_session_eval(session, ids ? ids : given, (int64_t)n_ids, RDG_LOGITS_LAST, &e))) goto done;
    fputs(prompt, stdout);
    err = generate(session, sampler, tokenizer, n_tokens, &e);
    putchar('\n');
done:
    if (err) fprintf(stderr, "generate: %s\n", e.message);
    rdg_sampler_destroy(sampler);
    rdg_session_destroy(session);
    rdg_tokens_free(ids);
    free(given);
    rdg_model_release(model);
    return err ? 1 : 0;
}
