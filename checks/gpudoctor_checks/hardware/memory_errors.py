"""GPU003 memory-errors."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Code, Confidence, Cost, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.job_devices import CardsDetail, demoted, left_out
from gpudoctor.model.signs.gpu import Gpu, RowRemap, list_gpus, name_gpus
from gpudoctor.model.unavailable import Absent, Unavailable


@dataclass(frozen=True, slots=True)
class _Symptom:
    severity: Severity
    words: str
    action: str
    """`replace`, `reset` or `reset-later`."""
    name: str
    value: int | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryErrorsDetail(CardsDetail):
    """What the rule reads."""

    action: str
    """`reset`, `reset-later`, `replace` or `watch`."""


class MemoryErrors(Check):
    """The memory of a GPU has errors that ECC could not restore, or has no spare rows left.

    What it finds:
        - Uncorrectable ECC errors since the driver was loaded.
        - A row remap that failed, that waits for a reset, or that used up the spare rows.
        - Retired pages on older cards.
        - Too many errors in the on-chip SRAM.
        - Very many corrected errors.
        - A corrupt InfoROM (the card's own record of its errors).
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
        - https://github.com/stas00/ml-engineering (SRAM errors and RMA)
    """

    code = Code("GPU003")
    name = "memory-errors"
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
        Threshold("sram_aggregate", 5, "{errors}",
                  "stas00/ml-engineering: more than 4 SRAM errors qualify for replacement",
                  "This many uncorrectable SRAM errors over the card's life are an error."),
        Threshold("retired_pages", 63, "{pages}", "DCGM: 63 retired pages fail",
                  "This many retired pages are an error."),
        Threshold("retired_pages_warning", 15, "{pages}",
                  "DCGM: 15 retired pages warn",
                  "This many retired pages are a warning."),
        Threshold("corrected", 20_000_000, "{errors}",
                  "AzureHPC: 20 million corrected DRAM errors; gcm tolerates 50 million",
                  "This many corrected errors since driver load are a warning."),
    )  # fmt: skip

    def examine(self, patient: Patient) -> Iterator[Finding]:
        gpus = patient.gpus
        if not any(_keeps_records(gpu) for gpu in gpus):
            raise Unavailable(say("the cards keep no record of memory errors (no ECC)"))
        found = [(gpu, symptoms) for gpu in gpus if (symptoms := list(self._symptoms(gpu)))]
        used = [(gpu, items) for gpu, items in found if not left_out(patient, [gpu])]
        yield from self._by_severity(used)
        yield from demoted(self._by_severity([pair for pair in found if pair not in used]))

    def _by_severity(self, found: list[tuple[Gpu, list[_Symptom]]]) -> Iterator[Finding]:
        for severity in reversed(Severity):
            group = [
                (gpu, items)
                for gpu, items in found
                if max((item.severity for item in items), key=lambda one: one.rank) is severity
            ]
            if group:
                yield self._finding(severity, group)

    def _finding(self, severity: Severity, group: list[tuple[Gpu, list[_Symptom]]]) -> Finding:
        subject = name_gpus(gpu for gpu, _ in group)
        actions = {item.action for _, items in group for item in items if item.severity is severity}
        action = next(name for name in ("replace", "reset", "reset-later", "watch") if name in actions)
        words = [
            say("{card}: {words}", card=gpu.label, words=concatenated(", ", [item.words for item in items]))
            for gpu, items in group
        ]
        return self.finding(
            say("{words}.", words=concatenated("; ", words)),
            evidence=tuple(
                Measurement(
                    f"gpu{gpu.index}_{item.name}",
                    item.value,
                    "" if isinstance(item.value, bool) else "{count}",
                    reproduce=f"nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT -i {gpu.index}",
                )
                for gpu, items in group
                for item in items
            ),
            confidence=Confidence.CONFIRMED,
            severity=severity,
            cost=Cost(breaks=say("the job dies when it accesses the faulty memory"))
            if severity is Severity.ERROR
            else None,
            subject=subject,
            detail=MemoryErrorsDetail(gpus=list_gpus(gpu for gpu, _ in group), action=action),
        )

    def _symptoms(self, gpu: Gpu) -> Iterator[_Symptom]:
        yield from self._remap(gpu)
        yield from self._ecc(gpu)
        yield from self._pages(gpu)
        if gpu.inforom_valid is False:
            yield _Symptom(Severity.WARNING, say("the InfoROM is corrupt"), "watch", "inforom_valid", False)

    def _remap(self, gpu: Gpu) -> Iterator[_Symptom]:
        remap = gpu.row_remap
        if isinstance(remap, RowRemap):
            lost = remap.uncorrectable
            if remap.failure:
                yield _Symptom(Severity.ERROR, say("a row remap failed"), "replace", "row_remap_failure", True)
            elif lost >= self.limit("uncorrectable_remaps"):
                words = say("{lost} rows remapped for uncorrectable errors", lost=lost)
                yield _Symptom(Severity.ERROR, words, "replace", "row_remap_uncorrectable", lost)
            if remap.pending:
                severity = Severity.ERROR if lost else Severity.WARNING
                why = say(", {lost} uncorrectable", lost=lost) if lost else ""
                words = say("a row remap waits for a reset{why}", why=why)
                yield _Symptom(severity, words, "reset" if lost else "reset-later", "row_remap_pending", True)
        banks = gpu.row_remap_exhausted_banks
        if isinstance(banks, int) and banks > 0:
            words = say("{banks} memory banks have no spare row left", banks=banks)
            yield _Symptom(Severity.WARNING, words, "watch", "row_remap_exhausted_banks", banks)

    def _ecc(self, gpu: Gpu) -> Iterator[_Symptom]:
        count = gpu.ecc_uncorrected_volatile
        if isinstance(count, int) and count >= self.limit("uncorrectable"):
            words = say("{count} uncorrectable ECC errors since the driver was loaded", count=count)
            yield _Symptom(Severity.ERROR, words, "reset", "ecc_uncorrected_volatile", count)
        if gpu.ecc_sram_threshold_exceeded is True:
            words = say("more SRAM errors than the card tolerates")
            yield _Symptom(Severity.ERROR, words, "replace", "ecc_sram_threshold_exceeded", True)
        sram = gpu.ecc_sram_uncorrected_aggregate
        if isinstance(sram, int) and sram >= self.limit("sram_aggregate"):
            words = say("{sram} uncorrectable SRAM errors over its life", sram=sram)
            yield _Symptom(Severity.ERROR, words, "replace", "ecc_sram_uncorrected_aggregate", sram)
        corrected = gpu.ecc_corrected_volatile
        if isinstance(corrected, int) and corrected >= self.limit("corrected"):
            words = say("{corrected:,} corrected ECC errors since the driver was loaded", corrected=corrected)
            yield _Symptom(Severity.WARNING, words, "watch", "ecc_corrected_volatile", corrected)

    def _pages(self, gpu: Gpu) -> Iterator[_Symptom]:
        pages = gpu.retired_pages
        if isinstance(pages, int) and pages >= self.limit("retired_pages_warning"):
            full = pages >= self.limit("retired_pages")
            severity = Severity.ERROR if full else Severity.WARNING
            yield _Symptom(
                severity,
                say("{pages} retired pages", pages=pages),
                "replace" if full else "watch",
                "retired_pages",
                pages,
            )
        if gpu.retired_pages_pending is True:
            words = say("a page waits for a reset to be retired")
            yield _Symptom(Severity.WARNING, words, "reset-later", "retired_pages_pending", True)


def _keeps_records(gpu: Gpu) -> bool:
    readings = (
        gpu.row_remap, gpu.ecc_uncorrected_volatile, gpu.retired_pages, gpu.retired_pages_pending,
        gpu.ecc_sram_uncorrected_aggregate, gpu.inforom_valid,
    )  # fmt: skip
    return any(not isinstance(reading, Absent) for reading in readings)
