import pytest
from jobs import launch_line, patient_of
from log_cases import found_in_log

from gpudoctor.model import Applicability, Severity
from gpudoctor.testing import examine, make_packages, make_patient, prescribe
from gpudoctor_checks.config.deprecated_key import DeprecatedKey
from gpudoctor_rules.advice import advice
from gpudoctor_rules.config import deprecated_key

NOTE, WARNING, ERROR = Severity.NOTE, Severity.WARNING, Severity.ERROR


CALL = {
    "train.py": "from transformers import TrainingArguments\na = TrainingArguments('o', evaluation_strategy='no')\n"
}


@pytest.mark.parametrize(("version", "severities"), [("4.57.1", [ERROR]), ("4.46.3", [NOTE]), ("4.30.2", [])])
def test_sick_and_healthy_by_the_installed_version(version, severities) -> None:
    patient = patient_of(CALL, packages=make_packages(transformers=version))
    found = examine(DeprecatedKey, patient)
    assert [finding.severity for finding in found] == severities
    for finding in found:
        assert bool(finding.cost.breaks) == (finding.severity is ERROR)
        assert [item.applicability for item in prescribe(deprecated_key, finding, patient)] == [Applicability.SAFE]


def test_sick_on_the_launch_line() -> None:
    launch = launch_line("torchrun train.py --output_dir o --evaluation_strategy steps")
    [finding] = examine(DeprecatedKey, patient_of({"train.py": "import transformers\n"}, launch))
    assert finding.severity is WARNING


LOAD = "from transformers import AutoFeatureExtractor, AutoModel, Trainer\nm = {}.from_pretrained('gpt2', {})\n"
TRAIN = "Trainer(m, None).train()\n"
USES = (
    "print(m.generate(**inputs))\n",
    "m.save_pretrained('converted')\n",
    "def serve():\n    for batch in queue:\n        m(batch)\n",
)


@pytest.mark.parametrize(
    ("kind", "argument", "then", "version", "severities"),
    [
        ("AutoModel", "torch_dtype='auto'", TRAIN, "4.30.2", []),
        ("AutoModel", "torch_dtype='auto'", TRAIN, "4.57.1", [NOTE]),
        ("AutoModel", "use_auth_token=True", TRAIN, "5.23.0", [ERROR]),
        ("AutoFeatureExtractor", "use_auth_token=True", TRAIN, "5.23.0", []),
        *(("AutoModel", "torch_dtype='auto'", use, "5.23.0", []) for use in USES),
        *(("AutoModel", "load_in_8bit=True", use, "5.23.0", [NOTE]) for use in USES),
    ],
)
def test_sick_and_healthy_arguments_of_a_model_that_is_loaded(kind, argument, then, version, severities) -> None:
    files = {"train.py": LOAD.format(kind, argument) + then}
    found = examine(DeprecatedKey, patient_of(files, packages=make_packages(transformers=version)))
    assert [item.severity for item in found] == severities


HF_FILE = "output_dir: o\nper_device_train_batch_size: 1\nnum_train_epochs: 1\noptim: {value}\n"


@pytest.mark.parametrize(
    ("value", "version", "severities"),
    [
        ("adamw_hf", "4.51.3", [WARNING]),
        ("adamw_hf", "4.46.3", []),
        ("adamw_apex_fused", None, [NOTE]),
        ("adamw_torch", "5.23.0", []),
    ],
)
def test_values_that_newer_versions_no_longer_take(value, version, severities) -> None:
    signs = {"packages": make_packages(**({"transformers": version} if version else {}))}
    patient = patient_of({"train.yaml": HF_FILE.format(value=value)}, **signs)
    found = [item for item in examine(DeprecatedKey, patient) if item.detail.value]
    assert [item.severity for item in found] == severities
    for item in found:
        [remedy] = prescribe(deprecated_key, item, patient)
        assert remedy.title.startswith(f"replace {value} by ")
        assert len(remedy.edits) == 1


@pytest.mark.parametrize(
    "code, text, advised",
    [
        (
            "CFG010",
            "usage: pretrain.py [-h] [--lr LR]\npretrain.py: error: unrecognized arguments: --steps_max 4\n",
            "CFG010-option",
        ),
        ("CFG009", "TypeError: TrainingArguments.__init__() got an unexpected keyword argument 'fp'\n", "CFG009-name"),
    ],
)
def test_an_option_that_the_script_itself_refuses_is_not_blamed_on_a_library(code, text, advised, tmp_path) -> None:
    [finding] = found_in_log(code, tmp_path, text)
    assert [remedy.id for remedy in prescribe(advice("config"), finding, make_patient())] == [advised]
