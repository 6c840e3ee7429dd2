"""GPU003 memory-errors."""

from collections.abc import Iterator
from typing import NamedTuple

from gpudoctor.lang import say
from gpudoctor.model import Absent, Check, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.job_devices import CardsDetail, demoted, left_out
from gpudoctor.model.signs.gpu import Gpu
from gpudoctor.model.unavailable import Unavailable, known
from gpudoctor_checks.hardware.card_findings import listed


class _Symptom(NamedTuple):
    name: str
    value: int | bool
    severity: Severity
    action: str
    """As in the detail."""
    words: str


class MemoryErrors(Check):
    """The memory of a GPU has errors that ECC could not restore, or has no spare rows left.

    What it finds:
        - Uncorrectable ECC errors since the driver was loaded.
        - A row remap that failed, that waits for a reset, or that used up the spare rows.
        - Retired pages on older cards.
    Why it hurts:
        An uncorrectable error ends the program that hit it, and a card without spares cannot repair itself. The
        job dies again on the same node, hours into the run.
    How it knows:
        NVML's counters. "Volatile" ones count since the driver was loaded, so an error that a reset has
        repaired does not count. From a job's log: the messages that name it, in the exception or line that came
        first.
    False alarms:
        Few: these are the card's own records. One remap of a row that only had correctable errors is normal
        wear (reported as a warning). Cards without ECC have no such records: the check is skipped. A GPU that
        CUDA_VISIBLE_DEVICES excludes is a note.
    Remedies:
        Reset the GPU so that the row is replaced; remove a card without spares from use.
    References:
        - https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/index.html
        - https://github.com/NVIDIA/DCGM (dcgmi diag, software tests)
    """

    code = "GPU003"
    reads = frozenset({Reads.ENVIRONMENT, Reads.PROCESS, Reads.LOG})
    severity = Severity.ERROR
    log_messages_file = "log_messages.toml"
    thresholds = (
        Threshold("uncorrectable", 1, "{errors}",
                  "facebookresearch/gcm: no uncorrectable volatile error is tolerated",
                  "This many uncorrectable errors since driver load are an error."),
        Threshold("uncorrectable_remaps", 512, "{rows}",
                  "DCGM and AzureHPC: 512 rows remapped for uncorrectable errors",
                  "This many remapped rows use up the card's spares."),
        Threshold("retired_pages", 63, "{pages}", "DCGM: 63 retired pages fail",
                  "This many retired pages are an error."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        gpus = patient.gpus
        if not any(_keeps_records(gpu) for gpu in gpus):
            raise Unavailable(say("the cards keep no record of memory errors (no ECC)"))
        for gpu in gpus:
            if symptoms := self._symptoms(gpu):
                found = self._found(gpu, symptoms)
                yield from demoted([found]) if left_out(patient, [gpu]) else [found]

    def _found(self, gpu: Gpu, symptoms: list[_Symptom]) -> Finding:
        severity = max((item.severity for item in symptoms), key=lambda one: one.rank)
        actions = {item.action for item in symptoms if item.severity is severity}
        return self.finding(
            say("{words}.", words=listed([(gpu, [item.words for item in symptoms])])),
            evidence=tuple(
                Measurement(
                    f"gpu{gpu.index}_{item.name}",
                    item.value,
                    "" if isinstance(item.value, bool) else "{count}",
                    reproduce=f"nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT -i {gpu.index}",
                )
                for item in symptoms
            ),
            severity=severity,
            breaks=say("the job dies when it accesses the faulty memory") if severity is Severity.ERROR else None,
            subject=gpu.label,
            detail=CardsDetail(
                gpus=str(gpu.index),
                action=next(name for name in ("replace", "reset", "reset-later") if name in actions),
            ),
        )

    def _symptoms(self, gpu: Gpu) -> list[_Symptom]:
        """What a card's records say, each reading against its limit; a reading that is absent says nothing."""
        remap = known(gpu.row_remap)
        failed, lost = remap is not None and remap.failure, remap.uncorrectable if remap is not None else 0
        waits = remap is not None and remap.pending
        count, pages = known(gpu.ecc_uncorrected_volatile) or 0, known(gpu.retired_pages) or 0
        error, warning = Severity.ERROR, Severity.WARNING
        rows: tuple[tuple[bool | None, str, int | bool, Severity, str, str], ...] = (
            (failed, "row_remap_failure", True, error, "replace", say("a row remap failed")),
            (not failed and lost >= self.limit("uncorrectable_remaps"), "row_remap_uncorrectable", lost, error,
             "replace", say("{lost} rows remapped for uncorrectable errors", lost=lost)),
            (waits, "row_remap_pending", True, error if lost else warning, "reset" if lost else "reset-later",
             say("a row remap waits for a reset")),
            (count >= self.limit("uncorrectable"), "ecc_uncorrected_volatile", count, error, "reset",
             say("{count} uncorrectable ECC errors since the driver was loaded", count=count)),
            (pages >= self.limit("retired_pages"), "retired_pages", pages, error, "replace",
             say("{pages} retired pages", pages=pages)),
        )  # fmt: skip
        return [_Symptom(*row[1:]) for row in rows if row[0]]


def _keeps_records(gpu: Gpu) -> bool:
    readings = (gpu.row_remap, gpu.ecc_uncorrected_volatile, gpu.retired_pages)
    return any(not isinstance(reading, Absent) for reading in readings)
