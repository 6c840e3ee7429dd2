"""What the fifth set of logs showed: general faults, each with a text of the test's own."""

import pytest
from log_cases import found_in_log
from log_causes import FRAME, HEAD, named, raised, root_of, steps

from gpudoctor.model import Confidence

SETTINGS = "".join(f"{name}: {name[::-1]}\n" for name in ("optimiser", "schedule", "corpus", "device", "folder"))
WARNS = "/opt/py/lib/boost/old.py:3: FutureWarning: Index is old\n  from frames import Index\n"
FAILED = SETTINGS + "reading the corpus\n" + raised("KeyError: 'mask'")


@pytest.mark.parametrize(
    ("behind", "code"),
    [
        ("", "FAIL001"),
        (SETTINGS, "FAIL001"),
        (SETTINGS + "reading the corpus\n" * 4, "FAIL001"),
        (SETTINGS + steps(0, 1), None),
        (SETTINGS + "Training finished\n", None),
        (SETTINGS + "reading the corpus\nchecking the corpus\n", None),
        (SETTINGS + "reading the corpus\n" * 40, "FAIL001"),
        (SETTINGS + raised("ModuleNotFoundError: No module named 'einops'"), "ENV005"),
        (SETTINGS + steps(0, 1) + "Killed\n", "FAIL002"),
    ],
)
def test_a_run_that_begins_again_must_show_something_of_its_own(tmp_path, behind, code):
    assert named(tmp_path, FAILED + behind) == code


def test_of_several_runs_the_last_one_that_failed_is_named(tmp_path):
    runs = SETTINGS + raised("ValueError: empty") + FAILED + SETTINGS
    assert "KeyError" in root_of(tmp_path, runs).text
    assert named(tmp_path, runs + steps(0, 4)) is None


def test_the_warnings_of_a_next_program(tmp_path):
    job = WARNS + "reading\n" * 30
    assert named(tmp_path, job + raised("ValueError: too many values to unpack") + WARNS) == "FAIL001"
    assert named(tmp_path, job + raised("ValueError: too many values to unpack") + WARNS + steps(0, 9)) is None


def test_what_may_not_have_ended_the_job_is_probable(tmp_path):
    [sure] = found_in_log("FAIL001", tmp_path, FAILED)
    [doubtful] = found_in_log("FAIL001", tmp_path, FAILED + SETTINGS)
    assert (sure.confidence, doubtful.confidence) == (Confidence.CONFIRMED, Confidence.PROBABLE)


LOADER = (
    "2024-01-01 10:00:00.000001: W tensorflow/core/platform/default/dso_loader.cc:64] Could not load dynamic "
    "library 'libcuda.so.1'; dlerror: libcuda.so.1: cannot open shared object file: No such file or directory\n"
)


def test_tensorflow_goes_on_without_libcuda(tmp_path):
    assert named(tmp_path, LOADER) is None
    assert named(tmp_path, LOADER + raised("RuntimeError: No CUDA GPUs are available")) == "ENV001"
    error = "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"
    assert named(tmp_path, raised(error)) == "ENV001"


LOGGING = (
    "--- Logging error ---\n"
    + HEAD
    + '  File "/usr/lib/python3.11/logging/__init__.py", line 1110, in emit\n    msg = self.format(record)\n'
    "{error}\nCall stack:\n" + FRAME + "Message: 'state:'\nArguments: (3,)\n"
)


@pytest.mark.parametrize(
    "error", ["TypeError: not all arguments converted during string formatting", "OSError: [Errno 28] No space left on device"]
)  # fmt: skip
def test_an_exception_that_logging_handles(tmp_path, error):
    text = LOGGING.format(error=error)
    assert named(tmp_path, text) is None
    assert named(tmp_path, "started\n" * 3 + text * 3 + "saved\n") is None
    assert named(tmp_path, text + "saved\n" + raised("KeyError: 'mask'")) == "FAIL001"
    assert named(tmp_path, raised(error)) is not None


@pytest.mark.parametrize("word", ["activate", "deactivate"])
def test_conda_that_asks_for_its_init(tmp_path, word):
    advice = f"\nCondaError: Run 'conda init' before 'conda {word}'\n\n"
    assert named(tmp_path, advice + "reading\n" * 3) is None
    assert named(tmp_path, advice + raised("ModuleNotFoundError: No module named 'einops'")) == "ENV005"
    assert named(tmp_path, "CondaError: Downloaded bytes did not match Content-Length\n") == "FAIL001"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("Fit a small model: error: unrecognized arguments: --lr", "CFG010"),
        ("Fit a small model: error: unrecognized arguments:  ", "CFG010"),
        ("python -m pkg fit.py: error: argument --lr: expected one argument", "CFG010"),
        ("[INFO] the list of unrecognized arguments:", None),
        ("Target 7 is out of bounds.", "FAIL001"),
        ("[INFO] skipped, as Target 7 is out of bounds", None),
        ("MemoryError: Error allocating 531 bytes of device memory (out of memory).", "MEM009"),
        ("MemoryError", None),
    ],
)
def test_words_of_libraries(tmp_path, line, code):
    assert named(tmp_path, f"loading\n{line}\n") == code


def test_a_message_that_the_program_prints_and_goes_on_after(tmp_path):
    run = SETTINGS + "Target 7 is out of bounds.\n"
    assert named(tmp_path, run * 9) == "FAIL001"
    assert named(tmp_path, run * 9 + SETTINGS) is None
    assert named(tmp_path, raised("IndexError: Target 7 is out of bounds.") + "ended\n") == "FAIL001"


def test_an_argument_that_is_only_a_blank(tmp_path):
    [finding] = found_in_log("CFG010", tmp_path, "usage: a [-h]\na: error: unrecognized arguments:  \n")
    assert "does not know an argument." in str(finding.message)


def test_the_memory_of_the_device_and_of_the_host(tmp_path):
    device = "MemoryError: Error allocating 531 bytes of device memory (out of memory)."
    assert named(tmp_path, raised(device)) == "MEM009"
    assert named(tmp_path, raised("MemoryError")) == "ENV009"


THREAD = "Exception in thread Thread-1 (_produce):\n" + raised("AttributeError: no attribute r1c5")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (steps(0, 4) + THREAD, "FAIL001"),
        (steps(0, 4) + THREAD + "\n", "FAIL001"),
        (steps(0, 4) + THREAD + steps(4, 6), None),
        (steps(0, 4) + THREAD + "saved the model\n", None),
        (steps(0, 4) + "Training finished\n" + THREAD, None),
        (THREAD.replace("/work/fit.py", "/usr/lib/python3.11/threading.py"), None),
        (THREAD.replace("Exception in thread", "Exception ignored in"), None),
        (raised("KeyError: 'mask'") + THREAD, "FAIL001"),
    ],
)
def test_a_thread_whose_exception_is_the_last_of_a_log(tmp_path, text, code):
    assert named(tmp_path, text) in (code, *(("FAIL018",) if code is None else ()))


def test_a_thread_that_ended_the_job_is_probable(tmp_path):
    [finding] = found_in_log("FAIL001", tmp_path, steps(0, 4) + THREAD)
    assert finding.confidence is Confidence.PROBABLE and "r1c5" in str(finding.message)
    assert "mask" in root_of(tmp_path, raised("KeyError: 'mask'") + THREAD).text


def test_a_job_that_was_interrupted_in_each_of_its_runs(tmp_path):
    runs = "".join(steps(10 * n, 10 * n + 8) + raised("KeyboardInterrupt") for n in range(3))
    assert named(tmp_path, runs) == "FAIL002"
    assert root_of(tmp_path, runs).line == runs.count("\n")
    assert named(tmp_path, runs + steps(40, 48)) is None
