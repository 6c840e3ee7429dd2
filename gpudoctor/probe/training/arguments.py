"""What the model is called with, and what its loss compares: padding that attention sees, shifted labels, the numbers
that its first layer is given; dropout that an evaluation leaves on.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any, Callable

from ..losses import behind
from ..models import class_name, parts, unwrapped
from ..tensor_reads import capturing
from . import Look
from .batches import Words, tokens

if TYPE_CHECKING:
    from ..probe import Probe

HOOK = "arguments"
_MODELS, _TESTS = 32, 64
"""Models that are looked at, and calls of each in evaluations."""
_ROWS, _COLUMNS, _NUMBERS = 64, 8192, 1024
"""Rows of a batch that are looked at, tokens and numbers of each."""
_LOSS, _OFFSETS = "NllLossBackward0", 3
"""Whose targets are looked at; by how many places less one they may be shifted against the tokens."""
_NO_MASK = ("labels", "token_type_ids", "position_ids", "targets", "target", "y")
_NO_TOKENS = (*_NO_MASK, "attention_mask", "mask", "decoder_attention_mask")


class Known:
    """What does not change about a model."""

    def __init__(self, torch: Any, module: Any, words: Words) -> None:
        inner = unwrapped(module)
        self.module, self.name = weakref.ref(module), class_name(inner)
        self.looks = self.tests = self.drew = 0
        """Calls in training; in evaluations; those of these that drew random numbers."""
        forward: Any = getattr(type(inner), "forward", None)
        while hasattr(forward, "__wrapped__"):
            forward = forward.__wrapped__
        code = getattr(forward, "__code__", None)
        self.names: tuple[str, ...] = code.co_varnames[1 : code.co_argcount] if code is not None else ()
        config, every = inner.__dict__.get("config"), list(parts(module).values())
        self.several = bool(getattr(config, "is_encoder_decoder", False))
        self.causal = any(part.__dict__.get("is_causal") is True for part in every)
        self.drops = next(filter(None, map(_always_drops, every)), {})
        """Where a part drops values in eval mode, too."""
        plain = (p for part in every if self.drops for p in part._parameters.values() if type(p) is torch.nn.Parameter)
        self.device = next((parameter.device for parameter in plain), torch.device("cpu"))
        if config is not None:
            words.learn(config, False)
        if words.pad is None:
            words.pad = next((part.padding_idx for part in every if isinstance(part, torch.nn.Embedding)), None)
        attention = next((part for part in every if isinstance(part, torch.nn.MultiheadAttention)), None)
        leaves = [part for part in every if not part._modules and part.__dict__]
        weighed = [part for part in leaves if _weight(part) is not None or "running_mean" in part._buffers]
        first = weighed[0] if weighed and not isinstance(weighed[0], torch.nn.Embedding) else None
        self.first, self.attention = _weakly(first), _weakly(attention)
        """The first layer with weights, where it takes numbers; an attention."""
        self.next = type(weighed[1]).__name__ if len(weighed) > 1 else None


class Arguments(Look):
    """Looks at the arguments of the outermost model, and at the targets of the loss behind it."""

    def __init__(self, probe: Probe) -> None:
        super().__init__(probe)
        self._reading = probe.guard.reading(HOOK, self._given)
        self._attending = probe.guard.safely(HOOK, self._attended)

    def again(self) -> None:
        """For a new recording no model has been called."""
        super().again()
        self._known: dict[int, Known] = {}
        self._hooks: list[Any] = []
        self._pending: dict[str, Any] | None = None
        """What was found of the arguments of the call that is going on."""
        self._masked: bool | None = None
        self._tokens: Any = None
        """The tokens of the last look, until its backward pass; the model's name, whether it had several."""
        self._before: Any = None
        """The state of the random numbers before a call of an evaluation; its model."""
        self._sums: dict[str, list[float]] = {}
        """By model: labels, padding among them; labels that are the token so many places on, and that could be."""

    def tell(self) -> None:
        """Write down models that drop values in evaluations."""
        for known in self._known.values():
            if known.drew:
                fields = {"kind": "mode", "kind_of": "train-evaluation", "model": known.name, "affected": ["Dropout"]}
                self.write("numeric", {**fields, "steps": known.drew, "of": known.tests, **known.drops})

    def begins(self, module: Any, args: Any, kwargs: Any, grad: bool) -> None:
        """The outermost module is called."""
        self._tokens = None
        known = self._known.get(id(module))
        known = known if known is not None and known.module() is module else None
        if not (grad and module.training):
            if known is not None and known.drops and not (grad or module.training) and known.tests < _TESTS:
                quiet = not capturing(self._torch, known.device)
                self._before = (known, self._random(known.device)) if quiet else None
            return
        if known is None:
            if len(self._known) >= _MODELS or isinstance(module, self._torch.jit.ScriptModule):
                return
            known = self._known[id(module)] = Known(self._torch, module, self._probe.training["batches"].words)
        known.looks += 1
        if self.due(known.looks):
            with self.charged():
                named = {name: value for name, value in zip(known.names, args) if name not in kwargs} | kwargs
                self._look(known, named)

    def ends(self) -> None:
        """The call is over: only now it is known what attention was given."""
        hooks, self._hooks = self._hooks, []
        for hook in hooks:
            hook.remove()
        pending, self._pending = self._pending, None
        if pending is not None:
            self.write("call", {**pending, "attention": self._masked})
        if self._before is not None:
            (known, state), self._before = self._before, None
            known.tests += 1
            known.drew += not self._torch.equal(state, self._random(known.device))

    def _random(self, device: Any) -> Any:
        """The state of a device's random numbers, which is on the host."""
        made = getattr(getattr(self._torch, device.type, None), "default_generators", None)
        return (made[device.index or 0] if made else self._torch.default_generator).get_state()

    def _look(self, known: Known, named: dict[str, Any]) -> None:
        torch = self._torch
        tensors = {name: value for name, value in named.items() if type(value) is torch.Tensor}
        first = next(iter(tensors.values()), None)
        if first is None or capturing(torch, first.device):
            return
        self._masked = None
        compiled = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
        # What is compiled in the first step must not see hooks of ours.
        if self._probe.steps.index > 0 and not (compiled and compiled.get("frames")):
            self._hook(known)
        asked = [value for name, value in tensors.items() if name not in _NO_TOKENS and tokens(torch, value)]
        ids = tensors.get("input_ids", asked[0] if asked else None)
        if ids is None or not tokens(torch, ids):
            return
        self._tokens = tensors.get("decoder_input_ids", ids), known.name, len(asked) > 1 or known.several
        alike = {name for name, value in tensors.items() if value is not ids and value.shape == ids.shape}
        alike |= {name for name, value in named.items() if "mask" in name and value is not None}
        mask = next((name for name in named if name in alike and name not in _NO_MASK), "")
        fields = {"kind": "ids", "model": known.name, "causal": known.causal, "shape": list(ids.shape), "mask": mask}
        self._pending = {**fields, "takes_mask": "attention_mask" in known.names}

    def _hook(self, known: Known) -> None:
        # A transformer's fast path, in eval mode, is not taken where a part of it has a hook.
        first, attention = known.first(), known.attention()
        if first is not None and (attention is None or first.training):
            self._hooks.append(first.register_forward_pre_hook(lambda _, given: self._reading(known, given)))
        if attention is not None and attention.training:
            asks = attention.register_forward_pre_hook(lambda _, *given: self._attending(*given), with_kwargs=True)
            self._hooks.append(asks)

    # -- inside

    def _given(self, known: Known, given: Any) -> None:
        """What the first layer is given."""
        torch = self._torch
        value: Any = given[0] if given else None
        if type(value) is not torch.Tensor or not value.is_floating_point() or value.dim() < 2 or not value.numel():
            return
        part = value[:_ROWS].detach().flatten(1)
        part = part[:, :: max(1, -(-part.shape[1] // _NUMBERS))].to(torch.float32)
        low, high = part.amin(0), part.amax(0)
        alike = low == high
        # Zeros are rare words, or borders, if others differ.
        counts = [part == part.round(), torch.isfinite(part), alike & ((low != 0) | alike.all())]
        vector = torch.stack([low.amin(), high.amax(), part.mean(), *(count.sum().to(part.dtype) for count in counts)])
        layer, weight = known.first(), _weight(known.first())
        dims = weight.dim() if type(weight) is torch.nn.Parameter else None
        fields = {"kind": "layer", "model": known.name, "layer": type(layer).__name__, "dims": dims, "next": known.next}
        fields |= {"shape": list(value.shape), "of": part.numel(), "rows": len(part), "step": self._probe.steps.index}

        def note(values: list[float]) -> None:
            more = {name: value for name, value in zip(("least", "most", "mean"), values) if value - value == 0.0}
            sums = zip(("rounded", "finite", "constant"), map(int, values[3:]))
            self.write("call", {**fields, **more, **dict(sums)})

        self._probe.numerics.read_all(vector, note)

    def _attended(self, args: Any, kwargs: Any) -> None:
        """Whether the first attention is given a mask."""
        masks = [kwargs.get(name) for name in ("key_padding_mask", "attn_mask")] + [*args[3:4], *args[5:6]]
        self._masked = any(mask is not None for mask in masks) or bool(kwargs.get("is_causal"))

    # -- the loss

    def rooted(self, root: Any) -> None:
        """A backward pass begins: the targets of its loss beside the tokens that the model was given."""
        given, self._tokens = self._tokens, None
        if given is None:
            return
        ids, model, several = given
        with self.charged():
            nodes = [node for node in behind(root.grad_fn, (_LOSS,)) if type(node).__name__ == _LOSS]
            vectors = [vector for node in nodes if (vector := self._compared(node, ids)) is not None]
            if len(vectors) == 1:  # heads that predict further tokens have a loss each
                vector = vectors[0].to(self._torch.float64)
                self._probe.numerics.read_all(vector, lambda values: self._note(model, several, values))

    def _compared(self, node: Any, ids: Any) -> Any:
        torch = self._torch
        kept = getattr(node, "_raw_saved_target", None)
        if kept is None or getattr(kept, "unpack_hook", kept) is not None or not node._saved_reduction:
            return None  # a loss a token may be masked behind it
        target = kept.data
        rows, wide = ids.shape
        if type(target) is not torch.Tensor or target.device != ids.device or target.numel() % rows:
            return None
        each = target.numel() // rows
        if each not in (wide, wide - 1):
            return None
        labels, ids = target.detach().reshape(rows, each)[:_ROWS, :_COLUMNS], ids[:_ROWS, :_COLUMNS]
        ignored, pad = node._saved_ignore_index, self._probe.training["batches"].words.pad
        counted = (labels >= 0) & (labels != ignored)
        twice = counted[:, 1:] & (labels[:, 1:] == pad) & (labels[:, :-1] == pad) if pad is not None else counted[:, :0]
        counts = [counted.sum(), twice.sum()]
        for offset in range(_OFFSETS):
            width = min(labels.shape[1], ids.shape[1] - offset)
            own, valid = labels[:, :width], counted[:, :width]
            counts += [(valid & (own == ids[:, offset : offset + width])).sum(), valid.sum()]
        return torch.stack(counts)

    def _note(self, model: str, several: bool, values: list[float]) -> None:
        sums = self._sums[model] = [old + new for old, new in zip(self._sums.get(model, [0.0] * len(values)), values)]
        labels, pads, *pairs = map(int, sums)
        fields = {"kind": "targets", "model": model, "several": several, "labels": labels, "pads": pads}
        self.write("call", {**fields, "hits": pairs[::2], "counted": pairs[1::2]})


def _always_drops(part: Any) -> dict[str, Any]:
    """Where a part's own forward calls dropout and nowhere speaks of `training`."""
    code: Any = getattr(getattr(type(part), "forward", None), "__code__", None)
    keywords = {word for const in getattr(code, "co_consts", ()) if type(const) is tuple for word in const}
    words = {*code.co_names, *code.co_varnames, *keywords} - part._modules.keys() if code is not None else set()
    always = "training" not in words and any("dropout" in str(word) for word in words)
    return {"path": code.co_filename, "line": code.co_firstlineno} if always else {}


def _weakly(part: Any) -> Callable[[], Any]:
    """A reference that keeps nothing alive."""
    return weakref.ref(part) if part is not None else lambda: None


def _weight(part: Any) -> Any:
    return part._parameters.get("weight") if part is not None else None


def install(probe: Probe) -> None:
    """Look at the calls of models, and at what their losses compare."""
    probe.training[HOOK] = arguments = Arguments(probe)
    probe.calling = probe.guard.reading(HOOK, arguments.begins)
    probe.called = probe.guard.reading(HOOK, arguments.ends)
    probe.rooted = probe.guard.reading(HOOK, arguments.rooted)
