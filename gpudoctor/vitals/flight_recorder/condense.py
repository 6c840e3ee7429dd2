"""One dump of the flight recorder to a few kilobytes: what the process of its own that reads dumps gives back.

The format is that of `torch/csrc/distributed/c10d/FlightRecorder*`, versions 1 to 2.10, pickled or as JSON. The
earliest ones are a list of entries, name the sequence `seq_id` and have no groups; the JSON has no stacks.
"""

import json
import marshal
import re
import zlib
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, TypeAlias

from gpudoctor.lang import say
from gpudoctor.vitals.plain_pickle import NotPlain, load_plain
from gpudoctor.vitals.process.classify_stack import is_library

KEPT = 8
"""Operations that have not completed, of which a group keeps so many: the others wait behind them."""
_MOST_GROUPS = 4_096
_MOST_RANKS = 1 << 20
_LARGEST: Final = 1 << 62
_call = itemgetter(
    "profiling_name", "input_sizes", "input_dtypes", "output_sizes", "output_dtypes",
    "process_group", "is_p2p", "frames",
)  # fmt: skip
_state = itemgetter("collective_seq_id", "p2p_seq_id", "state", "retired")
_PEERS = re.compile(r"(send|recv) (\d{1,7})(->|<-)(\d{1,7})\Z")
_COMPARED = {
    "input": ("all_reduce", "allreduce", "broadcast", "all_gather", "allgather", "reduce"),
    "output": ("reduce_scatter",),
}
_TYPES_DIFFER = ("barrier", "coalesced", "split", "new_window")
"""Operations whose entries have no tensors, or those of one rank only."""
_FREE = ("all_to_all", "alltoall", "gather", "scatter", "all_gather_v", "reduce_scatter_v")
"""Operations to which ranks may give different sizes."""


@dataclass(slots=True)
class Dictionary:
    """What equal numbers of all dumps mean; `new` is emptied by who sends it."""

    known: set[int] = field(default_factory=set)
    operations: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    sites: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    members: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _keys: dict[bytes, int] = field(default_factory=dict)

    def operation(self, data: bytes) -> int:
        """The key of an operation in marshalled form."""
        key = self._keys.get(data)
        if key is None:
            key = self._keys[data] = self._learn(self.operations, _as_operation(*marshal.loads(data)))
            if len(self._keys) > 200_000:  # every rank has its own sizes: all_to_all of experts
                self._keys.clear()
        return key

    def chained(self, before: int, key: int) -> int:
        """The key of several operations under one sequence number (coalesced), in their order."""
        both = zlib.crc32(key.to_bytes(4, "little"), before) or 1
        if both not in self.known:
            self.known.add(both)
            self.operations[both] = ("several coalesced operations", None, (), ())
        return both

    def site(self, frames: Any) -> int:
        """The key of a stack's call site; 0 where there is no stack."""
        found = _as_site(frames)
        return self._learn(self.sites, found) if found else 0

    def group(self, ranks: tuple[int, ...]) -> int:
        """The key of a group's members; 0 for none."""
        return self._learn(self.members, ranks) if ranks else 0

    def _learn(self, table: dict[int, tuple[Any, ...]], value: tuple[Any, ...]) -> int:
        compared = value[:3] if table is self.operations else value  # sizes are shown, not compared
        key = zlib.crc32(marshal.dumps((len(value), compared), 2)) or 1
        if key not in self.known:
            self.known.add(key)
            table[key] = value
        return key

    def take_new(self) -> tuple[dict[int, tuple[Any, ...]], ...]:
        """What was learned since the last time."""
        new = (self.operations, self.sites, self.members)
        self.operations, self.sites, self.members = {}, {}, {}
        return new


_Entry: TypeAlias = tuple[int, int, int, int]
"""Sequence number, keys of operation and call site, and the row of the entry."""


@dataclass(slots=True)
class _Group:
    name: str
    description: str
    sequences: list[int] = field(default_factory=list)
    operations: list[int] = field(default_factory=list)
    sites: list[int] = field(default_factory=list)
    open: dict[int, _Entry] = field(default_factory=dict)
    """Collectives that have not completed, by sequence number."""
    peers: dict[int, list[tuple[_Entry, tuple[int, int]]]] = field(default_factory=dict)
    """Sends and receives that have not completed, by their own sequence number."""
    newest: _Entry | None = None


def condense(data: bytes, dictionary: Dictionary) -> tuple[Any, ...]:
    """The dump in numbers: version, entries, wrapped, groups, latest, rank. Raises `NotPlain`."""
    try:
        value, entries, fields = _loaded(data)
        head: Mapping[str, Any] = value if isinstance(value, dict) else {}
        groups, latest = _groups(entries, fields, dictionary)
        config = _config(head.get("pg_config"))
        packed = [_packed(group, entries, config, dictionary) for group in groups]
        first = entries[0].get("record_id", 0) if entries else 0
        rank = head.get("rank", head.get("global_rank"))
    except (AttributeError, KeyError, TypeError, IndexError, OverflowError, ValueError) as error:
        if isinstance(error, NotPlain):
            raise
        raise NotPlain("its entries are not those of a flight recorder") from error
    return (
        str(head.get("version", ""))[:20],
        len(entries),
        isinstance(first, int) and first > 0,
        packed,
        latest,
        rank if isinstance(rank, int) and 0 <= rank < _MOST_RANKS else -1,
    )


def _loaded(data: bytes) -> tuple[Any, list[Any], list[tuple[Any, Any]]]:
    """The dump, its entries, and of each of these what was called, and its state."""
    value = _load(data)
    entries = value if isinstance(value, list) else value.get("entries") if isinstance(value, dict) else None
    if not isinstance(entries, list):
        raise NotPlain("it is not a flight-recorder dump (`entries` is missing)")
    fields = _fields(entries)
    if fields is None:
        entries = list(map(_completed, entries))
        fields = list(zip(map(_call, entries), map(_state, entries), strict=True))
    return value, entries, fields


def _fields(entries: list[Any]) -> list[tuple[Any, Any]] | None:
    """What each entry called, and its state; None for those of another version and for JSON."""
    try:
        calls = list(map(_call, entries))
        marshal.dumps([call[:5] for call in calls[:1]], 2)
        if calls and type(calls[0][5]) is not tuple:
            return None
        return list(zip(calls, map(_state, entries), strict=True))
    except (KeyError, TypeError, ValueError):
        return None


def _load(data: bytes) -> Any:
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise NotPlain("it is damaged or cut short") from error
    return load_plain(data)


@dataclass(slots=True)
class _Kind:
    """Entries that differ only in their number, times and state."""

    call: Any
    group: _Group
    key: int
    site: int
    following: "_Kind | None" = None
    """The kind that came after it the last time: steps are alike."""


class _Kinds:
    """The kinds of a dump. Equal stacks share their frames, so they are known by these."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._known: dict[Any, _Kind] = {}
        self._sites: dict[tuple[int, ...], tuple[Any, int]] = {}
        self.groups: dict[Any, _Group] = {}

    def of(self, call: Any) -> _Kind:
        """The kind of an entry by what it called. Raises `TypeError` for one that is not as torch writes it."""
        *operation, name, is_p2p, frames = call
        data = marshal.dumps((*operation,), 2)
        ids = (*map(id, frames),)
        key = name, is_p2p, data, ids
        kind = self._known.get(key)
        if kind is None:
            group = self.groups.get(name)
            if group is None:
                group = self.groups[name] = _Group(str(name[0])[:200], str(name[1])[:200])
            site = self._sites.get(ids)
            if site is None:
                site = self._sites[ids] = frames, self._dictionary.site(frames)
            kind = self._known[key] = _Kind(call, group, self._dictionary.operation(data), site[1])
        return kind


def _groups(
    entries: list[Any], fields: list[tuple[Any, Any]], dictionary: Dictionary
) -> tuple[list[_Group], tuple[str, Any] | None]:
    """What happened in each group, and the last entry of all."""
    kinds = _Kinds(dictionary)
    newest: dict[int, int] = {}
    sent: tuple[_Entry, tuple[int, int] | None] | None = None
    """The last entry of all, where it is a send or receive."""
    last = _Kind(None, _Group("", ""), 0, 0)
    for row, (call, (sequence, p2p, state, retired)) in enumerate(fields):
        kind = last.following
        if kind is None or kind.call != call:  # lists of the same frames compare by identity: fast
            kind = last.following = kinds.of(call)
        last, group = kind, kind.group
        done = state == "completed" or (retired and call[0].startswith("gloo"))
        if call[6]:
            launch = (p2p, kind.key, kind.site, row)
            sent = launch, _take_peer(group, launch, call[0], done)
            continue
        sent = None
        if type(sequence) is not int or not 0 <= sequence < _LARGEST:
            raise NotPlain("its sequence numbers make no sense")
        sequences = group.sequences
        if sequences and sequences[-1] == sequence:  # coalesced: in the state of its last entry
            group.operations[-1] = dictionary.chained(group.operations[-1], kind.key)
            group.sites[-1] = kind.site or group.sites[-1]
        else:
            sequences.append(sequence)
            group.operations.append(kind.key)
            group.sites.append(kind.site)
        newest[id(group)] = row
        if not done:
            group.open[sequence] = (sequence, group.operations[-1], group.sites[-1], row)
        elif group.open:
            group.open.pop(sequence, None)
    groups = list(kinds.groups.values())
    if len(groups) > _MOST_GROUPS:
        raise NotPlain(say("it has more than {most_groups:,} process groups", most_groups=_MOST_GROUPS))
    for each in groups:
        if each.sequences:
            each.newest = (each.sequences[-1], each.operations[-1], each.sites[-1], newest[id(each)])
    latest = _sent(entries, *sent) if sent else last.group.newest and _sent(entries, last.group.newest)
    return groups, (last.group.name, latest) if latest else None


def _take_peer(group: _Group, launch: _Entry, name: str, done: object) -> tuple[int, int] | None:
    """A send or receive; the entry that ends a batch says whether all of the batch is done."""
    batch = group.peers.setdefault(launch[0], [])
    found = _PEERS.search(name)
    peer = None
    if found is not None:
        one, other = int(found[2]), int(found[4])
        peer = (one, other) if found[1] == "send" else (other, one)
        batch.append((launch, peer))
    if done:
        group.peers.pop(launch[0], None)
    return peer


def _sent(entries: list[Any], launch: _Entry, peer: tuple[int, int] | None = None) -> tuple[Any, ...]:
    """A launch as it is sent: the fields of `CollectiveEntry`."""
    *keys, row = launch
    entry = entries[row]
    state, retired, name = entry["state"], bool(entry["retired"]), entry["profiling_name"]
    gloo = name.startswith("gloo")
    completed = state == "completed"
    timeout, created = entry.get("timeout_ms", 0), entry.get("time_created_ns", 0)
    return (
        *keys,
        str(state)[:20],
        completed or (gloo and retired),
        retired and not completed,
        created if isinstance(created, int) and 0 < created < _LARGEST else 0,
        timeout / 1000.0 if isinstance(timeout, int | float) and 0 < timeout < _LARGEST else 0.0,
        peer,
    )


def _packed(
    group: _Group, entries: list[Any], config: Mapping[str, tuple[int, ...]], dictionary: Dictionary
) -> tuple[Any, ...]:
    """A group as it is sent: numbers by sequence from the first on, without gaps."""
    numbers = group.sequences
    first, last = (min(numbers), max(numbers)) if numbers else (1, 0)
    size = last - first + 1
    if size > 4 * len(numbers) + 10_000:
        raise NotPlain("its sequence numbers make no sense")
    if numbers == list(range(first, last + 1)):
        operations, sites = array("I", group.operations), array("I", group.sites)
    else:
        operations, sites = array("I", bytes(4 * size)), array("I", bytes(4 * size))
        for number, operation, site in zip(numbers, group.operations, group.sites, strict=True):
            operations[number - first], sites[number - first] = operation, site
    peers = [one for batch in group.peers.values() for one in batch][:KEPT]
    return (
        group.name,
        group.description,
        dictionary.group(config.get(group.name, ())),
        first,
        last,
        operations.tobytes(),
        sites.tobytes(),
        [_sent(entries, group.open[key]) for key in sorted(group.open)[:KEPT]],
        _sent(entries, group.newest) if group.newest else None,
        [_sent(entries, launch, peer) for launch, peer in peers],
    )


def _config(value: Any) -> dict[str, tuple[int, ...]]:
    """The members of each group by its name, where the dump says them."""
    found: dict[str, tuple[int, ...]] = {}
    for name, group in value.items() if isinstance(value, dict) else ():
        ranks = group.get("ranks") if isinstance(group, dict) else None
        if isinstance(ranks, str):
            found[str(name)] = _ranks(ranks)
        elif isinstance(ranks, list | tuple):
            found[str(name)] = _sound(ranks)
    return found


@lru_cache(maxsize=256)
def _ranks(text: str) -> tuple[int, ...]:
    """`[0, 1]`: the format writes lists of ranks as text."""
    return _sound(map(int, re.findall(r"\d{1,7}", text[: 16 * _MOST_RANKS])))


def _sound(ranks: Iterable[Any]) -> tuple[int, ...]:
    return tuple(sorted({rank for rank in ranks if isinstance(rank, int) and 0 <= rank < _MOST_RANKS}))


def _completed(entry: Any) -> dict[str, Any]:
    """An entry of another version, with the names and types of this one. Raises `NotPlain`."""
    if not isinstance(entry, dict):
        raise NotPlain("its entries are not those of a flight recorder")
    found = {str(key): value for key, value in entry.items()}
    name = found.get("profiling_name")
    sequence = found.get("collective_seq_id", found.get("seq_id"))
    if not isinstance(name, str) or not isinstance(sequence, int):
        raise NotPlain("its entries are not those of a flight recorder")
    group = found.get("process_group")
    if isinstance(group, str):
        found["process_group"] = (group, "")
    elif isinstance(group, list | tuple) and len(group) == 2:
        found["process_group"] = (str(group[0]), str(group[1]))
    else:
        found["process_group"] = (str(found.get("pg_id", "0")), "")
    found["collective_seq_id"] = sequence
    peer = _PEERS.search(name) is not None
    found.setdefault("p2p_seq_id", found.get("op_id", sequence) if peer else 0)
    found.setdefault("is_p2p", peer)
    if peer and "collective_seq_id" not in entry:
        found["p2p_seq_id"] = sequence
    for key, value in (("state", ""), ("retired", False), ("time_created_ns", 0), ("frames", ())):
        found.setdefault(key, value)
    for key in ("input_sizes", "input_dtypes", "output_sizes", "output_dtypes"):
        if not isinstance(found.get(key), list):
            found[key] = []
    if not isinstance(found["frames"], list):
        found["frames"] = []
    return found


def _as_operation(
    name: str, inputs: Any, in_types: Any, outputs: Any, out_types: Any
) -> tuple[str, int | None, tuple[str, ...], tuple[Any, ...]]:
    """Name, elements, types and shapes, as far as the ranks must agree about them."""
    bare = str(name).partition(":")[2] or str(name)
    bare = _PEERS.sub(r"\1", bare)[:60]
    low = bare.lower().lstrip("_")
    side = next((side for side, words in _COMPARED.items() for word in words if low.startswith(word)), None)
    if low.startswith("reduce_scatter"):
        side = "output"
    if any(low.startswith(word) for word in _FREE) or ("coalesced" in low and not inputs):
        side = None
    sizes, types = (outputs, out_types) if side == "output" else (inputs, in_types)
    if low.startswith("scatter"):
        types = out_types
    if low.startswith(_TYPES_DIFFER):
        types, side = (), None
    shapes = tuple(tuple(int(item) for item in each[:16]) for each in (sizes or outputs)[:16])
    return bare, _elements(sizes) if side else None, tuple(sorted({str(item)[:40] for item in types})), shapes


def _elements(sizes: Iterable[Iterable[int]]) -> int:
    total = 0
    for each in sizes:
        product = 1
        for item in each:
            product *= item
        total += product
    return total


def _as_site(frames: Any) -> tuple[str, int, str, str] | None:
    """The user's innermost line of a stack, innermost first, and the innermost function."""
    via = ""
    for frame in frames[:200]:
        if not isinstance(frame, dict):
            continue
        path, line, name = frame.get("filename"), frame.get("line"), frame.get("name")
        if not (isinstance(path, str) and isinstance(name, str)):
            continue
        if path.endswith(".py"):
            via = via or name[:100]
        if _is_users(path):
            return path[:1000], line if isinstance(line, int) and 0 <= line < 1 << 31 else 0, name[:100], via
    return ("", 0, "", via) if via else None


@lru_cache(maxsize=10_000)
def _is_users(path: str) -> bool:
    """Whether a file is Python of the user's; C++ and the interpreter's own frames are not."""
    python = path.endswith((".py", ".ipynb")) or path.startswith("<ipython")
    return python and not is_library(path)
