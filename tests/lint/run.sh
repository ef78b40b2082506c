#!/bin/sh
# ./dev lint: rules that a compiler does not check. Ends with "N passed, N failed, N skipped".
cd "$(dirname "$0")/../.."
exec python3 tests/lint/lint.py "$@"
