/* Every GPU row of the operations' tables against the reference: `ridge check --device vulkan` as a test.
 * Usage: test_vulkan_check [--stride=N] [--seed=N] [--device=D] [OPERATION…] */
#include "base/clock.h"
#include "ops/check_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void report(void *user, const rdg_check_result *r)
{
    (void)user;
    if (r->verdict == RDG_CHECK_FAILED || getenv("VERBOSE"))
        printf("%s %s %s: %s, %.2f of the tolerance %s (seed %llu)\n", r->op->name,
               r->variant ? r->variant->name : "-", r->case_name,
               r->verdict == RDG_CHECK_PASSED   ? "passed"
               : r->verdict == RDG_CHECK_FAILED ? "FAILED"
                                                : "skipped",
               r->error, r->message, (unsigned long long)r->seed);
}

int main(int argc, char **argv)
{
    rdg_check_gpu gpu;
    rdg_check_runner runner;
    rdg_error e;
    const char *device = "vulkan";
    rdg_check_options o = {.seed = (uint64_t)rdg_clock_ns(), .report = report};
    int first = 1;
    for (; first < argc && !strncmp(argv[first], "--", 2); first++) {
        if (!strncmp(argv[first], "--stride=", 9)) o.stride = atoi(argv[first] + 9);
        if (!strncmp(argv[first], "--seed=", 7)) o.seed = strtoull(argv[first] + 7, NULL, 0);
        if (!strncmp(argv[first], "--device=", 9)) device = argv[first] + 9;
    }
    rdg_err rc = rdg_check_gpu_create(&gpu, device, true, &runner, &e);
    if (rc) rc = rdg_check_gpu_create(&gpu, device, false, &runner, &e);
    if (rc) {
        printf("skipped: %s\n", e.message);
        return 77;
    }
    printf("%s, seed %llu\n", runner.device, (unsigned long long)o.seed);
    rdg_check_totals totals = {0};
    for (int i = 0; i < rdg_op_count() && !rc; i++) {
        const rdg_op *op = rdg_op_at(i);
        bool wanted = first == argc;
        for (int k = first; k < argc; k++) wanted = wanted || !strcmp(argv[k], op->name);
        double t0 = rdg_clock_seconds();
        if (wanted) rc = rdg_check_op(op, &runner, &o, &totals, &e);
        if (wanted) printf("%-10s %.1f s\n", op->name, rdg_clock_seconds() - t0);
        fflush(stdout);
    }
    if (rc) printf("%s\n", e.message);
    rdg_check_gpu_finish(&gpu);
    printf("%lld passed, %lld failed, %lld skipped\n", (long long)totals.n_passed, (long long)totals.n_failed,
           (long long)totals.n_skipped);
    return rc || totals.n_failed;
}
