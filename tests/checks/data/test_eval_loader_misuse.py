import pytest
from scripts import script_patient

from gpudoctor.testing import examine
from gpudoctor_checks.data.eval_loader_misuse import EvalLoaderMisuse


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
