"""Checks of loops on sources: what the patients on file do not show."""

import pytest
from scripts import script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.model.signs.job import Job, Launch, Profile
from gpudoctor.testing import examine
from gpudoctor_checks.loop.eval_mode_misuse import EvalModeMisuse
from gpudoctor_checks.loop.no_checkpoint import NoCheckpoint
from gpudoctor_checks.loop.seedless import Seedless
from gpudoctor_checks.loop.sigterm_unhandled import SigtermUnhandled

[SAVES_NOTHING] = [path for path in sick_scripts("LOOP009") if path.stem == "sick_nothing"]


def test_healthy_when_the_job_launches_another_program():
    job = Job(
        profile=Profile.SLURM, time_limit=9e4, script_path="j", launches=(launch("other.py"), launch("evaluate.py"))
    )
    source = script_patient(SAVES_NOTHING).source
    assert source.trains
    [finding] = examine(NoCheckpoint, script_patient(SAVES_NOTHING, job=job))  # it is the only one
    assert finding.severity is Severity.NOTE


def launch(script):
    return Launch(launcher="python", script=script, module=None, arguments=(), ranks_per_node=None, nodes=None)


STEPS = """
    def {train}(self, net):
        net.train()
        for x in self.batches:
            net(x).sum().backward()
            self.optimizer.step()
"""
LIBRARY = "import torch\nclass Runner:" + STEPS.format(train="train")


@pytest.mark.parametrize(
    ("more", "notes"),
    [
        ("", 0),
        ("\nRunner().train(torch.nn.Linear(2, 2))\n", 1),
        ("\nclass Other(Runner): ...\nOther().train(torch.nn.Linear(2, 2))\n", 1),
        ("\nKINDS = {'plain': Runner}\nKINDS['plain']().train(torch.nn.Linear(2, 2))\n", 1),
    ],
)
def test_a_class_that_nothing_here_uses_starts_no_training(more, notes):
    assert len(examine(Seedless, script_patient(LIBRARY + more))) == notes


def job(text="#SBATCH --time=24:00:00\npython train.py\n", **fields):
    fields = {"profile": Profile.SLURM, "time_limit": 86400.0, **fields}
    return Job(script_path="job.sbatch", script_text=text, **fields)


[SICK] = sick_scripts("LOOP010")


@pytest.mark.parametrize(
    "one",
    [
        job(),
        job(text="#SBATCH --requeue\n", time_limit=None, preemptible=True),
        job(text="activeDeadlineSeconds: 86400\n", profile=Profile.KUBERNETES),
    ],
    ids=["slurm", "preemptible", "kubernetes"],
)
def test_sick_jobs(one):
    [finding] = examine(SigtermUnhandled, script_patient(SICK, job=one))
    assert finding.severity is Severity.NOTE
    assert finding.evidence[0].path == "job.sbatch"


@pytest.mark.parametrize(
    "one",
    [job(signal="B:USR1@120"), job(text="trap 'kill -TERM $pid' TERM\n"), job(time_limit=600.0), job(time_limit=None)],
    ids=["signal", "trap", "short", "unlimited"],
)
def test_healthy_jobs(one):
    assert examine(SigtermUnhandled, script_patient(SICK, job=one)) == []


LOOP = """
    import torch
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), {layer})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.randn(1000, 8))
    for epoch in range(3):
        {head}
        for x in loader:
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        {tail}
"""


def look(layer="torch.nn.Dropout(0.1)", head="pass", tail="model.eval()"):
    return examine(EvalModeMisuse, script_patient(LOOP.format(layer=layer, head=head, tail=tail)))


def test_sick_loops():
    assert [f.severity for f in look()] == [Severity.NOTE]
    assert [f.severity for f in look(layer="torch.nn.ReLU()")] == [Severity.NOTE]  # both modes are the same
    assert [f.severity for f in look(tail="if epoch % 2 == 0: model.eval()")] == [Severity.NOTE]


@pytest.mark.parametrize(
    ("head", "severity"),
    [
        ("for x, y in loader:", Severity.WARNING),
        ("for at, (x, y) in enumerate(loader):\n        if at >= 200: break", Severity.WARNING),
        ("for at, (x, y) in enumerate(loader):\n        if at >= 5: break", Severity.NOTE),
        ("for _, (x, y) in zip(range(4), loader):", Severity.NOTE),
    ],
)
def test_a_graph_for_a_few_batches_is_a_note(head, severity):
    path = next(path for path in sick_scripts("LOOP002") if path.stem == "sick_no_grad")
    text = path.read_text(encoding="utf-8").replace("for x, y in loader:", head)
    [finding] = examine(EvalModeMisuse, script_patient(text))
    assert (finding.detail.how, finding.severity) == ("graph", severity)
