#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Written in pieces of a large page that begin at a multiple of it: Linux then keeps the file in its cache as
 * large pages, and whoever maps it soon, as the quantised model is, has them in the map. */
enum { OUT_BUFFER_BYTES = 2 << 20 };

rdg_err rdg_map_open(rdg_map *m, const char *path, rdg_error *e)
{
    struct stat st;
    *m = (rdg_map){.fd = -1};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return rdg_fail_errno(e, RDG_E_IO, errno, "cannot open '%s'", path);
    if (fstat(fd, &st) != 0) {
        rdg_fail_errno(e, RDG_E_IO, errno, "cannot stat '%s'", path);
        goto fail;
    }
    if (S_ISDIR(st.st_mode)) {
        rdg_fail(e, RDG_E_IO, "'%s' is a directory, a file is needed", path);
        goto fail;
    }
    if (!S_ISREG(st.st_mode)) {
        rdg_fail(e, RDG_E_IO, "'%s' is not a regular file", path);
        goto fail;
    }
    if (st.st_size == 0) {
        rdg_fail(e, RDG_E_MALFORMED, "'%s' is empty", path);
        close(fd);
        return RDG_E_MALFORMED;
    }
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) {
        rdg_fail_errno(e, RDG_E_IO, errno, "cannot map '%s' (%lld bytes)", path, (long long)st.st_size);
        goto fail;
    }
#ifdef MADV_HUGEPAGE
    /* What is read from storage from here on is kept in large pages, if the file system can: a decode step
     * walks through all weights, and small pages cost it up to a tenth. Advice: failing changes nothing. */
    madvise(p, (size_t)st.st_size, MADV_HUGEPAGE);
#endif
    *m = (rdg_map){.data = p, .bytes = (size_t)st.st_size, .fd = fd};
    return RDG_OK;
fail:
    close(fd);
    return RDG_E_IO;
}

void rdg_map_close(rdg_map *m)
{
    if (m->data) munmap((void *)m->data, m->bytes);
    if (m->data && m->fd >= 0) close(m->fd);
    *m = (rdg_map){.fd = -1};
}

rdg_err rdg_map_recheck(const rdg_map *m, const char *path, rdg_error *e)
{
    struct stat st;
    if (m->fd < 0) return RDG_OK;
    if (fstat(m->fd, &st) != 0) return rdg_fail_errno(e, RDG_E_IO, errno, "cannot stat '%s'", path);
    if ((size_t)st.st_size < m->bytes)
        return rdg_fail(e, RDG_E_IO, "'%s' was cut from %zu to %lld bytes while in use", path, m->bytes,
                        (long long)st.st_size);
    return RDG_OK;
}

void rdg_map_release(const void *data, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)data & ~(page - 1);
    uintptr_t end = ((uintptr_t)data + bytes) & ~(page - 1); /* the last page may hold what comes next */
    if (end > begin) madvise((void *)begin, end - begin, MADV_DONTNEED); /* advice: failing changes nothing */
}

/* Since Linux 5.18 a page fault in a map that large pages are wanted for reads two of them, 4 MiB. There is
 * no asking for that; this asks whether the kernel knows an advice that came with 6.1. */
static bool faults_read_large_pages(void *page)
{
#ifdef __linux__
    enum { COLLAPSE = 25 }; /* MADV_COLLAPSE, which older headers lack; of no bytes it does nothing */
    return madvise(page, 0, COLLAPSE) == 0;
#else
    (void)page;
    return false;
#endif
}

/* Not where a fault reads enough by itself: what is announced comes in small pages. */
void rdg_map_announce(const void *data, size_t bytes)
{
    enum { STEP = 128 * 1024 }; /* Linux may read no more than its read-ahead window for one call */
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)data & ~(page - 1);
    if (faults_read_large_pages((void *)at)) return;
    for (uintptr_t end = (uintptr_t)data + bytes; at < end; at += STEP)
        posix_madvise((void *)at, RDG_MIN(STEP, end - at), POSIX_MADV_WILLNEED); /* advice, as above */
}

int64_t rdg_blocks_read(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) ? 0 : (int64_t)usage.ru_inblock;
}

rdg_err rdg_file_read(const char *path, size_t limit_bytes, bool allow_stdin, char **data, size_t *bytes,
                      rdg_error *e)
{
    rdg_buf b;
    struct stat st;
    rdg_err err = RDG_OK;
    bool is_stdin = allow_stdin && !strcmp(path, "-");
    *data = NULL;
    *bytes = 0;
    rdg_buf_init(&b);
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return rdg_fail_errno(e, RDG_E_IO, errno, "cannot open '%s'", path);
    if (!is_stdin && fstat(fd, &st) != 0) {
        err = rdg_fail_errno(e, RDG_E_IO, errno, "cannot stat '%s'", path);
        goto done;
    }
    if (!is_stdin && S_ISDIR(st.st_mode)) {
        err = rdg_fail(e, RDG_E_IO, "'%s' is a directory, a file is needed", path);
        goto done;
    }
    for (;;) {
        char chunk[64 * 1024];
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            err = is_stdin ? rdg_fail_errno(e, RDG_E_IO, errno, "cannot read standard input")
                           : rdg_fail_errno(e, RDG_E_IO, errno, "cannot read '%s'", path);
            goto done;
        }
        if (n == 0) break;
        if (b.len + (size_t)n > limit_bytes) {
            err = rdg_fail(e, RDG_E_LIMIT, "'%s' is longer than %zu bytes", path, limit_bytes);
            goto done;
        }
        rdg_buf_append(&b, chunk, (size_t)n);
        if (b.failed) break;
    }
    size_t len = b.len;
    if (!(*data = rdg_buf_take(&b))) {
        err = rdg_fail(e, RDG_E_NOMEM, "no memory for the contents of '%s'", path);
        goto done;
    }
    *bytes = len;
done:
    rdg_buf_finish(&b);
    if (!is_stdin) close(fd);
    return err;
}

bool rdg_file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

bool rdg_is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Output
 * ------------------------------------------------------------------------------------------------------ */

rdg_err rdg_check_output(const char *path, rdg_error *e)
{
    const char *name = rdg_path_base(path);
    struct stat st;
    bool there = stat(path, &st) == 0;
    if (there && S_ISDIR(st.st_mode))
        return rdg_fail(e, RDG_E_IO, "'%s' is a directory, cannot write there", path);
    /* The finished file takes its name by rename, which root may even do to /dev/null or what /dev/stdout is.
     */
    bool is_device =
        there && (!S_ISREG(st.st_mode) || !strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6));
    if (is_device && strncmp(path, "/dev/shm/", 9) != 0)
        return rdg_fail(e, RDG_E_IO,
                        "'%s' is a device or a pipe and would be replaced; give the name of a file", path);
    if (name == path) return RDG_OK;
    char *folder = rdg_strndup(path, (size_t)(name - path));
    rdg_err err = RDG_OK;
    if (!folder)
        err = rdg_fail(e, RDG_E_NOMEM, "no memory for a path");
    else if (!rdg_is_directory(folder))
        err =
            rdg_fail(e, RDG_E_IO, "cannot create '%s': there is no folder '%s'; make it first", path, folder);
    rdg_free(folder);
    return err;
}

char *rdg_out_temp_path(const char *path)
{
    return rdg_format("%s.ridge-tmp-%ld", path, (long)getpid());
}

rdg_err rdg_out_open(rdg_out *o, const char *path, rdg_error *e)
{
    *o = (rdg_out){.fd = -1};
    rdg_err err = rdg_check_output(path, e);
    if (err) return err;
    o->path = rdg_strdup(path);
    o->temp_path = rdg_out_temp_path(path);
    o->buffer = rdg_alloc(OUT_BUFFER_BYTES);
    if (!o->path || !o->temp_path || !o->buffer) {
        rdg_out_close(o);
        return rdg_fail(e, RDG_E_NOMEM, "no memory to write '%s'", path);
    }
    o->fd = open(o->temp_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (o->fd < 0) {
        int saved = errno;
        rdg_out_close(o);
        return rdg_fail_errno(e, RDG_E_IO, saved, "cannot create '%s'", path);
    }
    return RDG_OK;
}

static rdg_err write_all(rdg_out *o, const unsigned char *p, size_t n, rdg_error *e)
{
    while (n) {
        ssize_t w = write(o->fd, p, n);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) return o->failed = rdg_fail_errno(e, RDG_E_IO, errno, "cannot write '%s'", o->path);
        p += w;
        n -= (size_t)w;
    }
    return RDG_OK;
}

rdg_err rdg_out_flush(rdg_out *o, rdg_error *e)
{
    if (o->failed) return rdg_fail(e, o->failed, "writing '%s' has failed before", o->path ? o->path : "?");
    size_t n = o->buffered;
    o->buffered = 0;
    return write_all(o, o->buffer, n, e);
}

rdg_err rdg_out_write(rdg_out *o, const void *data, size_t n, rdg_error *e)
{
    if (o->failed) return rdg_fail(e, o->failed, "writing '%s' has failed before", o->path ? o->path : "?");
    const unsigned char *p = data;
    for (size_t part; n; p += part, n -= part, o->position += part) {
        const size_t room = OUT_BUFFER_BYTES - (size_t)(o->position % OUT_BUFFER_BYTES);
        rdg_err err = RDG_OK;
        part = RDG_MIN(n, room);
        if (part == OUT_BUFFER_BYTES) { /* nothing is buffered at a multiple */
            err = write_all(o, p, part, e);
        } else {
            memcpy(o->buffer + o->buffered, p, part);
            o->buffered += part;
            if (part == room) err = rdg_out_flush(o, e);
        }
        if (err) return err;
    }
    return RDG_OK;
}

rdg_err rdg_out_zeros(rdg_out *o, size_t n, rdg_error *e)
{
    static const unsigned char zeros[4096];
    while (n) {
        size_t part = n < sizeof zeros ? n : sizeof zeros;
        rdg_err err = rdg_out_write(o, zeros, part, e);
        if (err) return err;
        n -= part;
    }
    return RDG_OK;
}

rdg_err rdg_out_patch(rdg_out *o, uint64_t offset, const void *data, size_t n, rdg_error *e)
{
    const unsigned char *p = data;
    if (o->failed) return rdg_fail(e, o->failed, "writing '%s' has failed before", o->path ? o->path : "?");
    if (offset > o->position || n > o->position - offset)
        return rdg_fail(e, RDG_E_INTERNAL, "patch of '%s' at %llu is past what was written", o->path,
                        (unsigned long long)offset);
    rdg_err err = rdg_out_flush(o, e);
    if (err) return err;
    while (n) {
        ssize_t w = pwrite(o->fd, p, n, (off_t)offset);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) return o->failed = rdg_fail_errno(e, RDG_E_IO, errno, "cannot write '%s'", o->path);
        p += w;
        offset += (uint64_t)w;
        n -= (size_t)w;
    }
    return RDG_OK;
}

rdg_err rdg_out_commit(rdg_out *o, rdg_error *e)
{
    rdg_err err = rdg_out_flush(o, e);
    if (err) return err;
    if (fsync(o->fd) != 0 && errno != EINVAL)
        return o->failed = rdg_fail_errno(e, RDG_E_IO, errno, "cannot sync '%s'", o->path);
    int rc = close(o->fd);
    o->fd = -1;
    if (rc != 0) {
        o->failed = rdg_fail_errno(e, RDG_E_IO, errno, "cannot close '%s'", o->path);
        unlink(o->temp_path);
        return o->failed;
    }
    if (rename(o->temp_path, o->path) != 0) {
        o->failed = rdg_fail_errno(e, RDG_E_IO, errno, "cannot rename to '%s'", o->path);
        unlink(o->temp_path);
        return o->failed;
    }
    rdg_out_close(o);
    return RDG_OK;
}

void rdg_out_close(rdg_out *o)
{
    if (o->fd >= 0) {
        close(o->fd);
        unlink(o->temp_path);
    }
    rdg_free(o->path);
    rdg_free(o->temp_path);
    rdg_free(o->buffer);
    *o = (rdg_out){.fd = -1};
}

char *rdg_path_join(const char *dir, const char *name)
{
    size_t n = strlen(dir);
    return rdg_format("%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", name);
}

const char *rdg_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
