/* Tensor element and block types. The values are the type ids of the GGUF format. */
#ifndef RIDGE_TYPE_H
#define RIDGE_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* name, id, elements a block, bytes a block */
#define RDG_TYPE_MAP(X)                                                                                      \
    X(F32, 0, 1, 4)                                                                                          \
    X(F16, 1, 1, 2)                                                                                          \
    X(Q4_0, 2, 32, 18)                                                                                       \
    X(Q4_1, 3, 32, 20)                                                                                       \
    X(Q5_0, 6, 32, 22)                                                                                       \
    X(Q5_1, 7, 32, 24)                                                                                       \
    X(Q8_0, 8, 32, 34)                                                                                       \
    X(Q8_1, 9, 32, 36)                                                                                       \
    X(Q2_K, 10, 256, 84)                                                                                     \
    X(Q3_K, 11, 256, 110)                                                                                    \
    X(Q4_K, 12, 256, 144)                                                                                    \
    X(Q5_K, 13, 256, 176)                                                                                    \
    X(Q6_K, 14, 256, 210)                                                                                    \
    X(Q8_K, 15, 256, 292)                                                                                    \
    X(IQ2_XXS, 16, 256, 66)                                                                                  \
    X(IQ2_XS, 17, 256, 74)                                                                                   \
    X(IQ3_XXS, 18, 256, 98)                                                                                  \
    X(IQ1_S, 19, 256, 50)                                                                                    \
    X(IQ4_NL, 20, 32, 18)                                                                                    \
    X(IQ3_S, 21, 256, 110)                                                                                   \
    X(IQ2_S, 22, 256, 82)                                                                                    \
    X(IQ4_XS, 23, 256, 136)                                                                                  \
    X(I8, 24, 1, 1)                                                                                          \
    X(I16, 25, 1, 2)                                                                                         \
    X(I32, 26, 1, 4)                                                                                         \
    X(I64, 27, 1, 8)                                                                                         \
    X(F64, 28, 1, 8)                                                                                         \
    X(IQ1_M, 29, 256, 56)                                                                                    \
    X(BF16, 30, 1, 2)                                                                                        \
    X(TQ1_0, 34, 256, 54)                                                                                    \
    X(TQ2_0, 35, 256, 66)                                                                                    \
    X(MXFP4, 39, 32, 17)                                                                                     \
    X(NVFP4, 40, 64, 36)                                                                                     \
    X(Q1_0, 41, 128, 18)                                                                                     \
    X(Q2_0, 42, 64, 18)

typedef enum rdg_type {
#define RDG_TYPE_ENUM(name, id, elems, bytes) RDG_TYPE_##name = id,
    RDG_TYPE_MAP(RDG_TYPE_ENUM)
#undef RDG_TYPE_ENUM
        RDG_TYPE_COUNT = 43 /* ids are below this; holes exist: see rdg_type_valid */
} rdg_type;

bool rdg_type_valid(int64_t id);          /* true if the id is in the table */
const char *rdg_type_name(rdg_type t);    /* "Q4_K"; "?" for an invalid id */
int64_t rdg_type_block_elems(rdg_type t); /* elements a block, 0 for an invalid id */
int64_t rdg_type_block_bytes(rdg_type t); /* bytes a block, 0 for an invalid id */
bool rdg_type_is_quantised(rdg_type t);   /* block size > 1 */
/* Case-insensitive ("q4_k", "F16"); returns false if the name is unknown. */
bool rdg_type_from_name(const char *name, rdg_type *out);
/* Bytes of a row of n_columns elements, or -1 if n_columns is not a positive multiple of the block. */
int64_t rdg_type_row_bytes(rdg_type t, int64_t n_columns);

#ifdef __cplusplus
}
#endif
#endif
