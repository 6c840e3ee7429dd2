"""Answers DATA012 slow-start."""

from collections.abc import Iterator

from gpudoctor.analysis.source.syntax_edits import settable, without
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import (
    Applicability,
    Code,
    Edit,
    Effort,
    Finding,
    KeywordEdit,
    Patient,
    Remedy,
    Resource,
    Rule,
    Setting,
    TextEdit,
    Unavailable,
)
from gpudoctor.model.job_devices import cpus_per_rank, ranks_here
from gpudoctor.model.signs.configs import ConfigFile
from gpudoctor_checks.data.slow_start import SlowStartDetail

_MOST = 16
"""Processes that LLaMA-Factory's own examples use; beyond, disks are the limit."""
_FALLBACK = 4
"""Where the machine that will train is not known."""


class SlowStartRule(Rule):
    """Processes for this machine's CPUs; the cache on."""

    answers = Code("DATA012")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(SlowStartDetail)
        if detail.how == "recording":
            yield _store()
            return
        processes, why = processes_for(patient)
        edits = _in_config(finding, patient, processes) if detail.how == "config" else _in_source(
            finding, patient, processes
        )  # fmt: skip
        key = "preprocessing_num_workers" if detail.how == "config" else "num_proc"
        if detail.kind == "workers" and processes == 1:
            yield _store()  # one process more would change nothing
            return
        if detail.kind == "workers":
            yield Remedy(
                id="DATA012-processes",
                title=f"{key}={processes}",
                steps=(say("{key}={processes}   # {why}", key=key, processes=processes, why=why),),
                applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
                effort=Effort.ONE_LINE,
                sets=((key, str(processes)),),
                uses=frozenset({Resource.CPU, Resource.HOST_MEMORY}),
                edits=edits,
                references=("https://huggingface.co/docs/datasets/process#multiprocessing",),
            )
            return
        yield Remedy(
            id="DATA012-cache",
            title="leave the cache of prepared data on",
            steps=(
                "Remove load_from_cache_file=False, disable_caching() or overwrite_cache: true.",
                "datasets finds changes of the function and of its arguments by itself.",
            ),
            applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
            uses=frozenset({Resource.DISK}),
            edits=edits,
            references=("https://huggingface.co/docs/datasets/cache",),
        )


def _store() -> Remedy:
    """For work that a recording saw before the first step, whatever it is."""
    return Remedy(
        id="DATA012-store",
        title="prepare once and store the result; the next start reads it",
        steps=(
            "if not path.exists(): numpy.save(path, prepare())      # or torch.save, datasets' own cache",
            "data = numpy.load(path, mmap_mode='r')                 # there at once, shared by all ranks "
            "and workers",
            "what must be prepared each time: multiprocessing.Pool().map, one rank for all of them",
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
        uses=frozenset({Resource.DISK}),
    )


def processes_for(patient: Patient) -> tuple[int, str]:
    """Processes to prepare the data with and the numbers behind them; the other ranks wait for the cache."""
    try:
        cpus, origin = cpus_per_rank(patient)
    except Unavailable as error:
        return _FALLBACK, say("a start where the CPUs are not known: {error}", error=error)
    return max(1, min(_MOST, int(cpus * ranks_here(patient)))), say(
        "{origin}, at most {most}", origin=origin, most=_MOST
    )


def _in_source(finding: Finding, patient: Patient, processes: int) -> tuple[Edit, ...]:
    detail = finding.detail_of(SlowStartDetail)
    span = finding.span
    script = next((item for item in scripts_given(patient).scripts if span and item.path == span.path), None)
    if span is None or script is None:
        return ()
    if detail.kind == "off":
        edit = without(script, span)
        return (edit,) if edit is not None else ()
    if detail.kind == "cache":
        if not settable(scripts_given(patient), span, method="map", remove=("load_from_cache_file",)):
            return ()
        return (
            KeywordEdit(
                path=span.path,
                line=span.line,
                column=span.column,
                remove=("load_from_cache_file",),
                method="map",
            ),
        )
    if not settable(scripts_given(patient), span, "num_proc", method="map", free=1):
        return ()
    return (
        KeywordEdit(
            path=span.path,
            line=span.line,
            column=span.column,
            set=(("num_proc", str(processes)),),
            method="map",
        ),
    )


def _in_config(finding: Finding, patient: Patient, processes: int) -> tuple[Edit, ...]:
    detail = finding.detail_of(SlowStartDetail)
    setting = next((item for item in finding.evidence if isinstance(item, Setting)), None)
    file = next((item for item in patient.configs.files if setting and item.path == setting.path), None)
    if setting is None or file is None or file.format != "yaml":
        return ()
    entry = file.entries[setting.key]
    if detail.kind == "cache" or entry.last == "preprocessing_num_workers":
        edit = file.edit(entry, "false" if detail.kind == "cache" else str(processes))
        return (edit,) if edit is not None else ()
    return _line_after(file, setting.key, processes)


def _line_after(file: ConfigFile, key: str, processes: int) -> tuple[Edit, ...]:
    """A new key on the line after the data set's, in a flat file."""
    entry = file.entries[key]
    lines = file.text.splitlines()
    if "." in key or entry.end_line > len(lines) or entry.column != 1:
        return ()
    end = len(lines[entry.end_line - 1]) + 1
    return (
        TextEdit(
            path=file.path,
            line=entry.end_line,
            column=end,
            end_line=entry.end_line,
            end_column=end,
            new_text=f"\npreprocessing_num_workers: {processes}",
            expected="",
        ),
    )
