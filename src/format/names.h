/* Names out of hostile files: printing those that may hold anything. */
#ifndef RDG_FORMAT_NAMES_H
#define RDG_FORMAT_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* A name for a message: quoted, at most about 80 characters, everything but printable ASCII escaped. */
typedef struct rdg_quoted {
    char text[112];
} rdg_quoted;
rdg_quoted rdg_quote(const char *name, size_t bytes);

/* Valid UTF-8 without control characters: may be printed as it is. */
bool rdg_name_printable(const char *name, size_t bytes);

#endif
