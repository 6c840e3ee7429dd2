import pytest
from packages import need
from probed import run_script
from recordings import make_process, make_recording, make_steps, record

from gpudoctor.analysis.run.untrained_models import forgotten
from gpudoctor.model import Severity, Unavailable
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor.vitals.recording.opening import open_recording
from gpudoctor_checks.numerics.dead_parameters import DeadParameters
from gpudoctor_checks.numerics.weights_frozen import WeightsFrozen
from gpudoctor_rules.advice import advice


@pytest.mark.parametrize(("held", "trainable", "words"), [(0, 0, "are frozen"), (0, 96, "got none"), (64, 0, "")])
def test_an_optimizer_without_parameters(held, trainable, words):
    """Frameworks hand over what requires gradients, were it nothing; torch takes an empty group."""
    records = [
        record("model", name="Adapter", parameters=96, trainable=trainable, path="/job/tune.py", line=3),
        record("optimizer", name="Adam", groups=2, parameters=held, missing=[], path="/job/tune.py", line=9),
    ]
    run = make_recording(make_process(make_steps(40), records=records))
    found = examine(WeightsFrozen, make_patient(recording=run))
    assert [one.severity for one in found] == ([Severity.ERROR] if words else [])
    assert all(words in one.message and one.cost.breaks and one.span.line == 9 for one in found)


TWINS = """
class Noise(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
    def forward(self, z):
        return self.body(z)
maker, judge = Noise(), nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
first = torch.optim.Adam(judge.parameters(), 1e-3)
second = torch.optim.Adam({second}.parameters(), 1e-3)
target = torch.ones(16, 1)
for step in range(80):
    first.zero_grad()
    F.binary_cross_entropy_with_logits(judge(torch.randn(16, 8)), target).backward()
    first.step()
    second.zero_grad()
    F.binary_cross_entropy_with_logits(judge(maker(torch.randn(16, 4))), target).backward()
    second.step()
    if step < 0:
        maker.load_state_dict(torch.load("maker.pt"))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("second", "said"), [("judge", 1), ("maker", 0)])
def test_an_optimizer_that_was_given_another_models_parameters(tmp_path, second, said):
    """The other model learns with both, so that nothing stands still; the source loads weights somewhere."""
    need("torch")
    run = run_script(tmp_path, TWINS.format(second=second))
    process = open_recording(str(run.folder)).ranks[0]
    assert [item.get("twin") for item in process.of("optimizer")][-1] is bool(said)
    found = forgotten(process, 20)
    assert [item.get("model") for item in found[-1:]] == ["Noise"] * said


def idle(steps, called, cleared=0, **more):
    seen = record("numeric", 3.0, kind="idle", step=50, steps=steps, model="Maker", called=called, **more,
                  cleared=cleared, path="/job/train.py", line=11)  # fmt: skip
    patient = make_patient(recording=make_recording(make_process(make_steps(100), records=[seen])))
    return [(item, prescribe(advice("numerics"), item, patient)) for item in examine(WeightsFrozen, patient)]


def test_sick_steps_that_find_no_gradient():
    [(finding, [remedy])] = idle(50, True)
    assert finding.severity is Severity.ERROR and finding.cost.breaks == "Maker does not learn"
    assert "in any of the 50 steps" in finding.message and "Maker" in remedy.title
    [(finding, _)] = idle(50, False)
    assert finding.severity is Severity.WARNING and finding.cost.breaks is None


def test_sick_no_parameter_ever_had_a_gradient():
    [(finding, [remedy])] = idle(50, False, alone=True)  # the model was called under no_grad()
    assert finding.severity is Severity.ERROR and finding.cost.breaks == "Maker does not learn"
    assert "No parameter of Maker had a gradient" in finding.message and remedy.title
    seen = record("numeric", 3.0, kind="idle", step=50, steps=50, model="Maker", called=False, alone=True)
    with pytest.raises(Unavailable, match="no parameter had a gradient"):
        examine(DeadParameters, make_patient(recording=make_recording(make_process(make_steps(100), records=[seen]))))


def test_sick_a_loss_without_a_graph():
    none = record("numeric", 3.0, kind="idle", step=50, steps=50, model="Maker", called=False, alone=True, line=11,
                  path="/job/train.py")  # fmt: skip
    leaf = record("gradients", step=50, looks=9, leaf=9, path="/job/train.py", line=26)
    run = make_recording(make_process(make_steps(100), records=[none, leaf]))
    [found] = examine(WeightsFrozen, make_patient(recording=run))
    assert found.span.line == 26 and "train.py:26) has no graph" in found.message


def test_sick_gradients_that_are_cleared_before_the_step():
    [(finding, [remedy])] = idle(50, True, cleared=49)
    assert finding.severity is Severity.ERROR and "Something clears them before each" in finding.message
    assert "zero_grad()" in remedy.title
    [(finding, _)] = idle(50, True, cleared=20)
    assert "No parameter" in finding.message


def test_sick_an_optimizer_with_the_parameters_of_another():
    [(finding, [remedy])] = idle(50, True, cleared=49, shared=True)
    assert "Another optimizer has the same parameters of Maker and trains them" in finding.message
    assert "does not learn" not in finding.cost.breaks and "meant to train" in remedy.title


def test_healthy_gradients_that_came_after_all():
    both = [record("numeric", 3.0, kind="idle", step=step, steps=steps, model="Maker", called=True, line=11,
                   path="/job/train.py") for step, steps in ((30, 20), (60, 0))]  # fmt: skip
    recording = make_recording(make_process(make_steps(100), records=both))
    assert examine(WeightsFrozen, make_patient(recording=recording)) == []


def test_healthy_few_steps_without_a_gradient():
    assert idle(12, True) == []
