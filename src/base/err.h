/* Filling an rdg_error. */
#ifndef RDG_BASE_ERR_H
#define RDG_BASE_ERR_H

#include <ridge/error.h>
#include <ridge/log.h>
#include "base/compiler.h"

/* Sets *e (if not NULL) and returns code, so that `return rdg_fail(e, RDG_E_…, "…", …)` is one line. */
rdg_err rdg_fail(rdg_error *e, rdg_err code, const char *fmt, ...) RDG_PRINTF(3, 4);
/* The same, with errno's text appended and kept in e->native. */
rdg_err rdg_fail_errno(rdg_error *e, rdg_err code, int errnum, const char *fmt, ...) RDG_PRINTF(4, 5);
/* Puts "prefix: " in front of the message that is there; returns e's code (or `code` if e is NULL). */
rdg_err rdg_fail_prefix(rdg_error *e, rdg_err code, const char *fmt, ...) RDG_PRINTF(3, 4);

void rdg_log_warn(const rdg_log *log, const char *fmt, ...) RDG_PRINTF(2, 3);
void rdg_log_info(const rdg_log *log, const char *fmt, ...) RDG_PRINTF(2, 3);
void rdg_log_debug(const rdg_log *log, const char *fmt, ...) RDG_PRINTF(2, 3);
/* True if the callback asked to stop. log may be NULL. */
int rdg_log_progress(const rdg_log *log, const char *what, double done, double total);

#endif
