/* For measuring programs of one file: the first error is printed and ends them. */
#ifndef RDG_TESTS_NEED_H
#define RDG_TESTS_NEED_H

#include <ridge/error.h>

#include <stdio.h>
#include <stdlib.h>

static rdg_error error;

/* need(rdg_something(…, &error)) */
static inline void need(rdg_err rc)
{
    if (!rc) return;
    printf("%s\n", error.message);
    exit(1);
}

#endif
