"""Starts the child that talks to the driver, watches the clock, and puts the survey together."""

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpudoctor.lang import say
from gpudoctor.model.signs.gpu import DriverState, Gpu, GpuSurvey, LostGpu
from gpudoctor.model.unavailable import Absent, Unavailable
from gpudoctor.text import duration
from gpudoctor.vitals.host.proc_tree import Tree
from gpudoctor.vitals.nvml import bus, decode
from gpudoctor.vitals.nvml.child_feed import ChildFeed

_LARGEST = 64 << 20
"""Bytes of a record; far more than any machine has to say."""


@dataclass(slots=True)
class ChildOutput:
    """What the child said, and how it ended."""

    records: list[dict[str, Any]] = field(default_factory=list)
    hung: bool = False
    exit_code: int | None = None

    def last(self, name: str) -> dict[str, Any]:
        """The last record of that name, empty when there is none."""
        return next((record for record in reversed(self.records) if record["record"] == name), {})

    @property
    def finished(self) -> bool:
        """Whether the child came to an end that it chose."""
        return bool(self.last("done") or self.last("failed"))


def take(
    *, limit: float, own_pids: frozenset[int] = frozenset(), environment: Mapping[str, str] | None = None
) -> GpuSurvey:
    """The survey; `environment` is the child's (and says where libraries are), this process's by default."""
    surroundings = dict(os.environ if environment is None else environment)
    tree = bus.tree_of(surroundings)
    try:
        child = ChildFeed("examining", longest=_LARGEST, environment=surroundings)
    except OSError as why:
        raise Unavailable("the process that queries the driver cannot be started ({error})", error=why) from None
    said = ChildOutput()
    try:
        # The kernel's files are read while the child waits for the driver.
        nodes = bus.device_nodes(tree)
        devices = bus.pci_devices(tree)
        module = bus.kernel_module_version(tree)
        while not child.ended and not said.hung:
            said.hung = not child.wait(limit)
            said.records += child.records()
        said.exit_code = None if said.hung else child.exit_code()
    finally:
        child.close()
    state, error = _verdict(said, limit)
    gpus, lost = _gpus(said, tree, own_pids)
    driver = said.last("driver")
    return GpuSurvey(
        driver=state,
        driver_error=error,
        driver_version=_driver_version(said),
        cuda_driver_version=decode.reading(driver.get("cuda"), lambda pair: (int(pair[0]), int(pair[1]))),
        kernel_module_version=module,
        pci_devices=devices,
        device_nodes=nodes,
        denied_nodes=bus.denied_nodes(tree, nodes),
        gpus=gpus,
        lost=lost,
        compat_libcuda=bus.compat_libcuda(tree, surroundings),
        pids_visible=bus.pids_visible(tree),
    )


def _verdict(said: ChildOutput, limit: float) -> tuple[DriverState, str]:
    if fault := said.last("fault"):
        raise RuntimeError(say("{error}, while {last}", error=fault["error"], last=said.last("stage").get("stage")))
    failed = said.last("failed")
    if failed.get("state") == "BINDING":
        raise Unavailable(failed["error"])
    if failed:
        return DriverState[failed["state"]], failed["error"]
    if said.last("done"):
        return DriverState.READY, ""
    stage = said.last("stage").get("stage", say("the driver's library was being loaded"))
    if said.hung:
        return DriverState.HUNG, say("no answer within {limit} while {stage}", limit=duration(limit), stage=stage)
    death = say("it ended with exit code {exit_code}", exit_code=said.exit_code)
    if said.exit_code is not None and said.exit_code < 0:
        death = say("it died of {name}", name=signal.Signals(-said.exit_code).name)
    return DriverState.CRASHED, say("{death} while {stage}", death=death, stage=stage)


def _gpus(said: ChildOutput, tree: Tree, own_pids: frozenset[int]) -> tuple[tuple[Gpu, ...], tuple[LostGpu, ...]]:
    def name(pid: int) -> str | None:
        return bus.process_name(tree, pid)

    gpus = [decode.gpu(record, name, own_pids) for record in said.records if record["record"] == "gpu"]
    lost = [
        LostGpu(index=record["index"], error=record["error"], cause=record["cause"])
        for record in said.records
        if record["record"] == "lost"
    ]
    stuck = said.last("stage").get("index")
    if stuck is not None and not said.finished:
        known = {gpu.index for gpu in gpus} | {item.index for item in lost}
        if stuck not in known:
            lost.append(LostGpu(index=stuck, error=say("the driver stopped answering"), cause="driver"))
    return tuple(gpus), tuple(lost)


def _driver_version(said: ChildOutput) -> Any:
    """NVML's word; before NVML can speak, the version in the name of its library's file."""
    driver = said.last("driver")
    if driver:
        return decode.reading(driver.get("version"), str)
    library = said.last("failed").get("library_version") or said.last("stage").get("library_version")
    return str(library) if library else Absent("the driver did not start")
