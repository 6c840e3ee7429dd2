"""Reports of every kind in the language of now, as HTML, Markdown and SVG: what the tests of a language read."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from log_samples import SAMPLES
from preflights import GB, every_pair, figure, preflight, unit
from recordings import make_machine, make_process, make_recording, make_steps, write_recording
from sample_reports import healthy_report

from gpudoctor.engine.examination import Request, examine
from gpudoctor.engine.registry import load_registry
from gpudoctor.engine.selection import make_selection
from gpudoctor.model import PatientKind, Report
from gpudoctor.model.run import MemoryRow, SyntheticSummary
from gpudoctor.model.signs.preflight import Quantity, Stage, StageRun
from gpudoctor.report import render
from gpudoctor.testing import make_patient

EXAMPLES = Path(__file__).parents[2] / "examples"
GIB = 1 << 30
SKIPPED = frozenset({"style", "script", "code", "pre"})
"""Elements whose text is code, of the page or of the patient."""


def write_busy_recording(folder: Path, *, data_wait: float = 0.02) -> str:
    """A recording of two ranks with two GPUs that has something for every chart; its folder."""
    machine = make_machine(
        60, cpu=1.4, tree_cpu=1.1, memory=8e9, tree_rss=2e9, gpu0_util=0.4, gpu1_util=0.5, gpu0_memory=3e9,
        gpu0_power=180.0, gpu0_temperature=50.0, disk_read=1e8, net_rx=1e4,
    )  # fmt: skip
    ranks = [
        make_process(
            make_steps(
                200, seed=rank, data_wait=data_wait, peak=2e9, allocated=1e9, reserved=3e9, rss=1e9, grad_norm=1.0,
                samples=8.0, lr=1e-3,
            ),
            rank=rank,
            world=2,
        )
        for rank in (0, 1)
    ]  # fmt: skip
    facts = {"gpus": [{"name": "NVIDIA A"}, {"name": "NVIDIA A"}], "cpus": 4, "memory": 1 << 34}
    made = make_recording(*ranks, machine=machine, machine_facts={**facts, "cgroup_memory": None})
    return str(write_recording(made, folder))


def preflight_report() -> Report:
    """An active examination with a slow node, a failed stage and something untested."""
    units = [unit(at, figures=(figure(Quantity.MATMUL, (640 - at) * 1e12, dtype="bf16"),)) for at in range(6)]
    found = preflight(
        6,
        units=units,
        tests=every_pair(6, lambda a, b: 20 * GB if 3 in (a, b) else 46 * GB),
        stages=(StageRun(stage=Stage.GROUP, seconds=20, limit=20, ended=False),),
    )
    registry = load_registry()
    request = Request(registry=registry, selection=make_selection(registry, [("NODE", "--select")], []))
    return examine(make_patient(preflight=found, kind=PatientKind.CLUSTER), request)


def synthetic_report() -> Report:
    """A synthetic job with its memory and its speed."""
    job = SyntheticSummary(
        model="llama-2-7b", method="QLoRA r16", parameters=6_738_415_616, job="bf16, adamw", ranks=2,
        script="/rec/llama.py", kind="cuda", device="NVIDIA H100", device_bytes=80 * GIB, versions={"torch": "2.13"},
        memory=(
            MemoryRow(instant="load", title="loading the model", estimated=4 * GIB, measured=4 * GIB),
            MemoryRow(instant="peak", title="the optimizer step", estimated=6 * GIB, measured=6 * GIB),
        ),
        estimated_peak=6 * GIB, run_peak=7 * GIB, step_seconds=0.5, tokens_per_step=2048, tokens_per_second=4096.0,
        flops_per_step=5.6e13, flops_per_second=1.12e14, peak_flops=989.4e12, mfu=0.1132,
    )  # fmt: skip
    healthy = healthy_report()
    summary = replace(healthy.summary, verdict="6 GiB")  # that of the sample is a plain text
    return replace(healthy, synthetic=job, summary=summary, outcomes=())


def every_report(folder: Path, run: Callable[..., str]) -> Iterator[tuple[str, str, str]]:
    """Kind, format and text of each; `run` gives what a command writes in the language of now."""
    recorded, faster = (
        write_busy_recording(folder / name, data_wait=wait) for name, wait in (("slow", 0.02), ("fast", 0.001))
    )
    log = folder / "job.out"
    log.write_text("step 10\n" + SAMPLES["ENV006", "shm-full"] + "\n", encoding="utf-8")
    commands: Mapping[str, tuple[str, ...]] = {
        "check": ("check", str(EXAMPLES / "train_crops.py")),
        "recording": ("report", recorded),
        "autopsy": ("autopsy", str(log)),
        "compare": ("compare", recorded, faster),
    }
    for kind, words in commands.items():
        for form in ("html", "markdown") if kind != "compare" else ("markdown",):
            yield kind, form, run(*words, "--format", form)
    estimates: Mapping[str, tuple[str, ...]] = {
        "estimate": ("--gpu", "24GiB", "--explain"),
        "estimate --fit": ("--gpu", "80GiB", "--fit"),
    }
    for kind, flags in estimates.items():
        yield kind, "markdown", run("estimate", "--model", "llama-3-8b", *flags, "--format", "markdown")
    for kind, report in (("preflight", preflight_report()), ("synthetic", synthetic_report())):
        for form in ("html", "markdown"):
            yield kind, form, render(report, form)


class _Texts(HTMLParser):
    """The texts that a reader sees: of nodes, of tooltips, and those that are read aloud."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._skipped = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._skipped += tag in SKIPPED
        self.found += [value for name, value in attrs if name in ("title", "aria-label") and value]

    def handle_endtag(self, tag: str) -> None:
        self._skipped -= tag in SKIPPED

    def handle_data(self, data: str) -> None:
        if not self._skipped and data.strip():
            self.found.append(" ".join(data.split()))


def texts_of(form: str, page: str) -> list[str]:
    """The visible texts of a page, without code."""
    if form == "markdown":
        page = re.sub(r"\\(.)", r"\1", re.sub(r"(`+) ?.*? ?\1", "|", page))
        lines = [cell.strip() for line in page.splitlines() for cell in line.split(" | ")]
        return [line for line in (re.sub(r"</?[a-z]+>", "", line).strip("| -#") for line in lines) if line]
    reader = _Texts()
    reader.feed(page)
    reader.close()
    return reader.found
