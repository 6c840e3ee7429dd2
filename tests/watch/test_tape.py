"""Tapes: what is written comes back, cut files are read up to there, and what is none of ours is refused."""

import gzip
import json
from dataclasses import replace

import pytest
from windows import (
    GIB,
    make_gpu_window,
    make_host_window,
    make_rank,
    make_tick,
    make_window,
    make_worker,
    report_of,
    series,
)

from gpudoctor.cli import main
from gpudoctor.errors import IncompleteError, UsageError
from gpudoctor.model.signs.process import DeviceEvent, Gap, LiveSteps, LostWorker
from gpudoctor.watch.codec import decode, encode
from gpudoctor.watch.tape import TapeReader, TapeWriter


def growing(n):
    """Tick n of a job whose memory grows and whose phase changes."""
    t = 100.0 + n
    rank = make_rank(
        tree_rss=series([GIB + i for i in range(60 + n)], end=t),
        trail=tuple((t - 10 + i, "forward" if i % 2 else "data_wait") for i in range(10)),
        workers=(make_worker(1, cpu=0.1 * n),),
        lost_workers=(LostWorker(pid=9, t=5.0),) if n > 2 else (),
        steps=LiveSteps(step=n, seconds=0.01, phases={"forward": 1.0}),
    )
    gpu = make_gpu_window(busy=0.5, power=series([300.0 + n + i for i in range(60)], end=t), reasons={4: 0.5})
    window = make_window([rank], [gpu], t=t, events=(DeviceEvent(t=3.0, gpu=0, kind="unavailable", number=1),),
                         gaps=(Gap(panel="gpu", reason="x"),), host=make_host_window(cpu=series([n], end=t)))  # fmt: skip
    return make_tick(window, number=n)


def written(path, ticks):
    writer = TapeWriter(path)
    for tick in ticks:
        writer.write(tick)
    writer.close()
    return path


def read(path):
    reader = TapeReader(path)
    ticks = []
    while (tick := reader.tick()) is not None:
        ticks.append(tick)
    return ticks


@pytest.mark.parametrize("name", ["w.jsonl", "w.jsonl.gz"])
def test_what_is_written_comes_back(tmp_path, name):
    ticks = [growing(n) for n in range(6)]
    back = read(written(tmp_path / name, ticks))
    assert [tick.number for tick in back] == list(range(6))
    for before, after in zip(ticks, back, strict=True):
        assert after.window.ranks[0].steps.step == before.window.ranks[0].steps.step
        assert after.window.ranks[0].steps.phases == {"forward": 1.0}
        assert after.window.ranks[0].workers == before.window.ranks[0].workers
        assert after.window.ranks[0].places == before.window.ranks[0].places
        assert after.window.ranks[0].trail[-1] == before.window.ranks[0].trail[-1]
        assert after.window.ranks[0].tree_rss.last == before.window.ranks[0].tree_rss.last
        assert after.window.gpus[0].power.values[-30:] == before.window.gpus[0].power.values[-30:]
        assert after.window.gpus[0].reasons == {4: 0.5}
        assert after.window.events == before.window.events and after.window.gaps == before.window.gaps
        assert after.report.summary == before.report.summary
        assert after.report.outcomes == before.report.outcomes and after.report.findings == before.report.findings


def test_a_tick_costs_little(tmp_path):
    path = written(tmp_path / "w.jsonl", [growing(n) for n in range(20)])
    lines = path.read_text().splitlines()
    usual = sorted(map(len, lines[2:]))[len(lines) // 2]
    assert usual < len(lines[1]) / 3 and usual < 6000  # later ticks hold changes only


def test_a_file_cut_at_any_byte_is_read_up_to_there(tmp_path):
    path = written(tmp_path / "w.jsonl", [growing(n) for n in range(4)])
    data = path.read_bytes()
    whole = len(data.splitlines()[0]) + 1
    for cut in range(whole, len(data), 1501):
        short = tmp_path / "short.jsonl"
        short.write_bytes(data[:cut])
        assert len(read(short)) == data[:cut].count(b"\n") - 1 or data[:cut].endswith(b"}")


def test_a_compressed_file_without_its_end_is_read_up_to_there(tmp_path):
    path = written(tmp_path / "w.gz", [growing(n) for n in range(8)])
    short = tmp_path / "short.gz"
    short.write_bytes(path.read_bytes()[:-200])
    assert 1 <= len(read(short)) <= 8


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", IncompleteError),
        (b"hello\n", IncompleteError),
        (b'{"schema": "gpudoctor.report/1"}\n', IncompleteError),
        (b"\xff\xfe\x00", IncompleteError),
        (b"[1, 2]\n", IncompleteError),
    ],
)
def test_what_is_no_tape_is_refused(tmp_path, content, error):
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(error):
        read(path)


def test_lines_that_make_no_sense_are_refused_with_a_sentence(tmp_path):
    head = json.dumps({"schema": "gpudoctor.watch/1"})
    for line in ('{"window": {}}', '{"window": {"$": "os.system"}, "ranks": {}}', '{"number": "x"}'):
        path = tmp_path / "x.jsonl"
        path.write_text(f"{head}\n{line}\n")
        with pytest.raises(IncompleteError, match="is not valid"):
            read(path)


def test_only_classes_of_the_model_come_back():
    with pytest.raises(ValueError, match="unknown kind"):
        decode({"$": "subprocess.Popen", "args": ["true"]})
    with pytest.raises(TypeError):
        encode(object())
    report = report_of(make_window())
    assert decode(json.loads(json.dumps(encode(report)))) == report


def test_a_field_of_another_version_is_left_out():
    value = encode(make_worker(7))
    assert decode({**value, "temper": "bad"}) == make_worker(7)
    del value["wait_channel"]
    assert decode(value) == make_worker(7)


def test_a_tape_of_an_older_version_names_modules_too():
    value = encode(make_worker(7))
    assert decode({**value, "$": f"signs.process.{value['$']}"}) == make_worker(7)


def test_an_old_file_is_never_written_over(tmp_path):
    path = tmp_path / "w.jsonl"
    path.write_text("mine")
    with pytest.raises(UsageError, match="already"):
        TapeWriter(path)
    with pytest.raises(UsageError, match="cannot be written"):
        TapeWriter(tmp_path / "no" / "folder.jsonl")
    assert path.read_text() == "mine"


def test_a_tape_is_replayed_without_a_screen(tmp_path, capsys):
    path = written(tmp_path / "w.jsonl.gz", [growing(n) for n in range(3)])
    assert main(["watch", "--replay", str(path), "--plain"]) in (0, 1)
    assert len([line for line in capsys.readouterr().out.splitlines() if "data wait" in line]) >= 3
    assert main(["watch", "--replay", str(path), "--once", "--format", "json", "--quiet"]) in (0, 1)
    report = json.loads(capsys.readouterr().out)
    assert report["patient"]["kind"] == "process" and "data wait" in report["summary"]["verdict"]
    assert main(["watch", "--replay", str(tmp_path / "none"), "--once"]) == 2
    assert main(["watch", "--replay", str(path), "123"]) == 2
    with gzip.open(path, "rt") as file:
        assert json.loads(file.readline())["schema"] == "gpudoctor.watch/1"


def test_a_rank_that_ends_keeps_its_last_state(tmp_path):
    first = growing(1)
    ended = replace(first.window.ranks[0], alive=False, state="X")
    second = replace(first, window=replace(first.window, ranks=(ended,), ended="the process has ended"), number=2)
    back = read(written(tmp_path / "w.jsonl", [first, second]))
    assert back[1].window.ended and not back[1].window.ranks[0].alive and back[1].window.ranks[0].places
