/* Hugging Face folder → GGUF, in one streaming pass. */
#ifndef RIDGE_CONVERT_H
#define RIDGE_CONVERT_H

#include <ridge/imatrix.h>
#include <ridge/quantize.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rdg_convert_params {
    int type;                   /* an rdg_recipe, or -1 = auto: BF16 → BF16, F16 → F16, F32 → F32 */
    const rdg_imatrix *imatrix; /* for quantised types; or NULL */
    const char *imatrix_path;   /* noted in the metadata; or NULL */
    const char *name;           /* general.name; NULL = the folder's name */
    int n_threads;
    const rdg_log *log;
} rdg_convert_params;

typedef struct rdg_convert_result {
    char architecture[64];
    int64_t n_tensors, n_params;
    uint64_t bytes;
    double seconds;
    char **warnings; /* each also went to the log */
    int n_warnings;
} rdg_convert_result;
void rdg_convert_result_finish(rdg_convert_result *r);

/* Memory is bounded by the largest tensor plus a constant. Unknown architecture, missing or extra tensors and
 * unsupported settings name the exact field or tensor. On failure nothing is left at `out`. */
rdg_err rdg_convert(const char *dir, const char *out, const rdg_convert_params *p, rdg_convert_result *r,
                    rdg_error *e);

#ifdef __cplusplus
}
#endif
#endif
