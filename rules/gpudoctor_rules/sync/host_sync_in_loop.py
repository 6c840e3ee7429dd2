"""Answers SYNC001 host-sync-in-loop."""

from collections.abc import Iterator

from gpudoctor.analysis.source.steering_reads import steers
from gpudoctor.analysis.source.syntax_places import lines_at
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule, SourceSpan
from gpudoctor_checks.sync.host_sync_in_loop import HostSyncInLoopDetail

_EVERY = 50
"""Steps between reads: a reader of curves sees no difference, and a wait every 50 steps costs 1/50."""


class HostSyncInLoopRule(Rule):
    """Read less often, and add up on the device meanwhile."""

    answers = Code("SYNC001")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(HostSyncInLoopDetail)
        reads = float(detail.reads or 1)
        places = [part for part in finding.evidence if isinstance(part, SourceSpan)]
        if detail.copies:
            return
        needed = [place for place in places if steers(scripts_given(patient), place)]
        if needed:
            yield _on_the_device(needed)
        if places and len(needed) == len(places):
            return
        yield Remedy(
            id="SYNC001-every",
            title=say("Add up on the device, read every {every} steps", every=_EVERY),
            steps=(
                "Before the loop: running = torch.zeros((), device=device)",
                "In the loop: running += loss.detach()",
                f"if step % {_EVERY} == 0: log(running.item() / {_EVERY}); running.zero_()",
                "Give progress bars and trackers that value, and only then.",
            ),
            applicability=Applicability.SAFE,
            effort=Effort.SMALL_EDIT,
            override=(("reads", str(_EVERY)),),
            sets=(("host_reads.every", str(_EVERY)),),
            references=(
                "https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization",
            ),
        )
        if reads >= 2 and float(detail.waits or reads) >= 2:
            yield Remedy(
                id="SYNC001-together",
                title=say("Fetch the {count:.0f} values in one transfer", count=reads)
                if reads < 3
                else "Fetch them in one transfer",
                steps=(
                    "values = torch.stack([loss.detach(), accuracy, norm]).tolist()  # one wait",
                    "Do branches on tensors on the device: torch.where(condition, a, b).",
                ),
                applicability=Applicability.SAFE,
                effort=Effort.SMALL_EDIT,
            )


def _on_the_device(places: list[SourceSpan]) -> Remedy:
    """For reads whose value or wait the step needs: a read every 50 steps would be another training."""
    where = lines_at(places)
    return Remedy(
        id="SYNC001-device",
        title=say("keep the decision on the device ({where})", where=where),
        steps=(
            "The step goes by this value, or waits here on purpose: do not read it less often.",
            "Choose on the device: torch.where(condition, a, b), or scale by condition.to(loss.dtype).",
            "If only the order of two streams matters, record an event and let the other stream wait for it.",
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.SMALL_EDIT,
        references=("https://docs.pytorch.org/docs/stable/generated/torch.cuda.Stream.html",),
    )
