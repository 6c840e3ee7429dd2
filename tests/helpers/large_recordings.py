"""Large synthetic recordings: as many rows, records, ranks and samples of the machine as are asked for.

Every analysis has work with them: the steps take longer and longer, memory grows, the loss has spikes, gradients
are clipped now and then, evaluations and checkpoints come by a period, the sampler saw many lines.
"""

import random
from array import array
from collections.abc import Callable

from gpudoctor.model.signs.recording import PHASES, Record, Recording, Table
from tests.helpers.recordings import CODES, COUNTS, UNKNOWN, make_machine, make_process, make_recording, record, site

PERIOD = 1000
"""Rows after which an evaluation and a checkpoint come again, and the noise repeats."""
GIB = float(1 << 30)
RISE = 1.5
"""A step at the end takes this many times what it took at the beginning."""


def large_recording(
    rows: int, *, ranks: int = 1, records: int | None = None, samples: int | None = None, seed: int = 0
) -> Recording:
    """A recording of so many rows a rank.

    `records` of each of four types a rank (the probe's own limits by default), `samples` of the machine (as many
    as rows, up to a day of seconds, by default).
    """
    most = {"lines": 4096, "site": 4096, "numeric": 512, "memory": 512, "heartbeat": 64}
    if records is not None:
        most = dict.fromkeys(most, records)
    amounts = {name: min(rows, limit) if records is None else limit for name, limit in most.items()}
    processes = [
        make_process(
            (table := large_steps(rows, seed=seed + rank)), records=_records(amounts, table), rank=rank, world=ranks
        )
        for rank in range(ranks)
    ]
    machine = _machine(min(rows, 86_400) if samples is None else samples)
    facts = {"gpus": [{"name": "NVIDIA H100", "index": 0, "memory": 80 * GIB}], "cpus": 8, "memory": 64 * GIB}
    return make_recording(*processes, machine=machine, machine_facts=facts)


def large_steps(rows: int, seed: int = 0) -> Table:
    """The table of steps of one rank."""
    dice = random.Random(seed)
    noise = [max(0.5, 1.0 + 0.05 * dice.gauss(0.0, 1.0)) for _ in range(PERIOD)]
    usual = {"data_wait": 0.001, "transfer": 2e-4, "forward": 0.003, "backward": 0.005, "optimizer": 0.0015,
             "sync": 3e-4, "logging": 2e-4}  # fmt: skip
    columns: dict[str, array[float] | array[int]] = {"index": array("I", range(rows)), "count": array("I", [1]) * rows}
    total = [3e-4] * rows
    for name in PHASES:
        base = usual.get(name, 0.0)
        values = _tiled([base * part for part in noise], rows)
        if name == "data_wait":
            values = [value * (1.0 + 10 * RISE * i / rows) for i, value in enumerate(values)]
        if name in ("evaluation", "checkpoint"):
            for i in range(PERIOD - 1, rows, PERIOD):
                values[i] = 0.2
        columns[name] = array("f", values)
        total = [a + b for a, b in zip(total, values, strict=True)]
    now, ends = 2.0, []
    for seconds in total:
        now += seconds
        ends.append(now)
    columns |= {"t": array("d", ends), "duration": array("f", total), "longest": array("f", total)}
    columns |= {name: array("f", [value]) * rows for name, value in COUNTS.items()}
    columns |= {name: array(CODES.get(name, "f"), [float("nan")]) * rows for name in UNKNOWN}
    made: dict[str, Callable[[int], float]] = {
        "loss": lambda i: 2.0 / (1.0 + i / rows) + 0.02 * noise[i % PERIOD] + (3.0 if i % 3331 == 17 else 0.0),
        "grad_norm": lambda i: noise[i * 7 % PERIOD] * (40.0 if i % 3331 == 17 else 1.0),
        "lr": lambda i: 1e-3 * min(1.0, (i + 1) / 200),
        "rss": lambda i: 2 * GIB * (1.0 + i / rows) if i % 10 == 0 else float("nan"),
        "allocated": lambda i: 8 * GIB * (1.0 + 0.5 * i / rows) if i % 24 == 0 else float("nan"),
        "reserved": lambda i: 12 * GIB if i % 24 == 0 else float("nan"),
        "samples": lambda i: 32.0,
        "tokens": lambda i: 32.0 * 512,
        "padding": lambda i: 32.0 * 60 * noise[i % PERIOD],
        "reads": lambda i: 1.0,
        "logs": lambda i: float(i % 10 == 0),
    }
    for name, value in made.items():
        columns[name] = array(CODES.get(name, "f"), map(value, range(rows)))
    return Table(columns=columns)


def _tiled(values: list[float], rows: int) -> list[float]:
    return (values * (rows // len(values) + 1))[:rows]


def _machine(samples: int) -> Table:
    return make_machine(
        samples,
        cpu=lambda i: 2.0 + 0.1 * (i % 7),
        tree_cpu=lambda i: 1.5 + 0.1 * (i % 5),
        memory=lambda i: 10 * GIB,
        tree_rss=lambda i: 2 * GIB * (1.0 + i / samples),
        workers=2.0,
        gpu0_util=lambda i: 0.5 + 0.01 * (i % 11),
        gpu0_memory=lambda i: 20 * GIB,
        gpu0_power=lambda i: 300.0 + i % 13,
        gpu0_temperature=lambda i: 60.0 + i % 7,
        gpu0_clock=lambda i: 1500.0 + i % 17,
    )


def _records(amounts: dict[str, int], table: Table) -> list[Record]:
    """Records of every type, spread over the run."""
    ends = table.column("t")
    last = len(table) - 1

    def spread(name: str) -> list[tuple[int, int, float]]:
        n = amounts[name]
        return [(i, (row := last * i // max(1, n - 1)), ends[row]) for i in range(n)]

    made = [
        record("model", 1.6, name="Net", parameters=1_000_000, trainable=1_000_000, bytes=4_000_000,
               dtypes=["float32"], device="cuda:0", wrapped=None, compiled=False, path="/job/train.py", line=10,
               flops=1e9),
        record("optimizer", 1.6, name="AdamW", groups=1, parameters=1_000_000, lr=[1e-3], foreach=None, fused=None,
               path="/job/train.py", line=12, missing=[]),
        record("loader", 1.6, id=1, dataset="Set", workers=2, pin_memory=False, persistent=False, prefetch=2,
               batch_size=32, role="training", path="/job/train.py", line=14, batches=100),
    ]  # fmt: skip
    for i, _, t in spread("lines"):
        counts = [["forward", "/job/train.py", 30 + i % 40, "train", 40.0],
                  ["other", "/job/data.py", 5 + i % 90, "load", 5.0 + i / 50],
                  ["data_wait", "/job/train.py", 29, "train", 5.0]]  # fmt: skip
        made.append(record("lines", t, samples=50, interval=0.02, counts=counts, leaves=[[0, "/lib/x.py", "f", 9]]))
    for i, _, t in spread("site"):
        place = site("logging", f"log{i % 96}", 0.1 + i, 100 + i, line=40 + i % 96)
        made.append(Record(type="site", t=t, fields=place.fields))
    for _, row, t in spread("numeric"):
        fields = {"norm": 1.0, "first": 0.5, "last": 0.4, "first_name": "a", "last_name": "b", "mean": 1e-3}
        made.append(record("numeric", t, step=row, kind="norms", **fields))
    for i, row, t in spread("memory"):
        growth = [["list", 10 + i, 1000.0 * i, "/job/train.py", 44]]
        made.append(record("memory", t, step=row, kind="census", device="cpu", since=0, growth=growth,
                           rss=2 * GIB, grew=1e6 * i))  # fmt: skip
    for _, row, t in spread("heartbeat"):
        stack = [["/job/train.py", 50, "<module>"], ["/job/train.py", 30, "train"]]
        made.append(record("heartbeat", t, step=row, phase="forward", seconds=11.0, stack=stack))
    return sorted(made, key=lambda item: item.t)
