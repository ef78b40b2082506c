/* Quantisation of rows and of whole GGUF files. */
#ifndef RIDGE_QUANTIZE_H
#define RIDGE_QUANTIZE_H

#include <ridge/gguf.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Mixed recipes, named after the field's file types. The value is general.file_type. */
#define RDG_RECIPE_MAP(X)                                                                                    \
    X(F32, 0)                                                                                                \
    X(F16, 1)                                                                                                \
    X(Q4_0, 2)                                                                                               \
    X(Q4_1, 3)                                                                                               \
    X(Q8_0, 7)                                                                                               \
    X(Q5_0, 8)                                                                                               \
    X(Q5_1, 9)                                                                                               \
    X(Q2_K, 10)                                                                                              \
    X(Q3_K_S, 11)                                                                                            \
    X(Q3_K_M, 12)                                                                                            \
    X(Q3_K_L, 13)                                                                                            \
    X(Q4_K_S, 14)                                                                                            \
    X(Q4_K_M, 15)                                                                                            \
    X(Q5_K_S, 16)                                                                                            \
    X(Q5_K_M, 17)                                                                                            \
    X(Q6_K, 18)                                                                                              \
    X(Q2_K_S, 21)                                                                                            \
    X(IQ4_NL, 25)                                                                                            \
    X(IQ4_XS, 30)                                                                                            \
    X(BF16, 32)
typedef enum rdg_recipe {
#define RDG_RECIPE_ENUM(name, id) RDG_RECIPE_##name = id,
    RDG_RECIPE_MAP(RDG_RECIPE_ENUM)
#undef RDG_RECIPE_ENUM
} rdg_recipe;
bool rdg_recipe_from_name(const char *name, rdg_recipe *out); /* case-insensitive */
const char *rdg_recipe_name(rdg_recipe r);
const char *rdg_recipe_list(void); /* "F32 F16 Q4_0 …", for messages */

/* True if rows of this type can be turned into f32 / made from f32. */
bool rdg_type_can_dequantise(rdg_type t);
bool rdg_type_can_quantise(rdg_type t);

/* n_rows rows of n_columns elements (a multiple of the block): src holds n_rows * rdg_type_row_bytes.
 * Bit-exact with the formulas in docs/formats.md. Any alignment of src. */
rdg_err rdg_dequantise_rows(rdg_type t, const void *src, float *dst, int64_t n_rows, int64_t n_columns,
                            rdg_error *e);
/* importance: n_columns values >= 0, the same for every row, or NULL. Non-finite input is MALFORMED. */
rdg_err rdg_quantise_rows(rdg_type t, const float *src, void *dst, int64_t n_rows, int64_t n_columns,
                          const float *importance, rdg_error *e);

typedef struct rdg_imatrix rdg_imatrix; /* see imatrix.h */

typedef struct rdg_tensor_override {
    const char *pattern; /* regular expression (PCRE2), searched in the tensor's name */
    rdg_type type;
} rdg_tensor_override;

typedef struct rdg_quantize_params {
    rdg_recipe recipe;
    const rdg_imatrix *imatrix; /* or NULL */
    const char *imatrix_path;   /* noted in the metadata; or NULL */
    const rdg_tensor_override *overrides;
    int n_overrides;
    /* An rdg_type, or -1 for the recipe's. In a tied model, which has no output.weight, output_type is that
     * of token_embd.weight unless token_embedding_type is given, which then stands; the log says so. */
    int output_type, token_embedding_type;
    bool pure;             /* every quantisable tensor gets the base type */
    bool dry_run;          /* decide types and sizes only; nothing is written */
    bool allow_requantise; /* accept input that is quantised already */
    uint64_t split_bytes;  /* split output, 0 = one file */
    int n_threads;         /* >= 1 */
    const rdg_log *log;
} rdg_quantize_params;

typedef struct rdg_quantize_tensor {
    const char *name;
    rdg_type type_in, type_out;
    int64_t n_rows, n_columns; /* all outer dims multiplied into n_rows */
    uint64_t bytes_in, bytes_out;
    double rmse;          /* of the stored values, 0 if copied, NaN if dry run */
    double weighted_rmse; /* weighted by importance, NaN without */
    const char *warning;  /* fallback, missing importance, … or NULL */
} rdg_quantize_tensor;

typedef struct rdg_quantize_result {
    rdg_quantize_tensor *tensors;
    int64_t n_tensors;
    uint64_t bytes_in, bytes_out; /* whole files */
    uint64_t n_elements;
    double seconds;
    void *owner;
} rdg_quantize_result;
void rdg_quantize_result_finish(rdg_quantize_result *r);

/* IN (GGUF, maybe split) → OUT by recipe. Multi-threaded; the same bytes from any number of threads. Every
 * bound of the input is checked again before use. On failure nothing is left at `out`. `r` may be NULL. */
rdg_err rdg_quantize_file(const char *in, const char *out, const rdg_quantize_params *p,
                          rdg_quantize_result *r, rdg_error *e);

/* Compares the data of every tensor with the checksums that convert and quantize note in a file. bad: one
 * flag a tensor, or NULL. NOT_FOUND if the file has none. A difference is not an error of this call. */
rdg_err rdg_checksum_verify(const rdg_gguf *g, const rdg_log *log, bool *bad, int64_t *n_bad, rdg_error *e);

#ifdef __cplusplus
}
#endif
#endif
