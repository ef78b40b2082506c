#include "ops/gpu_planar.h"
#include "device/device.h"

#include <string.h>

typedef struct plane {
    int first, bytes; /* of the block */
} plane;
typedef struct planar_row {
    rdg_type type;
    int n_planes;
    plane planes[4];
} planar_row;

static const planar_row table[] = {
    {RDG_TYPE_Q4_0, 2, {{2, 16}, {0, 2}}},
    {RDG_TYPE_Q8_0, 2, {{2, 32}, {0, 2}}},
    {RDG_TYPE_Q6_K, 4, {{0, 128}, {128, 64}, {192, 16}, {208, 2}}},
};

static const planar_row *find(rdg_type type)
{
    for (int i = 0; i < RDG_COUNTOF(table); i++)
        if (table[i].type == type) return &table[i];
    return NULL;
}

bool rdg_gpu_can_be_planar(rdg_type type, int64_t n_columns)
{
    return find(type) && n_columns % rdg_type_block_elems(type) == 0 &&
           n_columns / rdg_type_block_elems(type) % 8 == 0;
}

void rdg_gpu_make_planar(rdg_type type, int64_t n_columns, const void *row, void *out)
{
    const planar_row *r = find(type);
    int64_t n = n_columns / rdg_type_block_elems(type), block = rdg_type_block_bytes(type);
    char *dst = out;
    for (int k = 0; k < r->n_planes; k++) {
        const char *src = (const char *)row + r->planes[k].first;
        size_t bytes = (size_t)r->planes[k].bytes;
        for (int64_t b = 0; b < n; b++, src += block, dst += bytes) memcpy(dst, src, bytes);
    }
}

uint32_t rdg_gpu_weight_type(const rdg_tensor *t)
{
    return (uint32_t)t->type +
           (t->buffer && rdg_buffer_tag(t->buffer) == RDG_GPU_PLANAR ? RDG_GPU_PLANAR : 0);
}
