"""Rules on the topic: hardware."""

from collections.abc import Iterator

from gpudoctor.lang import say, template
from gpudoctor.model import Applicability, Effect, EffectOrigin, Effort, Finding, Patient, Remedy, Severity, answers
from gpudoctor.model.job_devices import CardsDetail, chosen, job_gpus
from gpudoctor.model.signs.kernel_log import KernelLog
from gpudoctor.model.unavailable import optional
from gpudoctor.text import count
from gpudoctor_rules.remedies import remedy

_RESET_DOC = "https://docs.nvidia.com/deploy/gpu-debug-guidelines/index.html"


def _listed(finding: Finding) -> str:
    """The GPUs that the finding is about, for a command: `0,3`."""
    return str(finding.detail_of(CardsDetail).gpus).replace(" ", "")


def _leave_out(finding: Finding, patient: Patient, why: str) -> Iterator[Remedy]:
    """Run on the other GPUs, by number; nothing when there are none or the finding names none."""
    sick = {int(number) for number in _listed(finding).split(",") if number.isdigit()}
    rest = [gpu.index for gpu in optional(lambda: job_gpus(patient)) or () if gpu.index not in sick]
    if not rest or not sick:
        return
    only = chosen(patient)
    if only is not None and not only & sick:  # the job keeps off these GPUs already
        return
    listed = ",".join(str(index) for index in rest)
    ranks = say("one rank a GPU is {ranks} then", ranks=count(len(rest), "rank"))
    yield remedy(
        f"{finding.code}-leave-out",
        f"CUDA_VISIBLE_DEVICES={listed}",
        say("export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={gpus}   # {why}", gpus=listed, why=why),
        say(
            "Launch with --nproc_per_node={rest} ({ranks}; keep the global batch by accumulation).",
            rest=len(rest),
            ranks=ranks,
        ),
        applicability=Applicability.UNSAFE,
        effort=Effort.SETTING,
        sets=(("CUDA_VISIBLE_DEVICES", listed),),
        override=(("env.CUDA_VISIBLE_DEVICES", listed), ("env.CUDA_DEVICE_ORDER", "PCI_BUS_ID")),
    )


def _reset(finding: Finding, *, later: bool = False) -> Remedy:
    """Reset the GPUs of the finding, now or when they are idle."""
    listed = _listed(finding)
    target = f" -i {listed}" if listed else ""
    named = f"GPU {listed}" if listed else say("the GPU")
    return remedy(
        f"{finding.code}-reset",
        say("reset {gpus} when it is idle" if later else "reset {gpus} before it is used again", gpus=named),
        "Drain the node: no job may start on it (Slurm: scontrol update nodename=$(hostname -s) "
        "state=drain reason=gpu-reset).",
        f"sudo nvidia-smi --gpu-reset{target}",
        "If the reset is refused (NVLink peers, a program that uses the GPU): reboot the node.",
        effort=Effort.ADMINISTRATOR,
        references=(_RESET_DOC,),
    )


def _reboot(finding: Finding) -> Remedy:
    """Reboot the node."""
    return remedy(
        f"{finding.code}-reboot",
        "drain and reboot the node",
        "Drain the node so that no job starts on it.",
        "sudo reboot",
        "When the GPU is still missing: power the node off and on, then check power cable, riser and slot.",
        effort=Effort.ADMINISTRATOR,
        references=(_RESET_DOC,),
    )


def _replace(finding: Finding) -> Remedy:
    """Take the card out of use."""
    listed = _listed(finding)
    return remedy(
        f"{finding.code}-replace",
        say("drain the node and have GPU {listed} replaced", listed=listed)
        if listed
        else say("drain the node and have the card replaced"),
        "Drain the node so that no job starts on it.",
        "sudo nvidia-bug-report.sh   # the vendor asks for its file",
        "Ask the vendor for a replacement (RMA) with that file.",
        effort=Effort.ADMINISTRATOR,
        references=(_RESET_DOC,),
    )


def _inspect(finding: Finding, title: str, *steps: str) -> Remedy:
    """Hands on the machine."""
    return remedy(f"{finding.code}-inspect", title, *steps, effort=Effort.ADMINISTRATOR, references=(_RESET_DOC,))


_UNTIL_THEN = {
    "GPU002": template("{subject} slows down"),
    "GPU003": template("{subject} has memory errors"),
    "GPU006": template("{subject} lacks NVLink"),
    "GPU007": template("{subject} is not free"),
    "GPU008": template("{subject} needs recovery"),
    "GPU011": template("{subject} is hot"),
}
"""Why the cards of a finding are left out."""


@answers("GPU002", "GPU003", "GPU006", "GPU007", "GPU008", "GPU011")
def leave_out(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """The other GPUs until then, and what the driver or the card's records ask for; rows name the cure of others."""
    action = getattr(finding.detail_of(CardsDetail), "action", "")
    if action != "reset-later":
        yield from _leave_out(finding, patient, say(_UNTIL_THEN[finding.code], subject=finding.subject))
    yield from _asked(finding, action)


def _asked(finding: Finding, action: str) -> Iterator[Remedy]:
    if action in {"reset", "reset-later"}:
        yield _reset(finding, later=action == "reset-later")
    elif action == "reboot":
        yield _reboot(finding)
    elif action == "replace":
        yield _replace(finding)


_CATALOGUE = "https://docs.nvidia.com/deploy/xid-errors/index.html"


@answers("GPU004")
def xid(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """What the table says about this number, in commands."""
    detail = finding.detail_of(CardsDetail)
    action = detail.action or "watch"
    if action == "follow":  # the driver's own words: `GPU Reset Required`, `Node Reboot Required`...
        words = detail.recovery.lower()
        reset = "reset" if "reset" in words or "drain" in words else "watch"
        action = "reboot" if "reboot" in words else reset
    if finding.severity is Severity.ERROR:
        yield from _leave_out(finding, patient, say("{subject} reported an error", subject=finding.subject))
    yield from _asked(finding, action)
    if action not in {"reset", "reset-later", "reboot", "replace", "check-app"}:
        # Without the log NVML told of the event, and this machine's log is the one to read.
        log = optional(lambda: patient.kernel_log) or KernelLog(origin="journalctl -k", messages=())
        yield _advice(finding, action, log)


def _advice(finding: Finding, action: str, log: KernelLog) -> Remedy:
    titles = {
        "restart-job": say("restart the job"),
        "update-driver": say("update the driver"),
        "restart-vm": say("restart the virtual machine"),
        "fabric": say("read the fabric manager's log"),
        "inspect": say("check cables, riser and slot"),
    }
    job = action in {"restart-job", "watch"}
    return remedy(
        f"GPU004-{action}",
        titles.get(action, say("watch whether it comes back")),
        finding.detail_of(CardsDetail).advice or say("Look the number up in NVIDIA's Xid catalogue."),
        say("{searched}   # what came before it", searched=log.searched("Xid|NVRM")),
        effort=Effort.COMMAND if job else Effort.ADMINISTRATOR,
        references=(_CATALOGUE,),
    )


@answers("GPU005")
def pcie_degraded(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Hands on card and slot; no number for the effect, which depends on the traffic."""
    ratio = finding.detail_of(CardsDetail).ratio
    wins = say(", up to {ratio:.0f}x the bandwidth between host and GPU", ratio=ratio) if ratio is not None else ""
    if finding.severity is Severity.NOTE:
        yield _inspect(
            finding,
            say("move {gpu} to the x16 slot, if the board has a free one{gain}", gpu=finding.subject, gain=wins),
            say("Boards that split 16 lanes between two slots say so in their manual."),
        )
        return
    yield from _leave_out(finding, patient, say("{subject} has a degraded PCIe link", subject=finding.subject))
    yield _inspect(
        finding,
        say("reseat {gpu}{gain}", gpu=finding.subject, gain=wins),
        "sudo lspci -vv -d 10de: | grep -E 'LnkCap:|LnkSta:'   # the link's capability and its state",
        say("Reseat the card; check riser, cable and the slot's setting in the BIOS."),
        say("When it stays so on this slot with another card, the slot or the switch is at fault."),
    )


@answers("GPU010")
def power_limited(finding: Finding) -> Iterator[Remedy]:
    """The default limit, in watts, for the cards that are below it."""
    detail = finding.detail_of(CardsDetail)
    watts, ratio = detail.default, detail.ratio
    gpus = _listed(finding)
    yield remedy(
        "GPU010-default",
        say("set the power limit of GPU {gpus} to {watts:.0f} W", gpus=gpus, watts=watts),
        f"sudo nvidia-smi -i {gpus} -pl {watts:.0f}",
        "First check whether the operator lowered it for the rack's power or cooling.",
        effort=Effort.ADMINISTRATOR,
        # Speed grows more slowly than power, so the power ratio bounds it; memory-bound work gains nothing.
        effect=Effect(quantity="throughput", low=1.0, high=ratio, unit="x", provenance=EffectOrigin.BOUND),
        sets=(("power.limit", f"{watts:.0f}"),),
    )
