"""Runs, logs and synthetic jobs in words and rows, for every format that people read."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from gpudoctor.lang import rendered, say, template, tr, word
from gpudoctor.lang.message import concatenated, row
from gpudoctor.model.log_message import LogMoment, LogSummary
from gpudoctor.model.run import RunSummary, SyntheticSummary
from gpudoctor.model.signs.process import Rank, count_phases
from gpudoctor.text import count, duration, number, percent, rate, size


def listed(items: Iterable[str], separator: str = ", ") -> str:
    """Items in a row: `a, b, c`, and `a、b、c` in Chinese."""
    return rendered(row(separator, items))


# The time line of a log in words, for every format that people read.

ROLES = {
    "root": template("first cause"),
    "same": template("same cause"),
    "cascade": template("follows"),
    "handled": template("handled"),
}
"""What a role is called; the words of the JSON report are shorter."""
_REPEATED = frozenset({"same", "cascade"})
"""Roles of which one row stands for all ranks that say the same."""


def read_words(log: LogSummary) -> str:
    """What was read, in a line."""
    parts = [rendered(count(log.lines, "line"))]
    if len(log.files) > 1:
        parts.append(rendered(count(len(log.files), "file")))
    if log.ranks:
        of = tr(" of {world}", world=log.world) if log.world and log.world >= len(log.ranks) else ""
        parts.append(
            tr(
                "{ranks}{of} rank{s} named",
                ranks=len(log.ranks),
                of=of,
                s=say("s") if len(log.ranks) != 1 or of else "",
            )
        )
    if log.last_step is not None:
        parts.append(tr("last step {last_step:,}", last_step=log.last_step))
    return concatenated(", ", parts)


def moment_rows(log: LogSummary) -> Iterator[tuple[str, str, str]]:
    """Role, place and text; what follows on many ranks, or comes again on them, is one row."""
    groups: dict[object, list[LogMoment]] = {}
    for at, item in enumerate(log.moments):
        story = (item.role, item.code, item.kind)
        group = groups.setdefault(story if item.role in _REPEATED else at, [])
        group.append(item)
    for group in groups.values():
        first = group[0]
        role = ROLES.get(first.role, first.role)
        yield word(role), _place_of(group), first.text


def _place_of(group: Sequence[LogMoment]) -> str:
    """Where: line, rank, node, time, step of the first, how often, and on how many ranks."""
    item, last = group[0], max(each.last_line for each in group if each.path == group[0].path)
    often = sum(each.count for each in group)
    line = template("line {line:,}") if often == 1 else template("lines {line:,}-{last_line:,} ({count:,}x)")
    parts = [tr(line, line=item.line, last_line=last, count=often)]
    ranks = {each.rank for each in group if each.rank is not None}
    if len(ranks) == 1:
        parts.append(tr("rank {rank}", rank=item.rank))
    elif ranks:
        parts.append(count(len(ranks), "rank"))
    parts += filter(None, (item.node, item.time))
    if item.step is not None:
        parts.append(tr("after step {step:,}", step=item.step))
    return concatenated(", ", parts)


LEAST_SHARE = 0.01
"""Phases below this share of a step are not shown."""


def run_facts(run: RunSummary) -> Iterator[str]:
    """Facts for a first line: steps, time a step, speed, ranks, GPUs."""
    if run.steps:
        yield rendered(count(run.steps, "step"))
    if run.samples:
        yield rendered(count(run.samples, "stack sample"))
    if run.step_seconds is not None:
        yield tr("{mean} a step", mean=duration(run.step_seconds.mean))
    rates = run.throughput
    if rates.steps_per_second:
        yield tr("{rate} steps/s", rate=rate_text(rates.steps_per_second))
    if rates.tokens_per_second:
        yield tr("{rate} tokens/s", rate=rate_text(rates.tokens_per_second))
    elif rates.samples_per_second:
        yield tr("{rate} samples/s", rate=rate_text(rates.samples_per_second))
    if rates.mfu:
        yield f"MFU {percent(rates.mfu)}"
    if run.ranks:
        yield rendered(count(run.ranks, "rank"))
    for name, cards in Counter(gpu.name for gpu in run.gpus if gpu.name).items():
        yield name if cards == 1 else f"{cards} x {name}"


def phase_rows(run: RunSummary) -> list[tuple[str, float, str]]:
    """Phase, share and time a step, the largest first and `other` last; empty without steady steps."""
    if run.step_seconds is None and not run.samples:
        return []
    rows = sorted(run.phases.items(), key=lambda item: (item[0] == "other", -item[1]))
    mean = run.step_seconds.mean if run.step_seconds else None
    return [
        (name.replace("_", " "), share, duration(share * mean) if mean is not None else "")
        for name, share in rows
        if share >= LEAST_SHARE
    ]


def rate_text(value: float) -> str:
    """A rate with three digits: 24.5, 1,240."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def run_numbers(run: RunSummary) -> Iterator[tuple[str, str]]:
    """Every number of the run, for HTML and `--verbose`."""
    step, memory = run.step_seconds, run.memory
    if run.seconds is not None:
        took = [duration(run.seconds)]
        took += [tr("exit code {code}", code=run.exit_code)] if run.exit_code is not None else []
        yield tr("whole command"), listed(took)
    if step is not None and not math.isnan(step.min):  # a live file has one number
        yield (
            tr("step"),
            tr(
                "mean {mean}, median {median}, p10 {p10}, p90 {p90}, {min} to {max}, deviation {std}",
                mean=duration(step.mean),
                median=duration(step.median),
                p10=duration(step.p10),
                p90=duration(step.p90),
                min=duration(step.min),
                max=duration(step.max),
                std=duration(step.std),
            ),
        )
    if run.start_seconds is not None:
        begun, warm = duration(run.start_seconds), duration(run.warm_up_seconds)
        said = tr(
            "{start_seconds} to the end of the first step, then {warm_up_seconds} of warm-up",
            start_seconds=begun,
            warm_up_seconds=warm,
        )
        yield word("start"), said
    if run.throughput.mfu is not None:
        yield "MFU", tr("{mfu} of the dense bf16 peak", mfu=percent(run.throughput.mfu))
    for value, label in (
        (memory.allocated, tr("GPU memory allocated")), (memory.reserved, tr("GPU memory reserved")),
        (memory.tree_rss, tr("memory of the command")), (memory.machine, tr("memory of the machine")),
    ):  # fmt: skip
        if value is not None:
            yield label, tr("{value} at most", value=size(value))
    for index, gpu in enumerate(run.gpus):
        facts = [gpu.name]
        facts += [tr("{share} utilised", share=percent(gpu.utilization))] if gpu.utilization is not None else []
        facts += [tr("{share} of SMs busy", share=percent(gpu.sm_active))] if gpu.sm_active is not None else []
        facts += [size(gpu.memory)] if gpu.memory is not None else []
        facts += [f"{number(round(gpu.power))} W"] if gpu.power is not None else []
        facts += (
            [tr("limit {limit}", limit=f"{number(round(gpu.power_limit))} W")] if gpu.power_limit is not None else []
        )
        facts += (
            [tr("{value} at most", value=f"{number(round(gpu.temperature))} °C")] if gpu.temperature is not None else []
        )
        yield f"GPU {index}", listed(facts)


# A synthetic job in words and rows, for every format that people read.


def job_words(job: SyntheticSummary) -> str:
    """What it is: `llama-2-7b, QLoRA r16, sequence 2,048, ...; on 2 ranks`."""
    ranks = tr("; {ranks} ranks", ranks=job.ranks) if job.ranks > 1 else ""
    return tr("{model}, {method}, {job}{ranks}", model=job.model, method=job.method, job=job.job, ranks=ranks)


def memory_heading(job: SyntheticSummary) -> str:
    """Whose memory the rows are of."""
    where = tr("the CPU's memory") if job.kind == "cpu" else job.device
    each = tr(", the fullest rank") if job.ranks > 1 else ""
    return tr("Memory by instant, {where}{each}", where=where, each=each)


def memory_rows(job: SyntheticSummary) -> list[tuple[str, str, str, str]]:
    """Instant, estimated, measured, estimated over measured."""
    return [
        (rendered(row.title), size(row.estimated), size(row.measured), f"{row.ratio - 1:+.1%}" if row.measured else "")
        for row in job.memory
    ]


def speed_words(job: SyntheticSummary) -> str:
    """Step time, tokens, operations, utilisation; empty where it made too few steps."""
    if job.step_seconds is None or job.tokens_per_second is None or job.flops_per_second is None:
        return ""
    per_second = (
        template("{rate} patches/s")
        if job.estimate.get("model", {}).get("kind") == "vision"
        else template("{rate} tokens/s")
    )
    parts = [
        tr("{step_seconds} a step", step_seconds=duration(job.step_seconds)),
        rendered(say(per_second, rate=rate_text(job.tokens_per_second))),
        tr("{flops_per_second} of the model", flops_per_second=rate(job.flops_per_second, "FLOP/s")),
    ]
    if job.mfu is not None and job.peak_flops is not None:
        parts.append(
            tr(
                "MFU {mfu} of {peak_flops} (dense bf16)",
                mfu=percent(job.mfu),
                peak_flops=rate(job.peak_flops, "FLOP/s"),
            )
        )
    elif job.kind == "cpu":
        parts.append(tr("no MFU: a CPU's peak is not known"))
    else:
        parts.append(tr("no MFU: gpudoctor does not know the peak FLOP/s of {device}", device=job.device))
    return concatenated(", ", parts)


def small_print(job: SyntheticSummary) -> list[str]:
    """What is to be known of the numbers, a sentence each."""
    said = [tr("assumed: {text}", text=text) for text in job.assumptions]
    if job.run_resident is not None and job.kind == "cpu":
        resident = size(job.run_resident)
        said.append(
            tr("{resident} resident in one process at most, interpreter and libraries included", resident=resident)
        )
    return said + [tr("note: {text}", text=text) for text in job.notes]


def phase_shares(ranks: Sequence[Rank]) -> dict[str, float]:
    """Share of the loop's time by phase, largest first; exact where `gpudoctor run` records all of them."""
    exact = [rank.steps.phases for rank in ranks if rank.steps and rank.steps.phases]
    if exact and len(exact) == len(ranks):
        shares = {name: sum(one.get(name, 0.0) for one in exact) / len(exact) for one in exact for name in one}
        return dict(sorted(shares.items(), key=lambda item: -item[1]))
    counts = count_phases(place for rank in ranks for place in rank.places)
    return {phase: count / sum(counts.values()) for phase, count in counts.items()}
