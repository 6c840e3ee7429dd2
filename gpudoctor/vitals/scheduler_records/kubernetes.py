"""What Kubernetes kept of a pod: `kubectl describe pod`, `kubectl get events`, and pods, jobs and events in JSON.

Its reasons and messages are wordings of a log: JSON is made the rows of those tables, and all is read as a log.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

KINDS = ("Pod", "PodList", "Job", "JobList", "Event", "EventList", "List")
_EVENTS = re.compile(r"(?:NAMESPACE\s+)?LAST SEEN\s+(?:.*\s)?TYPE\s+REASON\s+(?:OBJECT|(?:KIND\s+)?SOURCE\s+MESSAGE)\b")
"""Since Kubernetes 1.13, and before."""
_STATUS = re.compile(r"^Status: {1,40}(Running|Succeeded)\b", re.MULTILINE)
_LIMIT = re.compile(r"^ {2,12}Limits:\n(?: {6,40}\S.*\n){0,20}? {6,40}memory: {1,40}(\S{1,40})", re.MULTILINE)


def is_events(lines: list[str]) -> bool:
    """Whether a text is the table of `kubectl get events`."""
    return bool(lines) and _EVENTS.match(lines[0]) is not None


def is_description(lines: list[str]) -> bool:
    """Whether a text is of `kubectl describe pod`."""
    return (
        lines[:1] != [] and lines[0].startswith("Name:") and any(line.startswith("Namespace:") for line in lines[1:3])
    )


def good_status(text: str) -> str:
    """`Running` or `Succeeded`, where a description or its rows say so; else ""."""
    found = _STATUS.search(text)
    return found[1] if found else ""


def memory_limit(text: str) -> str:
    """The limit of memory that a description or its rows name; "" without one."""
    found = _LIMIT.search(text)
    return found[1] if found else ""


def as_description(value: object) -> str:
    """A JSON of kubectl in the rows of its tables; whatever else a list holds is left out."""
    items = value.get("items") if isinstance(value, dict) else None
    rows = [row for item in (items if isinstance(items, list) else [value]) for row in _rows(_dict(item))]
    return "".join(f"{row}\n" for row in rows)


def _rows(item: Mapping[str, Any]) -> Iterator[str]:
    status, spec = _dict(item.get("status")), _dict(item.get("spec"))
    if "phase" in status:
        yield f"Status:  {_text(status.get('phase'))}"
    for each in _dicts(spec.get("containers")):
        if limit := _text(_dict(_dict(each.get("resources")).get("limits")).get("memory")):
            yield f"    Limits:\n      memory:  {limit}"
    if "involvedObject" in item or "regarding" in item or item.get("kind") == "Event":
        yield _row(item.get("type") or "Warning", item.get("reason"), item.get("message") or item.get("note"))
    if status.get("reason"):
        yield _row("Warning", status.get("reason"), status.get("message"))
    for each in _dicts(status.get("conditions")):
        if (each.get("type"), each.get("status")) in (("PodScheduled", "False"), ("Failed", "True")):
            yield _row("Warning", each.get("reason"), each.get("message"))
    for each in (*_dicts(status.get("initContainerStatuses")), *_dicts(status.get("containerStatuses"))):
        for which in ("lastState", "state"):
            state = _dict(each.get(which))
            ended = _dict(state.get("terminated"))
            if found := _dict(state.get("waiting")) or ended:
                yield _row("Warning", found.get("reason"), found.get("message"))
            if ended.get("exitCode"):
                yield f"      Exit Code:    {ended.get('exitCode')}"


def _row(kind: object, reason: object, message: object) -> str:
    return f"  {_text(kind)}  {_text(reason)}  0s  kubectl  {' '.join(_text(message).split())}"


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value[:2000] if isinstance(value, str) else ""
