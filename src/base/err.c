#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *rdg_err_name(rdg_err e)
{
    switch (e) {
#define X(name, value, text)                                                                                 \
    case RDG_E_##name: return #name;
        RDG_ERR_MAP(X)
#undef X
    }
    return "UNKNOWN";
}

const char *rdg_err_text(rdg_err e)
{
    switch (e) {
#define X(name, value, text)                                                                                 \
    case RDG_E_##name: return text;
        RDG_ERR_MAP(X)
#undef X
    }
    return "unknown error";
}

rdg_err rdg_fail(rdg_error *e, rdg_err code, const char *fmt, ...)
{
    if (e) {
        va_list ap;
        e->code = code;
        e->native = 0;
        va_start(ap, fmt);
        vsnprintf(e->message, sizeof e->message, fmt, ap);
        va_end(ap);
    }
    return code;
}

rdg_err rdg_fail_errno(rdg_error *e, rdg_err code, int errnum, const char *fmt, ...)
{
    if (e) {
        char reason[128];
        va_list ap;
        e->code = code;
        e->native = errnum;
        va_start(ap, fmt);
        int n = vsnprintf(e->message, sizeof e->message, fmt, ap);
        va_end(ap);
        if (strerror_r(errnum, reason, sizeof reason) != 0)
            snprintf(reason, sizeof reason, "errno %d", errnum);
        if (n >= 0 && (size_t)n < sizeof e->message)
            snprintf(e->message + n, sizeof e->message - (size_t)n, ": %s", reason);
    }
    return code;
}

rdg_err rdg_fail_prefix(rdg_error *e, rdg_err code, const char *fmt, ...)
{
    if (!e) return code;
    char old[sizeof e->message];
    va_list ap;
    memcpy(old, e->message, sizeof old);
    va_start(ap, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    size_t n = strlen(e->message), room = sizeof e->message - 1 - n;
    if (room > 2) snprintf(e->message + n, room + 1, ": %.*s", (int)room - 2, old);
    return e->code;
}

static void log_message(const rdg_log *log, rdg_log_level level, const char *fmt, va_list ap)
{
    char text[1024];
    if (!log || !log->message) return;
    vsnprintf(text, sizeof text, fmt, ap);
    log->message(log->user, level, text);
}

void rdg_log_warn(const rdg_log *log, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    log_message(log, RDG_LOG_WARN, fmt, ap);
    va_end(ap);
}

void rdg_log_info(const rdg_log *log, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    log_message(log, RDG_LOG_INFO, fmt, ap);
    va_end(ap);
}

void rdg_log_debug(const rdg_log *log, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    log_message(log, RDG_LOG_DEBUG, fmt, ap);
    va_end(ap);
}

int rdg_log_progress(const rdg_log *log, const char *what, double done, double total)
{
    if (!log || !log->progress) return 0;
    return log->progress(log->user, what, done, total);
}
