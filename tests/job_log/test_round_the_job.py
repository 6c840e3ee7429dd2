"""What runs round a job: Kubernetes, runtimes of containers, Slurm and other schedulers, clouds."""

import json

import pytest
from log_causes import raised, root_of, steps
from some import some

from gpudoctor.cli import main

TRAINED = steps(1, 30)
STARTED = "  Normal   Started   3s   kubelet   Started container fit\n"
START = "Error: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: "
KUBERNETES = [  # the reason of an event, its message, and what it is
    ("FailedCreatePodSandBox", "Failed to create pod sandbox: rpc error: code = Unknown desc = no address is left", "FAIL020", "sandbox"),
    ("NetworkNotReady", "network is not ready: cni plugin not initialized", "FAIL020", "sandbox"),
    ("FailedCreatePodSandBox", 'Failed to create pod sandbox: desc = no runtime for "nvidia" is configured', "ENV001", "container-runtime"),
    ("Failed", START + 'exec: "fit9": executable file not found in $PATH: unknown', "FAIL020", "program"),
    ("Failed", START + 'chdir to cwd ("/w") set in config.json failed: permission denied: unknown', "FAIL020", "program"),
    ("Failed", START + "container init was OOM-killed (memory limit too low?): unknown", "FAIL002", "oom-kubernetes"),
    ("Failed", START + 'error mounting "/a" to rootfs at "/b": not a directory: unknown', "FAIL020", "volume"),
    ("Failed", START + "unresolvable CDI devices nvidia.com/gpu=9: unknown", "ENV001", "container-runtime"),
    ("Failed", START + "a device that nobody knows: unknown", "FAIL020", "container"),
    ("Failed", "Error: container has runAsNonRoot and image will run as root", "FAIL020", "pod-config"),
    ("Failed", "Error: failed to create containerd container: mkdir /x: no space left on device", "ENV011", "no-space"),
    ("Failed", 'Failed to pull image "hub/fit:2": write /x: no space left on device: unknown', "ENV011", "no-space"),
    ("InspectFailed", 'couldn\'t parse image reference "Hub/Fit": invalid reference format', "FAIL015", "image-pull"),
    ("ErrImageNeverPull", 'Container image "hub/fit:2" is not present with pull policy of Never', "FAIL015", "image-pull"),
    ("ProvisioningFailed", 'storageclass "fast" not found', "FAIL020", "volume"),
    ("FailedScheduling", "no nodes available to schedule pods", "FAIL020", "unschedulable"),
    ("FailedScaleUp", "Failed to scale up: Quota exceeded", "FAIL020", "unschedulable"),
    ("OutOfnvidia.com/gpu", "Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 8, capacity: 8", "FAIL020", "unschedulable"),
    ("FailedCreate", 'Error creating: pods "fit-0" is forbidden: exceeded quota: gpus, requested: 8, used: 8', "FAIL020", "forbidden"),
    ("FailedCreate", 'Error creating: admission webhook "labels.example" denied the request: no label', "FAIL020", "forbidden"),
    ("Evicted", 'Usage of EmptyDir volume "scratch" exceeds the limit "9Gi". ', "ENV011", "no-space"),
    ("Evicted", "The node had condition: [MemoryPressure]. ", "FAIL002", "oom-kubernetes"),
    ("NodeNotReady", "Node is not ready", "FAIL002", "node-failure"),
    ("TaintManagerEviction", "Marking for deletion Pod ml/fit-0", "FAIL002", "node-failure"),
    ("Killing", "Container fit failed startup probe, will be restarted", "FAIL002", "probe"),
    ("EvictedDueToPreempted", "Preempted to accommodate a workload", "FAIL002", "preemption"),
]  # fmt: skip
STATES = [
    ("CreateContainerError", "container"), ("RunContainerError", "container"), ("StartError", "container"),
    ("Init:ImagePullBackOff", "image-pull"), ("ImageInspectError", "image-pull"), ("OutOfcpu", "unschedulable"),
    ("NodeAffinity", "unschedulable"), ("NodeShutdown", "node-failure"), ("Init:OOMKilled", "oom-kubernetes"),
    ("DeadlineExceeded", "time-limit"), ("PreemptionByScheduler", "preemption"),
]  # fmt: skip
LINES = [
    ("FAIL020", "forbidden", 'The Job "fit" is invalid: spec.template.spec.restartPolicy: Required value'),
    ("FAIL020", "forbidden", 'error: resource mapping not found: no matches for kind "TrainJob" in version "v9"'),
    ("FAIL020", "forbidden", 'Error from server (NotFound): error when creating "job.yaml": namespaces "ml" not found'),
    ("FAIL020", "unschedulable", "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu, 8 more needed"),
    ("FAIL020", "unschedulable", "Error: No available node types can fulfill resource request {'GPU': 8.0}."),
    ("FAIL020", "docker", "docker: Error response from daemon: Conflict. The container name /fit is already in use."),
    ("FAIL020", "docker", "docker: unknown flag: --gpu"),
    ("ENV001", "container-runtime", "docker: Error response from daemon: unknown or invalid runtime name: nvidia."),
    ("FAIL020", "volume", 'docker: Error response from daemon: invalid mount config for type "bind": bind source path does not exist: /d.'),
    ("FAIL020", "container", "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?"),
    ("FAIL020", "program", "exec /opt/run.sh: exec format error"),
    ("FAIL020", "program", 'FATAL:   "fit9": executable file not found in $PATH'),
    ("FAIL020", "container", "FATAL:   container creation failed: mount error: no loop devices available"),
    ("FAIL015", "image-refused", "Error response from daemon: toomanyrequests: You have reached your pull rate limit."),
    ("FAIL015", "image-refused", "slurmstepd: error: pyxis:     [ERROR] URL https://hub.example/v2/fit/manifests/2 returned error code: 404 Not Found"),
    ("ENV011", "no-space", "slurmstepd: error: pyxis:     tar: x: Cannot write: No space left on device"),
    ("FAIL020", "scheduler", "sbatch: unrecognized option '--gpus-per-nod=4'"),
    ("FAIL020", "scheduler", "sbatch: error: Batch script contains DOS line breaks (\\r\\n)"),
    ("FAIL020", "scheduler", "srun: error: Invalid generic resource (gres) specification"),
    ("FAIL020", "scheduler", "srun: fatal: No command given to execute."),
    ("FAIL020", "scheduler", "qsub: Illegal attribute or resource value Resource_List.ngpus"),
    ("FAIL020", "scheduler", "gpu9: No such queue. Job not submitted."),
    ("FAIL020", "scheduler", 'Unable to run job: unknown resource "gpus".'),
    ("FAIL020", "held", "      4711       gpu      fit        u PD       0:00      4 (DependencyNeverSatisfied)"),
    ("FAIL020", "capacity", "CapacityError: Unable to provision requested ML compute capacity."),
    ("FAIL020", "scheduler-file", "sbatch: error: Unable to open file fit.sbatch"),
    ("FAIL020", "scheduler-file", "slurmstepd: error: Could not open stdout file /logs/7.out: No such file or directory"),
    ("ENV011", "quota", "slurmstepd: error: Could not open stdout file /logs/7.out: Disk quota exceeded"),
    ("FAIL020", "launch", "srun: error: task 0 launch failed: Invalid job credential"),
    ("FAIL020", "launch", "srun: error: timeout waiting for task launch, started 3 of 4 tasks"),
    ("FAIL020", "launch", "srun: error: Unable to confirm allocation for job 7: Invalid job id specified"),
    ("FAIL020", "controller", "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)"),
    ("FAIL002", "cancelled", "srun: error: Job allocation 4711 has been revoked"),
    ("FAIL002", "sigkill", "srun: error: n7: task 0: Exited with exit code 137"),
    ("FAIL002", "cancelled", "=>> PBS: job killed: ncpus 12.5 exceeded limit 8 (burst)"),
    ("FAIL002", "node-failure", "=>> PBS: job killed: node 1 (n7) requested job terminate, 'EOF' (code 1099)"),
    ("FAIL002", "preemption", "TERM_PREEMPT: job killed after preemption."),
    ("FAIL002", "time-limit", "TERM_CPULIMIT: job killed after reaching LSF CPU usage limit."),
    ("FAIL002", "oom-kubernetes", "TERM_SWAP: job killed after reaching LSF swap usage limit."),
    ("FAIL002", "time-limit", "failed       37  : qmaster enforced h_rt, h_cpu, or h_vmem limit"),
    ("FAIL002", "sigkill", "exit_status  137                  (Killed)"),
    ("FAIL002", "oom-kubernetes", "\tJob has gone over cgroup memory limit of 65536 megabytes. Last measured usage: 65530"),
    ("FAIL002", "preemption", "004 (4711.000.000) 2025-03-01 10:00:00 Job was evicted."),
    ("FAIL002", "time-limit", "\tThe job exceeded allowed execute duration of 20:00:00"),
    ("FAIL002", "node-failure", '"statusReason": "Host EC2 (instance i-0123) terminated.",'),
    ("FAIL002", "oom-kubernetes", '"reason": "OutOfMemoryError: Container killed due to memory usage",'),
    ("FAIL002", "time-limit", "Training job stopped: MaxRuntimeExceeded"),
    ("FAIL002", "oom-kubernetes", "Container [pid=7] is running beyond physical memory limits. Current usage: 4 GB"),
    ("FAIL002", "oom-kubernetes", '            "OOMKilled": true,'),
    ("FAIL002", "sigkill", "fit-1 exited with code 137"),
]  # fmt: skip
ONLY_CONSEQUENCES = [
    "  Warning  BackOff  2m (x9 over 9m)  kubelet  Back-off restarting failed container fit in pod fit-0_ml(01)",
    "  Warning  BackoffLimitExceeded  9s  job-controller  Job has reached the specified backoff limit",
    "fit-0   0/1   CrashLoopBackOff   5 (9s ago)   9m",
    "PyTorchJob fit is failed because 1 Worker replica(s) failed.",
    "fit-1 exited with code 1",
    "AlgorithmError: ExecuteUserScriptError:",
]


def cause_of(tmp_path, text):
    root = root_of(tmp_path, text)
    return (root.code, root.kind) if hasattr(root, "code") else root


@pytest.mark.parametrize(("reason", "message", "code", "kind"), KUBERNETES)
def test_an_event_of_kubernetes(reason, message, code, kind, tmp_path):
    row = f"  Warning  {reason}  61s  kubelet  {message}\n"
    assert cause_of(tmp_path, row) == (code, kind)
    assert cause_of(tmp_path, f"61s   Warning   {reason}   pod/fit-0   {message}\n") == (code, kind)
    assert cause_of(tmp_path, f"2025-03-01T10:00:00.123456789Z {row}") == (code, kind)
    assert cause_of(tmp_path, row + TRAINED) is None


@pytest.mark.parametrize("reason", ["FailedCreatePodSandBox", "NetworkNotReady", "NodeNotReady", "FailedScheduling"])
def test_an_event_that_passed_by(reason, tmp_path):
    row = f"  Warning  {reason}  61s  kubelet  not yet\n"
    assert cause_of(tmp_path, row) is not None and cause_of(tmp_path, row + STARTED) is None


@pytest.mark.parametrize(("state", "kind"), STATES)
def test_a_state_of_a_pod(state, kind, tmp_path):
    assert root_of(tmp_path, f"NAME    READY   STATUS\nfit-0   0/1     {state}   0   9m\n").kind == kind
    assert cause_of(tmp_path, f"the runbook names {state} as a state\n{TRAINED}") is None


@pytest.mark.parametrize("state", ["Pending", "ContainerCreating", "Running", "Completed", "Init:0/1"])
def test_a_state_that_tells_of_no_failure(state, tmp_path):
    assert cause_of(tmp_path, f"fit-0   0/1     {state}   0   9m\n") is None


@pytest.mark.parametrize(("code", "kind", "line"), LINES)
def test_a_line_of_a_scheduler_or_runtime(code, kind, line, tmp_path):
    assert cause_of(tmp_path, f"module cuda is loaded\n{line}\n") == (code, kind)
    assert cause_of(tmp_path, f"{line}\n{TRAINED}") is None


@pytest.mark.parametrize("line", ONLY_CONSEQUENCES)
def test_a_line_that_only_says_that_the_job_failed(line, tmp_path):
    assert cause_of(tmp_path, line + "\n") == "FAIL018"
    assert root_of(tmp_path, raised("KeyError: 'mask'") + line + "\n").exception == "KeyError"


@pytest.mark.parametrize(
    "text",
    [
        "sbatch: error: this cluster asks for an account; the default one is used\nSubmitted batch job 7\n",
        '            "OOMKilled": false,\n            "ExitCode": 0\n',
        "Error response from daemon: No such container: fit\n",
        "fit-1 exited with code 0\n",
        "005 (7.000.000) Job terminated.\n\t(1) Normal termination (return value 0)\n",
        "004 (7.000.000) 2025-03-01 10:00:00 Job was evicted.\n001 (7.000.000) Job executing on host: <10.0.0.7>\n",
        "  Warning  NodeNotReady  9s  x  Node is not ready\n  Normal  NodeReady  1s  x  Node n7 status is now: NodeReady\n",
    ],
)
def test_a_line_that_ended_nothing(text, tmp_path):
    assert cause_of(tmp_path, text) is None


def test_what_the_container_says_outranks_its_state(tmp_path):
    state = "    State:          Waiting\n      Reason:       CreateContainerError\n"
    event = f'  Warning  Failed  9s  kubelet  {START}exec: "fit9": executable file not found in $PATH: unknown\n'
    assert cause_of(tmp_path, state) == ("FAIL020", "container")
    assert cause_of(tmp_path, state + event) == ("FAIL020", "program")


def test_the_log_of_a_kubelet(tmp_path):
    line = (
        'E0301 10:00:00.123456     911 pod_workers.go:1301] "Error syncing pod, skipping" err="failed to '
        '\\"StartContainer\\" for \\"fit\\" with CreateContainerConfigError: \\"secret \\\\\\"hub\\\\\\" not found\\"" '
        'pod="ml/fit-0"\n'
    )
    assert cause_of(tmp_path, line) == ("FAIL020", "pod-config")


def test_a_pod_that_waits_has_not_failed(tmp_path, capsys):
    path = tmp_path / "events.txt"
    row = "61s    Warning   FailedScheduling   pod/fit-0   0/3 nodes are available: 3 Insufficient nvidia.com/gpu.\n"
    path.write_text(f"LAST SEEN   TYPE   REASON   OBJECT   MESSAGE\n{row}", encoding="utf-8")
    main(["autopsy", str(path)])
    said = capsys.readouterr().out
    assert "The job has not started" in said and "The job failed" not in said


def test_only_consequences_in_a_table_of_events(tmp_path, capsys):
    path = tmp_path / "events.txt"
    row = "61s    Warning   BackoffLimitExceeded   job/fit   Job has reached the specified backoff limit\n"
    path.write_text(f"LAST SEEN   TYPE   REASON   OBJECT   MESSAGE\n{row}", encoding="utf-8")
    main(["autopsy", str(path)])
    assert "FAIL018" in capsys.readouterr().out


def test_services_in_the_buffer_of_a_device_are_not_the_job(tmp_path, capsys):
    path = tmp_path / "kernel.log"
    boot = "".join(f"[    {n}.000000] usb {n}: new device found, idVendor=1d6b\n" for n in range(1, 9))
    signal = "[   12.345678] init: Service 'vendor.sensors' (pid 812) received signal 11\n"
    path.write_text(boot + signal + boot, encoding="utf-8")
    main(["autopsy", str(path)])
    assert "no failure in its" in capsys.readouterr().out
    crash = "[   12.345678] python[812]: segfault at 0 ip 00007f sp 00007f error 4 in libfit.so[7f0+1]\n"
    path.write_text(boot + crash, encoding="utf-8")
    main(["autopsy", str(path)])
    assert "FAIL006" in capsys.readouterr().out


def test_a_job_that_slurm_holds(tmp_path, capsys):
    path = tmp_path / "scontrol.txt"
    job = (
        "JobId=47 JobName=fit\n   JobState=PENDING Reason={} Dependency=(null)\n   RunTime=00:00:00 TimeLimit=1:00:00\n"
    )
    path.write_text(job.format("BadConstraints"), encoding="utf-8")
    main(["autopsy", str(path)])
    assert "BadConstraints" in capsys.readouterr().out
    path.write_text(job.format("Priority"), encoding="utf-8")
    main(["autopsy", str(path)])
    assert "no failure in its" in capsys.readouterr().out


ENVELOPES = {
    "JSON": lambda line: json.dumps({"level": "error", "message": line}),
    "a cluster's two names": lambda line: f"abc-1234 cluster-0301-1234 {line}",
    "CloudWatch": lambda line: f"2025-03-01T10:00:00.123Z fit/default/0123abcd {line}",
}


@pytest.mark.parametrize("envelope", ENVELOPES)
@pytest.mark.parametrize(("code", "kind", "line"), some([item for item in LINES if "exited with code" not in item[2]]))
def test_a_line_of_a_scheduler_in_an_envelope(code, kind, line, envelope, tmp_path):
    text = "".join(f"{ENVELOPES[envelope](each)}\n" for each in ("module cuda is loaded", line))
    assert cause_of(tmp_path, text) == (code, kind)


def pod(phase, state, **status):
    states = [{"name": "fit", "state": state}] if state else []
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "fit-0"},
            "status": {"phase": phase, "containerStatuses": states, **status},
        },
        indent=2,
    )


NO_NODE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available: x",
}


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("FAIL020", pod("Pending", {"waiting": {"reason": "CreateContainerConfigError", "message": "no secret"}})),
        ("FAIL015", pod("Pending", {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off"}})),
        ("FAIL002", pod("Pending", {"waiting": {"reason": "RunContainerError", "message": f"{START}container init was OOM-killed"}})),
        ("FAIL020", pod("Pending", None, conditions=[NO_NODE])),
        ("FAIL020", pod("Failed", None, reason="OutOfcpu", message="no room")),
        ("FAIL018", pod("Failed", {"terminated": {"reason": "Error", "exitCode": 1}})),
        ("FAIL018", pod("Running", {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}})),
        (None, pod("Pending", {"waiting": {"reason": "ContainerCreating"}})),
        (None, pod("Running", {"running": {"startedAt": "2025-03-01T10:00:00Z"}})),
        (None, pod("Succeeded", {"terminated": {"reason": "Completed", "exitCode": 0}})),
    ],
)  # fmt: skip
def test_a_pod_in_json(code, text, tmp_path, capsys):
    path = tmp_path / "pod.json"
    path.write_text(text, encoding="utf-8")
    main(["autopsy", str(path)])
    said = capsys.readouterr().out
    assert (code in said) if code else ("no failure in its" in said)


DESCRIBED = (
    "Name:         fit-0\nNamespace:    ml\nNode:         n7/10.0.0.7\nStatus:       {}\nContainers:\n  fit:\n"
    "    Image:          hub/fit:2\n    State:          {}\n      Reason:       {}\n    Last State:     Terminated\n"
    "      Reason:       Error\n      Exit Code:    1\n    Ready:          False\n"
)


def test_a_described_pod_that_restarts(tmp_path, capsys):
    path = tmp_path / "pod.txt"
    for status, state, reason, died in (
        ("Running", "Waiting", "CrashLoopBackOff", True),
        ("Failed", "Terminated", "Error", True),
        ("Running", "Running", "", False),
    ):
        path.write_text(DESCRIBED.format(status, state, reason), encoding="utf-8")
        main(["autopsy", str(path)])
        assert ("FAIL018" in capsys.readouterr().out) is died


def test_whom_the_killer_of_the_kernel_took_is_not_guessed(tmp_path):
    text = "[  100.123456] python3 invoked oom-killer: gfp_mask=0xcc0, order=0, oom_score_adj=0\n"
    root = root_of(tmp_path, text)
    assert root.kind == "oom-kernel" and dict(root.values) == {"program": "python3"}
    killed = "[  100.2] Memory cgroup out of memory: Killed process 31 (fit) total-vm:9kB, anon-rss:8kB\n"
    assert dict(root_of(tmp_path, text + killed).values)["pid"] == "31"


@pytest.mark.parametrize(
    "line",
    [
        "INFO docker: the container fit runs",
        "epoch 3/10 Error 0.12 accuracy 0.9",
        "ffmpeg exited with code 1",
        "100 samples of the set move TO 5 6 ",
        "nvidia-smi: Failed to initialize NVML: library is not here",
    ],
)
def test_an_ordinary_line_that_comes_near(line, tmp_path):
    assert cause_of(tmp_path, f"a program begins\n{line}\n") is None


def test_a_job_that_the_controller_took_after_all(tmp_path):
    line = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n"
    assert cause_of(tmp_path, line) == ("FAIL020", "controller")
    assert cause_of(tmp_path, f"{line}Submitted batch job 7\n") is None


def test_the_whole_reason_is_shown(tmp_path):
    root = root_of(tmp_path, "srun: error: cannot find mpi plugin for mpi/pmix\n")
    assert dict(root.values)["said_by"] == "cannot find mpi plugin for mpi/pmix"
