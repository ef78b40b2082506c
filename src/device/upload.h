/* Bulk copies from files or host memory to device buffers through a ring of staging slots. A slot is what one
 * copy moves; several threads fill it in shares, and the last one sends it while the others go on, so reading
 * the file and crossing the bus overlap. Long copies cross faster and staging is slow to make: few large
 * slots that many threads fill do with little of it. Pieces of a file are read with pread straight into
 * staging: one copy by the processor, and no page faults of the map, which would cost as much again. */
#ifndef RDG_DEVICE_UPLOAD_H
#define RDG_DEVICE_UPLOAD_H

#include "base/file.h"
#include "base/pool.h"
#include "device/device.h"

typedef struct rdg_upload_piece {
    rdg_buffer *dst;
    uint64_t dst_offset;
    const void *src;
    uint64_t bytes;
    const rdg_map *file; /* src lies in this map and is read from its file; NULL: read where it lies */
    /* Rows may be rewritten on their way: row_bytes > 0, `rewrite` is called for whole rows by any thread. */
    uint64_t row_bytes;
    void (*rewrite)(const struct rdg_upload_piece *p, const void *row, void *out);
    int64_t user[2];
} rdg_upload_piece;

typedef enum rdg_upload_way {
    RDG_UPLOAD_FASTER, /* both are tried */
    RDG_UPLOAD_FILE,   /* system calls that read */
    RDG_UPLOAD_MAP,    /* from the map */
} rdg_upload_way;

enum {
    RDG_UPLOAD_THREADS = 12,
    RDG_UPLOAD_SLOT_BYTES = 8 << 20, /* as long on the bus as several submits take */
    RDG_UPLOAD_SHARE_BYTES = 1 << 20,
};

/* Zeros mean the usual. Leaving a half out measures the other one with the same threads, slots and pieces;
 * the time of a half begins when all staging is there. */
typedef struct rdg_upload_options {
    int n_threads;        /* most threads that read */
    uint64_t slot_bytes;  /* of staging, what one copy moves at most */
    uint64_t share_bytes; /* of a slot, what one thread fills at a time: one row at least, the slot at most */
    int n_spare;          /* slots beyond those that all threads' shares fill: copies in flight */
    bool uncached;        /* staging in memory that the processor does not cache */
    rdg_upload_way way;   /* how files are read */
    bool skip_fill, skip_rewrite, skip_copy;
} rdg_upload_options;

typedef struct rdg_upload_stats {
    double seconds;
    double fill_seconds, wait_seconds; /* reading, waiting for room in a slot: mean of the threads */
    uint64_t bytes, staging_bytes;
    int n_threads;
    bool from_map; /* most of it */
} rdg_upload_stats;

/* Returns when everything has arrived. pool, options and stats may be NULL. */
rdg_err rdg_upload(rdg_device *d, const rdg_upload_piece *pieces, size_t n, rdg_pool *pool,
                   const rdg_upload_options *o, const rdg_log *log, rdg_upload_stats *stats, rdg_error *e);

#endif
