"""What can be done about a sick GPU, shared by the rules of this topic."""

from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Unavailable
from gpudoctor.model.job_devices import CardsDetail, chosen, job_gpus
from gpudoctor.text import count

RESET_DOC = "https://docs.nvidia.com/deploy/gpu-debug-guidelines/index.html"


def indices(finding: Finding) -> list[int]:
    """The GPUs that the finding is about."""
    text = finding.detail_of(CardsDetail).gpus
    return [int(part) for part in text.replace(" ", "").split(",") if part.isdigit()]


def others(finding: Finding, patient: Patient) -> list[int]:
    """The GPUs of this machine that the finding is not about."""
    try:
        sick = set(indices(finding))
        return [gpu.index for gpu in job_gpus(patient) if gpu.index not in sick]
    except Unavailable:
        return []


def _aside(finding: Finding, patient: Patient) -> bool:
    """Whether the job keeps off these GPUs already."""
    only = chosen(patient)
    return only is not None and not only & set(indices(finding))


def leave_out(code: Code, finding: Finding, patient: Patient, why: str) -> Remedy | None:
    """Run on the other GPUs, by number; None when there are none or the finding names none."""
    rest = others(finding, patient)
    if not rest or not indices(finding) or _aside(finding, patient):
        return None
    listed = ",".join(str(index) for index in rest)
    ranks = say("one rank a GPU is {ranks} then", ranks=count(len(rest), "rank"))
    return Remedy(
        id=f"{code}-leave-out",
        title=f"CUDA_VISIBLE_DEVICES={listed}",
        steps=(
            say("export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={gpus}   # {why}", gpus=listed, why=why),
            say(
                "Launch with --nproc_per_node={rest} ({ranks}; keep the global batch by accumulation).",
                rest=len(rest),
                ranks=ranks,
            ),
        ),
        applicability=Applicability.UNSAFE,
        effort=Effort.SETTING,
        sets=(("CUDA_VISIBLE_DEVICES", listed),),
        override=(("env.CUDA_VISIBLE_DEVICES", listed), ("env.CUDA_DEVICE_ORDER", "PCI_BUS_ID")),
    )


def reset(code: Code, finding: Finding, *, later: bool = False) -> Remedy:
    """Reset the GPUs of the finding, now or when they are idle."""
    listed = ",".join(str(index) for index in indices(finding))
    target = f" -i {listed}" if listed else ""
    named = f"GPU {listed}" if listed else say("the GPU")
    return Remedy(
        id=f"{code}-reset",
        title=say("reset {gpus} when it is idle" if later else "reset {gpus} before it is used again", gpus=named),
        steps=(
            "Drain the node: no job may start on it (Slurm: scontrol update nodename=$(hostname -s) "
            "state=drain reason=gpu-reset).",
            f"sudo nvidia-smi --gpu-reset{target}",
            "If the reset is refused (NVLink peers, a program that uses the GPU): reboot the node.",
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.ADMINISTRATOR,
        references=(RESET_DOC,),
    )


def reboot(code: Code, *, power: bool = False) -> Remedy:
    """Reboot the node."""
    steps: tuple[str, ...] = (say("Drain the node so that no job starts on it."), "sudo reboot")
    if power:
        steps = (
            *steps,
            say("When the GPU is still missing: power the node off and on, then check power cable, riser and slot."),
        )
    return Remedy(
        id=f"{code}-reboot",
        title="drain and reboot the node",
        steps=steps,
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.ADMINISTRATOR,
        references=(RESET_DOC,),
    )


def replace(code: Code, finding: Finding) -> Remedy:
    """Take the card out of use."""
    listed = ",".join(str(index) for index in indices(finding))
    return Remedy(
        id=f"{code}-replace",
        title=say("drain the node and have GPU {listed} replaced", listed=listed)
        if listed
        else say("drain the node and have the card replaced"),
        steps=(
            "Drain the node so that no job starts on it.",
            "sudo nvidia-bug-report.sh   # the vendor asks for its file",
            "Ask the vendor for a replacement (RMA) with that file.",
        ),
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.ADMINISTRATOR,
        references=(RESET_DOC,),
    )


def inspect(code: Code, title: str, *steps: str) -> Remedy:
    """Hands on the machine."""
    return Remedy(
        id=f"{code}-inspect",
        title=title,
        steps=steps,
        applicability=Applicability.DISPLAY_ONLY,
        effort=Effort.ADMINISTRATOR,
        references=(RESET_DOC,),
    )
