"""`gpudoctor report` of a memory snapshot: pickles of our own in the shape that torch's docstring gives."""

import gzip
import os
import pickle

import pytest

from gpudoctor.cli import main

MIB = 1 << 20
LIBRARY = {"filename": "/env/lib/python3.11/site-packages/torch/nn/functional.py", "line": 9, "name": "linear"}
NATIVE = {"filename": "CUDACachingAllocator.cpp", "line": 0, "name": "malloc"}


def stack(line):
    return [NATIVE, LIBRARY, {"filename": "/home/a/train.py", "line": line, "name": "step"}, LIBRARY]


def block(size, line=None, state="active_allocated"):
    frames = stack(line) if line else [NATIVE]
    return {"size": size * MIB, "requested_size": size * MIB, "address": 0, "state": state, "frames": frames}


def segment(*blocks, device=0):
    used = sum(item["size"] for item in blocks if item["state"] == "active_allocated")
    return {
        "device": device, "address": 0, "total_size": sum(item["size"] for item in blocks), "stream": 0,
        "segment_type": "large", "allocated_size": used, "active_size": used, "requested_size": used,
        "blocks": list(blocks),
    }  # fmt: skip


def event(action, size, line=None, **more):
    return {"action": action, "size": size * MIB, "stream": 0, "frames": stack(line) if line else [], **more}


def report(tmp_path, capsys, value, pack=bytes):
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(pack(value if isinstance(value, bytes) else pickle.dumps(value)))
    code = main(["report", str(file)])
    printed = capsys.readouterr()
    return code, " ".join(printed.out.split()), printed.err


HELD = {
    "segments": [
        segment(block(300, 41), block(100, 57), block(112, state="inactive")),
        segment(block(64), block(36, 41)),
        segment(block(200, state="inactive")),
    ],
    "device_traces": [[]],
}


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_who_holds_the_memory_is_said_by_line(pack, tmp_path, capsys):
    code, printed, _ = report(tmp_path, capsys, HELD, pack)
    assert code == 0
    assert (
        "snapshot.pickle: device 0 has 500 MiB in use of 812 MiB reserved, and 112 MiB in fragments. "
        "Most of it was allocated at train.py:41 (336 MiB) and train.py:57 (100 MiB). "
        "The snapshot records no line of the program for 64 MiB."
    ) in printed
    assert "0 checks passed" in printed


def test_an_allocation_that_was_refused_is_an_error_with_the_numbers_of_that_moment(tmp_path, capsys):
    history = [
        event("segment_alloc", 900), event("alloc", 400, 41), event("alloc", 500, 57),
        event("oom", 640, 88, device_free=100 * MIB),
        event("free_completed", 500), event("segment_alloc", 100), event("alloc", 100, 90),
    ]  # fmt: skip
    value = {
        "segments": [segment(block(400, 41), block(500, state="inactive")), segment(block(100, 90))],
        "device_traces": [history],
    }
    code, printed, _ = report(tmp_path, capsys, value)
    assert code == 1
    assert "Device 0 had no memory for 640 MiB (900 MiB allocated, 900 MiB reserved, 100 MiB free)." in printed
    assert "train.py:88" in printed and "fragments." not in printed.split("MEM009")[1].split("->")[0]


def steps(number, lines, *, freed=()):
    """A history in which each of these lines allocates 4 MiB a step; `freed` ones are let go a step later."""
    history, notes = [], []
    for step in range(number):
        notes.append({"stage": "START", "name": "Optimizer.step#SGD.step", "device": 0, "time_us": 100 * step})
        for line in lines:
            at = {"addr": 1000 * step + line, "time_us": 100 * step + 50}
            history.append(event("alloc", 4, line, **at))
            if line in freed and step:
                history.append(event("free_completed", 4, addr=at["addr"] - 1000, time_us=100 * step + 60))
    return {**HELD, "device_traces": [history], "external_annotations": notes}


def test_a_line_that_keeps_what_each_step_allocates_is_named(tmp_path, capsys):
    code, printed, _ = report(tmp_path, capsys, steps(20, [41, 57], freed=[57]))
    assert code == 0 and printed.count("MEM001 gpu") == 1
    assert (
        "The memory that this line allocated in 16 of 16 steps is still allocated. It is 64 MiB on device 0, 4 MiB a step."
    ) in printed
    assert "train.py:41" in printed.split("MEM001")[1]


@pytest.mark.parametrize(("number", "freed"), [(20, [41]), (11, [])])
def test_lines_that_let_go_and_too_few_steps_are_silent(number, freed, tmp_path, capsys):
    code, printed, _ = report(tmp_path, capsys, steps(number, [41], freed=freed))
    assert code == 0 and "MEM001" not in printed


def fragments(peak):
    history = [event("alloc", peak, 41), event("free_completed", peak - 100)]
    return {
        "segments": [segment(block(100, 41), block(500, state="inactive")), segment(block(900, state="inactive"))],
        "device_traces": [history],
    }


def test_fragments_beyond_twice_the_peak_are_a_note(tmp_path, capsys):
    code, printed, _ = report(tmp_path, capsys, fragments(300))
    assert code == 0 and "MEM006 fragmented note" in printed
    assert (
        "Device 0: segments in use reserve 600 MiB, but at most 300 MiB was in use at a time. "
        "500 MiB is free but cannot be released."
    ) in printed


class Called:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_pickle_that_names_code_is_refused_and_not_run(tmp_path, capsys):
    made = str(tmp_path / "made")
    code, _, said = report(tmp_path, capsys, {"segments": [Called(made)]})
    assert code == 2 and "it names a class or a function, which loading would run" in said and "snapshot.pickle" in said
    assert not os.path.exists(made)


@pytest.mark.parametrize(
    "value", [{"weights": [1.0]}, [1, 2], pickle.dumps(HELD)[:-50], b"\x80\x04", {"segments": 3}, b"\x80\x02garbage"]
)
def test_what_is_no_snapshot_ends_in_a_sentence(value, tmp_path, capsys):
    code, _, said = report(tmp_path, capsys, value)
    assert code == 2 and "snapshot.pickle" in said and "Traceback" not in said


@pytest.mark.parametrize(
    "value",
    [
        {"segments": [None, 3, {"blocks": [None, {"size": "x", "state": []}], "total_size": -5}]},
        {"segments": [], "device_traces": [None, [3, {"action": []}, {"action": "oom", "size": None}]]},
        {"segments": [segment(block(1))], "device_traces": {"a": 1}},
        {"segments": []},
    ],
)
def test_odd_fields_cost_themselves_alone(value, tmp_path, capsys):
    code, printed, said = report(tmp_path, capsys, value)
    assert code in (0, 1) and "snapshot.pickle" in printed and "crashed" not in printed + said
