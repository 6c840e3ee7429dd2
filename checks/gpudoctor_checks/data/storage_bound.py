"""DATA009 storage-bound."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded, spots, watched
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Measurement, Patient, Reads, Severity, Threshold
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import percent


class StorageBound(Check):
    """The data comes too slowly from the disk or the network.

    What it finds:
        Loader workers in uninterruptible sleep, or CPUs in I/O wait, for much of a run that waits for data.
    Why it hurts:
        More workers do not help: they queue for the same disk. A network file system reads some hundred small
        files a second, regardless of the link's bandwidth.
    How it knows:
        From a recording: the state of the workers and the machine's I/O wait, sampled each second in steady
        state. The share of the step that waits for data.
    False alarms:
        gpudoctor ignores a cold first epoch. It counts I/O wait of other jobs only while this one waits for
        data.
    Remedies:
        A local copy, fewer and bigger files, data that stays in the page cache.
    References:
        - https://docs.aws.amazon.com/sagemaker/latest/dg/io-bottleneck.html
        - https://github.com/webdataset/webdataset
    """

    code = "DATA009"
    reads = frozenset({Reads.RECORDING, Reads.PROCESS})
    thresholds = (
        Threshold(
            "wait_share",
            0.10,
            "1",
            "DATA001's threshold",
            "If the training waits less than this for its data, storage does no harm.",
        ),
        Threshold(
            "disk_share",
            0.5,
            "1",
            "SageMaker IOBottleneck: more than half of the time",
            "Workers in disk sleep for this share of their time are a finding.",
        ),
        Threshold(
            "io_wait",
            0.3,
            "1",
            "half of SageMaker's limit for one CPU of two",
            "CPUs in I/O wait for this share of their time are a finding.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if (window := watched(patient)) is not None:
            yield from self._live(window)
            return
        run = demanded(patient)
        process = run.lead.process
        waits = of_run.disk_waits(run.recording)
        if not waits:
            raise Unavailable(say("the recording has no samples of the machine"))
        wait = of_run.waiting(process)
        disk, io = waits.get("workers_disk", 0.0), waits.get("io_wait", 0.0)
        slow = disk >= self.limit("disk_share") or io >= self.limit("io_wait")
        if run.worth(wait.share) < self.limit("wait_share") or not slow:
            return
        loader = of_run.training_loader(process)
        spans = spots(patient, loader.place) if loader is not None else []
        yield of_run.seen_in_run(run, wait.share, spans).finding(
            self,
            say(
                "The training waits for its data {wait_share} of the time. Its workers wait for a disk {disk} of their "
                "time (I/O wait of the CPUs {io}).",
                wait_share=percent(wait.share),
                disk=percent(disk),
                io=percent(io),
            ),
            name="data_wait_share",
            severity=Severity.WARNING,
            numbers=tuple(run.measured(name, value, "1") for name, value in waits.items()),
        )

    def _live(self, window: "of_run.ProcessWindow") -> Iterator[Finding]:
        """In a watched process: the workers sleep on a disk while the training waits."""
        seen = of_run.waiting_live(window)
        workers = [worker for rank in window.ranks for worker in rank.workers]
        if not seen.reaches(self.limit("wait_share")) or of_run.hidden(window):
            return
        disk = sum(worker.disk_share for worker in workers) / len(workers) if workers else 0.0
        if disk < self.limit("disk_share") and not window.host.io_wait.mean >= self.limit("io_wait"):
            return
        yield seen.finding(
            self,
            say(
                "The training waits for its data, {words}. Meanwhile its workers wait for a disk {disk} of their time.",
                words=seen.words,
                disk=percent(disk),
            ),
            name="data_wait_share",
            severity=Severity.WARNING,
            numbers=(Measurement("workers_disk", round(disk, 4), "1", reproduce="ps -eo pid,state,wchan"),),
        )
