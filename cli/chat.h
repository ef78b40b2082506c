/* The chat command's files: cmd_chat.c (options, lines), chat_reply.c (conversation → tokens → reply) and
 * chat_commands.c (what begins with a slash). */
#ifndef RDG_CLI_CHAT_H
#define RDG_CLI_CHAT_H

#include "base/mem.h"
#include "generate.h"

typedef struct chat_options {
    const char *system, *kv_type, *template;
    int64_t n, n_ctx, n_batch;
    bool shift;
    cli_sampling sampling;
} chat_options;

typedef struct chat {
    cli *c;
    const chat_options *o;
    rdg_model *model;
    rdg_session *session;
    rdg_template *template;
    bool fallback; /* the template is ChatML for want of a better one */
    char *bos, *eos;
    char *system;      /* NULL: none */
    json_t *messages;  /* [{role, content}], without the system message */
    size_t n_left_out; /* --shift: the oldest messages, which the model is not shown any more */
    int64_t n_keep;    /* tokens of the system message's part, as far as the latest prompt began with them */
    int64_t n_replies, seed;
    rdg_buf reply, line;
    bool terminal, quit, broken; /* broken: standard output is gone */
    int rc;
} chat;

/* True once Ctrl-C was pressed, until chat_clear_interrupt. */
bool chat_interrupted(void);
void chat_clear_interrupt(void);

/* A message that was said, and the reply to it, printed and appended. What could not be answered was not
 * said. */
rdg_err chat_say(chat *h, const char *text, size_t n, rdg_error *e);
/* A reply to the conversation as it is, printed and appended to it. */
rdg_err chat_reply(chat *h, rdg_error *e);
/* {"messages": […]}, the system message in front, without the first n_left_out others; NULL without memory.
 */
json_t *chat_document(const chat *h, size_t n_left_out);
rdg_err chat_set_system(chat *h, const char *text, rdg_error *e); /* NULL or "": none */

/* A line that begins with a slash; it is cut into words in place. */
rdg_err chat_command(chat *h, char *line, rdg_error *e);

#endif
