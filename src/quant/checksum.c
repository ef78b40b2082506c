/* Checksums of tensor data inside a GGUF file: key "ridge.checksums", one string with 16 hexadecimal digits
 * for each tensor in file order, the XXH64 of its bytes. One string of known length can be written with the
 * header and filled in when all data has been seen. */
#include "quant/checksum.h"
#include "base/file.h"
#include "base/hash.h"

#include <stdio.h>
#include <string.h>

enum { STEP_BYTES = 8 << 20 };

rdg_err rdg_checksum_reserve(rdg_gguf_writer *w, int64_t n_tensors, rdg_error *e)
{
    char *zeros = rdg_alloc((size_t)n_tensors * 16 + 1);
    if (!zeros) return rdg_fail(e, RDG_E_NOMEM, "no memory for %lld checksums", (long long)n_tensors);
    memset(zeros, '0', (size_t)n_tensors * 16);
    rdg_gguf_set_str(w, RDG_CHECKSUM_KEY, zeros);
    rdg_free(zeros);
    return RDG_OK;
}

void rdg_checksum_append(rdg_buf *digits, uint64_t hash)
{
    rdg_buf_printf(digits, "%016llx", (unsigned long long)hash);
}

rdg_err rdg_checksum_store(rdg_gguf_writer *w, const rdg_buf *digits, rdg_error *e)
{
    if (digits->failed) return rdg_fail(e, RDG_E_NOMEM, "no memory for checksums");
    return digits->len ? rdg_gguf_writer_patch_str(w, RDG_CHECKSUM_KEY, digits->data, e) : RDG_OK;
}

static rdg_err hash_tensor(const rdg_gguf *g, const rdg_gguf_tensor *t, bool mapped, uint64_t *hash,
                           rdg_error *e)
{
    rdg_hash64 h;
    rdg_hash64_init(&h);
    for (uint64_t at = 0; at < t->bytes; at += STEP_BYTES) {
        size_t n = (size_t)RDG_MIN(t->bytes - at, (uint64_t)STEP_BYTES);
        rdg_err err = rdg_gguf_recheck(g, e);
        if (err) return err;
        rdg_hash64_update(&h, (const char *)t->data + at, n);
        if (mapped) rdg_map_release((const char *)t->data + at, n);
    }
    *hash = rdg_hash64_value(&h);
    return RDG_OK;
}

rdg_err rdg_checksum_verify(const rdg_gguf *g, const rdg_log *log, bool *bad, int64_t *n_bad, rdg_error *e)
{
    rdg_str digits;
    int64_t n_tensors = rdg_gguf_n_tensors(g);
    bool mapped = rdg_gguf_path(g)[0] != '\0';
    double done = 0;
    *n_bad = 0;
    rdg_err err = rdg_gguf_get_str(g, RDG_CHECKSUM_KEY, &digits, e);
    if (err == RDG_E_NOT_FOUND)
        return rdg_fail(e, RDG_E_NOT_FOUND, "'%s' holds no checksums; quantize and convert write them",
                        rdg_gguf_path(g));
    if (err) return err;
    if (digits.n != 16 * (size_t)n_tensors)
        return rdg_fail(e, RDG_E_MALFORMED,
                        "key '" RDG_CHECKSUM_KEY "' has %zu digits, %lld tensors need %lld", digits.n,
                        (long long)n_tensors, (long long)(16 * n_tensors));
    for (int64_t i = 0; i < n_tensors; i++) {
        const rdg_gguf_tensor *t = rdg_gguf_tensor_at(g, i);
        char text[17];
        uint64_t hash;
        err = hash_tensor(g, t, mapped, &hash, e);
        if (err) return err;
        snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
        bool differs = memcmp(text, digits.p + 16 * i, 16) != 0;
        if (bad) bad[i] = differs;
        *n_bad += differs;
        done += (double)t->bytes;
        if (rdg_log_progress(log, "verifying", done, (double)rdg_gguf_file_bytes(g)))
            return rdg_fail(e, RDG_E_CANCELLED, "verifying '%s' was cancelled", rdg_gguf_path(g));
    }
    return RDG_OK;
}
