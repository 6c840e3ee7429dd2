"""Causes that a program only mentions: in words of its own, at a low level, some lines before it dies."""

import json

import pytest
from log_causes import MESSAGES, named, raised, root_of, steps

from gpudoctor.analysis.job_log.findings import confidence_of
from gpudoctor.analysis.job_log.first_cause import first_cause
from gpudoctor.model import Confidence
from gpudoctor.model.log_message import LogMessage
from gpudoctor.vitals.job_log import read_job_log

MEMORY = "CUDA out of memory. Tried to allocate 3.10 GiB. GPU 0 has a total capacity of 23.6 GiB"
FFT = "mixing: RuntimeError('cuFFT error: CUFFT_INTERNAL_ERROR') -> clip left out\n"
EMPTY = raised("RuntimeError: stack expects a non-empty TensorList")
TIMEOUT = (
    "[rank{rank}]: [E ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=88, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600021 "
    "milliseconds before timing out.\n"
)


def test_a_cause_in_the_words_of_the_program_explains_a_plain_exception(tmp_path):
    root = root_of(tmp_path, steps(1, 5) + FFT * 3 + "no clip of the batch is left\n" + EMPTY)
    assert (root.code, root.line, root.step) == ("FAIL009", 5, 4)
    message = LogMessage(kind="x", cue="x", pattern="x", text="x")
    assert confidence_of(message, root) is Confidence.PROBABLE


def test_not_in_a_configuration_or_an_advice(tmp_path):
    for line in (f"cfg.on_error = {MEMORY}", f'"on_error": "{MEMORY}",', f"if you see {MEMORY}, use less"):
        assert named(tmp_path, f"{line}, giving up\nno clip\n" + EMPTY) == "FAIL001"
    assert named(tmp_path, f"no state: {MEMORY}, giving up\nno clip\n" + EMPTY) == "MEM009"


@pytest.mark.parametrize(
    "line",
    [
        f"batch size search: 64: {MEMORY}\nbatch size search: 32: fits\n",
        "torch.compile disabled: torch._dynamo.exc.BackendCompilerFailed: backend=inductor raised\nbuilding\n",
    ],
)
def test_what_was_overcome_explains_nothing(tmp_path, line):
    assert named(tmp_path, line + EMPTY) == "FAIL001"


def test_words_of_the_same_thing(tmp_path):
    line = "resume: UnpicklingError: Weights only load failed. Unsupported global. The file is ignored\nnew start\n"
    assert named(tmp_path, line + raised("KeyError: 'lr is not there when resuming'")) == "FAIL014"
    assert named(tmp_path, line + EMPTY) == "FAIL001"


def test_not_if_the_training_went_on(tmp_path):
    assert named(tmp_path, FFT + steps(1, 5) + EMPTY) == "FAIL001"
    assert named(tmp_path, FFT + steps(1, 9)) is None


def test_not_if_many_lines_lie_between(tmp_path):
    between = "".join(f"evaluating clip {name}\n" for name in "abcdef")
    assert named(tmp_path, FFT + between + EMPTY) == "FAIL001"


def test_not_if_the_death_has_a_known_cause(tmp_path):
    assert named(tmp_path, FFT + raised(f"torch.OutOfMemoryError: {MEMORY}")) == "MEM009"


@pytest.mark.parametrize("line", ["import apex: ModuleNotFoundError: No module named 'apex', ignored\n"])
def test_what_is_optional_explains_nothing(tmp_path, line):
    assert named(tmp_path, line + EMPTY) == "FAIL001"


def test_a_rank_that_left_said_why(tmp_path):
    left = f"[rank1]: the optimizer has no state: {MEMORY}\n[rank1]: leaving\n"
    waited = "".join(TIMEOUT.format(rank=rank) for rank in (0, 2, 3))
    root = root_of(tmp_path, left + waited)
    assert (root.code, root.rank, root.line) == ("MEM009", 1, 1)
    went_on = "".join(f"[rank1]: step {step} loss 0.31\n" for step in range(9))
    assert named(tmp_path, left + went_on + waited) == "FAIL004"


def test_another_ranks_words_do_not_explain_a_plain_exception(tmp_path):
    died = "".join(f"[rank0]: {line}\n" for line in EMPTY.splitlines())
    assert named(tmp_path, f"[rank1]: no state: {MEMORY}\n" + died) == "FAIL001"


def test_ranks_that_did_not_join_said_why(tmp_path):
    joined = "torch.distributed.DistStoreError: Timed out after 181 seconds waiting for clients. {}/4 clients joined.\n"
    lines = "".join(f"[rank{rank}]: no state: {MEMORY}\n" for rank in (2, 3))
    assert named(tmp_path, lines + "[rank0]: " + joined.format(2)) == "MEM009"
    assert named(tmp_path, lines + "[rank0]: " + joined.format(3)) == "FAIL007"


def test_a_full_disk_that_a_writer_said_long_before(tmp_path):
    full = "WARNING writer: shard 3 is not written: OSError(28, 'No space left on device'); will try again\n"
    writer = raised("RuntimeError: the thread that writes checkpoints is gone")
    assert named(tmp_path, full + steps(1, 60) + writer) == "ENV011"
    assert named(tmp_path, full + steps(1, 60) + EMPTY) == "FAIL001"
    assert named(tmp_path, full + steps(1, 60)) is None


def test_a_record_that_names_its_rank(tmp_path):
    def said(rank, message, level="ERROR"):
        return json.dumps({"level": level, "rank": rank, "message": message}) + "\n"

    text = said(5, f"no state: {MEMORY}", "INFO") + "".join(
        said(rank, TIMEOUT.format(rank=rank).partition("timeout: ")[2].strip()) for rank in (0, 1, 2)
    )
    root = root_of(tmp_path, text)
    assert (root.code, root.rank) == ("MEM009", 5)


def test_an_exception_behind_a_signal_to_end(tmp_path):
    died = "".join(f"[rank0]: {line}\n" for line in raised("_queue.Empty").splitlines())
    record = "4711    CANCELLED by 1001   0:0\n"
    assert named(tmp_path, "[rank0]: got signal 15\n" + died + record) == "FAIL002"
    assert named(tmp_path, "[rank1]: got signal 15\n" + died + record) == "FAIL001"


def test_a_killed_worker_before_another_exception(tmp_path):
    killed = "ERROR: DataLoader worker (pid 411) is killed by signal: Killed.\n"
    broken = raised("MisconfigurationException: No `test_dataloader()` method defined to run `Trainer.test`.")
    assert named(tmp_path, steps(1, 4) + killed + broken) == "DATA010"
    assert named(tmp_path, broken + killed) == named(tmp_path, broken)


def test_a_node_that_failed_after_its_files(tmp_path):
    files = "0: OSError: [Errno 116] Stale file handle: '/data/a'\n"
    assert named(tmp_path, files + "srun: error: Node failure on n7\n") == "FAIL002"
    assert named(tmp_path, files + "srun: error: n7: task 0: Exited with exit code 1\n") == "FAIL016"


BARRIER = "DEADLINE_EXCEEDED: Barrier timed out. Id: {}::0. This usually happens because a task came late."


def test_a_barrier_of_jax(tmp_path):
    raised_by = "jaxlib.xla_extension.XlaRuntimeError: " + BARRIER
    assert named(tmp_path, raised(raised_by.format("[Init]Wait_for_all_tasks_to_register"))) == "FAIL007"
    assert named(tmp_path, raised(raised_by.format("checkpoint_9"))) == "FAIL004"


def test_a_rank_that_crashed_before_the_exceptions_of_the_others(tmp_path):
    crash = "[rank3]: terminate called after throwing an instance of 'acc::Error' - Aborted (SIGABRT in libacc.so)\n"
    others = "".join(
        f"[rank{rank}]: {line}\n" for rank in (0, 1) for line in raised("RuntimeError: peer closed").splitlines()
    )
    root = root_of(tmp_path, crash + others)
    assert (root.code, root.rank) == ("FAIL006", 3)
    assert named(tmp_path, others + crash) == "FAIL001"


SUMMARY = (
    "fit.py FAILED\nRoot Cause (first observed failure):\n[0]:\n  rank      : {rank} (local_rank: 3)\n"
    "  exitcode  : {code} (pid: 61933)\n  error_file: <N/A>\n  traceback : Signal 9 (SIGKILL) received by PID 61933\n"
)


def test_a_kill_that_the_launcher_saw_first(tmp_path):
    waited = "".join(TIMEOUT.format(rank=rank) for rank in (0, 2, 3))
    assert named(tmp_path, waited + SUMMARY.format(rank=1, code=-9)) == "FAIL002"
    assert named(tmp_path, waited + SUMMARY.format(rank=2, code=-9)) == "FAIL004"  # it had waited, too


def test_an_exception_in_the_last_line_as_python_prints_the_object(tmp_path):
    line = "MisconfigurationException('`GPUAccelerator` can not run on your system')\n"
    assert named(tmp_path, steps(1, 3) + line) == "CFG010"
    assert named(tmp_path, line + steps(1, 5) + "done\n") is None


def test_a_message_of_a_gpu_in_several_lines_at_the_end(tmp_path):
    text = (
        "!!! Exception during processing !!! HIP error: invalid argument\nSearch for `hipErrorInvalidValue' in x\n"
        "HIP kernel errors might be asynchronously reported\nFor debugging consider passing AMD_SERIALIZE_KERNEL=3\n"
        "Compile with `TORCH_USE_HIP_DSA` to enable device-side assertions.\n"
    )
    assert named(tmp_path, text) == "FAIL009"
    assert named(tmp_path, text + steps(1, 5)) is None


def test_a_bar_that_is_printed_again_at_step_0_is_no_training(tmp_path):
    died = "2025-01-01 10:00:00 INFO epoch is incremented\n" + raised("RuntimeError: expected scalar type Half")
    assert named(tmp_path, died + "steps:   0%|          | 0/150 [00:06<?, ?it/s]\n") is not None


def test_a_warning_of_tensorflow_before_an_exception_whose_message_comes_later(tmp_path):
    line = (
        "W tensorflow/core/framework/op_kernel.cc:1857] OP_REQUIRES failed at a.h:10 : RESOURCE_EXHAUSTED: OOM "
        "when allocating tensor with shape[512,64]\n"
    )
    died = raised("tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:")
    assert named(tmp_path, line + died) == "MEM009"
    assert named(tmp_path, line + "fitting\n") is None


def test_a_build_for_the_cpu_stands_above_and_explains(tmp_path):
    line, died = ("Ultralytics 8.3.50 Python-3.11.9 torch-2.5.1+cpu\n", raised("ValueError: Invalid CUDA 'device=0'"))
    assert named(tmp_path, line + died) == "ENV002"
    assert named(tmp_path, line + "fitting\n") is None


def test_an_auxiliary_loss_that_is_nan(tmp_path):
    line = "step {} loss: {} aux_loss: {}\n"
    assert named(tmp_path, "".join(line.format(step, 2.1, "nan") for step in range(30))) is None
    assert named(tmp_path, "".join(line.format(step, "nan", 0.1) for step in range(30))) == "NUM002"


def test_the_row_of_one_pod_beside_that_of_another(tmp_path):
    image = "train  pod/fit-a-1   0/1   ErrImagePull   0   60s\n"
    evicted = "train  pod/fit-b-1   0/1   Evicted        0   60s\n"
    assert root_of(tmp_path, image + evicted).doubtful
    assert not root_of(tmp_path, evicted).doubtful


def test_tasks_that_srun_ended(tmp_path):
    ended = "srun: error: n1: tasks 0-4,6-7: Terminated\n"
    assert named(tmp_path, steps(1, 5) + ended) == "FAIL002"
    assert named(tmp_path, steps(1, 5) + "srun: error: n1: task 5: Exited with exit code 1\n" + ended) == "FAIL018"


def test_a_signal_to_end_behind_a_training_that_is_complete(tmp_path):
    ended = "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4711 got signal: 15\n"
    assert named(tmp_path, steps(1, 30) + "training finished\n" + ended) is None
    assert named(tmp_path, "training finished\n" + steps(1, 30) + ended) == "FAIL002"


def test_a_task_of_tensorflow_that_no_longer_answered(tmp_path):
    line = (
        "tensorflow.python.framework.errors_impl.UnavailableError: Collective ops is aborted by: Task "
        "/job:worker/replica:0/task:{} heartbeat timeout. This indicates that the remote task has failed"
    )
    root = root_of(tmp_path, raised(line.format(3)))
    assert (root.code, dict(root.values)["missing"]) == ("FAIL004", "3")
    assert named(tmp_path, raised(line.format(3).replace("heartbeat timeout", "a user"))) == "FAIL001"


def test_a_rank_that_left_said_why_in_its_own_file(tmp_path):
    paths = []
    for rank in range(4):
        path = tmp_path / f"rank{rank}.log"
        said = f"no state: {MEMORY}\nleaving\n" if rank == 2 else TIMEOUT.format(rank=rank)
        path.write_text(steps(1, 5) + said)
        paths.append(str(path))
    cause = first_cause(read_job_log(paths, MESSAGES))
    assert cause is not None and cause.root is not None
    assert (cause.root.code, cause.root.rank) == ("MEM009", 2)
    assert first_cause(read_job_log(paths[2:3], MESSAGES)) is None
