"""Jobs that never began: pods without image, volume or device, jobs that Slurm refused, containers without GPUs."""

import pytest
from log_causes import raised, root_of, steps

from gpudoctor.cli import main

TRAINED = steps(1, 30)
STARTED = "  Normal   Started   3s   kubelet   Started container fit\n"
VOLUME = "  Warning  FailedMount  5m (x9 over 18m)  kubelet  {}\n"
UNMOUNTED = (
    "Unable to attach or mount volumes: unmounted volumes=[corpus], unattached volumes=[corpus token]: timed out"
)
CLI = (
    "docker: Error response from daemon: OCI runtime create failed: exec: hook #0: error running hook: exit status 1, "
    "stdout: , stderr: nvidia-container-cli: {}: unknown.\n"
)
DESCRIBED = (
    "Name:         fit-0\nNamespace:    ml\nNode:         n7/10.0.0.7\nStatus:       Pending\nContainers:\n  fit:\n"
    "    Image:          hub/fit:2\n    State:          Waiting\n      Reason:       {}\n    Ready:          False\n"
    "Events:\n  Type     Reason   Age   From     Message\n  ----     ------   ----  ----     -------\n{}"
)


def kind_of(tmp_path, text):
    return getattr(root_of(tmp_path, text), "kind", None)


def value(tmp_path, text, name):
    return dict(root_of(tmp_path, text).values).get(name)


@pytest.mark.parametrize(
    "line",
    [
        '  Warning  Failed   61s  kubelet  Failed to pull image "hub/fit:2": rpc error: not found\n',
        '  Normal   BackOff  61s  kubelet  Back-off pulling image "hub/fit:2"\n',
        "9s   Warning   Failed   pod/fit-0   Error: ImagePullBackOff\n",
        'Error from server (BadRequest): container "fit" in pod "fit-0" is waiting to start: trying and failing to pull '
        "image\n",
    ],
)
def test_an_event_of_an_image_that_cannot_be_pulled(line, tmp_path):
    assert kind_of(tmp_path, line) == "image-pull"
    assert kind_of(tmp_path, line + "  Normal   Pulled   9s  kubelet  Successfully pulled image\n") is None
    assert kind_of(tmp_path, line + STARTED) is None


@pytest.mark.parametrize(
    "line",
    [
        "docker: Error response from daemon: manifest for hub/fit:2 not found: manifest unknown.\n",
        "Error response from daemon: pull access denied for hub/fit, repository does not exist\n",
        "FATAL:   While making image from oci registry: error fetching image to cache\n",
        "FATAL:   Unable to handle docker://hub/fit:2 uri: failed to get checksum\n",
    ],
)
def test_an_image_that_a_runtime_cannot_pull(line, tmp_path):
    assert kind_of(tmp_path, line) == "image-refused"
    assert kind_of(tmp_path, line + TRAINED) is None


@pytest.mark.parametrize("message", [UNMOUNTED, 'MountVolume.SetUp failed for volume "corpus" : mount failed'])
def test_a_volume_that_cannot_be_mounted(message, tmp_path):
    line = VOLUME.format(message)
    assert kind_of(tmp_path, line) == "volume" and value(tmp_path, line, "volume") == "corpus"
    assert kind_of(tmp_path, message + "\n") == "volume"
    assert kind_of(tmp_path, line + STARTED) is None  # it was mounted later
    assert (
        kind_of(tmp_path, line + "  Normal  SuccessfulAttachVolume  9s  x  AttachVolume.Attach succeeded for volume\n")
        is None
    )
    assert kind_of(tmp_path, f"the runbook: {message}\n" + TRAINED) is None


def test_a_secret_that_a_pod_names_and_that_does_not_exist(tmp_path):
    line = '  Warning  Failed  8s (x4 over 40s)  kubelet  Error: secret "hub-token" not found\n'
    assert kind_of(tmp_path, line) == "pod-config"
    assert value(tmp_path, line, "what") == 'secret "hub-token" not found'
    assert kind_of(tmp_path, "fit-0   0/1     CreateContainerConfigError   0   9s\n") == "pod-config"
    assert kind_of(tmp_path, line + STARTED) is None


def test_a_pod_that_no_node_can_take(tmp_path):
    line = (
        "  Warning  FailedScheduling  9s  default-scheduler  0/3 nodes are available: 3 Insufficient nvidia.com/gpu.\n"
    )
    assert kind_of(tmp_path, line) == "unschedulable"
    assert value(tmp_path, line, "why") == "0/3 nodes are available: 3 Insufficient nvidia.com/gpu"
    assert (
        kind_of(tmp_path, line + "  Normal  Scheduled  1s  default-scheduler  Successfully assigned ml/fit-0\n") is None
    )


@pytest.mark.parametrize(
    "line",
    [
        "Message:   Pod was rejected: Allocate failed due to no healthy devices present, which is unexpected\n",
        "  Warning  UnexpectedAdmissionError  9s  kubelet  Allocate failed due to requested number of devices "
        "unavailable for nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected\n",
    ],
)
def test_a_pod_that_its_node_rejects_for_want_of_a_device(line, tmp_path):
    assert kind_of(tmp_path, line) == "device-plugin"
    assert kind_of(tmp_path, line + STARTED) is None


def test_a_pod_that_its_node_rejects_without_a_reason(tmp_path):
    line = "fit-0   0/1   UnexpectedAdmissionError   0   4s\n"
    assert kind_of(tmp_path, line) == "admission"
    described = "Reason:   UnexpectedAdmissionError\nMessage:  Pod Allocate failed due to rpc error: no candidate pod\n"
    assert value(tmp_path, described, "refusal") == "rpc error: no candidate pod"
    assert kind_of(tmp_path, "an UnexpectedAdmissionError is retried\n" + TRAINED) is None


def test_a_device_plugin_whose_gpu_is_lost(tmp_path):
    line = "Allocate failed due to rpc error: nvml: GPU is lost, which is unexpected\n"
    assert kind_of(tmp_path, line) == "off-the-bus"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("initialization error: nvml error: driver not loaded", "container-runtime"),
        ("device error: 7: unknown device", "unknown-device"),
        ("requirement error: unsatisfied condition: cuda>=12.9, please update your driver", "image-requirement"),
    ],
)
def test_a_container_that_gets_no_gpu(said, kind, tmp_path):
    assert kind_of(tmp_path, CLI.format(said)) == kind
    assert kind_of(tmp_path, CLI.format(said) + TRAINED) is None


def test_docker_without_the_runtime(tmp_path):
    line = 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].\n'
    assert kind_of(tmp_path, line) == "container-runtime"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("sbatch: error: Batch job submission failed: Requested node configuration is not available\n", "scheduler"),
        ("srun: error: Unable to create step for job 47: More processors requested than permitted\n", "step"),
        ("salloc: error: Unable to allocate resources: Invalid account combination specified\n", "scheduler"),
    ],
)
def test_a_job_or_a_step_that_slurm_refused(line, kind, tmp_path):
    assert kind_of(tmp_path, line) == kind
    assert kind_of(tmp_path, line.rpartition(": ")[0] + ": Requested nodes are busy\n") is None
    assert kind_of(tmp_path, TRAINED + "Training finished\n" + line) is None  # it asked for the next job
    assert kind_of(tmp_path, line + raised("KeyError: 'mask'")) == "exception"


def test_a_node_that_could_not_start_a_job(tmp_path):
    line = "srun: error: Task launch for StepId=23.0 failed on node n7: Job prolog failed\n"
    after = "srun: error: Application launch failed: Job prolog failed\nsrun: error: Timed out waiting for job step\n"
    root = root_of(tmp_path, line + after)
    assert root.kind == "launch" and dict(root.values) == {"where": "n7", "why": "Job prolog failed"}
    assert kind_of(tmp_path, "srun: error: Timed out waiting for job step\n" + TRAINED) is None


def test_a_described_pod_that_waits(tmp_path, capsys):

    path = tmp_path / "pod.txt"
    for reason, event, code in (
        ("ImagePullBackOff", "", "FAIL015"),
        ("ContainerCreating", VOLUME.format(UNMOUNTED), "FAIL020"),
        ("ContainerCreating", "", None),
        ("ContainerCreating", VOLUME.format(UNMOUNTED) + STARTED, None),
    ):
        path.write_text(DESCRIBED.format(reason, event), encoding="utf-8")
        main(["autopsy", str(path)])
        text = capsys.readouterr().out
        assert (code in text) if code else ("no failure in its" in text), (reason, text)


def test_an_eviction_is_no_preemption(tmp_path):
    line = "4m  Warning  Evicted  pod/fit-0  The node was low on resource: cpu. Container fit was using 9.\n"
    assert kind_of(tmp_path, line) == "evicted" and value(tmp_path, line, "resource") == "cpu"
    assert kind_of(tmp_path, "fit-0   0/1   Evicted   0   9h\n") == "evicted"
    assert (
        kind_of(tmp_path, "slurmstepd: error: *** JOB 3 ON n7 CANCELLED AT 9 DUE TO PREEMPTION ***\n") == "preemption"
    )


def test_ranks_that_do_not_know_an_option(tmp_path):
    usage = (
        "usage: fit.py [-h] --config CONFIG\n              [--local_rank LOCAL_RANK]\n              [--resume RESUME]\n"
    )
    main_of = '  File "/work/launch.py", line 9, in <module>\n    main()\n'
    ranks = "".join(f"{usage}fit.py: error: unrecognized arguments: --local-rank={n}\n" for n in range(4))
    launcher = "Traceback (most recent call last):\n" + main_of + "torch.distributed.elastic.ChildFailedError: \n"
    text = "a note of the launcher\n  main()\n" + usage + ranks + launcher
    assert kind_of(tmp_path, text) == "unrecognized"
    assert kind_of(tmp_path, ranks + TRAINED) is None


def test_remedies_of_an_engine_that_only_generates(tmp_path, capsys):
    path = tmp_path / "job.out"
    full = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.18 GiB"
    engine = "ValueError: Free memory on device cuda:0 (54.34/79.18 GiB) on startup is less than desired GPU memory utilization (0.92)."
    for line, training in ((engine, False), (full, True)):
        path.write_text(raised(line), encoding="utf-8")
        main(["autopsy", str(path)])
        assert ("gradient checkpointing" in capsys.readouterr().out) is training
