import pytest
from mending import gone, mended
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts
from some import some

from gpudoctor.model import Severity
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.data.sampler_misuse import SamplerMisuse
from gpudoctor_rules.data.sampler_misuse import SamplerMisuseRule

FOLDER = PATIENTS / "DATA008"
GUILTY = {
    "sick_no_sampler": (14, "unsplit", Severity.WARNING),
    "sick_no_set_epoch": (17, "order", Severity.WARNING),
    "sick_both": (6, "twice", Severity.ERROR),
}
CURES = {
    "sick_no_sampler": ("sampler=torch.utils.data.distributed.DistributedSampler(dataset)",
                        "    for epoch in range(10):\n        loader.sampler.set_epoch(epoch)\n"),
    "sick_no_set_epoch": ("for epoch in range(20):\n        # 没有 set_epoch\n        train_sampler.set_epoch(epoch)\n",),
    "sick_both": ("batch_size=16, sampler=sampler)",),
}  # fmt: skip


@pytest.mark.parametrize("path", sick_scripts("DATA008"), ids=lambda path: path.stem)
def test_sick_script_and_its_cure(path):
    [finding] = examine(SamplerMisuse, script_patient(path))
    assert (finding.span.line, finding.fact("kind"), finding.severity) == GUILTY[path.stem]
    text = path.read_text("utf-8")
    assert mended(text, unsafe=False, select="DATA008") == text
    new = mended(text, select="DATA008")
    assert all(cure in new for cure in CURES[path.stem])
    assert gone("DATA008", text)


@pytest.mark.parametrize("path", healthy_scripts("DATA008"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(SamplerMisuse, script_patient(path)) == []


def test_only_the_error_breaks_something():
    for path in some(sick_scripts("DATA008")):
        [finding] = examine(SamplerMisuse, script_patient(path))
        assert bool(finding.cost.breaks) == (finding.severity is Severity.ERROR)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("shuffle=True, num_workers=4", "shuffle=True, batch_sampler=own_batches(dataset)"),
        ("DataLoader(dataset,", "DataLoader(shard_for(rank, dataset),"),
        ("import os", "import os\nimport accelerate"),
        ("import os", "import os\nfrom torch.distributed.device_mesh import init_device_mesh"),
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


@pytest.mark.parametrize("head", ["for first, second in zip(range(20), range(20))", "for epoch in count()"])
def test_no_edit_where_the_number_of_the_epoch_has_no_one_name_or_the_range_no_end(head):
    text = (FOLDER / "sick_no_set_epoch.py").read_text("utf-8").replace("for epoch in range(20)", head)
    patient = script_patient("from itertools import count\n" + text)
    [finding] = examine(SamplerMisuse, patient)
    assert prescribe(SamplerMisuseRule, finding, patient)[0].edits == ()


def test_a_loop_without_epochs_is_not_judged():
    text = (FOLDER / "sick_no_set_epoch.py").read_text("utf-8").replace("for epoch in range(20)", "while True")
    assert examine(SamplerMisuse, script_patient(text)) == []


def test_healthy_a_part_of_the_data_for_each_rank():
    script = """
        import torch
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        def shards(items):
            part = Shards(items)
            part = part.of(dist.get_rank())
            return torch.utils.data.DataLoader(part, shuffle=True)
        net = DistributedDataParallel(torch.nn.Linear(8, 8).cuda())
        rule = torch.optim.SGD(net.parameters(), lr=0.1)
        for x in shards(torch.load("x.pt")):
            loss = net(x.cuda()).square().mean()
            rule.zero_grad()
            loss.backward()
            rule.step()
    """
    assert examine(SamplerMisuse, script_patient(script)) == []
    assert len(examine(SamplerMisuse, script_patient(script.replace("dist.get_rank()", "4")))) == 1
