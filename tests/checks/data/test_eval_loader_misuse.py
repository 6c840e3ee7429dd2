import pytest
from mending import gone, mended
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.data.eval_loader_misuse import EvalLoaderMisuse
from gpudoctor_rules.advice import advice
from gpudoctor_rules.data.loaders import eval_loader_misuse

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


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("DataLoader(torch.randn(100, 8), batch_size=4, shuffle=True)", "DataLoader(torch.randn(100, 8), 4, True)"),
        ("DataLoader(torch.randn(100, 8), batch_size=4, shuffle=True)", "DataLoader(torch.randn(100, 8), **options)"),
    ],
)
def test_no_edit_that_would_give_an_argument_twice(old, new):
    text = "options = {'shuffle': True}\n" + (FOLDER / "sick_shuffled.py").read_text("utf-8").replace(old, new)
    patient = script_patient(text)
    [finding] = examine(EvalLoaderMisuse, patient)
    assert prescribe((eval_loader_misuse, *advice("data")), finding, patient)[0].edits == ()


@pytest.mark.parametrize(("size", "findings"), [("batch_size=1, ", 0), ("", 0), ("batch_size=8, ", 1)])
def test_batches_of_one_item_are_never_short(size, findings):
    script = f"""
        import torch
        net = torch.nn.Linear(8, 8).cuda()
        held_out = torch.utils.data.DataLoader(torch.load("others.pt"), {size}drop_last=True)
        net.eval()
        with torch.no_grad():
            for x, y in held_out:
                print(net(x.cuda()).argmax(1) == y)
    """
    assert len(examine(EvalLoaderMisuse, script_patient(script))) == findings


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


@pytest.mark.parametrize(("call", "findings"), [("build()", 0), ("build(fine=True)", 1)])
def test_a_loader_of_a_branch_that_the_program_does_not_take(call, findings):
    script = f"""
        import torch
        from torch.utils.data import DataLoader
        def plain():
            return DataLoader(torch.load("others.pt"), batch_size=8)
        def cut():
            return DataLoader(torch.load("others.pt"), batch_size=8, drop_last=True)
        def build(fine=False):
            if not fine:
                return plain()
            return cut()
        net = torch.nn.Linear(8, 8).cuda()
        held_out = {call}
        net.eval()
        with torch.no_grad():
            for x, y in held_out:
                print(net(x.cuda()).argmax(1) == y)
    """
    assert len(examine(EvalLoaderMisuse, script_patient(script))) == findings


ENDLESS = """
    import torch
    net = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    {name} = torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=16, shuffle=True, drop_last=True)

    def score(loader):
        net.eval()
        total = 0
        with torch.no_grad():
            for x in loader:
                total += net(x).mean().item()
        return total

    def again():
        while True:
            for x in {drawn}:
                yield x

    batches = again()
    while True:
        optimizer.zero_grad()
        net(next(batches)).mean().backward()
        optimizer.step()
        score({name})
"""


@pytest.mark.parametrize(
    ("name", "drawn", "said"),
    [("train_set", "train_set", 0), ("train_set", "open('rows')", 1), ("val_set", "open('rows')", 1)],
)
def test_a_loader_that_trains_through_a_generator_is_no_evaluations(name, drawn, said):
    text = ENDLESS.format(name=name, drawn=drawn)
    assert len(examine(EvalLoaderMisuse, script_patient(text))) == said
