/* Where the library's warnings and progress go. Nothing is ever written by the library itself: without a
 * callback messages are dropped, but every warning is also part of the result of the call that caused it. */
#ifndef RIDGE_LOG_H
#define RIDGE_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rdg_log_level { RDG_LOG_DEBUG, RDG_LOG_INFO, RDG_LOG_WARN } rdg_log_level;

typedef struct rdg_log {
    /* One line, no newline at its end. May be called from the calling thread only. NULL drops messages. */
    void (*message)(void *user, rdg_log_level level, const char *text);
    /* Progress of a long call: done of total units of `what`. NULL is allowed. Returning non-zero asks the
     * call to stop: it then returns RDG_E_CANCELLED and leaves no output behind. */
    int (*progress)(void *user, const char *what, double done, double total);
    void *user;
} rdg_log;

#ifdef __cplusplus
}
#endif
#endif
