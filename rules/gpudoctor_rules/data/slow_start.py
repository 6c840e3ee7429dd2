"""Answers DATA012 slow-start."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Resource, Rule, Unavailable
from gpudoctor.model.job_devices import cpus_per_rank, ranks_here
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
        key = "preprocessing_num_workers" if detail.how == "config" else "num_proc"
        if detail.kind == "workers" and processes == 1:
            yield _store()  # one process more would change nothing
            return
        if detail.kind == "workers":
            yield Remedy(
                id="DATA012-processes",
                title=f"{key}={processes}",
                steps=(say("{key}={processes}   # {why}", key=key, processes=processes, why=why),),
                # A function that draws random numbers, or counts, does so in each process for itself.
                applicability=Applicability.DISPLAY_ONLY,
                effort=Effort.ONE_LINE,
                sets=((key, str(processes)),),
                uses=frozenset({Resource.CPU, Resource.HOST_MEMORY}),
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
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.ONE_LINE,
            uses=frozenset({Resource.DISK}),
            references=("https://huggingface.co/docs/datasets/cache",),
        )


def _store() -> Remedy:
    """For work that a recording saw before the first step, whatever it is."""
    return Remedy(
        id="DATA012-store",
        title="prepare once and store the result; the next start reads it",
        steps=(
            "if not path.exists(): numpy.save(path, prepare())      # or torch.save, datasets' own cache",
            "data = numpy.load(path, mmap_mode='r')                 # there at once, shared by all ranks and workers",
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
