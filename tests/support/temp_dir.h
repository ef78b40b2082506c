/* A folder for a test program's files: make_dir and remove_dir are its group's set-up and teardown. */
#ifndef RDG_TESTS_TEMP_DIR_H
#define RDG_TESTS_TEMP_DIR_H

#include <stdlib.h>
#include <unistd.h>

static char dir[] = "/tmp/ridge-test-XXXXXX";

static inline int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static inline int remove_dir(void **state)
{
    (void)state;
    return rmdir(dir); /* fails when a test left a file behind */
}

#endif
