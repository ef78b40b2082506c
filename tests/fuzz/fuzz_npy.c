/* The .npy reader. */
#include "fuzz.h"
#include "format/npy.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    rdg_npy a;
    rdg_error e = {0};
    rdg_err err = rdg_npy_parse(data, n, &a, &e);
    FUZZ_CHECK(err != RDG_E_NOMEM && err != RDG_E_INTERNAL);
    if (err) {
        FUZZ_CHECK(!a.f32 && !a.i32 && e.code == err && e.message[0] && strlen(e.message) < sizeof e.message);
        return 0;
    }
    int64_t product = 1;
    for (int i = 0; i < RDG_NPY_MAX_DIMS; i++) product *= a.shape[i];
    FUZZ_CHECK(product == a.n_elements && !a.f32 == (a.type != RDG_NPY_FLOAT32));
    fuzz_touch(a.f32 ? (void *)a.f32 : (void *)a.i32, (size_t)a.n_elements * 4);
    rdg_npy_finish(&a);
    return 0;
}
