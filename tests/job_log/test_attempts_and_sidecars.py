"""Jobs that are tried again, tests that expect errors, containers beside the one that trains."""

from log_causes import named, raised, root_of, steps

MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.10 GiB.\n"
LIMIT = "slurmstepd: error: *** JOB 502 ON g1 CANCELLED AT 2025-01-01T10:00:00 DUE TO TIME LIMIT ***\n"
CHECKPOINT = raised("RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory")


def test_an_attempt_that_a_script_counts_is_another_run(tmp_path):
    text = "### attempt 1\n" + steps(1, 9) + MEMORY + "### attempt 2\n" + steps(1, 5) + LIMIT + "### attempt 3\n"
    assert named(tmp_path, text + CHECKPOINT) == "FAIL014"
    assert named(tmp_path, "### attempt 1\n" + MEMORY + "### attempt 2\n" + steps(1, 9)) is None
    assert named(tmp_path, "### attempt 1\n" + MEMORY + "### attempt 2\n") == "MEM009"


def test_what_an_earlier_attempt_mentioned_explains_nothing(tmp_path):
    text = f"### attempt 1\nno state: {MEMORY}" + raised("KeyError: 'a'") + "### attempt 2\nno clip\n"
    assert named(tmp_path, text + raised("KeyError: 'b'")) == "FAIL001"


def test_an_attempt_to_connect_is_no_other_run(tmp_path):
    tries = "".join(f"Attempt {n}/3 to connect failed\n" for n in (1, 2, 3))
    assert named(tmp_path, raised(MEMORY.strip()) + tries) == "MEM009"


def test_unit_tests_that_expect_errors(tmp_path):
    run = (
        "test_bad (tests.Bad) ... ERROR:ckpt:it cannot be read\n"
        + CHECKPOINT
        + "ok\n"
        + "-" * 70
        + "\nRan 6 tests in 12.0s\n\n"
    )
    assert named(tmp_path, run + "OK (skipped=1)\n") is None
    assert named(tmp_path, run + "FAILED (errors=1)\n") == "FAIL014"


SIDECAR = "".join(
    f"tensorboard-1 | {line}\n" for line in raised("ModuleNotFoundError: No module named 'pkg_resources'").splitlines()
)
TRAINER = "trainer-1 | epoch 1 | train 0.4 | val 0.5\ntrainer-1 | training finished\n"


def test_a_sidecar_that_fails(tmp_path):
    failed = SIDECAR + "tensorboard-1 exited with code 1\n"
    assert named(tmp_path, failed + TRAINER + "trainer-1 exited with code 0\n") is None
    assert named(tmp_path, failed + TRAINER + "trainer-1 exited with code 1\n") == "ENV005"
    replica = failed.replace("tensorboard", "trainer").replace("-1", "-2")
    assert named(tmp_path, replica + TRAINER + "trainer-1 exited with code 0\n") == "ENV005"


def test_a_worker_that_was_started_again(tmp_path):
    failed = raised(
        "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (m, 1)."
    )
    assert named(tmp_path, failed + "NAME   STATE     AGE\nfit    Succeeded   9h\n") is None
    assert named(tmp_path, failed + "NAME   STATE     AGE\nfit    Failed      9h\n") == "FAIL007"


def test_the_last_state_of_a_record_above_the_log(tmp_path):
    text = "$ scontrol show job 7\nJobId=7 JobName=fit\n   JobState={}\n   NodeList=h1\n$ tail fit.out\n"
    assert root_of(tmp_path, text.format("TIMEOUT Reason=TimeLimit") + steps(1, 9)).kind == "time-limit"
    assert named(tmp_path, text.format("RUNNING Reason=None") + steps(1, 9)) is None
