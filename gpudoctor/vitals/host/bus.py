"""InfiniBand devices."""

from gpudoctor.vitals.host.proc_tree import Tree


def infiniband(tree: Tree) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """RDMA devices with a port that is up, and those of them that run over Ethernet (RoCE)."""
    devices, ethernet = [], []
    for name in tree.names("/sys/class/infiniband"):
        ports = [f"/sys/class/infiniband/{name}/ports/{port}" for port in tree.names(
            f"/sys/class/infiniband/{name}/ports"
        )]  # fmt: skip
        states = [tree.text(f"{port}/state") for port in ports]
        # A card whose ports do not say is counted; one whose ports are all down carries nothing.
        told = [state for state in states if state is not None]
        if told and not any("ACTIVE" in state for state in told):
            continue
        devices.append(name)
        layers = {(tree.text(f"{port}/link_layer") or "").strip() for port in ports}
        if layers == {"Ethernet"}:
            ethernet.append(name)
    return tuple(devices), tuple(ethernet)
