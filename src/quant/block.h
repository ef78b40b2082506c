/* What the block layouts share. The layouts are written in the common subset of C, CUDA C and Metal:
 * fixed-width fields with natural alignment, no unions, no bit-fields. Rows in a file may start at any
 * address: host code copies a block with memcpy before it looks inside. All fields are little-endian. */
#ifndef RDG_QUANT_BLOCK_H
#define RDG_QUANT_BLOCK_H

#if defined(__METAL_VERSION__)
#include <metal_stdlib>
using namespace metal;
#elif !defined(__CUDACC_RTC__)
#include <stdint.h>
#endif

#if defined(__cplusplus) || defined(__METAL_VERSION__)
#define RDG_BLOCK_SIZE(type, bytes) static_assert(sizeof(type) == bytes, "layout of " #type)
#else
#define RDG_BLOCK_SIZE(type, bytes) _Static_assert(sizeof(type) == bytes, "layout of " #type)
#endif

#endif
