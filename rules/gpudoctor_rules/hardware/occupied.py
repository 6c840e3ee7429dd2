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
        away = actions.leave_out(self.answers, finding, patient, say("{subject} is not free", subject=finding.subject))
        if away is not None:
            yield away
        gpus = ",".join(str(index) for index in actions.indices(finding))
        nodes = " ".join(f"/dev/nvidia{index}" for index in actions.indices(finding))
        cause = detail.cause
        if cause == "processes" and detail.pids_visible:
            pids = detail.pids
            yield self._by_hand(
                "end",
                say("end the other program (pid {pids})", pids=pids),
                (
                    say("ps -o pid,user,etime,args -p {pids}   # whose is it, and since when?", pids=pids),
                    say("kill {pids}   # when it is yours or left over", pids=pids.replace(",", " ")),
                ),
                Effort.COMMAND,
            )
        elif cause in {"processes", "unseen"}:
            title = say("find which process uses GPU {gpus} from the host", gpus=gpus)
            yield self._by_hand(
                "find-holder",
                title,
                (
                    say("sudo fuser -v {devices}   # on the host", devices=nodes),
                    say(
                        "A process that has died and still occupies memory: reset the GPU when no other "
                        "process uses it."
                    ),
                ),
                Effort.ADMINISTRATOR,
            )
        elif cause == "compute-mode":
            yield self._by_hand(
                "compute-mode",
                say("compute mode default on GPU {gpus}", gpus=gpus),
                (f"sudo nvidia-smi -i {gpus} -c DEFAULT",),
                Effort.ADMINISTRATOR,
            )
        elif cause == "mig":
            yield self._by_hand(
                "mig-off",
                say("turn MIG off on GPU {gpus}", gpus=gpus),
                (say("sudo nvidia-smi -i {gpus} -mig 0   # nothing may run on it", gpus=gpus),),
                Effort.ADMINISTRATOR,
            )
            yield self._by_hand(
                "mig-slice",
                say("give each process one slice: CUDA_VISIBLE_DEVICES=MIG-..."),
                (
                    say("nvidia-smi -L   # the UUIDs of the slices"),
                    say(
                        "export CUDA_VISIBLE_DEVICES=MIG-<uuid>; launch one process (NCCL joins no slices of one GPU)."
                    ),
                ),
                Effort.SETTING,
            )

    def _by_hand(self, word: str, title: str, steps: tuple[str, ...], effort: Effort) -> Remedy:
        return Remedy(
            id=f"{self.answers}-{word}",
            title=title,
            steps=steps,
            applicability=Applicability.DISPLAY_ONLY,
            effort=effort,
        )
