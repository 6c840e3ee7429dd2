import pytest
from recordings import make_process, make_recording, make_steps, record
from scripts import PATIENTS, script_patient

from gpudoctor.model import Applicability, Severity
from gpudoctor.testing import examine, make_gpu, prescribe
from gpudoctor_checks.distributed.dataparallel import Dataparallel
from gpudoctor_rules.distributed import dataparallel

FOLDER = PATIENTS / "DIST005"


@pytest.mark.parametrize(
    ("gpus", "severity", "said"), [(4, Severity.WARNING, "has 4 GPUs"), (1, Severity.NOTE, "has 1 GPU")]
)
def test_the_gpus_of_the_machine_decide(gpus, severity, said):
    patient = script_patient(FOLDER / "sick_wrapped.py", gpus=[make_gpu(index) for index in range(gpus)])
    [finding] = examine(Dataparallel, patient)
    assert finding.severity is severity and said in finding.message
    [remedy] = prescribe(dataparallel, finding, patient)
    assert any("--nproc_per_node=4" in step for step in remedy.steps) == (gpus == 4)
    assert remedy.applicability is Applicability.DISPLAY_ONLY


def on(device, steps=5):
    records = [record("model", name="Net", parameters=5, device=device)]
    return make_recording(make_process(make_steps(steps), records=records))


def without_steps(gpus):
    return make_recording(make_process(make_steps(0)), machine_facts={"gpus": gpus, "cpus": 2})


@pytest.mark.parametrize(
    ("run", "said"),
    [(on("cpu"), 0), (on("cuda"), 1), (without_steps([]), 0), (without_steps([{"index": 0}, {"index": 1}]), 1)],
)
def test_a_run_on_the_cpu_copies_to_no_gpu(run, said):
    """However short it was: what it would do on another machine is not said of it."""
    assert len(examine(Dataparallel, script_patient(FOLDER / "sick_wrapped.py", recording=run))) == said


def test_sick_each_wrap_is_listed():
    text = """
        import torch
        from torch import nn
        maker, judge = nn.DataParallel(nn.Linear(8, 8)).cuda(), nn.Linear(8, 1)
        judge = nn.DataParallel(judge).cuda()
        optimizer = torch.optim.SGD(maker.parameters(), lr=0.1)
        for x in torch.utils.data.DataLoader(torch.randn(1000, 8)):
            optimizer.zero_grad()
            judge(maker(x)).mean().backward()
            optimizer.step()
    """
    [finding] = examine(Dataparallel, script_patient(text))
    assert finding.message.startswith("Lines 4, 5: the model is in DataParallel.")
    assert [item.line for item in finding.evidence[:2]] == [4, 5]


SETTINGS = """
    import argparse, os, yaml
    import torch
    parser = argparse.ArgumentParser()
    parser.add_argument("--cards", default="0")
    parser.add_argument("--gpu-ids", default="{ids}")
    opt = parser.parse_args()
    cfg = yaml.safe_load(open("train.yaml"))
    {before}
    def several(net):
        return torch.nn.DataParallel(net)
    net = torch.nn.Linear(8, 8).cuda()
    if {condition}:
        net = several(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader(torch.randn(1000, 8)):
        optimizer.zero_grad()
        net(x.cuda()).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("condition", "severity"),
    [
        ("cfg['multi_gpu']", Severity.NOTE),
        ("torch.cuda.device_count() > 1 and cfg['data_parallel']", Severity.NOTE),
        ("len(cards) > 1", Severity.WARNING),
        ("torch.cuda.device_count() > 1", Severity.WARNING),
        ("len(opt.gpu_ids.split(',')) > 1", Severity.NOTE),
        ("cfg['cuda']", Severity.WARNING),
    ],
)
def test_a_setting_that_the_source_does_not_give_is_a_note(condition, severity):
    text = SETTINGS.format(ids="0,1", before="cards = range(torch.cuda.device_count())", condition=condition)
    [finding] = examine(Dataparallel, script_patient(text))
    assert finding.severity is severity
    assert ("DataParallel if `" in finding.message) == (severity is Severity.NOTE)


@pytest.mark.parametrize(
    ("value", "said"), [("opt.cards", 0), ("str(opt.gpu_ids)", 1), ("'3'", 0), ("'0,1'", 1), ("cfg['cards']", 1)]
)
def test_a_program_that_leaves_itself_one_gpu_copies_to_none(value, said):
    text = SETTINGS.format(ids="0,1", before=f"os.environ['CUDA_VISIBLE_DEVICES'] = {value}", condition="True")
    assert len(examine(Dataparallel, script_patient(text))) == said
