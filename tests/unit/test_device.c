/* The device layer: argument checks and accounting on every backend, recording and failing on the trace
 * device, and real work on Vulkan (skipped where there is no device). */
#include "device/backend.h"
#include "device/device.h"
#include "device/trace/trace.h"
#include "ops/gpu.h"
#include "ops/gpu.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

static rdg_device *open_or_skip(const char *name, bool validation)
{
    rdg_error e = {0};
    rdg_device *d = NULL;
    rdg_device_options o = {.validation = validation};
    rdg_err rc = rdg_device_open(name, &o, &d, &e);
    if (rc && validation) {
        o.validation = false;
        rc = rdg_device_open(name, &o, &d, &e);
    }
    if (rc) {
        print_message("skipped: %s\n", e.message);
        skip();
    }
    return d;
}

static void copy_fill_and_account(const char *name)
{
    rdg_device *d = open_or_skip(name, true);
    rdg_error e = {0};
    rdg_buffer *a = NULL, *b = NULL, *c = NULL;
    const uint64_t n = 100000;
    assert_int_equal(rdg_buffer_create(d, RDG_MEMORY_UPLOAD, n, "a", &a, &e), RDG_OK);
    assert_int_equal(rdg_buffer_create(d, RDG_MEMORY_DEVICE, n, "b", &b, &e), RDG_OK);
    assert_int_equal(rdg_buffer_create(d, RDG_MEMORY_READBACK, n, "c", &c, &e), RDG_OK);
    assert_int_equal(rdg_device_get_account(d)->bytes_now, 3 * n);
    unsigned char *in = rdg_buffer_host(a), *out = rdg_buffer_host(c);
    for (uint64_t i = 0; i < n; i++) in[i] = (unsigned char)(i * 7 + i / 251);
    memset(out, 0xee, n);
    rdg_list *l = NULL;
    for (int queue = 0; queue < 2; queue++) {
        assert_int_equal(rdg_list_create(d, queue, queue == 0 ? 2 : 0, "copies", &l, &e), RDG_OK);
        if (queue == 0) rdg_list_timestamp(l, 0);
        rdg_list_copy(l, b, 0, a, 0, n);
        rdg_list_barrier(l);
        rdg_list_fill(l, b, 4000, 400, 0x01020304);
        rdg_list_barrier(l);
        rdg_list_copy(l, c, 0, b, 0, n);
        if (queue == 0) rdg_list_timestamp(l, 1);
        assert_int_equal(rdg_list_finish(l, &e), RDG_OK);
        rdg_event done, again;
        assert_int_equal(rdg_submit(d, l, NULL, 0, &done, &e), RDG_OK);
        assert_int_equal(rdg_submit(d, l, &done, 1, &again, &e), RDG_OK); /* replayed */
        assert_int_equal(rdg_event_wait(d, again, -1, &e), RDG_OK);
        assert_true(rdg_event_done(d, done));
        if (queue == 0) {
            double ns[2];
            assert_int_equal(rdg_list_read_timestamps(l, ns, 2, &e), RDG_OK);
            assert_true(ns[1] >= 0 && ns[1] < 1e10);
        }
        for (uint64_t i = 0; i < n; i++) {
            unsigned char want = i >= 4000 && i < 4400 ? (unsigned char)(4 - i % 4) : in[i];
            if (out[i] != want) fail_msg("queue %d byte %d: %d instead of %d", queue, (int)i, out[i], want);
        }
        memset(out, 0, n);
        rdg_list_destroy(l);
    }
    /* A command outside its buffer is reported when the list is finished; the list then cannot run. */
    assert_int_equal(rdg_list_create(d, 0, 0, "bad", &l, &e), RDG_OK);
    rdg_list_copy(l, b, n - 4, a, 0, 8);
    rdg_list_barrier(l);
    assert_int_equal(rdg_list_finish(l, &e), RDG_E_ARGUMENT);
    assert_non_null(strstr(e.message, "outside buffer b"));
    rdg_event ev;
    assert_int_equal(rdg_submit(d, l, NULL, 0, &ev, &e), RDG_E_ARGUMENT);
    rdg_list_destroy(l);
    assert_int_equal(rdg_buffer_create(d, RDG_MEMORY_DEVICE, 0, "none", &(rdg_buffer *){0}, &e),
                     RDG_E_ARGUMENT);
    rdg_buffer_destroy(c);
    rdg_buffer_destroy(b);
    rdg_buffer_destroy(a);
    assert_int_equal(rdg_device_get_account(d)->bytes_now, 0);
    assert_int_equal(rdg_device_get_account(d)->n_buffers + rdg_device_get_account(d)->n_lists, 0);
    rdg_device_close(d);
}

static void test_cpu(void **state)
{
    (void)state;
    copy_fill_and_account("cpu");
}
static void test_trace(void **state)
{
    (void)state;
    copy_fill_and_account("trace");
}
static void test_vulkan(void **state)
{
    (void)state;
    copy_fill_and_account("vulkan");
}

static void add_one(const void *push, uint32_t gx, uint32_t gy, uint32_t gz)
{
    (void)gy;
    (void)gz;
    float *data;
    memcpy(&data, push, sizeof data); /* parameters are aligned to four bytes only */
    data[gx] += 1.0f;
}

static void test_cpu_kernel(void **state)
{
    (void)state;
    rdg_device *d = open_or_skip("cpu:0", false);
    rdg_error e = {0};
    float data[5] = {0, 1, 2, 3, 4};
    rdg_buffer *b;
    rdg_kernel *k;
    rdg_list *l;
    rdg_event done;
    assert_int_equal(rdg_buffer_import(d, data, sizeof data, "data", &b, &e), RDG_OK);
    rdg_kernel_desc desc = {.name = "add_one", .host = add_one, .push_bytes = 8};
    assert_int_equal(rdg_kernel_create(d, &desc, &k, &e), RDG_OK);
    assert_int_equal(rdg_list_create(d, 0, 0, "adds", &l, &e), RDG_OK);
    uint64_t address = rdg_buffer_address(b);
    rdg_list_dispatch(l, k, &address, 5, 1, 1);
    assert_int_equal(rdg_list_finish(l, &e), RDG_OK);
    for (int i = 0; i < 3; i++) assert_int_equal(rdg_submit(d, l, NULL, 0, &done, &e), RDG_OK);
    for (int i = 0; i < 5; i++) assert_true(data[i] == (float)i + 3);
    rdg_list_destroy(l);
    rdg_kernel_destroy(k);
    rdg_buffer_destroy(b);
    rdg_device_close(d);
}

/* What a lost device does: the loss sticks and every later call says so. */
static void test_loss(void **state)
{
    (void)state;
    rdg_device *d = open_or_skip("trace", false);
    rdg_error e = {0};
    rdg_list *l;
    rdg_event done;
    assert_int_equal(rdg_list_create(d, 0, 0, "decode", &l, &e), RDG_OK);
    assert_int_equal(rdg_list_finish(l, &e), RDG_OK);
    rdg_trace_fail_at(d, 1, RDG_E_DEVICE_LOST);
    assert_int_equal(rdg_submit(d, l, NULL, 0, &done, &e), RDG_E_DEVICE_LOST);
    assert_non_null(strstr(e.message, "submit of decode"));
    assert_true(rdg_device_lost(d));
    rdg_buffer *b;
    assert_int_equal(rdg_buffer_create(d, RDG_MEMORY_DEVICE, 16, "later", &b, &e), RDG_E_DEVICE_LOST);
    assert_int_equal(rdg_submit(d, l, NULL, 0, &done, &e), RDG_E_DEVICE_LOST);
    rdg_list_destroy(l);
    rdg_device_close(d);
}

/* A list that still runs when it is destroyed is waited for, one that was waited for is not. */
static int n_waits;
static rdg_err slow_wait(rdg_device *d, int queue, uint64_t value, int64_t timeout_ns, rdg_error *e)
{
    (void)d, (void)queue, (void)value, (void)timeout_ns;
    return n_waits++ ? RDG_OK : rdg_fail(e, RDG_E_TIMEOUT, "not yet");
}

static void test_running(void **state)
{
    (void)state;
    rdg_device *d = open_or_skip("trace", false);
    rdg_backend_api api = *d->api;
    rdg_error e = {0};
    rdg_event done;
    api.wait = slow_wait;
    d->api = &api;
    for (int waited = 0; waited < 2; waited++) {
        rdg_list *l;
        n_waits = waited;
        assert_int_equal(rdg_list_create(d, 0, 0, "decode", &l, &e), RDG_OK);
        assert_int_equal(rdg_list_finish(l, &e), RDG_OK);
        assert_int_equal(rdg_submit(d, l, NULL, 0, &done, &e), RDG_OK);
        assert_int_equal(rdg_event_wait(d, done, 1, &e), waited ? RDG_OK : RDG_E_TIMEOUT);
        rdg_list_destroy(l);
        assert_int_equal(n_waits, 2);
    }
    rdg_device_close(d);
}

/* Arguments beyond what every device takes are refused, not cut. */
static void test_arguments(void **state)
{
    (void)state;
    rdg_device *d = open_or_skip("trace", false);
    rdg_error e = {0};
    rdg_gpu_cache *cache;
    rdg_kernel *k;
    rdg_gpu_dispatch dispatch = {.grid = {1, 1, 1}};
    const unsigned char push[RDG_PUSH_BYTES_MAX + 4] = {0};
    assert_int_equal(rdg_gpu_cache_create(d, &cache, &e), RDG_OK);
    rdg_gpu_fill(&dispatch, "act", push, RDG_PUSH_BYTES_MAX);
    assert_int_equal(rdg_gpu_cache_kernel(cache, &dispatch, &k, &e), RDG_OK);
    rdg_gpu_fill(&dispatch, "add", push, sizeof push);
    assert_int_equal(rdg_gpu_cache_kernel(cache, &dispatch, &k, &e), RDG_E_ARGUMENT);
    assert_non_null(strstr(e.message, "132 argument bytes"));
    rdg_gpu_cache_destroy(cache);
    rdg_device_close(d);
}

static void test_names(void **state)
{
    (void)state;
    rdg_error e = {0};
    rdg_device *d;
    assert_int_equal(rdg_device_open("abacus", NULL, &d, &e), RDG_E_NOT_FOUND);
    assert_non_null(strstr(e.message, "cpu"));
    assert_int_equal(rdg_device_open("cpu:x", NULL, &d, &e), RDG_E_ARGUMENT);
    assert_int_equal(rdg_device_open("cpu:7", NULL, &d, &e), RDG_E_NOT_FOUND);
    rdg_device_facts facts[8];
    int n;
    rdg_buf notes;
    rdg_buf_init(&notes);
    assert_int_equal(rdg_device_list(facts, 8, &n, &notes, &e), RDG_OK);
    assert_true(n >= 1);
    assert_string_equal(facts[0].backend, "cpu");
    rdg_buf_finish(&notes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu),        cmocka_unit_test(test_trace),   cmocka_unit_test(test_vulkan),
        cmocka_unit_test(test_cpu_kernel), cmocka_unit_test(test_loss),    cmocka_unit_test(test_names),
        cmocka_unit_test(test_arguments),  cmocka_unit_test(test_running),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
