/* Bulk copies from host memory to device buffers through a ring of staging slots: threads fill one slot while
 * the copy queue empties the ones before it, so reading the file and crossing the bus overlap. */
#ifndef RDG_DEVICE_UPLOAD_H
#define RDG_DEVICE_UPLOAD_H

#include "base/pool.h"
#include "device/device.h"

typedef struct rdg_upload_piece {
    rdg_buffer *dst;
    uint64_t dst_offset;
    const void *src;
    uint64_t bytes;
    /* Rows may be rewritten on their way: row_bytes > 0, `rewrite` is called for whole rows by any thread. */
    uint64_t row_bytes;
    void (*rewrite)(const struct rdg_upload_piece *p, const void *row, void *out);
    int64_t user[2];
} rdg_upload_piece;

typedef struct rdg_upload_stats {
    double seconds, fill_seconds, wait_seconds; /* whole; filling slots; waiting for a free slot */
    uint64_t bytes;
} rdg_upload_stats;

/* Returns when everything has arrived. pool may be NULL. stats may be NULL. */
rdg_err rdg_upload(rdg_device *d, const rdg_upload_piece *pieces, size_t n, rdg_pool *pool,
                   const rdg_log *log, rdg_upload_stats *stats, rdg_error *e);

#endif
