"""Lines that come again and again: the work is bounded, and the failure at the end is still named."""

import pytest

from gpudoctor.analysis.job_log.first_cause import LogRole, first_cause
from gpudoctor.engine.registry import load_registry
from gpudoctor.vitals.job_log import lines, reader

MESSAGES = tuple(load_registry().log_messages())
END = 'Traceback (most recent call last):\n  File "/home/ann/train.py", line 7, in <module>\n    main()\n{}\n'


@pytest.fixture(autouse=True)
def fewer(monkeypatch):
    """A fifth of the lines that are read, and of those that are written."""
    monkeypatch.setattr(reader, "_READ_WHOLE", 400)
    monkeypatch.setattr(reader, "_OFTEN", 40)


def read(tmp_path, text):
    path = tmp_path / "job.out"
    path.write_text(text)
    return reader.read_job_log([str(path)], MESSAGES)


def handled(number, words="clip"):
    step = f"step {number}: loss 0.{number}\n" if number % 5 == 0 else ""
    return f"WARNING loader: skipped: ValueError: {words} {number} has {number % 31} frames\n{step}"


def logged(number):
    step = f"step {number}: loss 0.{number}\n" if number % 5 == 0 else ""
    return END.format(f"RuntimeError: file {'x' * (number % 40)}y{number} is not a picture") + step


LINKS = (
    "\nDuring handling of the above exception, another exception occurred:\n\n",
    "\nThe above exception was the direct cause of the following exception:\n\n",
)


def chained(number):
    step = f"step {number}: loss 0.{number}\n" if number % 5 == 0 else ""
    first = END.format(f"ConnectionResetError: [Errno 104] reset by {'x' * (number % 40)}{number}")
    return first + LINKS[number % 2] + END.format(f"app.FetchError: no clip {'y' * (number % 30)}") + step


@pytest.mark.parametrize("line", [handled, logged, chained])
@pytest.mark.parametrize("end", ["IndexError: list index out of range", "ValueError: the batch is empty"])
def test_the_failure_behind_many_handled_ones_is_named(tmp_path, line, end):
    log = read(tmp_path, "".join(map(line, range(1, 600))) + END.format(end))
    cause = first_cause(log)
    assert cause.root.text.startswith(end)
    assert cause.root.line == log.files[0].lines
    assert len(log.events) < 120
    assert sum(item.count for item in cause.of(LogRole.HANDLED)) > 400


def test_lines_that_are_alike_are_not_all_read_whole(tmp_path, monkeypatch):
    taken = counted(monkeypatch)
    read(tmp_path, "".join(map(handled, range(1, 4_000))))
    assert len(taken) < 1_200


@pytest.mark.parametrize("size", [4_007])
def test_a_chain_is_whole_wherever_a_block_ends(tmp_path, monkeypatch, size):
    text = "".join(map(chained, range(1, 400))) + END.format("KeyError: 'labels'") + LINKS[0]
    text += END.format("RuntimeError: no batch")
    monkeypatch.setattr(lines, "BLOCK", size)
    cause = first_cause(read(tmp_path, text))
    assert "KeyError" in cause.root.text or "RuntimeError: no batch" in cause.root.text
    monkeypatch.undo()
    assert cause.root.line == first_cause(read(tmp_path, text)).root.line


def counted(monkeypatch):
    taken = []
    whole = reader._FileReader._text
    monkeypatch.setattr(
        reader._FileReader, "_text", lambda self, *args, **more: (taken.append(1), whole(self, *args, **more))
    )
    return taken


def test_another_exit_code_is_another_message(tmp_path):
    calm = "".join(f"[{n}] task {n} exit code: 0\n" for n in range(50))
    log = read(tmp_path, calm + "[50] task 50 exit code: 137\n")
    assert [item.line for item in log.events] == [51]


def test_room_is_made_for_new_events_by_the_oldest_that_the_training_survived(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "_MOST_EVENTS", 30)
    lines = [
        f"step {number}: loss 0.{number}\nV{'abcdefghij'[number % 10] * (number // 10)}Error: no frames\n"
        for number in range(1, 90)
    ]
    log = read(tmp_path, "".join(lines) + END.format("IndexError: list index out of range"))
    assert len(log.events) <= 30
    assert log.events[-1].exception == "IndexError"
    assert log.events[0].line > 100  # the first ones went
    monkeypatch.undo()
    assert len(read(tmp_path, "".join(lines)).events) > 60
