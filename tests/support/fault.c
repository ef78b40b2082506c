#include "fault.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { OFF = -1 };

static _Atomic int active_kind = OFF;
static _Atomic int64_t calls_left; /* the call that takes it to 0 fails */
static _Atomic bool hit;
static _Atomic int64_t live;

static bool fails(fault_kind kind)
{
    if (atomic_load(&active_kind) != (int)kind || atomic_fetch_sub(&calls_left, 1) != 1) return false;
    atomic_store(&hit, true);
    errno = kind == FAULT_WRITE ? ENOSPC : kind == FAULT_ALLOC || kind == FAULT_JSON ? ENOMEM : EIO;
    return true;
}

static bool write_fails(void)
{
    return fails(FAULT_IO) || fails(FAULT_WRITE);
}

static void *counted(void *p)
{
    if (p) atomic_fetch_add(&live, 1);
    return p;
}

int64_t fault_live(void)
{
    return atomic_load(&live);
}

/* Defines __wrap_NAME, which is called in place of NAME, and falls through to the real one. */
#define WRAP(condition, result, failed, name, parameters, arguments)                                         \
    result __real_##name parameters;                                                                         \
    result __wrap_##name parameters;                                                                         \
    result __wrap_##name parameters                                                                          \
    {                                                                                                        \
        return condition ? failed : __real_##name arguments;                                                 \
    }
#define WRAP_ALLOC(name, parameters, arguments)                                                              \
    void *__real_##name parameters;                                                                          \
    void *__wrap_##name parameters;                                                                          \
    void *__wrap_##name parameters                                                                           \
    {                                                                                                        \
        return fails(FAULT_ALLOC) ? NULL : counted(__real_##name arguments);                                 \
    }

/* The large-file names are what the functions are called in an object file where _FILE_OFFSET_BITS is 64. */
WRAP_ALLOC(malloc, (size_t n), (n))
WRAP_ALLOC(calloc, (size_t n, size_t size), (n, size))
WRAP_ALLOC(aligned_alloc, (size_t alignment, size_t n), (alignment, n))
WRAP(fails(FAULT_IO), int, -1, fstat64, (int fd, struct stat *st), (fd, st))
WRAP(fails(FAULT_IO), void *, MAP_FAILED, mmap64,
     (void *p, size_t n, int prot, int flags, int fd, off_t offset), (p, n, prot, flags, fd, offset))
WRAP(fails(FAULT_IO), ssize_t, -1, read, (int fd, void *p, size_t n), (fd, p, n))
WRAP(write_fails(), ssize_t, -1, write, (int fd, const void *p, size_t n), (fd, p, n))
WRAP(write_fails(), ssize_t, -1, pwrite64, (int fd, const void *p, size_t n, off_t offset),
     (fd, p, n, offset))
WRAP(fails(FAULT_IO) || fails(FAULT_SYNC), int, -1, fsync, (int fd), (fd))
WRAP(fails(FAULT_IO), int, -1, rename, (const char *from, const char *to), (from, to))
WRAP(fails(FAULT_IO), DIR *, NULL, opendir, (const char *name), (name))
WRAP(fails(FAULT_IO), struct dirent *, NULL, readdir64, (DIR * d), (d))

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n)
{
    if (fails(FAULT_ALLOC)) return NULL;
    void *q = __real_realloc(p, n);
    return p ? q : counted(q);
}

void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p)
{
    if (p) atomic_fetch_sub(&live, 1);
    __real_free(p);
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int mode = flags & O_CREAT ? va_arg(ap, int) : 0;
    va_end(ap);
    return fails(FAULT_IO) ? -1 : __real_open64(path, flags, mode);
}

void fault_free_foreign(void *p)
{
    __real_free(p);
}

static void *json_malloc(size_t n)
{
    return fails(FAULT_JSON) ? NULL : __real_malloc(n);
}

void fault_start(fault_kind kind, int64_t nth)
{
    if (kind == FAULT_JSON) json_set_alloc_funcs(json_malloc, __real_free); /* not counted, as without */
    atomic_store(&hit, false);
    atomic_store(&calls_left, nth);
    atomic_store(&active_kind, (int)kind);
}

bool fault_stop(void)
{
    atomic_store(&active_kind, OFF);
    return atomic_load(&hit);
}

int64_t fault_each(fault_kind kind, fault_fn *fn, void *ctx)
{
    const rdg_err expected = kind == FAULT_ALLOC || kind == FAULT_JSON ? RDG_E_NOMEM : RDG_E_IO;
    for (int64_t nth = 1;; nth++) {
        rdg_error e = {0};
        int64_t before = fault_live();
        fault_start(kind, nth);
        rdg_err err = fn(ctx, &e);
        bool failed = fault_stop();
        if (fault_live() != before) {
            fprintf(stderr, "call %lld: %lld allocations more than before\n", (long long)nth,
                    (long long)(fault_live() - before));
            return 0;
        }
        if (!failed) {
            if (!err) return nth - 1;
            fprintf(stderr, "without a fault: %s: %s\n", rdg_err_name(err), e.message);
            return 0;
        }
        bool wrong = kind == FAULT_JSON ? !err : err != expected;
        if (wrong || e.code != err || !e.message[0]) {
            fprintf(stderr, "call %lld failed: %s where %s is expected, message \"%s\"\n", (long long)nth,
                    rdg_err_name(err), rdg_err_name(expected), e.message);
            return 0;
        }
    }
}
