"""What a loader gives, read on the host before it is copied: shapes, ranges, labels, padding, hashes of the samples."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from . import Look, length
from .shown import shown

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "batches"
_ROWS = 64
"""Rows of a batch that are looked at."""
_COLUMNS = 8192
"""Tokens of each row."""
_HASHED = 256
"""Hashed numbers of each row."""
_HASHED_PARTS = 4
"""Tensors that a sample without text is hashed from."""
_PARTS = 16
"""Tensors of a batch."""
_OBJECTS = 8
"""Objects behind a loader among which its functions and its tokenizer are looked for."""
_ENDS = 8
"""End tokens that are kept."""
_LOADERS = 4
"""Loaders that are shown."""
_LABELS = ("labels", "label", "targets", "target", "y", "1")
_SIDES = ("prompt", "response", "answer", "assistant", "completion", "instruction", "template")
"""Words for the two sides of a text of which one is trained."""
_OWNERS = ("data_collator", "collate_fn", "collator", "tokenizer", "processing_class", "processor", "tok")
"""Names by which a function that makes batches has the next one, or the tokenizer."""


class Words:
    """The end token and the padding, from the program's tokenizer, else from the model's config."""

    ends: tuple[int, ...] = ()
    pad: int | None = None
    tokenizer: Any = None
    """A weak reference to it."""

    def learn(self, owner: Any, sure: bool) -> None:
        """Take what a tokenizer, which is sure, or a config says."""
        if self.tokenizer is not None and not sure:
            return
        ends = getattr(owner, "eos_token_id", None)
        pad = getattr(owner, "pad_token_id", None)
        listed = ends if isinstance(ends, (list, tuple)) else [ends]
        numbers = tuple(end for end in listed if isinstance(end, int))
        if numbers:
            self.ends = numbers[:_ENDS]
        if isinstance(pad, int):
            self.pad = pad
        if sure:
            self.tokenizer = weakref.ref(owner)


class Batches(Look):
    """Looks at batches, the first ones and then ever fewer."""

    def again(self) -> None:
        """For a new recording no batch has been drawn."""
        super().again()
        self.words = Words()
        self._known: dict[int, dict[str, Any]] = {}
        """By loader: what does not change."""

    def drawn(self, batch: Any) -> None:
        """A batch was drawn."""
        entry = self._probe.loaders.last
        if entry is None:
            return
        entry.draws += 1
        if self.due(entry.draws):
            with self:
                self._look(entry, batch)

    def _look(self, entry: Any, batch: Any) -> None:
        """Write down what a batch holds, and before the first one of a loader what the loader is."""
        plain = self._torch.Tensor
        tensors = ((name, part) for name, part in _parts(batch) if type(part) is plain)
        parts = dict(islice(tensors, _PARTS))
        if not parts:
            return
        on_host = {name: part for name, part in parts.items() if part.is_cpu and part.dim() and part.numel()}
        if entry.number not in self._known:
            self._known[entry.number] = self._facts(entry)
            if self._probe.settings.get("show_data") and len(self._known) <= _LOADERS:
                self._show(entry, on_host)
        facts = self._known[entry.number]
        fields = {**facts, "role": entry.role, "draw": entry.draws, "epoch": entry.epochs}
        fields["shapes"] = [_shape(name, part) for name, part in parts.items()]
        ids = on_host.get("input_ids", next(iter(on_host.values()), None))
        if ids is not None and tokens(self._torch, ids):
            fields |= self._text(ids, on_host)
        else:
            fields |= self._numbers(on_host)
        self.write("batch", fields)

    def _show(self, entry: Any, on_host: Mapping[str, Any]) -> None:
        """The first batch of a loader itself, where the user asked for it."""
        tokenizer = self.words.tokenizer and self.words.tokenizer()
        rows = shown(self._torch, on_host, tokenizer)
        if rows:
            self._probe.record("shown", {"loader": entry.number, **rows})

    def _facts(self, entry: Any) -> dict[str, Any]:
        """How many samples a loader gives, and where its batches are made; the tokenizer is looked for on the way."""
        loader = entry.made()
        owners = self._owners(getattr(loader, "collate_fn", None))
        codes = [_code(owner, "__call__") for owner in owners]
        codes.append(_code(getattr(loader, "dataset", None), "__getitem__"))
        masks = any(code is not None and _masks_prompts(code) for code in codes)
        path = entry.facts["path"]
        line = entry.facts["line"]
        for code in codes:
            if code is not None and self._probe.places.is_user(code):
                path = code.co_filename
                line = code.co_firstlineno
                break
        sampler = getattr(loader, "sampler", None)
        held = getattr(sampler, "__dict__", None) or {}
        samples = held.get("total_size")  # that of all ranks
        if type(samples) is not int:
            samples = length(sampler)
        return {"loader": entry.number, "samples": samples, "masks": masks, "path": path, "line": line}

    def _owners(self, collate: Any) -> list[Any]:
        """A function that makes batches, and the first ones of what it has at hand; a tokenizer is learned from."""
        owners = [collate]
        # It grows meanwhile.
        for owner in islice(owners, _OBJECTS):
            if isinstance(getattr(owner, "eos_token_id", None), int):
                self.words.learn(owner, True)
            held = getattr(owner, "__dict__", None) or {}
            owners += [held[name] for name in _OWNERS if held.get(name) is not None]
            with suppress(ValueError):  # a cell that is not filled yet
                closure = getattr(owner, "__closure__", None) or ()
                owners += [cell.cell_contents for cell in closure]
        return owners[:_OBJECTS]

    # -- text

    def _text(self, ids: Any, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Tokens, padding, labels."""
        torch, words = self._torch, self.words
        ids = _like(ids)
        rows, wide = ids.shape
        at = torch.arange(wide)
        every = torch.ones_like(ids, dtype=torch.bool)
        mask = _like(parts.get("attention_mask"), ids.shape)
        places = _like(parts.get("position_ids"), ids.shape)
        labels = _labels(parts, ids.shape)
        real = ids != words.pad if words.pad is not None else every
        attended = mask != 0 if mask is not None else real
        each = attended.sum(1, keepdim=True)
        first = attended.to(torch.uint8).argmax(1, keepdim=True)
        hashes = self._hashes_of_tokens(ids, each, first)
        full = each[:, 0] == wide
        ends = self._is_end(ids) & attended
        _, last_attended = _edges(torch, attended, at)
        closed = ends.gather(1, last_attended.clamp_(min=0))[:, 0]
        # One token of the padding's number may be the end of a text, or its begin. Without a mask all is in sight.
        begin, end = _edges(torch, real, at)
        sight = (attended if mask is not None else every) & (end >= 0)
        after = sight & (at > end + 1)
        before = sight & (at < begin - 1)
        # A row without an end is cut where each that has room ends.
        cut = (full & ~closed).sum() * (full | closed).all()
        numbers = {
            "tokens": rows * wide,
            "padding": (~attended | after | before).sum(),
            "seen_after": after.sum(),
            "seen_before": before.sum(),
            "full": full.sum(),
            "cut": cut,
            "ends": ends.any(1).sum(),
        }
        if places is not None and wide > 4:
            numbers["jumps"] = self._jumps(places, ends, attended)
            # Texts that end within a row, whose positions never begin again.
            inside = (ends[:, :-1] & attended[:, 1:]).any(1)
            again = ((places[:, 1:] == 0) & attended[:, 1:]).any()
            numbers["run_on"] = inside.sum() * ~again
        if labels is not None:
            numbers |= self._trained(ids, labels, ends, full, first)
        values = torch.stack([torch.as_tensor(number) for number in numbers.values()]).tolist()
        return {
            **dict(zip(numbers, values)),
            "rows": rows,
            "hashes": hashes,
            "width": wide,
            "eos": list(words.ends),
            "pad": words.pad,
            "masked": mask is not None,
        }

    def _trained(self, ids: Any, labels: Any, ends: Any, full: Any, first: Any) -> dict[str, Any]:
        """What the labels train: beside the tokens, the ends of texts, and the first token of each row.

        `first` is that token's column, `full` says whether a row has no padding.
        """
        wide = ids.shape[1]
        at = self._torch.arange(wide)
        trained = labels >= 0
        # Labels are compared with the token at their place, or with the next one where the program shifts them.
        same = (trained & (labels == ids)).sum()
        ahead = (trained[:, :-1] & (labels[:, :-1] == ids[:, 1:])).sum()
        shifted = ahead > same
        # What comes right after the last label of a row: the end of the answer, which no label has.
        _, last = _edges(self._torch, trained, at)
        following = (last + 1 + shifted).clamp_(max=wide - 1)
        ended_after = ends.gather(1, following)[:, 0]
        none = last[:, 0] < 0
        # Padded on the left, the first token may be trained by mistake.
        left = first > 0
        opened = trained.gather(1, first)
        return {
            "labels": trained.sum(),
            "unlabelled": none.sum(),
            "unlabelled_full": (none & full).sum(),
            "same": same,
            "ahead": ahead,
            "trained_ends": self._is_end(labels).any(1).sum(),
            "unended": (~none & ended_after).sum(),
            "left": left.sum(),
            "opened": opened.sum(),
            "opened_left": (opened & left).sum(),
        }

    def _hashes_of_tokens(self, ids: Any, each: Any, first: Any) -> list[int]:
        """A hash a row, of some of its tokens from the first one on and of how many it has.

        The same sample has the same hash whatever it is padded to, on either side.
        """
        steps = self._torch.arange(_HASHED)
        spread = steps * (each - 1).clamp_(min=0) // (_HASHED - 1)
        columns = (first + spread).clamp_(max=ids.shape[1] - 1)
        hashed = ids.gather(1, columns)
        return _hashes(self._torch.cat([hashed, each], 1).tolist())

    def _jumps(self, places: Any, ends: Any, attended: Any) -> Any:
        """Positions that do not follow the one before, and are not a text's first."""
        # A text begins within some tokens of another one's end, where one ends at all.
        ended = self._torch.nn.functional.pad(ends.cumsum(1), (3, 0))
        near = (ended[:, 3:-1] > ended[:, :-4]) | ~ends.any()
        here = places[:, 1:]
        before = places[:, :-1]
        begins = (here == 0) & (before > 0) & near
        inside = attended[:, 1:] & attended[:, :-1]
        return (inside & ~begins & (here != before + 1)).sum()

    def _is_end(self, ids: Any) -> Any:
        """Which tokens end a text."""
        ends = self._torch.tensor(self.words.ends, dtype=ids.dtype)
        return self._torch.isin(ids, ends)

    # -- images, features

    def _numbers(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Hashes of the rows."""
        real = [part for part in parts.values() if not part.is_complex()]
        sizes = [part.shape[0] for part in real]
        # What has another first size than most is no row a sample.
        rows = max(sizes, key=sizes.count, default=0)
        rowed = [part for part in real if part.shape[0] == rows][:_HASHED_PARTS]
        if not rowed:
            return {}
        # As many numbers of each row are hashed, whatever its shape is.
        flat = []
        for part in rowed:
            row_wise = part[:_ROWS].reshape(min(rows, _ROWS), -1)
            stride = max(1, -(-row_wise.shape[1] // _HASHED))
            flat.append(row_wise[:, ::stride])
        listed = [part.tolist() for part in flat]
        whole = [list(chain(*row)) for row in zip(*listed)]
        return {"rows": len(whole), "hashes": _hashes(whole), "width": len(whole[0])}


def tokens(torch: Any, value: Any) -> bool:
    """Whether a tensor may be rows of tokens."""
    whole = (torch.int64, torch.int32)
    return bool(value.dim() == 2 and value.dtype in whole and value.shape[1] > 1)


def _shape(name: str, part: Any) -> list[Any]:
    """`[name, kind of number, shape]` of a tensor."""
    return [name, str(part.dtype).replace("torch.", ""), list(part.shape)]


def _labels(parts: Mapping[str, Any], shape: Any) -> Any:
    """The first part that is called like labels and has a token's place for each; None without one."""
    for name in _LABELS:
        part = _like(parts.get(name), shape)
        if part is not None:
            return part
    return None


def _edges(torch: Any, chosen: Any, at: Any) -> tuple[Any, Any]:
    """The first and the last column of each row that is chosen; -1 as the last one where none is."""
    begin = torch.where(chosen, at, len(at)).amin(1, keepdim=True)
    end = torch.where(chosen, at, -1).amax(1, keepdim=True)
    return begin, end


def _hashes(rows: Iterable[list[Any]]) -> list[int]:
    """A number a row, below 2**63, that is the same in all processes."""
    below = (1 << 63) - 1
    return [hash(tuple(row)) & below for row in rows]


def _parts(batch: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The tensors of a batch by name, two levels deep."""
    inner: Iterable[tuple[Any, Any]]
    if isinstance(batch, Mapping):
        inner = batch.items()
    elif isinstance(batch, (list, tuple)):
        inner = enumerate(batch)
    else:
        yield name, batch
        return
    if depth >= 2:
        return
    for key, part in islice(inner, _PARTS):
        # A tuple in a tuple: its numbers would be those of the outer one.
        nested = name.isdigit() and type(key) is int
        yield from _parts(part, f"{name}.{key}" if nested else str(key), depth + 1)


def _like(part: Any, shape: Any = None) -> Any:
    """The part of a tensor of whole numbers that is looked at, if it has this shape; None for others."""
    if part is None or part.dim() != 2 or part.is_floating_point():
        return None
    part = part[:_ROWS, :_COLUMNS].long()
    return part if part.shape == (shape or part.shape) else None


def _code(owner: Any, name: str) -> Any:
    """The code of a function, or of a method of an object's class."""
    code = getattr(owner, "__code__", None)
    if code is not None:
        return code
    method = getattr(type(owner), name, None)
    return getattr(method, "__code__", None)


def _masks_prompts(code: Any) -> bool:
    """Whether a function that makes labels has their -100, and speaks of a prompt or an answer."""
    words = " ".join([*code.co_names, *code.co_varnames, *code.co_freevars])
    return -100 in code.co_consts and any(word in words.lower() for word in _SIDES)


def install(probe: Probe) -> None:
    """Look at what the loaders give."""
    probe.training[HOOK] = batches = Batches(probe)
    probe.drawn = probe.guard.reading(HOOK, batches.drawn)
