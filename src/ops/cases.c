#include "ops/cases.h"

bool rdg_case_weight_type(int i, rdg_type *out)
{
    for (int t = 0; t < RDG_TYPE_COUNT; t++)
        if (rdg_type_can_dequantise((rdg_type)t) && i-- == 0) {
            *out = (rdg_type)t;
            return true;
        }
    return false;
}

int rdg_case_n_weight_types(void)
{
    rdg_type t;
    int n = 0;
    while (rdg_case_weight_type(n, &t)) n++;
    return n;
}
