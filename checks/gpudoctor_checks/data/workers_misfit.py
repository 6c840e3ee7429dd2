"""DATA003 workers-misfit."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import Run
from gpudoctor.analysis.source.device_tensors import Target, training_target
from gpudoctor.analysis.source.loaders import Loader
from gpudoctor.analysis.workload import cpus_per_rank, optional, training_loaders
from gpudoctor.lang import say
from gpudoctor.model import Confidence, Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.evidence import Measurement, Provenance
from gpudoctor.model.job_devices import without_gpus
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Known
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import count, duration, percent
from gpudoctor_checks.run_check import RunCheck


@frozen
class WorkersMisfitDetail(Detail):
    """What the rule reads."""

    kind: str
    """`many`, `iterated`, `short` or `respawned`."""
    workers: int | None = None
    engine: bool | None = None
    """A trainer makes the loader."""
    settable: bool | None = None
    """An edit may set the keywords."""
    chosen: str | None = None
    """What the program calls the number of workers."""
    origin: str | None = None
    """The option that the number comes from."""


class WorkersMisfit(RunCheck):
    """The loader's workers do not fit: too many for the CPUs, or restarted repeatedly.

    What it finds:
        - More loader workers than the CPUs that one training process may use.
        - In a recording: workers that are started again for every epoch, or for every step.
    Why it hurts:
        Workers beyond the CPUs compete with each other and with the training process. Starting workers costs
        0.05 to 10 s each time (fork, or spawn with heavy imports). The queue is empty afterwards.
    How it knows:
        The worker count comes from the source, through command-line defaults too. The CPUs come from the
        scheduler's grant, the cgroup quota and the affinity mask of this machine.
    False alarms:
        A script that is checked on another machine than it runs on: check it there, or give the job script. The
        CPUs of a machine without a GPU do not describe a program that trains on one. gpudoctor ignores loaders
        of scripts and modules without a training. Persistent workers keep their memory between epochs; with
        few, long epochs they gain nothing.
    Remedies:
        Set the number of workers for this machine; set persistent_workers=True; build the loader once.
    References:
        - https://pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
        - https://github.com/pytorch/pytorch/blob/v2.6.0/torch/utils/data/dataloader.py
    """

    code = "DATA003"
    reads = frozenset({Reads.SOURCE, Reads.ENVIRONMENT, Reads.RECORDING})
    thresholds = (
        Threshold(
            "workers_per_cpu",
            1.0,
            "1",
            "torch.utils.data warns above the CPUs of the affinity mask",
            "More workers than this many times the CPUs of one rank are too many.",
        ),
        *Threshold.note_and_warning(
            "Waits at the start of epochs that take this share of a recorded run are",
            noted=0.03,
            warned=0.10,
            source="convention: the gap measured; below 3 % of a run it is too small to matter",
            source_warned="convention: a tenth of a step in waiting for data",
            name="gap",
        ),
        Threshold(
            "starts",
            3,
            "{epochs}",
            "convention: a median needs three",
            "Fewer starts of epochs in a recording are not judged.",
        ),
    )

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        yield from self._gaps(patient, run)
        yield from suspected

    def _gaps(self, patient: Patient, run: Run) -> Iterator[Finding]:
        """Waits at the start of each epoch, for workers that are started for it."""
        process = run.lead.process
        wait, loader = of_run.waiting(process), of_run.training_loader(process)
        severity = self.level(run.worth(wait.starts), "gap_noted", "gap_warned")
        if severity is None or wait.epochs < self.limit("starts"):
            return
        if loader is None or loader.workers == 0:
            return
        if loader.persistent:
            severity = Severity.NOTE  # they live on; it is the short epochs that cost
        spans = of_run.loader_spans(patient, loader.place)
        call = of_run.loader_call(patient, loader.place)
        facts = {
            "workers": count(loader.workers, "worker"),
            "seconds": duration(wait.start_seconds),
            "share": percent(wait.starts),
            "at": of_run.at(spans),
        }
        if wait.each_step:
            words = say("{workers}: started for each step, {seconds} each, {share} of the time{at}.", **facts)
        elif loader.persistent:
            words = say("{workers}: each epoch begins with empty queues, {seconds}, {share} of the time{at}.", **facts)
        else:
            words = say("{workers}: started again for each epoch, {seconds} each, {share} of the time{at}.", **facts)
        yield of_run.seen_in_run(run, wait.starts, spans).finding(
            self,
            words,
            name="epoch_start_share",
            severity=severity,
            detail=WorkersMisfitDetail(
                kind="iterated" if wait.each_step else "short" if loader.persistent else "respawned",
                workers=loader.workers,
                engine=call.engine,
                settable=call.settable,
                chosen=call.chosen,
            ),
            numbers=(run.measured("seconds_per_epoch_start", wait.start_seconds, "s"),),
        )

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        for loader in training_loaders(patient):
            workers = loader.workers
            if not isinstance(workers, Known) or not isinstance(workers.value, int):
                continue
            yield from self._too_many(loader, int(workers.value), workers.origin, patient)

    def _too_many(self, loader: Loader, workers: int, origin: str, patient: Patient) -> Iterator[Finding]:
        try:
            cpus, words = cpus_per_rank(patient)
        except Unavailable:
            return
        if workers <= self.limit("workers_per_cpu") * max(cpus, 1.0):
            return
        if not loader.ran and _trains_elsewhere(patient):
            return
        said = "" if origin == "literal" else say(" ({origin})", origin=origin)
        yield self.finding(
            say(
                "{loader} starts {workers} workers{said}, and its process may use {cpus:g} CPUs ({words}).",
                loader=loader.label,
                workers=workers,
                said=said,
                cpus=cpus,
                words=words,
            ),
            evidence=(
                loader.call.span,
                Measurement(
                    "cpus_per_rank",
                    cpus,
                    "{cpus}",
                    provenance=Provenance.MEASURED,
                    reproduce="nproc; cat /sys/fs/cgroup/cpu.max",
                ),
            ),
            confidence=Confidence.CONFIRMED if loader.ran else Confidence.PROBABLE,
            severity=Severity.WARNING,
            subject=f"{loader.script.path}:{loader.call.span.line}",
            detail=WorkersMisfitDetail(
                kind="many",
                workers=workers,
                origin=origin,
                engine=loader.engine,
                settable=loader.settable("num_workers"),
                chosen=loader.chosen("num_workers"),
            ),
        )


def _trains_elsewhere(patient: Patient) -> bool:
    """Whether the program may be meant for a GPU and this machine has none: its CPUs are not those of the job.

    What a scheduler grants the job counts wherever it is read.
    """
    survey, job = optional(lambda: patient.gpu_survey), optional(lambda: patient.job)
    if survey is None or not without_gpus(survey):
        return False
    if job is not None and (job.cpus_granted or job.cpus_per_task):
        return False
    return training_target(patient.source) is not Target.CPU
