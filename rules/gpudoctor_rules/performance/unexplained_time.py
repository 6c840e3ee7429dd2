"""Answers PERF014: by what is known of the time; take the lines out of the step, or look for them."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import (
    Applicability,
    Code,
    Effort,
    Finding,
    Patient,
    Remedy,
    Resource,
    Rule,
    SourceSpan,
    Unavailable,
)
from gpudoctor.model.job_devices import cpus_per_rank
from gpudoctor_checks.performance.unexplained_time import UnexplainedTimeDetail

_MOST = 16
"""Environments in processes of their own: beyond that one process is busy with handing over."""
DEAR = 0.5
"""Share of the environment in gathering experience from which on processes of their own are worth it."""
_FALLBACK = 4
"""Where the machine that trains is not known."""


class UnexplainedTimeRule(Rule):
    """By what is known of it: engine, experience, one rank, feeders, a package, a Python loop, lines alone."""

    answers = Code("PERF014")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(UnexplainedTimeDetail)
        nature = detail.nature
        if detail.engine_loop or nature == "one rank":
            return
        if nature == "experience":
            # Where the environment is cheap and the policy's small calls are dear, one process is enough.
            if detail.stepping >= DEAR:
                yield _environments(patient)
        elif nature == "fed":
            yield _feeders(finding)
        elif nature == "foreign":
            yield _foreign(finding)
        else:
            yield _look(finding)


def _environments(patient: Patient) -> Remedy:
    """One for each CPU that this rank has."""
    try:
        count = max(2, min(_MOST, int(cpus_per_rank(patient)[0])))
    except Unavailable:
        count = _FALLBACK
    return Remedy(
        id="PERF014-environments",
        title=say("run {count} environments at once, each in its own process", count=count),
        steps=(
            say(
                "gymnasium.vector.AsyncVectorEnv([make_env] * {count}), or an environment that steps whole arrays",
                count=count,
            ),
            "act on all their observations in one forward pass, under torch.inference_mode()",
            "if the device is idle meanwhile: gather in one process while another one learns",
        ),
        # Other episodes are seen, in another order.
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.REWRITE,
        uses=frozenset({Resource.CPU, Resource.HOST_MEMORY}),
        references=("https://gymnasium.farama.org/api/vector/async_vector_env/",),
    )


def _feeders(finding: Finding) -> Remedy:
    places = [f"{item.path}:{item.line}" for item in finding.evidence if isinstance(item, SourceSpan)]
    return Remedy(
        id="PERF014-feeders",
        title="make the processes that the training waits for faster, or start them before they are needed",
        steps=(
            say("what takes their time: py-spy dump --pid PID of one of them, or {place}", place=places[-1]),
            "keep them alive, and let them make the next data while the training learns from the last",
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
    )


def _foreign(finding: Finding) -> Remedy:
    package, span = finding.detail_of(UnexplainedTimeDetail).package, finding.span
    place = f"{span.path}:{span.line}" if span is not None else say("the forward pass")
    return Remedy(
        id="PERF014-foreign",
        title=say("call {package} once for each input, before the training, and keep what it gives", package=package),
        steps=(
            say(
                "what depends on the input alone ({place}): work it out when the data is read, and store it",
                place=place,
            ),
            "what depends on the weights: write it with operations on tensors",
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
    )


def _look(finding: Finding) -> Remedy:
    places = [f"{item.path}:{item.line}" for item in finding.evidence if isinstance(item, SourceSpan)]
    loop = finding.detail_of(UnexplainedTimeDetail).loop
    if not places:
        title = say("find the lines that take the time")
    elif loop:
        title = say("replace the Python loop at {loop} by operations on whole arrays or tensors", loop=loop)
    else:
        title = say("do the work of {place} once before the loop, or every N steps", place=places[0])
    looks = (
        say("py-spy dump --pid PID, or look at {places}", places=", ".join(places[:3]))
        if places
        else say("py-spy dump --pid PID")
    )
    return Remedy(
        id="PERF014-look",
        title=title,
        steps=(
            say("{looks}: what is computed there, and who needs it on every step?", looks=looks),
            "do it every N steps (if step % 50 == 0:), once before the loop, or on whole tensors",
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
    )
