#define _GNU_SOURCE /* madvise, MADV_HUGEPAGE */
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *rdg_alloc(size_t bytes)
{
    return calloc(1, bytes ? bytes : 1);
}

void *rdg_alloc_array(size_t n, size_t elem_bytes)
{
    size_t bytes;
    if (RDG_MUL_OVERFLOW(n, elem_bytes, &bytes)) return NULL;
    return rdg_alloc(bytes);
}

void *rdg_realloc_array(void *p, size_t n, size_t elem_bytes)
{
    size_t bytes;
    if (RDG_MUL_OVERFLOW(n, elem_bytes, &bytes)) return NULL;
    return realloc(p, bytes ? bytes : 1);
}

void *rdg_alloc_aligned(size_t alignment, size_t bytes)
{
    size_t rounded;
    if (RDG_ADD_OVERFLOW(bytes ? bytes : 1, alignment - 1, &rounded)) return NULL;
    return aligned_alloc(alignment, rounded & ~(alignment - 1));
}

void *rdg_alloc_working(size_t bytes)
{
    enum { PAGE_BYTES = 4096, LARGE_PAGE_BYTES = 2 << 20 };
    if (bytes < LARGE_PAGE_BYTES / 4) return rdg_alloc_aligned(PAGE_BYTES, bytes);
    void *p = rdg_alloc_aligned(LARGE_PAGE_BYTES, bytes);
#ifdef MADV_HUGEPAGE
    if (p)
        madvise(p, (size_t)rdg_round_up((int64_t)bytes, LARGE_PAGE_BYTES), MADV_HUGEPAGE); /* advice only */
#endif
    return p;
}

void rdg_free(void *p)
{
    free(p);
}

char *rdg_strndup(const char *s, size_t n)
{
    size_t bytes;
    if (RDG_ADD_OVERFLOW(n, (size_t)1, &bytes)) return NULL;
    char *p = rdg_alloc(bytes);
    if (p && n) memcpy(p, s, n);
    return p;
}

char *rdg_strdup(const char *s)
{
    return rdg_strndup(s, strlen(s));
}

char *rdg_format(const char *fmt, ...)
{
    rdg_buf b;
    va_list ap;
    rdg_buf_init(&b);
    va_start(ap, fmt);
    rdg_buf_vprintf(&b, fmt, ap);
    va_end(ap);
    return rdg_buf_take(&b);
}

/* Arena
 * ------------------------------------------------------------------------------------------------------- */

struct rdg_arena_block {
    struct rdg_arena_block *next;
    size_t used, cap;
    RDG_ALIGNED(16) char data[];
};

void rdg_arena_init(rdg_arena *a)
{
    *a = (rdg_arena){0};
}

void rdg_arena_finish(rdg_arena *a)
{
    struct rdg_arena_block *b = a->head;
    while (b) {
        struct rdg_arena_block *next = b->next;
        rdg_free(b);
        b = next;
    }
    *a = (rdg_arena){0};
}

void *rdg_arena_alloc(rdg_arena *a, size_t bytes)
{
    size_t need;
    if (RDG_ADD_OVERFLOW(bytes, (size_t)15, &need)) return NULL;
    need &= ~(size_t)15;
    if (need == 0) need = 16;
    struct rdg_arena_block *b = a->head;
    if (!b || b->cap - b->used < need) {
        size_t cap = need > 64 * 1024 ? need : 64 * 1024, total;
        if (RDG_ADD_OVERFLOW(cap, sizeof *b, &total)) return NULL;
        struct rdg_arena_block *fresh = rdg_alloc(total);
        if (!fresh) return NULL;
        fresh->cap = cap;
        /* A block made for one large request goes behind the head, so that the head's room is not lost. */
        if (b && need > 64 * 1024) {
            fresh->next = b->next;
            b->next = fresh;
        } else {
            fresh->next = b;
            a->head = fresh;
        }
        b = fresh;
    }
    void *p = b->data + b->used;
    b->used += need;
    a->used_bytes += need;
    return p;
}

void *rdg_arena_array(rdg_arena *a, size_t n, size_t elem_bytes)
{
    size_t bytes;
    if (RDG_MUL_OVERFLOW(n, elem_bytes, &bytes)) return NULL;
    return rdg_arena_alloc(a, bytes);
}

char *rdg_arena_strndup(rdg_arena *a, const char *s, size_t n)
{
    size_t bytes;
    if (RDG_ADD_OVERFLOW(n, (size_t)1, &bytes)) return NULL;
    char *p = rdg_arena_alloc(a, bytes);
    if (p && n) memcpy(p, s, n);
    return p;
}

char *rdg_arena_format(rdg_arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) return NULL;
    char *p = rdg_arena_alloc(a, (size_t)n + 1);
    if (!p) return NULL;
    va_start(ap, fmt);
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return p;
}

/* Growing buffer
 * ---------------------------------------------------------------------------------------------- */

void rdg_buf_init(rdg_buf *b)
{
    *b = (rdg_buf){0};
}

void rdg_buf_finish(rdg_buf *b)
{
    rdg_free(b->data);
    *b = (rdg_buf){0};
}

void rdg_buf_clear(rdg_buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data) b->data[0] = 0;
}

static bool buf_reserve(rdg_buf *b, size_t extra)
{
    size_t need;
    if (b->failed) return false;
    if (RDG_ADD_OVERFLOW(b->len, extra, &need) || need == SIZE_MAX || (b->limit && need > b->limit)) {
        b->failed = true;
        return false;
    }
    if (need + 1 <= b->cap) return true;
    size_t cap = b->cap < 64 ? 64 : b->cap;
    while (cap < need + 1) {
        if (RDG_MUL_OVERFLOW(cap, (size_t)2, &cap)) cap = need + 1;
    }
    char *p = rdg_realloc_array(b->data, cap, 1);
    if (!p) {
        b->failed = true;
        return false;
    }
    b->data = p;
    b->cap = cap;
    return true;
}

void rdg_buf_append(rdg_buf *b, const void *data, size_t n)
{
    if (!buf_reserve(b, n)) return;
    if (n) memcpy(b->data + b->len, data, n);
    b->len += n;
    b->data[b->len] = 0;
}

void rdg_buf_puts(rdg_buf *b, const char *s)
{
    rdg_buf_append(b, s, strlen(s));
}

void rdg_buf_putc(rdg_buf *b, char c)
{
    rdg_buf_append(b, &c, 1);
}

void rdg_buf_vprintf(rdg_buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0) {
        b->failed = true;
    } else if (buf_reserve(b, (size_t)n)) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void rdg_buf_printf(rdg_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    rdg_buf_vprintf(b, fmt, ap);
    va_end(ap);
}

char *rdg_buf_take(rdg_buf *b)
{
    char *p = NULL;
    rdg_buf_append(b, "", 0);
    if (!b->failed) {
        p = b->data;
        b->data = NULL;
    }
    rdg_buf_finish(b);
    return p;
}

bool rdg_grow(void *items_ptr, size_t n, size_t *cap, size_t elem_bytes)
{
    void **items = items_ptr;
    if (n < *cap) return true;
    size_t fresh = *cap ? *cap : 8;
    while (fresh <= n) {
        if (RDG_MUL_OVERFLOW(fresh, (size_t)2, &fresh)) return false;
    }
    void *p = rdg_realloc_array(*items, fresh, elem_bytes);
    if (!p) return false;
    *items = p;
    *cap = fresh;
    return true;
}
