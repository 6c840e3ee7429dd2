"""Answers GPU007 occupied."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.hardware.occupied import OccupiedDetail
from gpudoctor_rules.hardware import actions


class OccupiedRule(Rule):
    """The free GPUs, or the way to free the others."""

    answers = Code("GPU007")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(OccupiedDetail)
        away = actions.leave_out(
            self.answers, finding, patient, say("{subject} is not free", subject=finding.subject)
        )
        if away is not None:
            yield away
        gpus = ",".join(str(index) for index in actions.indices(finding))
        nodes = " ".join(f"/dev/nvidia{index}" for index in actions.indices(finding))
        cause = detail.cause
        if cause == "processes" and detail.pids_visible:
            pids = detail.pids
            yield self._by_hand("end", f"end the other program (pid {pids})", (
                f"ps -o pid,user,etime,args -p {pids}   # whose is it, and since when?",
                f"kill {pids.replace(',', ' ')}   # when it is yours or left over",
            ), Effort.COMMAND)  # fmt: skip
        elif cause in {"processes", "unseen"}:
            yield self._by_hand("find-holder", f"find which process uses GPU {gpus} from the host", (
                f"sudo fuser -v {nodes}   # on the host",
                "A process that has died and still occupies memory: reset the GPU when no other process "
                "uses it.",
            ), Effort.ADMINISTRATOR)  # fmt: skip
        elif cause == "compute-mode":
            yield self._by_hand("compute-mode", f"compute mode default on GPU {gpus}", (
                f"sudo nvidia-smi -i {gpus} -c DEFAULT",
            ), Effort.ADMINISTRATOR)  # fmt: skip
        elif cause == "mig":
            yield self._by_hand("mig-off", f"turn MIG off on GPU {gpus}", (
                f"sudo nvidia-smi -i {gpus} -mig 0   # nothing may run on it",
            ), Effort.ADMINISTRATOR)  # fmt: skip
            yield self._by_hand("mig-slice", "give each process one slice: CUDA_VISIBLE_DEVICES=MIG-...", (
                "nvidia-smi -L   # the UUIDs of the slices",
                "export CUDA_VISIBLE_DEVICES=MIG-<uuid>; launch one process (NCCL joins no slices of one GPU).",
            ), Effort.SETTING)  # fmt: skip

    def _by_hand(self, word: str, title: str, steps: tuple[str, ...], effort: Effort) -> Remedy:
        return Remedy(
            id=f"{self.answers}-{word}",
            title=title,
            steps=steps,
            applicability=Applicability.DISPLAY_ONLY,
            effort=effort,
        )
