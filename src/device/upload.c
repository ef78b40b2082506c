#include "device/upload.h"
#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    N_SPARE = 2,
    MAX_COPIES = 512,         /* of a slot: models have rows of small tensors */
    BOUNCE_BYTES = 256 << 10, /* rows to be rewritten: what a core's cache holds */
    TIMEOUT_SECONDS = 120,
};

/* A part of a piece that fits what is left of a slot. */
typedef struct part {
    const rdg_upload_piece *piece;
    uint64_t offset, bytes, at; /* in the piece; in the slot */
} part;

/* A slot is in one place at a time: not made yet; in the queue, where its copies may still run; open, where
 * threads take shares of it; full, and of those who fill it. The last of them sends it. */
typedef struct slot {
    rdg_buffer *staging;
    rdg_list *list;
    rdg_event done;
    part copies[MAX_COPIES]; /* what the shares hold, joined where they follow each other */
    size_t n_copies;
    uint64_t used;
    int n_filling; /* threads */
    bool full;
} slot;

/* A thread and the share of a slot that it fills. */
typedef struct reader {
    slot *slot;
    part parts[MAX_COPIES];
    size_t n_parts;
    int how;
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
    pthread_mutex_t mutex; /* of what follows, and of the slots but for what their fillers read */
    pthread_cond_t wake; /* a slot has come to the queue, as each does in the end, or something has failed */
    size_t next;         /* where the next share begins */
    uint64_t next_offset;
    slot *open;
    slot **queue; /* those whose copies end first in front: a ring of n_slots */
    int first, n_queued;
    uint64_t bytes;
    int n_started; /* shares */
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
 * stands between it and the machine: the first shares go both ways in turns, later ones the way that was
 * faster. */
static int choose_way(const job *j)
{
    const way *f = &j->ways[WAY_FILE], *m = &j->ways[WAY_MAP];
    if (j->o.way) return j->o.way == RDG_UPLOAD_MAP ? WAY_MAP : WAY_FILE;
    if (f->bytes == 0 || m->bytes == 0) return j->n_started % 2 ? WAY_MAP : WAY_FILE;
    return f->bytes * m->seconds >= m->bytes * f->seconds ? WAY_FILE : WAY_MAP;
}

/* Shares
 * ------------------------------------------------------------------------------------------------------ */

/* Of `left` bytes of a piece, those that fit `room`: whole rows. */
static uint64_t fit(const rdg_upload_piece *p, uint64_t left, uint64_t room)
{
    if (left <= room) return left;
    return p->row_bytes ? room / p->row_bytes * p->row_bytes : room;
}

/* What comes next begins right behind its former part, so that one copy moves both, or at a round place. */
static uint64_t next_place(const job *j, const slot *s)
{
    bool goes_on = s->n_copies && s->copies[s->n_copies - 1].piece == &j->pieces[j->next];
    return goes_on ? s->used : (uint64_t)rdg_round_up((int64_t)s->used, 256);
}

/* How much of what comes next the slot can take. */
static uint64_t next_fit(const job *j, const slot *s)
{
    const rdg_upload_piece *p = &j->pieces[j->next];
    uint64_t at = next_place(j, s);
    if (at >= j->o.slot_bytes || s->n_copies == MAX_COPIES) return 0;
    return fit(p, p->bytes - j->next_offset, j->o.slot_bytes - at);
}

static void take(job *j, reader *r, uint64_t bytes)
{
    slot *s = r->slot;
    const rdg_upload_piece *p = &j->pieces[j->next];
    part new = {.piece = p, .offset = j->next_offset, .bytes = bytes, .at = next_place(j, s)};
    if (s->n_copies && s->copies[s->n_copies - 1].piece == p)
        s->copies[s->n_copies - 1].bytes += bytes;
    else
        s->copies[s->n_copies++] = new;
    r->parts[r->n_parts++] = new;
    s->used = new.at + bytes;
    j->next_offset += bytes;
    if (j->next_offset == p->bytes) j->next++, j->next_offset = 0;
}

/* The parts of the reader's share, one row at least, and whether the slot is full with it: the next share
 * would be too small to be worth while. */
static void cut(job *j, reader *r)
{
    slot *s = r->slot;
    uint64_t share = 0, room;
    r->n_parts = 0;
    while (j->next < j->n_pieces && share < j->o.share_bytes && (room = next_fit(j, s))) {
        const rdg_upload_piece *p = &j->pieces[j->next];
        uint64_t bytes = fit(p, room, j->o.share_bytes - share);
        if (bytes == 0 && r->n_parts) break;
        if (bytes == 0) bytes = p->row_bytes;
        take(j, r, bytes);
        share += bytes;
    }
    s->full = j->next == j->n_pieces || next_fit(j, s) == 0 ||
              j->o.slot_bytes - next_place(j, s) < j->o.share_bytes / 2;
}

/* A slot that can be used: made just now, it goes first; with copies that run, last. */
static void queue_slot(job *j, slot *s)
{
    if (s->done.value) {
        j->queue[(j->first + j->n_queued) % j->n_slots] = s;
    } else {
        j->first = (j->first + j->n_slots - 1) % j->n_slots;
        j->queue[j->first] = s;
    }
    j->n_queued++;
    pthread_cond_broadcast(&j->wake);
}

/* The first error is kept and ends everybody's work. */
static void keep_error(job *j, rdg_err rc, const rdg_error *e)
{
    if (!rc || j->rc) return;
    j->rc = rc;
    j->error = *e;
    pthread_cond_broadcast(&j->wake);
}

/* False when there is nothing left to do or something has failed. */
static bool start_share(job *j, reader *r)
{
    double start = rdg_clock_seconds();
    r->slot = NULL;
    pthread_mutex_lock(&j->mutex);
    while (!j->rc && j->next < j->n_pieces && !j->open && !j->n_queued)
        pthread_cond_wait(&j->wake, &j->mutex);
    r->wait_seconds += rdg_clock_seconds() - start;
    if (j->rc || j->next == j->n_pieces) goto done;
    if (!j->open) {
        j->open = j->queue[j->first];
        j->first = (j->first + 1) % j->n_slots;
        j->n_queued--;
        j->open->n_copies = 0;
        j->open->used = 0;
    }
    r->slot = j->open;
    r->slot->n_filling++;
    r->how = choose_way(j);
    j->n_started++;
    cut(j, r);
    if (r->slot->full) j->open = NULL;
done:
    pthread_mutex_unlock(&j->mutex);
    return r->slot;
}

/* Sets the bytes that are over; true when the slot is full and was only waiting for this share. */
static bool end_share(job *j, const reader *r, double seconds, rdg_err rc, const rdg_error *e, double *done)
{
    uint64_t bytes = 0;
    for (size_t k = 0; k < r->n_parts; k++) bytes += r->parts[k].bytes;
    pthread_mutex_lock(&j->mutex);
    keep_error(j, rc, e);
    j->bytes += bytes;
    *done = (double)j->bytes;
    j->ways[r->how].bytes += (double)bytes;
    j->ways[r->how].seconds += seconds;
    bool last = --r->slot->n_filling == 0 && r->slot->full && !j->rc;
    pthread_mutex_unlock(&j->mutex);
    return last;
}

/* Waits for the slot's former copies, then reads the share. */
static rdg_err fill_share(const job *j, reader *r, double *seconds, rdg_error *e)
{
    double start = rdg_clock_seconds();
    while (!rdg_event_done(j->device, r->slot->done)) { /* a loss ends the waiting as well */
        if (rdg_clock_seconds() - start > TIMEOUT_SECONDS)
            return rdg_fail(e, RDG_E_TIMEOUT, "a copy has not finished after %d s", TIMEOUT_SECONDS);
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    }
    r->wait_seconds += rdg_clock_seconds() - start;
    if (j->o.skip_fill) return RDG_OK;
    start = rdg_clock_seconds();
    rdg_err rc = fill(j, r, rdg_buffer_host(r->slot->staging), r->how, e);
    *seconds = rdg_clock_seconds() - start;
    r->fill_seconds += *seconds;
    return rc;
}

static rdg_err send(const job *j, slot *s, rdg_error *e)
{
    rdg_err rc = s->done.value ? rdg_list_reset(s->list, e) : RDG_OK;
    if (rc) return rc;
    for (size_t k = 0; k < s->n_copies; k++) {
        const part *p = &s->copies[k];
        rdg_list_copy(s->list, p->piece->dst, p->piece->dst_offset + p->offset, s->staging, p->at, p->bytes);
    }
    rc = rdg_list_finish(s->list, e);
    return rc ? rc : rdg_submit(j->device, s->list, NULL, 0, &s->done, e);
}

/* Threads
 * ------------------------------------------------------------------------------------------------------ */

static void make_slot(job *j, slot *s)
{
    rdg_error e = {0};
    rdg_err rc = rdg_buffer_create(j->device, j->o.uncached ? RDG_MEMORY_UPLOAD : RDG_MEMORY_READBACK,
                                   j->o.slot_bytes, "staging", &s->staging, &e);
    if (!rc) rc = rdg_list_create(j->device, 1, 0, "upload", &s->list, &e);
    pthread_mutex_lock(&j->mutex);
    if (!rc) queue_slot(j, s);
    keep_error(j, rc, &e);
    pthread_mutex_unlock(&j->mutex);
}

/* Pinning memory is slow: the first threads are at it while the others fill the slots that are there. */
static void make_slots(job *j, int thread)
{
    for (int k = thread; k < j->n_slots; k += j->n_readers) {
        pthread_mutex_lock(&j->mutex);
        bool wanted = !j->rc && j->next < j->n_pieces && !j->slots[k].list;
        pthread_mutex_unlock(&j->mutex);
        if (wanted) make_slot(j, &j->slots[k]);
    }
}

static void read_thread(void *ctx, int thread, int n_threads)
{
    (void)n_threads;
    job *j = ctx;
    if (thread >= j->n_readers) return;
    reader *r = &j->readers[thread];
    rdg_error e = {0};
    make_slots(j, thread);
    while (start_share(j, r)) {
        double seconds = 0, done;
        rdg_err rc = fill_share(j, r, &seconds, &e);
        bool last = end_share(j, r, seconds, rc, &e, &done);
        if (last && !j->o.skip_copy) rc = send(j, r->slot, &e);
        if (last) {
            pthread_mutex_lock(&j->mutex);
            keep_error(j, rc, &e);
            queue_slot(j, r->slot);
            pthread_mutex_unlock(&j->mutex);
        }
        if (thread != 0 || rc) continue; /* the log is the caller's */
        if (!rdg_log_progress(j->log, "upload", done, j->total)) continue;
        rc = rdg_fail(&e, RDG_E_CANCELLED, "the upload was stopped");
        pthread_mutex_lock(&j->mutex);
        keep_error(j, rc, &e);
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
    if (!o->slot_bytes) o->slot_bytes = RDG_UPLOAD_SLOT_BYTES;
    if (!o->share_bytes) o->share_bytes = RDG_UPLOAD_SHARE_BYTES;
    if (!o->n_threads) o->n_threads = RDG_UPLOAD_THREADS;
    if (!o->n_spare) o->n_spare = N_SPARE;
    o->share_bytes = RDG_MIN(o->share_bytes, o->slot_bytes);
    for (size_t i = 0; i < j->n_pieces; i++) {
        const rdg_upload_piece *p = &j->pieces[i];
        j->total += (double)p->bytes;
        bounce = RDG_MAX(bounce, p->row_bytes);
        if (p->bytes == 0 || p->row_bytes > o->slot_bytes)
            return rdg_fail(e, RDG_E_LIMIT, "upload of %llu bytes in rows of %llu",
                            (unsigned long long)p->bytes, (unsigned long long)p->row_bytes);
    }
    double bytes = j->total + 256.0 * (double)j->n_pieces; /* with what rounding leaves free, at most */
    j->n_readers = RDG_MIN(o->n_threads, pool ? rdg_pool_threads(pool) : 1);
    j->n_readers = (int)RDG_MIN((double)j->n_readers, bytes / (double)o->share_bytes + 1);
    double filled = ceil((double)j->n_readers * (double)o->share_bytes / (double)o->slot_bytes);
    j->n_slots = (int)RDG_MIN(filled + o->n_spare, bytes / (double)o->slot_bytes + 1);
    j->readers = rdg_alloc_array((size_t)j->n_readers, sizeof *j->readers);
    j->slots = rdg_alloc_array((size_t)j->n_slots, sizeof *j->slots);
    j->queue = rdg_alloc_array((size_t)j->n_slots, sizeof *j->queue);
    bool ok = j->readers && j->slots && j->queue;
    for (int i = 0; ok && i < j->n_readers; i++)
        ok = (j->readers[i].bounce = rdg_alloc_aligned(64, bounce)) != NULL;
    return ok ? RDG_OK : rdg_fail(e, RDG_E_NOMEM, "no memory for an upload");
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
    job j = {.device = d,
             .pieces = pieces,
             .n_pieces = n,
             .log = log,
             .mutex = PTHREAD_MUTEX_INITIALIZER,
             .wake = PTHREAD_COND_INITIALIZER};
    double start = rdg_clock_seconds();
    rdg_upload_stats st = {0};
    if (o) j.o = *o;
    rdg_err rc = set_up(&j, pool, e);
    if (rc) goto done;
    bool half = j.o.skip_fill || j.o.skip_copy; /* a rate is asked for: staging is not part of it */
    for (int k = 0; half && k < j.n_readers; k++) make_slots(&j, k);
    if (half) start = rdg_clock_seconds();
    run(pool, read_thread, &j);
    rc = j.rc;
    if (rc && e) *e = j.error;
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
