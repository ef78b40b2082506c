#!/bin/sh
# The main job on the demo model: safetensors → GGUF → importance matrix → Q4_K_M → text. Called by ./dev demo.
set -eu
ridge=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT INT TERM
text=tests/data/text

seconds() { date +%s.%N; }
size() { wc -c < "$1" | awk '{printf "%.2f MB", $1 / 1e6}'; }
step() { # name, output file or -, command…
    name=$1; file=$2; shift 2
    start=$(seconds)
    "$@" > "$out/log"
    end=$(seconds)
    if [ "$file" = - ]; then made=""; else made=$(size "$file"); fi
    printf '  %-34s %10s %8.2f s\n' "$name" "$made" "$(echo "$start $end" | awk '{print $2 - $1}')"
}
perplexity() { sed -n 's/^perplexity \([0-9.]*\).*/\1/p' "$out/log"; }

echo
echo "ridge demo: models/ridge-tiny (8.4 M parameters, trained on public-domain fiction)"
step "convert: safetensors -> GGUF" "$out/tiny.gguf" "$ridge" convert models/ridge-tiny -o "$out/tiny.gguf" -q
step "imatrix: 16 chunks of text" "$out/tiny.imatrix" "$ridge" imatrix "$out/tiny.gguf" -f $text/calib_pd_fiction.txt --chunks 16 -o "$out/tiny.imatrix" -q
step "quantise to Q4_K_M" "$out/tiny-q4.gguf" "$ridge" quantize "$out/tiny.gguf" "$out/tiny-q4.gguf" Q4_K_M --imatrix "$out/tiny.imatrix" -q
step "perplexity before (bf16)" - "$ridge" perplexity "$out/tiny.gguf" -f $text/val_fiction.txt --chunks 16 -q
before=$(perplexity)
step "perplexity after (Q4_K_M)" - "$ridge" perplexity "$out/tiny-q4.gguf" -f $text/val_fiction.txt --chunks 16 -q
after=$(perplexity)
echo "  perplexity: $before -> $after"
echo
"$ridge" run "$out/tiny-q4.gguf" -p "Once upon a time" -n 120 --temp 0.7 --seed 7
