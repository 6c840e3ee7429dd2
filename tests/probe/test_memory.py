"""What grows with the steps, what is on for a while, what is compiled."""

import pytest
from packages import need
from probed import COMPILING, run_script

need("torch")

LOOP = """
{before}
def main():
    {first}
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (x, y) in enumerate(DataLoader(data(1024), batch_size=8)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        {each}
main()
"""


def growth(tmp_path, first, each, before=""):
    run = run_script(tmp_path, LOOP.format(first=first, each=each, before=before))
    assert not run.rank.of("lost")
    return run, [row for record in run.rank.of("memory") for row in record["growth"]]


@pytest.mark.parametrize(
    ("first", "each", "name"),
    [
        ("seen = []", "seen.append(torch.ones(64, 1024))  # grows", "`seen`"),
        (
            "class Box: pass\n    box = Box(); box.seen = []",
            "box.seen.append(torch.ones(64, 1024))  # grows",
            "`box.seen`",
        ),
    ],
)
def test_a_container_that_grows_is_named_with_its_line(tmp_path, first, each, name):
    run, rows = growth(tmp_path, first, each)
    assert rows
    for what, count, size, path, line in rows:
        assert what.startswith(name)
        assert (path, line) == (str(run.script), run.line("grows"))
        assert size == count * 64 * 1024 * 4
    assert max(row[1] for row in rows) >= 72


def test_a_list_on_a_model_that_only_a_framework_names(tmp_path):
    """As a LightningModule is, behind its trainer."""
    text = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.seen = net(), []
        def forward(self, x):
            self.seen.append(torch.ones(64, 1024))  # grows
            return self.body(x)
    class Part: pass
    def build():
        part = Part(); part.inner = Part(); part.inner.inner = Part(); part.inner.inner.model = Net()
        part.inner.inner.optimizer = torch.optim.SGD(part.inner.inner.model.parameters(), lr=0.1)
        return part
    part = build()
    for x, y in DataLoader(data(800), batch_size=8):
        F.cross_entropy(part.inner.inner.model(x), y).backward()
        part.inner.inner.optimizer.step()
    """
    run = run_script(tmp_path, text)
    rows = [row for record in run.rank.of("memory") for row in record["growth"]]
    assert rows[-1][0].startswith("`Net.seen`, list of cpu tensors") and rows[-1][4] == run.line("grows")


@pytest.mark.parametrize("what", ['{"loss": loss, "step": step}', "Entry(loss)"])
def test_losses_kept_with_their_graphs_inside_something(tmp_path, what):
    before = "class Entry:\n    def __init__(self, loss):\n        self.loss = loss"
    _, rows = growth(tmp_path, "history = []", f"history.append({what})  # grows", before)
    assert rows[0][0].startswith("`history`, list of ") and rows[0][0].endswith("() with their graphs")


def test_a_sum_kept_with_its_graph(tmp_path):
    run, rows = growth(tmp_path, "total = 0", "total = total + loss  # grows")
    assert rows[0][0] == "`total`, a sum with its graph"
    assert rows[0][4] == run.line("grows")


@pytest.mark.parametrize(
    ("first", "each"),
    [
        ("losses = []", "losses.append(loss.detach())\n        del losses[:-8]"),
        ("total = 0", "total = total + loss.item()"),
        ("table = list(range(10_000))", "pass"),
        ("losses = []", "losses.append(loss.item())"),
    ],
)
def test_what_stays_small_is_no_growth_while_training_runs(tmp_path, first, each):
    _, rows = growth(tmp_path, first, each)
    assert all(size is not None and size < 10_000 for _, _, size, _, _ in rows)


EPISODES = """
class World:
    pass
world = World()
world.seen, world.last = [], __import__("collections").deque(maxlen=500)
"""


def test_what_is_emptied_now_and_then_does_not_grow(tmp_path):
    """Two lists of each episode, one emptied and one made anew; a buffer with an end; and what is never emptied."""
    each = """world.seen.append(torch.ones(64, 512)); world.last.append(torch.ones(64, 512))
        if step % 36 == 0:
            world.seen.clear()
            world.rewards = []
        world.rewards.append(torch.ones(64, 256))
        kept.append(torch.ones(8, 1024))"""
    _, rows = growth(tmp_path, "kept = []", each, EPISODES)
    assert {row[0].split("`")[1] for row in rows if "`" in row[0]} == {"kept"}


def test_looking_for_names_keeps_nothing_alive(tmp_path):
    """A frame's `f_locals` is a copy that lives on: it would hold the tensors of the step that was looked at."""
    run, _ = growth(
        tmp_path,
        "first = []",
        "import weakref; first.append(weakref.ref(loss)); del loss; print(sum(r() is not None for r in first))",
    )
    assert set(run.result.stdout.split()) == {"0"}


def test_anomaly_mode_is_a_window(tmp_path):
    run = run_script(
        tmp_path, LOOP.format(before="", first="torch.autograd.set_detect_anomaly(True)  # on", each="pass")
    )
    window = run.rank.of("window")[-1]
    assert (window["what"], window["line"], window["begin"], window["end"]) == (
        "detect_anomaly",
        run.line("on"),
        1,
        128,
    )
    assert window["steps"] >= 127


@pytest.mark.slow
def test_compiles_and_recompiles_and_breaks_are_told(tmp_path):
    run = run_script(
        tmp_path,
        """
        import time
        model = net()
        def broken(x):
            y = model(x)
            torch._dynamo.graph_break()
            return y * 2
        compiled = torch.compile(broken, backend="eager", dynamic=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(30):
            size = 8 + step // 10
            optimizer.zero_grad()
            compiled(torch.randn(size, 8)).sum().backward()
            optimizer.step()
        """,
        loaded=COMPILING,
    )
    told = run.rank.of("compile")
    kinds = [record["kind"] for record in told]
    assert "compile" in kinds
    assert "recompile" in kinds
    assert "graph-break" in kinds
    again = next(record for record in told if record["kind"] == "recompile")
    assert again["path"] == str(run.script)
    assert "size" in again["reason"]
    assert next(record for record in told if record["kind"] == "compile")["seconds"] > 0
    assert not run.rank.of("lost")


@pytest.mark.parametrize(
    ("before", "first", "each", "name"),
    [
        (
            "class Keeper(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.seen = []\n"
            "    def forward(self, x):\n        self.seen.append(torch.ones(64, 1024))  # grows\n        return x",
            "inner = Keeper(); net = lambda: nn.Sequential(inner, nn.Linear(8, 3))", "pass", "`model.0.seen`",
        ),
        (
            "class Store:\n    seen = []\n    @classmethod\n    def put(cls, x):\n        cls.seen.append(x)  # grows",
            "pass", "Store.put(torch.ones(64, 1024))", "`Store.seen`",
        ),
    ],
)  # fmt: skip
def test_containers_of_modules_and_classes_are_found(tmp_path, before, first, each, name):
    run, rows = growth(tmp_path, first, each, before=before)
    assert rows and rows[0][0].startswith(name)
    assert rows[0][4] == run.line("grows")
