"""Families of messages of collectives, MPI and clusters: each alone at the end of a log, and before more "
"steps."""

import pytest
from log_causes import root_of, steps

BEFORE, AFTER = steps(1, 12), steps(13, 60)
RULE = "-" * 74 + "\n"

LINES = {
    ("FAIL008", "p2p"): [
        "n1:7:9 [1] hipify/src/transport/p2p.cc:239 NCCL WARN hipIpcGetMemHandle failed : invalid argument",
        "n1:7:9 [1] NCCL WARN cudaIpcOpenMemHandle failed : 999 unknown error",
        "n1:7:9 [1] NCCL WARN failed to peer with device 3: 217 peer access is not possible",
        "n1:7:9 [1] NCCL WARN P2P is disabled between NVLINK connected GPUs 1 and 2. This should not be the "
        "case",
    ],
    ("FAIL008", "system-error"): [
        "n1:7:9 [0] NCCL WARN Unrecoverable error detected: malloc(size=4096) returned null.",
        "n1:7:9 [0] NCCL WARN Failed to malloc 4096 bytes",
    ],
    ("FAIL008", "socket"): [
        "n1:7:9 [0] misc/socket.cc:50 NCCL WARN socketPollConnect poll() failed with error Interrupted "
        "system call",
        "n1:7:9 [0] NCCL WARN Net : No valid <IPv4_or_hostname>:<port> pair found",
        "n1:7:9 [0] NCCL WARN UDS: Sending data over socket /tmp/nccl-socket-1 failed : Connection refused "
        "(111)",
        "n1:7:9 [0] NCCL WARN ncclSocketInit: Socket creation failed : Too many open files",
    ],
    ("FAIL008", "ib"): [
        "n1:7:9 [0] NCCL WARN NET/IB : Attempted to connect incompatible devices: [0]mlx5_0:1/IB and "
        "[1]mlx5_1:1/RoCE.",
        "n1:7:9 [0] NCCL WARN Call to ibv_modify_qp returned with error Invalid argument",
    ],
    ("FAIL008", "invalid-usage"): [
        "n1:7:9 [0] NCCL WARN Broadcast : invalid root 9 (root should be in the 0..7 range)",
        "n1:7:9 [0] NCCL WARN Trying to recv to self without a matching send",
        "n1:7:9 [0] NCCL WARN Blocking and nonblocking communicators are not allowed in the same group.",
        "n1:7:9 [0] NCCL WARN comm 0x55aa has already been destroyed",
    ],
    ("FAIL008", "version"): [
        "n1:7:9 [0] NCCL WARN CUDA Driver version found is 11020. Minimum requirement is 11030",
    ],
    ("FAIL008", "warned"): [
        "n1:7:9 [0] NCCL WARN Could not find NET with id 3",
        "[2026-05-01 10:00:00] n1:7:9 [0] graph/xml.cc:12 NCCL WARN XML Parse error : unterminated comment",
        "n1:7:9 [0] NCCL WARN nvmlDeviceGetHandleByIndex(5) failed: Unknown Error",
    ],
    ("FAIL007", "interface"): [
        "n1:7:9 [0] NCCL WARN NET/Socket : No usable listening interface found",
        "n1:7:9 [0] NCCL WARN no device found matching ib7, verify NCCL_OOB_NET_IFNAME",
    ],
    ("FAIL007", "rendezvous-timeout"): [
        "[rank4]:[E421 02:05:38.76 ProcessGroupGloo.cpp:143] Gloo connectFullMesh failed with "
        "[../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error",
        "[rank1]:[E421 02:05:38.76 ProcessGroupGloo.cpp:143] Gloo connectFullMesh failed with "
        "[/pytorch/third_party/gloo/gloo/transport/tcp/socket.cc:81] connect: No route",
    ],
    ("FAIL007", "mpi-unreachable"): [
        RULE + "MPI_INIT has failed because at least one MPI process is unreachable\nfrom another.\n" + RULE,
        RULE + 'The application appears to have been direct launched using "srun",\nbut OMPI was not built so.\n' + RULE,
        "[n7:04711] PMIX ERROR: UNREACHABLE in file base/ptl_base_connect_fns.c at line 214",
        "[n7:04711] [[1,1],0] ORTE_ERROR_LOG: Out of resource in file util/show_help.c at line 501",
        '[mpiexec@n7] HYDU_sock_connect (lib/utils/sock.c:145): unable to connect from "n7" to "n8" (refused)\n'
        "[mpiexec@n7] main (ui/mpich/mpiexec.c:255): process manager error waiting for completion",
    ],
    ("FAIL007", "ssh"): [
        RULE + "A critical communication path was lost to:\n\n  My name:      prterun-n1\n  Node:         n2\n" + RULE,
        RULE + "prterun was unable to reliably start one or more daemons.\n" + RULE,
    ],
    ("FAIL006", "abort"): [
        "[n7:4711] *** An error occurred in MPI_Allreduce\n[n7:4711] *** MPI_ERR_TRUNCATE: message truncated\n"
        "[n7:4711] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,",
        "Abort(15) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Recv: Message truncated, error stack:\n"
        "PMPI_Recv(173): MPI_Recv failed",
    ],
    ("FAIL002", "sigkill"): [
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 0 PID 4711 RUNNING AT n7\n"
        "=   KILLED BY SIGNAL: 9 (Killed)",
        RULE + "prterun noticed that process rank 1 with PID 4711 on node n7 exited on\nsignal 9 (Killed).\n" + RULE,
    ],
    ("CFG010", "framework"): [
        RULE + "Your job has requested more processes than the ppr for\nthis topology can support\n" + RULE,
        RULE + "Not enough cores were found on the local host to meet the requested\nbinding action:\n" + RULE,
    ],
}  # fmt: skip

CALM = [
    "n1:7:9 [0] NCCL WARN Could not find real path of /sys/class/net/eth0/device",
    "n1:7:9 [0] NCCL WARN Could not find a path for pattern 4, falling back to simple order",
    "n1:7:9 [0] NCCL WARN NUMA auto balancing enabled which can lead to variability in the RCCL performance!",
    "n1:7:9 [0] NCCL WARN maxCTAs 64 is larger than #channels upper limit 32, cap it to 32",
    "[n7:04711] PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c at line 169",
]


@pytest.mark.parametrize(
    ("code", "kind", "line"), [(*key, line) for key, lines in LINES.items() for line in lines]
)
def test_a_line_at_the_end_is_the_cause(code, kind, line, tmp_path):
    root = root_of(tmp_path, BEFORE + line + "\n")
    assert (root.code, root.kind) == (code, kind)
    assert root_of(tmp_path, BEFORE + line + "\n" + AFTER) is None


@pytest.mark.parametrize("line", CALM)
def test_a_warning_of_what_is_done_instead_is_no_cause(line, tmp_path):
    assert root_of(tmp_path, BEFORE + line + "\n") is None


def test_a_warning_of_nccl_does_not_hide_the_exception_behind_it(tmp_path):
    line = "n1:7:9 [0] NCCL WARN Could not find NET with id 3\n"
    root = root_of(tmp_path, BEFORE + line + "Traceback (most recent call last):\nKeyError: 'rank'\n")
    assert root.code == "FAIL001"


def test_a_program_that_calls_mpi_abort_is_only_a_consequence(tmp_path):
    root = root_of(tmp_path, BEFORE + "application called MPI_Abort(MPI_COMM_WORLD, 1) - process 0\n")
    assert root == "FAIL018"
