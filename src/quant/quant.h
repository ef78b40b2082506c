/* Row conversions of every block format, and the table that finds them by type. The layouts are in one header
 * per format (q4_k.h, …); the conversions in the .c file of the same name. All are pure functions without
 * allocation. Sources and destinations of blocks need no alignment. n_columns is a positive multiple of the
 * block. */
#ifndef RDG_QUANT_QUANT_H
#define RDG_QUANT_QUANT_H

#include <ridge/quantize.h>

typedef struct rdg_search rdg_search; /* search.h */

/* Exactly the formula in the format's header, products associated as d * scale first, then times q, then
 * minus. */
typedef void rdg_dequantise_fn(const void *src, float *dst, int64_t n_columns);
/* One row. importance: n_columns values >= 0, or NULL. Input is finite. search: rdg_search_best() or any
 * other, the result does not depend on it; unused by formats without a search. */
typedef void rdg_quantise_fn(const rdg_search *search, const float *src, void *dst, int64_t n_columns,
                             const float *importance);

typedef struct rdg_quant_op {
    rdg_dequantise_fn *dequantise; /* NULL: the type's values are not known to ridge */
    rdg_quantise_fn *quantise;     /* NULL: read only */
    int n_halves;                  /* f16 scales in a block, at these bytes: all must be finite */
    int half_at[2];
} rdg_quant_op;
extern const rdg_quant_op rdg_quant_ops[RDG_TYPE_COUNT];

/* All n_columns values finite, >= 0 and small enough for the searches, else MALFORMED. */
rdg_err rdg_importance_check(const float *importance, int64_t n_columns, rdg_error *e);
/* One row, with the input and the result checked: MALFORMED names `row` and the column. The type can be
 * quantised and the importance has been checked. */
rdg_err rdg_quantise_row(const rdg_search *search, rdg_type t, const float *src, void *dst, int64_t n_columns,
                         const float *importance, int64_t row, rdg_error *e);

rdg_dequantise_fn rdg_f32_dequantise, rdg_f16_dequantise, rdg_bf16_dequantise;
rdg_dequantise_fn rdg_q4_0_dequantise, rdg_q4_1_dequantise, rdg_q5_0_dequantise, rdg_q5_1_dequantise;
rdg_dequantise_fn rdg_q8_0_dequantise, rdg_q8_1_dequantise, rdg_q8_k_dequantise;
rdg_dequantise_fn rdg_q2_k_dequantise, rdg_q3_k_dequantise, rdg_q4_k_dequantise, rdg_q5_k_dequantise;
rdg_dequantise_fn rdg_q6_k_dequantise, rdg_iq4_nl_dequantise, rdg_iq4_xs_dequantise;
rdg_dequantise_fn rdg_mxfp4_dequantise, rdg_nvfp4_dequantise;
rdg_dequantise_fn rdg_q1_0_dequantise, rdg_q2_0_dequantise, rdg_tq1_0_dequantise, rdg_tq2_0_dequantise;

rdg_quantise_fn rdg_f32_quantise, rdg_f16_quantise, rdg_bf16_quantise;
rdg_quantise_fn rdg_q4_0_quantise, rdg_q4_1_quantise, rdg_q5_0_quantise, rdg_q5_1_quantise;
rdg_quantise_fn rdg_q8_0_quantise, rdg_q8_1_quantise, rdg_q8_k_quantise;
rdg_quantise_fn rdg_q2_k_quantise, rdg_q3_k_quantise, rdg_q4_k_quantise, rdg_q5_k_quantise;
rdg_quantise_fn rdg_q6_k_quantise, rdg_iq4_nl_quantise, rdg_iq4_xs_quantise;
rdg_quantise_fn rdg_mxfp4_quantise, rdg_nvfp4_quantise;
rdg_quantise_fn rdg_q1_0_quantise, rdg_q2_0_quantise, rdg_tq2_0_quantise;

#endif
