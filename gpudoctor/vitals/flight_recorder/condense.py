"""One dump of the flight recorder to a few kilobytes: what the process of its own that reads dumps gives back.

The format is that of `torch/csrc/distributed/c10d/FlightRecorder*`, versions 1 to 2.10, pickled or as JSON. The
earliest ones are a list of entries, name the sequence `seq_id` and have no groups; the JSON has no stacks.
"""

import json
import marshal
import re
import zlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from gpudoctor.lang import say
from gpudoctor.vitals.plain_pickle import NotPlain, load_plain
from gpudoctor.vitals.process.classify_stack import is_library

KEPT = 8
"""Operations that have not completed, of which a group keeps so many: the others wait behind them."""
_MOST_GROUPS = 4_096
_MOST_RANKS = 1 << 20
_LARGEST: Final = 1 << 62
_SHAPES = ("input_sizes", "input_dtypes", "output_sizes", "output_dtypes")
_PEERS = re.compile(r"(send|recv) (\d{1,7})(->|<-)(\d{1,7})\Z")
_INPUT_COMPARED = ("all_reduce", "allreduce", "broadcast", "all_gather", "allgather", "reduce")
_TYPES_DIFFER = ("barrier", "coalesced", "split", "new_window")
"""Operations whose entries have no tensors, or those of one rank only."""
_FREE = ("all_to_all", "alltoall", "gather", "scatter", "all_gather_v", "reduce_scatter_v")
"""Operations to which ranks may give different sizes."""
_STRANGE = "its entries are not those of a flight recorder"


@dataclass(slots=True)
class _Group:
    name: str
    description: str
    sequences: list[int] = field(default_factory=list)
    operations: list[int] = field(default_factory=list)
    sites: list[int] = field(default_factory=list)
    open: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """Collectives that have not completed, by sequence number, as the fields of `CollectiveEntry`."""
    peers: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    """Sends and receives that have not completed, by their own sequence number."""
    newest: tuple[Any, ...] | None = None

    def packed(self, members: tuple[int, ...]) -> tuple[Any, ...]:
        """The group as it is sent: numbers by sequence from the first on, without gaps."""
        first, last = (min(self.sequences), max(self.sequences)) if self.sequences else (1, 0)
        size = last - first + 1
        if size > 4 * len(self.sequences) + 10_000:
            raise NotPlain("its sequence numbers make no sense")
        operations, sites = array("I", bytes(4 * size)), array("I", bytes(4 * size))
        for number, operation, site in zip(self.sequences, self.operations, self.sites, strict=True):
            operations[number - first], sites[number - first] = operation, site
        pending = [self.open[key] for key in sorted(self.open)[:KEPT]]
        peers = [one for batch in self.peers.values() for one in batch][:KEPT]
        places = operations.tobytes(), sites.tobytes()
        return self.name, self.description, members, first, last, *places, pending, self.newest, peers


class _Dump:
    """Takes entries in their order. Equal operations and sites of all dumps have equal numbers."""

    def __init__(self) -> None:
        self.operations: dict[int, tuple[Any, ...]] = {}
        self.sites: dict[int, tuple[Any, ...]] = {}
        self.groups: dict[Any, _Group] = {}
        self.latest: tuple[str, tuple[Any, ...]] | None = None
        self._operations: dict[bytes, int] = {}
        self._sites: dict[tuple[int, ...], int] = {}
        """By the identity of the frames, which equal stacks share."""

    def take(self, entry: Any) -> None:
        """One entry, of whatever version. Raises `NotPlain`, and what comes of values that make no sense."""
        name, sequence = (
            (entry.get("profiling_name"), entry.get("collective_seq_id", entry.get("seq_id")))
            if isinstance(entry, dict)
            else (None, None)
        )
        if not isinstance(name, str) or not isinstance(sequence, int):
            raise NotPlain(_STRANGE)
        group = self._group(entry)
        data = marshal.dumps((name, *(entry.get(key) or [] for key in _SHAPES)), 2)
        operation, site = self._operation(data), self._site(entry.get("frames"))
        peer = _PEERS.search(name)
        if entry.get("is_p2p", peer is not None):
            number = entry.get("p2p_seq_id", entry.get("op_id", sequence)) if "collective_seq_id" in entry else sequence
            self.latest = group.name, _take_peer(group, (number, operation, site), peer, entry)
            return
        if not 0 <= sequence < _LARGEST:
            raise NotPlain("its sequence numbers make no sense")
        if group.sequences[-1:] == [sequence]:  # coalesced: in the state of its last entry
            group.operations[-1] = self._chained(group.operations[-1], operation)
            group.sites[-1] = site or group.sites[-1]
        else:
            group.sequences.append(sequence)
            group.operations.append(operation)
            group.sites.append(site)
        launch = _launch((sequence, group.operations[-1], group.sites[-1]), entry)
        group.newest = launch
        self.latest = group.name, launch
        if launch[4]:
            group.open.pop(sequence, None)
        else:
            group.open[sequence] = launch

    def _group(self, entry: Mapping[str, Any]) -> _Group:
        said = entry.get("process_group")
        pair = isinstance(said, list | tuple) and len(said) == 2
        key = (str(said[0]), str(said[1])) if pair and said else (str(said or entry.get("pg_id", "0")), "")
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = _Group(key[0][:200], key[1][:200])
            if len(self.groups) > _MOST_GROUPS:
                raise NotPlain(say("it has more than {most_groups:,} process groups", most_groups=_MOST_GROUPS))
        return group

    def _operation(self, data: bytes) -> int:
        key = self._operations.get(data)
        if key is None:
            value = _as_operation(*marshal.loads(data))
            key = self._operations[data] = _key(value[:3])  # sizes are shown, not compared
            self.operations.setdefault(key, value)
        return key

    def _chained(self, before: int, key: int) -> int:
        """The key of several operations under one sequence number (coalesced), in their order."""
        both = zlib.crc32(key.to_bytes(4, "little"), before) or 1
        self.operations.setdefault(both, ("several coalesced operations", None, (), ()))
        return both

    def _site(self, frames: Any) -> int:
        """The key of a stack's call site; 0 where there is no stack."""
        frames = frames if isinstance(frames, list | tuple) else ()
        ids = (*map(id, frames),)
        key = self._sites.get(ids)
        if key is None:
            found = _as_site(frames)
            key = self._sites[ids] = _key(found) if found else 0
            if found:
                self.sites.setdefault(key, found)
        return key


def _key(value: tuple[Any, ...]) -> int:
    return zlib.crc32(marshal.dumps(value, 2)) or 1


def condense(data: bytes) -> tuple[Any, ...]:
    """The dump in numbers, and what they mean: version, entries, wrapped, rank, groups, latest, operations, sites.

    Raises `NotPlain`.
    """
    value = _load(data)
    entries = value if isinstance(value, list) else value.get("entries") if isinstance(value, dict) else None
    if not isinstance(entries, list):
        raise NotPlain("it is not a flight-recorder dump (`entries` is missing)")
    head: Mapping[str, Any] = value if isinstance(value, dict) else {}
    dump = _Dump()
    try:
        for entry in entries:
            dump.take(entry)
        config = _config(head.get("pg_config"))
        groups = [group.packed(config.get(group.name, ())) for group in dump.groups.values()]
        first = entries[0].get("record_id", 0) if entries else 0
    except (AttributeError, KeyError, TypeError, IndexError, OverflowError, ValueError) as error:
        if isinstance(error, NotPlain):
            raise
        raise NotPlain(_STRANGE) from error
    rank = head.get("rank", head.get("global_rank"))
    rank = rank if isinstance(rank, int) and 0 <= rank < _MOST_RANKS else -1
    wrapped = isinstance(first, int) and first > 0
    version = str(head.get("version", ""))[:20]
    return version, len(entries), wrapped, rank, groups, dump.latest, dump.operations, dump.sites


def _load(data: bytes) -> Any:
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise NotPlain("it is damaged or cut short") from error
    return load_plain(data)


def _take_peer(
    group: _Group, keys: tuple[Any, int, int], peer: re.Match[str] | None, entry: Mapping[str, Any]
) -> tuple[Any, ...]:
    """A send or receive; the entry that ends a batch says whether all of the batch is done."""
    batch = group.peers.setdefault(keys[0], [])
    ends = (int(peer[2]), int(peer[4])) if peer else None
    launch = _launch(keys, entry, ends if peer is None or ends is None or peer[1] == "send" else ends[::-1])
    if peer is not None:
        batch.append(launch)
    if launch[4]:
        group.peers.pop(keys[0], None)
    return launch


def _launch(
    keys: tuple[Any, int, int], entry: Mapping[str, Any], peer: tuple[int, int] | None = None
) -> tuple[Any, ...]:
    """The fields of `CollectiveEntry`."""
    state, retired = str(entry.get("state", ""))[:20], bool(entry.get("retired"))
    completed = state == "completed"
    done = completed or (retired and entry["profiling_name"].startswith("gloo"))
    created, timeout = _number(entry.get("time_created_ns")), _number(entry.get("timeout_ms"))
    return *keys, state, done, retired and not completed, int(created), timeout / 1000.0, peer


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) and 0 < value < _LARGEST else 0


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


def _as_operation(
    name: str, inputs: Any, in_types: Any, outputs: Any, out_types: Any
) -> tuple[str, int | None, tuple[str, ...], tuple[Any, ...]]:
    """Name, elements, types and shapes, as far as the ranks must agree about them."""
    bare = _PEERS.sub(r"\1", name.partition(":")[2] or name)[:60]
    low = bare.lower().lstrip("_")
    compared = low.startswith((*_INPUT_COMPARED, "reduce_scatter")) and not low.startswith(_FREE)
    compared = compared and not ("coalesced" in low and not inputs) and not low.startswith(_TYPES_DIFFER)
    sizes, types = (outputs, out_types) if low.startswith("reduce_scatter") else (inputs, in_types)
    types = out_types if low.startswith("scatter") else () if low.startswith(_TYPES_DIFFER) else types
    shapes = tuple(tuple(int(item) for item in each[:16]) for each in (sizes or outputs)[:16])
    return bare, _elements(sizes) if compared else None, tuple(sorted({str(item)[:40] for item in types})), shapes


def _elements(sizes: Iterable[Iterable[int]]) -> int:
    total = 0
    for each in sizes:
        product = 1
        for item in each:
            product *= item
        total += product
    return total


def _as_site(frames: Sequence[Any]) -> tuple[str, int, str, str] | None:
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
