"""Lines that come again and again: the work is bounded, and the failure at the end is still named."""

import random

import pytest
from log_samples import SAMPLES

from gpudoctor.analysis.job_log.first_cause import LogRole, first_cause
from gpudoctor.engine.registry import load_registry
from gpudoctor.vitals.job_log import drafts, line_prefix, opening, reader, tracebacks
from gpudoctor.vitals.job_log.line_filter import LineFilter
from gpudoctor.vitals.job_log.matching import Messages
from gpudoctor.vitals.job_log.words import bare

MESSAGES = tuple(load_registry().log_messages())
END = 'Traceback (most recent call last):\n  File "/home/ann/train.py", line 7, in <module>\n    main()\n{}\n'


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
    log = read(tmp_path, "".join(map(line, range(1, 3_000))) + END.format(end))
    cause = first_cause(log)
    assert cause.root.text.startswith(end)
    assert cause.root.line == log.files[0].lines
    assert len(log.events) < 120
    assert sum(item.count for item in cause.of(LogRole.HANDLED)) > 2_900


def test_lines_that_are_alike_are_not_all_read_whole(tmp_path, monkeypatch):
    taken = counted(monkeypatch)
    read(tmp_path, "".join(map(handled, range(1, 20_000))))
    assert len(taken) < 6_000


def spoken(number):
    end = f"step {number}: loss 0.{number}\n" if number % 20 == 0 else ""
    words = f"clip {number:x} failed the filter (error 0.{number % 97}, exit {number % 7}), killed it, no retry"
    return f"INFO loader: {words}\n{end}"


def test_lines_that_hold_words_of_failures_are_not_all_read_whole(tmp_path, monkeypatch):
    taken = counted(monkeypatch)
    read(tmp_path, "".join(map(spoken, range(1, 6_000))))
    assert len(taken) < 600


@pytest.mark.parametrize("size", [4_007])
def test_a_chain_is_whole_wherever_a_block_ends(tmp_path, monkeypatch, size):
    text = "".join(map(chained, range(1, 1_500))) + END.format("KeyError: 'labels'") + LINKS[0]
    text += END.format("RuntimeError: no batch")
    monkeypatch.setattr(opening, "BLOCK", size)
    cause = first_cause(read(tmp_path, text))
    assert "KeyError" in cause.root.text or "RuntimeError: no batch" in cause.root.text
    monkeypatch.undo()
    assert cause.root.line == first_cause(read(tmp_path, text)).root.line


def counted(monkeypatch):
    taken = []
    whole = reader._FileReader._piece
    monkeypatch.setattr(
        reader._FileReader, "_piece", lambda self, *args, **more: (taken.append(1), whole(self, *args, **more))
    )
    return taken


def test_tracebacks_of_several_depths_that_begin_alike_are_not_all_read_whole(tmp_path, monkeypatch):
    frame = '  File "/home/ann/loader.py", line {}, in fetch\n    return decode({})\n'
    deep = [
        "Traceback (most recent call last):\n"
        + "".join(frame.format(depth, depth) for depth in range(1 + number % 4))
        + f"ValueError: clip {number} has no frames\nstep {number}: loss 0.5\n"
        for number in range(6_000)
    ]
    taken = counted(monkeypatch)
    log = read(tmp_path, "".join(deep) + END.format("IndexError: list index out of range"))
    assert len(taken) < 20_000
    assert sum(item.count for item in log.events if item.exception == "ValueError") == 6_000


def test_exceptions_with_nothing_between_them_are_not_all_read_whole(tmp_path, monkeypatch):
    taken = counted(monkeypatch)
    log = read(tmp_path, "".join(f"ValueError: clip {number} has no frames\n" for number in range(9_000)))
    assert len(taken) < 4_000
    assert sum(item.count for item in log.events) == 9_000
    assert min(item.line for item in log.events) == 1


def test_what_is_looked_for_first_hides_nothing():
    for text in (
        "Exception ignored in: <function x>", "Exception in thread Thread-3:", "Error in atexit._run_exitfuncs:",
        "ERROR in app: Exception on /predict [POST]", "ERROR:    Exception in ASGI application",
        "Task tasks.add[1-2] raised unexpected: ValueError('x')", "future: <Task finished name='Task-1'>",
        "--- Logging error ---",
    ):  # fmt: skip
        assert tracebacks._UNHEEDED.search(text) and tracebacks._is_unheeded(text)
    for text in SAMPLES.values():
        for line in text.splitlines():
            forms = [form for form in line_prefix._FORMS if form.match(line)]
            assert bool(line_prefix._ANY_FORM.match(line)) == bool(forms)


def test_another_failure_among_alike_lines_does_not_make_all_of_them_read(tmp_path, monkeypatch):
    taken = counted(monkeypatch)
    lines = [handled(number) for number in range(1, 8_000)]
    for at in (700, 4_000):
        lines[at] += END.format("IndexError: list index out of range") + "KeyError: 'labels'\n"
    log = read(tmp_path, "".join(lines))
    assert len(taken) < 4_000
    found = {item.exception: item.count for item in log.events}
    assert {"IndexError", "KeyError"} < set(found)
    assert sum(item.count for item in log.events if item.exception == "ValueError") > 7_900


def test_a_line_is_worth_the_same_alone_and_among_many():
    table, chance = Messages(MESSAGES), random.Random(3)
    samples = [line for text in SAMPLES.values() for line in text.splitlines()]
    kinds = [
        lambda n: f"INFO loader: clip {n:x} of {chance.choice('abc')} failed the filter (error 0.{n}, exit {n % 7})",
        lambda n: f"WARNING loader: skipped: ValueError: clip {n:x} has {n % 31} frames",
        lambda n: f"2026-01-02 10:00:{n % 60:02d} WARNING x: torch.cuda.OutOfMemoryError: none {n}",
        lambda n: f"[rank{n % 8}]: step {n}: loss 0.{n} killed words {chance.randrange(10**9):x}",
        lambda _: chance.choice(samples),
        lambda n: chance.choice(samples)[: n % 60] + f" deadbeef {chance.choice(samples)[n % 40 :]}",
    ]
    lines = [chance.choice(kinds)(number).encode() for number in range(900)]
    together = LineFilter(table).chosen(lines, [bare(line) for line in lines]).worths
    alone = {
        number: worths[0]
        for number, line in enumerate(lines)
        if (worths := LineFilter(table).chosen([line], [bare(line)]).worths)
    }
    assert together.keys() == alone.keys()
    assert 300 < len(alone) < 900
    assert all(together[number].traceback == worth.traceback for number, worth in alone.items())


def test_a_failure_that_comes_again_is_known_by_its_line_only_if_its_digits_say_nothing():
    table = Messages(MESSAGES)
    lines = [
        line.encode()
        for number in range(50)
        for line in (
            "ValueError: no frames",
            f"[rank{number % 4}]: ValueError: no frames",
            "task exited with exit code: 0",
            f"step {number}: loss 0.{number}",
        )
    ]
    lines += [b"task exited with exit code: 137", b"[rank7]: ValueError: no frames"]
    often = LineFilter(table)
    often.chosen(lines[:100], [bare(line) for line in lines[:100]])
    assert often._known
    worths = often.chosen(lines, [bare(line) for line in lines]).worths
    for number, line in enumerate(lines):
        fresh = LineFilter(table).chosen([line], [bare(line)]).worths
        assert (number in worths) == bool(fresh), line
    keys = {number: worth.key for number, worth in worths.items()}
    assert keys[0] == keys[4] != keys[1] != keys[5]
    assert keys[len(lines) - 1] not in (keys[1], keys[5], keys[9], keys[13])


def test_the_last_of_alike_failures_is_the_cause_if_nothing_follows(tmp_path):
    text = "".join(handled(number) for number in range(1, 3_001)) + "ValueError: clip 9 has 0 frames\n"
    assert first_cause(read(tmp_path, text)).root.line == 3_601


def test_another_exit_code_is_another_message(tmp_path):
    calm = "".join(f"[{n}] task {n} exit code: 0\n" for n in range(50))
    log = read(tmp_path, calm + "[50] task 50 exit code: 137\n")
    assert [item.line for item in log.events] == [51]


def test_room_is_made_for_new_events_by_the_oldest_that_the_training_survived(tmp_path, monkeypatch):
    monkeypatch.setattr(drafts, "_MOST_EVENTS", 30)
    lines = [
        f"step {number}: loss 0.{number}\nV{'abcdefghij'[number % 10] * (number // 10)}Error: no frames\n"
        for number in range(1, 90)
    ]
    log = read(tmp_path, "".join(lines) + END.format("IndexError: list index out of range"))
    assert len(log.events) == 30
    assert [item.line for item in log.events] == sorted(item.line for item in log.events)
    assert log.events[-1].exception == "IndexError"
    assert log.events[0].line > 100  # the first ones went
    monkeypatch.undo()
    assert len(read(tmp_path, "".join(lines)).events) > 60


def test_an_exception_of_another_rank_ends_where_nothing_of_it_comes(tmp_path):
    rows = [f"[rank{number % 40}]: ValueError: clip {number % 40} has no frames\n" for number in range(200)]
    log = read(tmp_path, "".join(rows) + "[rank7]: step 7 of the loop\n" * 30)
    assert sum(item.count for item in log.events) == 200
