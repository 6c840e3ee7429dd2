import pytest
from scripts import script_patient

from gpudoctor.testing import examine
from gpudoctor_checks.data.unpinned_transfer import UnpinnedTransfer

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


MADE_BY_WORD = """
    import torch
    from elsewhere import Pictures

    def make(split, size=64):
        if split == "train":
            made = torch.utils.data.DataLoader(Pictures(split), batch_size=size, shuffle=True)
        elif split in ("val", "test"):
            made = torch.utils.data.DataLoader(Pictures(split), batch_size=size)
        return made

    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {uses}
    for x, y in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
    {after}
"""


@pytest.mark.parametrize(
    ("uses", "after", "lines"),
    [
        ("batches = make('train')", "", [7]),
        ("batches = make(split='train', size=8)", "", [7]),
        ("batches = make('val')", "", [9]),
    ],
)
def test_the_loader_that_is_named_is_the_one_whose_batches_are_copied(uses, after, lines):
    found = examine(UnpinnedTransfer, script_patient(MADE_BY_WORD.format(uses=uses, after=after)))
    assert sorted(finding.span.line for finding in found) == lines
