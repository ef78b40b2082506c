#include "device/upload.h"
#include "base/clock.h"

#include <stdatomic.h>
#include <string.h>

enum { SLOT_BYTES = 32 << 20, N_SLOTS = 4, FILL_BYTES = 1 << 20 };

/* A part of a piece that fits what is left of a slot. */
typedef struct part {
    const rdg_upload_piece *piece;
    uint64_t offset, bytes, at; /* in the piece; in the slot */
} part;

typedef struct slot {
    rdg_list *list;
    rdg_event done;
    char *host;
    uint64_t base; /* in the staging buffer */
} slot;

typedef struct fill_job {
    const part *parts;
    size_t n_parts;
    char *host;
    atomic_llong next; /* work items are FILL_BYTES of the slot */
    int64_t n_items;
} fill_job;

static void fill_range(const part *p, char *host, uint64_t begin, uint64_t end)
{
    const rdg_upload_piece *piece = p->piece;
    if (!piece->row_bytes) {
        memcpy(host + p->at + begin, (const char *)piece->src + p->offset + begin, end - begin);
        return;
    }
    /* rows that start in the range */
    uint64_t r = piece->row_bytes, first = (begin + r - 1) / r, last = (end + r - 1) / r;
    for (uint64_t i = first; i < last && (i + 1) * r <= p->bytes; i++)
        piece->rewrite(piece, (const char *)piece->src + p->offset + i * r, host + p->at + i * r);
}

static void fill_thread(void *ctx, int thread, int n_threads)
{
    (void)thread;
    (void)n_threads;
    fill_job *j = ctx;
    for (;;) {
        int64_t item = atomic_fetch_add(&j->next, 1);
        if (item >= j->n_items) return;
        uint64_t begin = (uint64_t)item * FILL_BYTES, end = begin + FILL_BYTES;
        for (size_t i = 0; i < j->n_parts; i++) {
            const part *p = &j->parts[i];
            if (p->at >= end || p->at + p->bytes <= begin) continue;
            fill_range(p, j->host, begin > p->at ? begin - p->at : 0, RDG_MIN(end - p->at, p->bytes));
        }
    }
}

/* Fills the slot from piece *i, offset *offset on; returns the bytes used and advances both. */
static uint64_t cut(const rdg_upload_piece *pieces, size_t n, size_t *i, uint64_t *offset, part *parts,
                    size_t cap, size_t *n_parts)
{
    uint64_t used = 0;
    *n_parts = 0;
    while (*i < n && *n_parts < cap && used < SLOT_BYTES) {
        const rdg_upload_piece *p = &pieces[*i];
        uint64_t take = RDG_MIN(p->bytes - *offset, SLOT_BYTES - used);
        if (p->row_bytes && take < p->bytes - *offset) take = take / p->row_bytes * p->row_bytes;
        if (take == 0) break; /* the next row does not fit any more */
        parts[(*n_parts)++] = (part){.piece = p, .offset = *offset, .bytes = take, .at = used};
        used = (uint64_t)rdg_round_up((int64_t)(used + take), 256);
        *offset += take;
        if (*offset == p->bytes) (*i)++, *offset = 0;
    }
    return used;
}

static rdg_err send(rdg_device *d, rdg_buffer *staging, slot *s, const part *parts, size_t n_parts,
                    rdg_error *e)
{
    rdg_err rc = RDG_OK;
    if (s->list)
        rc = rdg_list_reset(s->list, e);
    else
        rc = rdg_list_create(d, 1, 0, "upload", &s->list, e);
    if (rc) return rc;
    for (size_t k = 0; k < n_parts; k++)
        rdg_list_copy(s->list, parts[k].piece->dst, parts[k].piece->dst_offset + parts[k].offset, staging,
                      s->base + parts[k].at, parts[k].bytes);
    rc = rdg_list_finish(s->list, e);
    return rc ? rc : rdg_submit(d, s->list, NULL, 0, &s->done, e);
}

rdg_err rdg_upload(rdg_device *d, const rdg_upload_piece *pieces, size_t n, rdg_pool *pool,
                   const rdg_log *log, rdg_upload_stats *stats, rdg_error *e)
{
    enum { MAX_PARTS = 512 };
    rdg_upload_stats st = {0};
    slot slots[N_SLOTS] = {0};
    rdg_buffer *staging = NULL;
    part *parts = rdg_alloc_array(MAX_PARTS, sizeof *parts);
    double start = rdg_clock_seconds(), total = 0;
    rdg_err rc = RDG_OK;
    if (!parts) return rdg_fail(e, RDG_E_NOMEM, "no memory for an upload");
    for (size_t i = 0; i < n; i++) {
        total += (double)pieces[i].bytes;
        if (pieces[i].bytes == 0 || pieces[i].row_bytes > SLOT_BYTES) {
            rc = rdg_fail(e, RDG_E_LIMIT, "upload of %llu bytes in rows of %llu",
                          (unsigned long long)pieces[i].bytes, (unsigned long long)pieces[i].row_bytes);
            goto done;
        }
    }
    uint64_t slot_bytes = (uint64_t)RDG_MIN(total + 512.0 * (double)n, (double)SLOT_BYTES);
    slot_bytes = (uint64_t)rdg_round_up((int64_t)slot_bytes + 256, 4096);
    rc = rdg_buffer_create(d, RDG_MEMORY_UPLOAD, slot_bytes * N_SLOTS, "staging", &staging, e);
    if (rc) goto done;
    size_t i = 0;
    uint64_t offset = 0;
    for (int k = 0; i < n; k = (k + 1) % N_SLOTS) {
        slot *s = &slots[k];
        s->base = slot_bytes * (uint64_t)k;
        s->host = (char *)rdg_buffer_host(staging) + s->base;
        double t0 = rdg_clock_seconds();
        rc = rdg_event_wait(d, s->done, -1, e);
        if (rc) goto done;
        size_t n_parts;
        uint64_t used = cut(pieces, n, &i, &offset, parts, MAX_PARTS, &n_parts);
        double t1 = rdg_clock_seconds();
        fill_job job = {.parts = parts,
                        .n_parts = n_parts,
                        .host = s->host,
                        .n_items = rdg_div_up((int64_t)used, FILL_BYTES)};
        if (pool)
            rdg_pool_run(pool, fill_thread, &job);
        else
            fill_thread(&job, 0, 1);
        double t2 = rdg_clock_seconds();
        rc = send(d, staging, s, parts, n_parts, e);
        if (rc) goto done;
        for (size_t m = 0; m < n_parts; m++) st.bytes += parts[m].bytes;
        st.wait_seconds += t1 - t0;
        st.fill_seconds += t2 - t1;
        if (rdg_log_progress(log, "upload", (double)st.bytes, total)) {
            rc = rdg_fail(e, RDG_E_CANCELLED, "the upload was stopped");
            goto done;
        }
    }
done:
    for (int k = 0; k < N_SLOTS; k++) { /* nothing may be freed while it is in use */
        rdg_err late = rdg_event_wait(d, slots[k].done, -1, rc ? NULL : e);
        if (!rc) rc = late;
        rdg_list_destroy(slots[k].list);
    }
    rdg_buffer_destroy(staging);
    rdg_free(parts);
    st.seconds = rdg_clock_seconds() - start;
    if (stats) *stats = st;
    return rc;
}
