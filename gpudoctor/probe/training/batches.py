"""What a loader gives, read on the host before it is copied: shapes, ranges, labels, padding, hashes of the samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from . import Look, length

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "batches"
_ROWS, _COLUMNS, _HASHED = 64, 8192, 256
"""Rows of a batch that are looked at, tokens of each, and numbers of each tensor's rows that are hashed."""
_PARTS = 16
"""Tensors of a batch that are looked at."""
_LABELS = ("labels", "label", "targets", "target", "y", "1")
_OWNERS = ("data_collator", "collate_fn", "collator", "tokenizer", "processing_class", "processor", "tok")
"""Names by which a function that makes batches has the next one, or the tokenizer."""


class Words:
    """The end token and the padding, from the program's tokenizer, else from the model's config."""

    def __init__(self) -> None:
        self.ends: tuple[int, ...] = ()
        self.pad: int | None = None
        self.sure = False
        """Whether a tokenizer said so."""
        self.tokenizer: Any = None

    def learn(self, owner: Any, sure: bool) -> None:
        """Take what a tokenizer or a config says."""
        if self.sure and not sure:
            return
        ends, pad = (getattr(owner, name, None) for name in ("eos_token_id", "pad_token_id"))
        listed = ends if isinstance(ends, (list, tuple)) else [ends]
        self.ends = tuple(end for end in listed if isinstance(end, int))[:8] or self.ends
        self.pad = pad if isinstance(pad, int) else self.pad
        self.sure = self.sure or sure
        self.tokenizer = owner if sure else self.tokenizer


class Batches(Look):
    """Looks at batches, the first ones and then ever fewer."""

    def __init__(self, probe: Probe) -> None:
        super().__init__(probe)
        spread = self._torch.arange(1, 5 * _HASHED, dtype=self._torch.int64) * -0x61C8864680B583EB
        self._weights = (spread ^ (spread >> 29)) * 0x3C6EF372FE94F82B | 1

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
        fields: dict[str, Any] = {
            **self._known[entry.number],
            "role": entry.role,
            "step": self._probe.steps.index,
            "draw": entry.draws,
            "epoch": entry.epochs,
            "shapes": [[name, str(part.dtype).replace("torch.", ""), list(part.shape)] for name, part in parts.items()],
        }
        ids = _ids(self._torch, on_host)
        fields |= self._text(ids, on_host) if ids is not None else self._numbers(on_host)
        self._probe.record("batch", fields)

    def _facts(self, entry: Any) -> dict[str, Any]:
        """How many samples a loader gives, and where the program makes its batches: its collate function, else its data
        set; the tokenizer is looked for on the way.
        """
        loader = entry.made()
        fields: dict[str, Any] = {"loader": entry.number, "samples": length(getattr(loader, "sampler", None))}
        owners = [getattr(loader, "collate_fn", None)]
        for owner in islice(owners, 8):
            if isinstance(getattr(owner, "eos_token_id", None), int):
                self.words.learn(owner, True)
            held = getattr(owner, "__dict__", None) or {}
            closed = [cell.cell_contents for cell in getattr(owner, "__closure__", None) or () if _filled(cell)]
            owners += [held[name] for name in _OWNERS if held.get(name) is not None] + closed
        codes = [_code(owner, "__call__") for owner in owners[:8]]
        for code in (*codes, _code(getattr(loader, "dataset", None), "__getitem__")):
            if code is not None and self._probe.places.is_user(code):
                return {**fields, "path": code.co_filename, "line": code.co_firstlineno}
        return fields

    def _hashes(self, values: Any) -> list[int]:
        """A number a row, below 2**63, of whole numbers row by row."""
        mixed = (values ^ (values >> 7)) * self._weights[: values.shape[1]]
        mixed = mixed ^ (mixed >> 29)
        return [number & ((1 << 63) - 1) for number in mixed.sum(1).tolist()]

    # -- text

    def _text(self, ids: Any, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Tokens, padding, labels."""
        torch, words = self._torch, self.words
        ids = ids[:_ROWS, :_COLUMNS].to(torch.int64)
        rows, wide = ids.shape
        mask, places = (_like(parts.get(name), ids) for name in ("attention_mask", "position_ids"))
        real = ids != words.pad if words.pad is not None else torch.ones_like(ids, dtype=torch.bool)
        attended = mask != 0 if mask is not None else real
        each, first = attended.sum(1, keepdim=True), attended.to(torch.uint8).argmax(1, keepdim=True)
        # The same sample has the same hash whatever it is padded to, on either side.
        spread = torch.arange(_HASHED) * (each - 1).clamp_(min=0) // (_HASHED - 1)
        hashes = self._hashes(torch.cat([ids.gather(1, (first + spread).clamp_(max=wide - 1)), each], 1))
        full, ends = each[:, 0] == wide, self._is_end(ids)
        numbers = {
            "tokens": rows * wide,
            "padding": rows * wide - each.sum(),
            "full": full.sum(),
            "cut": (full & ~ends[:, -1]).sum(),
            "ends": ends.any(1).sum(),
        }
        at = torch.arange(wide)
        if words.pad is not None:
            begin, end = _edges(torch, real, at)
            # One of them may be the end token, or the first one, of the same number.
            after, before = (at > end + 1) & (end >= 0), (at < begin - 1) & (end >= 0)
            numbers |= {"after": after.sum(), "before": before.sum()}
            if mask is not None:
                numbers |= {"seen_after": (after & attended).sum(), "seen_before": (before & attended).sum()}
        if places is not None and wide > 4:
            # A text begins within some tokens of another one's end, where one ends at all.
            ended = torch.nn.functional.pad(ends.cumsum(1), (3, 0))
            near = (ended[:, 3:-1] > ended[:, :-4]) | ~ends.any()
            begins = (places[:, 1:] == 0) & (places[:, :-1] > 0) & near
            numbers["jumps"] = (attended[:, 1:] & ~begins & (places[:, 1:] != places[:, :-1] + 1)).sum()
        labels = next((found for name in _LABELS if (found := _like(parts.get(name), ids)) is not None), None)
        if labels is not None:
            trained = labels >= 0
            same = (trained & (labels == ids)).sum()
            ahead = (trained[:, :-1] & (labels[:, :-1] == ids[:, 1:])).sum()
            # What comes right after the last label of a row: the end of the answer, which no label has.
            last = _edges(torch, trained, at)[1]
            after = (last + 1 + (ahead > same)).clamp_(max=wide - 1)
            none, opened = last[:, 0] < 0, trained.gather(1, first)
            numbers |= {
                "labels": trained.sum(),
                "unlabelled": none.sum(),
                "unlabelled_full": (none & full).sum(),
                "same": same,
                "ahead": ahead,
                "trained_ends": self._is_end(labels).any(1).sum(),
                "unended": (~none & (ends & attended).gather(1, after)[:, 0]).sum(),
                "left": (first > 0).sum(),
                "opened": opened.sum(),
                "opened_left": (opened & (first > 0)).sum(),
            }
        values = torch.stack([torch.as_tensor(number) for number in numbers.values()]).tolist()
        more = {"rows": rows, "hashes": hashes, "width": wide, "eos": list(words.ends), "pad": words.pad}
        return {**dict(zip(numbers, values)), **more, "masked": mask is not None}

    def _is_end(self, ids: Any) -> Any:
        found = self._torch.zeros_like(ids, dtype=self._torch.bool)
        for end in self.words.ends:
            found |= ids == end
        return found

    # -- images, features

    def _numbers(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Hashes of the rows, and the range of the first tensor with rows of numbers."""
        torch = self._torch
        sizes = [part.shape[0] for part in parts.values() if not part.is_complex()]
        rows = max(sizes, key=sizes.count, default=0)
        rowed = [part for part in parts.values() if part.shape[0] == rows and not part.is_complex()][:4]
        if not rowed:
            return {}
        flat = [_thin(part[:_ROWS].reshape(min(rows, _ROWS), -1)) for part in rowed]
        bits = [part.to(torch.float32).view(torch.int32) if part.is_floating_point() else part for part in flat]
        whole = torch.cat([part.to(torch.int64) for part in bits], 1)
        fields = {"rows": len(whole), "hashes": self._hashes(whole), "width": whole.shape[1]}
        for part in [part for part, of in zip(flat, rowed) if of.dim() > 1][:1]:
            good = part[torch.isfinite(part)].to(torch.float32)
            if len(good):
                fields["least"], fields["most"] = (float(one) for one in good.aminmax())
        return fields


def _edges(torch: Any, chosen: Any, at: Any) -> tuple[Any, Any]:
    """The first and the last column of each row that is chosen; -1 as the last one where none is."""
    begin = torch.where(chosen, at, len(at)).amin(1, keepdim=True)
    return begin, torch.where(chosen, at, -1).amax(1, keepdim=True)


def _parts(batch: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The tensors of a batch by name, two levels deep."""
    if isinstance(batch, Mapping):
        inner = [(str(key), part) for key, part in islice(batch.items(), _PARTS)]
    elif isinstance(batch, (list, tuple)):
        inner = [(str(place), part) for place, part in enumerate(batch[:_PARTS])]
    else:
        yield name, batch
        return
    for key, part in inner if depth < 2 else ():
        yield from _parts(part, key if not name.isdigit() or not key.isdigit() else f"{name}.{key}", depth + 1)


def _ids(torch: Any, parts: Mapping[str, Any]) -> Any:
    """The tokens of a batch; None where it has none."""
    known = parts.get("input_ids")
    first = known if known is not None else next(iter(parts.values()), None)
    if first is None or first.dim() != 2 or first.dtype not in (torch.int64, torch.int32) or first.shape[1] < 2:
        return None
    return first


def _like(part: Any, ids: Any) -> Any:
    """A tensor that has an entry for each token, cut as they are; None for others."""
    if part is None or part.dim() != 2 or part.is_floating_point():
        return None
    part = part[:_ROWS, :_COLUMNS]
    return part if part.shape == ids.shape else None


def _thin(part: Any) -> Any:
    """At most so many numbers of each row, spread over it."""
    return part[:, :: max(1, -(-part.shape[1] // _HASHED))]


def _code(owner: Any, name: str) -> Any:
    """The code of a function, or of a method of an object's class."""
    code = getattr(owner, "__code__", None)
    return code if code is not None else getattr(getattr(type(owner), name, None), "__code__", None)


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def install(probe: Probe) -> None:
    """Look at what the loaders give."""
    probe.training[HOOK] = batches = Batches(probe)
    probe.drawn = probe.guard.reading(HOOK, batches.drawn)
