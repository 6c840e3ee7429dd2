import pytest
from recordings import make_process, make_recording, make_steps, record
from scripts import PATIENTS, read_script, script_patient

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_patient
from gpudoctor_checks.observability.evaluation_too_often import EvaluationTooOften

FOLDER = PATIENTS / "OBS004"


def test_sick_at_the_users_threshold():
    patient = script_patient(FOLDER / "healthy_epoch.py")
    assert len(examine(EvaluationTooOften, patient, eval_period=1000)) == 1


IN_TRAINING_MODE = """
    import torch
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data, held = torch.randn(1000, 8), torch.randn(1000, 8)
    scores = []
    for step, x in enumerate(torch.utils.data.DataLoader(data)):
        optimizer.zero_grad()
        {before}
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        {after}
"""
SCORED = "with torch.no_grad(): score = model(held).mean()"


def passes_at(before="", after="", share=0.5):
    """Findings on a run whose passes are called from the block without gradients for a share of the time."""
    source = read_script(IN_TRAINING_MODE.format(before=before, after=after))
    [script] = source.scripts
    rows = script.text.split("\n")
    block = next(number for number, row in enumerate(rows, 1) if "no_grad" in row)
    step = next(number for number, row in enumerate(rows, 1) if "loss =" in row)
    seen = record(
        "lines", 9.0, samples=100,
        counts=[["forward", script.path, 90, "layer", 100]],
        callers=[[0, True, [[script.path, block, ""]], 100 * share],
                 [0, True, [[script.path, step, ""]], 100 - 100 * share]],
    )  # fmt: skip
    run = make_recording(make_process(make_steps(200, forward=0.016), records=[seen]))
    return examine(EvaluationTooOften, make_patient(source=source, recording=run))


def test_sick_an_evaluation_in_training_mode():
    [finding] = passes_at(after=SCORED)
    assert "no training step needs take 35 %" in finding.message and finding.severity is Severity.WARNING
    assert finding.span.text == SCORED
    [finding] = passes_at(after="with torch.no_grad(): scores.append(model(held).mean())", share=0.25)
    assert finding.severity is Severity.NOTE


@pytest.mark.parametrize(
    "places",
    [
        {"after": SCORED, "share": 0.05},
        {"before": "with torch.no_grad(): x = x + model(held).mean()"},
        {"after": "with torch.no_grad(): x = x + model(held)"},
        {"after": "with torch.no_grad(): data[0] = model(held).mean()"},
        {"after": "with torch.no_grad(): held.copy_(model(held))"},
        {"after": "with torch.no_grad(): optimizer.remember(model(held))"},
    ],
)
def test_healthy_passes_without_gradients_that_a_step_needs(places):
    assert passes_at(**places) == []
