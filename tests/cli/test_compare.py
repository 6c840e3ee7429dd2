"""`gpudoctor compare`: what changed, whether it is more than chance, and the exit code for CI."""

import json
from pathlib import Path

import pytest
from recordings import make_process, make_recording, make_steps, record, write_recording
from sarif_schema import validate

from gpudoctor.cli import main
from gpudoctor.engine.comparison import compare
from gpudoctor.engine.examination import Request, examine
from gpudoctor.engine.registry import Registry
from gpudoctor.engine.selection import make_selection
from gpudoctor.model import Report
from gpudoctor.model.comparison import Change, Comparison
from gpudoctor.model.signs.recording import Recording, RunEnd
from gpudoctor.report.comparison import comparison_json
from gpudoctor.report.markdown import render_comparison as comparison_markdown
from gpudoctor.ui.console.run_text import render_comparison
from gpudoctor.vitals.build_recorded_patient import admit_recording

SCHEMA = json.loads((Path(__file__).parents[2] / "gpudoctor/report/comparison-1.schema.json").read_text())


def report(recording: Recording) -> Report:
    registry = Registry(checks={}, rules={}, problems=())
    return examine(
        admit_recording(recording, ("x",)), Request(registry=registry, selection=make_selection(registry, [], []))
    )


def run(n: int = 300, seed: int = 0, **columns: object) -> Recording:
    return make_recording(make_process(make_steps(n, seed=seed, **columns)))  # type: ignore[arg-type]


def compared(before: Recording, after: Recording) -> Comparison:
    return compare(before, after, (report(before), report(after)))


def test_a_slower_run_is_slower_by_as_much_as_it_is():
    found = compared(run(), run(seed=1, data_wait=0.0012))
    assert found.change is Change.SLOWER
    assert found.time is not None
    assert found.time.value == pytest.approx(1.1, abs=0.01)
    assert found.phases[0].name == "data_wait"
    assert found.beyond(0.05) and not found.beyond(0.2)
    assert "slower" in found.verdict


def test_the_same_run_twice_is_no_difference_and_its_loss_is_identical():
    found = compared(run(), run())
    assert found.change is Change.UNCLEAR
    assert found.time is not None and found.time.value == 1.0
    assert found.loss == "identical"
    assert not found.beyond(0.0)


def test_batches_of_different_size_are_compared_by_sample():
    found = compared(run(samples=32.0), run(samples=64.0, forward=0.005, backward=0.009))
    assert found.measure == "sample"
    assert found.change is Change.FASTER
    assert "samples in the same time" in found.verdict


def test_json_markdown_and_text_say_the_same():
    before = run(peak=2e9)
    after = make_recording(make_process(make_steps(300, seed=3, data_wait=0.02)), end=RunEnd(exit_code=1, seconds=3.0))
    found = compared(before, after)
    document = json.loads(comparison_json(found, 0.05))
    validate(document, SCHEMA)
    validate(json.loads(comparison_json(compared(run(), run(n=5)), None)), SCHEMA)
    assert document["schema"] == "gpudoctor.comparison/1"
    assert document["beyond"] is True
    assert document["time"]["low"] <= document["time"]["value"] <= document["time"]["high"]
    assert document["memory"][0] == {
        "name": "GPU, allocated", "unit": "B", "before": 2_000_000_000, "after": None, "ratio": None
    }  # fmt: skip
    for text in (comparison_markdown(found), render_comparison(found, width=80, colour=False)):
        assert found.verdict.split("(")[0].strip() in " ".join(text.replace("\\", "").split())
        assert "data wait" in text and "second run ended with exit code 1" in text


def test_the_command_and_its_exit_codes(tmp_path, capsys):
    fast = str(write_recording(run(), tmp_path / "fast"))
    slow = str(write_recording(run(seed=1, data_wait=0.003), tmp_path / "slow"))
    short = str(write_recording(run(n=4), tmp_path / "short"))
    assert main(["compare", fast, slow]) == 0
    capsys.readouterr()
    assert main(["compare", fast, slow, "--max-regression", "5%", "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["max_regression"] == 0.05
    assert main(["compare", slow, fast, "--max-regression", "0.05"]) == 0
    assert main(["compare", fast, short, "--max-regression", "5%"]) == 3
    capsys.readouterr()
    out = tmp_path / "c.md"
    assert main(["compare", fast, slow, "--format", "markdown", "--output", str(out)]) == 0
    printed = capsys.readouterr()
    assert (printed.out, out.is_file(), "slower" in printed.err) == ("", True, True)
    assert main(["compare", fast, slow, "--max-regression", "much"]) == 2
    assert main(["compare", fast, str(tmp_path / "missing")]) == 2


def job(parameters=1000, marker="optimizer", device="cpu", ranks=1, version="2.9", columns=None, **changes):
    told = [
        record("torch", 1.0, version=version, threads=1, device="NVIDIA H100"),
        record("model", 1.0, name="Net", parameters=parameters, device=device),
        record("loop", 1.5, marker=marker, path="/job/train.py", line=5, function="<module>", engine=None),
    ]
    steps = make_steps(100, **columns or {})
    made = [make_process(steps, records=told, rank=rank, world=ranks) for rank in range(ranks)]
    fields = {"command": ("python", "train.py", "--lr", "1e-3"), **changes}
    return make_recording(*made, **fields)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"parameters": 2000}, "the models differ (Net of 1,000 parameters, then Net of 2,000 parameters)"),
        ({"ranks": 2}, "the numbers of ranks differ (1 rank, then 2 ranks)"),
        ({"command": ("torchrun", "other.py")}, "the scripts differ (train.py, then other.py)"),
    ],
)
def test_two_jobs_are_told(changes, said):
    found = compared(job(), job(**changes))
    assert said in " ".join(found.other_job)
    assert "ut they are two jobs: " in found.verdict and said in found.verdict
    slower = compared(job(), job(columns={"data_wait": 0.0012}, **changes)).verdict
    assert slower.startswith("A step takes 1.1") and slower.endswith(f"), but they are two jobs: {found.other_job[0]}.")
    validate(json.loads(comparison_json(found, None)), SCHEMA)


EVALUATES = """\
import torch
from torch.utils.data import DataLoader
model, data = torch.nn.Linear(4, 1), [torch.ones(4)] * 640
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(data, 8):
    model(batch).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
def validate():
    model.eval()
    total = 0.0
    for batch in DataLoader(data, 8):
        total += model(batch).sum().item()
    return total
validate()
"""


def test_what_was_not_looked_at_is_neither_gone_nor_new(tmp_path, capsys):
    """LOOP002 is in both runs; the first recording is of a version that kept no script."""
    here = {"cwd": str(tmp_path)}
    path, edited = str(tmp_path / "train.py"), "# edited\n" + EVALUATES
    old = write_recording(make_recording(**here), tmp_path / "old")
    first = write_recording(make_recording(scripts={path: ("1", EVALUATES)}, **here), tmp_path / "first")
    second = write_recording(make_recording(scripts={path: ("2", edited)}, **here), tmp_path / "second")
    cured = EVALUATES.replace("def validate", "@torch.no_grad()\ndef validate")
    third = write_recording(make_recording(scripts={path: ("3", cured)}, **here), tmp_path / "third")

    def found(before, after):
        assert main(["compare", str(before), str(after), "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        return document["findings"], document["other_setting"]

    assert main(["report", str(second)]) == 0
    assert "LOOP002" in capsys.readouterr().out
    assert found(old, second) == ({"gone": [], "new": []}, [])
    assert found(first, second) == ({"gone": [], "new": []}, ["train.py was edited between them"])
    gone, _ = found(first, third)
    assert any("LOOP002" in title for title in gone["gone"]) and gone["new"] == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": "2.8"}, "the versions of torch differ (2.9, then 2.8)"),
        ({"device": "cuda:0"}, "the devices differ (cpu, then NVIDIA H100)"),
        ({"node": "b"}, "the machines differ"),
    ],
)
def test_what_else_differs_is_remarked(changes, said):
    found = compared(job(), job(**changes))
    assert not found.other_job and "two jobs" not in found.verdict
    assert said in render_comparison(found, width=200, colour=False)
    assert said in comparison_markdown(found)
