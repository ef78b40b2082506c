/* Loading reads next to nothing: the file is put out of the page cache, and what of it is in memory is
 * counted page by page afterwards. That also shows reading ahead, which the memory of the process does not.
 */
#include "../support/support.h"
#include <ridge/ridge.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[] = "/tmp/ridge-load-XXXXXX";
static int fd = -1;
static size_t file_bytes;

static int make_file(void **state)
{
    (void)state;
    rdg_error e = {0};
    struct stat st;
    uint64_t bytes;
    int64_t n_params;
    rdg_synth_params p = {.like = "qwen3-0.6b", .recipe = RDG_RECIPE_Q4_K_M, .n_layers = 1, .seed = 1};
    if ((fd = mkstemp(path)) < 0) return -1;
    close(fd);
    if (rdg_synth(path, &p, &bytes, &n_params, &e)) {
        print_error("%s\n", e.message);
        return -1;
    }
    fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st)) return -1;
    file_bytes = (size_t)st.st_size;
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    close(fd);
    unlink(path);
    return 0;
}

/* Share of the file's pages that are in memory, in whoever's. */
static double in_memory(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = (file_bytes + page - 1) / page, count = 0;
    unsigned char *pages = calloc(n, 1);
    void *map = mmap(NULL, file_bytes, PROT_READ, MAP_SHARED, fd, 0);
    assert_non_null(pages);
    assert_true(map != MAP_FAILED);
    assert_int_equal(mincore(map, file_bytes, pages), 0);
    for (size_t i = 0; i < n; i++) count += pages[i] & 1;
    munmap(map, file_bytes);
    free(pages);
    return (double)count / (double)n;
}

static void loading_reads_next_to_nothing(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_model *model;
    rdg_session *session;
    rdg_session_params p;
    int32_t token = 7;
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    double before = in_memory();
    if (before > 0.01) {
        print_message("this file system keeps %.0f %% of the file in memory whatever it is told\n",
                      before * 100);
        skip();
    }
    rdg_session_defaults(&p);
    p.n_ctx = 16;
    assert_ok(rdg_model_load(path, NULL, &model, &e), &e);
    assert_ok(rdg_session_create(model, &p, &session, &e), &e);
    double loaded = in_memory();
    /* The first token needs one row of the embedding, which is most of this file, and the block. */
    assert_ok(rdg_session_eval(session, &token, 1, RDG_LOGITS_NONE, &e), &e);
    double evaluated = in_memory();
    assert_ok(rdg_session_eval(session, &token, 1, RDG_LOGITS_LAST, &e), &e);
    double all = in_memory();
    print_message("of %.0f MB in memory: loaded %.3f %%, first token %.1f %%, first logits %.1f %%\n",
                  (double)file_bytes * 1e-6, loaded * 100, evaluated * 100, all * 100);
    rdg_session_destroy(session);
    rdg_model_release(model);
    if (all < 0.9) { /* the numbers above mean nothing */
        print_message("this machine has no memory left to keep the file in\n");
        skip();
    }
    assert_true(loaded < 0.1); /* read-ahead, of this and of whatever else runs, is a few percent */
    assert_true(evaluated < 0.25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(loading_reads_next_to_nothing)};
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
