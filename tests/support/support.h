/* What unit tests share. Include after the standard headers cmocka needs; pulls cmocka in. */
#ifndef RDG_TESTS_SUPPORT_H
#define RDG_TESTS_SUPPORT_H

#include <ridge/error.h>

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* assert_ok(rdg_something(…, &e), &e): on failure prints the call, the error's name and its message. */
#define assert_ok(call, e) check_ok(call, e, #call, __FILE__, __LINE__)
static inline void check_ok(rdg_err err, const rdg_error *e, const char *call, const char *file, int line)
{
    if (err == RDG_OK) return;
    print_error("%s:%d: %s: %s: %s\n", file, line, call, rdg_err_name(err), e->message);
    _fail(file, line);
}

/* The call must fail with this code and a message that holds `part`. */
#define assert_error(call, expected, e, part) check_error(call, expected, e, part, #call, __FILE__, __LINE__)
static inline void check_error(rdg_err err, rdg_err expected, const rdg_error *e, const char *part,
                               const char *call, const char *file, int line)
{
    if (err == expected && err == e->code && strstr(e->message, part)) return;
    print_error("%s:%d: %s: %s (expected %s), code %s: \"%s\" should hold \"%s\"\n", file, line, call,
                rdg_err_name(err), rdg_err_name(expected), rdg_err_name(e->code), e->message,
                part ? part : "");
    _fail(file, line);
}

static inline int files_in(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));) n += f->d_name[0] != '.';
    closedir(d);
    return n;
}

#endif
