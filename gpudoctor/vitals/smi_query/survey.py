"""From a saved `nvidia-smi -q` to the survey that the live driver would have given."""

import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, TypeVar

from gpudoctor.analysis.saved_gpus import NOT_HELD, not_held
from gpudoctor.lang import say
from gpudoctor.model.signs.gpu import DriverState, Gpu, GpuProcess, GpuSurvey, LostGpu, RowRemap
from gpudoctor.model.unavailable import Absent, Reading
from gpudoctor.text import joined
from gpudoctor.vitals.nvml.reading import short_address
from gpudoctor.vitals.smi_query.blocks import GpuBlock, QueryNode
from gpudoctor.vitals.smi_query.fields import PATHS, REASON_SECTIONS, REASONS

T = TypeVar("T")

_MIB = 1 << 20
_NOT_SUPPORTED = Absent("not supported by this card")
_UNSUPPORTED = {"n/a", "not supported", "requested functionality has been deprecated", "not available"}
_NUMBER = re.compile(r"(-?\d{1,15}(?:\.\d{1,9})?)\s*(?:x|%|C|W|MiB|MHz|us|bank\(s\))?")
_LOST = {"gpu is lost": "lost", "requires reset": "reset required", "reset required": "reset required",
         "insufficient permissions": "no permission"}  # fmt: skip
_ACTIONS = {
    "none": 0, "reset": 1, "gpu reset": 1, "reboot": 2, "node reboot": 2, "drain p2p": 3, "drain and reset": 4,
    "recover imex domain": 5, "reset bus": 6, "bus reset": 6, "reboot system": 7, "system reboot": 7,
}  # fmt: skip
_COMPUTE = {"default": 0, "exclusive thread": 1, "prohibited": 2, "exclusive process": 3}
_FABRIC = {"not started": 1, "in progress": 2, "completed": 3}


class Turns:
    """What a file says of each GPU, the last turn of each; other turns are not kept."""

    def __init__(self) -> None:
        self._blocks: dict[str, GpuBlock] = {}
        self._lost: dict[str, GpuBlock] = {}
        self._corrupt: set[str] = set()

    def add(self, block: GpuBlock) -> None:
        """One GPU of one turn, in the file's order."""
        address = short_address(block.address)
        if block.inforom_corrupt:
            self._corrupt.add(address)
        elif block.error or _cause(block) != "unknown":  # the driver answered for its name that it is not there
            self._lost[address] = block
            self._blocks.pop(address, None)
        else:
            self._blocks[address] = block
            self._lost.pop(address, None)

    def __len__(self) -> int:
        return len(self._blocks) + len(self._lost)

    def survey(self, origin: str) -> GpuSurvey:
        """The survey of the machine that wrote it."""
        # nvidia-smi and NVML count by bus address; a listing of one GPU (`-i`) tells its number alone.
        addresses = sorted({*self._blocks, *self._lost})
        whole = len(addresses) >= self._attached()
        gpus = tuple(
            _gpu(self._blocks[address], index if whole else _minor(self._blocks[address], index), address,
                 corrupt=address in self._corrupt)
            for index, address in enumerate(addresses)
            if address in self._blocks
        )  # fmt: skip
        head = next((block.head for block in [*self._blocks.values(), *self._lost.values()]), QueryNode("head"))
        cuda = _text(head.text("cuda_version"))
        return GpuSurvey(
            driver=DriverState.READY,
            driver_version=_text(head.text("driver_version")),
            cuda_driver_version=_version(cuda),
            kernel_module_version=NOT_HELD,
            pci_devices=(),
            device_nodes=(),
            gpus=gpus,
            lost=tuple(
                LostGpu(index=index, error=_words(self._lost[address]), cause=_cause(self._lost[address]))
                for index, address in enumerate(addresses)
                if address in self._lost
            ),
            pids_visible=False,
            origin=origin,
            unlisted=max(0, self._attached() - len(self)),
        )

    def lacking(self) -> Iterator[str]:
        """What the file does not say, a sentence each."""
        survey = self.survey("")
        if survey.unlisted:
            listed = len(self)
            yield say(
                "it lists {listed} of {total} GPUs; gpudoctor did not examine the others",
                listed=listed,
                total=listed + survey.unlisted,
            )
        if missing := not_held(survey):
            yield say("it does not contain {missing}, so gpudoctor did not examine those", missing=joined(missing))

    def _attached(self) -> int:
        heads = [block.head for block in [*self._blocks.values(), *self._lost.values()]]
        counts = [_whole(head.text("attached_gpus")) for head in heads]
        return max((number for number in counts if isinstance(number, int)), default=0)


def _words(block: GpuBlock) -> str:
    return block.error or block.gpu.text(*PATHS["name"]) or "it does not answer"


def _cause(block: GpuBlock) -> str:
    said = _words(block).lower()
    return next((cause for words, cause in _LOST.items() if words in said), "unknown")


def _minor(block: GpuBlock, index: int) -> int:
    number = _whole(block.gpu.text(*PATHS["minor"]))
    return number if isinstance(number, int) else index


def _gpu(block: GpuBlock, index: int, address: str, *, corrupt: bool) -> Gpu:
    """One GPU; what the file does not hold is absent."""
    tree = block.gpu
    values: dict[str, Any] = {item.name: NOT_HELD for item in fields(Gpu)}
    for name, read in _READERS.items():
        values[name] = read(tree.text(*PATHS[name]))
    values |= {
        "index": index,
        "name": tree.text(*PATHS["name"]) or "NVIDIA GPU",
        "pci_address": address if address else NOT_HELD,
        "ecc_uncorrected_volatile": _sum(tree, "ecc_errors/volatile", _UNCORRECTED),
        "ecc_corrected_volatile": _sum(tree, "ecc_errors/volatile", _CORRECTED),
        "ecc_sram_uncorrected_aggregate": _sum(tree, "ecc_errors/aggregate", _SRAM),
        "row_remap": _row_remap(tree),
        "retired_pages": _retired(tree),
        "recovery_action": _recovery(tree),
        "event_reasons": _reasons(tree),
        "fabric_unhealthy": _fabric_unhealthy(tree),
        "mig_instances": _mig_instances(tree),
        "processes": _processes(tree),
        "inforom_valid": False if corrupt else NOT_HELD,
    }
    return Gpu(**values)


def _text(value: str | None) -> Reading[str]:
    if value is None or not value:
        return NOT_HELD
    if value.strip("[]").lower() in _UNSUPPORTED:
        return _NOT_SUPPORTED
    return value


def _real(value: str | None) -> Reading[float]:
    """A number with or without a unit."""
    words = _text(value)
    if isinstance(words, Absent):
        return words
    found = _NUMBER.fullmatch(words)
    return float(found[1]) if found else Absent(say("nvidia-smi printed {words}", words=words[:60]))


def _whole(value: str | None) -> Reading[int]:
    number = _real(value)
    return number if isinstance(number, Absent) else int(number)


def _times(factor: float) -> Callable[[str | None], Reading[float]]:
    def read(value: str | None) -> Reading[float]:
        number = _real(value)
        return number if isinstance(number, Absent) else number * factor

    return read


def _bytes(value: str | None) -> Reading[int]:
    number = _real(value)
    return number if isinstance(number, Absent) else int(number * _MIB)


def _word(meaning: dict[str, T]) -> Callable[[str | None], Reading[T]]:
    """A reader of a value that is one of some words."""

    def read(value: str | None) -> Reading[T]:
        words = _text(value)
        if isinstance(words, Absent):
            return words
        known = meaning.get(words.replace("_", " ").lower())
        return Absent(say("nvidia-smi printed {words}", words=words[:60])) if known is None else known

    return read


_switch = _word({"enabled": True, "disabled": False})
_yes = _word({"yes": True, "no": False, "pending": True})
_active = _word({"active": True, "not active": False})


_READERS: dict[str, Callable[[str | None], Any]] = {
    "uuid": _text,
    "memory_total": _bytes, "memory_used": _bytes, "utilization": _times(0.01),
    "ecc_sram_threshold_exceeded": _yes,
    "row_remap_exhausted_banks": _whole, "retired_pages_pending": _yes,
    "clock_sm": _whole, "clock_sm_max": _whole,
    "power": _real, "power_limit": _real, "power_limit_default": _real,
    "temperature": _real, "temperature_slowdown": _real, "temperature_max": _real,
    "temperature_memory": _real, "temperature_memory_max": _real, "temperature_margin": _real,
    "pcie_width": _whole, "pcie_width_max": _whole, "pcie_generation": _whole, "pcie_generation_max": _whole,
    "fabric_state": _word(_FABRIC),
    "persistence": _switch, "compute_mode": _word(_COMPUTE), "mig_enabled": _switch, "display_active": _switch,
}  # fmt: skip
_SRAM = ("sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded",
         "sram_uncorrectable_sec_ded")  # fmt: skip
_UNCORRECTED = (*_SRAM, "dram_uncorrectable", "double_bit/total")
_CORRECTED = ("sram_correctable", "dram_correctable", "single_bit/total")


def _sum(tree: QueryNode, section: str, names: tuple[str, ...]) -> Reading[int]:
    """The sum of what is counted under some names; drivers count by kind, older ones in one total."""
    said = [_whole(node.value) for name in names for node in tree.at(f"{section}/{name}")]
    counts = [number for number in said if not isinstance(number, Absent)]
    if counts:
        return sum(counts)
    return said[0] if said else _section(tree, section)


def _section(tree: QueryNode, path: str) -> Absent:
    """Why nothing stands in a section: the card lacks it (`N/A` in its place), or the file does."""
    parts = path.split("/")
    for end in range(len(parts), 0, -1):
        said = _text(tree.text("/".join(parts[:end])))
        if isinstance(said, str):
            return Absent(say("nvidia-smi printed {said}", said=said[:60]))
        if said is not NOT_HELD:
            return said
    return NOT_HELD


def _row_remap(tree: QueryNode) -> Reading[RowRemap]:
    uncorrected = _whole(tree.text(*PATHS["remapped_uncorrected"]))
    pending, failure = _yes(tree.text(*PATHS["remap_pending"])), _yes(tree.text(*PATHS["remap_failure"]))
    if failure is NOT_HELD:
        return _section(tree, "remapped_rows")
    for value in (uncorrected, pending, failure):
        if isinstance(value, Absent):
            return value
    return RowRemap(uncorrectable=uncorrected, pending=pending, failure=failure)  # type: ignore[arg-type]  # none is absent


def _retired(tree: QueryNode) -> Reading[int]:
    pages = [_whole(tree.text(*PATHS[name])) for name in ("retired_single", "retired_double")]
    known = [number for number in pages if not isinstance(number, Absent)]
    if len(known) == len(pages):
        return sum(known)
    first = next(number for number in pages if isinstance(number, Absent))
    return _section(tree, "retired_pages") if first is NOT_HELD else first


def _recovery(tree: QueryNode) -> Reading[int]:
    """NVML's number of what the driver asks for; drivers before 565 say only whether a reset is needed."""
    action = _word(_ACTIONS)(tree.text(*PATHS["recovery_action"]))
    if not isinstance(action, Absent):
        return action
    reset, drain = _yes(tree.text(*PATHS["reset_required"])), _yes(tree.text(*PATHS["drain_recommended"]))
    if reset is True:
        return 1
    if drain is True:
        return 4
    return 0 if reset is False else action


def _reasons(tree: QueryNode) -> Reading[int]:
    """NVML's bits of the reasons for lower clocks."""
    found, bits = False, 0
    for section in REASON_SECTIONS:
        # The text writes the kinds of a hardware slowdown below it.
        tops = [child for top in tree.at(section) for child in top.children]
        for node in (node for top in tops for node in (top, *top.children)):
            name = re.sub(r"^clocks_(?:event|throttle)_reason_", "", node.name)
            active = _active(node.value)
            if name in REASONS and not isinstance(active, Absent):
                found = True
                bits |= REASONS[name] if active else 0
    return bits if found else next(
        (said for section in REASON_SECTIONS if (said := _section(tree, section)) is not NOT_HELD), NOT_HELD
    )  # fmt: skip


def _fabric_unhealthy(tree: QueryNode) -> Reading[bool]:
    state, status = tree.text(*PATHS["fabric_state"]), _text(tree.text(*PATHS["fabric_status"]))
    summary = (tree.text(*PATHS["fabric_summary"]) or "").lower()
    if isinstance(status, Absent):
        return status
    failed = (state or "").lower() == "completed" and status.lower() != "success"
    return failed or summary == "unhealthy"


def _mig_instances(tree: QueryNode) -> Reading[tuple[str, ...]]:
    """The MIG devices by UUID; drivers that leave it out name instance numbers, unique on a GPU."""
    mode = _switch(tree.text(*PATHS["mig_enabled"]))
    if mode is not True:
        return ()
    devices = list(tree.at("mig_device"))
    if not devices:
        return NOT_HELD
    return tuple(
        device.text("mig_uuid")
        or f"GI {device.text('gpu_instance_id') or place} CI {device.text('compute_instance_id') or 0}"
        for place, device in enumerate(devices)
    )


def _processes(tree: QueryNode) -> Reading[tuple[GpuProcess, ...]]:
    said = tree.text("processes")
    if said is None:
        return NOT_HELD
    if _text(said) is _NOT_SUPPORTED:
        return _NOT_SUPPORTED
    return tuple(process for node in tree.at("processes/process_id") for process in _process(node))


def _process(node: QueryNode) -> Iterator[GpuProcess]:
    number = _whole(node.value)
    if isinstance(number, Absent) or number <= 0:
        return
    kinds = (node.text("type") or "C").upper()
    name = _text(node.text("name"))
    for letter, kind in (("C", "compute"), ("G", "graphics")):
        if letter in kinds:
            yield GpuProcess(
                pid=number,
                memory=_bytes(node.text("used_gpu_memory")),
                kind=kind,
                name=None if isinstance(name, Absent) else name.split()[0].rpartition("/")[2][:60] or None,
            )


def _version(words: Reading[str]) -> Reading[tuple[int, int]]:
    if isinstance(words, Absent):
        return words
    found = re.fullmatch(r"(\d{1,4})\.(\d{1,4})", words)
    return (int(found[1]), int(found[2])) if found else Absent(say("nvidia-smi printed {words}", words=words[:60]))
