/* chat: the commands that begin with a slash. */
#include "chat.h"
#include "base/err.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

enum { CONVERSATION_LIMIT_BYTES = 1 << 28 };

typedef struct slash_command {
    const char *name, *argument, *help;
    rdg_err (*run)(chat *h, const char *argument, rdg_error *e);
} slash_command;
static const slash_command commands[9];

static rdg_err do_help(chat *h, const char *a, rdg_error *e)
{
    (void)a, (void)e;
    for (const slash_command *k = commands; k->name; k++)
        fprintf(stderr, "  %-11s %-7s %s\n", k->name, k->argument ? k->argument : "", k->help);
    fprintf(stderr, "  Anything else is a message; so is a line that begins with a space.%s\n",
            h->terminal ? " Ctrl-C stops a reply, Ctrl-D ends." : "");
    return RDG_OK;
}

static rdg_err do_system(chat *h, const char *text, rdg_error *e)
{
    return chat_set_system(h, text, e);
}

static rdg_err do_reset(chat *h, const char *a, rdg_error *e)
{
    (void)a, (void)e;
    json_array_clear(h->messages);
    h->n_left_out = 0;
    return RDG_OK;
}

/* The conversation as a file has it: all of it, and what the model is not shown any more. */
static char *conversation_text(const chat *h, size_t flags, rdg_error *e)
{
    json_t *d = chat_document(h, 0);
    if (d && h->n_left_out) json_object_set_new(d, "n_left_out", json_integer((json_int_t)h->n_left_out));
    char *text = d ? json_dumps(d, flags) : NULL;
    json_decref(d);
    if (!text) rdg_fail(e, RDG_E_NOMEM, "no memory for the conversation");
    return text;
}

static size_t n_messages(const chat *h)
{
    return json_array_size(h->messages) + (h->system != NULL);
}

static rdg_err do_save(chat *h, const char *path, rdg_error *e)
{
    rdg_out out;
    char *text = conversation_text(h, JSON_INDENT(2), e);
    if (!text) return RDG_E_NOMEM;
    rdg_err err = rdg_out_open(&out, path, e);
    if (!err) {
        err = rdg_out_write(&out, text, strlen(text), e);
        if (!err) err = rdg_out_write(&out, "\n", 1, e);
        if (!err) err = rdg_out_commit(&out, e);
        rdg_out_close(&out);
    }
    free(text);
    if (!err) cli_note(h->c, "saved %zu messages to '%s'", n_messages(h), path);
    return err;
}

static rdg_err do_save_state(chat *h, const char *path, rdg_error *e)
{
    char *text = conversation_text(h, JSON_COMPACT, e);
    if (!text) return RDG_E_NOMEM;
    rdg_err err = rdg_session_save_state(h->session, path, text, strlen(text), e);
    free(text);
    if (!err)
        cli_note(h->c, "saved %zu messages and the state of %lld tokens to '%s'", n_messages(h),
                 (long long)rdg_session_n_past(h->session), path);
    return err;
}

/* Takes a conversation over from JSON; nothing changes if it is none. */
static rdg_err take_conversation(chat *h, const char *path, const char *text, size_t n, rdg_error *e)
{
    rdg_err err = RDG_OK;
    size_t i;
    json_t *m;
    json_error_t je;
    json_t *d = json_loadb(text, n, 0, &je), *all = json_object_get(d, "messages");
    if (!d) return rdg_fail(e, RDG_E_MALFORMED, "'%s', line %d: %s", path, je.line, je.text);
    if (!json_is_array(all))
        err = rdg_fail(e, RDG_E_MALFORMED, "'%s' has no list \"messages\"; /save writes such files", path);
    json_array_foreach(all, i, m)
    {
        if (err) break;
        if (!json_is_string(json_object_get(m, "role")) || !json_is_string(json_object_get(m, "content")))
            err = rdg_fail(e, RDG_E_MALFORMED,
                           "'%s': messages[%zu] has no role or no content that is a string", path, i);
    }
    if (!err) {
        json_t *first = json_array_get(all, 0);
        bool system = first && !strcmp(json_string_value(json_object_get(first, "role")), "system");
        err = chat_set_system(h, system ? json_string_value(json_object_get(first, "content")) : NULL, e);
        if (!err && system) json_array_remove(all, 0);
    }
    if (!err) {
        json_int_t left_out = json_integer_value(json_object_get(d, "n_left_out"));
        bool possible = left_out > 0 && (size_t)left_out < json_array_size(all);
        json_incref(all);
        json_decref(h->messages);
        h->messages = all;
        h->n_left_out = possible ? (size_t)left_out : 0;
        cli_note(h->c, "loaded %zu messages from '%s'", n_messages(h), path);
    }
    json_decref(d);
    return err;
}

/* A conversation, or a state with one as its note. The next reply looks for itself what of the state it can
 * use. */
static rdg_err do_load(chat *h, const char *path, rdg_error *e)
{
    char *text = NULL;
    size_t n = 0;
    bool state = cli_begins_with(path, "RDGSTATE");
    rdg_err err = state ? rdg_session_load_state(h->session, path, &text, &n, e)
                        : rdg_file_read(path, CONVERSATION_LIMIT_BYTES, false, &text, &n, e);
    if (!err && state && n == 0)
        err = rdg_fail(e, RDG_E_MALFORMED,
                       "'%s' is a state without a conversation; `ridge run --load-state` takes it", path);
    if (!err) err = take_conversation(h, path, text, n, e);
    rdg_text_free(text);
    return err;
}

static rdg_err do_regen(chat *h, const char *a, rdg_error *e)
{
    (void)a;
    size_t n = json_array_size(h->messages);
    json_t *last = json_array_get(h->messages, n ? n - 1 : 0);
    if (!last) return rdg_fail(e, RDG_E_ARGUMENT, "nothing has been said yet");
    json_incref(last);
    bool replied = !strcmp(json_string_value(json_object_get(last, "role")), "assistant");
    if (replied) json_array_remove(h->messages, n - 1);
    rdg_err err = chat_reply(h, e);
    if (err && replied) json_array_append(h->messages, last);
    json_decref(last);
    return err;
}

static rdg_err do_quit(chat *h, const char *a, rdg_error *e)
{
    (void)a, (void)e;
    h->quit = true;
    return RDG_OK;
}

static const slash_command commands[9] = {
    {"/help", NULL, "this list", do_help},
    {"/system", "[TEXT]", "set the system message; without TEXT, have none", do_system},
    {"/reset", NULL, "forget the conversation, keep the system message", do_reset},
    {"/save", "FILE", "write the conversation as JSON", do_save},
    {"/save-state", "FILE", "write the conversation and the KV cache, so that it goes on at once",
     do_save_state},
    {"/load", "FILE", "go on from what was saved", do_load},
    {"/regen", NULL, "another reply to the last message", do_regen},
    {"/quit", NULL, "end", do_quit},
    {NULL, NULL, NULL, NULL},
};

rdg_err chat_command(chat *h, char *line, rdg_error *e)
{
    size_t n = strcspn(line, " ");
    char *argument = line[n] ? line + n + 1 + strspn(line + n + 1, " ") : line + n;
    line[n] = 0;
    for (const slash_command *k = commands; k->name; k++) {
        if (strcmp(k->name, line)) continue;
        if (!*argument && k->argument && k->argument[0] != '[')
            return rdg_fail(e, RDG_E_ARGUMENT, "%s needs a %s", line, k->argument);
        if (*argument && !k->argument)
            return rdg_fail(e, RDG_E_ARGUMENT, "%s takes nothing, but '%s' was given", line, argument);
        return k->run(h, argument, e);
    }
    return rdg_fail(e, RDG_E_ARGUMENT,
                    "there is no command '%s'; /help lists them, a leading space makes it a message", line);
}
