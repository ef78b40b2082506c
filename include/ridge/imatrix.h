/* Importance matrices: sums of squared activations per input channel, for each weight used as y = W x. */
#ifndef RIDGE_IMATRIX_H
#define RIDGE_IMATRIX_H

#include <ridge/gguf.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rdg_imatrix rdg_imatrix;

typedef struct rdg_imatrix_entry {
    const char *name;   /* the weight's full name, "blk.0.attn_q.weight" */
    int64_t n_columns;  /* input channels */
    int64_t n_matrices; /* experts, 1 for a plain weight. Legacy files do not tell experts apart: there it is
                         * 1 and n_columns counts the channels of all experts, one after the other */
    float *sums;        /* [n_matrices][n_columns]: sum over tokens of x^2 */
    float *counts;      /* [n_matrices]: tokens counted */
} rdg_imatrix_entry;

rdg_err rdg_imatrix_create(rdg_imatrix **out, rdg_error *e);
void rdg_imatrix_destroy(rdg_imatrix *m);
/* The GGUF form, or the legacy .dat form (told apart by the magic). All values must be finite and >= 0. */
rdg_err rdg_imatrix_read(const char *path, rdg_imatrix **out, rdg_error *e);
rdg_err rdg_imatrix_parse(const void *data, size_t bytes, rdg_imatrix **out, rdg_error *e);
rdg_err rdg_imatrix_write(const rdg_imatrix *m, const char *path, rdg_error *e); /* the GGUF form */

int64_t rdg_imatrix_n(const rdg_imatrix *m);
const rdg_imatrix_entry *rdg_imatrix_at(const rdg_imatrix *m, int64_t i);          /* sorted by name */
const rdg_imatrix_entry *rdg_imatrix_find(const rdg_imatrix *m, const char *name); /* NULL if absent */
/* Adds to (or creates) an entry: sums [n_matrices][n_columns], counts [n_matrices]. */
rdg_err rdg_imatrix_add(rdg_imatrix *m, const char *name, int64_t n_columns, int64_t n_matrices,
                        const float *sums, const float *counts, rdg_error *e);
/* The importance used for quantisation, [n_matrices][n_columns] into out: sums / counts; a matrix with no
 * samples gets 1 everywhere. Returns how many matrices had no samples. */
int64_t rdg_imatrix_values(const rdg_imatrix_entry *entry, float *out);

int64_t rdg_imatrix_chunk_count(const rdg_imatrix *m);
int64_t rdg_imatrix_chunk_size(const rdg_imatrix *m); /* tokens a chunk, 0 if unknown */
void rdg_imatrix_set_chunks(rdg_imatrix *m, int64_t count, int64_t size);
int64_t rdg_imatrix_n_datasets(const rdg_imatrix *m);
const char *rdg_imatrix_dataset(const rdg_imatrix *m, int64_t i);
rdg_err rdg_imatrix_add_dataset(rdg_imatrix *m, const char *name, rdg_error *e);

#ifdef __cplusplus
}
#endif
#endif
