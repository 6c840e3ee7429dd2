import pytest
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.sync.host_sync_in_loop import HostSyncInLoop
from gpudoctor_rules.sync.host_sync_in_loop import HostSyncInLoopRule

FOLDER = PATIENTS / "SYNC001"


@pytest.mark.parametrize("path", sick_scripts("SYNC001"), ids=lambda path: path.stem)
def test_sick_script(path):
    assert len(examine(HostSyncInLoop, script_patient(path))) == 1


@pytest.mark.parametrize(
    ("script", "severity", "reads"),
    [
        ("sick_three_reads.py", Severity.WARNING, 3),
        ("sick_print_every_step.py", Severity.WARNING, 3),
        ("sick_progress_bar.py", Severity.NOTE, 1),
        ("sick_training_step_lightning.py", Severity.NOTE, 1),
    ],
)
def test_sick_reads_are_counted(script, severity, reads):
    [finding] = examine(HostSyncInLoop, script_patient(FOLDER / script))
    assert finding.severity is severity
    assert finding.fact("reads") == reads


def test_sick_evidence_lists_each_line_once():
    [finding] = examine(HostSyncInLoop, script_patient(FOLDER / "sick_three_reads.py"))
    assert [span.text.split("(")[0].strip() for span in finding.evidence] == [
        "running += loss.item",
        "correct +=",
        "if loss > 10:",
    ]


def test_sick_rule_reads_less_often():
    patient = script_patient(FOLDER / "sick_three_reads.py")
    [finding] = examine(HostSyncInLoop, patient)
    every, together = prescribe(HostSyncInLoopRule, finding, patient)
    assert "every 50 steps" in every.title
    assert "torch.stack" in together.steps[0]
    assert every.effect is None


def test_sick_short_period_counts_in_part():
    script = (FOLDER / "healthy_periodic.py").read_text().replace("step % 100", "step % 2")
    assert examine(HostSyncInLoop, script_patient(script)) == []
    assert len(examine(HostSyncInLoop, script_patient(script), reads_noted=0.5)) == 1


@pytest.mark.parametrize("path", healthy_scripts("SYNC001"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(HostSyncInLoop, script_patient(path)) == []


METRICS = """
import torch
from sklearn.metrics import f1_score

model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in torch.utils.data.DataLoader(torch.load("rows.pt"), batch_size=64):
    out = model(x.cuda())
    loss = out.mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    {metrics}
"""


@pytest.mark.parametrize(
    "metrics",
    [
        "score = f1_score(y.tolist(), out.argmax(1).tolist())",
        "correct = 0\n    for i in range(len(out)):\n        correct += out[i].argmax().item()",
    ],
)
def test_healthy_reads_for_metrics_have_an_owner_of_their_own(metrics):
    """SYNC004 tells of them; the same read outside of a metric is told here."""
    from gpudoctor_checks.sync.per_sample_metrics import PerSampleMetrics

    patient = script_patient(METRICS.format(metrics=metrics))
    assert examine(HostSyncInLoop, patient) == []
    assert len(examine(PerSampleMetrics, patient)) == 1
    [finding] = examine(HostSyncInLoop, script_patient(METRICS.format(metrics="total = loss.item()")))
    assert ".item()" in finding.message
