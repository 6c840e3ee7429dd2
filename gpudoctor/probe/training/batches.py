"""What a loader gives, read on the host before it is copied: shapes, ranges, labels, padding, hashes of the samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..clock import PROBE
from ..tensor_reads import Budget

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "batches"
_SHARE = 0.0005
"""Share of the time for these looks, beyond those at draws that are a power of two."""
_FIRST = 3
"""Draws of a loader that are looked at in any case."""
ROWS, _COLUMNS, _FEATURES = 64, 8192, 1024
"""Rows of a batch that are looked at, tokens and numbers of each."""
_PARTS, _EMPTY = 16, 8
"""Tensors of a batch that are looked at, and batches without a label that are told beside the others."""
_ASIDE = ("attention_mask", "special_tokens_mask", "decoder_attention_mask")
"""Masks that say nothing of what is trained."""
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

    def learn(self, owner: Any, sure: bool) -> None:
        """Take what a tokenizer or a config says."""
        if self.sure and not sure:
            return
        fields = [
            owner.get(name) if isinstance(owner, dict) else getattr(owner, name, None)
            for name in ("eos_token_id", "pad_token_id")
        ]
        ends, pad = fields
        listed = ends if isinstance(ends, (list, tuple)) else [ends]
        self.ends = tuple(int(end) for end in listed if isinstance(end, int))[:8] or self.ends
        self.pad = pad if isinstance(pad, int) else self.pad
        self.sure = self.sure or sure


class Batches:
    """Looks at batches, the first ones and then ever fewer."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._torch = probe.torch
        self._weights: Any = None
        self.again()

    def again(self) -> None:
        """For a new recording no batch has been drawn."""
        self._budget = Budget(_SHARE)
        self.words = Words()
        self._entries: dict[int, list[Any]] = {}
        """By number: a loader, the epoch that it is in, batches of that, and of the longest one."""
        self._least: dict[int, tuple[Any, Any, int]] = {}
        """By loader: the least and the greatest value of each feature so far, and of how many rows."""
        self._bare: dict[int, int] = {}
        """By loader that gave a row without a label: batches without any that are yet to be told."""
        self._trained: dict[int, list[int]] = {}
        """By loader: labels so far, and tokens that could have one."""
        self._asked: dict[int, tuple[Any, Any]] = {}
        """By loader: where the program makes its batches."""

    def drawn(self, batch: Any) -> None:
        """A batch was drawn."""
        entry = self._probe.loaders.last
        if entry is None:
            return
        entry.draws += 1
        draws = entry.draws
        known = self._entries.setdefault(entry.number, [entry, 0, 0, 0])
        known[1:3] = entry.epochs, known[2] + 1 if known[1] == entry.epochs else 1
        known[3] = max(known[2:])
        usual = draws <= _FIRST or not draws & (draws - 1) or (not draws & 15 and self._budget.due())
        if not usual and not self._empty(entry.number, batch):
            return
        began = perf_counter()
        self._look(entry, batch, usual)
        took = perf_counter() - began
        self._budget.charge(took)
        self._probe.clock.charge(PROBE, took)

    def _empty(self, number: int, batch: Any) -> bool:
        """Whether a batch has no label, of a loader that gave a row without one."""
        left = self._bare.get(number, 0)
        labels: Any = batch.get("labels") if left and isinstance(batch, Mapping) else None
        if type(labels) is not self._torch.Tensor or not labels.is_cpu or int(labels.max()) >= 0:
            return False
        self._bare[number] = left - 1
        return True

    def tell(self) -> None:
        """Write down how many batches each loader gave."""
        for entry, _, _, most in self._entries.values():
            fields = {
                "batches": most,
                "loader": entry.number,
                "role": entry.role,
                "step": self._probe.steps.index,
                "kind": "sum",
            }
            self._probe.record("batch", {**fields, "draw": entry.draws, "epoch": entry.epochs, "hashes": []})

    def _look(self, entry: Any, batch: Any, usual: bool) -> None:
        plain = self._torch.Tensor
        parts = dict(islice(((name, part) for name, part in _parts(batch) if type(part) is plain), _PARTS))
        on_host = {name: part for name, part in parts.items() if part.is_cpu and part.dim() and part.numel()}
        if not parts:
            return
        if entry.number not in self._asked:
            self._asked[entry.number] = self._made_by(entry)
        path, line = self._asked[entry.number]
        shapes = [[name, str(part.dtype).replace("torch.", ""), list(part.shape)] for name, part in parts.items()]
        fields: dict[str, Any] = {
            "loader": entry.number,
            "role": entry.role,
            "step": self._probe.steps.index,
            "draw": entry.draws,
            "epoch": entry.epochs,
            "shapes": shapes,
            "path": path,
            "line": line,
            "kind": None if usual else "bare",
        }
        ids = _ids(self._torch, on_host)
        if ids is not None:
            fields |= self._text(entry.number, ids, on_host)
        else:
            fields |= self._numbers(entry.number, on_host)
        self._probe.record("batch", fields)

    def _made_by(self, entry: Any) -> tuple[Any, Any]:
        """Where the program makes the batches of a loader: its collate function, else its data set; the tokenizer is
        looked for on the way.
        """
        loader = entry.made()
        collate, found = getattr(loader, "collate_fn", None), (None, None)
        owners = [collate]
        for owner in islice(owners, 8):
            if isinstance(getattr(owner, "eos_token_id", None), int):
                self.words.learn(owner, True)
            code = _code(owner, "__call__")
            if found[0] is None and code is not None and self._probe.places.is_user(code):
                found = code.co_filename, code.co_firstlineno
            held = getattr(owner, "__dict__", None) or {}
            closed = [cell.cell_contents for cell in getattr(owner, "__closure__", None) or () if _filled(cell)]
            owners += [held[name] for name in _OWNERS if held.get(name) is not None] + closed
        code = _code(getattr(loader, "dataset", None), "__getitem__")
        if found[0] is None and code is not None and self._probe.places.is_user(code):
            found = code.co_filename, code.co_firstlineno
        return found

    def _hashes(self, values: Any) -> list[int]:
        """A number a row, below 2**63, of whole numbers row by row; zeros at the end count nothing."""
        torch = self._torch
        if self._weights is None:
            spread = torch.arange(1, _COLUMNS + 1, dtype=torch.int64) * -0x61C8864680B583EB
            self._weights = (spread ^ (spread >> 29)) * 0x3C6EF372FE94F82B | 1
        mixed = (values ^ (values >> 7)) * self._weights[: values.shape[1]]
        mixed = mixed ^ (mixed >> 29)
        return [number & ((1 << 63) - 1) for number in mixed.sum(1).tolist()]

    # -- text

    def _text(self, number: int, ids: Any, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Tokens, padding, labels."""
        torch, words = self._torch, self.words
        ids = ids[:ROWS, :_COLUMNS].to(torch.int64)
        rows, wide = ids.shape
        mask = _like(parts.get("attention_mask"), ids)
        if mask is not None:
            attended = mask != 0
        else:
            attended = ids != words.pad if words.pad is not None else torch.ones_like(ids, dtype=torch.bool)
        # The same sample has the same hash whatever it is padded to, on either side.
        places = attended.cumsum(1).sub_(1).clamp_(min=0)
        packed = torch.zeros_like(ids).scatter_add_(1, places, (ids + 1) * attended)
        full, ends = attended.all(1), self._is_end(ids)
        numbers = {
            "tokens": rows * wide,
            "padding": rows * wide - attended.sum(),
            "full": full.sum(),
            "cut": (full & ~ends[:, -1]).sum(),
            "ends": ends.any(1).sum(),
        }
        named = next((name for name in _LABELS if _like(parts.get(name), ids) is not None), None)
        if named is not None:
            numbers |= self._labels(ids, attended, _like(parts[named], ids).to(torch.int64), mask is not None, parts)
        values = torch.stack([torch.as_tensor(number) for number in numbers.values()]).tolist()
        fields: dict[str, Any] = dict(zip(numbers, values))
        if named is not None:
            # Labels that are drawn by chance leave a short row without one.
            pooled = self._trained.setdefault(number, [0, 0])
            pooled[0] += fields["labels"]
            pooled[1] += fields["tokens"] - fields["padding"]
            share = min(1.0, pooled[0] / max(1, pooled[1]))
            if fields["unlabelled"]:
                self._bare.setdefault(number, _EMPTY)
            fields["chance"] = float(((1 - share) ** attended.sum(1)).sum())
        fields |= {"rows": rows, "hashes": self._hashes(packed), "width": wide, "eos": list(words.ends)}
        return {**fields, "pad": words.pad, "masked": mask is not None}

    def _is_end(self, ids: Any) -> Any:
        found = self._torch.zeros_like(ids, dtype=self._torch.bool)
        for end in self.words.ends:
            found |= ids == end
        return found

    def _labels(self, ids: Any, attended: Any, labels: Any, masked: bool, parts: Mapping[str, Any]) -> dict[str, Any]:
        """How many tokens are trained, which rows have no label, and whether the end token is among the labels."""
        torch = self._torch
        trained = labels >= 0
        each = trained.sum(1)
        same = (trained & (labels == ids)).sum()
        ahead = (trained[:, :-1] & (labels[:, :-1] == ids[:, 1:])).sum()
        ends = self._is_end(ids)
        # What comes right after the last label of a row: the end of the answer, which no label has.
        wide = torch.arange(ids.shape[1])
        last = torch.where(trained, wide, wide.new_full((), -1)).amax(1)
        after = (last + 1 + (ahead > same)).clamp_(max=ids.shape[1] - 1)[:, None]
        unended = (last >= 0) & ends.gather(1, after)[:, 0] & ~self._is_end(labels).any(1)
        numbers = {
            "labels": trained.sum(),
            "unlabelled": (each == 0).sum(),
            "same": same,
            "ahead": ahead,
            "trained_ends": self._is_end(labels).any(1).sum(),
            "unended": unended.sum(),
            "unended_seen": (unended & attended.gather(1, after)[:, 0]).sum() if masked else unended.sum() * 0,
            "unlabelled_full": ((each == 0) & attended.all(1)).sum(),
        }
        against = same * 0
        for name, part in parts.items():
            other = _like(part, ids) if "mask" in name and name not in _ASIDE else None
            if other is not None and bool((other == 0).any()) and bool((other != 0).any()):
                against = against + (trained & (other == 0) & attended).sum()
        return {**numbers, "against": against}

    # -- images, features

    def _numbers(self, number: int, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Ranges and features of the first tensor with rows of numbers."""
        torch = self._torch
        rows = max(
            (part.shape[0] for part in parts.values()), key=[p.shape[0] for p in parts.values()].count, default=0
        )
        rowed = [part for part in parts.values() if part.shape[0] == rows]
        if not rows:
            return {"rows": 0, "hashes": []}
        flat = [_thin(part[:ROWS].reshape(min(rows, ROWS), -1)) for part in rowed[:4]]
        bits = [
            part.to(torch.float32).view(torch.int32) if part.is_floating_point() else part
            for part in flat
            if not part.is_complex()
        ]
        whole = torch.cat([part.to(torch.int64) for part in bits], 1)[:, :_COLUMNS]
        fields = {"rows": min(rows, ROWS), "hashes": self._hashes(whole), "width": whole.shape[1]}
        given = next((part for part, full in zip(flat, rowed) if full.dim() > 1), None)
        if given is None or not given.shape[1] or given.is_complex():
            return fields
        values = given.to(torch.float32)
        finite = torch.isfinite(values)
        good = values[finite]
        if len(good):
            low, high = (float(one) for one in good.aminmax())
            fields |= {"least": low, "most": high, "rounded": bool((good == good.round()).all())}
            fields |= {"mean": float(good.mean()), "deviation": float(good.std(correction=0))}
        fields |= {"unreal": int(finite.numel() - finite.sum()), "features": values.shape[1]}
        least, most = values.amin(0), values.amax(0)
        before = self._least.get(number)
        seen = len(values)
        if before is not None and before[0].shape == least.shape:
            least, most = torch.minimum(least, before[0]), torch.maximum(most, before[1])
            seen += before[2]
        self._least[number] = least, most, seen
        alike = least == most
        return {
            **fields,
            "constant": int((alike & (least != 0)).sum()),
            "zero": int((alike & (least == 0)).sum()),
            "seen": seen,
        }


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
    part = part[:ROWS, :_COLUMNS]
    return part if part.shape == ids.shape else None


def _thin(part: Any) -> Any:
    """At most so many numbers of each row, spread over it."""
    return part[:, :: max(1, -(-part.shape[1] // _FEATURES))]


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
