/* Uploads: every byte arrives where it belongs, whatever the number of threads, the size of the slots and the
 * place the bytes come from; and what goes wrong is reported. */
#include "device/upload.h"
#include "base/rng.h"
#include "device/trace/trace.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

enum { N_PIECES = 37, MAX_PIECE = 90000, GAP = 8, SLOT = 8192 };

typedef struct setting {
    rdg_device *d;
    rdg_pool *pool;
    rdg_map map;
    char path[64];
    unsigned char *bytes, *want;
    uint64_t total, dst_bytes;
    rdg_buffer *dst, *back;
    rdg_upload_piece pieces[N_PIECES];
} setting;

static uint64_t seed;

/* Each byte of a row xor the piece's number. */
static void rewrite(const rdg_upload_piece *p, const void *row, void *out)
{
    for (uint64_t i = 0; i < p->row_bytes; i++)
        ((unsigned char *)out)[i] =
            ((const unsigned char *)row)[p->row_bytes - 1 - i] ^ (unsigned char)p->user[0];
}

static void set_up(setting *s, const char *device, bool from_file)
{
    rdg_rng rng;
    rdg_error e = {0};
    memset(s, 0, sizeof *s);
    rdg_rng_seed(&rng, seed);
    if (rdg_device_open(device, NULL, &s->d, &e)) {
        print_message("skipped: %s\n", e.message);
        skip();
    }
    assert_int_equal(rdg_pool_create(3, &s->pool, &e), RDG_OK);
    for (int i = 0; i < N_PIECES; i++) {
        rdg_upload_piece *p = &s->pieces[i];
        p->bytes = 1 + rdg_rng_below(&rng, i % 3 ? 700 : MAX_PIECE);
        p->user[0] = i * 5 + 1;
        if (i % 2) {
            p->row_bytes = 1 + rdg_rng_below(&rng, i % 5 ? 300 : SLOT - 256);
            p->bytes = (p->bytes / p->row_bytes + 1) * p->row_bytes;
            p->rewrite = rewrite;
        }
        p->dst_offset = s->dst_bytes;
        s->dst_bytes += p->bytes + GAP;
        s->total += p->bytes;
    }
    s->bytes = malloc(s->total);
    s->want = calloc(1, s->dst_bytes);
    assert_true(s->bytes && s->want);
    for (uint64_t i = 0; i < s->total; i++) s->bytes[i] = (unsigned char)rdg_rng_next(&rng);
    snprintf(s->path, sizeof s->path, "/tmp/ridge-upload-XXXXXX");
    int fd = mkstemp(s->path);
    assert_true(fd >= 0 && write(fd, s->bytes, s->total) == (ssize_t)s->total);
    close(fd);
    assert_int_equal(rdg_map_open(&s->map, s->path, &e), RDG_OK);
    assert_int_equal(rdg_buffer_create(s->d, RDG_MEMORY_DEVICE, s->dst_bytes, "dst", &s->dst, &e), RDG_OK);
    assert_int_equal(rdg_buffer_create(s->d, RDG_MEMORY_READBACK, s->dst_bytes, "back", &s->back, &e),
                     RDG_OK);
    uint64_t at = 0;
    for (int i = 0; i < N_PIECES; i++) {
        rdg_upload_piece *p = &s->pieces[i];
        p->dst = s->dst;
        p->src = (from_file ? s->map.data : s->bytes) + at;
        p->file = from_file ? &s->map : NULL;
        unsigned char *want = s->want + p->dst_offset;
        if (!p->row_bytes) memcpy(want, s->bytes + at, p->bytes);
        for (uint64_t r = 0; p->row_bytes && r < p->bytes; r += p->row_bytes)
            rewrite(p, s->bytes + at + r, want + r);
        at += p->bytes;
    }
}

static void tear_down(setting *s)
{
    rdg_buffer_destroy(s->dst);
    rdg_buffer_destroy(s->back);
    assert_int_equal(rdg_device_get_account(s->d)->n_buffers + rdg_device_get_account(s->d)->n_lists, 0);
    rdg_device_close(s->d);
    rdg_pool_destroy(s->pool);
    rdg_map_close(&s->map);
    unlink(s->path);
    free(s->bytes);
    free(s->want);
}

static void list_run(setting *s, bool fill)
{
    rdg_error e = {0};
    rdg_list *l;
    rdg_event done;
    assert_int_equal(rdg_list_create(s->d, 0, 0, "test", &l, &e), RDG_OK);
    if (fill)
        rdg_list_fill(l, s->dst, 0, s->dst_bytes / 4 * 4, 0);
    else
        rdg_list_copy(l, s->back, 0, s->dst, 0, s->dst_bytes);
    assert_int_equal(rdg_list_finish(l, &e), RDG_OK);
    assert_int_equal(rdg_submit(s->d, l, NULL, 0, &done, &e), RDG_OK);
    assert_int_equal(rdg_event_wait(s->d, done, -1, &e), RDG_OK);
    rdg_list_destroy(l);
}

static void everything_arrives(const char *device)
{
    static const rdg_upload_options options[] = {
        {0},
        {.slot_bytes = SLOT, .n_spare = 1},
        {.slot_bytes = SLOT, .n_threads = 1, .uncached = true},
        {.slot_bytes = SLOT + 100, .n_threads = 2, .way = RDG_UPLOAD_MAP},
        {.slot_bytes = SLOT, .n_threads = 3, .way = RDG_UPLOAD_FILE},
    };
    for (int from_file = 0; from_file < 2; from_file++) {
        setting s;
        rdg_error e = {0};
        rdg_upload_stats st;
        set_up(&s, device, from_file);
        for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
            list_run(&s, true);
            if (rdg_upload(s.d, s.pieces, N_PIECES, i == 2 ? NULL : s.pool, &options[i], NULL, &st, &e))
                fail_msg("%s (seed %llu)", e.message, (unsigned long long)seed);
            assert_int_equal(st.bytes, s.total);
            list_run(&s, false);
            const unsigned char *got = rdg_buffer_host(s.back);
            for (uint64_t k = 0; k < s.dst_bytes / 4 * 4; k++)
                if (got[k] != s.want[k])
                    fail_msg("options %d, byte %llu: %d instead of %d (seed %llu)", (int)i,
                             (unsigned long long)k, got[k], s.want[k], (unsigned long long)seed);
        }
        tear_down(&s);
    }
}

static void test_cpu(void **state)
{
    (void)state;
    everything_arrives("cpu");
}

static void test_vulkan(void **state)
{
    (void)state;
    everything_arrives("vulkan");
}

static int stop_at_once(void *user, const char *what, double done, double total)
{
    (void)what;
    (void)done;
    (void)total;
    return ++*(int *)user > 1;
}

static void test_failures(void **state)
{
    (void)state;
    setting s;
    rdg_error e = {0};
    rdg_upload_options o = {.slot_bytes = SLOT, .way = RDG_UPLOAD_FILE};
    set_up(&s, "trace", true);
    /* the file is cut while it is read */
    assert_int_equal(truncate(s.path, (off_t)s.total / 2), 0);
    assert_int_equal(rdg_upload(s.d, s.pieces, N_PIECES, s.pool, &o, NULL, NULL, &e), RDG_E_IO);
    assert_non_null(strstr(e.message, "cut while in use"));
    assert_int_equal(rdg_upload(s.d, s.pieces, N_PIECES, s.pool, &o, NULL, NULL, NULL), RDG_E_IO);
    tear_down(&s);

    set_up(&s, "trace", false);
    int calls = 0;
    rdg_log log = {.progress = stop_at_once, .user = &calls};
    assert_int_equal(rdg_upload(s.d, s.pieces, N_PIECES, NULL, &o, &log, NULL, &e), RDG_E_CANCELLED);
    assert_int_equal(calls, 2);
    s.pieces[0].row_bytes = s.pieces[0].bytes = SLOT + 1;
    assert_int_equal(rdg_upload(s.d, s.pieces, N_PIECES, NULL, &o, NULL, NULL, &e), RDG_E_LIMIT);
    tear_down(&s);
}

/* The Nth call of the device fails, for every N: the code comes back, nothing is left behind, nobody waits.
 */
static void test_nth_call(void **state)
{
    static const rdg_err codes[] = {RDG_E_DEVICE, RDG_E_NOMEM, RDG_E_DEVICE_LOST};
    (void)state;
    for (int c = 0; c < 3; c++) {
        bool past = false;
        for (int64_t nth = 1; !past; nth++) {
            setting s;
            rdg_error e = {0};
            rdg_upload_options o = {.slot_bytes = SLOT, .n_spare = 1, .way = RDG_UPLOAD_FASTER};
            set_up(&s, "trace", true);
            int64_t before = rdg_trace_calls(s.d);
            rdg_trace_fail_at(s.d, nth, codes[c]);
            rdg_err rc = rdg_upload(s.d, s.pieces, N_PIECES, nth % 2 ? s.pool : NULL, &o, NULL, NULL, &e);
            past = rdg_trace_calls(s.d) - before < nth;
            if (!past && (rc != codes[c] || !strstr(e.message, "fails as asked")))
                fail_msg("call %d: %s, \"%s\"", (int)nth, rdg_err_name(rc), e.message);
            if (past) assert_int_equal(rc, RDG_OK);
            tear_down(&s);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_vulkan),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_nth_call),
    };
    seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
