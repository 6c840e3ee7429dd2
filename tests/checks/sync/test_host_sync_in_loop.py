import pytest
from scripts import PATIENTS, script_patient, scripts_on_file

from gpudoctor.model import Severity
from gpudoctor.testing import examine
from gpudoctor_checks.sync.host_sync_in_loop import HostSyncInLoop


@pytest.mark.parametrize(
    ("name", "reads"),
    [("three_reads", 3), ("print_every_step", 3), ("progress_bar", 1), ("training_step_lightning", 1)],
)
def test_sick_reads_are_counted(name, reads):
    [finding] = examine(HostSyncInLoop, script_patient(scripts_on_file("SYNC001")[f"sick_{name}"]))
    assert finding.severity is Severity.NOTE and finding.detail.reads == reads


def test_sick_short_period_counts_in_part():
    script = (PATIENTS / "SYNC001/healthy_periodic.py").read_text().replace("step % 100", "step % 2")
    assert examine(HostSyncInLoop, script_patient(script)) == []
    assert len(examine(HostSyncInLoop, script_patient(script), reads_noted=0.5)) == 1


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


def test_healthy_reads_for_metrics_have_an_owner_of_their_own():
    """SYNC004 tells of them; the same read outside of a metric is told here."""
    from gpudoctor_checks.sync.per_sample_metrics import PerSampleMetrics

    patient = script_patient(METRICS.format(metrics="score = f1_score(y.tolist(), out.argmax(1).tolist())"))
    assert examine(HostSyncInLoop, patient) == []
    assert len(examine(PerSampleMetrics, patient)) == 1
    [finding] = examine(HostSyncInLoop, script_patient(METRICS.format(metrics="total = loss.item()")))
    assert ".item()" in finding.message


def _training(body: str, before: str = "") -> str:
    """A training loop on the GPU with some lines before its update."""
    inner = "\n".join("    " + line for line in body.strip("\n").split("\n"))
    return f"""
import torch
rows = torch.utils.data.DataLoader(torch.load("rows.pt"), num_workers=2)
net = torch.nn.Linear(8, 8).cuda()
rule = torch.optim.SGD(net.parameters(), lr=0.1)
pool = None
{before}
for step, row in enumerate(rows):
    out = net(row.cuda())
    loss = out.square().mean()
{inner}
    rule.zero_grad()
    loss.backward()
    rule.step()
"""


@pytest.mark.parametrize(
    "condition",
    [
        "if filled or out.max() > 3:",
        "if step % 200 == 0 and out.max() > 3:",
        "if len(row) > 9 and out.max().item() > 3:",
    ],
)
def test_healthy_an_operand_that_is_seldom_reached(condition):
    script = _training(f"{condition}\n    loss = loss * 2", "filled = bool(open('state').read())")
    assert examine(HostSyncInLoop, script_patient(script)) == []


def test_sick_reads_of_a_function_count_for_each_call():
    before = "def parts(x):\n    return x, {'low': x.min().item(), 'high': x.max().item()}"
    script = _training("a, seen = parts(out)\nb, others = parts(loss)", before)
    [finding] = examine(HostSyncInLoop, script_patient(script))
    assert finding.message == "Every training step reads a value from the GPU 4 times (.item(); line 8)."
    assert finding.severity is Severity.NOTE


NOTE, WARNING = Severity.NOTE, Severity.WARNING


@pytest.mark.parametrize(
    ("body", "waits"),
    [
        ("board.add_scalar('loss', loss, step)", 1),
        ("board.add_scalar('loss', loss, step)\nboard.add_scalar('same', loss, step)", 1),
        ("board.add_scalar('a', loss, step)\nboard.add_scalar('b', scalar_value=out.mean(), global_step=step)", 2),
        ("board.add_scalar('rate', rule.param_groups[0]['lr'], step)", 0),
        ("if step % 100 == 0:\n    board.add_scalar('loss', loss, step)", 0),
    ],
)
def test_a_writer_reads_the_tensor_that_it_is_given(body, waits):
    script = _training(body, "from torch.utils.tensorboard import SummaryWriter\nboard = SummaryWriter('runs')")
    findings = examine(HostSyncInLoop, script_patient(script))
    assert len(findings) == min(waits, 1)
    for finding in findings:
        assert finding.detail.reads >= waits


@pytest.mark.parametrize(
    ("before", "after", "reads"),
    [
        ("if torch.isfinite(points).all(): seen += 1", "", 1),
        ("", "if torch.isfinite(points).all(): seen += 1", 2),
        ("if torch.isfinite(model.weight).all(): seen += 1", "", 2),
    ],
)
def test_what_the_loader_gives_is_on_the_host_until_it_is_moved(before, after, reads):
    script = f"""
        import torch
        from elsewhere import Points
        from torch.utils.data import DataLoader

        loader = DataLoader(Points(), batch_size=8)
        model = torch.nn.Linear(8, 1).cuda()
        criterion = torch.nn.MSELoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        seen = 0
        for batch in loader:
            points, labels, _names = batch
            {before}
            points, labels = points.cuda(), labels.cuda()
            {after}
            optimizer.zero_grad()
            loss = criterion(model(points), labels)
            loss.backward()
            optimizer.step()
            print(loss.item())
        """
    [finding] = examine(HostSyncInLoop, script_patient(script))
    assert finding.detail.reads == reads
