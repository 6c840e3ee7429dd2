"""`gpudoctor report`: verdicts on recordings of every kind, in every format."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from recordings import make_machine, make_process, make_recording, make_steps, record, write_recording
from sample_reports import SHM

from gpudoctor.cli import main
from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.run_summary import summarise
from gpudoctor.engine.run_verdict import death, nobody_reported, pronounce_run
from gpudoctor.model import Code, Cost, Ranked
from gpudoctor.model.signs.recording import Process, Recording, RunEnd

SCHEMA = json.loads((Path(__file__).parents[2] / "gpudoctor/report/report-1.schema.json").read_text())


def verdict(recording: Recording) -> str:
    """What is said of it when no check finds anything."""
    return pronounce_run("train.py", recording, summarise(recording), (), ())


def dead(*records: object, steps: int = 40, rank: int = 0, world: int = 1, wall: float = 1e9) -> Process:
    return make_process(make_steps(steps), records=records, rank=rank, world=world, wall=wall, clean=False)  # type: ignore[arg-type]


def test_a_healthy_run_is_told_with_its_margins():
    text = verdict(make_recording(make_process(make_steps(200, data_wait=0.0004))))
    assert text.startswith("Little time is lost outside computation: data wait 3.9 %, other 2.9 %")
    assert (
        "the possible speedup is at most 1.04x. Memory growth, loss, gradients, batch, labels, parameters and" in text
    )


def test_a_death_names_rank_step_and_error():
    end = RunEnd(exit_code=1, seconds=9.0)
    boom = record("exception", 7.0, exception="RuntimeError", message="CUDA error: boom\nmore", frames=[])
    later = record("exception", 8.0, exception="RuntimeError", message="Connection closed by peer", frames=[])
    run = make_recording(
        dead(later, rank=0, world=2), dead(boom, rank=1, world=2), end=end, command=("torchrun", "train.py")
    )
    assert verdict(run) == "train.py died after 40 steps of rank 1: RuntimeError: CUDA error: boom."
    killed = make_recording(dead(), end=RunEnd(exit_code=137, signal="SIGKILL", seconds=9.0, oom_kills=1))
    assert verdict(killed) == ("train.py was killed by SIGKILL (its memory limit was reached) after at least 40 steps.")


def test_an_interrupt_is_no_death():
    stopped = record("exception", 8.0, exception="KeyboardInterrupt", message="", frames=[])
    run = make_recording(
        dead(stopped, steps=100), end=RunEnd(exit_code=130, signal="SIGINT", seconds=9.0, stopped_by="steps")
    )
    assert verdict(run).startswith("Little time is lost")
    assert death(RunEnd(exit_code=130, signal="SIGINT", stopped_by="interrupt")) == ""
    assert death(None) == ""


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (("docker", "run", "--gpus", "all", "image", "python", "train.py"), "container"),
        (("ssh", "node7", "python train.py"), "another machine"),
        (("sudo", "-E", "python", "train.py"), "sudo clears"),
        (("python", "-W", "error::ImportWarning", "train.py", "-I"), "import torch"),
    ],
)
def test_what_kept_the_probe_out(command, hint):
    text = nobody_reported(make_recording(command=command))
    assert text.startswith("No rank reported") and hint in text


def test_every_format_of_a_real_folder(tmp_path, capsys):
    machine = make_machine(40, cpu=1.0, memory=8e9, tree_rss=2e9)
    script = tmp_path / "train.py"
    script.write_text("import torch\n")
    kept = (hashlib.sha256(script.read_bytes()).hexdigest(), "import torch\n")
    here = {"cwd": str(tmp_path), "scripts": {str(script): kept}}
    run = make_recording(make_process(make_steps(300, samples=32.0)), machine=machine, **here)
    folder = write_recording(run, tmp_path / "rec")

    def out(*words: str) -> str:
        assert main(["report", str(folder), *words]) == 0
        return capsys.readouterr().out

    report = json.loads(out("--format", "json"))
    jsonschema.validate(report, SCHEMA)
    assert report["patient"]["kind"] == "recording"
    assert report["run"]["steps"] == 300
    assert report["run"]["healthy"] is True
    assert abs(sum(report["run"]["phases"].values()) - 1.0) < 1e-6
    assert report["run"]["throughput"]["samples_per_second"] == pytest.approx(3200, rel=0.05)
    assert report["run"]["memory"]["tree_rss"] == 2_000_000_000
    text = out()
    assert "Little time is lost" in text and "300 steps" in text and f"recording: {folder}" in text
    assert len(text.splitlines()) <= 8
    verbose = out("--verbose")
    assert "backward    ██" in verbose and "deviation" in verbose
    assert str(tmp_path) not in out("--share", "--format", "json")


def test_a_saved_report_is_shown_again(tmp_path, capsys):
    run = make_recording(make_process(make_steps(300, data_wait=0.02)), cwd=str(tmp_path))
    folder, saved = str(write_recording(run, tmp_path / "rec")), str(tmp_path / "proof.json")
    assert main(["report", folder, "--json", "--output", saved]) == main(["report", folder]) == 0
    text = capsys.readouterr().out
    assert main(["report", saved]) == 0
    assert capsys.readouterr().out == text
    for form, begin in (("html", "<!DOCTYPE html>"), ("markdown", "##"), ("json", "{")):
        assert main(["report", saved, "--format", form]) == 0
        assert capsys.readouterr().out.startswith(begin)
    Path(saved).write_text("{}")
    assert main(["report", saved]) == 2
    assert "is not a JSON report of gpudoctor" in capsys.readouterr().err


def test_what_is_no_recording_is_wrong_usage(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    for name in ("missing", "empty"):
        assert main(["report", str(tmp_path / name)]) == 2
        printed = capsys.readouterr()
        assert printed.out == "" and name in printed.err


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (("0", "import torch\n"), ""),
        (("0", None), "has changed since the recording"),
        (None, "does not contain the script"),
    ],
)
def test_a_report_says_what_the_missing_script_left_out(tmp_path, capsys, kept, said):
    (tmp_path / "train.py").write_text("import torch\n")
    scripts = {str(tmp_path / "train.py"): kept} if kept else {}
    run = make_recording(make_process(make_steps(300)), cwd=str(tmp_path), scripts=scripts)
    folder = write_recording(run, tmp_path / "rec")
    assert main(["report", str(folder), "--format", "json"]) == 0
    remarks = [remark for remark in json.loads(capsys.readouterr().out)["remarks"] if "the script" in remark]
    assert not remarks if not said else said in remarks[0] and "did not look for" in remarks[0]


def costly(code: str, share: float) -> Ranked:
    traits = load_registry().checks[Code(code)].traits
    finding = replace(SHM.finding, code=Code(code), cost=Cost(step_share=share), traits=traits)
    return replace(SHM, finding=finding, remedies=())


@pytest.mark.parametrize(
    ("findings", "gain"),
    [
        ([("DATA001", 0.52), ("DATA002", 0.51)], "2.1x"),  # the same time twice
        ([("DATA001", 0.4), ("OBS002", 0.1)], "up to 2.0x"),
        ([("PERF014", 0.52), ("DIST001", 0.45)], "up to 2.3x"),  # more than is lost together
        ([("PERF001", 0.3), ("DATA001", 0.3)], "up to 2.5x"),  # the computation and what is lost beside it
        ([("SYNC001", 0.05)], "up to 1.05x"),
    ],
)
def test_what_findings_give_back_together_counts_no_time_twice(findings, gain):
    recording = make_recording(make_process(make_steps(100, data_wait=0.012)))
    ranked = [costly(code, share) for code, share in findings]
    text = pronounce_run("train.py", recording, summarise(recording), ranked, ())
    assert gain in text, text
    assert text.startswith("The training waits for data 5")


@pytest.mark.parametrize(
    ("marker", "said"), [("backward", "gpudoctor saw no optimizer"), ("optimizer", "Little time is lost")]
)
def test_what_a_step_is_without_an_optimizer(marker, said):
    told = record("loop", 1.5, marker=marker, path="/job/train.py", line=5, function="<module>", engine=None)
    recording = make_recording(make_process(make_steps(100), records=[told]))
    assert pronounce_run("train.py", recording, summarise(recording), (), ()).startswith(said)
