/* Both forms of importance matrices: what is accepted yields finite values. */
#include "fuzz.h"
#include <ridge/imatrix.h>

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    rdg_imatrix *m;
    rdg_error e = {0};
    rdg_err err = rdg_imatrix_parse(data, n, &m, &e);
    FUZZ_CHECK((err != 0) == (m == NULL) && err != RDG_E_NOMEM && err != RDG_E_INTERNAL);
    if (err) {
        FUZZ_CHECK(e.code == err && e.message[0] && strlen(e.message) < sizeof e.message);
        return 0;
    }
    for (int64_t i = 0; i < rdg_imatrix_n(m); i++) {
        const rdg_imatrix_entry *entry = rdg_imatrix_at(m, i);
        int64_t n_values = entry->n_columns * entry->n_matrices;
        float *values = malloc((size_t)n_values * sizeof *values);
        FUZZ_CHECK(values && rdg_imatrix_find(m, entry->name) == entry);
        rdg_imatrix_values(entry, values);
        for (int64_t k = 0; k < n_values; k++) FUZZ_CHECK(isfinite(values[k]) && values[k] >= 0);
        free(values);
    }
    for (int64_t i = 0; i < rdg_imatrix_n_datasets(m); i++)
        fuzz_touch(rdg_imatrix_dataset(m, i), strlen(rdg_imatrix_dataset(m, i)) + 1);
    rdg_imatrix_destroy(m);
    return 0;
}
