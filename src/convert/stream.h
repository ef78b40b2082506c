/* Writing the data of one output tensor, a block of rows at a time. */
#ifndef RDG_CONVERT_STREAM_H
#define RDG_CONVERT_STREAM_H

#include "base/hash.h"
#include "base/pool.h"
#include "convert/outputs.h"

typedef struct rdg_hf_stream {
    rdg_hf *c;
    rdg_gguf_writer *writer;
    rdg_pool *pool;
    float *values;        /* one block of rows */
    unsigned char *bytes; /* the same in the output's type */
    size_t values_cap, bytes_cap;
    rdg_error *errors; /* one a thread */
    rdg_hash64 hash;   /* of the present tensor's data */
} rdg_hf_stream;

void rdg_hf_stream_finish(rdg_hf_stream *s);
/* importance: [n_matrices][n_columns], or NULL. A value that is not finite is MALFORMED. Leaves the data's
 * checksum in s->hash. */
rdg_err rdg_hf_stream_write(rdg_hf_stream *s, const rdg_hf_output *o, const float *importance, rdg_error *e);

#endif
