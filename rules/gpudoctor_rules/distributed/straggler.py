"""Answers DIST001: by the part of the step in which it is late."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.distributed.straggler import StragglerDetail


class StragglingRankRule(Rule):
    """By the part of the step in which it is late."""

    answers = Code("DIST001")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        detail = finding.detail_of(StragglerDetail)
        rank, node, part = detail.rank, detail.node, detail.part
        steps: tuple[str, ...]
        if detail.process:
            steps = (
                say(
                    "gpudoctor watch {process}   # on {node}, while the job runs: what it does meanwhile",
                    process=detail.process,
                    node=node,
                ),
                say("nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE   # on {node}: throttled or shared", node=node),
                say("give every rank the same amount of work: group by length across ranks"),
            )
        elif part == "data_wait":
            steps = (
                say(
                    "check rank {rank}'s shard and disk: longer items, a slower mount, fewer CPUs for its workers",
                    rank=rank,
                ),
                say("the same amount of work for every rank: shuffle before sharding, group by length across ranks"),
            )
        elif part in ("forward", "transfer"):
            steps = (
                say(
                    "nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE on {node}: a card that is throttled or shared",
                    node=node,
                ),
                say(
                    "gpudoctor check   # on that node; longer sequences on one rank look the same: group by "
                    "length across ranks"
                ),
            )
        else:
            steps = (
                say(
                    "check what rank {rank} alone does in a step: logging, saving, evaluation under `if rank == 0`",
                    rank=rank,
                ),
                say("do it every N steps, or in the background"),
            )
        yield Remedy(
            id="DIST001-rank",
            title=say("move work away from rank {rank}{cause}", rank=rank, cause=_of(str(part or ""))),
            steps=steps,
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.SMALL_EDIT,
        )


def _of(part: str) -> str:
    """What it is to be relieved of."""
    if not part:
        return ""
    return say(" of what it alone does") if part == "other" else say(" of its {part}", part=part.replace("_", " "))
