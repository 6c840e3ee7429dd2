import pytest
from programs import event, plain, read_main, training

from gpudoctor.model.signs.source import Event, GuardKind, Known

HEAD = """
import argparse, math, os, torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data import DataLoader
parser = argparse.ArgumentParser()
parser.add_argument("--log-interval", type=int, default=10)
parser.add_argument("--debug", action="store_true")
parser.add_argument("--mode", default="fast")
parser.add_argument("--local_rank", type=int, default=0)
args = parser.parse_args()
EVERY = 50
rank = dist.get_rank()
is_main = rank == 0
log_on = args.debug
model = nn.Linear(3, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=4)
def due(n, every=20):
    return n % every == 0
done = False
held = None
count = 0
global_step = 0
for epoch in range(10):
    for i, x in enumerate(loader):
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        global_step += 1
        {test}
            probe(loss)
"""


def guarded(test: str, words: list[str] | None = None) -> Event:
    loop = training(read_main(HEAD.replace("{test}", test), words))
    return event(loop, "probe")


@pytest.mark.parametrize(
    ("test", "period"),
    [
        ("if i % 10 == 0:", 10),
        ("if not i % 10:", 10),
        ("if i % EVERY == 0:", 50),
        ("if i % args.log_interval == 0:", 10),
        ("if i % 1 == 0:", 1),
        ("if i % n() == 0:", "?"),
        ("if i % 10 != 0: continue\n        if True:", 10),
        ("log_now = i % 10 == 0\n        if log_now:", 10),
    ],
)
def test_periods(test: str, period: object) -> None:
    found = guarded(test)
    assert GuardKind.PERIOD in [guard.kind for guard in found.guards]
    assert plain(found.period) == period
    assert found.every_pass == (period == 1)


def test_a_period_from_the_launch_line() -> None:
    found = guarded("if i % args.log_interval == 0:", ["--log-interval", "500"])
    assert found.period == Known(value=500, origin="command line", text="args.log_interval")


@pytest.mark.parametrize(
    ("test", "kind"),
    [
        ("if rank == 0:", GuardKind.RANK),
        ("if dist.get_rank() == 0:", GuardKind.RANK),
        ("if int(os.environ['LOCAL_RANK']) == 0:", GuardKind.RANK),
        ("if rank != 0: continue\n        if True:", GuardKind.RANK),
        ("if i == 10:", GuardKind.ONCE),
        ("if torch.isnan(loss):", GuardKind.FAILURE),
        ("if args.debug:", GuardKind.SWITCH),
        ("if os.environ.get('DEBUG'):", GuardKind.SWITCH),
        ("if torch.cuda.is_available():", GuardKind.SWITCH),
        ("if something():", GuardKind.OTHER),
    ],
)
def test_kinds(test: str, kind: GuardKind) -> None:
    assert [guard.kind for guard in guarded(test).guards if guard.text != "True"] == [kind]


@pytest.mark.parametrize(
    ("test", "never", "always"),
    [
        ("if args.debug:", True, False),
        ("if not args.debug:", False, True),
        ("if os.environ.get('DEBUG'):", False, False),
        ("if torch.cuda.is_available():", False, True),
        ("if x is None:", True, False),
        ("if args.debug and i % 10 == 0:", True, False),
        ("if i > 0:", False, True),
        ("if i % 10 == 0: pass\n        else:", False, True),
        ("if torch.isnan(loss): raise ValueError\n        if True:", False, True),
    ],
)
def test_switches(test: str, never: bool, always: bool) -> None:
    found = guarded(test)
    assert any(guard.never for guard in found.guards) == never
    assert found.every_pass == always


def test_a_switch_from_the_launch_line() -> None:
    assert guarded("if args.debug:", ["--debug"]).every_pass


def test_guards_of_call_sites_come_first() -> None:
    text = HEAD.replace("{test}", "if i % 10 == 0:").replace("probe(loss)", "report(loss)")
    text += "\n"
    text = text.replace(
        "done = False", "def report(loss):\n    if rank != 0:\n        return\n    probe(loss.item())\ndone = False"
    )
    loop = training(read_main(text))
    found = event(loop, "torch.Tensor.item")
    assert [guard.kind for guard in found.guards] == [GuardKind.PERIOD, GuardKind.RANK]
    assert plain(found.period) == 10


@pytest.mark.parametrize(
    ("statement", "period"),
    [
        ("i % 10 == 0 and probe(loss)", 10),
        ("rank == 0 and probe(loss)", 1),
        ("v = probe(loss) if i % 10 == 0 else None", 10),
    ],
)
def test_short_circuits(statement: str, period: int) -> None:
    text = HEAD.replace("{test}\n            probe(loss)", statement)
    assert plain(event(training(read_main(text)), "probe").period) == period


SWITCHES = """
import torch, argparse
parser = argparse.ArgumentParser()
parser.add_argument("--log", action="store_true")
parser.add_argument("--start", default=None)
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("text", "never"),
    [
        ("found = args.start is None or torch.save(1, 'x')\n", True),
        ("found = args.start is not None or torch.save(1, 'x')\n", False),
        ("if args.log and torch.save(1, 'x'):\n    pass\n", True),
        ("while not (args.start is None or torch.save(1, 'x')):\n    pass\n", True),
        ("every = 0\nif args.log:\n    every = 10\nif every:\n    torch.save(1, 'x')\n", False),
    ],
)
def test_what_only_a_switch_fills(text, never):
    [call] = [call for call in read_main(SWITCHES + text).calls if call.name == "torch.save"]
    assert any(guard.never for guard in call.guards) is never
