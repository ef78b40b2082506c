#include "ops/op.h"
#include "base/half.h"
#include "quant/quant.h"

#include <string.h>

void rdg_tensor_init(rdg_tensor *t, rdg_type type, int64_t d0, int64_t d1, int64_t d2, int64_t d3)
{
    *t = (rdg_tensor){.type = type, .dim = {d0, d1, d2, d3}};
    t->stride[0] = rdg_type_block_bytes(type);
    t->stride[1] = d0 > 0 ? rdg_type_row_bytes(type, d0) : 0;
    t->stride[2] = t->stride[1] * d1;
    t->stride[3] = t->stride[2] * d2;
}

bool rdg_tensor_dense(const rdg_tensor *t)
{
    int64_t stride = rdg_type_row_bytes(t->type, t->dim[0]);
    for (int d = 1; d < 4; d++) {
        if (t->dim[d] > 1 && t->stride[d] != stride) return false;
        stride *= t->dim[d];
    }
    return true;
}

int64_t rdg_tensor_extent_bytes(const rdg_tensor *t)
{
    int64_t bytes = t->dim[0] / rdg_type_block_elems(t->type) * rdg_type_block_bytes(t->type);
    for (int d = 1; d < 4; d++) bytes += (t->dim[d] - 1) * t->stride[d];
    return bytes;
}

int64_t rdg_tensor_bytes(const rdg_tensor *t)
{
    return rdg_type_row_bytes(t->type, t->dim[0]) * rdg_tensor_n_rows(t);
}

double rdg_tensor_get(const rdg_tensor *t, int64_t i0, int64_t i1, int64_t i2, int64_t i3)
{
    enum { LARGEST_BLOCK = 256 };
    float block[LARGEST_BLOCK];
    int64_t elems = rdg_type_block_elems(t->type);
    const char *p = (const char *)rdg_tensor_row(t, i1, i2, i3) + i0 / elems * t->stride[0];
    switch (t->type) { /* the integers and F64, which dequantisation to f32 does not cover */
    case RDG_TYPE_I8: return (double)*(const int8_t *)p;
    case RDG_TYPE_I16: {
        int16_t v;
        memcpy(&v, p, sizeof v);
        return (double)v;
    }
    case RDG_TYPE_I32: {
        int32_t v;
        memcpy(&v, p, sizeof v);
        return (double)v;
    }
    case RDG_TYPE_I64: {
        int64_t v;
        memcpy(&v, p, sizeof v);
        return (double)v;
    }
    case RDG_TYPE_F64: {
        double v;
        memcpy(&v, p, sizeof v);
        return v;
    }
    default: break;
    }
    if (!rdg_type_can_dequantise(t->type) || elems > LARGEST_BLOCK) return 0.0;
    rdg_quant_ops[t->type].dequantise(p, block, elems);
    return (double)block[i0 % elems];
}

const char *rdg_backend_name(rdg_backend b)
{
    static const char *const names[RDG_BACKEND_COUNT] = {"cpu", "vulkan", "cuda", "metal"};
    return b >= 0 && b < RDG_BACKEND_COUNT ? names[b] : "?";
}
