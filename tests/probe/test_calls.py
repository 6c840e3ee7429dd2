"""Calls that are a phase by themselves, reads of tensors, profilers: what they cost and where they are."""

import pytest
from packages import need
from probed import run_script

need("torch")

LOOP = """
import gc, json, logging, os, tempfile
model = net()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for step, (x, y) in enumerate(DataLoader(data(80), batch_size=8)):
    optimizer.zero_grad()
    out = model(x)
    loss = F.cross_entropy(out, y)
    loss.backward()
    optimizer.step()
    {}
"""


def site(told, what):
    """The last record of a place."""
    found = [record for record in told.of("site") if record["what"] == what]
    assert found, [record["what"] for record in told.of("site")]
    return found[-1]


EVERY = {
    "torch.save": ("torch.save(model.state_dict(), 'last.pt')", "checkpoint", "saves"),
    "print": ("print(step)", "logging", "logs"),
    "logging": ("logging.getLogger('x').warning('step %d', step)", "logging", "logs"),
    "gc.collect": ("gc.collect()", "sync", "flushes"),
    "Tensor.item": ("hits = [int(o.argmax().item() == t.item()) for o, t in zip(out, y)]", "sync", "reads"),
}
"""A call of each step: its line, phase and column."""


def test_calls_every_step(tmp_path):
    run = run_script(tmp_path, LOOP.format("\n    ".join(f"{line}  # {what}" for what, (line, *_) in EVERY.items())))
    told = run.rank
    for what, (_, phase, _) in EVERY.items():
        found = site(told, what)
        many = 160 if what == "Tensor.item" else 10
        assert (found["phase"], found["line"], found["calls"], found["steps"]) == (phase, run.line(what), many, 10)
        assert found["path"] == str(run.script) and found["longest"] <= found["seconds"] + 1e-6
    # the last call comes after the end of the last step
    columns = {column: told.steps(column) for _, _, column in EVERY.values()}
    once, twice = [0] + [1] * 9, [0] + [2] * 9
    assert columns == {"saves": once, "logs": twice, "flushes": once, "reads": [0] * 10}  # no device was waited for
    assert "tensor" not in site(told, "Tensor.item")
    for phase in ("checkpoint", "logging"):
        seconds = sum(site(told, what)["seconds"] for what, (_, of, _) in EVERY.items() if of == phase)
        assert 0 < sum(told.steps(phase)) <= seconds + 1e-6  # the first one, which may be long, is in no step


DEVICE = """
class Fake(torch.utils._python_dispatch.TorchDispatchMode):
    pass
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step, (x, y) in enumerate(DataLoader(data(80), batch_size=8)):
    optimizer.zero_grad()
    y = y.to("meta")  # move
    F.cross_entropy(model(x), torch.zeros(8, dtype=torch.long)).backward()
    optimizer.step()
    try:
        y.sum().item()  # read
    except RuntimeError:
        pass
"""


def test_moves_and_reads_of_a_device(tmp_path):
    """The meta device stands in: its tensors are not the CPU's, and reading one raises, as a bad device would."""
    run = run_script(tmp_path, DEVICE, settings={"device": True})
    told = run.rank
    move, read = site(told, "Tensor.to"), site(told, "Tensor.item")
    assert (move["phase"], move["line"], move["calls"]) == ("transfer", run.line("move"), 10)
    assert (read["phase"], read["line"], read["calls"], read["tensor"]) == ("sync", run.line("read"), 10, True)
    assert told.steps("reads") == [0] + [1] * 9
    assert min(told.steps("transfer")) > 0
    assert min(told.steps("sync")[1:]) > 0
    assert not told.of("lost")


def test_analysing_a_profile_is_profiler(tmp_path):
    run = run_script(
        tmp_path,
        """
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for x, y in DataLoader(data(48), batch_size=8):
            optimizer.zero_grad()
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:  # on
                loss = F.cross_entropy(model(x), y)
            table = prof.key_averages().table(row_limit=2)  # table
            loss.backward()
            optimizer.step()
        """,
    )
    told = run.rank
    assert min(told.steps("profiler")) > 0
    assert min(told.steps("forward")) > 0
    assert site(told, "torch.profiler.__enter__")["line"] == run.line("on")
    assert site(told, "torch.profiler.key_averages")["line"] == run.line("table")
    window = told.of("window")[-1]
    assert (window["what"], window["line"], window["steps"]) == ("torch.profiler", run.line("on"), 6)
    assert window["on"]  # it opens again in each step: had the process been killed here, it lasted to the end


def test_a_tracker_that_is_imported_later_is_found(tmp_path):
    package = tmp_path / "wandb" / "sdk"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "wandb_run.py").write_text("class Run:\n    def log(self, values):\n        sum(range(20000))\n")
    (tmp_path / "wandb" / "__init__.py").write_text(
        "from wandb.sdk.wandb_run import Run\nlog = None\ndef init():\n    global log\n    log = Run().log\n"
    )
    run = run_script(
        tmp_path,
        LOOP.format("wandb.log({'loss': 1})  # here").replace("import gc", "import wandb; wandb.init(); import gc"),
    )
    found = site(run.rank, "wandb.log")
    assert (found["calls"], found["line"]) == (10, run.line("here"))
    assert run.rank.steps("logs") == [0] + [1] * 9


@pytest.mark.parametrize(
    ("loop", "waits"),
    [
        ("for x, y in batches():", True),
        ("for step in range(30):\n    x, y = get_batch()", True),
        ("for step in range(30):\n    x, y = prepare()", False),
    ],
)
def test_batches_of_ones_own_making_are_data_wait(tmp_path, loop, waits):
    run = run_script(
        tmp_path,
        f"""
def prepare():
    total = 0
    for i in range(600_000):
        total += i
    return torch.randn(8, 8), torch.randint(0, 3, (8,))
def get_batch():
    return prepare()
def batches():
    for _ in range(30):
        yield prepare()
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
{loop}
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
""",
    )
    told = run.rank
    share = sum(told.steps("data_wait")[3:]) / sum(told.steps("duration")[3:])
    assert share > 0.5 if waits else share < 0.1


def test_what_comes_after_the_last_step_is_told_apart(tmp_path):
    run = run_script(
        tmp_path,
        """
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for x, y in DataLoader(data(160), batch_size=8):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        total = 0
        for i in range(4_000_000):
            total += i * i  # after
        """,
    )
    after = [
        bool(record.get("open"))
        for record in run.rank.of("lines")
        for row in record["counts"]
        if row[2] == run.line("after")
    ]
    assert after and all(after)


FILES = """
import os, pathlib, numpy, tempfile
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "words").write_text("a")

def helper(step):
    numpy.savez(folder / f"{step}.npz", a=numpy.zeros(3))  # savez

model = net()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(8):
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    helper(step)
    (folder / "last").open("a").close()  # append
    os.close(os.open(folder / "raw", os.O_WRONLY | os.O_CREAT))  # raw
    (folder / "words").read_text()  # reads
    open(os.devnull, "w").close()  # nothing
    if step == 5:
        (folder / "once").write_bytes(b"1")  # once
"""


def test_files_that_are_opened_for_writing_are_counted_by_the_users_line(tmp_path):
    run = run_script(tmp_path, FILES)
    found = {item["line"]: item for item in run.rank.of("site") if item["what"] == "open"}
    assert set(found) == {run.line(mark) for mark in ("savez", "append", "raw", "once")}
    assert found[run.line("savez")]["steps"] >= 7 and found[run.line("once")]["steps"] == 1


COMPILED = """
import itertools, logging, os, tempfile
import torch._inductor.codecache as cache
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(tempfile.mkdtemp(), "torchinductor_me")
model = net()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
numbers = itertools.count()

def written(graph, inputs):
    cache.write(f"x = {next(numbers)}", "py", specified_dir=os.environ["TORCHINDUCTOR_CACHE_DIR"])
    logging.getLogger("torch._dynamo.guards").warning("compiled again")
    return graph.forward

fast = torch.compile(lambda x: model(x).sum(), backend=written, dynamic=False)
for step in range(8):
    fast(torch.randn(4 + step, 8)).backward()  # compiled
    optimizer.step()
"""


def test_what_the_compiler_writes_is_not_the_programs(tmp_path):
    run = run_script(tmp_path, COMPILED)
    assert run.result.stderr.count("compiled again") >= 7
    assert [item for item in run.rank.of("site") if item["what"] in ("open", "logging")] == []
