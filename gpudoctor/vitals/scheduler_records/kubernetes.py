"""What Kubernetes kept of a pod: `kubectl describe pod` and `kubectl get events`.

Its reasons and messages are wordings of a log, and all is read as one.
"""

import re

_EVENTS = re.compile(r"(?:NAMESPACE\s+)?LAST SEEN\s+(?:.*\s)?TYPE\s+REASON\s+OBJECT\b")
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
