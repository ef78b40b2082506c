#!/bin/sh
# Checks and times the Vulkan backend on a machine with a GPU, with binaries that were built elsewhere.
# Usage: bench/vulkan.sh BUILD_DIR [MODEL.gguf [STEP…]]
#   BUILD_DIR  a build with -Dportable=true and a glslang that knows cooperative matrices (see README)
#   MODEL      made with `ridge synth --like llama-8b` if it does not exist
#   STEP       facts kernels golden load speed tune (default: all, in this order)
# RIDGE_TEST_DATA names the folder with models/ridge-small, if it is to be checked too. Exits 1 if a check failed.
set -u
build=$1
model=${2:-/tmp/llama-8b-q4_k_m.gguf}
ridge=$build/ridge
root=$(cd "$(dirname "$0")/.." && pwd)
failed=

check()
{
    name=$1
    shift
    echo "== $name"
    "$@" || failed="$failed, $name"
}

facts()
{
    "$ridge" devices --measure
}

kernels()
{
    check "kernels" "$build/tests/kernel/test_vulkan" vulkan 1
    check "operations" "$build/tests/kernel/test_vulkan_check" --stride=3
}

# Logits of every golden model within 1e-3 (F32) and 2e-2 (F16), also with the CPU doing the first block; the
# trained models' greedy tokens.
golden()
{
    test_golden=$build/tests/golden/test_golden
    check "golden F32" "$test_golden" --device=vulkan "$root/tests/data/golden"
    check "golden F16" "$test_golden" --device=vulkan --type=f16 "$root/tests/data/golden"
    check "golden, divided" "$test_golden" --device=vulkan --gpu-layers=1 "$root/tests/data/golden"
    check "trained" "$build/tests/golden/test_trained" --device=vulkan "$root/models/ridge-tiny"
}

# The second run finds its kernels compiled: its first token comes without that wait.
load()
{
    "$ridge" bench "$model" --device vulkan -p 0 -n 0 --load -r 5 -q
    XDG_CACHE_HOME=$(mktemp -d) && export XDG_CACHE_HOME
    for run in first second; do
        echo "$run run: upload, prefill of 3 tokens, decode of 2"
        "$ridge" run "$model" --device vulkan --tokens 1,2,3 -n 2 --temp 0 --json -q |
            sed -n '/"load_seconds"/p; /"upload"/,/}/p; /"prefill"/,/}/p; /"decode"/,/}/p'
    done
    rm -r "$XDG_CACHE_HOME"
    unset XDG_CACHE_HOME
}

speed()
{
    "$ridge" bench "$model" --device vulkan -p 512 -n 128 -r 3 --nodes -v
    "$ridge" bench "$model" --device vulkan -p 0 -n 64 -r 3 --depth 4000 -q
    "$ridge" bench "$model" --device vulkan -p 0 -n 100 -r 3 --timeline timeline.json -q
    "$ridge" bench "$model" --device vulkan -p 0 -n 100 -r 3 --timeline - -q --temp 0.8
    "$build/tests/kernel/tune_sample"
    check "sampling" "$build/tests/kernel/test_sample"
    check "decode" "$build/tests/kernel/test_decode_vulkan" "$root/tests/data/golden" "$root/models/ridge-tiny"
    "$ridge" bench "$model" --device vulkan -p 128 -n 32 -r 1 --gpu-layers 24
}

tune()
{
    "$build/tests/kernel/tune_upload" "$model"
    "$build/tests/kernel/tune_vulkan"
}

[ -f "$model" ] || "$ridge" synth "$model" --like llama-8b -q
shift
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- facts kernels golden load speed tune
for step; do
    case $step in
    facts | kernels | golden | load | speed | tune) "$step" ;;
    *) echo "there is no step '$step'" && exit 2 ;;
    esac
done
[ -z "$failed" ] || { echo "FAILED: ${failed#, }" && exit 1; }
