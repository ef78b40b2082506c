/* Allocation with checked sizes, arenas, and a growing buffer.
 * rdg_alloc* return NULL on overflow or exhaustion, never abort; rdg_free accepts NULL. Tests make the Nth
 * call fail by wrapping malloc, calloc, realloc and aligned_alloc at link time, so all of ridge must allocate
 * through here. */
#ifndef RDG_BASE_MEM_H
#define RDG_BASE_MEM_H

#include "base/err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *rdg_alloc(size_t bytes);                      /* zeroed; bytes 0 gives a valid pointer */
void *rdg_alloc_array(size_t n, size_t elem_bytes); /* zeroed, n * elem_bytes checked */
void *rdg_realloc_array(void *p, size_t n,
                        size_t elem_bytes);              /* new part not zeroed; p stays valid on NULL */
void *rdg_alloc_aligned(size_t alignment, size_t bytes); /* not zeroed; alignment a power of two */
/* A block that threads work in all the time: page-aligned, from 512 KiB on in whole large pages if the system
 * has some to give, so that finding its pages costs nothing. Not zeroed. */
void *rdg_alloc_working(size_t bytes);
void rdg_free(void *p);
char *rdg_strdup(const char *s);
char *rdg_strndup(const char *s, size_t n);              /* n bytes, NUL added; the bytes may hold NUL */
char *rdg_format(const char *fmt, ...) RDG_PRINTF(1, 2); /* a fresh string, or NULL */

/* An arena: many small allocations, freed together. 16-byte aligned. */
typedef struct rdg_arena {
    struct rdg_arena_block *head;
    size_t used_bytes; /* total handed out */
} rdg_arena;
void rdg_arena_init(rdg_arena *a);
void rdg_arena_finish(rdg_arena *a);
void *rdg_arena_alloc(rdg_arena *a, size_t bytes);                /* zeroed, NULL on exhaustion */
void *rdg_arena_array(rdg_arena *a, size_t n, size_t elem_bytes); /* zeroed, checked */
char *rdg_arena_strndup(rdg_arena *a, const char *s, size_t n);
char *rdg_arena_format(rdg_arena *a, const char *fmt, ...) RDG_PRINTF(2, 3);

/* A growing byte buffer with a sticky error: append freely, check `failed` once at the end. */
typedef struct rdg_buf {
    char *data; /* NUL-terminated whenever not NULL, the NUL not counted */
    size_t len, cap;
    size_t limit; /* most bytes it may hold; 0 = no limit of its own */
    bool failed;  /* an append ran out of memory or over the limit; the content is then incomplete */
} rdg_buf;
void rdg_buf_init(rdg_buf *b);
void rdg_buf_finish(rdg_buf *b);
void rdg_buf_clear(rdg_buf *b); /* keeps the memory, clears the error */
void rdg_buf_append(rdg_buf *b, const void *data, size_t n);
void rdg_buf_puts(rdg_buf *b, const char *s);
void rdg_buf_putc(rdg_buf *b, char c);
void rdg_buf_printf(rdg_buf *b, const char *fmt, ...) RDG_PRINTF(2, 3);
void rdg_buf_vprintf(rdg_buf *b, const char *fmt, va_list ap);
char *rdg_buf_take(rdg_buf *b); /* the string, owned by the caller; NULL if failed; b is empty afterwards */

/* Grows *items (element size elem_bytes) so that n + 1 fit; *cap is updated. False on exhaustion. */
bool rdg_grow(void *items_ptr, size_t n, size_t *cap, size_t elem_bytes);

/* ceil(a / b) * b for positive b; the caller knows it cannot overflow */
static inline int64_t rdg_round_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b * b;
}
static inline int64_t rdg_div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

#endif
