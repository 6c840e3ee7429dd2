"""Training loops of known step times on the CPU, which time themselves: what `run_overhead.py` measures with.

    python benchmarks/overhead_jobs.py JOB FOLDER [--marker | --profiler]

Reads its orders from the pipe `go` in the folder, a line each: `warm` (train for some seconds), or anything
else for a block of steps, whose mean wall and CPU seconds, and wall seconds of each part, it writes to the pipe
`done`; ends where they end.
`--marker` puts TraceML's markers round every step, `--profiler` has `torch.profiler` on throughout.
"""

import argparse
import json
import time
from pathlib import Path

WARM = 3.0
"""Seconds of training before the first block: the first steps of a run are looked at more closely."""


PARTS = ("data", "zero_grad", "forward", "backward", "optimizer")
"""Of a step, each timed by itself; five readings of the clock take half a microsecond."""


def loop(model, optimizer, batch, width, workers=0, rows=4096):
    """The function of one step."""
    import torch
    from torch.nn import functional as F
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.randn(rows, width), torch.randint(0, 10, (rows,)))
    loader = DataLoader(data, batch_size=batch, shuffle=True, num_workers=workers, persistent_workers=workers > 0)

    def batches():
        while True:
            yield from loader

    source, clock = batches(), time.perf_counter
    parts = dict.fromkeys(PARTS, 0.0)

    def step():
        begin = clock()
        x, y = next(source)
        drawn = clock()
        optimizer.zero_grad()
        cleared = clock()
        loss = F.cross_entropy(model(x), y)
        computed = clock()
        loss.backward()
        passed = clock()
        optimizer.step()
        parts["optimizer"] += clock() - passed
        parts["data"] += drawn - begin
        parts["zero_grad"] += cleared - drawn
        parts["forward"] += computed - cleared
        parts["backward"] += passed - computed

    step.model, step.parts = model, parts
    return step


def mlp(hidden, batch, kind, workers=0):
    """A perceptron of three layers under SGD or AdamW."""
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 10))
    return loop(model, getattr(torch.optim, kind)(model.parameters(), lr=1e-3), batch, 64, workers)


def transformer():
    """Six small encoder layers under AdamW."""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
            self.body = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
            self.head = nn.Linear(64, 10)

        def forward(self, x):
            return self.head(self.body(x.view(len(x), 8, 64)).mean(dim=1))

    model = Net()
    return loop(model, torch.optim.AdamW(model.parameters(), lr=1e-3), 16, 512)


JOBS = {
    "1 ms": (lambda: mlp(128, 16, "SGD"), 250),
    "1 ms, 2 workers": (lambda: mlp(128, 16, "SGD", workers=2), 250),
    "2 ms, AdamW": (lambda: mlp(256, 16, "AdamW"), 150),
    "5 ms": (lambda: mlp(1024, 64, "SGD"), 60),
    "5 ms, 2 workers": (lambda: mlp(1024, 64, "SGD", workers=2), 60),
    "20 ms, transformer": (transformer, 15),
}
"""Name; the function that makes the function of a step; steps in a block."""


def main():
    """Take turns with other processes: a block of steps whenever one is asked for, and what a step took."""
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--marker", action="store_true")
    parser.add_argument("--profiler", action="store_true")
    words = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    make, count = JOBS[words.job]
    step, profiler = make(), None
    parts = step.parts
    if words.marker:
        step = marked(step)
    if words.profiler:
        step, profiler = profiled(step)
    with open(words.folder / "go") as go, open(words.folder / "done", "w", buffering=1) as done:
        for order in go:
            if order.strip() == "warm":
                begin = time.perf_counter()
                while time.perf_counter() - begin < WARM:
                    step()
                done.write("warm\n")
            else:
                done.write(json.dumps(block(step, parts, count)) + "\n")
    if profiler is not None:
        profiler.stop()


def block(step, parts, count):
    """Mean wall and CPU seconds of a step, and wall seconds of its parts.

    Some steps come first, to settle: another process had the caches.
    """
    for _ in range(max(5, count // 10)):
        step()
    parts.update(dict.fromkeys(PARTS, 0.0))
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        step()
    wall, cpu = (time.perf_counter() - wall) / count, (time.process_time() - cpu) / count
    return wall, cpu, *(parts[name] / count for name in PARTS)


def marked(bare):
    """A step in TraceML's marker."""
    import traceml_ai

    traceml_ai.init(mode="auto")

    def step():
        with traceml_ai.trace_step(bare.model):
            bare()

    return step


def profiled(bare):
    """A step under `torch.profiler`, which stays on; and the profiler."""
    import torch

    schedule = torch.profiler.schedule(wait=0, warmup=0, active=50)
    profiler = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule, on_trace_ready=lambda _: None
    )
    profiler.start()

    def step():
        bare()
        profiler.step()

    return step, profiler


if __name__ == "__main__":
    main()
