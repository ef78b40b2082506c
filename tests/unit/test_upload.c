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

enum { N_PIECES = 37, MAX_PIECE = 90000, GAP = 8, SLOT = 8192, N_THREADS = 16, N_RANDOM = 12 };

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

static void set_up(setting *s, const char *device, bool from_file, int n_threads)
{
    rdg_rng rng;
    rdg_error e = {0};
    memset(s, 0, sizeof *s);
    rdg_rng_seed(&rng, seed);
    if (rdg_device_open(device, NULL, &s->d, &e)) {
        print_message("skipped: %s\n", e.message);
        skip();
    }
    assert_int_equal(rdg_pool_create(n_threads, &s->pool, &e), RDG_OK);
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

static void check_upload(setting *s, rdg_pool *pool, const rdg_upload_options *o)
{
    rdg_error e = {0};
    rdg_upload_stats st;
    list_run(s, true);
    rdg_err rc = rdg_upload(s->d, s->pieces, N_PIECES, pool, o, NULL, &st, &e);
    list_run(s, false);
    const unsigned char *got = rdg_buffer_host(s->back);
    uint64_t bad = 0;
    while (!rc && bad < s->dst_bytes / 4 * 4 && got[bad] == s->want[bad]) bad++;
    if (rc || bad < s->dst_bytes / 4 * 4 || st.bytes != s->total)
        fail_msg("%s byte %llu of %llu, %llu bytes said to have arrived; %d threads, slots of %llu + %d, "
                 "shares of %llu, way %d (seed %llu)",
                 rc ? e.message : "wrong:", (unsigned long long)bad, (unsigned long long)s->dst_bytes,
                 (unsigned long long)st.bytes, o->n_threads, (unsigned long long)o->slot_bytes, o->n_spare,
                 (unsigned long long)o->share_bytes, o->way, (unsigned long long)seed);
}

static void everything_arrives(const char *device)
{
    static const rdg_upload_options options[] = {
        {0},
        {.slot_bytes = SLOT, .n_spare = 1},
        {.slot_bytes = SLOT, .n_threads = 1, .uncached = true},
        {.slot_bytes = SLOT + 100, .n_threads = 2, .way = RDG_UPLOAD_MAP},
        {.slot_bytes = SLOT, .n_threads = 3, .way = RDG_UPLOAD_FILE},
        {.slot_bytes = SLOT, .share_bytes = 1}, /* a row each */
        {.slot_bytes = 4 * SLOT, .share_bytes = SLOT, .n_spare = 1},
    };
    rdg_rng rng;
    rdg_rng_seed(&rng, seed + 1);
    for (int from_file = 0; from_file < 2; from_file++) {
        setting s;
        set_up(&s, device, from_file, N_THREADS);
        for (size_t i = 0; i < sizeof options / sizeof *options; i++)
            check_upload(&s, i == 2 ? NULL : s.pool, &options[i]);
        for (int i = 0; i < N_RANDOM; i++) {
            rdg_upload_options o = {.n_threads = 1 + (int)rdg_rng_below(&rng, N_THREADS),
                                    .slot_bytes = SLOT + rdg_rng_below(&rng, 5 * SLOT),
                                    .n_spare = 1 + (int)rdg_rng_below(&rng, 6),
                                    .way = (rdg_upload_way)rdg_rng_below(&rng, 3)};
            o.share_bytes = 1 + rdg_rng_below(&rng, i % 2 ? 2000 : o.slot_bytes);
            check_upload(&s, s.pool, &o);
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

static int count_lines(const char *text, const char *line)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, line)); at++) n++;
    return n;
}

/* What a slot's shares hold goes in one copy, where it is of one piece, and in one submit, whoever filled it;
 * there is no more staging than asked for. */
static void test_shares(void **state)
{
    (void)state;
    enum { SHARE = 1024, N_SLOTS = 40, ROW = SHARE / 4 };
    static const rdg_upload_options o = {
        .n_threads = 6, .slot_bytes = 4 * SHARE, .share_bytes = SHARE, .n_spare = 2};
    for (int rows = 0; rows < 2; rows++) {
        setting s;
        rdg_error e = {0};
        rdg_upload_stats st;
        set_up(&s, "trace", false, N_THREADS);
        unsigned char *src = calloc(N_SLOTS, o.slot_bytes);
        rdg_buffer *dst;
        assert_non_null(src);
        assert_int_equal(rdg_buffer_create(s.d, RDG_MEMORY_DEVICE, N_SLOTS * o.slot_bytes, "dst", &dst, &e),
                         RDG_OK);
        rdg_upload_piece p = {.dst = dst, .src = src, .bytes = N_SLOTS * o.slot_bytes};
        if (rows) p.row_bytes = ROW, p.rewrite = rewrite;
        rdg_trace_clear(s.d);
        assert_int_equal(rdg_upload(s.d, &p, 1, s.pool, &o, NULL, &st, &e), RDG_OK);
        assert_int_equal(count_lines(rdg_trace_text(s.d), "copy "), N_SLOTS);
        assert_int_equal(count_lines(rdg_trace_text(s.d), "submit "), N_SLOTS);
        /* six shares are two slots; all are there, or what is left does without */
        assert_true(st.staging_bytes <= 4 * o.slot_bytes && st.staging_bytes >= o.slot_bytes);
        assert_int_equal(st.n_threads, 6);
        rdg_buffer_destroy(dst);
        free(src);
        tear_down(&s);
    }
}

/* More pieces than a slot's list takes. */
static void test_tiny_pieces(void **state)
{
    (void)state;
    enum { N = 5000 };
    static rdg_upload_piece pieces[N];
    static unsigned char src[4 * N];
    setting s;
    rdg_error e = {0};
    rdg_rng rng;
    uint64_t at = 0;
    rdg_rng_seed(&rng, seed + 2);
    set_up(&s, "cpu", false, N_THREADS);
    for (size_t i = 0; i < sizeof src; i++) src[i] = (unsigned char)rdg_rng_next(&rng);
    rdg_buffer *dst;
    assert_int_equal(rdg_buffer_create(s.d, RDG_MEMORY_READBACK, sizeof src, "dst", &dst, &e), RDG_OK);
    for (int i = 0; i < N; i++) {
        pieces[i] = (rdg_upload_piece){
            .dst = dst, .dst_offset = at, .src = src + at, .bytes = 1 + rdg_rng_below(&rng, 4)};
        at += pieces[i].bytes;
    }
    for (int threads = 0; threads < 2; threads++) {
        memset(rdg_buffer_host(dst), 0, sizeof src);
        assert_int_equal(rdg_upload(s.d, pieces, N, threads ? s.pool : NULL, NULL, NULL, NULL, &e), RDG_OK);
        assert_memory_equal(rdg_buffer_host(dst), src, at);
    }
    rdg_buffer_destroy(dst);
    tear_down(&s);
}

/* Leaving out a half is for measuring: it must end, whatever the threads and slots are. */
static void test_halves(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        setting s;
        rdg_error e = {0};
        rdg_upload_stats st;
        rdg_upload_options o = {.n_threads = i / 2 * 5 + 1, .slot_bytes = SLOT, .share_bytes = SLOT / 3};
        o.skip_fill = i % 2;
        o.skip_copy = o.skip_rewrite = !o.skip_fill;
        set_up(&s, "trace", true, N_THREADS);
        rdg_trace_clear(s.d);
        assert_int_equal(rdg_upload(s.d, s.pieces, N_PIECES, s.pool, &o, NULL, &st, &e), RDG_OK);
        assert_int_equal(st.bytes, s.total);
        assert_int_equal(strstr(rdg_trace_text(s.d), "submit ") != NULL, o.skip_fill);
        tear_down(&s);
    }
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
    set_up(&s, "trace", true, N_THREADS);
    /* the file is cut while it is read */
    assert_int_equal(truncate(s.path, (off_t)s.total / 2), 0);
    assert_int_equal(rdg_upload(s.d, s.pieces, N_PIECES, s.pool, &o, NULL, NULL, &e), RDG_E_IO);
    assert_non_null(strstr(e.message, "cut while in use"));
    assert_int_equal(rdg_upload(s.d, s.pieces, N_PIECES, s.pool, &o, NULL, NULL, NULL), RDG_E_IO);
    tear_down(&s);

    set_up(&s, "trace", false, 3);
    int calls = 0;
    rdg_log log = {.progress = stop_at_once, .user = &calls};
    assert_int_equal(rdg_upload(s.d, s.pieces, N_PIECES, NULL, &o, &log, NULL, &e), RDG_E_CANCELLED);
    assert_int_equal(calls, 2);
    calls = 0;
    rdg_upload_options small = {.slot_bytes = 2 * SLOT, .share_bytes = 64, .n_threads = 3};
    rdg_err rc = rdg_upload(s.d, s.pieces, N_PIECES, s.pool, &small, &log, NULL, &e);
    assert_true(calls < 2 ? rc == RDG_OK : calls == 2 && rc == RDG_E_CANCELLED); /* thread 0 may come late */
    s.pieces[0].row_bytes = s.pieces[0].bytes = SLOT + 1;
    assert_int_equal(rdg_upload(s.d, s.pieces, N_PIECES, NULL, &o, NULL, NULL, &e), RDG_E_LIMIT);
    tear_down(&s);
}

static void rewrite_slowly(const rdg_upload_piece *p, const void *row, void *out)
{
    nanosleep(&(struct timespec){.tv_nsec = p->user[0] * 1000000}, NULL);
    memcpy(out, row, p->row_bytes);
}

/* A failure wakes those who wait for room: both slots are held by a thread that takes its time when one of
 * the two fails. */
static void test_failure_while_others_wait(void **state)
{
    (void)state;
    enum { SHARE = 1024, N_SHARES = 16 };
    static const rdg_upload_options o = {
        .n_threads = 4, .slot_bytes = 4 * SHARE, .share_bytes = SHARE, .n_spare = 1, .way = RDG_UPLOAD_FILE};
    static const struct {
        uint64_t bytes, row_bytes;
        int64_t milliseconds;
        bool from_cut_file;
    } shape[] = {{SHARE / 2, SHARE / 2, 50, false}, /* the first share: slow, then it fails */
                 {SHARE / 2, 0, 0, true},
                 {3 * SHARE, 0, 0, false},
                 {SHARE, SHARE, 150, false}, /* the second slot's first */
                 {(N_SHARES - 5) * SHARE, 0, 0, false}};
    enum { N = sizeof shape / sizeof *shape };
    setting s;
    rdg_error e = {0};
    rdg_upload_piece pieces[N];
    uint64_t at = 0;
    set_up(&s, "trace", true, 4);
    assert_true(s.total >= N_SHARES * SHARE && s.dst_bytes >= N_SHARES * SHARE);
    assert_int_equal(truncate(s.path, 0), 0);
    for (int i = 0; i < N; i++) {
        pieces[i] = (rdg_upload_piece){.dst = s.dst,
                                       .dst_offset = at,
                                       .src = (shape[i].from_cut_file ? s.map.data : s.bytes) + at,
                                       .bytes = shape[i].bytes,
                                       .file = shape[i].from_cut_file ? &s.map : NULL,
                                       .row_bytes = shape[i].row_bytes,
                                       .rewrite = shape[i].row_bytes ? rewrite_slowly : NULL,
                                       .user = {shape[i].milliseconds}};
        at += shape[i].bytes;
    }
    assert_int_equal(rdg_upload(s.d, pieces, N, s.pool, &o, NULL, NULL, &e), RDG_E_IO);
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
            o.share_bytes = nth % 4 < 2 ? SLOT : SLOT / 4;
            set_up(&s, "trace", true, 3);
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
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_tiny_pieces),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_failure_while_others_wait),
        cmocka_unit_test(test_nth_call),
    };
    seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
