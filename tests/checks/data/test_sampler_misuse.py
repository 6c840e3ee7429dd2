import pytest
from recordings import make_process, make_recording, make_steps, record
from scripts import PATIENTS, script_patient

from gpudoctor.model import Confidence
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.data.sampler_misuse import SamplerMisuse
from gpudoctor_rules.data.loaders import sampler_misuse

FOLDER = PATIENTS / "DATA008"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("shuffle=True, num_workers=4", "shuffle=True, batch_sampler=own_batches(dataset)"),
        ("DataLoader(dataset,", "DataLoader(shard_for(rank, dataset),"),
        ("import os", "import os\nimport accelerate"),
        ("DDP(torch.nn.Linear(8, 1).to(device), device_ids=[device])", "torch.nn.Linear(8, 1).to(device)"),
    ],
)
def test_healthy_near_misses(old, new):
    text = (FOLDER / "sick_no_sampler.py").read_text("utf-8")
    assert old in text
    assert examine(SamplerMisuse, script_patient(text.replace(old, new))) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("range(20)", "range(1)"),
        ("DistributedSampler(train_set)", "DistributedSampler(train_set, shuffle=False)"),
        ("# 没有 set_epoch", "train_loader.sampler.set_epoch(epoch)"),
    ],
)
def test_healthy_orders(old, new):
    text = (FOLDER / "sick_no_set_epoch.py").read_text("utf-8")
    assert old in text
    assert examine(SamplerMisuse, script_patient(text.replace(old, new))) == []


WRAPPED = """
    import torch
    import torch.distributed as dist

    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    rule = torch.optim.SGD(net.parameters(), lr=0.1)
    pictures = torch.load("x.pt")
    batches = torch.utils.data.DataLoader(pictures, shuffle=True)
    for x in batches:
        loss = net(x).square().mean()
        rule.zero_grad()
        loss.backward()
        rule.step()
"""


def _ranks(*losses, sites=(), wrapped="DDP"):
    """A recording of ranks with these losses."""
    loader = record("loader", id=0, role="training", dataset="Tensor", path="/job/train.py", line=13, workers=0)
    model = record("model", name="Linear", wrapped=wrapped, trainable=72, parameters=72)
    made = [
        make_process(make_steps(len(values), loss=values), rank=rank, world=len(losses),
                     records=[loader, model, *sites])
        for rank, values in enumerate(losses)
    ]  # fmt: skip
    return make_recording(*made)


FALLING = [2.0 - 0.01 * step for step in range(60)]
OTHERS = [2.1 - 0.01 * step for step in range(60)]


def test_sick_ranks_with_the_same_losses():
    [finding] = examine(SamplerMisuse, script_patient(WRAPPED, recording=_ranks(FALLING, FALLING)))
    assert finding.confidence is Confidence.CONFIRMED and finding.cost.breaks == "2 ranks repeat the work of one"
    assert "equal, bit for bit, in all 60 steps" in finding.message
    assert finding.detail.dataset == "pictures"  # the remedy is that of the source
    wrong = WRAPPED.replace("shuffle=True", "sampler=my_own(pictures, rank=0)")  # nobody reads that
    [finding] = examine(SamplerMisuse, script_patient(wrong, recording=_ranks(FALLING, FALLING)))
    assert finding.detail.kind == "unsplit" and prescribe(sampler_misuse, finding, script_patient(wrong))


def test_healthy_ranks_whose_losses_prove_nothing():
    split = WRAPPED.replace("(pictures,", "(pictures[dist.get_rank()::2],")

    def found(text, *losses, **more):
        return examine(SamplerMisuse, script_patient(text, recording=_ranks(*losses, **more)))

    assert found(split, FALLING, OTHERS) == []
    assert found(split, FALLING[:10], FALLING[:10]) == []  # too few
    assert found(split, [1.0] * 60, [1.0] * 60) == []  # it stands still
    assert found(split, FALLING) == []
    contrastive = split.replace("loss = net(x)", "loss = dist.all_gather_object([], x)")
    assert found(contrastive, FALLING, FALLING) == []
    shared = record("site", phase="collective", what="dist.all_reduce", path="/job/train.py", line=16,
                    function="", calls=60, seconds=0.1, steps=60)  # fmt: skip
    assert found(split, FALLING, FALLING, sites=[shared]) == []  # the loss itself may be that of all
    assert found(split, FALLING, FALLING)  # a split that does not split
    [doubt] = found(WRAPPED, FALLING, OTHERS)  # each in an order of its own
    assert doubt.confidence is Confidence.SUSPECTED
