"""The process that reads dumps: paths come line by line, and what each of them holds goes back in their order.

A hostile dump may crash it or fill its memory: then the file that it was at is not read, and another process
goes on behind it. The format is that of `torch/csrc/distributed/c10d/FlightRecorder*`, pickled.
"""

import gc
import json
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from gpudoctor.model.external_files import is_packed, open_unpacked, unpacked_most
from gpudoctor.model.read_limits import FLIGHT_DUMP, FLIGHT_READER
from gpudoctor.text import size
from gpudoctor.vitals.plain_pickle import NotPlain, load_plain
from gpudoctor.vitals.process.classify_stack import is_library

_MOST_RANKS = 1 << 20
_STRANGE: Final = "its entries are not those of a flight recorder"
_ALIKE = ("all_reduce", "allreduce", "broadcast", "all_gather_base", "allgather_base", "reduce_scatter_base")
"""Operations for which every rank gives as many elements."""
_OTHERWISE = ("barrier", "coalesced")
"""Parts of the names of operations that have no tensors, or those of one rank only."""


def main() -> int:
    """Answer each line of the standard input until it ends."""
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (FLIGHT_READER.most, resource.getrlimit(resource.RLIMIT_AS)[1]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    gc.disable()  # the values of a dump form no circles
    for line in sys.stdin.buffer:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()
    return 0


def answer(path: str) -> Any:
    """What a dump holds, or a clause why it cannot be read."""
    try:
        return condensed(load_plain(_bytes(path)))
    except OSError as error:
        return error.strerror or str(error)
    except NotPlain as error:
        return str(error)
    except MemoryError:
        return f"reading it needs more memory than {size(FLIGHT_READER.most)}"
    except RecursionError:
        return "it nests too deep"


def _bytes(path: str) -> bytes:
    stored = Path(path).stat().st_size
    if stored == 0:
        raise NotPlain("it is empty")
    most = unpacked_most(stored, FLIGHT_DUMP) if is_packed(path) else FLIGHT_DUMP.most
    with open_unpacked(path) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise NotPlain(f"it is {FLIGHT_DUMP.words}")
    return data


def condensed(dump: Any) -> dict[str, Any]:
    """How far the rank came in each process group. Raises `NotPlain`."""
    entries = dump.get("entries") if isinstance(dump, dict) else None
    if not isinstance(entries, list):
        raise NotPlain("it is not a flight-recorder dump (`entries` is missing)")
    try:
        members = {str(name): _ranks(group["ranks"]) for name, group in dump.get("pg_config", {}).items()}
        rank = dump.get("rank")
        return {
            "rank": rank if isinstance(rank, int) and 0 <= rank < _MOST_RANKS else None,
            "wrapped": bool(entries) and int(entries[0]["record_id"]) > 0,
            "groups": list(_groups(entries, members)),
            "latest": (str(entries[-1]["process_group"][1])[:200], _call(entries[-1])) if entries else None,
        }
    except (AttributeError, LookupError, TypeError, ArithmeticError, ValueError) as error:
        raise NotPlain(_STRANGE) from error


def _groups(entries: Iterable[Mapping[str, Any]], members: Mapping[str, tuple[int, ...]]) -> Iterable[dict[str, Any]]:
    newest: dict[tuple[str, str], Mapping[str, Any]] = {}
    open_: dict[tuple[str, str], dict[int, Mapping[str, Any]]] = {}
    for entry in entries:
        if entry["is_p2p"]:
            continue
        group = str(entry["process_group"][0])[:200], str(entry["process_group"][1])[:200]
        newest[group] = entry
        waiting = open_.setdefault(group, {})
        if _done(entry):  # of coalesced ones the last entry speaks for all
            waiting.pop(entry["collective_seq_id"], None)
        else:
            waiting[entry["collective_seq_id"]] = entry
    for group, entry in newest.items():
        waits = open_[group]
        yield {
            "name": group[0],
            "description": group[1],
            "members": members.get(group[0], ()),
            "newest": _call(entry),
            "open": _call(waits[min(waits)]) if waits else None,
        }


def _done(entry: Mapping[str, Any]) -> bool:
    gloo = entry["profiling_name"].startswith("gloo")
    return entry["state"] == "completed" or (gloo and bool(entry["retired"]))


def _call(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `CollectiveCall`."""
    name = entry["profiling_name"].partition(":")[2][:60]
    path, line, function = _site(entry.get("frames") or ())
    return {
        "number": int(entry["p2p_seq_id" if entry["is_p2p"] else "collective_seq_id"]),
        "operation": name,
        "payload": _payload(name.lstrip("_"), entry),
        "path": path,
        "line": line,
        "function": function,
        "state": str(entry["state"])[:20],
        "done": _done(entry),
        "timed_out": bool(entry["retired"]) and entry["state"] != "completed",
        "created": int(entry["time_created_ns"]),
        "timeout": float(entry["timeout_ms"]) / 1000,
    }


def _payload(name: str, entry: Mapping[str, Any]) -> str:
    if not name.startswith(_ALIKE) or any(word in name for word in _OTHERWISE):
        return ""
    elements = 0
    for shape in entry["input_sizes"][:1000]:
        product = 1
        for length in shape[:16]:
            product *= int(length)
        elements += product
    return f"{elements:,} elements of {' and '.join(sorted({str(each)[:40] for each in entry['input_dtypes'][:16]}))}"


def _site(frames: Iterable[Mapping[str, Any]]) -> tuple[str, int, str]:
    """The user's innermost line of a stack, innermost first."""
    for frame in frames:
        path = frame["filename"]
        if path.endswith((".py", ".ipynb")) and not is_library(path):
            return path[:1000], int(frame["line"]), frame["name"][:100]
    return "", 0, ""


def _ranks(text: str) -> tuple[int, ...]:
    """`[0, 1]`: the format writes lists of ranks as text."""
    return tuple(sorted(map(int, re.findall(r"\d{1,7}", text[: 16 * _MOST_RANKS]))))
