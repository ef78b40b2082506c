#!/bin/sh
# ./dev fuzz [SECONDS [TARGET…]]: builds the libFuzzer programs with clang and runs each for SECONDS (60), the seeds
# of corpus/NAME first. What is found is left in build-fuzz/NAME-crash-…; new inputs are kept in build-fuzz/corpus/NAME.
# Ends with "N passed, N failed, N skipped".
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:-60}
[ $# -eq 0 ] || shift
case "$seconds" in *[!0-9]*|'') echo "./dev fuzz: '$seconds' is no number of seconds" >&2; exit 2 ;; esac
command -v clang >/dev/null 2>&1 || { echo "./dev fuzz: clang is needed (apt install clang)" >&2; exit 1; }
[ -f build-fuzz/build.ninja ] ||
    CC=clang meson setup build-fuzz -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false >/dev/null
[ $# -gt 0 ] || set -- $(sed -n "/^fuzz_targets/,/^]/s/^  '\(.*\)',/\1/p" tests/fuzz/meson.build)
targets=""
for name in "$@"; do targets="$targets tests/fuzz/fuzz_$name"; done
ninja -C build-fuzz $targets

passed=0; failed=0
for name in "$@"; do
    mkdir -p "build-fuzz/corpus/$name"
    log=build-fuzz/corpus/$name.log
    # Allocations are bounded by the readers: 256 MiB in one piece would be a finding.
    if UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 "build-fuzz/tests/fuzz/fuzz_$name" -malloc_limit_mb=256 -max_len=4096 \
        -max_total_time="$seconds" -print_final_stats=1 -artifact_prefix="build-fuzz/$name-" \
        "build-fuzz/corpus/$name" "tests/fuzz/corpus/$name" > "$log" 2>&1
    then passed=$((passed + 1)); verdict=ok
    else failed=$((failed + 1)); verdict="FAILED, see $log"
    fi
    echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") executions, $verdict"
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
