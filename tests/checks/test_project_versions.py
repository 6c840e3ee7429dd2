"""A project that pins another version than the installed one: one note, and no error for its own version's words."""

import pytest
from scripts import read_script

from gpudoctor.model import PatientKind, Severity
from gpudoctor.testing import examine, make_packages, make_patient, make_torch
from gpudoctor.vitals.project import read_project_versions
from gpudoctor_checks.config.deprecated_key import DeprecatedKey
from gpudoctor_checks.environment.package_conflict import PackageConflict
from gpudoctor_checks.loop.deprecated_api import DeprecatedApi

TORCH = "import torch\nvalues, vectors = torch.symeig(torch.eye(3), eigenvectors=True)\n"
TRAINER = """from transformers import AutoModel, TrainingArguments, Trainer
model = AutoModel.from_pretrained("bert-base-uncased", use_auth_token="x")
args = TrainingArguments("out", evaluation_strategy="epoch", per_gpu_train_batch_size=4)
Trainer(model, args, tokenizer=None or 3).train()
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / ".git").mkdir()

    def build(text, files, recording=None):
        script = tmp_path / "examples" / "train.py"
        script.parent.mkdir()
        script.write_text(text)
        for name, lines in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(lines)
        return make_patient(
            kind=PatientKind.SCRIPT,
            source=read_script(script),
            torch=make_torch("2.13.0+cpu"),
            packages=make_packages(torch="2.13.0+cpu", transformers="5.1.0", timm="1.0.9"),
            project_versions=read_project_versions([str(script)]) if files else None,
            recording=recording,
        )

    return build


def severities(check, patient):
    return [finding.severity for finding in examine(check, patient)]


@pytest.mark.parametrize(
    "files",
    [
        {"README.md": "## Requirements\n\nPython 3.6, PyTorch 1.4\n"},
        {"readme.txt": "We ran it with torch 1.7.1 and CUDA 10.\n", "requirements.txt": "torch\nnumpy\n"},
    ],
)
def test_healthy_a_removed_call_that_the_torch_of_the_readme_has_is_a_note(project, files):
    [finding] = examine(DeprecatedApi, project(TORCH, files))
    assert finding.severity is Severity.NOTE
    assert "names torch 1." in finding.message
    assert finding.cost.breaks is None


@pytest.mark.parametrize(
    "files",
    [
        {"README.md": "- PyTorch 1.4+\n"},
        {"README.md": "- PyTorch 2.1.2\n"},
        {"README.md": "- PyTorch 1.4\n", "requirements.txt": "torch>=1.4\n"},
    ],
)
def test_sick_a_readme_that_lets_a_newer_torch_run_excuses_nothing(project, files):
    assert severities(DeprecatedApi, project(TORCH, files)) == [Severity.ERROR]


def test_one_note_for_many_packages(project):
    patient = project(TORCH, {"requirements.txt": "torch==1.7.1\ntransformers<4.40\ntimm==0.4.12\n"})
    [note] = [item for item in examine(PackageConflict, patient) if item.detail.kind == "project"]
    assert len(note.evidence) == 3


def test_sick_arguments_of_the_installed_transformers(project):
    patient = project(TRAINER, {"requirements.txt": "transformers>=4\n"})
    assert Severity.ERROR in severities(DeprecatedKey, patient)
