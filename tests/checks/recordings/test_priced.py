"""Ailments that the source suspects and a recording prices: confirmed with a share, refuted, found by it alone."""

import textwrap
from dataclasses import replace

import pytest
from recordings import lines, make_machine, make_process, make_recording, make_steps, make_worker, record, site
from scripts import script_patient

from gpudoctor.engine.registry import load_registry
from gpudoctor.model import Confidence, Severity, SourceSpan
from gpudoctor.testing import examine, make_host, make_patient, prescribe

REGISTRY = load_registry()
LOOP = """
    import torch, gc, os, json
    from torch.utils.data import DataLoader, Dataset

    class Items(Dataset):
        def __len__(self): return 1000
        def __getitem__(self, index):
            {item}
            return torch.zeros(8), 0

    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Items(), batch_size=8{loader})
    log = open("log.txt", "a")
    kept = []
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        out = model(x)
        loss = out.mean()
        loss.backward()
        optimizer.step()
        {statement}
"""


def script(statement="pass", item="pass", loader=""):
    """A script with a statement in its loop, and the line of that statement."""
    text = LOOP.format(statement=statement, item=item, loader=loader)
    rows = textwrap.dedent(text).split("\n")
    wanted = next((n for n, row in enumerate(rows, start=1) if statement != "pass" and statement in row), 0)
    made = next((n for n, row in enumerate(rows, start=1) if item != "pass" and item in row), wanted)
    return text, made


def findings(code, text=None, *ranks, **changes):
    """The findings of one check on a script and a recording of these ranks."""
    recording = make_recording(*ranks, **changes)
    check = REGISTRY.checks[code]
    if text is None:
        return examine(check, make_patient(recording=recording))
    patient = script_patient(text, recording=recording)
    path = patient.source.scripts[0].path
    moved = [_moved(rank, path) for rank in recording.ranks]
    return examine(check, script_patient_of(patient, make_recording(*moved, **changes)))


def remedies(code, finding):
    """Titles of what its rules prescribe."""
    patient = make_patient(recording=make_recording(), host=make_host())
    return [item.title for rule in REGISTRY.rules[code] for item in prescribe(rule, finding, patient)]


def script_patient_of(patient, recording):
    return make_patient(source=patient.source, recording=recording)


def _moved(process, path):
    """The process with its places in the script that was read, wherever that was."""

    def fields(item):
        found = dict(item.fields)
        if found.get("path") == "/job/train.py":
            found["path"] = path
        if item.type == "lines":
            found["counts"] = [[p, path if f == "/job/train.py" else f, *rest] for p, f, *rest in found["counts"]]
        return found

    return replace(process, records=tuple(replace(item, fields=fields(item)) for item in process.records), memory={})


CASES = {
    # code: statement in the loop, columns of the steps, sites of that line
    "OBS002": ("print(loss.detach())", {"logging": 0.002}, [("logging", "print", 0.4, 200)]),
    "OBS003": (
        "torch.save(model.state_dict(), 'a.pt')",
        {"checkpoint": 0.004},
        [("checkpoint", "torch.save", 0.8, 200)],
    ),
    "SYNC002": ("gc.collect()", {"sync": 0.004}, [("sync", "gc.collect", 0.8, 200)]),
    "OBS007": ("os.fsync(log.fileno())", {"logging": 0.004}, [("logging", "os.fsync", 0.8, 200)]),
}


@pytest.mark.parametrize("code", CASES)
def test_what_the_source_suspects_is_confirmed_with_its_share(code):
    statement, columns, calls = CASES[code]
    text, line = script(statement)
    records = [site(phase, what, seconds, n, line=line) for phase, what, seconds, n in calls]
    [finding] = findings(code, text, make_process(make_steps(200, warm_up=0, **columns), records=records))
    assert (finding.confidence, finding.severity) == (Confidence.CONFIRMED, Severity.WARNING)
    share = next(iter(columns.values())) / (0.01 + next(iter(columns.values())))
    assert finding.cost.step_share == pytest.approx(share, rel=0.15)
    assert finding.span.line == line and finding.span.end_line  # the place in the source stays the first


@pytest.mark.parametrize("code", [*CASES, "SYNC004", "OBS006"])
def test_what_costs_nothing_is_refuted(code):
    statement = {
        **{key: case[0] for key, case in CASES.items()},
        "SYNC004": "kept = [out[i].item() for i in range(len(out))]",
        "OBS006": "[torch.histc(p) for p in model.parameters()]",
    }[code]
    text, _ = script(statement)
    assert findings(code, text, make_process(make_steps(200, other=0.00005))) == []


@pytest.mark.parametrize("code", CASES)
def test_a_recording_of_a_few_steps_leaves_the_suspicion(code):
    statement, columns, _ = CASES[code]
    text, _ = script(statement)
    before = examine(REGISTRY.checks[code], script_patient(text))
    few = 4 if code == "OBS003" else 12  # a share that no single step decides is judged from 5 steps on
    after = findings(code, text, make_process(make_steps(few, **columns)))
    assert [item.message for item in after] == [item.message for item in before]
    assert all(item.confidence is Confidence.SUSPECTED for item in after)


def test_metrics_sample_by_sample_without_the_source():
    seen = lines(("other", "/job/train.py", 41, "train", 60), ("sync", "/job/train.py", 41, "train", 20),
                 ("forward", "/job/net.py", 3, "forward", 80))  # fmt: skip
    reads = site("sync", "Tensor.item", 0.3, 200 * 128, line=41)
    process = make_process(make_steps(200, other=0.005, sync=0.0015), records=[seen, reads])
    [finding] = findings("SYNC004", None, process)
    assert finding.severity is Severity.WARNING and finding.span.line == 41
    assert finding.cost.step_share == pytest.approx(0.4, abs=0.05)
    assert findings("SYNC001", None, process) == []  # the same reads are not told twice
    assert findings("PERF014", None, process) == []


def test_reads_of_values():
    reads = site("sync", "Tensor.item", 0.5, 400, line=41, tensor=True)
    [finding] = findings("SYNC001", None, make_process(make_steps(200, sync=0.0025, reads=2.0), records=[reads]))
    assert finding.severity is Severity.WARNING and finding.span.line == 41
    cheap = site("sync", "Tensor.item", 0.001, 600, line=41, tensor=True)
    [finding] = findings("SYNC001", None, make_process(make_steps(200, sync=0.000005, reads=3.0), records=[cheap]))
    assert finding.severity is Severity.NOTE
    assert findings("SYNC001", None, make_process(make_steps(200, sync=0.0001, reads=1.0), records=[cheap])) == []


def test_histograms_by_the_sampler_and_the_source():
    text, line = script("[torch.histc(p) for p in model.parameters()]")
    seen = lines(("other", "/job/train.py", line, "<module>", 60), ("forward", "/job/train.py", 18, "<module>", 40))
    process = make_process(make_steps(200, other=0.01), records=[seen])
    [finding] = findings("OBS006", text, process)
    assert finding.severity is Severity.WARNING and finding.span.line == line
    assert findings("PERF014", text, process) == []


def test_what_writes_files_is_known_by_the_files_whatever_its_name():
    text, line = script("keep_panel(x)")
    seen = lines(("other", "/job/train.py", line, "<module>", 60))

    def opened(steps):
        return site("other", "open", 0.0, steps, line=line)

    process = make_process(make_steps(200, other=0.02), records=[seen, opened(200)])
    [finding] = findings("OBS002", text, process)
    assert finding.severity is Severity.WARNING and finding.span.line == line
    assert findings("PERF014", text, process) == []
    once = make_process(make_steps(200, other=0.02), records=[seen, opened(1)])
    assert findings("OBS002", text, once) == [] and len(findings("PERF014", text, once)) == 1


def test_a_profiler_by_its_windows():
    windows = [record("window", 1.0, what="torch.profiler", begin=i, end=i, path="/job/train.py", line=41)
               for i in range(400)]  # fmt: skip
    process = make_process(make_steps(400, profiler=0.005), records=windows)
    [finding] = findings("OBS001", None, process)
    assert finding.severity is Severity.WARNING and "33 % of the time" in finding.message
    assert finding.span.line == 41
    once = record("window", 1.0, what="torch.profiler", begin=10, end=15, path="/job/train.py", line=41)
    assert findings("OBS001", None, make_process(make_steps(400), records=[once])) == []


def test_a_profiler_that_costs_nothing_itself_and_makes_steps_longer():
    window = record("window", 1.0, what="torch.profiler", begin=100, end=399, path="/job/train.py", line=41)
    slow = make_steps(500, other=lambda i: 0.11 if 100 <= i < 400 else 0.0)
    [finding] = findings("OBS001", None, make_process(slow, records=[window]))
    assert "own work" not in finding.message and "12 times as long" in finding.message
    assert finding.cost.step_share == pytest.approx(0.87, abs=0.02)  # 60 of 100 steps take 12 times as long
    always = record("window", 1.0, what="torch.profiler", begin=0, end=199, path="/job/train.py", line=41)
    [finding] = findings("OBS001", None, make_process(make_steps(200), records=[always]))
    assert "100 % of the steps" in finding.message and finding.cost.step_share is None


def test_a_counter_inside_the_operations_of_the_forward_pass():
    window = record("window", 1.0, what="flop_counter", begin=0, end=199, path="/job/train.py", line=12)
    counter = "/env/site-packages/torch/utils/flop_counter.py"

    def seen(path):
        return record(
            "lines", 9.0, samples=100, interval=0.02,
            counts=[["forward", "/job/train.py", 17, "forward", 60], ["backward", "/job/train.py", 19, "main", 40]],
            leaves=[[0, path, "__torch_dispatch__", 30]],
        )  # fmt: skip

    [finding] = findings("OBS001", None, make_process(make_steps(200), records=[window, seen(counter)]))
    assert "A FLOPs counter takes 30 % of the time" in finding.message and finding.detail.kind == "flops"
    assert finding.span.line == 12 and finding.cost.step_share == pytest.approx(0.3, abs=0.01)
    library = seen("/env/site-packages/torch/nn/functional.py")
    assert findings("OBS001", None, make_process(make_steps(200), records=[library])) == []


def test_waiting_for_data():
    loader = record("loader", 1.1, id=0, dataset="Items", workers=0, pin_memory=False, persistent=False, batch_size=8,
                    role="training", path="/job/train.py", line=13, batches=100)  # fmt: skip
    seen = lines(("data_wait", "/job/train.py", 7, "__getitem__", 80), ("forward", "/job/train.py", 17, "<module>", 20))
    process = make_process(make_steps(200, data_wait=0.04), records=[loader, seen])
    [finding] = findings("DATA001", None, process)
    assert finding.severity is Severity.WARNING and "num_workers=0" in finding.message
    assert {span.line for span in finding.evidence if isinstance(span, SourceSpan)} == {13, 7}
    [slow] = findings("DATA002", None, process)
    assert slow.span.line == 7 and slow.cost.step_share <= finding.cost.step_share
    [short] = findings("DATA001", None, make_process(make_steps(200, forward=0.0002, backward=0.0003, optimizer=0.0001,
                                                                data_wait=0.0005, other=0.0), records=[loader]))  # fmt: skip
    assert short.severity is Severity.NOTE  # 0.5 ms: workers would cost as much
    rows = replace(loader, fields={**loader.fields, "dataset": "TensorDataset"})
    [rows] = findings("DATA001", None, make_process(make_steps(200, data_wait=0.04), records=[rows]))
    assert rows.severity is Severity.NOTE  # there is no work in its items
    many = replace(loader, fields={**loader.fields, "batch_size": 512})
    [quick] = findings("DATA001", None, make_process(make_steps(200, data_wait=0.01), records=[many]))
    assert quick.severity is Severity.NOTE  # 20 µs an item
    [dear] = findings("DATA001", None, make_process(make_steps(200, data_wait=0.003), records=[loader]))
    assert dear.severity is Severity.WARNING  # 375 µs an item
    assert {remedies("DATA001", one)[0] for one in (short, rows, quick)} == {
        "read whole batches by one index, instead of single items"
    }
    assert remedies("DATA001", finding)[0].startswith("num_workers=")


def test_a_generator_without_a_loader_has_no_workers_to_set():
    seen = lines(("data_wait", "/job/train.py", 7, "stream", 80), ("forward", "/job/train.py", 17, "<module>", 20))
    [finding] = findings("DATA001", None, make_process(make_steps(200, data_wait=0.04), records=[seen]))
    assert finding.span.line == 7
    once = ["Do the work for each item once, before the training"]
    assert remedies("DATA001", finding) == once
    evaluates = record("loader", 1.1, id=0, dataset="Items", workers=0, batch_size=8, role="evaluation",
                       path="/job/train.py", line=13, batches=100)  # fmt: skip
    [finding] = findings("DATA001", None, make_process(make_steps(200, data_wait=0.04), records=[seen, evaluates]))
    assert remedies("DATA001", finding) == once


@pytest.mark.parametrize("busy", [0.4, 4.0])  # 2 ms a batch, and 20
def test_where_the_hand_over_is_what_takes_the_time(busy):
    loader = record("loader", 1.1, id=0, dataset="Items", workers=2, persistent=True, batch_size=8, role="training",
                    path="/job/train.py", line=13, batches=100)  # fmt: skip
    items = record("items", 5.0, loader=0, items=1600, batches=200, busy=busy, waiting=8.0)
    process = make_process(make_steps(200, data_wait=0.02), records=[loader])
    [finding] = findings("DATA001", None, process, workers=(make_worker(99, records=[items]),))
    assert "it has 2 workers, busy for" in finding.message
    assert remedies("DATA001", finding) == ["read whole batches by one index, instead of single items"]


@pytest.mark.parametrize("workers", [1, 2, 64])
def test_as_many_workers_as_there_are_is_no_remedy(workers):
    loader = record("loader", 1.1, id=0, dataset="Items", workers=workers, persistent=True, batch_size=8,
                    role="training", path="/job/train.py", line=13, batches=100)  # fmt: skip
    items = record("items", 9.0, loader=0, items=1600, batches=200, busy=9.5, waiting=0.2, fetch=9.5, collate=0.0)
    process = make_process(make_steps(200, data_wait=0.04), records=[loader])
    hands = tuple(make_worker(99 + number, records=[items]) for number in range(min(workers, 2)))
    [finding] = findings("DATA001", None, process, workers=hands)
    numbers = [title for title in remedies("DATA001", finding) if title.startswith("num_workers=")]
    assert len(numbers) == (workers < 64)
    assert f"num_workers={workers}," not in " ".join(numbers)
    assert any("once, before the training" in title for title in remedies("DATA001", finding))


@pytest.mark.parametrize(("waiting", "severity"), [(0.4, Severity.WARNING), (14.0, Severity.NOTE)])
def test_slow_items_of_workers_that_have_time_left_are_a_note(waiting, severity):
    """The training waits for something else than the making of items, as when workers start again."""
    loader = record("loader", 1.1, id=0, dataset="Items", workers=3, persistent=True, batch_size=8, role="training",
                    path="/job/train.py", line=13, batches=100)  # fmt: skip
    items = record("items", 5.0, loader=0, items=1600, busy=6.0, waiting=waiting)
    worker = make_worker(98, records=[items, lines(("fetch", "/job/tiles.py", 21, "cut", 90))])
    process = make_process(make_steps(200, data_wait=0.02), records=[loader])
    [finding] = findings("DATA002", None, process, workers=(worker,))
    assert finding.severity is severity and finding.span.path == "tiles.py"


def respawning(persistent=False, workers=2):
    loader = record("loader", 1.1, id=0, dataset="Items", workers=workers, persistent=persistent, batch_size=8,
                    role="training", path="/job/train.py", line=13, batches=20)  # fmt: skip
    return make_process(make_steps(400, data_wait=lambda i: 0.08 if i % 20 == 0 else 0.0002), records=[loader])


def pageable(seconds):
    loader = record("loader", 1.1, id=0, dataset="Items", workers=2, pinned=False, batch_size=8, role="training",
                    path="/job/train.py", line=13, batches=20)  # fmt: skip
    copied = site("transfer", "Tensor.to", 200 * seconds, 200)
    return make_process(make_steps(200, transfer=seconds, device_forward=0.003), records=[loader, copied])


def synchronized(seconds):
    waited = site("sync", "torch.cuda.synchronize", 200 * seconds, 200, line=44)
    return make_process(make_steps(200, sync=seconds), records=[waited])


def every_epoch(seconds):
    loader = record("loader", 1.1, id=0, dataset="Items", workers=2, persistent=False, batch_size=8, role="training",
                    path="/job/train.py", line=13, batches=20)  # fmt: skip
    return make_process(make_steps(400, data_wait=lambda i: 20 * seconds if i % 20 == 0 else 0.0), records=[loader])


@pytest.mark.parametrize(("code", "job"), [("DATA004", pageable), ("SYNC003", synchronized), ("DATA003", every_epoch)])
def test_sick_and_healthy_shares_of_a_recorded_run(code, job):
    severities = [[item.severity for item in findings(code, None, job(part))] for part in (0.00001, 0.0007, 0.003)]
    assert severities == [[], [Severity.NOTE], [Severity.WARNING]]


def test_workers_that_start_again_each_epoch():
    [finding] = findings("DATA003", None, respawning())
    assert finding.severity is Severity.WARNING and finding.span.line == 13
    assert finding.cost.step_share == pytest.approx(0.27, abs=0.03)
    assert findings("DATA001", None, respawning()) == []  # the cause is told once
    [short] = findings("DATA003", None, respawning(persistent=True))
    assert (short.severity, short.detail.kind) == (Severity.NOTE, "short")
    assert findings("DATA003", None, make_process(make_steps(400))) == []


def test_a_loader_that_was_seen_is_edited_where_it_is_written():
    text, _ = script(loader=", num_workers=2")
    line = next(n for n, row in enumerate(textwrap.dedent(text).split("\n"), 1) if "DataLoader(Items" in row)
    moved = record("loader", 1.1, id=0, dataset="Items", workers=2, persistent=False, batch_size=8, role="training",
                   path="/job/train.py", line=line, batches=20)  # fmt: skip
    steps = make_steps(400, data_wait=lambda i: 0.08 if i % 20 == 0 else 0.0002)
    [finding] = findings("DATA003", text, make_process(steps, records=[moved]))
    assert finding.detail.settable is True
    assert finding.span.column == text.split("\n")[line - 1].index("DataLoader(") + 1 - 4


def test_padding_is_counted():
    [finding] = findings("DATA006", None, make_process(make_steps(200, tokens=1000.0, padding=600.0)))
    assert finding.severity is Severity.WARNING and "60 %" in finding.message
    assert findings("DATA006", None, make_process(make_steps(200, tokens=1000.0, padding=100.0))) == []


def mode(kind_of, steps=100, affected=("Dropout",)):
    return record("numeric", 3.0, step=99, kind="mode", kind_of=kind_of, model="Net", steps=steps, path="/job/train.py",
                  line=17, affected=list(affected))  # fmt: skip


def test_modes():
    for kind_of, word in [("eval-training", "eval mode"), ("train-evaluation", "dropout was on"),
                          ("grad-evaluation", "graph")]:  # fmt: skip
        [finding] = findings("LOOP002", None, make_process(records=[mode(kind_of)]))
        assert word in finding.message and finding.span.line == 17
        assert findings("LOOP002", None, make_process(records=[mode(kind_of, steps=5)])) == []
    [finding] = findings("LOOP011", None, make_process(records=[mode("teacher-grad")]))
    assert finding.severity is Severity.WARNING and finding.span.line == 17
    assert findings("LOOP011", None, make_process(records=[mode("eval-training")])) == []


TOWERS = """
import torch
from torch import nn
image, text = nn.Linear(8, 4), nn.Linear(6, 4)
optimizer = torch.optim.SGD(image.parameters(), lr=0.1)
for x, y in batches():
    loss = (image(x) * text(y)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_model_that_no_optimizer_holds():
    held = record("optimizer", 1.0, name="SGD", parameters=36, missing=["weight"], missing_count=2)
    twin = record("optimizer", 1.0, name="SGD", parameters=36, missing=["weight"], missing_count=2, twin=True)
    beside = record("numeric", 3.0, step=99, kind="mode", kind_of="teacher-grad", model="Linear", steps=100,
                    path="/job/train.py", line=8, reached=True, training=True)  # fmt: skip
    for records, code in (([held, beside], "LOOP011"), ([held, twin, beside], "NUM008")):
        for other in ("NUM008", "LOOP011"):
            found = findings(other, TOWERS, make_process(records=records))
            assert len(found) == (other == code), (other, found)
            assert all(remedies(code, one) for one in found)


def test_an_optimizer_that_never_steps():
    idle = record("numeric", 9.0, step=0, kind="unstepped", backwards=200, path="/job/train.py", line=24)
    made = record("optimizer", 1.0, name="AdamW", parameters=100, missing=[], path="/job/train.py", line=11)
    [finding] = findings("NUM008", None, make_process(make_steps(0), records=[made, idle]))
    assert finding.severity is Severity.ERROR and finding.cost.breaks
    assert [item.line for item in finding.evidence if isinstance(item, SourceSpan)] == [24, 11]


def test_a_scale_that_collapses():
    low = record("numeric", 3.0, step=199, kind="scaler", scale=2.0**-20, skipped=150)
    [finding] = findings("NUM006", None, make_process(records=[low]))
    assert "150 steps" in finding.message
    fine = record("numeric", 3.0, step=199, kind="scaler", scale=65536.0, skipped=2)
    assert findings("NUM006", None, make_process(records=[fine])) == []


def test_graphs_that_are_kept():
    text, _ = script("kept.append(loss)")
    grows = make_process(make_steps(400, rss=lambda i: 1e9 + 5e5 * i))
    [finding] = findings("MEM003", text, grows)
    assert (finding.confidence, finding.severity) == (Confidence.CONFIRMED, Severity.ERROR)
    assert findings("MEM003", text, make_process(make_steps(400, rss=1e9))) == []
    [unread] = findings("MEM003", text, make_process(make_steps(400)))
    assert unread.confidence is Confidence.SUSPECTED


def test_graphs_that_the_recorder_saw_kept():
    def seen(what, rss=lambda i: 1e9 + 5e3 * i, text=None, count=250):
        growth = [[what, count, 1000, "/job/train.py", 17]]
        census = record("memory", 4.0, step=250, kind="census", device="cpu", growth=growth)
        return findings("MEM003", text, make_process(make_steps(400, rss=rss), records=[census]))

    kept = "`self.history`, list of dict with cpu tensors () with their graphs"
    [finding] = seen(kept)
    assert finding.confidence is Confidence.CONFIRMED and finding.span.line == 17
    assert remedies("MEM003", finding) == ["keep what goes into self.history without its graph"]
    assert seen(kept, rss=1e9) == []
    assert seen(kept, count=120) == []  # longer episodes, at whose ends it is emptied
    assert seen(kept.replace("with their", "without")) == []
    assert seen("torch.Tensor with their graphs") == []  # whose they are, nobody knows
    text, _ = script("self.history.clear()")
    assert seen(kept, text=text) == []


GPU = record("model", 1.0, name="Net", parameters=100, trainable=100, dtypes={"float32": 100}, device="cuda:0",
             compiled=False, wrapped=None, path="/job/train.py", line=17)  # fmt: skip


def torch(**fields):
    given = {
        "version": "2.9",
        "cuda": "12.8",
        "device": "NVIDIA H100",
        "capability": [9, 0],
        "tf32": "highest",
        **fields,
    }
    return record("torch", 1.0, **given)


def gpu_process(model=GPU, steps=None, **fields):
    return make_process(steps or make_steps(200), records=[torch(**fields), model])


def test_precision_by_what_ran():
    [finding] = findings("PERF001", None, gpu_process())
    assert finding.severity is Severity.WARNING and finding.span.line == 17
    assert findings("PERF001", None, gpu_process(autocast="torch.bfloat16")) == []
    assert findings("PERF001", None, gpu_process(capability=[6, 1])) == []
    assert findings("PERF001", None, gpu_process(steps=make_steps(200, data_wait=0.1))) == []
    [finding] = findings("PERF002", None, gpu_process())
    assert findings("PERF002", None, gpu_process(tf32="high")) == []


def test_cards_that_stand_by():
    on_cpu = record("model", 1.0, name="Net", parameters=100, device="cpu", path="/job/train.py", line=17)
    cards = {"gpus": [{"name": "NVIDIA H100"}], "cpus": 8}
    [finding] = findings("PERF009", None, gpu_process(on_cpu), machine_facts=cards)
    assert "1 GPU stayed idle" in finding.message.replace("  ", " ")
    assert findings("PERF009", None, gpu_process(on_cpu)) == []
    assert findings("PERF009", None, gpu_process(), machine_facts=cards) == []


def test_slow_optimizers():
    loop = record(
        "optimizer", 1.0, name="AdamW", parameters=9, foreach=False, fused=False, path="/job/train.py", line=11
    )
    slow = make_process(make_steps(200, optimizer=0.004), records=[torch(), GPU, loop])
    [finding] = findings("PERF005", None, slow)
    assert finding.severity is Severity.WARNING and finding.span.line == 11
    assert (
        findings("PERF005", None, make_process(make_steps(200, optimizer=0.0003), records=[torch(), GPU, loop])) == []
    )


def test_how_ranks_are_wrapped():

    parallel = replace(GPU, fields={**GPU.fields, "wrapped": "DataParallel"})
    two = {"gpus": [{"name": "H100"}, {"name": "H100"}], "cpus": 8}
    assert len(findings("DIST005", None, gpu_process(parallel), machine_facts=two)) == 1
    assert findings("DIST005", None, gpu_process(), machine_facts=two) == []
    assert len(findings("DIST006", None, gpu_process(backend="gloo"))) == 1
    assert findings("DIST006", None, gpu_process(backend="nccl")) == []


def test_clocks_that_were_held_down():
    hot = make_machine(30, gpu0_reasons=lambda i: 0x40 if i % 3 else 0x0, gpu0_util=0.9)
    [finding] = findings("GPU002", None, make_process(), machine=hot, started="")
    assert "67 % of the time" in finding.message
    idle = make_machine(30, gpu0_reasons=1.0, gpu0_util=0.0)
    assert findings("GPU002", None, make_process(), machine=idle, started="") == []


def test_no_check_crashes_on_a_bare_recording():
    """Whatever is absent is absent: checks find, pass or abstain."""
    from gpudoctor.engine.runner import run_checks
    from gpudoctor.model import Crashed
    from gpudoctor.model.signs.recording import Process, Table

    bare = Process(rank=0, node="", pid=1, wall=0.0, steps=Table(columns={}), records=())
    thin = Table(columns={name: make_steps(60).columns[name] for name in ("index", "t", "duration")})
    half = Process(rank=0, node="", pid=1, wall=0.0, steps=thin, records=())
    for recording in (
        make_recording(ranks=()),
        make_recording(bare),
        make_recording(half),
        make_recording(half, end=None),
    ):
        outcomes = run_checks(make_patient(recording=recording), REGISTRY.checks.values(), {})
        assert [item for item in outcomes if isinstance(item, Crashed)] == []


def start_lines(line, seconds, leaves=()):
    """What the sampler saw before the first step."""
    counts = [["other", "/job/train.py", line, "prepare", seconds / 0.02]]
    return record("lines", 1.9, samples=seconds / 0.02, interval=0.02, counts=counts, leaves=list(leaves))


def test_work_before_the_first_step():
    slow = make_process(make_steps(200, begin=9.0), records=[start_lines(12, 6.0)])
    [finding] = findings("DATA012", None, slow)
    assert finding.severity is Severity.NOTE and finding.span.line == 12
    assert finding.cost.step_share == pytest.approx(0.54, abs=0.01)  # what this run mostly did
    stopped = replace(make_recording().end, exit_code=130, stopped_by="steps")
    [looked] = findings("DATA012", None, slow, end=stopped)
    assert looked.cost.step_share is None  # a run that was cut short is not what one pays for
    imports = [[0, "<frozen importlib._bootstrap_external>", "_path_stat", 30.0]]
    assert findings("DATA012", None, make_process(make_steps(200), records=[start_lines(1, 6.0, imports)])) == []
    assert findings("DATA012", None, make_process(make_steps(200), records=[start_lines(12, 0.8)])) == []
    assert findings("DATA012", None, make_process(make_steps(20000), records=[start_lines(12, 6.0)])) == []
    [late] = findings("DATA012", None, make_process(make_steps(200, begin=1500.0)))
    assert late.severity is Severity.WARNING and late.cost.step_share == pytest.approx(0.99, abs=0.01)


def test_collections_that_hooks_measured_count_once():
    """The sampler sees the same calls on their lines."""
    calls = site("sync", "gc.collect", 0.8, 200, line=41)
    seen = lines(("sync", "/job/train.py", 41, "train", 40), ("forward", "/job/model.py", 8, "forward", 160))
    rank = make_process(make_steps(200, sync=0.004, forward=0.016), records=[calls, seen])
    [finding] = findings("SYNC002", None, rank)
    assert finding.cost.step_share == pytest.approx(4 / 28, abs=0.01)


@pytest.mark.parametrize(
    ("seconds", "severity"),
    [
        (lambda i: 2.0 if i % 3 == 2 else 0.0, Severity.WARNING),  # whichever step is left away
        (lambda i: 2.0 if i == 8 else 0.0, None),  # one evaluation: nobody knows how often it comes
        (lambda i: 0.0, None),
    ],
)
def test_evaluation_that_fills_a_short_run(seconds, severity):
    """Nine steps are few, and say enough where two thirds of all the time go into one thing."""
    seen = lines(("evaluation", "/job/train.py", 30, "evaluate", 50))
    rank = make_process(make_steps(14, forward=0.3, evaluation=seconds), records=[seen])
    found = findings("OBS004", script()[0], rank)
    assert [item.severity for item in found] == ([severity] if severity else [])
