/* The safetensors reader: one file, and every byte it hands out. */
#include "fuzz.h"
#include "format/safetensors.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    rdg_safetensors *s;
    rdg_error e = {0};
    uint64_t sum = 0;
    rdg_err err = rdg_safetensors_parse(data, n, &s, &e);
    FUZZ_CHECK((err != 0) == (s == NULL) && err != RDG_E_NOMEM && err != RDG_E_INTERNAL);
    if (err) {
        FUZZ_CHECK(e.code == err && e.message[0] && strlen(e.message) < sizeof e.message);
        return 0;
    }
    for (int64_t i = 0; i < rdg_safetensors_n(s); i++) {
        const rdg_safetensor *t = rdg_safetensors_at(s, i);
        FUZZ_CHECK(rdg_safetensors_find(s, t->name) == t);
        FUZZ_CHECK(t->bytes == t->n_elements * rdg_dtype_bytes(t->dtype));
        fuzz_touch(t->data, (size_t)t->bytes);
        sum += t->bytes;
    }
    FUZZ_CHECK(sum == rdg_safetensors_bytes(s) && sum < n);
    rdg_safetensors_close(s);
    return 0;
}
