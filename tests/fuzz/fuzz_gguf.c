/* The GGUF reader: structure, typed access, and every byte it hands out. */
#include "fuzz.h"
#include <ridge/gguf.h>
#include "format/verify.h"

#include <string.h>

static void use_kv(const rdg_gguf *g, const rdg_gguf_kv *kv)
{
    char key[64] = "";
    uint32_t u32;
    int64_t i64;
    float f32;
    bool flag;
    rdg_str str;
    rdg_error e;
    const rdg_gguf_kv *array;
    FUZZ_CHECK(kv->key.n > 0);
    fuzz_touch(kv->key.p, kv->key.n);
    if (kv->strings) {
        for (uint64_t i = 0; i < kv->count; i++) fuzz_touch(kv->strings[i].p, kv->strings[i].n);
    } else {
        for (uint64_t i = 0; i < kv->count; i++) {
            volatile double both = rdg_gguf_kv_float(kv, i) + (double)rdg_gguf_kv_int(kv, i);
            (void)both;
        }
    }
    if (kv->key.n >= sizeof key || memchr(kv->key.p, 0, kv->key.n)) return;
    memcpy(key, kv->key.p, kv->key.n);
    FUZZ_CHECK(rdg_gguf_find(g, key) == kv);
    rdg_gguf_get_u32(g, key, &u32, &e);
    rdg_gguf_get_i64(g, key, &i64, &e);
    rdg_gguf_get_f32(g, key, &f32, &e);
    rdg_gguf_get_bool(g, key, &flag, &e);
    rdg_gguf_get_str(g, key, &str, &e);
    rdg_gguf_get_array(g, key, RDG_GGUF_STRING, &array, &e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    rdg_gguf *g;
    rdg_error e = {0};
    rdg_err err = rdg_gguf_parse(data, n, &g, &e);
    FUZZ_CHECK((err != 0) == (g == NULL) && err != RDG_E_NOMEM && err != RDG_E_INTERNAL);
    if (err) {
        FUZZ_CHECK(e.code == err && e.message[0] && strlen(e.message) < sizeof e.message);
        return 0;
    }
    for (int64_t i = 0; i < rdg_gguf_n_kv(g); i++) use_kv(g, rdg_gguf_kv_at(g, i));
    for (int64_t i = 0; i < rdg_gguf_n_tensors(g); i++) {
        const rdg_gguf_tensor *t = rdg_gguf_tensor_at(g, i);
        FUZZ_CHECK(rdg_gguf_tensor_find(g, t->name) == t && t->n_elements > 0 && t->bytes > 0);
        int64_t n_blocks = (int64_t)t->bytes / rdg_type_block_bytes(t->type), first;
        FUZZ_CHECK(rdg_blocks_not_finite(t->type, t->data, n_blocks, &first) <= n_blocks && first < n_blocks);
        fuzz_touch(t->data, (size_t)t->bytes);
    }
    rdg_gguf_close(g);
    return 0;
}
