/* Errors are values. Every fallible call returns an rdg_err (0 or negative) and, when the caller passes one,
 * fills an rdg_error with names, values, offsets and the remedy. The library never prints, exits or aborts.
 */
#ifndef RIDGE_ERROR_H
#define RIDGE_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

/* name, value, text. The class of an error decides the exit code of the program:
 * ARGUMENT is usage (2), MALFORMED UNSUPPORTED LIMIT are rejected input (3), the rest failed while running
 * (1). */
#define RDG_ERR_MAP(X)                                                                                       \
    X(OK, 0, "no error")                                                                                     \
    X(NOMEM, -1, "out of memory")                                                                            \
    X(IO, -2, "input or output failed")                                                                      \
    X(ARGUMENT, -3, "invalid argument")                                                                      \
    X(MALFORMED, -4, "malformed input")                                                                      \
    X(UNSUPPORTED, -5, "not supported")                                                                      \
    X(LIMIT, -6, "a limit was exceeded")                                                                     \
    X(NOT_FOUND, -7, "not found")                                                                            \
    X(DEVICE, -8, "the device refused a call")                                                               \
    X(DEVICE_LOST, -9, "the device was lost")                                                                \
    X(TIMEOUT, -10, "timed out")                                                                             \
    X(CANCELLED, -11, "cancelled")                                                                           \
    X(CONTEXT_FULL, -12, "the context is full")                                                              \
    X(INTERNAL, -13, "internal error")

typedef enum rdg_err {
#define RDG_ERR_ENUM(name, value, text) RDG_E_##name = value,
    RDG_ERR_MAP(RDG_ERR_ENUM)
#undef RDG_ERR_ENUM
        RDG_OK = 0
} rdg_err;

typedef struct rdg_error {
    rdg_err code;
    int native;         /* errno, VkResult, … of the call that failed; 0 if none */
    char message[1024]; /* UTF-8, NUL-terminated, one line, no trailing full stop */
} rdg_error;

/* "MALFORMED", … ; "UNKNOWN" for a value that is not in the table. Static storage. */
const char *rdg_err_name(rdg_err e);
/* "malformed input", … Static storage. */
const char *rdg_err_text(rdg_err e);

#ifdef __cplusplus
}
#endif
#endif
