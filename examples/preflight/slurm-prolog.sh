#!/bin/bash
# A prolog for slurm.conf: `Prolog=/etc/slurm/gpudoctor-prolog.sh`, run as root on each node before a job.
# It measures this node alone. A prolog that fails drains the node and puts the job back into the queue.
# Keep it quick: the job waits for it. `--baseline` compares with the day on which the node was accepted.

set -uo pipefail
state=/var/lib/gpudoctor
mkdir -p "$state"

# This node alone: a prolog runs without srun, and the job's own variables must not make it wait for others.
unset SLURM_PROCID SLURM_NTASKS RANK WORLD_SIZE
baseline=()
[ -e "$state/baseline.json" ] && baseline=(--baseline "$state/baseline.json")

timeout 60 gpudoctor preflight --quick --quiet "${baseline[@]}" --textfile "$state/gpudoctor.prom" \
    --format json --output "$state/last.json"
code=$?
[ -e "$state/baseline.json" ] || { [ "$code" -eq 0 ] && cp "$state/last.json" "$state/baseline.json"; }
[ "$code" -ne 1 ]  # only a finding drains the node; a doctor that cannot examine does not
