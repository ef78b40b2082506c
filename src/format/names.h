/* Names out of hostile files: printing those that may hold anything. */
#ifndef RDG_FORMAT_NAMES_H
#define RDG_FORMAT_NAMES_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* A name for a message: quoted, at most about 80 characters, everything but printable ASCII escaped. */
typedef struct rdg_quoted {
    char text[112];
} rdg_quoted;
rdg_quoted rdg_quote(const char *name, size_t bytes);

/* "WHAT 'name': message" */
rdg_err rdg_fail_named(rdg_error *e, rdg_err code, const char *what, const char *name, const char *fmt, ...)
    RDG_PRINTF(5, 6);

/* Valid UTF-8 without control characters: may be printed as it is. */
bool rdg_name_printable(const char *name, size_t bytes);

#endif
