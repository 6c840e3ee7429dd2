import pytest
from scripts import healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine
from gpudoctor_checks.data.eval_loader_misuse import EvalLoaderMisuse

GUILTY = {"sick_shuffled": (5, "shuffle"), "sick_lightning": (11, "drop_last")}


@pytest.mark.parametrize("path", sick_scripts("DATA007"), ids=lambda path: path.stem)
def test_sick_script(path):
    [finding] = examine(EvalLoaderMisuse, script_patient(path))
    line, fact = GUILTY[path.stem]
    assert (finding.span.line, getattr(finding.detail, fact), finding.severity) == (line, True, Severity.NOTE)


@pytest.mark.parametrize("path", healthy_scripts("DATA007"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(EvalLoaderMisuse, script_patient(path)) == []


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
