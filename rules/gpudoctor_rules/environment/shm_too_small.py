"""Answers ENV006 shm-too-small."""

from collections.abc import Iterator

from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Resource, Rule
from gpudoctor_checks.environment.shm_too_small import ShmTooSmallDetail

GIB = 1 << 30
_PER_WORKER = GIB // 4
"""Bytes: two prefetched batches of 128 MiB, a batch of 200 images of 224 x 224 in fp32."""
_USUAL_WORKERS = 4
"""Workers to provide for when nobody says how many there are."""
_DOCKER = "https://docs.docker.com/reference/cli/docker/container/run/"
_KUBERNETES = "https://kubernetes.io/docs/concepts/storage/volumes/#emptydir"


class ShmTooSmallRule(Rule):
    """The size to give, and the line that gives it in this kind of container."""

    answers = Code("ENV006")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        if finding.detail_of(ShmTooSmallDetail).full:
            return
        gib = _size(finding, patient) // GIB
        host = optional(lambda: patient.host)
        kind = host.container if host is not None else None
        steps, effort, reference = _lines(kind, gib)
        yield Remedy(
            id=f"{self.answers}-size",
            title=say("give /dev/shm {gib} GiB", gib=gib),
            steps=steps,
            applicability=Applicability.DISPLAY_ONLY,
            effort=effort,
            sets=(("shm_size", f"{gib}g"),),
            uses=frozenset({Resource.HOST_MEMORY}),
            references=(reference,),
        )


def _size(finding: Finding, patient: Patient) -> int:
    """Bytes: what all workers hold ready, a power of two of at least 2 GiB, half the memory at most."""
    detail = finding.detail_of(ShmTooSmallDetail)
    workers, ranks = detail.workers, detail.ranks or 1
    need = max(detail.need, ranks * (workers or _USUAL_WORKERS) * _PER_WORKER)
    wanted = 2 * GIB
    while wanted < need:
        wanted *= 2
    host = optional(lambda: patient.host)
    if host is None:
        return wanted
    half = min(host.memory_total, host.memory_limit or host.memory_total) // 2
    return max(GIB, min(wanted, half // GIB * GIB))


def _lines(kind: str | None, gib: int) -> tuple[tuple[str, ...], Effort, str]:
    """Lines to copy, effort and reference."""
    if kind == "kubernetes":
        return (
            (
                say("volumes: [{{name: shm, emptyDir: {{medium: Memory, sizeLimit: {gib}Gi}}}}]", gib=gib),
                say("volumeMounts: [{{name: shm, mountPath: /dev/shm}}]"),
                say("the volume counts as the pod's memory: its limit has to hold {gib} GiB more", gib=gib),
            ),
            Effort.SETTING,
            _KUBERNETES,
        )
    if kind in {"docker", "podman"}:
        return (
            (
                say("{kind} run --shm-size={gib}g ...", kind=kind, gib=gib),
                say("in a compose file: shm_size: {gib}gb", gib=gib),
            ),
            Effort.SETTING,
            _DOCKER,
        )
    if kind is not None:
        return (
            (
                say(
                    "the container shares the node's /dev/shm: sudo mount -o remount,size={gib}G /dev/shm there",
                    gib=gib,
                ),
            ),
            Effort.ADMINISTRATOR,
            "https://man7.org/linux/man-pages/man5/tmpfs.5.html",
        )
    return (
        (
            f"sudo mount -o remount,size={gib}G /dev/shm",
            say("for every boot, in /etc/fstab: tmpfs /dev/shm tmpfs defaults,size={gib}G 0 0", gib=gib),
        ),
        Effort.ADMINISTRATOR,
        "https://man7.org/linux/man-pages/man5/tmpfs.5.html",
    )
