#include "device/upload.h"
#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SLOT_BYTES = 4 << 20, /* as long on the bus as several submits take */
    N_THREADS = 12,
    N_SPARE = 4,
    MAX_PARTS = 512,          /* a slot's copies: models have rows of small tensors */
    BOUNCE_BYTES = 256 << 10, /* rows to be rewritten: what a core's cache holds */
    TIMEOUT_SECONDS = 120,
};

/* A part of a piece that fits what is left of a slot. */
typedef struct part {
    const rdg_upload_piece *piece;
    uint64_t offset, bytes, at; /* in the piece; in the slot */
} part;

typedef struct slot {
    rdg_buffer *staging; /* made when first needed: pinning memory is slow, and goes on while others read */
    rdg_list *list;
    rdg_event done;
} slot;

typedef struct reader {
    part parts[MAX_PARTS];
    size_t n_parts;
    char *bounce;
    double fill_seconds, wait_seconds;
} reader;

/* What a way to read has cost so far. */
typedef struct way {
    double bytes, seconds;
} way;
enum { WAY_FILE, WAY_MAP, N_WAYS };

typedef struct job {
    rdg_device *device;
    const rdg_upload_piece *pieces;
    size_t n_pieces;
    rdg_upload_options o;
    const rdg_log *log;
    reader *readers;
    int n_readers;
    double total;
    slot *slots;
    int n_slots;
    pthread_mutex_t mutex; /* of what follows */
    size_t next;           /* where the next slot begins */
    uint64_t next_offset;
    int *queue; /* slots that no thread holds, those whose copies end first in front: a ring of n_slots */
    int first, n_queued;
    uint64_t bytes;
    int n_started; /* slots */
    way ways[N_WAYS];
    rdg_err rc;
    rdg_error error;
} job;

/* Reading
 * ----------------------------------------------------------------------------------------------------- */

static rdg_err read_file(const rdg_map *file, const void *src, char *out, uint64_t bytes, rdg_error *e)
{
    uint64_t at = (uint64_t)((const unsigned char *)src - file->data);
    while (bytes) {
        ssize_t n = pread(file->fd, out, bytes, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return rdg_fail_errno(e, RDG_E_IO, errno, "cannot read the file at %llu", (unsigned long long)at);
        if (n == 0)
            return rdg_fail(e, RDG_E_IO, "the file ends at %llu: it was cut while in use",
                            (unsigned long long)at);
        out += n;
        at += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return RDG_OK;
}

static rdg_err fill_rows(reader *r, const part *p, char *out, bool from_file, rdg_error *e)
{
    const rdg_upload_piece *piece = p->piece;
    const char *src = (const char *)piece->src + p->offset;
    uint64_t row = piece->row_bytes, step = RDG_MAX(BOUNCE_BYTES / row, 1) * row;
    for (uint64_t done = 0; done < p->bytes; done += step) {
        uint64_t n = RDG_MIN(step, p->bytes - done);
        const char *rows = src + done;
        if (from_file) {
            rdg_err rc = read_file(piece->file, rows, r->bounce, n, e);
            if (rc) return rc;
            rows = r->bounce;
        }
        for (uint64_t i = 0; i < n; i += row) piece->rewrite(piece, rows + i, out + done + i);
    }
    return RDG_OK;
}

static rdg_err fill(const job *j, reader *r, char *host, int how, rdg_error *e)
{
    rdg_err rc = RDG_OK;
    for (size_t i = 0; i < r->n_parts && !rc; i++) {
        const part *p = &r->parts[i];
        const rdg_upload_piece *piece = p->piece;
        bool from_file = piece->file && piece->file->fd >= 0 && how == WAY_FILE;
        if (piece->row_bytes && !j->o.skip_rewrite)
            rc = fill_rows(r, p, host + p->at, from_file, e);
        else if (from_file)
            rc = read_file(piece->file, (const char *)piece->src + p->offset, host + p->at, p->bytes, e);
        else
            memcpy(host + p->at, (const char *)piece->src + p->offset, p->bytes);
    }
    return rc;
}

/* Which is faster, a system call that copies or page faults of a map, depends on the kernel and on what
 * stands between it and the machine: the first slots go both ways in turns, later ones the way that was
 * faster. */
static int choose_way(const job *j)
{
    const way *f = &j->ways[WAY_FILE], *m = &j->ways[WAY_MAP];
    if (j->o.way) return j->o.way == RDG_UPLOAD_MAP ? WAY_MAP : WAY_FILE;
    if (f->bytes == 0 || m->bytes == 0) return j->n_started % 2 ? WAY_MAP : WAY_FILE;
    return f->bytes * m->seconds >= m->bytes * f->seconds ? WAY_FILE : WAY_MAP;
}

/* The ring
 * ---------------------------------------------------------------------------------------------------- */

/* The parts of the next slot; false when nothing is left. */
static bool cut(job *j, reader *r)
{
    uint64_t used = 0;
    r->n_parts = 0;
    while (j->next < j->n_pieces && r->n_parts < MAX_PARTS && used < j->o.slot_bytes) {
        const rdg_upload_piece *p = &j->pieces[j->next];
        uint64_t take = RDG_MIN(p->bytes - j->next_offset, j->o.slot_bytes - used);
        if (p->row_bytes && take < p->bytes - j->next_offset) take = take / p->row_bytes * p->row_bytes;
        if (take == 0) break; /* the next row does not fit any more */
        r->parts[r->n_parts++] = (part){.piece = p, .offset = j->next_offset, .bytes = take, .at = used};
        used = (uint64_t)rdg_round_up((int64_t)(used + take), 256);
        j->next_offset += take;
        if (j->next_offset == p->bytes) j->next++, j->next_offset = 0;
    }
    return r->n_parts > 0;
}

/* Work and a slot for it; NULL when there is none or something has failed. A slot is always there: there are
 * more of them than threads, and each thread holds one at most. */
static slot *start_slot(job *j, reader *r, int *how)
{
    slot *s = NULL;
    pthread_mutex_lock(&j->mutex);
    if (!j->rc && cut(j, r)) {
        s = &j->slots[j->queue[j->first]];
        j->first = (j->first + 1) % j->n_slots;
        j->n_queued--;
        *how = choose_way(j);
        j->n_started++;
    }
    pthread_mutex_unlock(&j->mutex);
    return s;
}

/* Returns the bytes that are over. */
static double end_slot(job *j, const reader *r, const slot *s, int how, double seconds, rdg_err rc,
                       const rdg_error *e)
{
    pthread_mutex_lock(&j->mutex);
    j->queue[(j->first + j->n_queued++) % j->n_slots] = (int)(s - j->slots);
    if (rc && !j->rc) {
        j->rc = rc;
        j->error = *e;
    }
    uint64_t bytes = 0;
    for (size_t k = 0; k < r->n_parts; k++) bytes += r->parts[k].bytes;
    j->bytes += bytes;
    j->ways[how].bytes += (double)bytes;
    j->ways[how].seconds += seconds;
    double done = (double)j->bytes;
    pthread_mutex_unlock(&j->mutex);
    return done;
}

static rdg_err make_slot(const job *j, slot *s, rdg_error *e)
{
    rdg_err rc = rdg_buffer_create(j->device, j->o.uncached ? RDG_MEMORY_UPLOAD : RDG_MEMORY_READBACK,
                                   j->o.slot_bytes, "staging", &s->staging, e);
    return rc ? rc : rdg_list_create(j->device, 1, 0, "upload", &s->list, e);
}

static rdg_err send(const job *j, const reader *r, slot *s, rdg_error *e)
{
    rdg_err rc = s->done.value ? rdg_list_reset(s->list, e) : RDG_OK;
    if (rc) return rc;
    for (size_t k = 0; k < r->n_parts; k++)
        rdg_list_copy(s->list, r->parts[k].piece->dst, r->parts[k].piece->dst_offset + r->parts[k].offset,
                      s->staging, r->parts[k].at, r->parts[k].bytes);
    rc = rdg_list_finish(s->list, e);
    return rc ? rc : rdg_submit(j->device, s->list, NULL, 0, &s->done, e);
}

static rdg_err use_slot(const job *j, reader *r, slot *s, int how, double *seconds, rdg_error *e)
{
    double start = rdg_clock_seconds();
    while (!rdg_event_done(j->device, s->done)) { /* a loss ends the waiting as well */
        if (rdg_clock_seconds() - start > TIMEOUT_SECONDS)
            return rdg_fail(e, RDG_E_TIMEOUT, "a copy has not finished after %d s", TIMEOUT_SECONDS);
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    }
    r->wait_seconds += rdg_clock_seconds() - start;
    rdg_err rc = s->staging ? RDG_OK : make_slot(j, s, e);
    start = rdg_clock_seconds();
    if (!rc && !j->o.skip_fill) rc = fill(j, r, rdg_buffer_host(s->staging), how, e);
    *seconds = rdg_clock_seconds() - start;
    r->fill_seconds += *seconds;
    return rc || j->o.skip_copy ? rc : send(j, r, s, e);
}

static void read_thread(void *ctx, int thread, int n_threads)
{
    (void)n_threads;
    job *j = ctx;
    if (thread >= j->n_readers) return;
    reader *r = &j->readers[thread];
    rdg_error e = {0};
    int how;
    for (slot *s; (s = start_slot(j, r, &how));) {
        double seconds = 0;
        rdg_err rc = use_slot(j, r, s, how, &seconds, &e);
        double done = end_slot(j, r, s, how, seconds, rc, &e);
        if (thread != 0 || rc) continue; /* the log is the caller's */
        if (!rdg_log_progress(j->log, "upload", done, j->total)) continue;
        rc = rdg_fail(&e, RDG_E_CANCELLED, "the upload was stopped");
        pthread_mutex_lock(&j->mutex);
        if (!j->rc) j->rc = rc, j->error = e;
        pthread_mutex_unlock(&j->mutex);
    }
}

/* Unpinning memory takes time, too: every thread its share. */
static void free_slots(void *ctx, int thread, int n_threads)
{
    job *j = ctx;
    for (int k = thread; k < j->n_slots; k += n_threads) {
        if (!rdg_event_done(j->device, j->slots[k].done))
            continue; /* a device that hangs may still read it */
        rdg_list_destroy(j->slots[k].list);
        rdg_buffer_destroy(j->slots[k].staging);
    }
}

/* Setting up
 * -------------------------------------------------------------------------------------------------- */

/* Fills in what the options left open and makes the arrays; no device memory yet. */
static rdg_err set_up(job *j, rdg_pool *pool, rdg_error *e)
{
    rdg_upload_options *o = &j->o;
    uint64_t bounce = BOUNCE_BYTES;
    if (!o->slot_bytes) o->slot_bytes = SLOT_BYTES;
    if (!o->n_threads) o->n_threads = N_THREADS;
    if (!o->n_spare) o->n_spare = N_SPARE;
    for (size_t i = 0; i < j->n_pieces; i++) {
        const rdg_upload_piece *p = &j->pieces[i];
        j->total += (double)p->bytes;
        bounce = RDG_MAX(bounce, p->row_bytes);
        if (p->bytes == 0 || p->row_bytes > o->slot_bytes)
            return rdg_fail(e, RDG_E_LIMIT, "upload of %llu bytes in rows of %llu",
                            (unsigned long long)p->bytes, (unsigned long long)p->row_bytes);
    }
    double slots = (j->total + 512.0 * (double)j->n_pieces) / (double)o->slot_bytes;
    j->n_readers = RDG_MIN(o->n_threads, pool ? rdg_pool_threads(pool) : 1);
    if (slots < j->n_readers) j->n_readers = (int)slots + 1;
    j->n_slots = j->n_readers + o->n_spare;
    j->readers = rdg_alloc_array((size_t)j->n_readers, sizeof *j->readers);
    j->slots = rdg_alloc_array((size_t)j->n_slots, sizeof *j->slots);
    j->queue = rdg_alloc_array((size_t)j->n_slots, sizeof *j->queue);
    bool ok = j->readers && j->slots && j->queue;
    for (int i = 0; ok && i < j->n_readers; i++)
        ok = (j->readers[i].bounce = rdg_alloc_aligned(64, bounce)) != NULL;
    if (!ok) return rdg_fail(e, RDG_E_NOMEM, "no memory for an upload");
    for (int i = 0; i < j->n_slots; i++) j->queue[i] = i;
    j->n_queued = j->n_slots;
    return RDG_OK;
}

static void run(rdg_pool *pool, rdg_pool_fn *fn, job *j)
{
    if (pool && j->n_readers > 1)
        rdg_pool_run(pool, fn, j);
    else
        fn(j, 0, 1);
}

rdg_err rdg_upload(rdg_device *d, const rdg_upload_piece *pieces, size_t n, rdg_pool *pool,
                   const rdg_upload_options *o, const rdg_log *log, rdg_upload_stats *stats, rdg_error *e)
{
    job j = {.device = d, .pieces = pieces, .n_pieces = n, .log = log, .mutex = PTHREAD_MUTEX_INITIALIZER};
    double start = rdg_clock_seconds();
    rdg_upload_stats st = {0};
    if (o) j.o = *o;
    rdg_err rc = set_up(&j, pool, e);
    if (rc) goto done;
    bool half = j.o.skip_fill || j.o.skip_copy; /* a rate is asked for: staging is not part of it */
    for (int k = 0; half && k < j.n_slots && !rc; k++) rc = make_slot(&j, &j.slots[k], e);
    if (rc) goto stop;
    if (half) start = rdg_clock_seconds();
    run(pool, read_thread, &j);
    rc = j.rc;
    if (rc && e) *e = j.error;
stop:
    for (int k = 0; k < j.n_slots; k++) { /* nothing may be freed while it is in use */
        int64_t patience = rc == RDG_E_TIMEOUT ? 0 : TIMEOUT_SECONDS; /* a device hangs once for all slots */
        rdg_err late = rdg_event_wait(d, j.slots[k].done, patience * 1000000000, rc ? NULL : e);
        if (!rc) rc = late;
        if (j.slots[k].staging) st.staging_bytes += j.o.slot_bytes;
    }
    double end = rdg_clock_seconds();
    run(pool, free_slots, &j);
    st.seconds = (half ? end : rdg_clock_seconds()) - start;
done:
    st.bytes = j.bytes;
    st.n_threads = j.n_readers;
    st.from_map = j.ways[WAY_MAP].bytes > j.ways[WAY_FILE].bytes;
    for (int i = 0; j.readers && i < j.n_readers; i++) {
        st.fill_seconds += j.readers[i].fill_seconds / j.n_readers;
        st.wait_seconds += j.readers[i].wait_seconds / j.n_readers;
        rdg_free(j.readers[i].bounce);
    }
    rdg_free(j.queue);
    rdg_free(j.slots);
    rdg_free(j.readers);
    if (stats) *stats = st;
    return rc;
}
