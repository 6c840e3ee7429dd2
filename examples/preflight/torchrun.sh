#!/bin/bash
# torchrun starts the preflight exactly as it starts the training: same nodes, same interfaces, same environment.
#   NODES=4 HEAD=node0 examples/preflight/torchrun.sh         on each node

set -euo pipefail
NODES=${NODES:-1}
HEAD=${HEAD:-127.0.0.1}
launch=(--nnodes="$NODES" --rdzv-backend=c10d --rdzv-id=preflight --rdzv-endpoint="$HEAD:29500")
[ "$NODES" -eq 1 ] && launch=(--standalone)

code=0
torchrun "${launch[@]}" --nproc-per-node=1 -m gpudoctor preflight --quick || code=$?
if [ "$code" -eq 1 ]; then
    echo "preflight: the training was not started (see above)" >&2
    exit 1
fi
exec torchrun "${launch[@]}" --nproc-per-node="${GPUS:-1}" "${SCRIPT:-train.py}"
