import pytest
from mending import gone, mended
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine
from gpudoctor_checks.data.eval_loader_misuse import EvalLoaderMisuse

FOLDER = PATIENTS / "DATA007"
GUILTY = {"sick_shuffled": (5, "shuffle"), "sick_lightning": (11, "drop_last")}


@pytest.mark.parametrize("path", sick_scripts("DATA007"), ids=lambda path: path.stem)
def test_sick_script(path):
    [finding] = examine(EvalLoaderMisuse, script_patient(path))
    line, fact = GUILTY[path.stem]
    assert (finding.span.line, getattr(finding.detail, fact), finding.severity) == (line, True, Severity.NOTE)


@pytest.mark.parametrize("path", healthy_scripts("DATA007"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(EvalLoaderMisuse, script_patient(path)) == []


@pytest.mark.parametrize(("name", "new"), [("sick_shuffled", "shuffle=False"), ("sick_lightning", "drop_last=False")])
def test_sick_loader_is_mended(name, new):
    text = (FOLDER / f"{name}.py").read_text("utf-8")
    assert mended(text, unsafe=False, select="DATA007") == text
    assert new in mended(text, select="DATA007")
    assert gone("DATA007", text)


@pytest.mark.parametrize(("draw", "findings"), [("next(enumerate(held_out))", 0), ("0, 1", 1)])
def test_a_random_batch_now_and_then_needs_the_shuffle(draw, findings):
    script = f"""
        import torch
        net = torch.nn.Linear(8, 8).cuda()
        held_out = torch.utils.data.DataLoader(torch.load("others.pt"), batch_size=8, shuffle=True)
        number, batch = {draw}
        print(batch)
        net.eval()
        with torch.no_grad():
            for x, y in held_out:
                print(net(x.cuda()).argmax(1) == y)
    """
    assert len(examine(EvalLoaderMisuse, script_patient(script))) == findings
