import pytest
from configs import config_patient
from jobs import patient_of
from scripts import PATIENTS, script_patient

from gpudoctor.model import Applicability, Severity
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


@pytest.mark.parametrize(("option", "found"), [("--num_samples", 1), ("--useAMP", 0), ("--use_fp16", 0)])
def test_an_option_of_lower_precision_and_words_that_have_its_letters(option, found):
    text = (FOLDER / "sick_resnet.py").read_text("utf-8")
    asked = f"import argparse\nwords = argparse.ArgumentParser()\nwords.add_argument('{option}')\n\n\ndef main():"
    patient = script_patient(text.replace("def main():", asked, 1))
    assert len(examine(MixedPrecisionOff, patient)) == found


def test_healthy_checkpoint_whose_dtype_is_named():
    for dtype in ('torch_dtype="auto"', 'dtype="bfloat16"', "quantization_config=config"):
        text = LLAMA.replace('1.5B")', f'1.5B", {dtype})')
        assert examine(MixedPrecisionOff, script_patient(text)) == [], dtype


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
