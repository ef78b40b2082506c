/* Files: whole reads with a limit, read-only maps, and output that appears only when complete. */
#ifndef RDG_BASE_FILE_H
#define RDG_BASE_FILE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Read-only map of a whole regular file. A directory, a FIFO or an empty file is an error that says so. */
typedef struct rdg_map {
    const unsigned char *data;
    size_t bytes;
    int fd; /* kept open for fstat and read-ahead; -1 when not mapped */
} rdg_map;
rdg_err rdg_map_open(rdg_map *m, const char *path, rdg_error *e);
void rdg_map_close(rdg_map *m);
/* The file has been cut since it was mapped: reading would be SIGBUS. IO error if so. */
rdg_err rdg_map_recheck(const rdg_map *m, const char *path, rdg_error *e);
/* This part of a map has been used: its pages stop counting as the process's memory. Reading it again is
 * allowed and reads the file. Only for addresses inside a map. */
void rdg_map_release(const void *data, size_t bytes);

/* This part of a map is going to be used: reading it begins now, many requests at once, and nobody waits.
 * Does nothing where the first use of a page reads large pages. */
void rdg_map_announce(const void *data, size_t bytes);
/* 512-byte units that this process has had read from storage so far, reading ahead included. */
int64_t rdg_blocks_read(void);

/* The whole file as a fresh NUL-terminated buffer (the NUL not counted). LIMIT if longer than limit_bytes.
 * "-" reads standard input if allow_stdin. */
rdg_err rdg_file_read(const char *path, size_t limit_bytes, bool allow_stdin, char **data, size_t *bytes,
                      rdg_error *e);

bool rdg_file_exists(const char *path);
bool rdg_is_directory(const char *path);
/* An error where no file can be: on a folder, or in a folder that does not exist, which is named. */
rdg_err rdg_check_output(const char *path, rdg_error *e);

/* Output written beside its target ("PATH.ridge-tmp-PID") and renamed over it by commit. Buffered. An error
 * is sticky and is reported by the next call; close without commit removes the temporary file. */
typedef struct rdg_out {
    char *path, *temp_path;
    int fd;
    unsigned char *buffer;
    size_t buffered;
    uint64_t position; /* bytes written so far */
    rdg_err failed;
} rdg_out;
char *rdg_out_temp_path(
    const char *path); /* where that is written at first, a fresh string; NULL: no memory */
rdg_err rdg_out_open(rdg_out *o, const char *path, rdg_error *e);
rdg_err rdg_out_write(rdg_out *o, const void *data, size_t n, rdg_error *e);
rdg_err rdg_out_zeros(rdg_out *o, size_t n, rdg_error *e);
/* Overwrite n bytes at an offset that has been written already. */
rdg_err rdg_out_patch(rdg_out *o, uint64_t offset, const void *data, size_t n, rdg_error *e);
rdg_err rdg_out_flush(rdg_out *o, rdg_error *e);  /* all so far is in the temporary file */
rdg_err rdg_out_commit(rdg_out *o, rdg_error *e); /* flush, fsync, rename, close */
void rdg_out_close(rdg_out *o); /* idempotent; removes the temporary file if not committed */

/* "dir/name" as a fresh string. */
char *rdg_path_join(const char *dir, const char *name);
/* The part after the last '/', pointing into path. */
const char *rdg_path_base(const char *path);

#endif
