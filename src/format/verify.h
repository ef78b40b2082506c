/* The deep check of tensor data: finite values and finite block scales. Structure is proven by opening
 * already. */
#ifndef RDG_FORMAT_VERIFY_H
#define RDG_FORMAT_VERIFY_H

#include <ridge/gguf.h>
#include "base/err.h"

/* How many of n_blocks blocks (elements of a plain type) hold a value or scale that is no finite number, and
 * the first of them (-1 if none). Integer types hold none. Any alignment of data. */
int64_t rdg_blocks_not_finite(rdg_type type, const void *data, int64_t n_blocks, int64_t *first);

typedef struct rdg_verify_problem {
    const rdg_gguf_tensor *tensor;
    int64_t n_bad;    /* blocks, elements of a plain type */
    int64_t n_blocks; /* of the tensor */
    int64_t first;    /* index of the first bad block */
    uint64_t offset;  /* of that block in its file */
    char text[192];   /* the sentence to print, names the tensor */
} rdg_verify_problem;

typedef struct rdg_verify_result {
    rdg_verify_problem *problems; /* at most one a tensor, in file order */
    int64_t n_problems;
    int64_t n_tensors; /* checked */
    uint64_t bytes;    /* read */
} rdg_verify_result;

/* Reads every tensor once. OK also when there are problems; an error means that the check could not be done:
 * the file was cut while in use, memory ran out, or progress asked to stop. g must outlive the result. */
rdg_err rdg_gguf_verify(const rdg_gguf *g, int n_threads, const rdg_log *log, rdg_verify_result *out,
                        rdg_error *e);
void rdg_verify_result_finish(rdg_verify_result *r);

#endif
