/* The tensors of the output file: which tensors of the folder each is made of, and how its elements are found
 * there. Every transform but the reordering of MXFP4 is an addressing rule: element (column, row, matrix) of
 * the output is element offset + column * stride_column + row * stride_row + matrix * stride_matrix of the
 * source. */
#ifndef RDG_CONVERT_OUTPUTS_H
#define RDG_CONVERT_OUTPUTS_H

#include "convert/hf.h"
#include "format/safetensors.h"

typedef struct rdg_hf_output {
    char name[64];
    const rdg_map_rule *rule;      /* NULL: generated */
    const float *generated;        /* or NULL */
    int64_t layer;                 /* -1 outside blocks */
    int order;                     /* number of the rule, for sorting */
    const rdg_safetensor **source; /* n_sources of them; more than one: one matrix each */
    int64_t n_sources;
    const rdg_safetensor *scales; /* MXFP4 */
    rdg_type present;             /* what the source would be without a recipe: F32, F16, BF16, MXFP4 */
    rdg_type type;                /* what is written */
    int n_dims;
    int64_t dim[4];
    /* the same elements as n_matrices matrices of n_rows rows of n_columns */
    int64_t n_columns, n_rows, n_matrices;
    int64_t offset, stride_column, stride_row, stride_matrix;
    int64_t permute_head_dim; /* rows of heads this long are permuted; 0 = not */
} rdg_hf_output;

typedef struct rdg_hf_outputs {
    rdg_hf_output *items; /* in file order: outside blocks first, then block by block */
    int64_t n;
    size_t cap;
} rdg_hf_outputs;

/* Matches every tensor of s against the class's rules. Tensors that no rule knows, required ones that are
 * absent, duplicates, shapes and dtypes that do not fit: an error that names them. Owned by c's arena, apart
 * from items. */
rdg_err rdg_hf_outputs_build(rdg_hf *c, const rdg_safetensors *s, rdg_hf_outputs *out);
void rdg_hf_outputs_finish(rdg_hf_outputs *out);

/* For tests: does `name` match? Numbers of {i}, {e}, {h}, {g} go to i and e; *suffix is what ".*" stood for.
 */
bool rdg_map_match(const char *pattern, const char *name, int64_t *i, int64_t *e, const char **suffix);

#endif
