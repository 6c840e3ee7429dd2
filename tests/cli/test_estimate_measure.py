"""`gpudoctor estimate --measure` on the CPU, end to end, and the calibration that it leaves for later estimates."""

import json
import os
import subprocess
import sys

import pytest
from forks import fork_trainings
from packages import need

from gpudoctor.cli import estimate as command
from gpudoctor.cli import main

need("torch", "transformers", "peft")

TINY = (
    "--hidden", "64", "--layers", "2", "--heads", "2", "--kv-heads", "1", "--head-dim", "32", "--intermediate", "176",
    "--vocab", "1000", "--seq", "64", "--batch", "2",
)  # fmt: skip
MEASURE = ("--measure", "--measure-device", "cpu", "--measure-seconds", "300")


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "_own_card", lambda: (None, ""))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def ask(capsys):
    def run(*words):
        code = main(["estimate", *words])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err

    return run


@pytest.mark.slow
def test_three_real_steps_beside_the_estimate_and_a_calibration(ask, monkeypatch, tmp_path):
    """One run for all of it: its child is forked, test_verify_synthetic.py has one that is started."""
    fork_trainings(monkeypatch, 1, ("transformers", "peft"))
    kept = tmp_path / "kept.json"
    code, out, err = ask(
        *TINY,
        "--method",
        "lora",
        "--accumulate",
        "2",
        *MEASURE,
        f"--write-calibration={kept}",
        "--format",
        "json",
    )
    assert (code, err) == (0, "")
    report = json.loads(out)
    measured = report["measured"]
    assert measured["ending"] == "complete" and measured["steps"] == 3
    assert measured["machine"]["kind"] == "cpu" and measured["machine"]["versions"]["torch"]
    rows = {row["instant"]: row for row in measured["rows"]}
    assert set(rows) == {"load", "loss", "layer", "backward", "accumulation", "step", "static", "peak"}
    for name in ("load", "step", "static"):
        assert rows[name]["ratio"] == pytest.approx(1, abs=0.02), rows[name]
    assert rows["peak"]["measured_bytes"] == max(row["measured_bytes"] for row in rows.values())
    assert {each["kind"] for each in measured["differences"]} >= {"workspace", "step-temporaries"}
    schema = pytest.importorskip("jsonschema")
    from pathlib import Path

    import gpudoctor.report

    where = Path(gpudoctor.report.__file__).with_name("estimate-1.schema.json")
    schema.validate(report, json.loads(where.read_text("utf-8")))

    entry = json.loads(kept.read_text("utf-8"))
    assert entry["schema"] == "gpudoctor.calibration/1"
    assert entry["entries"][0]["gpu"] == "cpu" and entry["entries"][0]["instants"]["loss"]["n"] == 1
    code, out, _ = ask(*TINY, "--method", "lora", "--calibration", str(kept))
    assert code == 0 and "calibration of " in out and "measured (n 1)" in " ".join(out.split())
    code, out, _ = ask(*TINY, "--method", "lora", "--gpu", "24GiB", "--calibration", str(kept))
    assert "is not used: it is for cpu, and the estimate is for 24GiB" in " ".join(out.split())


def replaced(monkeypatch, code):
    """Run this in the child instead."""
    monkeypatch.setattr("gpudoctor.estimate.measure.start_measurement.child_code", lambda _: code)


def test_what_raises_in_the_child_is_one_sentence(ask, monkeypatch):
    replaced(monkeypatch, "raise SystemExit('the child is broken')")
    code, out, err = ask(*TINY, "--method", "full", *MEASURE)
    assert (code, out) == (3, "")
    assert err.startswith("gpudoctor: --measure: ") and "the child is broken" in err and err.count("\n") == 1


def test_out_of_memory_says_what_was_reached(ask, monkeypatch):
    told = (
        '{"event": "reached", "what": "step 1: after forward"}',
        '{"event": "load", "bytes": 5000, "most": 6000}',
        '{"event": "ending", "ending": "out of memory", "said": "OutOfMemoryError: tried 2 GiB", "most": 7000}',
    )
    replaced(monkeypatch, f"import sys; sys.stdin.read(); print({chr(10).join(told)!r})")
    code, out, _ = ask(*TINY, "--method", "full", *MEASURE, "--write-calibration")
    said = " ".join(out.split())
    assert code == 1
    assert "out of memory: OutOfMemoryError: tried 2 GiB" in said
    assert "Reached: step 1: after forward; 7,000 bytes were allocated by then" in said
    assert "no calibration was written" in said


def test_killed_by_the_system_and_the_time_limit(monkeypatch):
    from gpudoctor.estimate import TrainingJob, lookup
    from gpudoctor.estimate.measure import MeasureEnd, measure

    shape = lookup("tinyllama-1.1b").preset.shape
    replaced(monkeypatch, "import os, sys; sys.stdin.read(); os.kill(os.getpid(), 9)")
    killed = measure(shape, TrainingJob(), device="cpu")
    assert killed.ending is MeasureEnd.OUT_OF_MEMORY and "signal 9" in killed.said
    replaced(monkeypatch, "import time; time.sleep(60)")
    slow = measure(shape, TrainingJob(), device="cpu", limit=0.5)
    assert slow.ending is MeasureEnd.TIME_LIMIT and slow.seconds < 10


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "7b", "--write-calibration"), "--write-calibration saves a measurement; add --measure"),
        (("--model", "7b", "--measure-seconds", "3"), "need --measure"),
        (("--model", "7b", "--measure", "--measure-seconds", "0"), "not a number of seconds"),
        (("--model", "7b", *MEASURE, "--gpus", "2", "--parallel", "ddp"), "--measure runs on one device"),
        (("--model", "7b", *MEASURE, "--mode", "inference"), "--mode inference has none"),
        (("--model", "7b", *MEASURE, "--method", "full", "--stack", "litgpt"), "--stack litgpt"),
        (("--model", "7b", *MEASURE, "--method", "full", "--attention", "flash"), "runs on CUDA only"),
        (("--model", "405b", *MEASURE, "--method", "full"), "bytes of host memory"),
        (("--model", "7b", "--calibration", "/nowhere/at/all.json"), "cannot be read"),
    ],
)
def test_bad_input(ask, words, said):
    code, out, err = ask(*words)
    assert (code, out) == (2, ""), err
    assert said in err and err.count("\n") == 1


def test_nothing_of_the_users_is_replaced(ask, tmp_path):
    mine = tmp_path / "train.yaml"
    mine.write_text("model: 7b\n")
    code, _, err = ask("--model", "7b", *MEASURE, "--write-calibration", str(mine))
    assert code == 2 and "no calibration file" in err
    assert mine.read_text() == "model: 7b\n"
    code, _, err = ask("--model", "7b", *MEASURE, "--write-calibration", str(tmp_path))
    assert code == 2 and "is a folder" in err


def test_the_estimate_imports_nothing_of_it():
    code = (
        "import sys; from gpudoctor.cli import main; main(['estimate', '--model', '7b', '--format', 'json', '--output',"
        " sys.argv[1]]); "
        "bad = [m for m in sys.modules if m.startswith(('torch', 'transformers', 'gpudoctor.estimate.measure', "
        "'gpudoctor.estimate.real')) or m == 'gpudoctor.estimate.calibration']; assert not bad, bad"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, os.devnull], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
