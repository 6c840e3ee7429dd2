#!/bin/bash
# A bare list of hosts, no scheduler: one ssh a host, rank by its place in the list.
#   examples/preflight/hosts.sh node0 node1 node2

set -uo pipefail
[ "$#" -gt 0 ] || { echo "usage: $0 HOST..." >&2; exit 2; }
hosts=("$@")
for rank in "${!hosts[@]}"; do
    ssh -o BatchMode=yes "${hosts[$rank]}" \
        "cd '$PWD' && gpudoctor preflight --rank $rank --world ${#hosts[@]} --head '${hosts[0]}' --port 29400" &
    pids[$rank]=$!
done
wait "${pids[0]}"
code=$?  # rank 0 prints the report; all ranks end with its exit code
wait
exit "$code"
