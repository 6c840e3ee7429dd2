"""Recordings that a program makes of itself, in real trainings on the CPU."""

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from command import gpudoctor
from forks import zygote
from probed import forked
from recorded_here import PLAIN

from gpudoctor.hooks.flat_summary import flat, summary
from gpudoctor.vitals.recording.reader import read_recording

ROOT = Path(__file__).parents[2]
KINDS = {"start", "loop", "model", "optimizer", "loader", "torch", "end"}
"""Records that every training leaves."""


def program(folder, text, *, before=PLAIN, loaded=(), **variables):
    """A program that has run in a forked process with torch, without the probe."""
    (folder / "train.py").write_text(before + textwrap.dedent(text))
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(ROOT), **variables}
    environment.pop("GPUDOCTOR_RECORDING", None)
    return zygote("zygote.py").run(forked(folder / "train.py", (), environment, limit=240.0, loaded=loaded))


def kinds(folder):
    return {record.type for record in read_recording(str(folder)).ranks[0].records}


def test_each_block_of_a_loop_is_a_recording_of_its_own(tmp_path):
    done = program(
        tmp_path,
        """
        torch.manual_seed(0)
        plain = train()
        for name in ("first", "second"):
            torch.manual_seed(0)
            with gpudoctor.record(name, quiet=True) as recording:
                assert recording.recording
                assert train() == plain
        numbers = recording.summary()
        assert numbers == gpudoctor.summary("second")
        page = recording._repr_html_()
        print(numbers["gpudoctor/steps"], page[:15], len(page) > 20_000, "GPUDOCTOR_RECORDING" in __import__("os").environ)
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "40.0 <iframe srcdoc= True False"
    for name in ("first", "second"):
        assert kinds(tmp_path / name) >= KINDS, name
        recording = read_recording(str(tmp_path / name))
        assert recording.problems == ()
        end = json.loads((tmp_path / name / "end.json").read_text())
        assert (end["exit_code"], end["stopped_by"]) == (0, None)
        assert (tmp_path / name / "machine.gdr").is_file()


def test_an_error_in_the_block_is_recorded_and_goes_on(tmp_path):
    done = program(
        tmp_path,
        """
        with gpudoctor.record("died", report="page.json"):
            train(fail=20)
        """,
    )
    assert done.returncode == 1 and "ValueError: a bad batch" in done.stderr
    assert "gpudoctor: " in done.stderr and "page.json" in done.stderr
    report = json.loads((tmp_path / "page.json").read_text())
    assert report["run"]["exit_code"] == 1
    assert "a bad batch" in json.dumps(report["findings"])


@pytest.mark.slow
def test_a_program_that_ends_inside_is_complete_and_under_run_nothing_is_recorded_twice(tmp_path):
    done = program(tmp_path, 'gpudoctor.record("open", quiet=True).start()\ntrain()\n')
    assert done.returncode == 0, done.stderr
    assert "end" in kinds(tmp_path / "open")
    words = ("run", "--recording", "outer", "--", sys.executable, "train.py")
    done = gpudoctor(*words, cwd=tmp_path, timeout=240, trainings=1, path=(str(ROOT),))
    assert done.returncode == 0, done.stderr
    assert kinds(tmp_path / "outer") >= KINDS


FRAMEWORKS = {
    "transformers": """
        from transformers import Trainer, TrainingArguments
        from gpudoctor.hooks import TransformersCallback
        arguments = TrainingArguments("out", num_train_epochs=1, per_device_train_batch_size=8, report_to=[],
                                      save_strategy="no", use_cpu=True, disable_tqdm=True)
        Trainer(Net(), arguments, train_dataset=data, callbacks=[TransformersCallback("rec")]).train()
        """,
    "accelerate": """
        from accelerate import Accelerator
        from gpudoctor.hooks import AccelerateTracker
        accelerator = Accelerator(cpu=True, log_with=[AccelerateTracker("rec")])
        accelerator.init_trackers("job")
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=8))
        for batch in loader:
            loss = model(**batch)["loss"]
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            accelerator.log({"loss": 1.0})
        accelerator.end_training()
        """,
    "lightning": """
        import lightning.pytorch as pl
        from gpudoctor.hooks import LightningCallback
        class Module(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = Net()
            def training_step(self, batch, index):
                return self.net(**batch)["loss"]
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.01)
        trainer = pl.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
                             enable_progress_bar=False, callbacks=[LightningCallback("rec")])
        trainer.fit(Module(), DataLoader(data, batch_size=8))
        """,
}
NET = """
import torch
from torch.utils.data import DataLoader

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x=None, labels=None):
        out = self.layer(x)
        return {"loss": ((out - labels) ** 2).mean(), "logits": out}

data = [{"x": torch.randn(4), "labels": torch.randn(1)} for _ in range(320)]
"""


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_three_lines_in_a_framework_give_the_report(tmp_path, framework):
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    done = program(tmp_path, FRAMEWORKS[framework], before=NET, loaded=(framework,))
    assert done.returncode == 0, done.stderr
    assert "Report: gpudoctor report" in done.stderr
    assert kinds(tmp_path / "rec") >= KINDS
    numbers = summary(tmp_path / "rec")
    assert numbers["gpudoctor/steps"] == 40
    shares = [value for name, value in numbers.items() if name.startswith("gpudoctor/phase_share/")]
    assert sum(shares) == pytest.approx(1.0, abs=0.01)


def test_a_flat_summary_has_numbers_only_and_leaves_out_what_was_not_measured():
    report = {
        "summary": {"error": 0, "warning": 2, "note": 1, "verdict": "words"},
        "run": {"steps": 4, "step_seconds": {"median": 0.5, "p90": None}, "throughput": {"mfu": None},
                "phases": {"data_wait": 0.25}, "gpus": [{"name": "H100", "utilisation": 0.5}]},
    }  # fmt: skip
    assert flat(report) == {
        "gpudoctor/findings_error": 0.0, "gpudoctor/findings_warning": 2.0, "gpudoctor/findings_note": 1.0,
        "gpudoctor/steps": 4.0, "gpudoctor/step_seconds/median": 0.5, "gpudoctor/phase_share/data_wait": 0.25,
        "gpudoctor/gpu0/utilisation": 0.5,
    }  # fmt: skip
    assert flat({"summary": {"error": 1, "warning": 0, "note": 0}, "run": None})["gpudoctor/findings_error"] == 1.0


def test_importing_gpudoctor_and_its_hooks_loads_no_framework():
    code = (
        "import sys, gpudoctor, gpudoctor.hooks; gpudoctor.record; gpudoctor.summary;"
        "print(sorted({'torch', 'transformers', 'lightning', 'rich', 'psutil', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
