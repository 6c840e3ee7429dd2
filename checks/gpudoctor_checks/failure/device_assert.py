"""FAIL003 device-assert."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.job_log.cuda_words import call_failed, check_failed
from gpudoctor.analysis.run.deaths import Death, death, user_place
from gpudoctor.analysis.run.steady_run import spot
from gpudoctor.lang import say
from gpudoctor.model import (
    Bearing,
    Check,
    Code,
    Confidence,
    Cost,
    Detail,
    Finding,
    LogLine,
    LogMessage,
    Patient,
    Reads,
    Severity,
)
from gpudoctor_checks.failure.exception_causes import beyond


@dataclass(frozen=True, slots=True)
class DeviceAssertDetail(Detail):
    """What the rule reads."""

    asserted: bool
    """A device-side assert, such as that of an index."""
    cure: str
    """What helps against an index out of range; "" where none is seen."""


class DeviceAssert(Check):
    """A kernel on the device failed: an assertion, or an illegal memory access.

    What it finds:
        An exception about a device-side assert, an illegal memory access or another device error. The finding
        names the last user line before it.
    Why it hurts:
        The error appears at a later call than its cause, and the process can no longer use the device.
    How it knows:
        From a recording: the exception's message, the step and the phase. CUDA reports kernels' errors late, so
        the line is where the error appeared. If the labels of earlier losses came from the loader's batch,
        gpudoctor checks those of the last batch. It compares them with the number of classes. From a job's log:
        the messages that name it, in the exception or line that came first.
    False alarms:
        Out of memory is a different error with its own check.
    Remedies:
        Check labels and indices first: a class number at or above the number of classes is the usual cause.
        CUDA_LAUNCH_BLOCKING=1 shows the true line.
    References:
        - https://pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
    """

    code = Code("FAIL003")
    name = "device-assert"
    reads = frozenset({Reads.RECORDING, Reads.LOG})
    severity = Severity.ERROR
    log_messages = (
        LogMessage(
            kind="label",
            cue=("n_classes", "cur_target"),
            pattern="Assertion `?t >= 0 && t < n_classes`? failed|cur_target >= 0 && cur_target < n_classes|"
            "t >= 0 && t < n_classes",
            text="A label is out of range: it is negative, or not below the number of classes.",
            everywhere=True,
            source="aten: NLLLoss.cu",
        ),
        LogMessage(
            kind="token",
            cue=(" is not in [0, ", "srcindex < srcselectdimsize", "ind < num_indices", "index out of range in self"),
            pattern=r"indices\[[\d,]{1,60}\] = -?\d+ is not in \[0, \d+\)|"
            "srcIndex < srcSelectDimSize|index out of range in self",
            text="An index into an embedding is out of range. It is a token id beyond the vocabulary, or a "
            "position beyond the maximum length.",
            everywhere=True,
            source="aten: Indexing.cu; https://github.com/huggingface/transformers/issues/1848",
        ),
        LogMessage(
            kind="index",
            cue=("index out of bounds", "idx_dim >= 0", "-sizes[i] <= index"),
            pattern="[Aa]ssertion `?.{0,60}index out of bounds|idx_dim >= 0 && idx_dim < index_size|"
            r"-sizes\[i\] <= index && index < sizes\[i\]",
            text="An index of a gather, scatter or indexing operation is out of bounds.",
            everywhere=True,
            source="aten: IndexKernel.cu, ScatterGatherKernel.cu",
        ),
        LogMessage(
            kind="range-assert",
            cue=(
                "should be between 0 and 1",
                "assertion `input_val",
                "target_val",
                ">= 0. && ",
                "assertion `probability",
            ),
            pattern="all elements of (?:input|target) should be between 0 and 1|"
            r"Assertion `(?:input_val >= zero && input_val <= one|\*?input >= 0\. && \*?input <= 1\.|"
            "target_val >= zero && target_val <= one|probability.{0,40})`? failed",
            text="A value outside 0 to 1 reached a binary cross-entropy or a sampling (or it was NaN).",
            everywhere=True,
            source="aten: Loss.cu",
        ),
        LogMessage(
            kind="assert",
            cue=("device-side assert", "cudaerrorassert"),
            pattern="device-side assert(?: triggered)?|cudaErrorAssert",
            text="A kernel stopped at a device-side assert: an index, a label or a token id is out of range.",
            general=True,
        ),
        LogMessage(
            kind="assert",
            cue=("device-side assert triggered",),
            pattern="terminated with exception: (?:CUDA|HIP) error: device-side assert triggered|"
            + call_failed("device-side assert triggered"),
            text="A kernel stopped at a device-side assert: an index, a label or a token id is out of range.",
            everywhere=True,
            general=True,
            source="torch: ProcessGroupNCCL.cpp",
        ),
        LogMessage(
            kind="illegal-access",
            cue=(
                "illegal memory access",
                "misaligned address",
                "unspecified launch failure",
                "cudaerrorillegaladdress",
                "illegal instruction was encountered",
                "an illegal",
                "cudaerrorlaunchfailure",
            ),
            pattern="illegal memory access|misaligned address|unspecified launch failure|"
            "cudaErrorIllegalAddress|cudaErrorLaunchFailure|an illegal instruction was encountered",
            text="A kernel accessed memory that is not its own: a fault of a kernel or an index beyond its tensor.",
            source="https://github.com/Dao-AILab/flash-attention/issues/483",
        ),
        LogMessage(
            kind="illegal-access",
            cue=(
                "illegal memory access was encountered",
                "misaligned address",
                "unspecified launch failure",
                "memory access fault by gpu",
                "hsa_status_error_",
                "cuda_error_",
            ),
            pattern=r"(?:terminated with exception: |[Ee]rror \([^)\n]{1,300}\): )(?:(?:CUDA|HIP) "
            "error: )?(?:an illegal memory access was encountered|misaligned address|"
            "unspecified launch failure)|"
            r"Memory access fault by GPU node-\d+|HSA_STATUS_ERROR_(?:EXCEPTION|"
            r"MEMORY_APERTURE_VIOLATION|MEMORY_FAULT|ILLEGAL_INSTRUCTION)\b|"
            r"\bCUDA_ERROR_(?:ILLEGAL_ADDRESS|MISALIGNED_ADDRESS|ILLEGAL_INSTRUCTION|LAUNCH_FAILED)\b",
            text="A kernel accessed memory that is not its own: a fault of a kernel or an index beyond its tensor.",
            everywhere=True,
            source="cuda.h: names that XLA, Triton and other users of the driver print",
        ),
        LogMessage(
            kind="illegal-access",
            cue=(
                "success (4 vs. 0)",
                *(f"success (7{number} vs. 0)" for number in ("7", "00", "16", "19")),
                ": an illegal memory access was encountered",
            ),
            pattern=check_failed("4|77|700|716|719") + r"|^Line \d{1,6}: an illegal memory access was encountered",
            text="A kernel accessed memory that is not its own: a fault of a kernel or an index beyond its tensor.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            source="Caffe, MXNet: glog's CHECK; diff-gaussian-rasterization: auxiliary.h",
        ),
        LogMessage(
            kind="illegal-access",
            cue=(
                "illegal memory access",
                "misaligned address",
                "unspecified launch failure",
                "an illegal instruction",
                "hardware stack error",
                "invalid program counter",
            ),
            pattern=call_failed(
                r"an illegal (?:memory access|instruction)|misaligned address|unspecified launch failure|"
                r"hardware stack error|invalid program counter"
            ),
            text="A kernel accessed memory that is not its own: a fault of a kernel or an index beyond its tensor.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            closing=True,
            source="CUDA driver_types.h, HIP; how C++ programs print it",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        recording = patient.recorded_run
        told = death(recording)
        if told is None or told.death is not Death.ASSERT:
            return

        place = user_place(told)
        spans = [spot(patient, place[0])] if place is not None else []
        first = told.message.strip().split(chr(10))[0][:200]
        outside = beyond(told)
        why = say(" {outside}.", outside=outside[0]) if outside is not None else ""
        when = say(" at step {step}", step=told.step) if told.step else ""
        yield self.finding(
            say(
                "A kernel on the device failed{when}: {first}.{why} The reported line is not always "
                "the line that "
                "launched the kernel.",
                when=when,
                first=first,
                why=why,
            ),
            evidence=(*spans, LogLine(origin="the training", text=f"{told.kind}: {told.message}"[:400])),
            confidence=Confidence.CONFIRMED,
            cost=Cost(breaks=say("the run died")),
            subject=told.kind,
            detail=DeviceAssertDetail(
                asserted="device-side assert" in told.message, cure=outside[1] if outside is not None else ""
            ),
        )
