"""Errors that the program caught, or only printed: a job that goes on or ends well after them is healthy."""

from dataclasses import replace

import pytest
from log_causes import FRAME, HEAD, MESSAGES, named, raised, steps

from gpudoctor.analysis.job_log.first_cause import first_cause
from gpudoctor.vitals.job_log import read_job_log

READS = "".join(f"reading shard {word}\n" for word in ["one", "two", "three", "four", "five", "six", "seven"])
RESULTS = "".join(f"  eval on {name}: loss 0.{at}1 acc 0.9{at}\n" for at, name in enumerate("abcdefgh"))
LACKS = "FileNotFoundError: [Errno 2] No such file or directory: '/data/birds.npz'"
AT_EXIT = "Exception ignored in atexit callback: <function flush at 0x7f01>\n"


def of_rank(rank, text):
    return "".join(f"{rank}: {line}\n" for line in text.splitlines())


@pytest.mark.parametrize("where", ["", "0: ", "[rank1]: "])
def test_what_fails_while_the_interpreter_ends(tmp_path, where):
    text = "".join(f"{where}{line}\n" for line in ("all results saved\n" + AT_EXIT + raised(LACKS)).splitlines())
    assert named(tmp_path, text) is None
    assert named(tmp_path, text.replace(AT_EXIT.strip(), "reading the birds")) == "FAIL016"
    gpu = text.replace(LACKS, "RuntimeError: CUDA error: an illegal memory access was encountered")
    assert named(tmp_path, gpu) == "FAIL003"


@pytest.mark.parametrize("behind", [READS, RESULTS])
def test_an_error_quoted_in_a_message_of_a_program_that_goes_on(tmp_path, behind):
    line = f"corpus birds is not there: {LACKS}\n"
    assert named(tmp_path, line + behind) is None
    assert named(tmp_path, line) == "FAIL016"
    assert named(tmp_path, line + "saving the log\n") == "FAIL016"
    assert named(tmp_path, line + behind + raised("KeyError: 'mask'")) == "FAIL001"
    assert named(tmp_path, line + behind + "srun: error: n1: task 3: Exited with exit code 1\n") == "FAIL016"
    assert named(tmp_path, raised(LACKS) + behind) == "FAIL016"


@pytest.mark.parametrize("level", ["WARNING:corpus:", "[2025-01-01 10:00:00,000][WARNING] ", "INFO - "])
def test_an_error_in_a_line_of_a_low_level(tmp_path, level):
    line = f"{level}cannot read Tree <x> Cause: AssertionError: 3 words, wants 4\n"
    assert named(tmp_path, line + READS[:80]) is None
    assert named(tmp_path, line.replace(level, "ERROR: ") + READS[:80]) == "FAIL001"


JUPYTER = "".join(f"[I 10:20:3{second} NotebookApp] Saving file at /fit.ipynb\n" for second in range(4))
ANSWERS = "".join(f'INFO:     10.1.1.{n}:999 - "POST /v1/draw HTTP/1.1" 200 OK\n' for n in range(4))


@pytest.mark.parametrize("behind", [JUPYTER, JUPYTER.replace("10:", "2025-01-01 10:", 1), ANSWERS])
def test_a_server_that_answers_behind_an_error(tmp_path, behind):
    assert named(tmp_path, raised(LACKS) + behind) is None
    assert named(tmp_path, raised("KeyboardInterrupt") + behind) is None
    assert named(tmp_path, raised(LACKS) + behind.partition("\n")[0]) == "FAIL016"
    assert named(tmp_path, raised(LACKS) + behind.replace(" 200 OK", " 500 Error").replace("[I", "[C")) == "FAIL016"


def test_a_handler_that_prints_the_message_again(tmp_path):
    again = "Plugin /app/plugins/birds is not loaded: [Errno 2] No such file or directory: '/data/birds.npz'\n"
    assert named(tmp_path, raised(LACKS) + "\n" + again + "starting\n" * 30) is None
    assert named(tmp_path, raised(LACKS) + "\n" + again + "stopping\n" * 3) == "FAIL016"
    assert named(tmp_path, raised(LACKS) + "\n" + "starting\n" * 30) == "FAIL016"


def test_threads_that_write_into_each_other(tmp_path):
    why = "AssertionError: the tensor is made in a static graph"
    mixed = "Exception in thread Thread-3:\n" + raised(why) + "    return call(*given)\n" + FRAME + f"{why}\n"
    assert named(tmp_path, steps(0, 4) + "End of training.\n" + mixed) is None
    assert named(tmp_path, steps(0, 4) + mixed.partition("\n")[2]) == "FAIL001"


def test_a_launcher_that_says_that_the_program_ended_well(tmp_path):
    failed = 'stack INTERNAL ASSERT FAILED at "../torch/x.cpp":9, please report a bug to PyTorch.\n'
    well = "[INFO] [default] worker group successfully finished. Waiting 300 seconds for other agents to finish.\n"
    assert named(tmp_path, failed + READS + well) is None
    assert named(tmp_path, raised("KeyError: 'mask'") + READS + well) is None
    assert named(tmp_path, failed + READS) == "FAIL006"
    child = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    assert named(tmp_path, raised("KeyError: 'mask'") + READS + well + HEAD + child) == "FAIL001"


def test_each_of_many_runs_is_followed(tmp_path):
    begins = "reading the model\nreading the words\nreading the pictures\nbuilding the tower\n"
    runs = "".join(begins + f"try {word}\n" * 99 + raised(f"KeyError: '{word * 3}'") for word in "abcdefghij")
    assert named(tmp_path, runs) == "FAIL001"
    assert named(tmp_path, runs + begins + "The picture shows a bird\nThe picture shows a tree\n") is None


def test_an_earlier_run_that_reached_nan(tmp_path):
    table = "".join(
        f"Run:\nmodel: small\nfolder: runs\nwords: 12\nbest_loss: {loss}\nseconds: 9\n\n"
        for loss in ("0.4", "0.5", "nan", "nan", "nan", "0.42")
    )
    assert named(tmp_path, table) is None
    assert named(tmp_path, table.replace("0.42", "nan")) == "NUM002"


LATER = "".join(f"2025-01-01 10:00:0{second},000 INFO saved part {second}\n" for second in range(1, 5))
FAILED = "2025-01-01 10:00:00,000 ERROR the upload failed\n"
EPILOGUE = "Job ID: 1\nCluster: a\nState: FAILED (exit code 1)\nNodes: 1\nCores per node: 3\nCPU Utilized: 01:03\n"


def test_a_traceback_that_a_logger_printed(tmp_path):
    assert named(tmp_path, FAILED + raised("KeyError: 'mask'") + LATER) is None
    assert named(tmp_path, FAILED + raised("KeyError: 'mask'") + LATER + raised("KeyError: 'mask'")) == "FAIL001"
    assert named(tmp_path, FAILED + raised("KeyError: 'mask'") + "stopping\n" + EPILOGUE) == "FAIL001"
    assert named(tmp_path, "reading\n" + raised("KeyError: 'mask'") + LATER) == "FAIL001"


def test_a_trial_that_failed_while_the_study_goes_on(tmp_path):
    failed = "[W 2025-01-01 10:01:00,000] Trial 4 failed because of the following error: ValueError('flat')\n"
    study = "".join(f"[I 2025-01-01 10:0{n}:00,000] Trial {n} finished with value: 0.4\n" for n in range(5, 9))
    assert named(tmp_path, failed + raised("ValueError: flat") + study) is None
    assert named(tmp_path, failed + raised("ValueError: flat")) == "FAIL001"


@pytest.mark.parametrize(
    ("failure", "words", "code"),
    [
        ("RuntimeError: PytorchStreamReader failed reading zip archive", "falling back to best.ckpt", "FAIL014"),
        ("torch.OutOfMemoryError: CUDA out of memory.", "no room for 64, trying 32", "MEM009"),
        ("ModuleNotFoundError: No module named 'triton'", "no Triton, fast kernels will not be used", "ENV005"),
        ("OSError: [Errno 5] Input/output error: 'a.tar'", "Skipping that part", "FAIL016"),
    ],
)
def test_a_program_that_goes_on_without_what_failed(tmp_path, failure, words, code):
    assert named(tmp_path, raised(failure) + f"{words}\n" + steps(0, 2)) is None
    assert named(tmp_path, raised(failure) + f"{words}\n" + READS) is None
    assert named(tmp_path, raised(failure) + f"{words}\n" + EPILOGUE) == code
    assert named(tmp_path, raised(failure) + f"{words}\n" + steps(0, 2) + raised(failure)) == code
    assert named(tmp_path, raised(failure) + READS) == code


def test_samples_that_are_skipped(tmp_path):
    skipped = "Skipping sample 3: UnidentifiedImageError: cannot identify image file 'a.jpg'\n"
    assert named(tmp_path, skipped + "saved\n") is None
    assert named(tmp_path, skipped) == "FAIL016"
    errors = "".join(f"question {n}: SyntaxError: invalid syntax (<string>, line {n})\n" for n in range(12))
    assert named(tmp_path, errors + "mean 0.3\n") is None


def test_tests_that_expect_an_error(tmp_path):
    begins = "tests/test_reader.py ..\n---- Captured stderr ----\n" + raised("ValueError: no such column")
    assert named(tmp_path, begins + "===== 12 passed, 1 warning in 3.21s =====\n") is None
    assert named(tmp_path, begins + "===== 1 failed, 11 passed in 3.21s =====\n") == "FAIL001"


class Events(tuple):
    """Events that count how often somebody goes through all of them."""

    walks = 0

    def __iter__(self):
        type(self).walks += 1
        return super().__iter__()


def test_many_printed_errors_are_not_each_compared_with_all_others(tmp_path):
    path = tmp_path / "job.out"
    path.write_text(f"WARNING:corpus: shard 1 is left out: {LACKS}\n" + READS)
    log = read_job_log([str(path)], MESSAGES)
    events = [replace(log.events[0], order=number) for number in range(500)]
    assert first_cause(replace(log, events=Events(events))) is None
    assert Events.walks < 20
