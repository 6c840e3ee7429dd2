"""What the eighth set of logs showed: pods, kernels, joined lines, watchdogs of a job that ends, certain words."""

import pytest
from log_causes import FRAME, HEAD, MESSAGES, named, raised, root_of, steps

from gpudoctor.analysis.job_log.first_cause import first_cause
from gpudoctor.cli import main
from gpudoctor.vitals.build_log_patient import signs_of, sort_left_behind

TRAINED = steps(1, 30)
GO = "E0604 15:51:53.763503   15104 kuberuntime_manager.go:749] "
WAITS = "  trainer:\n    State:          Waiting\n      Reason:       {}\n    Ready:          False\n"
RUNC = "unable to start container process: exec: {0}fit.py{0}: executable file not found in $PATH: unknown"


def kind_of(tmp_path, text):
    return getattr(root_of(tmp_path, text), "kind", None)


def test_an_error_of_a_service_written_in_go_is_no_exception_of_the_job(tmp_path):
    assert named(tmp_path, GO + "container start failed: CreateContainerConfigError: endpoint not found\n") is None
    assert named(tmp_path, "start failed: CreateContainerConfigError: endpoint not found\n") == "FAIL001"
    assert named(tmp_path, GO + "starting the container\n" + raised("KeyError: 'mask'")) == "FAIL001"


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"])
def test_an_image_that_cannot_be_pulled(reason, tmp_path):
    assert kind_of(tmp_path, WAITS.format(reason)) == "image-pull"
    assert kind_of(tmp_path, f"NAME   READY   STATUS   RESTARTS\nfit-0   0/1     {reason}   0\n") == "image-pull"
    event = f"  Warning  Failed   61s   kubelet   Error: {reason}\n  Normal  Pulled  9s  kubelet  pulled the image\n"
    assert named(tmp_path, event) is None  # it was pulled later
    assert named(tmp_path, WAITS.format("ContainerCreating")) is None


@pytest.mark.parametrize("quote", ['"', '\\"'])
def test_a_container_whose_program_does_not_exist(quote, tmp_path):
    assert kind_of(tmp_path, "OCI runtime create failed: " + RUNC.format(quote) + "\n") == "program"
    assert named(tmp_path, "exec: the executable file not found in $PATH is skipped\n" + TRAINED) is None


def test_a_disk_of_a_node_that_is_nearly_full(tmp_path):
    message = "The node was low on resource: ephemeral-storage. Container fit was using 9Ki, request is 0.\n"
    assert kind_of(tmp_path, message) == "no-space"
    assert kind_of(tmp_path, "fit-0  ml  Evicted  node7  Pod The node had condition: [DiskPressure]. \n") == "no-space"
    assert named(tmp_path, message.replace("was low", "is not low") + TRAINED) is None


def test_a_syntax_error_of_busybox(tmp_path):
    assert kind_of(tmp_path, '/bin/sh: syntax error: unexpected "fi"\n') == "job-script"
    assert kind_of(tmp_path, 'fit.sh: line 4: syntax error: unexpected "done"\n') == "job-script"
    assert named(tmp_path, 'the parser says: syntax error: unexpected "fi"\n' + TRAINED) is None


def test_a_download_as_the_last_line_of_a_script(tmp_path):
    line = "  0     0    0     0    0     0      0      0 --:--:-- --:--:-- --:--:--     0curl: (6) Could not resolve host: hub\n"
    assert kind_of(tmp_path, line) == "offline"
    assert named(tmp_path, line + TRAINED) is None
    assert named(tmp_path, line + "the copy of yesterday is used\n") is None


def test_a_segmentation_fault_in_the_words_of_the_kernel(tmp_path):
    line = "kernel: {}[2536443]: segfault at 7f797fe00000 ip 00007f7c sp 00007f7d error 4 in libnccl.so.2[7f7c7ac00000+1]\n"
    root = root_of(tmp_path, line.format("pt_main_thread"))
    assert root.kind == "segfault" and dict(root.values)["library"] == "libnccl.so.2"
    assert kind_of(tmp_path, line.format("python3.11")) == "segfault"
    assert named(tmp_path, line.format("gnome-shell")) is None
    assert named(tmp_path, line.format("python3") + TRAINED) is None


@pytest.mark.parametrize("name", ["ILLEGAL_ADDRESS", "MISALIGNED_ADDRESS", "LAUNCH_FAILED"])
def test_an_error_of_the_driver_by_its_name(name, tmp_path):
    line = f"[E driver.h:93] CUDA Error CUDA_ERROR_{name} while calling cuStreamSynchronize\n"
    assert named(tmp_path, line + "terminate called after throwing an instance of 'int'\n") == "FAIL003"
    assert named(tmp_path, line.replace(f"ERROR_{name}", "SUCCESS")) is None
    assert named(tmp_path, TRAINED[:300] + line + TRAINED) is None


def test_lines_that_a_terminal_padded_and_joined(tmp_path):
    bar = "Loading checkpoint shards:   0%|      | 0/2 [00:00<?, ?it/s]"
    closing = (
        "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 31 closing signal SIGTERM" + " " * 20
    )
    error = (
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 4 (pid: 32)" + " " * 20
    )
    joined = bar + closing + error + HEAD.strip() + " " * 20 + FRAME.replace("\n", " " * 20) + "\n"
    assert kind_of(tmp_path, joined) == "sigkill"
    assert named(tmp_path, (bar + closing).rstrip() + "\n") is None


WATCHDOG = (
    "[rank7]:[E814 01:57:12 ProcessGroupNCCL.cpp:542] [Rank 7] Collective WorkNCCL(SeqNum=9, OpType=ALLREDUCE) raised "
    "the following async exception: NCCL error: unhandled system error\n"
    "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. \n"
    "Last error:\n\n"
)


@pytest.mark.parametrize("done", ["Training finished | 2000 steps", "训练结束 | 2000 步"])
def test_watchdogs_that_complain_while_a_job_ends_well(done, tmp_path):
    assert named(tmp_path, TRAINED + WATCHDOG + "saved step2000.pt\n" + done + "\n") is None
    assert named(tmp_path, TRAINED + WATCHDOG + "the results are not there\n") == "FAIL008"
    summary = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    assert named(tmp_path, TRAINED + WATCHDOG + done + "\n" + summary) == "FAIL008"
    other = TRAINED + raised("KeyError: 'mask'") + done + "\n"
    assert named(tmp_path, other) == "FAIL001"  # the shell may have said so


@pytest.mark.parametrize("line", ["2024-03-01 10:10:00 - fit - INFO - ", "[2024-03-01 10:10:00 INFO] "])
def test_a_logger_that_says_behind_a_traceback_that_the_training_is_done(line, tmp_path):
    assert named(tmp_path, TRAINED + raised("KeyError: 'mask'") + line + "Training finished\n") is None
    assert named(tmp_path, TRAINED + raised("KeyError: 'mask'") + line + "closing the files\n") == "FAIL001"
    assert named(tmp_path, TRAINED + raised("KeyError: 'mask'") + "Training finished\n") == "FAIL001"
    summary = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    ended = TRAINED + raised("KeyError: 'mask'") + line + "Training finished\n" + summary
    assert named(tmp_path, ended) == "FAIL001"


@pytest.mark.parametrize("instead", ["using sdpa", "so defaulting to eager", "reverting to float32"])
def test_an_exception_in_a_line_that_says_what_is_used_instead(instead, tmp_path):
    line = f"ImportError: FlashAttention2 is not installed, {instead}\n"
    behind = "".join(f"block {name} is built\n" for name in ("one", "two", "three", "four", "five", "six", "seven"))
    assert named(tmp_path, line + behind) is None
    assert named(tmp_path, line) == named(tmp_path, line + "building\n") != None  # noqa: E711
    assert named(tmp_path, line.replace(f", {instead}", "") + behind) is not None
    assert named(tmp_path, raised(line.strip())) is not None


def test_a_process_at_the_other_end_of_a_pipe_that_is_gone(tmp_path):
    frame = '  File "/usr/lib/python3.11/multiprocessing/connection.py", line 399, in _recv\n    raise EOFError\n'
    text = TRAINED + HEAD + FRAME + frame + "EOFError\n"
    root = root_of(tmp_path, text)
    assert root.kind == "child-gone" and root.bearing.value == "symptom"
    assert named(tmp_path, TRAINED + raised("KeyError: 'mask'") + text) == "FAIL001"
    assert named(tmp_path, TRAINED + raised("EOFError: Ran out of input")) == "FAIL016"


def test_a_workflow_whose_command_failed_elsewhere(tmp_path):
    line = "parsl.app.errors.BashExitFailure: bash_app fit failed with unix exit code 3"
    assert named(tmp_path, raised(line)) == "FAIL018"
    assert named(tmp_path, raised(line.replace("code 3", "code 134"))) == "FAIL006"
    assert named(tmp_path, raised(line.replace("BashExitFailure: bash_app fit", "Failure: fit"))) == "FAIL001"


def test_a_wait_on_the_store(tmp_path):
    root = root_of(tmp_path, raised("RuntimeError: Socket Timeout"))
    assert root.code == "FAIL004" and root.bearing.value == "symptom"
    cause = raised("FileNotFoundError: [Errno 2] No such file or directory: '/data/a'")
    assert named(tmp_path, raised("RuntimeError: Socket Timeout") + cause) == "FAIL016"


def test_what_only_follows_from_the_end_of_a_program(tmp_path):
    late = raised("RuntimeError: cannot schedule new futures after interpreter shutdown")
    assert named(tmp_path, TRAINED + late) is None
    assert named(tmp_path, TRAINED + raised("KeyError: 'mask'") + late) == "FAIL001"
    words = "wandb.sdk.mailbox.mailbox_handle.HandleAbandonedError\n"
    frame = (
        '  File "/usr/lib/python3.11/site-packages/wandb/sdk/lib/asyncio_manager.py", line 219, in fn\n    await done\n'
    )
    abandoned = HEAD + FRAME + frame + words
    assert named(tmp_path, TRAINED + raised(words.strip())) is not None
    assert named(tmp_path, TRAINED + abandoned) is None
    assert named(tmp_path, TRAINED + raised("KeyError: 'mask'") + abandoned) == "FAIL001"


def test_an_exception_without_a_traceback_beside_the_open_tracebacks_of_other_ranks(tmp_path):
    lost = "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error"
    peers = "".join(f"[rank{rank}]: {line}\n" for rank in range(3) for line in raised(lost).splitlines())
    own = "[rank3]: ImportError: cannot import name 'x' from 'y'\n"
    assert named(tmp_path, TRAINED + peers) == "FAIL018"
    assert named(tmp_path, TRAINED + peers + own) == "ENV005"
    assert root_of(tmp_path, TRAINED + peers + own).rank == 3
    text = raised("KeyError: 'mask'").strip() + "\nValueError: the second line of its message\n"
    assert named(tmp_path, TRAINED + text) == "FAIL001"


def test_a_symptom_before_the_timeouts_of_the_other_ranks(tmp_path):
    died = "[rank3]: RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.\n"
    timeouts = "".join(
        f"[rank{rank}]:[E321 02:17:08.408271257 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation "
        f"timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n"
        for rank in range(3)
    )
    assert named(tmp_path, TRAINED + died + timeouts) == "DATA010"
    assert root_of(tmp_path, TRAINED + died + timeouts).rank == 3
    assert named(tmp_path, TRAINED + timeouts + died) == "FAIL004"
    assert named(tmp_path, TRAINED + timeouts) == "FAIL004"


def test_a_gpu_that_is_gone_explains_the_error_of_the_program_that_came_before(tmp_path):
    error = raised("RuntimeError: CUDA error: unspecified launch failure")
    gone = "[  +0.001] NVRM: Xid (PCI:0000:3d:00): 79, pid=31, name=python3, GPU has fallen off the bus.\n"
    assert named(tmp_path, TRAINED + error) == "FAIL003"
    assert named(tmp_path, TRAINED + error + gone) == "GPU004"
    fault = "[  +0.001] NVRM: Xid (PCI:0000:3d:00): 31, pid=31, name=python3, Ch 00000008, MMU Fault\n"
    assert named(tmp_path, TRAINED + error + fault) == "FAIL003"


@pytest.mark.parametrize("name", ["val_loss", "val loss", "Validation loss", "eval_loss", "test/loss"])
def test_a_loss_of_a_validation_that_is_not_finite(name, tmp_path):
    well = "".join(f"Epoch {n}/9 train loss 0.{9 - n} lr 0.01\n  {name}: nan\n" for n in range(1, 9))
    assert named(tmp_path, well) is None
    assert named(tmp_path, well.replace("loss 0.1", "loss nan").replace("loss 0.2", "loss nan")) is None  # twice only
    lost = "".join(f"Epoch {n}/9 train loss nan lr 0.01\n  {name}: nan\n" for n in range(1, 9))
    assert named(tmp_path, lost) == "NUM002"


def test_a_training_that_is_done_behind_a_traceback(tmp_path):
    failed = raised("KeyError: 'mask'")
    done = "Training finished\n"
    assert named(tmp_path, TRAINED + failed + steps(31, 32) + done) is None  # the program went on
    assert named(tmp_path, TRAINED + failed + "{'train_runtime': 12.5, 'train_loss': 0.3}\n") is None
    assert named(tmp_path, TRAINED + done + failed) == "FAIL001"
    root = root_of(tmp_path, TRAINED + failed + done)
    assert root.code == "FAIL001" and root.doubtful  # the job script may have said so
    assert not root_of(tmp_path, TRAINED + failed).doubtful
    summary = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    assert not root_of(tmp_path, TRAINED + failed + summary + done).doubtful


def test_a_parent_whose_process_in_the_background_failed(tmp_path):
    parent = "Exception: initialization failed due to an exception in a background process. See stack trace."
    worker = "(Worker pid=7) ERROR 07-01 09:41:21 [x.py:8] "
    child = "".join(worker + line + "\n" for line in raised("KeyError: 'mask'").splitlines())
    behind = "".join(f"INFO 07-01 09:41:22 [x.py:9] the worker {n} is ended\n" for n in "abcdefgh")
    root = root_of(tmp_path, child + behind + raised(parent))
    assert root.exception == "KeyError"
    assert named(tmp_path, raised(parent)) == "FAIL018"
    assert named(tmp_path, raised("RuntimeError: a background process is slow")) == "FAIL001"


def test_a_watchdog_whose_line_was_wrapped(tmp_path):
    line = (
        "[E ProcessGroupNCCL.cpp:523] Watchdog caught collective operation timeout:\nWorkNCCL(OpType=ALLREDUCE) ran\n"
    )
    assert named(tmp_path, line) == "FAIL004"
    assert named(tmp_path, "Watchdog caught collective operation timeout: none so far\n" + TRAINED) is None


def test_a_library_of_windows_that_the_program_reports(tmp_path):
    line = 'Error running job: [WinError 126] not found. Error loading "D:\\venv\\torch\\lib\\c10.dll" or one of its dependencies.\n'
    root = root_of(tmp_path, line)
    assert root.kind == "missing-library" and dict(root.values)["library"] == "c10.dll"
    assert named(tmp_path, line + TRAINED) is None


XID = "NVRM: Xid (PCI:0000:0a:00): {}, pid=9, name=python3\n"


def test_an_xid_in_the_record_of_a_machine(tmp_path):
    head = "____________________________________________\n\nStart of NVIDIA bug report log file.  Please include it.\n"
    assert root_of(tmp_path, head + "\n*** /var/log/messages\n" + XID.format(79)).doubtful
    assert not root_of(tmp_path, XID.format(79)).doubtful


def test_an_xid_of_another_day(tmp_path):
    path = tmp_path / "dmesg.txt"
    day = "[Mon Nov {:2d} 10:00:0{} 2025] {}"
    old, new = day.format(3, 1, XID.format(79)), day.format(24, 1, XID.format(62))
    later = day.format(27, 5, "docker0: port 1 entered forwarding state\n")
    near = day.format(3, 9, "docker0: port 1 entered forwarding state\n")

    def root(text):
        path.write_text(text, encoding="utf-8")
        return first_cause(signs_of(sort_left_behind([str(path)]), MESSAGES)["job_log"].take()).root

    assert dict(root(old + new).values)["xid"] == "62" and not root(old + new).doubtful
    assert root(old + later).doubtful and not root(old + near).doubtful


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("OSError: [Errno 28] No space left on device", "The disk is full"),
        (
            "fit-0  ml  Evicted  node7  Pod The node had condition: [DiskPressure]. ",
            "Kubernetes ended or refused the pod",
        ),
    ],
)
def test_two_wordings_of_one_kind_have_their_own_sentences(line, words, tmp_path, capsys):
    path = tmp_path / "job.out"
    path.write_text(TRAINED + (raised(line) if "Error" in line else line + "\n"), encoding="utf-8")
    main(["autopsy", str(path)])
    assert words in " ".join(capsys.readouterr().out.split())
