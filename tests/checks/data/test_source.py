"""Checks of loaders on sources: what the patients on file do not show."""

import pytest
from scripts import PATIENTS, script_patient

from gpudoctor.model import Applicability
from gpudoctor.testing import examine, make_host, prescribe
from gpudoctor_checks.data.eval_loader_misuse import EvalLoaderMisuse
from gpudoctor_checks.data.padding_waste import PaddingWaste
from gpudoctor_checks.data.slow_preprocessing import SlowPreprocessing
from gpudoctor_checks.data.slow_start import SlowStart
from gpudoctor_checks.data.unpinned_transfer import UnpinnedTransfer
from gpudoctor_rules.advice import advice
from gpudoctor_rules.data.items import padding_waste, slow_preprocessing, slow_start


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


def test_healthy_where_nothing_would_pad_later():
    text = (PATIENTS / "DATA006" / "sick_map.py").read_text("utf-8").replace("    processing_class=tokenizer,\n", "")
    patient = script_patient(text)
    [finding] = examine(PaddingWaste, patient)
    assert prescribe((padding_waste, *advice("data")), finding, patient)[0].edits == ()


def test_the_rule_names_processes_for_this_machine():
    patient = script_patient(PATIENTS / "DATA012" / "sick_one_by_one.py", host=make_host(cpus_affinity=12))
    [finding] = examine(SlowStart, patient)
    [remedy] = prescribe(slow_start, finding, patient)
    assert (remedy.title, remedy.applicability) == ("num_proc=12", Applicability.DISPLAY_ONLY)


def test_healthy_single_epoch_of_the_sick_script():
    text = (PATIENTS / "DATA002" / "sick_tokenises.py").read_text("utf-8")
    assert examine(SlowPreprocessing, script_patient(text.replace("range(3)", "range(1)"))) == []
    # Cells by one counter only, or blocks of them, are work for the array library already.
    text = (PATIENTS / "DATA002" / "sick_pixels.py").read_text("utf-8")
    rows = text.replace("image[y, x].sum()", "image[y].sum()").replace("mask[y, x] = 1", "mask[y] = 1")
    assert examine(SlowPreprocessing, script_patient(rows)) == []


def test_the_rule_of_items_names_processes_for_this_machine():
    patient = script_patient(PATIENTS / "DATA002" / "sick_tokenises.py", host=make_host(cpus_affinity=6))
    [finding] = examine(SlowPreprocessing, patient)
    [remedy] = prescribe(slow_preprocessing, finding, patient)
    assert "num_proc=6" in remedy.title


_HEAD = """
    import torch
    from torch.utils.data import DataLoader
    photos = DataLoader(torch.load("photos.pt"), num_workers=2)
    held_out = DataLoader(torch.load("others.pt"), num_workers=2)
    net = torch.nn.Linear(8, 8).cuda()
    rule = torch.optim.SGD(net.parameters(), lr=0.1)
"""


def test_sick_only_what_the_loader_gives_is_a_batch():
    script = f"""{_HEAD}
    def denoise(photo, steps):
        moment = torch.randint(0, steps, (photo.shape[0],)).to("cuda")
        grid = torch.zeros(4).cuda()
        photo = photo.cuda()
        return net(photo + moment[:, None] + grid.sum())
    for photo, label in photos:
        noise = torch.randn(4).cuda()
        label = label.cuda()
        loss = (denoise(photo, 1000) - noise.sum() - label).square().mean()
        rule.zero_grad()
        loss.backward()
        rule.step()
    """
    [finding] = examine(UnpinnedTransfer, script_patient(script))
    assert [span.text for span in finding.evidence[1:]] == ["label = label.cuda()", "photo = photo.cuda()"]
    assert "(lines 12, 16)" in finding.message


def test_healthy_a_batch_of_another_loader_now_and_then():
    script = f"""{_HEAD}
    for count, pair in enumerate(photos):
        photo, label = pair
        loss = (net(photo.cuda()) - label.cuda()).square().mean()
        rule.zero_grad()
        loss.backward()
        rule.step()
        if count % 100 == 0:
            pair = next(iter(held_out))
            photo, label = pair
            print(net(photo.cuda()).mean())
    """
    [finding] = examine(UnpinnedTransfer, script_patient(script))
    assert finding.message.startswith("Batches of photos ")
