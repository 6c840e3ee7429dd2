"""What kind of container the examined process is in."""

from collections.abc import Mapping

from gpudoctor.vitals.host.proc_tree import Tree


def container_kind(tree: Tree, variables: Mapping[str, str]) -> str | None:
    """`kubernetes`, `singularity`, `podman`, `docker`, `enroot`, `lxc`, another name, or None on bare metal."""
    group = tree.of_process("cgroup") or ""
    if (
        "KUBERNETES_SERVICE_HOST" in variables
        or "kubepods" in group
        or tree.exists("/var/run/secrets/kubernetes.io")
        or tree.exists("/run/secrets/kubernetes.io")
    ):
        return "kubernetes"
    named = {"SINGULARITY_CONTAINER", "APPTAINER_CONTAINER", "SINGULARITY_NAME", "APPTAINER_NAME"}
    if named & variables.keys() or tree.exists("/.singularity.d"):
        return "singularity"
    if tree.exists("/run/.containerenv") or "/libpod" in group:
        return "podman"
    if tree.exists("/.dockerenv") or "/docker/" in group or "/docker-" in group:
        return "docker"
    if "ENROOT_ROOTFS" in variables:
        return "enroot"
    if "/lxc" in group:
        return "lxc"
    return variables.get("container") or None  # systemd's convention, for the first process's children
