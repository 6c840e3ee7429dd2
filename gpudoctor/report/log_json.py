"""The log as plain data: the report's `log`."""

from gpudoctor.model import Json
from gpudoctor.model.log_message import LogMoment, LogSummary

JsonObject = dict[str, Json]


def log_object(log: LogSummary) -> JsonObject:
    """What was read, and the time line with the role of each message."""
    return {
        "files": list(log.files),
        "lines": log.lines,
        "bytes": log.bytes,
        "ranks": list(log.ranks),
        "world": log.world,
        "last_step": log.last_step,
        "finished": log.finished,
        "died": log.died,
        "moments": [_moment(item) for item in log.moments],
    }


def _moment(item: LogMoment) -> JsonObject:
    return {
        "role": item.role,
        "code": item.code or None,
        "kind": item.kind,
        "path": item.path,
        "line": item.line,
        "last_line": item.last_line,
        "count": item.count,
        "rank": item.rank,
        "node": item.node or None,
        "time": item.time or None,
        "step": item.step,
        "text": item.text,
    }
