"""`gpudoctor verify --model`: what is refused beforehand, and one small job from flags to report."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pytest
from command import gpudoctor

import gpudoctor as package
from gpudoctor.cli import main
from gpudoctor.estimate.synthetic import RunPlace

GIB = 1 << 30
TINY = (
    "--set", "hidden=64", "--set", "layers=3", "--set", "heads=2", "--set", "kv_heads=1", "--set", "head_dim=32", "--set", "intermediate=96",
    "--set", "vocab=500", "--seq", "32", "--batch", "2", "--dtype", "fp32",
)  # fmt: skip


@pytest.fixture
def ask(capsys, monkeypatch):
    """The command on a machine of a CPU with so many free GiB; nothing is run."""

    def run(*words, free=20):
        place = RunPlace(kind="cpu", name="a CPU", bytes=24 * GIB, free=int(free * GIB))
        monkeypatch.setattr("gpudoctor.cli.verify_synthetic.here", lambda: place)
        code = main(["verify", *words])
        said = capsys.readouterr()
        assert "Traceback" not in said.err and said.out == ""
        return code, said.err

    return run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "7b", "--", "python", "x.py"), "--model describes a synthetic job"),
        (("--batch", "4", "--", "python", "x.py"), "--batch describes a synthetic job"),
        (("--method", "qlora"), "give one by name"),
        (("--model", "no-such-model"), "is not known"),
        (("--model", "7b", "--set", "hidden=64"), "both given"),
        (("--model", "7b", "--keep"), "print the edits with --diff"),
        (("--model", "7b", "--mode", "inference"), "a synthetic job trains"),
        (("--model", "7b", "--optimizer", "galore"), "--optimizer galore"),
        (("--model", "7b", "--gpus", "2"), "--parallel none leaves"),
        (("--model", "7b", "--attention", "flash"), "use sdpa or eager"),
        (("--model", "7b", "--vary", "seq=1k", "--find-batch"), "use one of them"),
        (("--model", "pythia-70m", "--seq", "64", "--vary", "seq=1k,many"), "'many' is not a value for it"),
    ],
)
def test_wrong_usage(ask, words, said):
    code, err = ask(*words)
    assert code == 2 and said in err and err.count("\n") == 1, err


needs_libraries = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("torch", "transformers", "peft")), reason="a package is not installed"
)


@needs_libraries
def test_too_large_for_this_machine(ask):
    code, err = ask("--model", "7b", "--method", "full")
    assert code == 1
    assert "llama-2-7b with --method full does not fit: it needs" in err
    assert "What fits: gpudoctor estimate --model llama-2-7b --gpu 24GiB --fit" in err


@needs_libraries
@pytest.mark.slow
def test_a_small_job_from_flags_to_report(tmp_path):
    """One run for all of it: written, measured beside its estimate, recorded, diagnosed, reported."""
    folder = tmp_path / "work"
    folder.mkdir()
    done = gpudoctor(
        "verify", *TINY, "--method", "lora", "--no-checkpointing", "--budget", "3m", "--top", "1", "--steps", "5",
        "--select", "NUM007,NUM009,DATA001,LOOP009", "--quiet", "--recording", str(tmp_path / "rec"), "--format", "json", cwd=folder,
        timeout=300, trainings=24, loaded=("transformers", "peft"), XDG_STATE_HOME=str(tmp_path / "state"), CUDA_VISIBLE_DEVICES="",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    schemas = Path(package.__file__).parent / "report"
    jsonschema.validate(report, json.loads((schemas / "report-1.schema.json").read_text()))
    jsonschema.validate(report["estimate"], json.loads((schemas / "estimate-1.schema.json").read_text()))

    job = report["synthetic"]
    assert job["memory"] == [] and job["run_resident_bytes"] > 0  # on a CPU torch keeps no count
    assert job["estimated_peak_bytes"] == report["estimate"]["total_bytes"] and job["versions"]["torch"]
    assert job["kind"] == "cpu" and job["mfu"] is None and job["peak_flops"] is None
    assert job["tokens_per_step"] == 64
    assert job["tokens_per_second"] == pytest.approx(64 / job["step_seconds"])
    assert job["flops_per_second"] == pytest.approx(job["flops_per_step"] / job["step_seconds"])
    assert report["run"]["steps"] >= 5 and report["run"]["throughput"]["tokens_per_second"] > 0

    assert report["findings"] == []
    script = Path(job["script"])
    assert script.parent == tmp_path / "rec" and "import gpudoctor" not in script.read_text()
    assert report["run"]["command"][:2] == [sys.executable, str(script)]
    assert list(folder.iterdir()) == []
