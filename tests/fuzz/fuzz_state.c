/* State files: the reader, and restoring them into a session of a small model. Each input is tried as it is
 * and again with its checksum, length and fingerprint put right, or nothing behind them would ever be
 * reached. */
#include "fuzz.h"
#include "base/hash.h"
#include "engine/session_internal.h"
#include "format/state.h"
#include <ridge/ridge.h>

#include <string.h>
#include <unistd.h>

enum { AT_FILE_BYTES = 16, AT_MODEL = 24, N_CTX = 48 };

/* Everything of a parsed file lies inside it. */
static void walk(const uint8_t *data, size_t n)
{
    rdg_state_file f;
    rdg_error e = {0};
    rdg_err err = rdg_state_parse(data, n, &f, &e);
    FUZZ_CHECK(err == RDG_OK || err == RDG_E_MALFORMED || err == RDG_E_UNSUPPORTED || err == RDG_E_LIMIT);
    if (err) {
        FUZZ_CHECK(e.code == err && e.message[0] && strlen(e.message) < sizeof e.message);
        return;
    }
    fuzz_touch(f.tokens, (size_t)f.head.n_tokens * 4);
    fuzz_touch(f.logits, (size_t)f.head.n_logits * 4);
    fuzz_touch(f.note, (size_t)f.head.note_bytes);
    size_t at = f.records_at;
    for (uint32_t i = 0; i < f.head.n_records; i++) {
        rdg_state_record r;
        FUZZ_CHECK(rdg_state_next(&f, &at, &r, &e) == RDG_OK);
        fuzz_touch(r.rows, (size_t)r.n_heads * (size_t)r.n_positions * r.row_bytes);
    }
}

/* gemma3: layers with a window and without. */
static rdg_session *make_session(void)
{
    char path[] = "/tmp/ridge-fuzz-XXXXXX";
    rdg_error e = {0};
    rdg_model *m = NULL;
    rdg_session *s = NULL;
    rdg_convert_params c = {.type = RDG_RECIPE_Q8_0, .n_threads = 1};
    rdg_session_params p = {
        .n_ctx = N_CTX, .n_batch = 8, .n_threads = 1, .kv_type_k = RDG_TYPE_Q4_0, .kv_type_v = RDG_TYPE_Q4_0};
    int fd = mkstemp(path);
    FUZZ_CHECK(fd >= 0);
    close(fd);
    FUZZ_CHECK(!rdg_convert(RIDGE_SOURCE_DIR "/tests/data/golden/gemma3", path, &c, NULL, &e));
    FUZZ_CHECK(!rdg_model_load(path, NULL, &m, &e));
    unlink(path);
    FUZZ_CHECK(!rdg_session_create(m, &p, &s, &e));
    rdg_model_release(m);
    return s;
}

static void restore(rdg_session *s, const uint8_t *data, size_t n)
{
    rdg_error e = {0};
    char *note = NULL;
    size_t note_bytes = 0;
    int64_t before = rdg_session_n_past(s);
    rdg_err err = rdg_session_restore_state(s, data, n, &note, &note_bytes, &e);
    FUZZ_CHECK(err != RDG_E_NOMEM && err != RDG_E_INTERNAL);
    FUZZ_CHECK(err ? !note && e.code == err && e.message[0] : note != NULL);
    FUZZ_CHECK(!err || rdg_session_n_past(s) == before);
    FUZZ_CHECK(rdg_session_n_past(s) <= N_CTX);
    rdg_text_free(note);
    if (err || rdg_session_n_past(s) == N_CTX) return;
    const int32_t token = 3; /* what was restored can be used */
    FUZZ_CHECK(rdg_session_eval(s, &token, 1, RDG_LOGITS_NONE, &e) == RDG_OK);
    FUZZ_CHECK(rdg_session_truncate(s, 0, &e) == RDG_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static rdg_session *s; /* one for all inputs, kept until the end */
    static uint64_t model;
    if (!s) {
        char path[] = "/tmp/ridge-fuzz-XXXXXX", *own;
        rdg_error e = {0};
        size_t own_bytes;
        s = make_session();
        int fd = mkstemp(path);
        FUZZ_CHECK(fd >= 0);
        close(fd);
        FUZZ_CHECK(!rdg_session_save_state(s, path, NULL, 0, &e));
        FUZZ_CHECK(!rdg_file_read(path, 1 << 20, false, &own, &own_bytes, &e));
        memcpy(&model, own + AT_MODEL, sizeof model);
        unlink(path);
        rdg_free(own);
    }
    walk(data, n);
    if (n < RDG_STATE_HEAD_BYTES + RDG_STATE_TRAILER_BYTES) return 0;
    uint8_t *fixed = malloc(n);
    FUZZ_CHECK(fixed != NULL);
    memcpy(fixed, data, n);
    uint64_t bytes = n;
    memcpy(fixed + AT_FILE_BYTES, &bytes, sizeof bytes);
    memcpy(fixed + AT_MODEL, &model, sizeof model);
    rdg_hash64 h;
    rdg_hash64_init(&h);
    rdg_hash64_update(&h, fixed, n - RDG_STATE_TRAILER_BYTES);
    uint64_t sum = rdg_hash64_value(&h);
    memcpy(fixed + n - RDG_STATE_TRAILER_BYTES, &sum, sizeof sum);
    walk(fixed, n);
    restore(s, fixed, n);
    free(fixed);
    return 0;
}
