/* Loading, using and converting tokenizers when the Nth allocation fails, for every N: an error or the same
 * result as ever (a cache or a just-in-time compiler that fails is done without), and no leak. */
#include <ridge/tokenizer.h>
#include "base/compiler.h"
#include "base/mem.h"
#include "convert/vocab.h"
#include "../support/support.h"
#include "../support/fault.h"

#include <unistd.h>

#define SEEDS RIDGE_SOURCE_DIR "/tests/fuzz/corpus/tokenizer/"
#define DATA  RIDGE_SOURCE_DIR "/tests/data/tokenizer/"

static const char text[] = " the cat <s>@@sat caf\xc3\xa9 \xe4\xbd\xa0 1234 bbab\xff  <u> ab";

typedef struct result {
    int32_t *ids;
    size_t n_ids, n_text;
    char *text;
} result;

static void finish(result *r)
{
    rdg_tokens_free(r->ids);
    rdg_text_free(r->text);
    *r = (result){0};
}

/* The whole life of a tokenizer. */
static rdg_err use(const char *path, result *r, rdg_error *e)
{
    rdg_gguf *g;
    rdg_tokenizer *t = NULL;
    *r = (result){0};
    rdg_err err = rdg_gguf_open(path, NULL, &g, e);
    if (err) return err;
    err = rdg_tokenizer_create(g, NULL, &t, e);
    rdg_gguf_close(g);
    if (!err)
        err = rdg_tokenize(t, text, sizeof text - 1,
                           (rdg_tokenize_params){.add_special = true, .parse_special = true}, &r->ids,
                           &r->n_ids, e);
    if (!err) err = rdg_detokenize(t, r->ids, r->n_ids, true, &r->text, &r->n_text, e);
    rdg_tokenizer_destroy(t);
    if (err) finish(r);
    return err;
}

static rdg_err convert(const char *dir, const char *out, rdg_error *e)
{
    rdg_vocab_report r = {0};
    rdg_gguf_writer *w;
    rdg_err err = rdg_gguf_writer_create(out, &w, e);
    if (err) return err;
    rdg_gguf_set_str(w, "general.architecture", "llama");
    err = rdg_vocab_convert(dir, 0, w, &r, NULL, e);
    if (!err) err = rdg_gguf_writer_begin(w, e);
    if (!err) err = rdg_gguf_writer_finish(w, e);
    rdg_gguf_writer_destroy(w);
    rdg_vocab_report_finish(&r);
    return err;
}

static void each_fault(const char *name, const char *path)
{
    rdg_error e = {0};
    result want;
    int n = 1;
    assert_ok(use(path, &want, &e), &e);
    for (bool faulted = true; faulted; n++) {
        result r;
        int64_t live = fault_live();
        assert_true(n < 20000);
        memset(&e, 0, sizeof e);
        fault_start(FAULT_ALLOC, n);
        rdg_err err = use(path, &r, &e);
        faulted = fault_stop();
        if (err) {
            if (err != RDG_E_NOMEM || e.code != err || !e.message[0])
                fail_msg("%s: fault %d: %s: %s", name, n, rdg_err_name(err), e.message);
            assert_true(faulted);
        } else {
            if (r.n_ids != want.n_ids || memcmp(r.ids, want.ids, want.n_ids * sizeof *want.ids) != 0)
                fail_msg("%s: fault %d: other ids and no error", name, n);
            assert_int_equal(r.n_text, want.n_text);
            assert_memory_equal(r.text, want.text, want.n_text);
            finish(&r);
        }
        assert_int_equal(fault_live(), live);
    }
    print_message("%s: %d allocations\n", name, n - 2);
    assert_true(n > 20);
    finish(&want);
}

static void test_use(void **state)
{
    static const char *const files[] = {"uni", "map", "json-bpe", "json-unigram", "json-wordpiece"};
    (void)state;
    for (int f = 0; f < RDG_COUNTOF(files); f++) {
        char path[512];
        snprintf(path, sizeof path, SEEDS "%s", files[f]);
        each_fault(files[f], path);
    }
}

/* A vocabulary of SentencePiece's kind that brings its merges; the text needs the first. */
static void test_use_merges(void **state)
{
    char path[] = "/tmp/ridge-fault-XXXXXX";
    rdg_error e = {0};
    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(convert(DATA "bpe-prepend", path, &e), &e);
    each_fault("bpe-prepend", path);
    unlink(path);
}

/* Thousands of allocations: the first ones, then each with a step that grows. */
static void test_convert(void **state)
{
    static const char *const folders[] = {"byte-level-nfc", "sentencepiece-unigram-bytes"};
    char out[] = "/tmp/ridge-fault-XXXXXX";
    (void)state;
    int fd = mkstemp(out);
    assert_true(fd >= 0);
    close(fd);
    for (int f = 0; f < RDG_COUNTOF(folders); f++) {
        char dir[512];
        rdg_error e = {0};
        int n = 1, failed = 0;
        snprintf(dir, sizeof dir, DATA "%s", folders[f]);
        assert_ok(convert(dir, out, &e), &e);
        for (bool faulted = true; faulted; n += 1 + n / 30) {
            int64_t live = fault_live();
            memset(&e, 0, sizeof e);
            fault_start(FAULT_ALLOC, n);
            rdg_err err = convert(dir, out, &e);
            faulted = fault_stop();
            if (err && (err != RDG_E_NOMEM || e.code != err || !e.message[0]))
                fail_msg("%s: fault %d: %s: %s", folders[f], n, rdg_err_name(err), e.message);
            failed += err != RDG_OK;
            assert_int_equal(fault_live(), live);
        }
        print_message("%s: %d faults, more than %d allocations\n", folders[f], failed, n / 2);
        assert_true(failed > 30);
    }
    unlink(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_use), cmocka_unit_test(test_use_merges),
                                       cmocka_unit_test(test_convert)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
