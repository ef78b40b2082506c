/* config.json of a Hugging Face folder: every model class, rope in both forms, windows, experts. */
#include "fuzz.h"
#include "convert/hf.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char folder[] = "/dev/null/no-folder"; /* no class finds another file there */
    rdg_hf c;
    rdg_error e = {0};
    rdg_err err = rdg_hf_parse(&c, folder, (const char *)data, n, &e);
    FUZZ_CHECK(err != RDG_E_NOMEM && err != RDG_E_INTERNAL);
    if (err)
        FUZZ_CHECK(e.code == err && e.message[0]);
    else {
        FUZZ_CHECK(c.cls && !rdg_gguf_writer_create("/dev/null/no-file", &c.writer, &e));
        rdg_hf_read_config(&c);
        FUZZ_CHECK(c.failed != RDG_E_NOMEM && c.failed != RDG_E_INTERNAL);
        if (c.failed)
            FUZZ_CHECK(c.error.code == c.failed && c.error.message[0]);
        else
            FUZZ_CHECK(c.n_layer > 0 && c.n_embd > 0 && c.n_head > 0 && c.n_head_kv > 0 && c.head_dim > 0 &&
                       c.n_rot >= 0 && c.n_rot <= c.head_dim && c.n_generated <= 2);
        for (int i = 0; i < c.n_generated; i++)
            fuzz_touch(c.generated[i].data, (size_t)c.generated[i].n * sizeof(float));
        for (size_t i = 0; i < c.n_warnings; i++) FUZZ_CHECK(c.warnings[i][0]);
        rdg_gguf_writer_destroy(c.writer);
    }
    rdg_hf_close(&c);
    return 0;
}
