"""A main process that waits for a queue which processes or threads of the program's own fill."""

import textwrap

import pytest
from recordings import lines, make_process, make_recording, make_steps
from scripts import read_script

from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.data.loader_bound import LoaderBound
from gpudoctor_checks.performance.unexplained_time import UnexplainedTime
from gpudoctor_rules.data.loaders import loader_bound
from gpudoctor_rules.performance import unexplained_time

PROGRAM = """
import queue, threading
import multiprocessing as mp
import torch

def produce(out, size):  # fills
    while True:
        out.put(torch.randn(size, 8))

class Producer(mp.Process):
    def __init__(self, out):
        super().__init__(daemon=True)
        self.out = out

    def run(self):  # runs
        produce(self.out, 16)

class Feed:
    def __init__(self):
        self.ready = {queue}
        self.table = {{}}
        {start}

    def batch(self):
        return {take}  # taken

feed = Feed()
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(1000):
    x = feed.batch()
    loss = model(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FED = [
    ("mp.Queue(8)", "mp.Process(target=produce, args=(self.ready, 16), daemon=True).start()", "self.ready.get()"),
    ("queue.Queue(8)", "threading.Thread(target=produce, args=(self.ready, 16)).start()", "self.ready.get(timeout=9)"),
    ("mp.SimpleQueue()", "Producer(self.ready).start()", "self.ready.get()"),
]
ALONE = [
    ("mp.Queue(8)", "pass", "self.table.get('x', torch.randn(16, 8))"),
    ("[]", "mp.Process(target=produce, args=(self.ready, 16)).start()", "torch.randn(16, 8)"),
]


def look(tmp_path, check, rule, parts, phase, **columns):
    name, start, take = parts
    text = textwrap.dedent(PROGRAM.format(queue=name, start=start, take=take))
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    source = read_script(tmp_path / "train.py")
    at = next(n for n, row in enumerate(text.splitlines(), 1) if row.endswith("# taken"))
    hot = lines((phase, str(tmp_path / "train.py"), at, "batch", 80))
    recording = make_recording(make_process(make_steps(200, **columns), records=[hot]))
    patient = make_patient(source=source, recording=recording)
    [finding] = examine(check, patient)
    marks = [n for n, row in enumerate(text.splitlines(), 1) if row.endswith(("# fills", "# runs"))]
    named = {item.line for item in finding.evidence if hasattr(item, "line")} & set(marks)
    return finding, named, " ".join(item.title for item in prescribe(rule, finding, patient))


@pytest.mark.parametrize("parts", FED)
def test_sick_the_training_waits_for_its_own_processes(tmp_path, parts):
    finding, named, titles = look(tmp_path, LoaderBound, loader_bound, parts, "data_wait", data_wait=0.02)
    assert named and "the program's own processes do not keep up" in finding.message
    assert "less work for each batch in the processes that fill the queue" in titles
    finding, named, titles = look(tmp_path, UnexplainedTime, unexplained_time, parts, "other", other=0.02)
    assert named and "the program's own processes" in finding.message
    assert "the processes that the training waits for" in titles


@pytest.mark.parametrize("parts", ALONE)
def test_healthy_no_process_feeds_what_the_line_makes(tmp_path, parts):
    finding, named, _ = look(tmp_path, LoaderBound, loader_bound, parts, "data_wait", data_wait=0.02)
    assert not named and "own" not in finding.message
    finding, named, _ = look(tmp_path, UnexplainedTime, unexplained_time, parts, "other", other=0.02)
    assert not named and "own make" not in finding.message
