#include "stop_text.h"

#include <string.h>

void cli_stop_init(cli_stop_text *s, const char *text)
{
    *s = (cli_stop_text){.text = text && *text ? text : NULL};
    rdg_buf_init(&s->held);
}

void cli_stop_finish(cli_stop_text *s)
{
    rdg_buf_finish(&s->held);
}

/* Where the text begins with what there is left of `stop`: all of it, or the beginning that the text's end
 * cuts. */
static size_t find(const rdg_buf *text, const char *stop)
{
    size_t n = strlen(stop);
    for (size_t i = 0; i < text->len; i++) {
        size_t left = text->len - i;
        if (!memcmp(text->data + i, stop, left < n ? left : n)) return i;
    }
    return text->len;
}

bool cli_stop_feed(cli_stop_text *s, const char *text, size_t n,
                   void (*pass)(void *user, const char *text, size_t n), void *user)
{
    if (s->ended || !n) return true;
    if (!s->text) {
        pass(user, text, n);
        return true;
    }
    rdg_buf_append(&s->held, text, n);
    if (s->held.failed) return false;
    size_t at = find(&s->held, s->text);
    if (at) pass(user, s->held.data, at);
    s->held.len -= at;
    memmove(s->held.data, s->held.data + at, s->held.len);
    s->ended = s->held.len >= strlen(s->text);
    return true;
}

void cli_stop_flush(cli_stop_text *s, void (*pass)(void *user, const char *text, size_t n), void *user)
{
    if (!s->ended && s->held.len) pass(user, s->held.data, s->held.len);
    s->held.len = 0;
}
