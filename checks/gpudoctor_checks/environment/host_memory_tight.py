"""ENV009 host-memory-tight."""

import re
from collections.abc import Iterator

from gpudoctor.analysis.source.declared_settings import from_keyword
from gpudoctor.analysis.workload import has_purpose, optional, read_workers, runs_here
from gpudoctor.lang import say
from gpudoctor.model import Check, Confidence, Cost, Facts, Finding, Patient, Reads, Resource, SourceSpan, Threshold
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.job_devices import ranks_here
from gpudoctor.model.signs.source import Known
from gpudoctor.model.unavailable import Absent
from gpudoctor.text import count, size


class HostMemoryTight(Check):
    """Host memory is short for the job, or the machine is swapping.

    What it finds:
        - Less free memory (within the container's or the scheduler's limit too) than the job's processes take
          before any data.
        - A job whose grant is smaller than the weights of a model that it loads there.
        - A machine that swaps right now.
    Why it hurts:
        The kernel kills a worker or a rank without a traceback (exit 137). It often happens at a checkpoint,
        when a model is loaded, or in the first evaluation. Swapping makes every step wait for a disk.
    How it knows:
        It reads /proc/meminfo, the tightest cgroup limit (page cache not counted as used) and the scheduler's
        grant. It reads the swap counters twice within 50 ms.
    False alarms:
        The needs are the minimum for torch, CUDA and workers; the data's share is unknown. Swap that is used
        but idle is not reported: the kernel stores idle pages there.
    Remedies:
        Ask the scheduler or container for that much memory, or use fewer workers.
    References:
        - https://www.kernel.org/doc/html/latest/admin-guide/cgroup-v2.html (memory.max, memory.stat)
        - https://github.com/pytorch/pytorch/issues/13246 (workers and memory)
    """

    code = "ENV009"
    reads = frozenset({Reads.ENVIRONMENT, Reads.LOG})
    log_messages_file = "log_messages.toml"
    thresholds = (
        Threshold("rank_memory", 1.5 * 2**30, "B",
                  "resident memory of a process with torch and a CUDA context, 1 to 2.5 GiB by version",
                  "Host memory of one rank before any data."),
        Threshold("worker_memory", 2**28, "B",
                  "resident memory of `import torch`, about 250 MiB, which forked workers grow to",
                  "Host memory of one loader worker before any data."),
        Threshold("swap_rate", 2**20, "B/s", "a convention: below 1 MiB/s, 256 pages a second, it does not slow a job",
                  "Above it the machine is swapping."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if runs_here(patient):
            yield from self._swapping(patient)
        if has_purpose(patient):
            yield from self._short(patient)

    def _short(self, patient: Patient) -> Iterator[Finding]:
        job = optional(lambda: patient.job)
        granted = job.memory_granted if job is not None else None
        for name, weights, span in _loaded(patient):
            if granted and weights > granted:
                yield self.finding(
                    say(
                        "The job has {granted} of host memory, and loads {weights} of {model} there.",
                        granted=size(granted),
                        weights=size(weights),
                        model=name,
                    ),
                    evidence=(span,),
                    confidence=Confidence.PROBABLE,
                    cost=Cost(bytes=weights - granted),
                    subject="host memory",
                    scarce=Resource.HOST_MEMORY,
                    detail=Facts(kind="short", need=weights),
                )
                return
        available = patient.host.memory_available if runs_here(patient) else None
        room = min((value for value in (granted, available) if value is not None), default=None)
        ranks, workers = ranks_here(patient), read_workers(patient)
        need = int(ranks * (self.limit("rank_memory") + (workers.count or 0) * self.limit("worker_memory")))
        if room is None or room >= need:
            return
        yield self.finding(
            say(
                "{room} of host memory is left, and {ranks} with {workers} each take about {need} before any data.",
                room=size(room),
                ranks=count(ranks, "rank"),
                workers=count(workers.count or 0, "worker"),
                need=size(need),
            ),
            evidence=(
                Measurement("memory_available", room, "B", reproduce="free -b; cat /sys/fs/cgroup/memory.max"),
                *workers.evidence,
            ),
            confidence=Confidence.PROBABLE,
            cost=Cost(bytes=need - room),
            subject="host memory",
            scarce=Resource.HOST_MEMORY,
            detail=Facts(kind="short", need=need),
        )

    def _swapping(self, patient: Patient) -> Iterator[Finding]:
        host = patient.host
        if host.swap_used <= 0 or isinstance(host.swap_rate, Absent) or host.swap_rate < self.limit("swap_rate"):
            return
        sizes = {"swap_rate": size(host.swap_rate), "swap_used": size(host.swap_used)}
        sizes["memory_available"] = size(host.memory_available)
        yield self.finding(
            say(
                "The machine swaps {swap_rate} a second, with {swap_used} of swap in use "
                "and {memory_available} of memory free.",
                **sizes,
            ),
            evidence=(
                Measurement("swap_rate", round(host.swap_rate), "B/s", reproduce="vmstat 1 5"),
                Measurement("swap_used", host.swap_used, "B", reproduce="free -b"),
            ),
            subject="swap",
            scarce=Resource.HOST_MEMORY,
            detail=Facts(kind="swap", need=0),
        )


_SIZE = re.compile(r"(?:^|[-_.])(\d{1,4}(?:\.\d{1,2})?)b(?:$|[-_.])", re.IGNORECASE)
"""Billions of weights, in a model's name."""
_ELSEWHERE = frozenset({"device_map", "quantization_config", "load_in_8bit", "load_in_4bit"})
"""Arguments with which weights go to the GPU one by one, or stay in their file."""


def _loaded(patient: Patient) -> Iterator[tuple[str, int, SourceSpan]]:
    """Pretrained models that a process builds in host memory, with the bytes of their weights."""
    source = optional(lambda: patient.source)
    for script in source.scripts if source is not None else ():
        if re.search("deepspeed|fsdp|fully_shard|init_empty|with torch.device", script.text, re.IGNORECASE):
            continue  # then a process may hold a part, or nothing
        for call in script.calls:
            given = call.argument("pretrained_model_name_or_path", 0)
            name = str(given.value) if isinstance(given, Known) else ""
            billions = _SIZE.search(name.rpartition("/")[2])
            loads = call.method == "from_pretrained" and "Model" in call.name and not call.open_ended
            if loads and billions and not _ELSEWHERE & call.keywords.keys():
                dtype = from_keyword(script, call, "dtype") or from_keyword(script, call, "torch_dtype")
                each = 4 if dtype is not None and dtype.word in {"float32", "float"} else 2
                yield name, int(float(billions[1]) * 1e9) * each, call.span
