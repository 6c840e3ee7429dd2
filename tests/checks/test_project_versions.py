"""A project that pins another version than the installed one: one note, and no error for its own version's words."""

import pytest
from scripts import read_script

from gpudoctor.model import PatientKind, Severity
from gpudoctor.model.signs.packages import ArgumentFields
from gpudoctor.testing import examine, make_packages, make_patient, make_torch, prescribe
from gpudoctor.vitals.project import read_project_versions
from gpudoctor_checks.config.deprecated_key import DeprecatedKey
from gpudoctor_checks.config.unknown_key import UnknownKey
from gpudoctor_checks.environment.package_conflict import PackageConflict
from gpudoctor_checks.loop.deprecated_api import DeprecatedApi
from gpudoctor_checks.performance.optimizer_unfused import OptimizerUnfused
from gpudoctor_rules.environment.installs import package_conflict

TORCH = "import torch\nvalues, vectors = torch.symeig(torch.eye(3), eigenvectors=True)\n"
TRAINER = """from transformers import AutoModel, TrainingArguments, Trainer
model = AutoModel.from_pretrained("bert-base-uncased", use_auth_token="x")
args = TrainingArguments("out", evaluation_strategy="epoch", no_such_thing_here=3, per_gpu_train_batch_size=4)
Trainer(model, args, tokenizer=None or 3).train()
"""
FIELDS = ArgumentFields(
    versions={"transformers": "5.1.0"},
    fields={"TrainingArguments": frozenset({"output_dir", "eval_strategy", "per_device_train_batch_size"})},
)


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
            argument_fields=FIELDS,
            project_versions=read_project_versions([str(script)]) if files else None,
            recording=recording,
        )

    return build


def severities(check, patient):
    return [finding.severity for finding in examine(check, patient)]


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"requirements.txt": "torch>=1.4\n"},
        {"environment.yml": "dependencies:\n- pytorch=2.13\n"},
        {"requirements-dev.txt": "torch==1.4\n", "setup.py": "setup(install_requires=['torch'])\n"},
    ],
)
def test_sick_a_removed_call_is_an_error_where_the_project_admits_the_installed_torch(project, files):
    patient = project(TORCH, files)
    assert severities(DeprecatedApi, patient) == [Severity.ERROR]
    assert not [item for item in examine(PackageConflict, patient) if item.detail.kind == "project"]


@pytest.mark.parametrize(
    "files",
    [
        {"requirements.txt": "torch==1.7.1\n"},
        {"Dockerfile": "FROM pytorch/pytorch:1.8.0-cuda11.1\n"},
        {"setup.cfg": "[options]\ninstall_requires =\n  torch<1.9\n"},
    ],
)
def test_healthy_a_call_of_the_pinned_torch_is_silent_and_the_environment_has_one_note(project, files):
    patient = project(TORCH, files)
    assert severities(DeprecatedApi, patient) == []
    [note] = [item for item in examine(PackageConflict, patient) if item.detail.kind == "project"]
    assert note.severity is Severity.NOTE
    assert "torch" in note.message
    assert "2.13.0" in note.message
    [remedy] = prescribe(package_conflict, note, patient)
    assert any("torch" in step for step in remedy.steps)


def test_a_call_that_the_pinned_torch_deprecates_is_a_note(project):
    patient = project(TORCH, {"requirements.txt": "torch>=1.9,<2\n"})
    [finding] = examine(DeprecatedApi, patient)
    assert finding.severity is Severity.NOTE
    assert finding.cost.breaks is None


def test_a_call_that_the_pinned_torch_has_removed_is_a_warning_that_names_the_pin(project):
    patient = project(TORCH, {"requirements.txt": "torch==2.1.0\n"})
    [finding] = examine(DeprecatedApi, patient)
    assert finding.severity is Severity.WARNING
    assert "asks for torch==2.1.0" in finding.message


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


LOOPED = """import torch
from torch.utils.data import DataLoader
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)).cuda()
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=8):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({"requirements.txt": "torch==1.7.1\n"}, 1),
        ({"Dockerfile": "FROM pytorch/pytorch:1.8.0-cuda11.1\n", "requirements.txt": "torch\n"}, 1),
        ({"Dockerfile": "FROM pytorch/pytorch:1.8.0-cuda11.1\n", "README.md": "Needs PyTorch >= 1.8\n"}, 0),
        ({"requirements.txt": "torch>=1.8\n", "requirements-old.txt": "torch>=1.8,<2.0\n"}, 0),
        ({"requirements.txt": "torch<3\n"}, 0),
    ],
)
def test_an_optimizer_of_an_old_torch_is_slow_only_where_no_line_admits_a_newer_one(project, files, count):
    found = examine(OptimizerUnfused, project(LOOPED, files))
    assert len(found) == count
    assert all("asks for torch==1." in item.message for item in found)


@pytest.mark.parametrize(
    "files",
    [
        {"src/transformers/__init__.py": '__version__ = "4.4.2"\n'},
        {"transformers/__init__.py": "from .b import c\n", "transformers/version.py": "__version__ = '4.9.0'\n"},
        {
            "src/transformers/__init__.py": "",
            "setup.py": "setup(\n    name='transformers',\n    version='4.4.2.dev0',\n)\n",
            "requirements.txt": "torch\n",
        },
    ],
)
def test_healthy_what_the_projects_own_copy_of_a_package_still_has(project, files):
    """Scripts beside a copy of a package import the copy, whatever is installed."""
    text = TRAINER + "from transformers import AdamW\nAdamW(model.parameters())\n"
    patient = project(text, files)
    found = [*examine(DeprecatedApi, patient), *examine(DeprecatedKey, patient), *examine(UnknownKey, patient)]
    assert Severity.ERROR not in [item.severity for item in found]
    assert not [item for item in examine(PackageConflict, patient) if item.detail.kind == "project"]


@pytest.mark.parametrize(
    "files",
    [
        {"src/transformers/__init__.py": '__version__ = "5.1.0"\n'},
        {"transformers/notes.py": "__version__ = '4.4.2'\n", "requirements.txt": "torch\n"},
        {
            "models/transformers/__init__.py": "__version__ = '4.4.2'\n",
            "setup.py": "setup(install_requires=['torch'])\n",
        },
    ],
)
def test_sick_what_the_projects_own_copy_lacks_or_a_folder_that_is_none(project, files):
    assert Severity.ERROR in severities(DeprecatedKey, project(TRAINER, files))


def test_one_note_for_many_packages(project):
    patient = project(TORCH, {"requirements.txt": "torch==1.7.1\ntransformers<4.40\ntimm==0.4.12\n"})
    [note] = [item for item in examine(PackageConflict, patient) if item.detail.kind == "project"]
    assert len(note.evidence) == 3


def test_sick_arguments_of_the_installed_transformers(project):
    patient = project(TRAINER, {"requirements.txt": "transformers>=4\n"})
    assert Severity.ERROR in severities(DeprecatedKey, patient)
    assert Severity.ERROR in severities(UnknownKey, patient)


def test_healthy_arguments_of_the_pinned_transformers(project):
    patient = project(TRAINER, {"pyproject.toml": "[project]\ndependencies = ['transformers==4.28.1']\n"})
    assert Severity.ERROR not in severities(DeprecatedKey, patient)
    assert not any("evaluation_strategy" in item.message for item in examine(DeprecatedKey, patient))
    assert severities(UnknownKey, patient) == []


LOCKED = """version = 1

[[package]]
name = "torch"
version = "2.0.1"
source = { registry = "https://pypi.org/simple" }
dependencies = [
    { name = "filelock" },
]

[[package]]
name = "torch"
version = "VERSION+cu118"
source = { registry = "https://download.pytorch.org/whl/cu118" }

[[package]]
name = "torchvision"
version = "0.23.0"
"""
HASHED = "torch==VERSION ; python_version >= '3.9' \\\n    --hash=sha256:0aa1 \\\n    --hash=sha256:0bb2\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [("uv.lock", LOCKED), ("poetry.lock", LOCKED), ("pdm.lock", LOCKED), ("requirements-lock.txt", HASHED)],
)
@pytest.mark.parametrize(("version", "said"), [("1.12.1", [Severity.NOTE]), ("2.13.0", [Severity.ERROR])])
def test_a_lock_file_says_for_which_release_a_program_is_written(project, name, text, version, said):
    """What the project admits is wider than what it was installed with."""
    wide = '[project]\nname = "x"\nversion = "1"\ndependencies = ["torch>=1.10"]\n'
    text = text.replace("2.0.1", "1.11.0").replace("VERSION", version)
    assert severities(DeprecatedApi, project(TORCH, {"pyproject.toml": wide, name: text})) == said
