"""`--on-finding`, `--hang-after`, `--tensorboard`."""

import json
import os
import struct
import sys
import time
from pathlib import Path

from command import gpudoctor
from recordings import make_process, make_recording, make_steps, record, write_recording

from gpudoctor.cli.run_hooks import Alarm, _ranges, hang_text
from gpudoctor.recorder.live_ranks import HangWatch, Now, RankNow, RankStanding, look, standings
from gpudoctor.report.tensorboard import crc32c, event_file

FINDING = {"code": "DATA001", "name": "loader-bound", "subject": "train.py:4", "message": "it's slow; $HOME `x`"}


def test_each_finding_is_told_once_on_standard_input(tmp_path):
    out = tmp_path / "told.jsonl"
    alarm = Alarm(f"cat >> '{out}'", tmp_path)
    alarm.end([FINDING, {**FINDING, "subject": "train.py:9"}, FINDING])
    told = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted(item["subject"] for item in told) == ["train.py:4", "train.py:9"]
    assert told[0]["message"] == FINDING["message"]
    assert told[0]["recording"] == str(tmp_path)


def test_a_command_that_fails_or_reads_nothing_is_no_harm(tmp_path):
    began = time.monotonic()
    Alarm("exit 3", tmp_path).end([{**FINDING, "message": "x" * 300_000}])
    Alarm("no-such-command-here 2>/dev/null", tmp_path).end([FINDING])
    assert time.monotonic() - began < 20


def test_a_run_is_examined_while_it_lasts(tmp_path, monkeypatch):
    folder = write_recording(make_recording(), tmp_path / "rec")
    alarm = Alarm("true", folder)
    told: list[object] = []
    monkeypatch.setattr(alarm, "_tell", told.append)
    alarm.tick(1.0)
    assert alarm._look is None  # too early
    alarm.tick(61.0)
    # The look has a low priority: how long it takes beside other work is nobody's fault, and no clock decides.
    assert alarm._look is not None and alarm._look.wait() == 0
    assert told == []
    alarm.tick(62.0)
    [findings] = told
    assert isinstance(findings, list)
    assert not (folder / ".findings.json").exists()


def test_a_hang_is_told_once_with_where_everybody_stands(tmp_path):
    stack = [["/job/train.py", 88, "train"], ["/job/dist.py", 7, "all_reduce"]]
    ranks = [
        make_process(
            make_steps(12),
            rank=rank,
            world=4,
            clean=False,
            records=[
                record(
                    "heartbeat", 60.0, step=12, phase="data_wait", seconds=40.0, stack=[["/job/data.py", 31, "load"]]
                )
                if rank == 2
                else record("heartbeat", 60.0, step=12, phase="collective", seconds=40.0, stack=stack)
            ],
        )
        for rank in range(4)
    ]
    folder = write_recording(make_recording(*ranks, end=None), tmp_path / "rec")
    stand = standings(folder)
    assert stand[0] == RankStanding(ranks=(2,), step=12, phase="data_wait", place="load (/job/data.py:31)")
    assert stand[1].ranks == (0, 1, 3)
    text = hang_text(42.0, stand)
    assert "no step has ended for 42 s" in text
    assert "rank 2: 12 steps done, in data wait, load (/job/data.py:31)" in text
    assert "ranks 0-1, 3: 12 steps done, in collective, all_reduce (/job/dist.py:7)" in text
    watch = HangWatch(folder, 30.0)

    def now(step: int, age: float) -> Now:
        return Now(ranks=(RankNow(rank=0, pid=1, step=step, seconds=0.1, age=age),))

    assert watch.look(now(12, 5.0), 50.0) is None
    assert watch.look(now(12, 31.0), 80.0) is not None
    assert watch.look(now(12, 90.0), 140.0) is None  # told already
    assert watch.look(now(13, 0.5), 150.0) is None
    assert watch.look(now(13, 31.0), 190.0) is not None  # another one


def test_a_heartbeat_from_before_the_last_step_says_not_where_a_rank_stands(tmp_path):
    early = record("heartbeat", 11.0, step=0, phase="other", seconds=11.0, stack=[["/job/train.py", 1, "load"]])
    moved = make_process(make_steps(12), clean=False, records=[early])
    folder = write_recording(make_recording(moved, end=None), tmp_path / "rec")
    assert standings(folder) == [RankStanding(ranks=(0,), step=12, phase="", place="")]


def test_a_hang_before_the_first_step_is_seen_too(tmp_path):
    watch = HangWatch(tmp_path, 30.0)
    assert watch.look(Now(ranks=()), 100.0) is None  # nobody has reported: torch is not even imported
    (tmp_path / "rank-0-1.gdr").write_bytes(b"")
    assert watch.look(Now(ranks=()), 101.0) is None
    assert watch.look(Now(ranks=()), 140.0) is not None


def test_ranges():
    assert _ranges((7, 0, 1, 2, 5)) == "0-2, 5, 7"


def test_live_files_are_read_and_odd_ones_left_out(tmp_path):
    (tmp_path / "live-0-10.json").write_text(json.dumps({"step": 5, "seconds": 0.2, "phases": {"forward": 0.5}}))
    (tmp_path / "live-1-11.json").write_text(json.dumps({"step": 4, "seconds": None, "phases": {}}))
    (tmp_path / "live-2-12.json").write_text('{"step": 4, "sec')
    (tmp_path / "live-odd.json").write_text("{}")
    (tmp_path / "live-x-13.json.new").write_text("{}")
    os.utime(tmp_path / "live-1-11.json", (time.time() - 60, time.time() - 60))
    now = look(tmp_path)
    assert [rank.rank for rank in now.ranks] == [0, 1]
    assert now.step == 4
    assert now.slowest is not None and now.slowest.rank == 0
    assert now.ranks[1].age > 50


def fields(data: bytes) -> dict[int, list[object]]:
    """A protocol buffer's fields by number, nested ones as bytes."""
    found: dict[int, list[object]] = {}
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = number()
        kind = key & 7
        value: object
        if kind == 0:
            value = number()
        elif kind == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif kind == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            length = number()
            value, at = data[at : at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found


def test_the_event_file_is_what_tensorboard_reads():
    assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C
    recording = make_recording(make_process(make_steps(3000, data_wait=0.01, peak=2e9), wall=1e9))
    data = event_file(recording)
    events, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        for start, size in ((at, 8), (at + 12, length)):
            (sum_,) = struct.unpack_from("<I", data, start + size)
            crc = crc32c(data[start : start + size])
            assert sum_ == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
        events.append(fields(data[at + 12 : at + 12 + length]))
        at += 16 + length
    assert events[0][3] == [b"brain.Event:2"]
    assert len(events) == 1001
    last = events[-1]
    assert last[2] == [2999]
    assert last[1][0] > 1e9
    values = {item[1][0].decode(): item[2][0] for item in (fields(v) for v in fields(last[5][0])[1])}
    assert abs(values["gpudoctor/phase/data_wait"] - 0.5) < 0.05
    assert abs(sum(value for tag, value in values.items() if "/phase/" in tag) - 1.0) < 1e-5
    assert values["gpudoctor/memory/device_peak_bytes"] == 2e9
    assert "gpudoctor/loss" in values


def test_tensorboard_and_on_finding_by_the_command_line(tmp_path):
    folder = write_recording(make_recording(), tmp_path / "rec")
    done = gpudoctor("report", str(folder), "--tensorboard", str(tmp_path / "tb"), "--select", "LOOP008")
    assert done.returncode == 0, done.stderr
    (events,) = (tmp_path / "tb").iterdir()
    assert events.name.startswith("events.out.tfevents.")
    assert events.stat().st_size > 10_000
    (tmp_path / "file").write_text("")
    assert gpudoctor("report", str(folder), "--tensorboard", str(tmp_path / "file")).returncode == 2
    script = tmp_path / "train.py"
    # Read, not run: the source has an ailment and the process ends before it.
    script.write_text(
        "import sys\nif len(sys.argv) < 9:\n    sys.exit(0)\nimport torch\n"
        "data = torch.utils.data.DataLoader(torch.zeros(9, 3))\nmodel = torch.nn.Linear(3, 3)\n"
        "best = torch.optim.SGD(model.parameters())\nfor x in data:\n    model(x).sum().backward()\n    best.step()\n"
    )
    out = tmp_path / "told"
    done = gpudoctor(
        "run", "--recording", str(tmp_path / "r2"), "--on-finding", f"cat >> {out}", "--tensorboard",
        str(tmp_path / "tb2"), "--", sys.executable, str(script),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(list(Path(tmp_path / "tb2").iterdir())) == 1
    codes = [json.loads(line)["code"] for line in out.read_text().splitlines()]
    assert "LOOP008" in codes  # no seed is set
