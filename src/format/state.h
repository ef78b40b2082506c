/* State files: what a session held, so that it can go on elsewhere or later. All numbers little-endian.
 *
 * - header: 128 bytes, see rdg_state_head and the offsets in state.c
 * - tokens: i32 [n_tokens]
 * - logits: f32 [n_logits], of the last token
 * - note: note_bytes bytes for whoever saved it
 * - records, n_records times: 32 bytes of header (rdg_state_record), then n_heads x n_positions cache rows of
 *   the type of its kind, one head after the other, positions rising
 * - trailer: XXH64 of all bytes before it
 *
 * A cache keeps position p in slot p mod n_slots; the file knows positions only, so that it fits sessions
 * with another context or batch. The checksum finds accidents, not malice: bounds never rely on it. */
#ifndef RDG_FORMAT_STATE_H
#define RDG_FORMAT_STATE_H

#include "base/file.h"
#include "base/hash.h"
#include <ridge/type.h>

enum {
    RDG_STATE_VERSION = 1,
    RDG_STATE_HEAD_BYTES = 128,
    RDG_STATE_RECORD_BYTES = 32,
    RDG_STATE_TRAILER_BYTES = 8,
    RDG_STATE_MODEL_BYTES = 56,
    RDG_STATE_MAX_RECORDS = 1 << 16,
    RDG_STATE_MAX_ROW = 1 << 16, /* elements of a cache row; heads of a record */
};
enum { RDG_STATE_LONG_ROPE = 1 }; /* flags: keys rotated for a context beyond the original one */

typedef struct rdg_state_head {
    uint64_t model; /* fingerprint of the model */
    char model_name[RDG_STATE_MODEL_BYTES + 1];
    rdg_type type[2]; /* of keys, of values */
    uint32_t n_records, n_vocab, n_logits, flags;
    int64_t n_tokens;
    uint64_t note_bytes;
} rdg_state_head;

typedef struct rdg_state_record {
    uint32_t layer, kind; /* kind 0: keys, 1: values */
    uint32_t row_elems, n_heads;
    int64_t first, n_positions;
    size_t row_bytes;          /* not stored: of row_elems elements of the kind's type */
    const unsigned char *rows; /* in the file, unaligned */
} rdg_state_record;

/* Reading. A parsed file borrows the bytes. */
typedef struct rdg_state_file {
    rdg_state_head head;
    const unsigned char *data;
    size_t bytes;
    const unsigned char *tokens, *logits, *note; /* unaligned; all tokens are below n_vocab */
    size_t records_at;
} rdg_state_file;

/* Checks everything: every bound, type, token and the checksum. Allocates nothing. */
rdg_err rdg_state_parse(const void *data, size_t bytes, rdg_state_file *out, rdg_error *e);
/* The record at *at, which starts at records_at and moves on. For a parsed file it succeeds n_records times.
 */
rdg_err rdg_state_next(const rdg_state_file *f, size_t *at, rdg_state_record *out, rdg_error *e);

/* Writing: begin, n_records times record with the rows behind it in pieces of any size, finish. */
typedef struct rdg_state_writer {
    rdg_out out;
    rdg_hash64 hash;
} rdg_state_writer;
/* rows_bytes: of all records' rows together. */
rdg_err rdg_state_writer_open(rdg_state_writer *w, const char *path, const rdg_state_head *head,
                              const int32_t *tokens, const float *logits, const char *note,
                              uint64_t rows_bytes, rdg_error *e);
rdg_err rdg_state_write_record(rdg_state_writer *w, const rdg_state_record *r, rdg_error *e);
rdg_err rdg_state_write(rdg_state_writer *w, const void *data, size_t n, rdg_error *e);
rdg_err rdg_state_writer_commit(rdg_state_writer *w, rdg_error *e);
void rdg_state_writer_close(rdg_state_writer *w); /* idempotent; leaves no file if not committed */

#endif
