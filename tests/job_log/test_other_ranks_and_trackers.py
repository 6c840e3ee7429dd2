"""Failures of other ranks and nodes that follow; prefixes of ranks and loggers; whose fault a tracker's error is."""

import pytest
from log_cases import STEPS
from log_causes import named, raised, root_of, steps

LOST = (
    "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. "
    "See inner exception for details."
)
SUMMARY = (
    "E0401 10:00:00.5 71 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -7) local_rank: 3 "
    "(pid: 75) of binary: /opt/py/bin/python\n"
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
    "Root Cause (first observed failure):\n  rank      : 3 (local_rank: 3)\n  exitcode  : -7 (pid: 75)\n"
)


@pytest.mark.parametrize("inner", ["", raised("torch.distributed.DistNetworkError: failed to recv, got 0 bytes")])
def test_the_node_that_lost_the_store_of_another(tmp_path, inner):
    link = "\nThe above exception was the direct cause of the following exception:\n\n" if inner else ""
    lost = inner + link + raised(LOST)
    assert named(tmp_path, STEPS + SUMMARY + lost) == "FAIL005"
    assert named(tmp_path, STEPS + lost + SUMMARY) == "FAIL005"
    assert named(tmp_path, STEPS + lost) == "FAIL018"
    assert named(tmp_path, STEPS + lost + steps(200, 210)) is None


def test_a_store_that_could_not_be_reached_is_the_cause(tmp_path):
    timeout = "torch.distributed.DistNetworkError: The client socket has timed out after 60s while trying to connect to (head, 29500)."
    link = "\nThe above exception was the direct cause of the following exception:\n\n"
    assert named(tmp_path, raised(timeout) + link + raised(LOST)) == "FAIL007"


MPI = (
    "At least one pair of MPI processes are unable to reach each other for\n"
    "MPI communications.  This means that no Open MPI device has indicated\n"
    "that it can be used to communicate between these processes.\n\n"
    "  Process 1 ([[9,1],4]) is on host: c7\n  Process 2 ([[9,1],0]) is on host: c2\n  BTLs attempted: self\n"
)
FATAL = "[c7:31] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,\n"


def test_processes_of_mpi_that_cannot_reach_each_other(tmp_path):
    assert named(tmp_path, MPI + FATAL) == "FAIL007" and named(tmp_path, FATAL + MPI) == "FAIL007"
    assert named(tmp_path, FATAL) == "FAIL006"
    assert named(tmp_path, MPI + steps(0, 9)) is None


def prefixed(prefix, text):
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize("prefix", ["rank #{}: ", "Rank #{}: "])
def test_a_prefix_with_a_number_sign(tmp_path, prefix):
    failed = prefixed(prefix.format(3), raised("KeyError: 'speaker'"))
    text = (
        prefixed(prefix.format(0), STEPS)
        + failed
        + prefixed(prefix.format(1), raised("RuntimeError: Connection closed by peer"))
    )
    root = root_of(tmp_path, text)
    assert (root.code, root.rank, root.frame.line) == ("FAIL001", 3, 12)
    assert named(tmp_path, text + prefixed(prefix.format(3), steps(30, 40)) + "Training finished\n") is None


ABSL = "E0731 02:52:54.57{} 140295433873152 runner.py:258] "


def test_a_traceback_that_absl_logs(tmp_path):
    error = "tensorflow.python.framework.errors_impl.InvalidArgumentError: From /job:fit/task:0:"
    chained = (
        raised(error) + "\nDuring handling of the above exception, another exception occurred:\n\n" + raised(error)
    )
    logged = "".join(ABSL.format(number) + line + "\n" for number, line in enumerate(chained.splitlines(), 10))
    root = root_of(tmp_path, STEPS + logged + ABSL.format(99) + "\n")
    assert (root.code, root.frame.line, root.seconds is not None) == ("FAIL001", 12, True)
    assert named(tmp_path, STEPS + logged + steps(300, 310)) is None
    assert named(tmp_path, STEPS + ABSL.format(1) + "TypeErrors are counted\n") is None


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("wandb.errors.Error: You must call wandb.init() before wandb.log()", "FAIL001"),
        ("wandb.errors.errors.Error: You must call wandb.init() before wandb.define_metric()", "FAIL001"),
        ("wandb.errors.UsageError: call wandb.init() first", "FAIL001"),
        ("wandb.errors.errors.CommError: run fit/a1 was not found", "FAIL015"),
        ("wandb.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])", "FAIL015"),
        ("wandb.errors.errors.AuthenticationError: API key verification failed", "FAIL015"),
        ("wandb.errors.Error: Error communicating with wandb process, exiting", "FAIL015"),
        ("omegaconf.errors.KeyValidationError: ListConfig indices must be integers or slices, not float", "FAIL001"),
        ("wandb.sdk.wandb_settings.SettingsValidationError: Invalid value for property notes", "FAIL001"),
        ("omegaconf.errors.ValidationError: Value 'many' of type 'str' could not be converted to Integer", "CFG010"),
        ("pydantic_core._pydantic_core.ValidationError: 1 validation error for FitArguments", "CFG010"),
        ("omegaconf.errors.ConfigAttributeError: Key 'momentum' is not in struct", "CFG010"),
    ],
)  # fmt: skip
def test_errors_of_trackers_and_of_settings(tmp_path, error, code):
    assert named(tmp_path, raised(error)) == code
    assert named(tmp_path, STEPS + raised(error) + steps(200, 210)) is None


OTHER_RUN = "Initializing distributed: GLOBAL_RANK: 1, MEMBER: 2/4\n"
MEMORY = raised("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (OTHER_RUN + steps(0, 30) + MEMORY + steps(30, 34), "MEM009"),  # of the ranks that go on alone
        ("Finished training epoch 0\n" + OTHER_RUN + steps(0, 30) + MEMORY + steps(30, 34), "MEM009"),
        (steps(0, 30) + MEMORY + steps(30, 34), None),  # one process: it caught the exception
        (OTHER_RUN + steps(0, 30) + MEMORY + steps(30, 60), None),
        (OTHER_RUN + steps(0, 30) + MEMORY + steps(30, 34) + "Training finished\n", None),
        (OTHER_RUN + steps(0, 30) + MEMORY + steps(30, 34) + "saving\nsaved\nuploading\n", None),
    ],
)
def test_the_last_steps_of_other_ranks_behind_an_exception(tmp_path, text, code):
    assert named(tmp_path, text) == code


CAUGHT = (
    "10:00:00 | INFO | fit:main:9 - Trial ended\n" + raised("json.decoder.JSONDecodeError: Expecting value: line 1")
    + "".join(f"reading shard {name} of the corpus\n" for name in ("alpha", "beta", "gamma", "delta") * 75)
)  # fmt: skip
JOINED = raised(
    "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. {}/4 clients joined."
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (CAUGHT + JOINED.format(3), "FAIL016"),
        (JOINED.format(3), "FAIL007"),
        (CAUGHT + JOINED.format(4), "FAIL007"),  # as many came as were expected
        (CAUGHT + CAUGHT.replace("line 1", "row 7") + JOINED.format(3), "FAIL007"),  # more than are missing
        (CAUGHT, None),
        (CAUGHT + raised("KeyError: 'speaker'"), "FAIL001"),
    ],
)
def test_why_ranks_did_not_join(tmp_path, text, code):
    assert named(tmp_path, text) == code


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("malloc(): unaligned tcache chunk detected", "FAIL006"),
        ("free(): invalid size", "FAIL006"),
        ("slurmstepd: error: Some of your step tasks have been killed by the cgroup out-of-memory handler.", "FAIL002"),
        ("Container exceeded its local memory limit", "FAIL002"),
        ("torch.distributed.elastic SignalException: Process 7 got signal: SIGTERM", "FAIL002"),
        ("srun: First task exited 60s ago", "FAIL018"),
        ("[c10d] sendBytes failed on SocketImpl(fd=4)", None),
        ("malloc() of the cache is fast", None),
    ],
)
def test_words_whose_cue_was_missing(tmp_path, line, code):
    assert named(tmp_path, STEPS + line + "\n") == code
