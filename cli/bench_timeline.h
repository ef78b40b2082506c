/* bench --timeline: where the device's time goes while it decodes, from timestamps at both ends of every
 * launch. */
#ifndef RDG_CLI_BENCH_TIMELINE_H
#define RDG_CLI_BENCH_TIMELINE_H

#include "cli.h"
#include "engine/session_internal.h"
#include "profile/timeline.h"

typedef struct cli_timeline_job {
    cli *c;
    rdg_session *session;
    int32_t token;
    int64_t n, repeats;
    rdg_sample_params sample;
    uint64_t seed;
    rdg_err (*rewind)(void *user, rdg_error *e); /* puts the session back to where decoding starts */
    void *user;
} cli_timeline_job;

typedef struct cli_timeline {
    rdg_timeline spans; /* of the last run */
    rdg_timeline_summary sum;
    double plain, stamped; /* tokens a second without and with the timestamps, medians of interleaved runs */
    double pick_seconds;   /* a token, from the first launch that picks it to the end of the last */
    double launch_seconds; /* of an empty launch that waits for one before it; NaN: not measured */
} cli_timeline;

rdg_err cli_timeline_measure(const cli_timeline_job *j, cli_timeline *t, rdg_error *e);
void cli_timeline_print(const cli_timeline *t, bool every_token);
json_t *cli_timeline_json(const cli_timeline *t);
/* A file for chrome://tracing and Perfetto: one row for the steps, as many as needed for the launches. */
rdg_err cli_timeline_write(const cli_timeline_job *j, const cli_timeline *t, const char *path, rdg_error *e);
void cli_timeline_finish(cli_timeline *t);

#endif
