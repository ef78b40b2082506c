/* A text that ends a stream: what comes before it is passed on as early as can be told apart from it. */
#ifndef RDG_CLI_STOP_TEXT_H
#define RDG_CLI_STOP_TEXT_H

#include "base/mem.h"

typedef struct cli_stop_text {
    const char *text; /* NULL: everything is passed on at once */
    rdg_buf held;     /* a beginning of it, as far as one knows */
    bool ended;       /* it came: nothing is passed on any more */
} cli_stop_text;

void cli_stop_init(cli_stop_text *s, const char *text);
void cli_stop_finish(cli_stop_text *s);
/* False without memory. */
bool cli_stop_feed(cli_stop_text *s, const char *text, size_t n,
                   void (*pass)(void *user, const char *text, size_t n), void *user);
/* The end of the stream: what was held was no stop text. */
void cli_stop_flush(cli_stop_text *s, void (*pass)(void *user, const char *text, size_t n), void *user);

#endif
