/* A fuzz target is one file fuzz_NAME.c with this one function, a row in meson.build and seeds in
 * corpus/NAME/. */
#ifndef RDG_TESTS_FUZZ_H
#define RDG_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Any input must end in success or an error. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* What must hold whatever the input is: a broken one is a crash with a file to reproduce it. */
#define FUZZ_CHECK(condition)                                                                                \
    do {                                                                                                     \
        if (!(condition)) abort();                                                                           \
    } while (0)

/* Reads every byte, so that a checker sees a range that is not the input's. */
static inline void fuzz_touch(const void *p, size_t n)
{
    const volatile uint8_t *bytes = p;
    for (size_t i = 0; i < n; i++) (void)bytes[i];
}

#endif
