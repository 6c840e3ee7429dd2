"""A synthetic job on a real card: the estimate beside what torch's allocator counted, and a utilisation."""

import json
import shutil

import pytest
from command import gpudoctor

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no nvidia-smi: no NVIDIA driver here"),
]


def verified(tmp_path, *words):
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    pytest.importorskip("peft")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    done = gpudoctor(
        "verify", *words, "--budget", "5m", "--top", "1", "--steps", "10", "--quiet", "--format", "json",
        "--recording", str(tmp_path / "rec"), cwd=tmp_path, timeout=600, XDG_STATE_HOME=str(tmp_path / "state"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
def test_the_estimate_is_what_the_card_shows(tmp_path, method):
    if method == "qlora":
        pytest.importorskip("bitsandbytes")
    report = verified(tmp_path, "--model", "qwen2.5-0.5b", "--method", method, "--seq", "1024")
    job = report["synthetic"]
    rows = {row["instant"]: row for row in job["memory"]}
    assert job["kind"] == "cuda" and job["run_peak_bytes"] == rows["peak"]["measured_bytes"]
    assert rows["peak"]["ratio"] == pytest.approx(1, abs=0.05), rows
    assert job["flops_per_second"] > 1e12
    if job["peak_flops"] is not None:
        assert 0 < job["mfu"] < 1 and report["run"]["throughput"]["mfu"] == job["mfu"]


def test_several_cards(tmp_path):
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("one card")
    words = ("--model", "qwen2.5-0.5b", "--method", "full", "--seq", "1024", "--gpus", "2", "--parallel", "fsdp2")
    job = verified(tmp_path, *words)["synthetic"]
    assert job["ranks"] == 2 and [row["instant"] for row in job["memory"]] == ["peak"]
