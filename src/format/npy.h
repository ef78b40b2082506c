/* NumPy .npy files: writing float32 matrices row by row, reading float32 and int32 arrays. */
#ifndef RDG_FORMAT_NPY_H
#define RDG_FORMAT_NPY_H

#include "base/file.h"

enum { RDG_NPY_MAX_DIMS = 4 };

typedef enum rdg_npy_type { RDG_NPY_FLOAT32, RDG_NPY_INT32 } rdg_npy_type;

typedef struct rdg_npy {
    rdg_npy_type type;
    int n_dims;                      /* 0 … 4 */
    int64_t shape[RDG_NPY_MAX_DIMS]; /* outermost first; absent ones are 1 */
    int64_t n_elements;
    float *f32; /* n_elements, owned; NULL for the other type */
    int32_t *i32;
} rdg_npy;

/* Little-endian, C order, versions 1 to 3. */
rdg_err rdg_npy_read(const char *path, rdg_npy *out, rdg_error *e);
rdg_err rdg_npy_parse(const void *data, size_t bytes, rdg_npy *out, rdg_error *e);
void rdg_npy_finish(rdg_npy *a);

/* A float32 matrix (version 1.0) whose number of rows is known at the end only. The file appears with commit.
 */
typedef struct rdg_npy_writer {
    rdg_out out;
    int64_t n_rows, n_columns;
} rdg_npy_writer;
rdg_err rdg_npy_writer_open(rdg_npy_writer *w, const char *path, int64_t n_columns, rdg_error *e);
rdg_err rdg_npy_write_rows(rdg_npy_writer *w, const float *rows, int64_t n_rows, rdg_error *e);
rdg_err rdg_npy_writer_commit(rdg_npy_writer *w, rdg_error *e);
void rdg_npy_writer_close(rdg_npy_writer *w); /* idempotent; leaves no file if not committed */

#endif
