import importlib.util
import sys
import time
from dataclasses import replace

import pytest
from jobs import launch_line, patient_of

from gpudoctor.model import Severity, Unavailable
from gpudoctor.model.signs.packages import Distribution, Packages
from gpudoctor.testing import examine
from gpudoctor.vitals.configs import ask_libraries
from gpudoctor.vitals.configs.ask_libraries import read_answers
from gpudoctor_checks.config.settings_rejected import SettingsRejected

LIBRARY = """
import os, sys
print("a library that prints")
sys.stdin.read()
assert not os.listdir() and os.environ["HOME"] == os.getcwd() and "SECRET" not in os.environ
class TrainingArguments:
    def __init__(self, output_dir, per_device_train_batch_size=8, num_generations=8, use_cpu=False, learning_rate=1.0,
                 lr_scheduler_kwargs=None):
        assert use_cpu and output_dir == "out"
        if self.world_size * per_device_train_batch_size % num_generations:
            raise ValueError(f"{per_device_train_batch_size} must be divisible by num_generations ({num_generations})")
        if learning_rate == 7:
            raise RuntimeError("no CUDA GPUs are available")
        if lr_scheduler_kwargs != {"a": [1]} and lr_scheduler_kwargs:
            raise TypeError("lr_scheduler_kwargs")
    @property
    def world_size(self):
        return 1
Seq2SeqTrainingArguments = TrainingArguments
"""
CALL = "from transformers import TrainingArguments\nimport config\na = TrainingArguments(output_dir=config.where, {})\n"
FILE = "output_dir: o\nper_device_train_batch_size: 2\nnum_train_epochs: 1\nnum_generations: 3\n"


@pytest.fixture
def packages(tmp_path):
    def made(text=LIBRARY, folder="site-packages"):
        home = tmp_path / folder
        home.mkdir(exist_ok=True)
        (home / "transformers.py").write_text(text)
        python = tmp_path / "python"
        python.write_text(f'#!/bin/sh\nshift 2\nPYTHONPATH={home} exec "{sys.executable}" -B "$@"\n')
        python.chmod(0o755)
        library = Distribution(name="transformers", version="9.1", requires=(), location=str(home))
        return Packages(
            prefix=str(tmp_path), python="3.11.1", executable=str(python), distributions={"transformers": library}
        )

    return made


def findings(files, packages, launch=None):
    answers = read_answers(patient_of(files, launch, packages=packages))
    return examine(SettingsRejected, patient_of(files, launch, packages=packages, reader_answers=answers))


@pytest.mark.parametrize(
    ("text", "launch", "said"),
    [
        ("per_device_train_batch_size=8", None, []),
        ("per_device_train_batch_size=2, num_generations=8", None, [(Severity.WARNING, "takes them with 4 processes")]),
        ("per_device_train_batch_size=2, num_generations=7", None, [(Severity.ERROR, "divisible by num_generations (7).")]),
        ("per_device_train_batch_size=2, num_generations=8", 4, []),
        ("num_generations=8, no_such_argument=1", None, [(Severity.ERROR, "it has no no_such_argument")]),
        ("learning_rate=7", None, []),  # the machine's own affair
        ("learning_rate=config.rate, lr_scheduler_kwargs={'a': [1]}", None, []),
    ],
)  # fmt: skip
def test_sick_and_healthy_calls(text, launch, said, packages, monkeypatch):
    monkeypatch.setenv("SECRET", "1")
    line = launch_line("torchrun train.py", ranks=launch) if launch else None
    found = findings({"train.py": CALL.format(text)}, packages(), line)
    assert [finding.severity for finding in found] == [severity for severity, _ in said]
    assert all(words in finding.message for finding, (_, words) in zip(found, said, strict=True))


def test_sick_a_file_names_the_line_of_the_key(packages):
    [finding] = findings({"train.yaml": FILE}, packages())
    assert finding.message.startswith(
        "train.yaml: transformers.Seq2SeqTrainingArguments 9.1 refuses the settings: 2 must"
    )
    assert [place.line for place in finding.evidence] == [4]


@pytest.mark.parametrize("text", ["import time; time.sleep(600)", "import os; os.abort()", "x ="])
def test_a_library_that_hangs_or_dies_says_nothing(text, packages, monkeypatch):
    monkeypatch.setattr(ask_libraries, "SECONDS", 1.5)
    start = time.monotonic()
    assert read_answers(patient_of({"train.yaml": FILE}, packages=packages(text))) == ()
    assert time.monotonic() - start < 30


def test_the_same_question_to_the_same_environment_starts_one_child(packages, monkeypatch):
    there, patient = packages(), patient_of({"train.yaml": FILE}, packages=packages())
    first = read_answers(patient)
    with monkeypatch.context() as without:
        without.setattr(ask_libraries, "_ask", None)
        assert read_answers(patient) == first
    newer = replace(there, distributions={"transformers": replace(there.distributions["transformers"], version="9.2")})
    of_checkout = replace(packages(folder="checkout"), python="3.12.1")
    read_answers(patient_of({"train.yaml": FILE}, packages=of_checkout))  # it may change without a new version
    asked = []
    monkeypatch.setattr(ask_libraries, "_ask", lambda _, questions: asked.extend(questions) or [])
    for other in (newer, of_checkout):
        assert read_answers(patient_of({"train.yaml": FILE}, packages=other)) == ()
    assert len(asked) == 2


def test_no_child_without_a_question(packages, monkeypatch):
    monkeypatch.setattr(ask_libraries, "_ask", None)
    assert read_answers(patient_of({"train.py": CALL.format("num_generations=config.many")}, packages=packages())) == ()
    other = "compute_environment: LOCAL_MACHINE\ndistributed_type: NO\nnum_processes: 1\n"
    with pytest.raises(Unavailable, match="accelerate; gpudoctor compared"):
        read_answers(patient_of({"acc.yaml": other}, packages=packages()))


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is not installed")
def test_the_real_library(packages):
    there = Packages(
        prefix=sys.prefix, python="3.11", executable=sys.executable, distributions=packages().distributions
    )
    text = "from transformers import TrainingArguments\na = TrainingArguments('o', {})\n"
    [finding] = findings({"train.py": text.format("lr_scheduler_type='cosin'")}, there)
    assert "cosin" in finding.message and finding.severity is Severity.ERROR
    assert findings({"train.py": text.format("bf16=True, logging_steps=5, tf32=True")}, there) == []
