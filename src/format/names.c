#include "format/names.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

rdg_quoted rdg_quote(const char *name, size_t bytes)
{
    enum { SHOWN = 80 };
    rdg_quoted q;
    size_t len = 0;
    q.text[len++] = '\'';
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)name[i];
        if (len > SHOWN) {
            len += (size_t)snprintf(q.text + len, sizeof q.text - len, "...");
            break;
        }
        if (c >= 0x20 && c < 0x7f && c != '\\' && c != '\'')
            q.text[len++] = (char)c;
        else
            len += (size_t)snprintf(q.text + len, sizeof q.text - len, "\\x%02x", c);
    }
    q.text[len++] = '\'';
    q.text[len] = 0;
    return q;
}

rdg_err rdg_fail_named(rdg_error *e, rdg_err code, const char *what, const char *name, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return rdg_fail(e, code, "%s %s: %s", what, rdg_quote(name, strlen(name)).text, text);
}

bool rdg_name_printable(const char *name, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)name, *end = p + bytes;
    while (p < end) {
        unsigned char c = *p++;
        int more = c < 0x80 ? 0 : c < 0xc2 ? -1 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : c < 0xf5 ? 3 : -1;
        if (c < 0x20 || c == 0x7f || more < 0 || end - p < more) return false;
        if (c == 0xc2 && *p < 0xa0) return false; /* C1 control characters */
        /* overlong forms, surrogates and code points above U+10FFFF show in the second byte */
        if ((c == 0xe0 && *p < 0xa0) || (c == 0xed && *p > 0x9f)) return false;
        if ((c == 0xf0 && *p < 0x90) || (c == 0xf4 && *p > 0x8f)) return false;
        for (; more > 0; more--, p++)
            if ((*p & 0xc0) != 0x80) return false;
    }
    return true;
}
