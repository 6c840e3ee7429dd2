"""Families of messages of collectives, MPI and clusters: each alone at the end of a log, and before more "
"steps."""

import pytest
from log_cases import found_in_log
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
    ("FAIL008", "socket"): [
        "n1:7:9 [0] misc/socket.cc:50 NCCL WARN socketPollConnect poll() failed with error Interrupted "
        "system call",
        "n1:7:9 [0] NCCL WARN Net : No valid <IPv4_or_hostname>:<port> pair found",
        "n1:7:9 [0] NCCL WARN UDS: Sending data over socket /tmp/nccl-socket-1 failed : Connection refused "
        "(111)",
        "n1:7:9 [0] NCCL WARN ncclSocketInit: Socket creation failed : Too many open files",
    ],
    ("FAIL008", "ib"): [
        "libfabric:4711:1716800000:efa:cq:handle_tx_error():812<warn> err: 105, message: Unresponsive receiver",
        "NET/OFI Unable to find a protocol that worked.  Failing initialization.",
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
    ("GPU004", "gpu-hang"): [
        "[22342.96] [drm:mes_v11_0_submit_pkt_and_poll_completion.constprop.0 [amdgpu]] *ERROR* MES failed "
        "to response msg=3",
        "[22342.96] amdgpu 0000:c1:00.0: amdgpu: SMU: No response msg_reg: 12 resp_reg: 0",
        "[22342.96] amdgpu: The cp might be in an unrecoverable state due to an unsuccessful queues preemption",
        "[22342.96] NVRM: GPU0 _issueRpcAndWait: rpcRecvPoll timedout for fn 76",
        "[22342.96] i915 0000:00:02.0: [drm] *ERROR* GPU HANG: ecode 12:1:85dffffb, in python [4711]",
    ],
    ("GPU004", "reset-required"): ["Test CUDA failure common.cu:1007 'CUDA device requires reset'"],
    ("GPU004", "off-the-bus"): ["[22342.96] nvidia 0000:3b:00.0: AER: can't recover (no error_detected callback)"],
    ("GPU003", "ecc"): [
        "[22342.96] amdgpu 0000:c1:00.0: amdgpu: socket: 0, die: 0 1 new uncorrectable hardware errors "
        "detected in umc block",
        "[22342.96] amdgpu 0000:c1:00.0: amdgpu: RAS: poison is consumed by compute, no reset",
    ],
    ("ENV001", "driver-init"): [
        "[22342.96] NVRM: None of the NVIDIA devices were initialized.",
        "[22342.96] [drm:psp_resume [amdgpu]] *ERROR* PSP resume failed",
    ],
    ("FAIL002", "node-failure"): [
        "[22342.96] BUG: kernel NULL pointer dereference, address: 0000000000000008",
        "[22342.96] watchdog: BUG: soft lockup - CPU#12 stuck for 26s! [python:4711]",
        "[22342.96] mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000000800400",
    ],
    ("FAIL016", "storage"): [
        "[22342.96] EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm python: reading lblock 0",
        "[22342.96] nvme nvme0: I/O 12 QID 3 timeout, aborting",
        "[22342.96] INFO: task python:4711 blocked for more than 120 seconds.",
    ],
    ("FAIL008", "ib-kernel"): [
        "[22342.96] mlx5_core 0000:5e:00.0: device's health compromised - reached miss count",
        "[22342.96] NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 3 timed out",
    ],
    ("FAIL003", "illegal-access"): [
        "GPUassert: an illegal memory access was encountered train.cu 42",
        "CUDA error at train.cu:42: misaligned address",
    ],
    ("ENV004", "no-kernel"): [
        "Check failed: error == cudaSuccess (48 vs. 0) no kernel image is available for execution on the "
        "device.",
    ],
    ("MEM009", "out-of-memory"): ["CUDA Error: out of memory: File /src/dark.c, line 210"],
    ("ENV003", "insufficient"): ["CUDA Error: driver version is insufficient for CUDA runtime version"],
    ("ENV013", "ordinal"): ["Test CUDA failure common.cu:1007 'invalid device ordinal'"],
    ("ENV001", "no-device"): ["GPUassert: no CUDA-capable device is detected train.cu 42"],
    ("FAIL009", "cuda-error"): [
        "!!! Exception during processing !!! HIP error: invalid argument\nSearch for `hipErrorInvalidValue' "
        "in the pages.",
        "terminate called after throwing an instance of 'thrust::system::system_error'\n"
        "  what():  parallel_for failed: cudaErrorInvalidConfiguration: invalid configuration argument",
    ],
    ("FAIL009", "other"): ["CUBLAS_STATUS_EXECUTION_FAILED returned from 'lib/op.cu(12)'"],
    ("FAIL002", "oom-kubernetes"): [
        "Your session crashed after using all available RAM. If you are interested in access to high-RAM "
        "runtimes",
        "Your notebook tried to allocate more memory than is available. It has restarted.",
    ],
    ("FAIL002", "kernel-died"): [
        "Your session crashed for an unknown reason.",
        "[I 2026-05-01 10:00:00.123 ServerApp] AsyncIOLoopKernelRestarter: restarting kernel (1/5), keep "
        "random ports",
        "The Kernel crashed while executing code in the current cell or a previous cell.",
    ],
    ("FAIL008", "system-error"): [
        "n1:7:9 [0] NCCL WARN Failed to malloc 4096 bytes",
        "n1:7:9 [0] NCCL WARN Unrecoverable error detected: malloc(size=4096) returned null.",
        "n7: Test NCCL failure common.cu:958 'unhandled system error (run with NCCL_DEBUG=INFO for details)'",
        "NCCL Error 1: unhandled cuda error",
    ],
    ("FAIL007", "address-in-use"): [
        "[rank0]:[W528 08:52:46.16 socket.cpp:462] [c10d] The server socket has failed to bind to [::]:29500 "
        "(errno: 98 - Address already in use).",
    ],
    ("FAIL007", "unreachable"): [
        "[2026-05-01 10:00:00,123 E 1 1] gcs_rpc_client.h:179: Failed to connect to GCS at address "
        "10.0.0.9:6379 within 5 s",
    ],
    ("FAIL020", "slurm-config"): [
        "squeue: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"
        "squeue: error: fetch_config: DNS SRV lookup failed\n"
        "squeue: fatal: Could not establish a configuration source",
        "sinfo: error: _parse_next_key: Parsing error at unrecognized key: GresTipes",
    ],
    ("FAIL020", "slurm-auth"): [
        "squeue: error: If munged is up, restart with --num-threads=10",
        "scontrol: error: slurm_receive_msg: Zero Bytes were transmitted or received",
    ],
    ("FAIL020", "controller"): ["slurm_load_jobs error: Unable to contact slurm controller (connect failure)"],
    ("FAIL020", "launch"): [
        "slurmstepd: error: TaskProlog failed status=1",
        "slurmstepd: error: mpi/pmix_v3: pmixp_server_init: n7 [0]: cannot make the folder",
        "slurmstepd: fatal: handle_launch_message: Unrecognized launch RPC",
        "srun: error: prolog 'setup.sh' not found in PATH or CWD (/home/u), or wrong permissions",
    ],
    ("FAIL020", "container"): [
        "slurmstepd: error: pyxis:     mkdir: cannot create directory '/run/enroot': Permission denied\n"
        "slurmstepd: error: spank: required plugin spank_pyxis.so: task_init_privileged() failed with rc=-1",
        "slurmstepd: error: pyxis: container exited too soon",
        "slurmstepd: error: pyxis: --container-mounts: invalid format: /data",
        "FATAL:   no SIF writer found",
        "ERRO[0000] runc run failed: unable to start container process: unable to apply caps",
        "[ERROR] Command not found: nvidia-container-cli, see the pages of its project",
        '  Warning  Failed   9s   kubelet  Error: failed to generate container "ab" spec: failed to stat "/data"',
    ],
    ("FAIL020", "unschedulable"): [
        "queue resource quota insufficient",
        "3/8 tasks in gang unschedulable: pod group is not ready, 5 Pending, 8 minAvailable",
        "  Normal  Inadmissible   9s  kueue-admission  LocalQueue ml doesn't exist",
        '  Normal  Pending   9s  kueue-admission  topology "rack" allows to fit only 3 out of 8 pod(s)',
    ],
    ("FAIL020", "forbidden"): [
        "  Warning  FailedCreate   9s  job-controller  Error creating: Internal error occurred: failed "
        "calling webhook",
    ],
    ("FAIL020", "volume"): [
        "  Warning  FailedBinding  9s  persistentvolume-controller  no persistent volumes available for "
        "this claim",
    ],
    ("FAIL020", "kubectl"): [
        "The connection to the server 10.0.0.9:6443 was refused - did you specify the right host or port?",
        'Error from server (NotFound): namespaces "ml" not found',
    ],
}  # fmt: skip

RECORDS = {
    ("FAIL002", "sigkill"): [
        "[2026-05-27T11:37:57.377] _job_complete: JobId=127441 WTERMSIG 9\n"
        "[2026-05-27T11:37:57.377] _job_complete: JobId=127441 done",
        "    Last State:     Terminated\n      Reason:       Error\n      Exit Code:    137",
    ],
    ("FAIL002", "sigterm"): ["    State:          Terminated\n      Reason:       Error\n      Exit Code:    143"],
    ("FAIL002", "time-limit"): [
        "[2026-05-27T11:37:57.377] Time limit exhausted for JobId=127441",
        "  Normal  EvictedDueToMaximumExecutionTimeExceeded   9s  kueue-admission  exceeding the time",
    ],
    ("FAIL002", "node-failure"): [
        "[2026-05-27T11:37:57.377] Killing JobId=127441 on failed node n7",
        "  Warning  Rebooted   9s   kubelet  Node n7 has been rebooted, boot id: 1f",
    ],
    ("FAIL002", "cancelled"): ["[2026-05-27T11:37:57.377] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=127441 uid 1000"],
    ("FAIL002", "evicted"): ["  Normal  EvictedDueToDeactivated   9s  kueue-admission  The workload is deactivated"],
    ("FAIL018", ""): [
        "[2026-05-27T11:37:57.377] _job_complete: JobId=127441 WEXITSTATUS 1",
        "  Warning  FailedIndexes   9s  job-controller  Job has failed indexes",
    ],
}
"""Of records of schedulers, which hold no line of a program."""

CALM = [
    "[rank0]:[W528 08:52:46.16 socket.cpp:484] [c10d] The server socket cannot be initialized on [::]:29500 "
    "(errno: 97 - No).",
    "libfabric:4711:1716800000:core:core:fi_param_get():281<warn> variable provider=<not set>",
    "slurmstepd: error: pyxis: ignoring --container-workdir because --container-image is not set",
    "srun: error: Ignoring job_complete for job 7 because our job id is 8",
    "n1:7:9 [0] NCCL WARN Could not find real path of /sys/class/net/eth0/device",
    "n1:7:9 [0] NCCL WARN Could not find a path for pattern 4, falling back to simple order",
    "n1:7:9 [0] NCCL WARN NUMA auto balancing enabled which can lead to variability in the RCCL performance!",
    "n1:7:9 [0] NCCL WARN maxCTAs 64 is larger than #channels upper limit 32, cap it to 32",
    "UserWarning: Plan failed with a cudnnException: cudnn_status: CUDNN_STATUS_NOT_SUPPORTED (Triggered internally)",
    "[22342.96] amdgpu 0000:c1:00.0: amdgpu: ring gfx_0.0.0 timeout, but soft recovered",
    "[22342.96] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15",
    "[22342.96] nfs: server 10.0.0.9 not responding, still trying",
    "[n7:04711] PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c at line 169",
]


@pytest.mark.parametrize(("code", "kind", "line"), [(*key, line) for key, lines in LINES.items() for line in lines])
def test_a_line_at_the_end_is_the_cause(code, kind, line, tmp_path):
    root = root_of(tmp_path, BEFORE + line + "\n")
    assert (root.code, root.kind) == (code, kind)
    assert root_of(tmp_path, BEFORE + line + "\n" + AFTER) is None


@pytest.mark.parametrize("line", CALM)
def test_a_warning_of_what_is_done_instead_is_no_cause(line, tmp_path):
    assert root_of(tmp_path, BEFORE + line + "\n") is None


@pytest.mark.parametrize(("code", "kind", "line"), [(*key, line) for key, lines in RECORDS.items() for line in lines])
def test_a_record_of_a_scheduler(code, kind, line, tmp_path):
    root = root_of(tmp_path, line + "\n")
    assert (root if isinstance(root, str) else root.code) == code
    assert isinstance(root, str) or root.kind == kind


def test_a_pod_that_found_a_place_later_is_no_failure(tmp_path):
    line = "  Normal  Inadmissible   9s  kueue-admission  LocalQueue ml doesn't exist\n"
    assert root_of(tmp_path, line + "  Normal  Admitted   1s  kueue-admission  Admitted by ClusterQueue gpu\n") is None


def test_a_pod_that_ran_out_of_memory_is_named_by_that(tmp_path):
    line = "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n"
    assert root_of(tmp_path, line).kind == "oom-kubernetes"


def test_a_warning_of_nccl_does_not_hide_the_exception_behind_it(tmp_path):
    line = "n1:7:9 [0] NCCL WARN Could not find NET with id 3\n"
    root = root_of(tmp_path, BEFORE + line + "Traceback (most recent call last):\nKeyError: 'rank'\n")
    assert root.code == "FAIL001"


def test_a_program_that_calls_mpi_abort_is_only_a_consequence(tmp_path):
    root = root_of(tmp_path, BEFORE + "application called MPI_Abort(MPI_COMM_WORLD, 1) - process 0\n")
    assert root == "FAIL018"


@pytest.mark.parametrize("line", LINES["GPU004", "gpu-hang"])
def test_a_line_of_a_kernel_log_that_names_no_number_makes_a_finding(line, tmp_path):
    [finding] = found_in_log("GPU004", tmp_path, "[  900.12] eth0: link up\n" + line + "\n")
    assert finding.evidence[0].line == 2


def test_an_event_with_a_number_is_judged_by_it_once(tmp_path):
    line = "[ 4242.0] NVRM: Xid (PCI:0000:3b:00): 119, pid=4711, name=python, Timeout waiting for RPC\n"
    [finding] = found_in_log("GPU004", tmp_path, "[  900.12] eth0: link up\n" + line)
    assert "Xid 119" in str(finding.message)
