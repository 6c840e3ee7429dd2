#!/bin/bash
# Examine this node and the script, then train on all its GPUs.
#
#   examples/torchrun/launch.sh --epochs 2             stop when the node or the script is sick
#   STRICT=1 examples/torchrun/launch.sh --epochs 2    stop as well when they cannot be examined

set -euo pipefail
cd "$(dirname "$0")/../.."

SCRIPT=examples/train_crops_well.py
RANKS="${RANKS:-1}"

code=0
gpudoctor check --profile torchrun --ranks "$RANKS" ${STRICT:+--strict} "$SCRIPT" -- "$@" || code=$?
if [ "$code" -eq 1 ]; then
    echo "pre-flight: this node or $SCRIPT is not fit for the job (see above); it was not started" >&2
    exit 1
elif [ "$code" -ne 0 ]; then
    echo "pre-flight: the doctor could not examine (exit code $code)" >&2
    [ -z "${STRICT:-}" ] || exit "$code"
fi

exec torchrun --standalone --nproc-per-node="$RANKS" "$SCRIPT" "$@"
