import pytest
from looks import FAILED, died, look, remedies
from recordings import make_process, make_recording

from gpudoctor.model import Severity
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor.testing import examine, make_patient
from gpudoctor_checks.data.loader_dead import LoaderDead
from gpudoctor_checks.failure.exception import Uncaught


def test_sick_the_root_is_told_from_its_echoes():
    ranks = [
        died("RuntimeError", "Connection closed by peer [127.0.0.1]:4711", t=6.0, rank=0, world=3),
        died("ValueError", "labels are empty", t=5.0, rank=1, world=3),
        died(
            "DistBackendError", "NCCL error: remote process exited or there was a network error", t=5.5, rank=2, world=3
        ),
    ]
    [finding] = look(Uncaught, *ranks, end=FAILED)
    assert "Rank 1" in finding.message and "ValueError" in finding.message
    assert "2 other ranks" in finding.message


def test_sick_nobody_says_why():
    [finding] = look(Uncaught, make_process(clean=False), end=RunEnd(exit_code=3))
    assert "exit code 3" in finding.message and remedies(finding)
    [finding] = look(Uncaught, end=RunEnd(exit_code=2), ranks=())
    assert "no process that imported torch" in finding.message


@pytest.mark.parametrize(
    ("kind", "message", "cause"),
    [
        ("RuntimeError", "mat1 and mat2 shapes cannot be multiplied (64x50 and 64x768)", "shapes"),
        ("IndexError", "Target 10 is out of bounds.", "labels"),
        ("RuntimeError", "Expected all tensors to be on the same device, but found at least two devices", "device"),
        ("RuntimeError", "expected scalar type Long but found Float", "dtype"),
        ("RuntimeError", "all elements of input should be between 0 and 1", "outside-0-1"),
        ("RuntimeError", "probability tensor contains either `inf`, `nan` or element < 0", "not-a-number"),
        ("RuntimeError", "all elements of target should be between 0 and 1", "target-outside-0-1"),
        ("ValueError", "dropout probability has to be between 0 and 1, but got 2", ""),
        ("RuntimeError", "Trying to backward through the graph a second time", "backward-twice"),
        ("RuntimeError", "element 0 of tensors does not require grad and does not have a grad_fn", "no-gradient"),
        ("RuntimeError", "Error(s) in loading state_dict for Net: Missing key(s) in state_dict", "checkpoint"),
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'data.bin'", "file"),
        ("ModuleNotFoundError", "No module named 'flash_attn'", "module"),
        ("OSError", "[Errno 28] No space left on device", "disk"),
        ("KeyError", "'labels'", "key"),
        ("ZeroDivisionError", "division by zero", ""),
        ("OverflowError", "math range error", "overflow"),
    ],
)
def test_classes_of_causes(kind, message, cause):
    [finding] = look(Uncaught, died(kind, message), end=FAILED)
    assert finding.severity is Severity.ERROR and finding.detail.cause == cause
    assert (finding.span.path, finding.span.line, finding.span.text) == ("train.py", 41, "out = model(x)")
    assert cause != "shapes" or "shapes" in remedies(finding)


@pytest.mark.parametrize(
    ("rank", "end"),
    [
        (make_process(), None),
        (died("ValueError", "x"), RunEnd(exit_code=0)),  # caught, or in a thread
        (died("KeyboardInterrupt", ""), RunEnd(exit_code=130, stopped_by="interrupt")),
        (died("OutOfMemoryError", "CUDA out of memory"), FAILED),  # these have a check of their own
        (died("RuntimeError", "CUDA error: device-side assert triggered"), FAILED),
        (died("RuntimeError", "DataLoader worker (pid 4) exited unexpectedly"), FAILED),
        (died("DistBackendError", "Watchdog caught collective operation timeout"), FAILED),
    ],
)
def test_healthy_ends_and_deaths_of_other_checks(rank, end):
    assert look(Uncaught, rank, **({"end": end} if end else {})) == []


CAUGHT = """Caught KeyError in DataLoader worker process 1.
Original Traceback (most recent call last):
  File "/env/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 349, in _worker_loop
    data = fetcher.fetch(index)
           ^^^^^^^^^^^^^^^^^^^^
  File "/job/data.py", line 17, in __getitem__
    return self.rows[index], self.labels[index]
           ~~~~~~~~~~~~~~~~^^^^^^^
KeyError: 300
"""


def test_sick_the_line_in_a_loader_worker():
    [finding] = look(Uncaught, died("KeyError", CAUGHT), end=FAILED)
    assert (finding.span.path, finding.span.line) == ("data.py", 17)
    assert finding.span.text == "return self.rows[index], self.labels[index]"


def test_a_worker_that_is_gone_is_no_exception_of_the_training():
    library = "/env/lib/python3.11/site-packages/torch"
    frames = [
        ["/job/train.py", 30, "<module>", "for x, y in loader:"],
        [f"{library}/utils/data/dataloader.py", 1501, "_try_get_data", ""],
        [f"{library}/multiprocessing/reductions.py", 561, "rebuild_storage_fd", ""],
        ["/usr/lib/python3.11/multiprocessing/connection.py", 395, "_recv", ""],
    ]
    gone = died("ConnectionResetError", "[Errno 104] Connection reset by peer", frames=frames)
    assert look(Uncaught, gone, end=FAILED) == []
    patient = make_patient(recording=make_recording(gone, end=FAILED))
    [finding] = examine(LoaderDead, patient)
    assert (finding.span.path, finding.span.line) == ("train.py", 30)
    [own] = look(Uncaught, died("ConnectionResetError", "[Errno 104] Connection reset by peer"), end=FAILED)
    assert own.code == "FAIL001"  # a socket of the program's own


def beyond(what, least, most, count):
    return {"what": what, "least": least, "most": most, "count": count}


@pytest.mark.parametrize(
    ("seen", "words", "cure"),
    [
        (beyond("label", 0, 10, 10), "The labels reach from 0 to 10, and the loss has 10 classes (0 to 9).",
         "Give the last layer 11 outputs"),
        (beyond("label", 1, 10, 10), "The labels reach from 1 to 10", "Give the loss labels - 1"),
        (beyond("label", -1, 5, 10), "The labels reach from -1 to 5", "ignore_index=-1"),
        (beyond("index", -1, 3, 9), "The indices reach from -1 to 3", "padding_idx"),
        (beyond("index", 0, 50257, 50257), "and the embedding has 50257 rows (0 to 50256)", "nn.Embedding(50258"),
        (None, "A label or an index lies outside of what the layer has", "labels in 0..num_classes-1"),
    ],
)  # fmt: skip
def test_sick_labels_and_indices_are_named(seen, words, cure):
    [finding] = look(Uncaught, died("IndexError", "Target 10 is out of bounds.", beyond=seen), end=FAILED)
    assert finding.detail.cause == "labels"
    assert words in finding.message
    assert cure in remedies(finding)
