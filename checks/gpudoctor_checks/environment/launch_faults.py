"""What does not fit in the launch table: processes, GPUs, ranks and nodes of a launch line, by the job's own words."""

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from string import Formatter
from typing import NamedTuple

from gpudoctor.analysis.workload import launch_words
from gpudoctor.lang import say, term
from gpudoctor.model import Setting
from gpudoctor.model.signs.job import Job, Launch
from gpudoctor.model.signs.source import Known, Source
from gpudoctor.text import count

_LOCAL = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[?::1\]?)(:\d*)?")
_TRAINERS = ("lightning.Trainer", "pytorch_lightning.Trainer", "lightning.pytorch.Trainer")


@cache
def fault_rows() -> dict[str, dict[str, str]]:
    """What is said of each kind of fault, and what it breaks; one that breaks nothing is a warning."""
    rows: dict[str, dict[str, str]] = json.loads(files(__package__).joinpath("conflicts.json").read_text("utf-8"))
    return rows


class LaunchFault(NamedTuple):
    """One thing that does not fit."""

    kind: str
    text: str
    breaks: str
    place: Setting
    gpus: int = 0


def launch_faults(job: Job, source: Source | None) -> Iterator[LaunchFault]:
    """All of a job, in the order of its lines."""
    path = job.script_path
    for line, text in job.ignored:
        place = Setting(key="#SBATCH", value=text, origin=path or "", path=path, line=line)
        yield _fault("no-gpu" if "gpu" in text or "gres" in text else "ignored", {"text": text}, place)
    for row in job.launches:
        place = Setting(key="launch", value=row.text, origin=row.path or "", path=row.path, line=row.line)
        who = say("{starter} and {launcher}", starter=row.starter, launcher=row.launcher)
        fields: dict[str, object] = {"row": launch_words(row), "who": who if row.starter else row.launcher}
        fields |= {"launcher": row.launcher, "world": row.world, "nodes": row.nodes}
        for kind in _kinds(row, job, source, fields) if row.path else ():
            yield _fault(kind, fields, place, row.grants.gpus_granted or 0)


def _fault(kind: str, fields: dict[str, object], place: Setting, gpus: int = 0) -> LaunchFault:
    row = fault_rows()[kind]
    named = {name: fields[name] for _, name, _, _ in Formatter().parse(row["say"]) if name}
    return LaunchFault(kind, say(row["say"], **named), term(row["breaks"]) if row["breaks"] else "", place, gpus)


def _kinds(row: Launch, job: Job, source: Source | None, fields: dict[str, object]) -> Iterator[str]:
    """The kinds of faults of a launch; `fields` gets what their sentences name."""
    here, cards, nodes, told = row.here or 0, row.grants.gpus_granted or 0, row.nodes or 1, row.told
    texts = [script.text for script in (source.scripts if source is not None else ())]
    listed = [int(item) for item in told.get("devices", "").split(",") if item.strip().isdigit()]
    gpus, total, world = int(told.get("gpus", 0)), here * nodes, row.world or 0
    fields |= {"devices": told.get("devices"), "highest": max(listed, default=0), "gpus": count(gpus, "GPU")}
    fields |= {"idle": count(cards - here, "GPU"), "total": total}
    own_card = any("set_device(" in text and "DistributedDataParallel" in text for text in texts)
    one_each = row.launcher in {"torchrun", "accelerate", "deepspeed"} or (own_card and row.launcher != "python")
    if listed and gpus and max(listed) >= gpus:
        yield "index"
    elif here > max(cards, 1) and cards:
        yield "ranks"
    elif 0 < here < cards and one_each and len({one.script or one.module for one in job.launches}) == 1:
        yield "idle"
    if row.launcher in {"torchrun", "accelerate"} and here and re.fullmatch(r"\d*", told.get("nodes", "")):
        if total < world:
            yield "missing"
        elif total > world > 0 and not 0 < cards < here:
            yield "apart"
    own_rank = not texts or any("SLURM_PROCID" in text for text in texts)
    rank = told.get("node_rank", "" if own_rank or row.launcher != "srun" else row.variables.get("RANK", ""))
    fields |= {"rank": rank, "meets": told.get("meets")}
    tasks = total if row.launcher == "srun" else nodes * (row.tasks or 1) if row.starter == "srun" else 1
    if tasks > 1 and rank.isdigit() and told.get("backend", "static") == "static":
        yield "same-rank"
    if nodes > 1 and _LOCAL.fullmatch(told.get("meets", "")):
        yield "meets"
    by_place = [text for text in texts if "SLURM_LOCALID" in text and "set_device(" in text]
    if row.grants.gpus_per_task == 1 and here > 1 and by_place and "device_count" not in "".join(by_place):
        yield "one-gpu"
    calls = [call for script in (source.scripts if source is not None else ()) for call in script.calls]
    for call in calls if row.launcher == "srun" else ():
        for keyword, number in (("devices", row.ranks_per_node), ("num_nodes", row.nodes)):
            value = call.keywords.get(keyword) if call.name in _TRAINERS else None
            wanted = value.value if isinstance(value, Known) and type(value.value) is int else 0
            if number and wanted > 0 and wanted != number:
                fields |= {"keyword": keyword, "wanted": wanted}
                yield "trainer"
