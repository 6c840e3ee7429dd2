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
_ROWS, _COLUMNS, _HASHED, _PARTS, _LOADERS = 64, 8192, 256, 16, 4
"""Rows of a batch that are looked at, tokens and hashed numbers of each; its tensors; loaders that are shown."""
_LABELS = ("labels", "label", "targets", "target", "y", "1")
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
        ends, pad = (getattr(owner, name, None) for name in ("eos_token_id", "pad_token_id"))
        listed = ends if isinstance(ends, (list, tuple)) else [ends]
        self.ends = tuple(end for end in listed if isinstance(end, int))[:8] or self.ends
        self.pad = pad if isinstance(pad, int) else self.pad
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
        if entry is not None:
            entry.draws += 1
            if self.due(entry.draws):
                with self.charged():
                    self._look(entry, batch)

    def _look(self, entry: Any, batch: Any) -> None:
        plain = self._torch.Tensor
        parts = dict(islice(((name, part) for name, part in _parts(batch) if type(part) is plain), _PARTS))
        if not parts:
            return
        on_host = {name: part for name, part in parts.items() if part.is_cpu and part.dim() and part.numel()}
        if entry.number not in self._known:
            self._known[entry.number] = self._facts(entry)
            asked = self._probe.settings.get("show_data") and len(self._known) <= _LOADERS
            rows = shown(self._torch, on_host, self.words.tokenizer and self.words.tokenizer()) if asked else {}
            if rows:
                self._probe.record("shown", {"loader": entry.number, **rows})
        fields = {**self._known[entry.number], "role": entry.role, "draw": entry.draws, "epoch": entry.epochs}
        shapes = [[name, str(part.dtype).replace("torch.", ""), list(part.shape)] for name, part in parts.items()]
        ids = on_host.get("input_ids", next(iter(on_host.values()), None))
        text = ids is not None and tokens(self._torch, ids)
        self.write(
            "batch", fields | {"shapes": shapes} | (self._text(ids, on_host) if text else self._numbers(on_host))
        )

    def _facts(self, entry: Any) -> dict[str, Any]:
        """How many samples a loader gives, and where its batches are made; the tokenizer is looked for on the way."""
        loader, place = entry.made(), (entry.facts["path"], entry.facts["line"])
        owners = [getattr(loader, "collate_fn", None)]
        for owner in islice(owners, 8):
            if isinstance(getattr(owner, "eos_token_id", None), int):
                self.words.learn(owner, True)
            held = getattr(owner, "__dict__", None) or {}
            owners += [held[name] for name in _OWNERS if held.get(name) is not None]
            with suppress(ValueError):  # a cell that is not filled yet
                owners += [cell.cell_contents for cell in getattr(owner, "__closure__", None) or ()]
        codes = [_code(owner, "__call__") for owner in owners[:8]]
        codes += [_code(getattr(loader, "dataset", None), "__getitem__")]
        mine = (code for code in codes if code is not None and self._probe.places.is_user(code))
        path, line = next(((code.co_filename, code.co_firstlineno) for code in mine), place)
        sampler = getattr(loader, "sampler", None)
        whole = (getattr(sampler, "__dict__", None) or {}).get("total_size")  # that of all ranks
        samples = whole if type(whole) is int else length(sampler)
        return {"loader": entry.number, "samples": samples, "path": path, "line": line}

    # -- text

    def _text(self, ids: Any, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Tokens, padding, labels."""
        torch, words = self._torch, self.words
        ids = _like(ids)
        rows, wide = ids.shape
        at, every = torch.arange(wide), torch.ones_like(ids, dtype=torch.bool)
        mask, places, labels = (
            next((part for name in names if (part := _like(parts.get(name), ids.shape)) is not None), None)
            for names in (("attention_mask",), ("position_ids",), _LABELS)
        )
        real = ids != words.pad if words.pad is not None else every
        attended = mask != 0 if mask is not None else real
        each, first = attended.sum(1, keepdim=True), attended.to(torch.uint8).argmax(1, keepdim=True)
        # The same sample has the same hash whatever it is padded to, on either side.
        spread = torch.arange(_HASHED) * (each - 1).clamp_(min=0) // (_HASHED - 1)
        hashes = _hashes(torch.cat([ids.gather(1, (first + spread).clamp_(max=wide - 1)), each], 1).tolist())
        full, ends = each[:, 0] == wide, self._is_end(ids) & attended
        closed = ends.gather(1, _edges(torch, attended, at)[1].clamp_(min=0))[:, 0]
        # One token of the padding's number may be the end of a text, or its begin. Without a mask all is in sight.
        begin, end = _edges(torch, real, at)
        sight = (attended if mask is not None else every) & (end >= 0)
        after, before = sight & (at > end + 1), sight & (at < begin - 1)
        numbers = {
            "tokens": rows * wide,
            "padding": (~attended | after | before).sum(),
            "seen_after": after.sum(),
            "seen_before": before.sum(),
            "full": full.sum(),
            # A row without an end is cut where each that has room ends.
            "cut": (full & ~closed).sum() * (full | closed).all(),
            "ends": ends.any(1).sum(),
        }
        if places is not None and wide > 4:
            # A text begins within some tokens of another one's end, where one ends at all.
            ended = torch.nn.functional.pad(ends.cumsum(1), (3, 0))
            near = (ended[:, 3:-1] > ended[:, :-4]) | ~ends.any()
            begins = (places[:, 1:] == 0) & (places[:, :-1] > 0) & near
            numbers["jumps"] = (attended[:, 1:] & ~begins & (places[:, 1:] != places[:, :-1] + 1)).sum()
        if labels is not None:
            trained = labels >= 0
            same = (trained & (labels == ids)).sum()
            ahead = (trained[:, :-1] & (labels[:, :-1] == ids[:, 1:])).sum()
            # What comes right after the last label of a row: the end of the answer, which no label has.
            last = _edges(torch, trained, at)[1]
            next_ = (last + 1 + (ahead > same)).clamp_(max=wide - 1)
            none, left, opened = last[:, 0] < 0, first > 0, trained.gather(1, first)
            numbers |= {
                "labels": trained.sum(),
                "unlabelled": none.sum(),
                "unlabelled_full": (none & full).sum(),
                "same": same,
                "ahead": ahead,
                "trained_ends": self._is_end(labels).any(1).sum(),
                "unended": (~none & ends.gather(1, next_)[:, 0]).sum(),
                "left": left.sum(),
                "opened": opened.sum(),
                "opened_left": (opened & left).sum(),
            }
        values = torch.stack([torch.as_tensor(number) for number in numbers.values()]).tolist()
        more = {"rows": rows, "hashes": hashes, "width": wide, "eos": list(words.ends), "pad": words.pad}
        return {**dict(zip(numbers, values)), **more, "masked": mask is not None}

    def _is_end(self, ids: Any) -> Any:
        return self._torch.isin(ids, self._torch.tensor(self.words.ends, dtype=ids.dtype))

    # -- images, features

    def _numbers(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Hashes of the rows, and the range of the first tensor with rows of numbers."""
        torch = self._torch
        sizes = [part.shape[0] for part in parts.values() if not part.is_complex()]
        rows = max(sizes, key=sizes.count, default=0)
        rowed = [part for part in parts.values() if part.shape[0] == rows and not part.is_complex()][:4]
        if not rowed:
            return {}
        flat = [part[:_ROWS].reshape(min(rows, _ROWS), -1) for part in rowed]
        flat = [part[:, :: max(1, -(-part.shape[1] // _HASHED))] for part in flat]
        whole = [list(chain(*row)) for row in zip(*(part.tolist() for part in flat))]
        fields = {"rows": len(whole), "hashes": _hashes(whole), "width": len(whole[0])}
        wide = next((part for part, of in zip(flat, rowed) if of.dim() > 1), flat[0][:0]).to(torch.float32)
        good = wide[torch.isfinite(wide)]
        if len(good):
            fields["least"], fields["most"] = (float(one) for one in good.aminmax())
        return fields


def tokens(torch: Any, value: Any) -> bool:
    """Whether a tensor may be rows of tokens."""
    return bool(value.dim() == 2 and value.dtype in (torch.int64, torch.int32) and value.shape[1] > 1)


def _edges(torch: Any, chosen: Any, at: Any) -> tuple[Any, Any]:
    """The first and the last column of each row that is chosen; -1 as the last one where none is."""
    begin = torch.where(chosen, at, len(at)).amin(1, keepdim=True)
    return begin, torch.where(chosen, at, -1).amax(1, keepdim=True)


def _hashes(rows: Iterable[list[Any]]) -> list[int]:
    """A number a row, below 2**63, that is the same in all processes."""
    return [hash(tuple(row)) & ((1 << 63) - 1) for row in rows]


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
    for key, part in islice(inner, _PARTS if depth < 2 else 0):
        yield from _parts(part, f"{name}.{key}" if name.isdigit() and type(key) is int else str(key), depth + 1)


def _like(part: Any, shape: Any = None) -> Any:
    """The part of a tensor of whole numbers that is looked at, if it has this shape; None for others."""
    if part is None or part.dim() != 2 or part.is_floating_point():
        return None
    part = part[:_ROWS, :_COLUMNS].long()
    return part if part.shape == (shape or part.shape) else None


def _code(owner: Any, name: str) -> Any:
    """The code of a function, or of a method of an object's class."""
    code = getattr(owner, "__code__", None)
    return code if code is not None else getattr(getattr(type(owner), name, None), "__code__", None)


def install(probe: Probe) -> None:
    """Look at what the loaders give."""
    probe.training[HOOK] = batches = Batches(probe)
    probe.drawn = probe.guard.reading(HOOK, batches.drawn)
