"""Time that no hook claims: what is the job's own work, what is not, and a word that fits each."""

import textwrap

import pytest
from recordings import lines, make_process, make_recording, make_steps
from scripts import read_script

from gpudoctor.engine.examination import Request
from gpudoctor.engine.examination import examine as examine_all
from gpudoctor.engine.registry import Registry, load_registry
from gpudoctor.engine.selection import Selection
from gpudoctor.model import Code, Severity
from gpudoctor.testing import examine, make_patient, prescribe

REGISTRY = load_registry()
CODES = frozenset({Code("PERF014"), Code("OBS004")})
ALONE = Registry(checks={code: REGISTRY.checks[code] for code in sorted(CODES)}, rules=REGISTRY.rules)
"""As if there were no other checks: a verdict names those that were left out."""
HEAD = """
import torch
from torch import nn
G, D = nn.Linear(8, 8), nn.Linear(8, 1)
first, second = torch.optim.SGD(G.parameters(), 0.1), torch.optim.SGD(D.parameters(), 0.1)
bce = nn.BCEWithLogitsLoss()
"""
WORLD = """
class World:
    def reset(self):
        self.at = 0
        return torch.zeros(8)

    def step(self, action):
        self.at = self.at + 1  # world
        return torch.zeros(8), 1.0, self.at > 50

def collect(world, seen):
    G.eval()
    kept = []
    for _ in range(50):
        with torch.no_grad():
            action = G(seen).argmax()  # act
        seen, reward, over = world.step(action)  # stepped
        kept.append(reward)
    G.train()
    return kept, seen

def evaluate(world, seen):
    total = 0.0
    for _ in range(50):
        seen, reward, over = world.step(G(seen).argmax())  # judged
        total += reward
    return total

world = World()
seen = world.reset()
for update in range(1000):
    kept, seen = collect(world, seen)
    loss = G(seen).mean()
    first.zero_grad()
    loss.backward()
    first.step()
"""


def patient_of(text, *seen, **columns):
    """A patient with a script and a recording; `seen` are phase, the mark of a line, and samples."""
    source = read_script(HEAD + textwrap.dedent(text))
    [script] = source.scripts
    rows = script.text.split("\n")
    places = {mark: next((n for n, row in enumerate(rows, 1) if row.endswith(f"# {mark}")), 0) for _, mark, _ in seen}
    counts = [(phase, script.path, places[mark], "", samples) for phase, mark, samples in seen]
    process = make_process(make_steps(200, **columns), records=[lines(*counts)])
    return make_patient(source=source, recording=make_recording(process)), places


def findings(patient, code="PERF014"):
    return examine(REGISTRY.checks[code], patient)


def remedies(patient, finding):
    return [item.title for rule in REGISTRY.rules["PERF014"] for item in prescribe(rule, finding, patient)]


def verdict(patient):
    report = examine_all(patient, Request(registry=ALONE, selection=Selection(selected=CODES, ignored={})))
    return report.summary.verdict, report.run


@pytest.mark.parametrize(
    ("body", "phases"),
    [
        (
            "first.zero_grad(); loss = bce(D(G(z)), z[:, :1]); loss.backward(); first.step()  # line",
            ("forward", "backward", "optimizer"),
        ),
        ("fake = D(G(z)) * 0.5 + z.mean()  # line\n    fake.mean().backward()\n    first.step()", ("forward",)),
    ],
)
def test_lines_that_call_the_passes_are_the_jobs_own(body, phases):
    loop = f"for step in range(1000):\n    z = torch.randn(4, 8)\n    {body}\n"
    seen = [(phase, "line", 20) for phase in phases] + [("other", "line", 90)]
    patient, _ = patient_of(loop, *seen, other=0.01)
    assert findings(patient) == []
    said, run = verdict(patient)
    assert said.startswith("Little time is lost") and run.healthy
    assert run.work == pytest.approx(run.phases["other"])


def test_lines_that_step_an_environment_are_the_jobs_own():
    patient, _ = patient_of(WORLD, ("other", "stepped", 60), ("forward", "act", 10), other=0.01)
    assert findings(patient) == []
    said, run = verdict(patient)
    assert said.startswith("Little time is lost") and run.work


def two_ranks(n):
    seen = [lines(("other", "/job/t.py", 9, "", 60))]
    slow = make_process(make_steps(n, other=0.01), rank=1, world=2, records=seen)
    return make_patient(recording=make_recording(make_process(make_steps(n), rank=0, world=2), slow))


def test_the_time_of_one_rank_is_not_taken_out_of_the_step():
    patient = two_ranks(80)  # too few steps to name a straggler
    [finding] = findings(patient)
    assert finding.severity is Severity.NOTE
    assert "share the work out" in remedies(patient, finding)[0]


def test_the_time_of_a_straggler_is_told_once():
    patient = two_ranks(200)
    assert findings(patient) == []
    [late] = findings(patient, "DIST001")
    assert late.span.line == 9
