"""From a recording to the `run` of a report: numbers for people and scripts."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpudoctor.analysis.known_gain import unknown_in
from gpudoctor.analysis.library_warnings import said_in
from gpudoctor.analysis.run.job_facts import torch_fact
from gpudoctor.analysis.run.line_ownership import THE_JOB, share_of
from gpudoctor.analysis.run.recorded_gpus import cards, peak_of_ranks
from gpudoctor.analysis.run.run_numbers import RankMemory, RunNumbers, run_numbers
from gpudoctor.analysis.run.steady_run import run_of
from gpudoctor.analysis.run.steady_state import OTHER
from gpudoctor.analysis.run.training.card import shown_batch, training_card
from gpudoctor.engine.run_series import bad_step, run_series, step_times
from gpudoctor.model.patient import Patient
from gpudoctor.model.run import LineShare, RunGpu, RunMemory, RunSummary, RunThroughput
from gpudoctor.model.signs.recording import Recording

EVALUATION = "evaluation"


def summarise(recording: Recording) -> RunSummary:
    """The run in numbers; what was not recorded is None or empty."""
    numbers = run_numbers(recording)
    end = recording.end
    return RunSummary(
        recording=recording.path,
        origin=recording.origin,
        command=recording.command,
        seconds=end.seconds if end else None,
        exit_code=end.exit_code if end else None,
        signal=end.signal if end else None,
        stopped_by=end.stopped_by if end else None,
        steps=numbers.steps,
        steady_steps=numbers.steady_steps,
        ranks=numbers.ranks,
        marker=_marker(recording),
        warm_up_seconds=numbers.warm_up_seconds,
        start_seconds=numbers.start_seconds,
        step_seconds=numbers.step,
        throughput=_throughput(recording, numbers),
        phases=numbers.phases,
        device_idle=judged.idle if (judged := run_of(recording)) is not None else None,
        room=judged.room if judged is not None else None,
        gain_unknown=unknown_in(recording),
        memory=_memory(recording, numbers.memory),
        gpus=_gpus(recording, numbers),
        lines=tuple(
            LineShare(path=item.path, line=item.line, function=item.function, share=item.share)
            for item in numbers.lines
        ),
        training=training_card(recording),
        shown=shown_batch(recording),
        warnings=said_in(recording),
        series=run_series(recording),
        step_times=step_times(recording),
        bad_step=bad_step(recording),
        started=recording.started,
        node=recording.node,
        commit=recording.commit,
        versions=dict(_versions(recording)),
    )


def _gpus(recording: Recording, numbers: RunNumbers) -> tuple[RunGpu, ...]:
    """The sampled GPUs with their limits."""
    facts = {card.column: card for card in cards(recording)}
    return tuple(
        RunGpu(
            name=gpu.name,
            utilization=gpu.utilization,
            sm_active=gpu.busy,
            memory=gpu.memory,
            power=gpu.power,
            temperature=gpu.temperature,
            memory_total=facts[gpu.index].fact("bytes"),
            power_limit=facts[gpu.index].fact("power_limit"),
        )
        for gpu in numbers.gpus
    )


def _versions(recording: Recording) -> Iterator[tuple[str, str]]:
    """What made the numbers: interpreter, torch, CUDA, and who recorded them."""
    for process in recording.ranks[:1]:
        start = process.first("start")
        found = (
            ("Python", start.get("python") if start else None),
            ("torch", torch_fact(process, "version")),
            ("CUDA", torch_fact(process, "cuda")),
        )
        yield from ((name, str(value)) for name, value in found if value)
    if recording.gpudoctor:
        yield "gpudoctor", recording.gpudoctor


def with_work(run: RunSummary, patient: Patient) -> RunSummary:
    """The summary once the user's lines are known: what is the job's own work."""
    judged = run_of(patient.recording)
    if judged is None:
        return run
    work = share_of(patient, judged, *THE_JOB)
    return replace(run, work=min(work, run.phases.get(OTHER, 0.0)))


def _marker(recording: Recording) -> str | None:
    for process in recording.ranks:
        loop = process.last("loop")
        if loop is not None and isinstance(loop.get("marker"), str):
            return str(loop.get("marker"))
    return None


def _throughput(recording: Recording, numbers: RunNumbers) -> RunThroughput:
    found, peak = numbers.throughput, peak_of_ranks(recording)
    if found is None:
        return RunThroughput()
    return RunThroughput(
        steps_per_second=found.steps_per_second,
        samples_per_second=found.samples_per_second,
        tokens_per_second=found.tokens_per_second,
        mfu=found.flops_per_second / peak if found.flops_per_second and peak else None,
    )


def _memory(recording: Recording, ranks: Iterable[RankMemory]) -> RunMemory:
    every = list(ranks)
    fullest = max(every, key=lambda rank: rank.peak or rank.allocated or 0.0, default=None)
    facts = recording.machine_facts
    return RunMemory(
        allocated=_whole((fullest.peak or fullest.allocated) if fullest else None),
        reserved=_whole(fullest.reserved if fullest else None),
        device=_whole(fullest.device if fullest else None),
        rss=_whole(max((rank.rss for rank in every if rank.rss is not None), default=None)),
        tree_rss=_whole(_highest(recording, "tree_rss")),
        machine=_whole(_highest(recording, "memory")),
        machine_limit=_whole(facts.get("cgroup_memory") or facts.get("memory")),
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _highest(recording: Recording, column: str) -> float | None:
    values = recording.machine.column(column)
    return max((value for value in values if value == value), default=None)
