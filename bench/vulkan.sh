#!/bin/sh
# Checks and times the Vulkan kernels on a machine with a GPU, with binaries that were built elsewhere.
# Usage: bench/vulkan.sh BUILD_DIR [MODEL.gguf]
#   BUILD_DIR  a build with -Dportable=true and a glslang that knows cooperative matrices (see README)
#   MODEL      made with `ridge synth --like llama-8b` if it does not exist
set -u
build=$1
model=${2:-/tmp/llama-8b-q4_k_m.gguf}
ridge=$build/ridge
"$ridge" devices --measure
"$build/tests/kernel/test_vulkan" vulkan 1 || echo "KERNEL CHECK FAILED"
"$build/tests/kernel/test_vulkan_check" --stride=3 || echo "OPERATION CHECK FAILED"
[ -f "$model" ] || "$ridge" synth "$model" --like llama-8b -q
"$ridge" bench "$model" --device vulkan -p 512 -n 128 -r 3 --nodes -v
"$ridge" bench "$model" --device vulkan -p 0 -n 0 --load -r 5 -q
"$ridge" bench "$model" --device vulkan -p 0 -n 64 -r 3 --depth 4000 -q
"$ridge" bench "$model" --device vulkan -p 0 -n 100 -r 3 --timeline timeline.json -q
"$build/tests/kernel/tune_vulkan"
"$build/tests/kernel/tune_upload" "$model"
