"""From the child's JSON records to the model's types."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from gpudoctor.model.signs.gpu import Gpu, GpuProcess, NvLink, RowRemap
from gpudoctor.model.unavailable import Absent, Reading

T = TypeVar("T")


def reading(value: Any, convert: Callable[[Any], T]) -> Reading[T]:
    """The converted value, or the reason that stands in its place."""
    if value is None:
        return Absent("the driver did not answer")
    if isinstance(value, dict) and "absent" in value:
        return Absent(str(value["absent"]))
    return convert(value)


def gpu(record: Mapping[str, Any], name: Callable[[int], str | None], own_pids: frozenset[int]) -> Gpu:
    """One GPU. `name` looks a pid up, `own_pids` are those of the job under examination."""

    def processes(items: list[dict[str, Any]]) -> tuple[GpuProcess, ...]:
        return tuple(
            GpuProcess(
                pid=item["pid"],
                memory=reading(item["memory"], int),
                kind=item["kind"],
                name=name(item["pid"]),
                ours=item["pid"] in own_pids,
            )
            for item in items
        )

    special: dict[str, Callable[[Any], Any]] = {
        "compute_capability": lambda pair: (int(pair[0]), int(pair[1])),
        "row_remap": lambda row: RowRemap(uncorrectable=row[1], pending=bool(row[2]), failure=bool(row[3])),
        "nvlinks": lambda links: tuple(NvLink(index=link["index"], active=link["active"]) for link in links),
        "mig_instances": tuple,
        "processes": processes,
    }
    values: dict[str, Any] = {
        item.name: reading(record.get(item.name), special.get(item.name, lambda value: value)) for item in fields(Gpu)
    }
    return Gpu(**values)
