import pytest
from configs import config_patient
from jobs import patient_of
from scripts import PATIENTS, script_patient

from gpudoctor.model import Applicability, Severity, Unavailable
from gpudoctor.testing import examine, make_gpu, make_packages, make_patient, prescribe
from gpudoctor.vitals.project import read_project_versions
from gpudoctor_checks.performance.mixed_precision_off import MixedPrecisionOff
from gpudoctor_rules.performance import mixed_precision_off

FOLDER = PATIENTS / "PERF001"
NOTE, WARNING = Severity.NOTE, Severity.WARNING


def test_sick_config_beside_a_script_that_reads_it():
    script = """
        import torch, torchvision, yaml
        cfg = yaml.safe_load(open("config.yaml"))
        model = torchvision.models.resnet50().cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda", enabled=cfg["training"]["amp"])
        for x, y in torch.utils.data.DataLoader(torch.load("d.pt")):
            with torch.autocast("cuda", enabled=cfg["training"]["amp"]):
                loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    """
    source = script_patient(script).source
    read = config_patient("training:\n  amp: false\n  batch_size: 64\n  learning_rate: 0.1\n").configs
    [finding] = examine(MixedPrecisionOff, make_patient(source=source, configs=read))
    assert finding.severity is WARNING and "training.amp" in finding.message


def test_healthy_on_a_card_without_tensor_cores():
    patient = script_patient(FOLDER / "sick_resnet.py", gpus=[make_gpu(compute_capability=(6, 1))])
    assert examine(MixedPrecisionOff, patient) == []


def test_healthy_when_the_switch_is_given_on_the_command_line():
    assert examine(MixedPrecisionOff, script_patient(FOLDER / "sick_switch_off.py", ["--amp"])) == []


def test_healthy_without_script_and_config_is_no_case():
    with pytest.raises(Unavailable):
        examine(MixedPrecisionOff, make_patient())


def test_sick_remedy_fits_the_card():
    for capability, word in (((9, 0), "bfloat16"), ((7, 5), "float16")):
        patient = script_patient(FOLDER / "sick_resnet.py", gpus=[make_gpu(compute_capability=capability)])
        [finding] = examine(MixedPrecisionOff, patient)
        remedies = prescribe(mixed_precision_off, finding, patient)
        assert f"torch.{word}" in remedies[0].title
        assert remedies[0].applicability is Applicability.UNSAFE
        assert any("GradScaler" in step for step in remedies[0].steps) == (word == "float16")
        assert [remedy.id for remedy in remedies[1:]] == (["PERF001-tf32"] if word == "bfloat16" else [])


LLAMA = """
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B")
    Trainer(model=model, args=TrainingArguments("out", per_device_train_batch_size=4), train_dataset=None).train()
"""


@pytest.mark.parametrize(("version", "severity"), [("4.46.0", WARNING), (None, NOTE), ("5.1.0", None)])
def test_sick_checkpoint_of_unknown_dtype_depends_on_transformers(version, severity):
    signs = {"packages": make_packages(transformers=version)} if version else {}
    findings = examine(MixedPrecisionOff, script_patient(LLAMA, **signs))
    assert [finding.severity for finding in findings] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("option", "found"),
    [
        ("--num_samples", 1),
        ("--clamp", 1),
        ("--useAMP", 0),
        ("--amp-level", 0),
        ("--use_fp16", 0),
        ("--mixed-precision", 0),
    ],
)
def test_an_option_of_lower_precision_and_words_that_have_its_letters(option, found):
    text = (FOLDER / "sick_resnet.py").read_text("utf-8")
    asked = f"import argparse\nwords = argparse.ArgumentParser()\nwords.add_argument('{option}')\n\n\ndef main():"
    patient = script_patient(text.replace("def main():", asked, 1))
    assert len(examine(MixedPrecisionOff, patient)) == found


def test_healthy_checkpoint_whose_dtype_is_named():
    for dtype in ('torch_dtype="auto"', 'dtype="bfloat16"', "quantization_config=config"):
        text = LLAMA.replace('1.5B")', f'1.5B", {dtype})')
        assert examine(MixedPrecisionOff, script_patient(text)) == [], dtype


LIBRARY = """
    import torch, torchvision, yaml
    from torch import nn

    class Little(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Conv2d(3, 8, 3)

    class Seer(nn.Module):
        def __init__(self, cfg):
            super().__init__()
            {eye}
            self.head = nn.Linear(64, 10)

    net = Seer(yaml.safe_load(open("seer.yaml"))).cuda()
    optimizer = torch.optim.{optimizer}(net.parameters(), lr=0.1)
    for x, y in torch.utils.data.DataLoader(torch.load("faces.pt"), batch_size=32):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
"""
EYES = {
    "alone": "self.eye = torchvision.models.resnet50()",
    "or a little one": (
        "eye = Little() if cfg['little'] else torchvision.models.resnet50()\\n            self.eye = eye"
    ),
    "or another": (
        "if cfg['deep']:\\n                self.eye = torchvision.models.resnet50()\\n"
        "            else:\\n                self.eye = torchvision.models.resnet18()"
    ),
}


def _library(eye, optimizer="SGD"):
    text = LIBRARY.format(eye=EYES[eye], optimizer=optimizer).replace("\\n", "\n")
    return [(item.severity, item.message) for item in examine(MixedPrecisionOff, script_patient(text))]


@pytest.mark.parametrize(
    ("eye", "who"), [("alone", ["resnet50"]), ("or a little one", ["The network"]), ("or another", ["The network"])]
)
def test_which_network_of_a_library_trains_may_be_open(eye, who):
    assert [message.partition(" computes")[0] for _, message in _library(eye)] == who


@pytest.mark.parametrize(("optimizer", "severity"), [("SGD", Severity.WARNING), ("LBFGS", Severity.NOTE)])
def test_a_line_search_makes_it_a_note(optimizer, severity):
    assert [found for found, _ in _library("alone", optimizer)] == [severity]


DATED = """
import torch
import torchvision
model = torchvision.models.resnet50().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in torch.utils.data.DataLoader(torch.load("faces.pt"), batch_size=64):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    print({read})
"""


@pytest.mark.parametrize(
    ("pinned", "read", "found"),
    [
        ("torch==1.3.0", "loss.item()", 0),
        ("torch>=1.3.0", "loss.item()", 1),
        ("torch==1.6.0", "loss.item()", 1),
        ("numpy", "loss.data[0]", 0),
        ("numpy", "x.data[0]", 1),
    ],
)
def test_a_torch_before_autocast_has_none_to_switch_on(tmp_path, pinned, read, found):
    (tmp_path / "requirements.txt").write_text(pinned + "\n")
    (tmp_path / "train.py").write_text(DATED.format(read=read))
    patient = script_patient(
        tmp_path / "train.py",
        packages=make_packages(torch="2.13.0"),
        project_versions=read_project_versions([str(tmp_path / "train.py")]),
    )
    assert len(examine(MixedPrecisionOff, patient)) == found


@pytest.mark.parametrize(("steps", "found"), [(10, 0), (1000, 1)])
def test_a_demonstration_of_a_few_steps_has_nothing_to_gain(steps, found):
    text = f"""
    import torch, torchvision
    model = torchvision.models.resnet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range({steps}):
        optimizer.zero_grad()
        model(torch.randn(8, 3, 224, 224).cuda()).mean().backward()
        optimizer.step()
    """
    assert len(examine(MixedPrecisionOff, script_patient(text))) == found


WIDE = """
    import json
    import torch

    class Tower(torch.nn.Module):
        def __init__(self, rows=50, size=3000):
            super().__init__()
            self.one = torch.nn.Linear(size, size)
            self.two = torch.nn.Linear(size, rows)

        def forward(self, x):
            return self.two(self.one(x))

    SIZES = json.load(open("sizes.json"))
    tower = MADE.to("cuda")
    optimizer = torch.optim.SGD(tower.parameters(), 0.1)
    for x, y in torch.utils.data.DataLoader(range(10_000)):
        loss = torch.nn.functional.cross_entropy(tower(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("made", "severities"),
    [
        ("Tower()", [WARNING]),
        ("Tower(rows=9)", [WARNING]),
        ("Tower(*SIZES)", []),
        ("Tower(**SIZES)", []),
        ("Tower(size=SIZES['size'])", []),
        ("Tower(size=2048, **SIZES)", [NOTE]),
    ],
)
def test_the_defaults_of_a_class_are_no_sizes_where_something_else_may_set_them(made, severities):
    found = examine(MixedPrecisionOff, script_patient(WIDE.replace("MADE", made)))
    assert [item.severity for item in found] == severities


HANDED = """
    import torch, torchvision
    from accelerate import Accelerator
    accelerator = Accelerator({given})
    net = torchvision.models.resnet50()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(torch.nn.functional.cross_entropy(net(x), y))
        optimizer.step()
"""
LAUNCHED = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: 'no'\n"
ENGINE = LAUNCHED + "deepspeed_config:\n  deepspeed_config_file: away/ds.json\n  zero3_init_flag: false\n"


@pytest.mark.parametrize(
    ("given", "config", "targets", "findings"),
    [
        ("", LAUNCHED, ("train.py", "acc.yaml"), 1),
        ("mixed_precision='fp16'", LAUNCHED, ("train.py", "acc.yaml"), 0),
        ("mixed_precision=chosen()", LAUNCHED, ("train.py", "acc.yaml"), 0),
        ("", LAUNCHED, (".",), 0),
        ("", ENGINE, ("train.py", "acc.yaml"), 0),
    ],
    ids=["yaml", "argument", "unknown-argument", "folder", "engine"],
)
def test_what_an_argument_an_engine_or_another_program_decides_is_not_read_from_a_yaml(
    given, config, targets, findings
):
    patient = patient_of({"train.py": HANDED.format(given=given), "acc.yaml": config})
    patient.targets = targets
    assert len(examine(MixedPrecisionOff, patient)) == findings
