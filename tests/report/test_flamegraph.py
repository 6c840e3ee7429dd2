"""Flame graphs: of a recording by phase and stack, of a watch's samples, for speedscope."""

import json
from types import SimpleNamespace

import pytest
from recordings import make_process, make_recording, make_steps, record, write_recording

from gpudoctor.analysis.run.flame_stacks import flame_profiles
from gpudoctor.cli import main
from gpudoctor.model.flames import FlameFrame, FlameProfile
from gpudoctor.model.signs.process import Frame
from gpudoctor.report.flamegraph import speedscope
from gpudoctor.vitals.process.stack_sampler import StackRing

LINES = record(
    "lines", 3.0, samples=100, interval=0.02,
    counts=[["forward", "/job/model.py", 9, "forward", 60], ["data_wait", "/job/data.py", 31, "__getitem__", 30],
            ["other", None, None, None, 10]],
    leaves=[[0, "/lib/torch/nn/functional.py", "linear", 15], [1, "/lib/PIL/Image.py", "open", 30]],
    callers=[[0, True, [["/job/train.py", 40, "step"], ["/job/train.py", 80, "main"]], 40],
             [0, False, [["/job/train.py", 90, "evaluate"]], 20]],
)  # fmt: skip


@pytest.fixture
def recording():
    return make_recording(make_process(make_steps(60), records=[LINES]), cwd="/job")


def names(stack):
    return [frame.name for frame in stack]


def test_a_recordings_time_is_all_there_by_phase_and_stack(recording):
    (profile,) = flame_profiles(recording)
    assert profile.name == "rank 0"
    assert sum(profile.stacks.values()) == pytest.approx(100 * 0.02)
    phases = {}
    for stack, seconds in profile.stacks.items():
        phases[stack[0].name] = phases.get(stack[0].name, 0) + seconds
    assert phases == pytest.approx({"forward": 1.2, "data wait": 0.6, "other": 0.2})
    by_name = {tuple(names(stack)): seconds for stack, seconds in profile.stacks.items()}
    inside = ("forward", "main", "step", "(inside a module's call)", "forward")
    assert by_name[(*inside, "linear")] == pytest.approx(1.2 * 2 / 3 * 0.25)
    assert by_name[inside] == pytest.approx(1.2 * 2 / 3 * 0.75)
    assert by_name["data wait", "__getitem__", "open"] == pytest.approx(0.6)
    (own,) = (stack[1] for stack in profile.stacks if stack[0].name == "data wait")
    assert own == FlameFrame("__getitem__", "data.py", 31)


def test_the_file_is_speedscopes(recording):
    profiles = flame_profiles(recording)
    document = json.loads(speedscope("train.py", profiles))
    frames, (profile,) = document["shared"]["frames"], document["profiles"]
    assert (profile["type"], profile["unit"], profile["endValue"]) == ("sampled", "seconds", pytest.approx(2.0))
    assert len(profile["samples"]) == len(profile["weights"]) and sum(profile["weights"]) == pytest.approx(2.0)
    assert {number for sample in profile["samples"] for number in sample} == set(range(len(frames)))
    assert {"name": "step", "file": "train.py", "line": 40} in frames


def test_shared_files_have_no_folders():
    profiles = [FlameProfile(name="rank 0", stacks={(FlameFrame("a", "/home/me/x.py", 3),): 0.5})]
    assert "/home/me" not in speedscope("t", profiles, share=True)
    assert "/home/me" in speedscope("t", profiles)


def test_report_writes_it(recording, tmp_path, capsys):
    write_recording(recording, tmp_path / "rec")
    path = tmp_path / "flame.json"
    assert main(["report", str(tmp_path / "rec"), "--flamegraph", str(path), "--select", "DATA001"]) == 0
    assert "__getitem__" in path.read_text()


def test_a_recording_without_samples_says_so(tmp_path, capsys):
    write_recording(make_recording(make_process(make_steps(60))), tmp_path / "rec")
    path = tmp_path / "f.json"
    assert main(["report", str(tmp_path / "rec"), "--flamegraph", str(path), "--select", "DATA001"]) == 0
    assert "no stack was sampled" in capsys.readouterr().err and not path.exists()


def test_a_watch_counts_the_time_between_its_looks():
    ring = StackRing(length=10.0)
    inner = [Frame(name="load", path="/job/data.py", line=3), Frame(name="main", path="/job/train.py", line=9)]
    for t, phase in ((0.0, "data_wait"), (1.0, "data_wait"), (1.5, "forward"), (100.0, "forward")):
        ring.add(t, SimpleNamespace(phase=phase), inner)
        ring.forget(t)
    seconds = {tuple(names(stack)): value for stack, value in ring.flames.items()}
    assert seconds == pytest.approx(
        {("data wait", "main", "load"): 1.2, ("forward", "main", "load"): 0.5 + 5.0}, rel=1e-6
    )
