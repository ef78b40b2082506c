#include <ridge/type.h>

#include <strings.h>

typedef struct type_row {
    const char *name;
    int16_t elems, bytes;
} type_row;

static const type_row rows[RDG_TYPE_COUNT] = {
#define X(name, id, elems, bytes) [id] = {#name, elems, bytes},
    RDG_TYPE_MAP(X)
#undef X
};

bool rdg_type_valid(int64_t id)
{
    return id >= 0 && id < RDG_TYPE_COUNT && rows[id].name;
}

const char *rdg_type_name(rdg_type t)
{
    return rdg_type_valid(t) ? rows[t].name : "?";
}

int64_t rdg_type_block_elems(rdg_type t)
{
    return rdg_type_valid(t) ? rows[t].elems : 0;
}

int64_t rdg_type_block_bytes(rdg_type t)
{
    return rdg_type_valid(t) ? rows[t].bytes : 0;
}

bool rdg_type_is_quantised(rdg_type t)
{
    return rdg_type_block_elems(t) > 1;
}

bool rdg_type_from_name(const char *name, rdg_type *out)
{
    for (int i = 0; i < RDG_TYPE_COUNT; i++) {
        if (rows[i].name && !strcasecmp(rows[i].name, name)) {
            *out = (rdg_type)i;
            return true;
        }
    }
    return false;
}

int64_t rdg_type_row_bytes(rdg_type t, int64_t n_columns)
{
    int64_t elems = rdg_type_block_elems(t), bytes;
    if (elems == 0 || n_columns <= 0 || n_columns % elems != 0) return -1;
    if (__builtin_mul_overflow(n_columns / elems, rdg_type_block_bytes(t), &bytes)) return -1;
    return bytes;
}
