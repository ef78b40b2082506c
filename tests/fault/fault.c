#include "fault.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

static atomic_int kind, countdown;
static atomic_bool fired;
static atomic_long live;

void fault_arm(fault_kind k, int n)
{
    atomic_store(&countdown, n);
    atomic_store(&fired, false);
    atomic_store(&kind, (int)k);
}

bool fault_disarm(void)
{
    atomic_store(&kind, FAULT_NONE);
    return atomic_load(&fired);
}

long fault_live(void)
{
    return atomic_load(&live);
}

static bool fails(fault_kind k)
{
    if (atomic_load(&kind) != (int)k || atomic_fetch_sub(&countdown, 1) != 1) return false;
    atomic_store(&fired, true);
    return true;
}

/* The linker sends ridge's calls of f to __wrap_f; __real_f is the C library's. */
void *__real_calloc(size_t n, size_t bytes);
void *__real_malloc(size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *p);
ssize_t __real_write(int fd, const void *p, size_t n);
ssize_t __real_pwrite64(int fd, const void *p, size_t n, off_t at);
int __real_fsync(int fd);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __wrap_free(void *p);
ssize_t __wrap_write(int fd, const void *p, size_t n);
ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at);
int __wrap_fsync(int fd);

static void *counted(void *p)
{
    if (p) atomic_fetch_add(&live, 1);
    return p;
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return fails(FAULT_ALLOC) ? NULL : counted(__real_calloc(n, bytes));
}

void *__wrap_malloc(size_t bytes)
{
    return fails(FAULT_ALLOC) ? NULL : counted(__real_malloc(bytes));
}

void *__wrap_realloc(void *p, size_t bytes)
{
    if (fails(FAULT_ALLOC)) return NULL;
    void *q = __real_realloc(p, bytes);
    return p ? q : counted(q);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return fails(FAULT_ALLOC) ? NULL : counted(__real_aligned_alloc(alignment, bytes));
}

void __wrap_free(void *p)
{
    if (p) atomic_fetch_sub(&live, 1);
    __real_free(p);
}

ssize_t __wrap_write(int fd, const void *p, size_t n)
{
    if (!fails(FAULT_WRITE)) return __real_write(fd, p, n);
    errno = ENOSPC;
    return -1;
}

ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at)
{
    if (!fails(FAULT_WRITE)) return __real_pwrite64(fd, p, n, at);
    errno = ENOSPC;
    return -1;
}

int __wrap_fsync(int fd)
{
    if (!fails(FAULT_SYNC)) return __real_fsync(fd);
    errno = EIO;
    return -1;
}
