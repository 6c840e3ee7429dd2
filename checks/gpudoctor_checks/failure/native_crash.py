"""FAIL006 native-crash."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.run.deaths import Death, death, user_place
from gpudoctor.analysis.run.steady_run import measured, spot
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
    exit_code_cues,
    exit_code_form,
)
from gpudoctor.model.signs.recording import Process
from gpudoctor.text import capitalised
from gpudoctor_checks.failure.mpi_messages import MPI_FAILED

_SEGFAULT = (
    r"段错误|段錯誤|程式記憶體區段錯誤|Speicherzugriffsfehler|Erreur de segmentation|Violación de segmento|"
    r"Errore di segmentazione|Falha de segmentação|Ошибка сегментирования|세그멘테이션 (?:오류|결함)"
)
_SEGFAULT_CUES = (
    "段错误", "段錯誤", "程式記憶體區段錯誤", "speicherzugriffsfehler", "erreur de segmentation", "de segmento",
    "errore di segmentazione", "falha de segmenta", "шибка сегментирования", "세그멘테이션",
)  # fmt: skip
"""The word of the C library for a segmentation fault in other languages."""
_CRASHED = r"(?:^|[:\uff1a] {1,6}\d{1,8} +)"
"""What a shell prints before such a word."""


@dataclass(frozen=True, slots=True)
class NativeCrashDetail(Detail):
    """What the rule reads."""

    profiled: bool
    """It crashed as it ended, with a profiler that was never stopped."""


class NativeCrash(Check):
    """The process crashed outside of Python: a segmentation fault, an abort.

    What it finds:
        A run that ended by SIGSEGV, SIGABRT, SIGILL or SIGFPE. The finding has the Python stack of that moment,
        if recorded, and the extension that is the likely cause.
    Why it hurts:
        The log ends without a traceback or an exception.
    How it knows:
        From a recording: the signal's own record with its stack, the exit code, the kernel's message with the
        library's name. From a job's log: the messages that name it, in the exception or line that came first.
    False alarms:
        An abort that follows an uncaught C++ exception of torch has a message in the log: read it first.
    Remedies:
        Install compatible versions; rebuild the extension against this torch; run the line under gdb.
    References:
        - https://docs.python.org/3/library/faulthandler.html
    """

    code = Code("FAIL006")
    name = "native-crash"
    reads = frozenset({Reads.RECORDING, Reads.LOG})
    severity = Severity.ERROR
    log_messages = (
        LogMessage(
            kind="segfault",
            cue=(
                "zsh: segmentation fault",
                "windows fatal exception: access violation",
                "process finished with exit code -1073741819",
                "segmentation fault",
                *_SEGFAULT_CUES,
                "sigsegv",
                "signal 11",
                "signal: 11",
                "return code = -11",
                *exit_code_cues(-11),
                *exit_code_cues(139),
            ),
            pattern="^zsh: segmentation fault|Windows fatal exception: access violation|Process "
            "finished with exit code -1073741819|"
            r"[Ss]egmentation fault \(core dumped\)|Segmentation fault|"
            r"\bSIGSEGV\b(?! or (?:other|another) unexpected)|exit ?code:? "
            r"?-11\b(?:\) local_rank: (?P<local_rank>\d+))?|"
            r"return code = -11\b|[Ss]ignal 11\b|(?:by|with|from|got|received) signal: 11\b|"
            f"{exit_code_form(-11)}|{exit_code_form(139)}|{_CRASHED}(?:{_SEGFAULT})",
            text="A process[ (local rank {local_rank})] crashed with a segmentation fault in native code.",
            bearing=Bearing.SYMPTOM,
            everywhere=True,
        ),
        LogMessage(
            kind="segfault",
            cue=("]: segfault at ", "] general protection"),
            pattern=r"\b(?P<program>python[\d.]*|pt_[\w-]{1,20}|ray::[\w.:]{1,20}|torchrun|deepspeed|"
            r"accelerate)"
            r"\[(?P<pid>\d+)\](?:: segfault at (?:[^\[\]\n]{0,120} in (?P<library>[\w.+-]+)\[)?|"
            r" general protection)",
            text="Process {pid} ({program}) crashed with a segmentation fault[ in {library}].",
            bearing=Bearing.SYMPTOM,
            everywhere=True,
            source="Linux arch/x86/mm/fault.c, traps.c: of programs that train",
        ),
        LogMessage(
            kind="heap",
            cue=(
                "double free",
                "free(): invalid",
                "malloc(): ",
                "realloc(): invalid",
                "invalid pointer",
                "corrupted",
                "munmap_chunk",
                "invalid next size",
                "stack smashing",
            ),
            pattern=r"double free or corruption|free\(\): invalid|malloc\(\): |corrupted (?:size|"
            r"double-linked|unsorted)|munmap_chunk\(\)|realloc\(\): invalid|stack smashing detected",
            text="Native code corrupted the heap, and the process was aborted.",
            bearing=Bearing.SYMPTOM,
            everywhere=True,
            source="glibc",
        ),
        LogMessage(
            kind="illegal-instruction",
            cue=(
                "trap invalid opcode",
                "zsh: illegal hardware instruction",
                "aren't available on your machine",
                "illegal instruction",
                "fatal python error: illegal",
                "sigill",
                *exit_code_cues(-4),
                *exit_code_cues(132),
            ),
            pattern=r"\btraps: \S{1,40}\[\d+\] trap invalid opcode|^zsh: illegal hardware instruction|"
            r"^Illegal instruction\s*$|was compiled to use "
            r"[\w. ,]{1,60} instructions, but these aren't available on your machine|"
            r"Illegal instruction +\(core dumped\)|task \d+: Illegal instruction|"
            r"Fatal Python error: Illegal instruction|\bSIGILL\b|"
            f"{exit_code_form(-4)}|{exit_code_form(132)}",
            text="A process met an instruction that this CPU does not have: a binary built for another CPU.",
            everywhere=True,
        ),
        LogMessage(
            kind="fpe",
            cue=(
                "trap divide error",
                "floating point exception",
                "floating-point exception",
                "sigfpe",
                *exit_code_cues(-8),
                *exit_code_cues(136),
            ),
            pattern=r"\btraps: (?P<program>python[\d.]*|pt_[\w-]{1,20}|"
            r"ray::\S{1,20})\[(?P<pid>\d+)\] trap divide "
            r"error|Floating point exception *\(core dumped\)|task \d+: Floating point exception|"
            rf"^Error: Floating-point exception\s*$|\bSIGFPE\b|{exit_code_form(-8)}|{exit_code_form(136)}",
            text="A process was ended by an integer division by zero in native code.",
            bearing=Bearing.SYMPTOM,
            everywhere=True,
        ),
        *MPI_FAILED,
        LogMessage(
            kind="abort",
            cue=(
                "zsh: abort",
                "zsh: iot instruction",
                "fatal python error: ",
                "process finished with exit code -1073740791",
                "in another thread when fork() was called",
                "sigabrt",
                "signal 6",
                "signal: 6",
                "return code = -6",
                "aborted",
                "internal assert failed",
                "errors_are_fatal",
                *exit_code_cues(-6),
                *exit_code_cues(134),
            ),
            pattern=r"^zsh: (?:abort|IOT instruction)\b|Fatal Python error: (?!Aborted|Segmentation|"
            "Bus|Illegal|Floating)|Process finished with exit code -1073740791|may have been "
            r"in progress in another thread when fork\(\) was called|"
            r"^Aborted(?: \(core dumped\)|!)?\s*$|\bAborted +\(core dumped\)|INTERNAL ASSERT FAILED|"
            rf"\bSIGABRT\b|{exit_code_form(-6)}|{exit_code_form(134)}|[Ss]ignal 6\b|"
            r"(?:by|with|from|got|received) signal: 6\b|"
            r"return code = -6\b|"
            r"^\S+: \S+ \d+: +\d+ Aborted\b|task \d+: Aborted|Signal: Aborted|MPI_ERRORS_ARE_FATAL",
            text="A process aborted itself in native code.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.SUSPECTED,
            everywhere=True,
        ),
        LogMessage(
            kind="abort",
            cue=("' failed.", ": failed assertion `", "assertion failed: (", "stop reason = hit program assert"),
            pattern=r"\.mm?:\d{1,7}: failed assertion `(?P<said_by>[^\n]{1,200})|^Assertion failed: "
            r"\((?P<asserted>[^\n]{1,200}?)\), function \S{1,100}, file |stop reason = hit program assert|"
            r"^\S{1,200}: \S{1,300}:\d{1,7}: [^\n]{1,300}?: "
            r"Assertion [`'](?P<why>[^\n]{1,200})' failed\.",
            text="A C++ library stopped the process[: {why}][: {said_by}][: {asserted}].",
            everywhere=True,
            general=True,
            source="glibc assert/assert.c; macOS: Metal, libsystem_c, lldb",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
        ),
        LogMessage(
            kind="abort",
            cue=("assertion_failed (", "kaldi_assert: at "),
            pattern=r"^(?:ASSERTION_FAILED \([^()\n]{1,200}(?:\(\)[^()\n]{1,100}){0,2}\) ?:? ?|"
            r"KALDI_ASSERT: at \S{1,100}, failed: )(?:Assertion failed: )?(?P<why>[^\n]{1,200})",
            text="A C++ library stopped the process: [{why}].",
            everywhere=True,
            source="Kaldi src/base/kaldi-error.cc",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
        ),
        LogMessage(
            kind="abort",
            cue=("check failed: ", "f tensorflow/", "f external/"),
            pattern=r"\.(?:cc|cpp|cu|hpp|h):\d{1,6}\] (?:F )?Check failed: (?P<why>[^\n]{1,200})|"
            r"(?:^|: )F (?:tensorflow|external)/\S{1,200}:\d{1,6}\] (?P<said_by>[^\n]{1,200})",
            text="A C++ library stopped the process: [{why}][{said_by}].",
            everywhere=True,
            general=True,
            source="absl and TensorFlow: LOG(FATAL)",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        recording = patient.recorded_run
        told = death(recording)
        if told is None or told.death is not Death.NATIVE:
            return

        place = user_place(told)
        spans = [spot(patient, place[0])] if place is not None else []
        end = recording.end
        lines = [line for line in (end.kernel if end else ()) if "segfault" in line or "trap" in line]
        code = end.exit_code if end is not None and end.exit_code is not None else -1
        when = say(" at step {step}", step=told.step) if told.step else ""
        where = say(" ({path}:{line})", path=spans[0].path, line=spans[0].line) if spans else ""
        many = told.process is not None and len(recording.ranks) > 1
        who = (
            say("rank {process_rank}", process_rank=told.process.rank)
            if many and told.process is not None
            else say("the training")
        )
        profiled = any(map(_left_on, [told.process] if told.process is not None else recording.ranks))
        yield self.finding(
            say(
                "{who} crashed outside of Python as it ended, with {kind}: torch.profiler was still on.",
                who=capitalised(who),
                kind=told.kind or say("a fault"),
            )
            if profiled
            else say(
                "{who} crashed outside of Python{when} with {kind}{where}.",
                who=capitalised(who),
                when=when,
                kind=told.kind or say("a fault"),
                where=where,
            ),
            evidence=(
                *spans,
                *(LogLine(origin="the kernel", text=line) for line in lines[:2]),
                measured("exit_code", code, "1", recording),
            ),
            confidence=Confidence.CONFIRMED,
            severity=Severity.WARNING if profiled else Severity.ERROR,
            cost=Cost(breaks=None if profiled else say("the run died")),
            subject=told.kind,
            detail=NativeCrashDetail(profiled=profiled),
        )


def _left_on(process: Process) -> bool:
    """Whether a process had come to its end in Python, with a profiler that nobody had stopped."""
    end, window = process.last("end"), process.last("window")
    ended = end is not None and bool(end.get("clean"))
    return ended and window is not None and bool(window.get("on")) and window.get("what") == "torch.profiler"
