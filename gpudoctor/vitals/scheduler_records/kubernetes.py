"""Records of Kubernetes: `kubectl describe pod`, `kubectl get events`, and pods, jobs and events in JSON."""

import re
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from gpudoctor.vitals.scheduler_records.record import SchedulerRecord

KINDS = ("Pod", "PodList", "Job", "JobList", "Event", "EventList", "List")
_EVENTS = re.compile(r"(?:NAMESPACE\s+)?LAST SEEN\s+(?:.*\s)?TYPE\s+REASON\s+(?:OBJECT|(?:KIND\s+)?SOURCE\s+MESSAGE)\b")
"""Since Kubernetes 1.13, and before."""
_FIELD = re.compile(r"^(\s*)([A-Z][\w /-]{0,40}?|memory):\s*(.*)$")
_CONTAINER = re.compile(r"^  ([a-z0-9][\w.-]*):\s*$")
_OOM_EVENT = re.compile(r"Kill(?:ed)? process (\d+) \(([^)]*)\)|victim process: ([\w.-]+), pid: (\d+)")
_REASONS = {
    "OOMKilled": "oom-kubernetes",
    "DeadlineExceeded": "time-limit",
    "Preempted": "preemption",
    "Preempting": "preemption",
    "NodeLost": "node-failure",
    "NodeShutdown": "node-failure",
    "TaintManagerEviction": "node-failure",
}
_MESSAGES = (
    ("failed liveness probe, will be restarted", "probe"),
    ("imminent node shutdown", "node-failure"),
    ("longer than specified deadline", "time-limit"),
    ("longer than the specified deadline", "time-limit"),
)
"""What messages of any reason say."""
_ALIVE = ("Running", "Succeeded")
"""States of a pod that its node did not end: a node may be ready again before the pod is lost."""


def is_events(lines: list[str]) -> bool:
    """Whether a text is the table of `kubectl get events`."""
    return bool(lines) and _EVENTS.match(lines[0]) is not None


def is_description(lines: list[str]) -> bool:
    """Whether a text is of `kubectl describe pod`."""
    names = [found[2] for line in lines[:6] if (found := _FIELD.match(line))]
    return names[:2] == ["Name", "Namespace"]


def is_table(lines: list[str]) -> bool:
    """Whether a text is one of these two."""
    return is_events(lines) or is_description(lines)


def runs(lines: list[str]) -> bool:
    """Whether a description says that its pod runs, or has ended well."""
    found = (_FIELD.match(line) for line in lines if line.startswith("Status:"))
    return any(item is not None and item[3].strip() in _ALIVE for item in found)


def of_events(lines: list[tuple[int, str]]) -> Iterator[SchedulerRecord]:
    """The rows of `kubectl get events`."""
    header = lines[0][1]
    names = re.split(r"\s{2,}", header.strip())
    begins = [header.index(name) for name in names]
    for number, text in lines[1:]:
        if all(text[at - 1 : at] in ("", " ") for at in begins[1:]):  # a cell may be empty
            cells = [text[at:to].strip() for at, to in zip(begins, [*begins[1:], len(text)], strict=True)]
        else:
            cells = re.split(r"\s{2,}", text.strip(), maxsplit=len(names) - 1)
        row = dict(zip((name.lower() for name in names), cells, strict=False))
        yield _event(
            number,
            row.get("reason", ""),
            row["object"] if "object" in row else row.get("name", "").rpartition(".")[0],
            row.get("message", ""),
            age=row.get("last seen", ""),
        )


def of_description(lines: list[tuple[int, str]]) -> Iterator[SchedulerRecord]:
    """The pods and containers of `kubectl describe pod`, and their events."""
    pods: list[list[tuple[int, str]]] = []
    for number, text in lines:
        if re.match(r"Name:\s", text):
            pods.append([])
        if pods:
            pods[-1].append((number, text))
    for pod in pods:
        yield from _described(pod)


def _described(lines: list[tuple[int, str]]) -> Iterator[SchedulerRecord]:
    top: dict[str, tuple[int, str]] = {}
    containers: dict[str, dict[str, tuple[int, str]]] = {}
    section = container = block = ""
    for number, text in lines:
        found = _FIELD.match(text)
        if not text[:1].isspace():
            section, container, block = text.split(":")[0], "", ""
            if found:
                top.setdefault(found[2], (number, found[3].strip()))
            continue
        if section == "Events":
            cells = re.split(r"\s{2,}", text.strip(), maxsplit=4)
            if len(cells) == 5 and cells[0] in ("Normal", "Warning"):
                yield _event(number, cells[1], top.get("Name", (0, ""))[1], cells[4], age=cells[2])
            continue
        if not section.endswith("Containers"):
            continue
        if named := _CONTAINER.match(text):
            container, block = named[1], ""
            containers[container] = {}
        elif found and container:
            if len(found[1]) == 4:
                block = found[2]
                containers[container].setdefault(block, (number, found[3].strip()))
            else:
                containers[container].setdefault(f"{block}/{found[2]}", (number, found[3].strip()))
    name, node = top.get("Name", (1, ""))[1], top.get("Node", (0, ""))[1].partition("/")[0]
    line, status = top.get("Status", (1, ""))
    reason, message = top.get("Reason", (0, ""))[1], top.get("Message", (0, ""))[1]
    if status not in _ALIVE and (lost := _node_not_ready(lines)):
        yield _state(name, lost[0], "NodeLost", "", node=node, text=lost[1])
    yield _state(name, line, reason, message, node=node, text=f"Status: {status} {reason} {message}".strip(),
                 healthy=status == "Succeeded")  # fmt: skip
    for fields in containers.values():
        for each in ("Last State", "State"):
            at, why = fields.get(f"{each}/Reason", (0, ""))
            code = fields.get(f"{each}/Exit Code", (0, ""))[1]
            if code:
                limit = fields.get("Limits/memory", (0, ""))[1]
                yield _state(
                    name, at, why, "", exit_code=code, node=node, limit=limit,
                    stamp=_iso(fields.get(f"{each}/Finished", (0, ""))[1]),
                    text=f"{each}: {fields[each][1]} Reason: {why} Exit Code: {code}",
                    healthy=code == "0" and each == "State",
                )  # fmt: skip


def _node_not_ready(lines: list[tuple[int, str]]) -> tuple[int, str] | None:
    """The event of a node that failed, and its line."""
    found = ((number, text.strip()[:300]) for number, text in lines if re.match(r"\s+Warning\s+NodeNotReady\s", text))
    return next(found, None)


def of_json(value: object) -> Iterator[SchedulerRecord]:
    """Pods, jobs and events of a JSON of kubectl; whatever else a list holds is left out."""
    if not isinstance(value, dict):
        return
    items = value.get("items")
    for item in items if isinstance(items, list) else [value]:
        if not isinstance(item, dict):
            continue
        kind = item.get("kind") or str(value.get("kind", "")).removesuffix("List")
        if kind == "Pod":
            yield from _pod(item)
        elif kind == "Job":
            yield from _job(item)
        elif kind == "Event":
            about = _dict(item.get("involvedObject") or item.get("regarding"))
            stamp = _text(item.get("lastTimestamp") or item.get("eventTime"))
            message = _text(item.get("message") or item.get("note"))
            yield _event(1, _text(item.get("reason")), _text(about.get("name")), message, stamp=stamp)


def as_table(value: object) -> str:
    """What a JSON of kubectl says of pods that did not begin, and of events, in the rows of its tables."""
    items = value.get("items") if isinstance(value, dict) else None
    rows: list[str] = []
    for item in items if isinstance(items, list) else [value]:
        item = _dict(item)
        status = _dict(item.get("status"))
        if "involvedObject" in item or "regarding" in item:
            rows.append(
                _row(item.get("type") or "Warning", item.get("reason"), item.get("message") or item.get("note"))
            )
        if status.get("reason"):
            rows.append(_row("Warning", status.get("reason"), status.get("message")))
        for each in _dicts(status.get("conditions")):
            if (each.get("type"), each.get("status")) in (("PodScheduled", "False"), ("Failed", "True")):
                rows.append(_row("Warning", each.get("reason"), each.get("message")))
        for each in (*_dicts(status.get("initContainerStatuses")), *_dicts(status.get("containerStatuses"))):
            state = _dict(each.get("state"))
            waiting, ended = _dict(state.get("waiting")), _dict(state.get("terminated"))
            if found := waiting or ended:
                rows.append(_row("Warning", found.get("reason"), found.get("message")))
            if ended.get("exitCode"):
                rows.append(f"      Exit Code:    {ended.get('exitCode')}")
    return "\n".join(rows)


def _row(kind: object, reason: object, message: object) -> str:
    return f"  {_text(kind)}  {_text(reason)}  0s  kubectl  {' '.join(_text(message).split())}"


def _pod(item: Mapping[str, Any]) -> Iterator[SchedulerRecord]:
    status, spec = _dict(item.get("status")), _dict(item.get("spec"))
    name, node = _text(_dict(item.get("metadata")).get("name")), _text(spec.get("nodeName"))
    phase, reason, message = (_text(status.get(key)) for key in ("phase", "reason", "message"))
    yield _state(name, 1, reason, message, node=node, text=f"phase {phase} {reason} {message}".strip(),
                 healthy=phase == "Succeeded")  # fmt: skip
    limits = {
        _text(each.get("name")): _text(_dict(_dict(each.get("resources")).get("limits")).get("memory"))
        for each in _dicts(spec.get("containers"))
    }
    for each in _dicts(status.get("containerStatuses")):
        for which in ("lastState", "state"):
            ended = _dict(_dict(each.get(which)).get("terminated"))
            if ended:
                why, code = _text(ended.get("reason")), str(ended.get("exitCode", ""))
                yield _state(
                    name, 1, why, _text(ended.get("message")), exit_code=code, node=node,
                    limit=limits.get(_text(each.get("name")), ""), stamp=_text(ended.get("finishedAt")),
                    text=f"container {_text(each.get('name'))}: {which} {why}, exit code {code}",
                    healthy=code == "0" and which == "state",
                )  # fmt: skip


def _job(item: Mapping[str, Any]) -> Iterator[SchedulerRecord]:
    name = _text(_dict(item.get("metadata")).get("name"))
    for each in _dicts(_dict(item.get("status")).get("conditions")):
        if each.get("status") == "True":
            kind, reason, message = (_text(each.get(key)) for key in ("type", "reason", "message"))
            yield _state(name, 1, reason, message, stamp=_text(each.get("lastTransitionTime")),
                         text=f"{kind} {reason} {message}".strip(), healthy=kind == "Complete")  # fmt: skip


def _state(
    job: str,
    line: int,
    reason: str,
    message: str,
    *,
    text: str,
    exit_code: str = "",
    node: str = "",
    limit: str = "",
    stamp: str = "",
    healthy: bool = False,
) -> SchedulerRecord:
    kind = _kind(reason, message) or {"137": "sigkill", "143": "sigterm"}.get(exit_code, "")
    values = {"limit": limit if kind == "oom-kubernetes" else "", "when": stamp}
    return SchedulerRecord(
        job=job,
        line=max(1, line),
        text=text[:300],
        kind=kind,
        healthy=healthy and not kind,
        node=node,
        stamp=stamp,
        values=tuple((key, value) for key, value in values.items() if value),
    )


def _event(line: int, reason: str, about: str, message: str, *, age: str = "", stamp: str = "") -> SchedulerRecord:
    kind = _kind(reason, message)
    values = {"when": stamp or (f"{age.split(' ')[0]} before the listing" if age else "")}
    if found := _OOM_EVENT.search(message):
        kind = "oom-kernel"
        values |= {"pid": found[1] or found[4], "program": found[2] or found[3]}
    return SchedulerRecord(
        job=about.rpartition("/")[2],
        line=line,
        text=f"{reason} {about}: {message}"[:300],
        kind=kind,
        stamp=stamp,
        values=tuple((key, value) for key, value in values.items() if value),
    )


def _kind(reason: str, message: str) -> str:
    """What a reason of Kubernetes is; an eviction by what ran low."""
    if reason == "Evicted":
        small = message.lower()
        if "low on resource: memory" in small or "memory limit" in small:
            return "oom-kubernetes"
        full = any(word in small for word in ("storage", "disk", "inodes", "emptydir"))
        return "no-space" if full else "evicted"
    said = next((kind for words, kind in _MESSAGES if words in message), "")
    return _REASONS.get(reason, said)


def _iso(date: str) -> str:
    """`Mon, 24 Nov 2025 03:14:15 +0000` as ISO 8601; "" for what is none."""
    try:
        return parsedate_to_datetime(date).isoformat()
    except (ValueError, TypeError, IndexError):
        return ""


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value[:2000] if isinstance(value, str) else ""
