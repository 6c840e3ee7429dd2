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
_MODELS = 32
"""Models that are looked at."""
_TESTS = 64
"""Calls of each in evaluations."""
_ROWS = 64
"""Rows of a batch that are looked at."""
_COLUMNS = 8192
"""Tokens of each row."""
_NUMBERS = 1024
"""Numbers of each row."""
_IMAGES = 4
"""Images in which neighbours are compared."""
_LOSS = "NllLossBackward0"
"""Whose targets are looked at."""
_OFFSETS = 3
"""By how many places less one they may be shifted against the tokens."""
_NO_MASK = ("labels", "token_type_ids", "position_ids", "targets", "target", "y")
_NO_TOKENS = (*_NO_MASK, "attention_mask", "mask", "decoder_attention_mask")


class Known:
    """What does not change about a model."""

    def __init__(self, torch: Any, module: Any, words: Words) -> None:
        inner = unwrapped(module)
        every = list(parts(module).values())
        config = inner.__dict__.get("config")
        self.module = weakref.ref(module)
        self.name = class_name(inner)
        self.looks = 0
        """Calls in training."""
        self.tests = 0
        """Calls in evaluations."""
        self.drew = 0
        """Those of these that drew random numbers."""
        self.names = _names_of_arguments(inner)
        self.several = bool(getattr(config, "is_encoder_decoder", False))
        self.causal = any(part.__dict__.get("is_causal") is True for part in every)
        self.ones_are_seen = any(type(part).__module__.startswith("transformers.") for part in every)
        """Whether an attention mask has 1 where it shows a token: torch's own layers mean the reverse."""
        self.drops = next(filter(None, map(_always_drops, every)), {})
        """Where a part drops values in eval mode, too."""
        self.device = torch.device("cpu")
        if self.drops:
            self.device = _device(torch, every)
        if config is not None:
            words.learn(config, False)
        if words.pad is None:
            embeddings = (part for part in every if isinstance(part, torch.nn.Embedding))
            words.pad = next((part.padding_idx for part in embeddings), None)
        attentions = (part for part in every if isinstance(part, torch.nn.MultiheadAttention))
        attention = next(attentions, None)
        # Without what holds nothing, neither numbers nor settings.
        leaves = [part for part in every if not part._modules and part.__dict__]
        weighed = [part for part in leaves if _weight(part) is not None or "running_mean" in part._buffers]
        first = None
        if weighed and not isinstance(weighed[0], torch.nn.Embedding):
            first = weighed[0]
        self.first = _weakly(first)
        """The first layer with weights, where it takes numbers."""
        self.attention = _weakly(attention)
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
        """Whether attention was given a mask in it; None where none was looked at."""
        self._tokens: Any = None
        """The tokens of the last look, until its backward pass.

        With them the model's name, and whether it had several arguments that may be tokens.
        """
        self._before: Any = None
        """The state of the random numbers before a call of an evaluation; its model."""
        self._sums: dict[str, list[float]] = {}
        """By model: labels, padding among them; labels that are the token so many places on, and that could be."""

    def tell(self) -> None:
        """Write down models that drop values in evaluations."""
        for known in self._known.values():
            if known.drew:
                fields = {
                    "kind": "mode",
                    "kind_of": "train-evaluation",
                    "model": known.name,
                    "affected": ["Dropout"],
                    "steps": known.drew,
                    "of": known.tests,
                }
                self.write("numeric", {**fields, **known.drops})

    def begins(self, module: Any, args: Any, kwargs: Any, grad: bool) -> None:
        """The outermost module is called."""
        self._tokens = None
        known = self._known.get(id(module))
        if known is not None and known.module() is not module:
            known = None  # that one is gone, and its id was given away again
        if not (grad and module.training):
            # Only eval mode without gradients is an evaluation: a frozen part may train in eval mode.
            drops = known is not None and known.drops
            evaluates = drops and not (grad or module.training)
            if known is not None and evaluates and known.tests < _TESTS:
                self._begin_test(known)
            return
        if known is None:
            if len(self._known) >= _MODELS or isinstance(module, self._torch.jit.ScriptModule):
                return
            known = Known(self._torch, module, self._probe.training["batches"].words)
            self._known[id(module)] = known
        known.looks += 1
        if self.due(known.looks):
            with self:
                by_place = zip(known.names, args)
                named = {name: value for name, value in by_place if name not in kwargs}
                self._look(known, named | kwargs)

    def _begin_test(self, known: Known) -> None:
        """Keep what `ends` compares with: a call that draws random numbers moves their state."""
        self._before = None
        if not capturing(self._torch, known.device):
            self._before = (known, self._random(known.device))

    def ends(self) -> None:
        """The call is over: only now it is known what attention was given."""
        hooks = self._hooks
        self._hooks = []
        for hook in hooks:
            hook.remove()
        pending = self._pending
        self._pending = None
        if pending is not None:
            self.write("call", {**pending, "attention": self._masked})
        if self._before is not None:
            known, state = self._before
            self._before = None
            known.tests += 1
            known.drew += not self._torch.equal(state, self._random(known.device))

    def _random(self, device: Any) -> Any:
        """The state of a device's random numbers, which is on the host."""
        backend = getattr(self._torch, device.type, None)
        made = getattr(backend, "default_generators", None)
        generator = made[device.index or 0] if made else self._torch.default_generator
        return generator.get_state()

    def _look(self, known: Known, named: dict[str, Any]) -> None:
        """Which argument is the tokens, and which one masks them."""
        torch = self._torch
        tensors = {name: value for name, value in named.items() if type(value) is torch.Tensor}
        first = next(iter(tensors.values()), None)
        if first is None or capturing(torch, first.device):
            return
        self._masked = None
        dynamo = sys.modules.get("torch._dynamo.utils")
        compiled = getattr(dynamo, "counters", None)
        # What is compiled in the first step must not see hooks of ours.
        if self._probe.steps.index > 0 and not (compiled and compiled.get("frames")):
            self._hook(known)
        asked = [value for name, value in tensors.items() if name not in _NO_TOKENS and tokens(torch, value)]
        ids = tensors.get("input_ids", asked[0] if asked else None)
        if ids is None or not tokens(torch, ids):
            return
        several = len(asked) > 1 or known.several
        self._tokens = (tensors.get("decoder_input_ids", ids), known.name, several)
        others = {name: value for name, value in tensors.items() if value is not ids}
        alike = {name for name, value in others.items() if value.shape == ids.shape}
        # A mask of another shape, or of another kind than a tensor, is known by its name.
        alike |= {name for name, value in named.items() if "mask" in name and value is not None}
        masks = (name for name in named if name in alike and name not in _NO_MASK)
        fields = {"kind": "ids", "model": known.name, "causal": known.causal, "shape": list(ids.shape)}
        fields["mask"] = next(masks, "")
        fields["takes_mask"] = "attention_mask" in known.names
        self._pending = fields
        self._hidden(known, ids, tensors.get("attention_mask"))

    def _hidden(self, known: Known, ids: Any, mask: Any) -> None:
        """Neighbours that the mask hides, and those of them that differ: padding is one token over and over.

        One pair a row does not count: the end of a text, and the padding after it.
        """
        if mask is None or mask.shape != ids.shape or ids.dim() != 2 or not known.ones_are_seen:
            return
        hidden = mask == 0
        pairs = hidden[:, 1:] & hidden[:, :-1]
        differ = pairs & (ids[:, 1:] != ids[:, :-1])
        more = (differ.sum(1) - 1).clamp(min=0)
        vector = self._torch.stack([hidden.sum(), pairs.sum(), more.sum()]).to(self._torch.float64)
        fields = {"kind": "mask", "model": known.name, "of": ids.numel()}

        def note(values: list[float]) -> None:
            counts = dict(zip(("hidden", "pairs", "differ"), map(int, values)))
            self.write("call", {**fields, **counts})

        self._probe.numerics.read_all(vector, note)

    def _hook(self, known: Known) -> None:
        """Look inside during this one call; `ends` takes the hooks away."""
        first = known.first()
        attention = known.attention()
        # A transformer's fast path, in eval mode, is not taken where a part of it has a hook.
        if first is not None and (attention is None or first.training):
            reads = first.register_forward_pre_hook(lambda _, given: self._reading(known, given))
            self._hooks.append(reads)
        if attention is not None and attention.training:
            asks = attention.register_forward_pre_hook(lambda _, *given: self._attending(*given), with_kwargs=True)
            self._hooks.append(asks)

    # -- inside

    def _given(self, known: Known, given: Any) -> None:
        """What the first layer is given."""
        torch = self._torch
        value: Any = given[0] if given else None
        if type(value) is not torch.Tensor or not value.is_floating_point():
            return
        if value.dim() < 2 or not value.numel():
            return
        part = value[:_ROWS].detach().flatten(1)
        stride = max(1, -(-part.shape[1] // _NUMBERS))
        part = part[:, ::stride].to(torch.float32)
        low = part.amin(0)
        high = part.amax(0)
        rounded = part == part.round()
        finite = torch.isfinite(part)
        alike = low == high
        # Zeros are rare words, or borders, if others differ.
        constant = alike & ((low != 0) | alike.all())
        sums = [count.sum().to(part.dtype) for count in (rounded, finite, constant)]
        mixed = _mixed(value[:_IMAGES].detach().to(torch.float32))
        vector = torch.stack([low.amin(), high.amax(), part.mean(), *sums, mixed])
        layer = known.first()
        weight = _weight(layer)
        fields = {
            "kind": "layer",
            "model": known.name,
            "layer": type(layer).__name__,
            "dims": weight.dim() if type(weight) is torch.nn.Parameter else None,
            "next": known.next,
            "shape": list(value.shape),
            "of": part.numel(),
            "rows": len(part),
            "step": self._probe.steps.index,
        }

        def note(values: list[float]) -> None:
            ranges = zip(("least", "most", "mean"), values)
            # What is not finite is left out: less itself it is not zero.
            known_ranges = {name: value for name, value in ranges if value - value == 0.0}
            counts = dict(zip(("rounded", "finite", "constant"), map(int, values[3:6])))
            self.write("call", {**fields, **known_ranges, **counts, "mixed": values[6]})

        self._probe.numerics.read_all(vector, note)

    def _attended(self, args: Any, kwargs: Any) -> None:
        """Whether the first attention is given a mask."""
        named = [kwargs.get(name) for name in ("key_padding_mask", "attn_mask")]
        by_place = [*args[3:4], *args[5:6]]
        masked = any(mask is not None for mask in named + by_place)
        self._masked = masked or bool(kwargs.get("is_causal"))

    # -- the loss

    def rooted(self, root: Any) -> None:
        """A backward pass begins: the targets of its loss beside the tokens that the model was given."""
        given = self._tokens
        self._tokens = None
        if given is None:
            return
        ids, model, several = given
        with self:
            nodes = [node for node in behind(root.grad_fn, (_LOSS,)) if type(node).__name__ == _LOSS]
            compared = [self._compared(node, ids) for node in nodes]
            vectors = [vector for vector in compared if vector is not None]
            # Heads that predict further tokens have a loss each.
            if len(vectors) == 1:
                vector = vectors[0].to(self._torch.float64)
                self._probe.numerics.read_all(vector, lambda values: self._note(model, several, values))

    def _compared(self, node: Any, ids: Any) -> Any:
        """How a loss's targets and the tokens match, counted on their device; None where they do not belong together.

        Labels, padding among them; then two numbers an offset: labels that are the token so many places on, and
        labels that could be.
        """
        torch = self._torch
        kept = getattr(node, "_raw_saved_target", None)
        if kept is None or getattr(kept, "unpack_hook", kept) is not None:
            return None
        if not node._saved_reduction:
            return None  # a loss a token may be masked behind it
        # On the host, or another device, it is not beside the tokens: nothing is copied for this.
        target = kept.data
        rows, wide = ids.shape
        if type(target) is not torch.Tensor or target.device != ids.device or target.numel() % rows:
            return None
        each = target.numel() // rows
        # One less: the program has shifted them itself.
        if each not in (wide, wide - 1):
            return None
        labels = target.detach().reshape(rows, each)[:_ROWS, :_COLUMNS]
        ids = ids[:_ROWS, :_COLUMNS]
        ignored = node._saved_ignore_index
        counted = (labels >= 0) & (labels != ignored)
        pad = self._probe.training["batches"].words.pad
        # The first padding after a text may be its end.
        twice = counted[:, :0]
        if pad is not None:
            padded = labels == pad
            twice = counted[:, 1:] & padded[:, 1:] & padded[:, :-1]
        counts = [counted.sum(), twice.sum()]
        for offset in range(_OFFSETS):
            width = min(labels.shape[1], ids.shape[1] - offset)
            own = labels[:, :width]
            valid = counted[:, :width]
            hits = valid & (own == ids[:, offset : offset + width])
            counts += [hits.sum(), valid.sum()]
        return torch.stack(counts)

    def _note(self, model: str, several: bool, values: list[float]) -> None:
        """Add up what the looks at a model's targets have found."""
        before = self._sums.get(model, [0.0] * len(values))
        sums = [old + new for old, new in zip(before, values)]
        self._sums[model] = sums
        labels, pads, *pairs = map(int, sums)
        fields = {"kind": "targets", "model": model, "several": several, "labels": labels, "pads": pads}
        self.write("call", {**fields, "hits": pairs[::2], "counted": pairs[1::2]})


def _mixed(images: Any) -> Any:
    """How much less pixels differ that lie as far apart as there are channels than neighbours do; 0 for no images.

    Below 1 the colours of a pixel lie side by side: channels last were given another shape, and not moved.
    """
    channels = images.shape[1]
    if images.dim() != 4 or channels < 3 or images.shape[3] < 4 * channels:
        return images.new_zeros(())
    far = (images[..., channels:] - images[..., :-channels]).abs().mean()
    near = (images[..., 1:] - images[..., :-1]).abs().mean()
    return far / near


def _names_of_arguments(module: Any) -> tuple[str, ...]:
    """Those that the forward of a module's class takes by place, without what decorators make of it."""
    forward: Any = getattr(type(module), "forward", None)
    while hasattr(forward, "__wrapped__"):
        forward = forward.__wrapped__
    code = getattr(forward, "__code__", None)
    return code.co_varnames[1 : code.co_argcount] if code is not None else ()


def _device(torch: Any, every: list[Any]) -> Any:
    """Where the first plain parameter is; the host, where there is none."""
    for part in every:
        for parameter in part._parameters.values():
            if type(parameter) is torch.nn.Parameter:
                return parameter.device
    return torch.device("cpu")


def _always_drops(part: Any) -> dict[str, Any]:
    """Where a part's own forward calls dropout and nowhere speaks of `training`."""
    forward = getattr(type(part), "forward", None)
    code: Any = getattr(forward, "__code__", None)
    if code is None:
        return {}
    # `dropout(x, training=...)` has its keywords in a constant.
    tuples = [const for const in code.co_consts if type(const) is tuple]
    keywords = {word for words in tuples for word in words}
    words = {*code.co_names, *code.co_varnames, *keywords} - part._modules.keys()
    if "training" in words or not any("dropout" in str(word) for word in words):
        return {}
    return {"path": code.co_filename, "line": code.co_firstlineno}


def _weakly(part: Any) -> Callable[[], Any]:
    """A reference that keeps nothing alive."""
    return weakref.ref(part) if part is not None else lambda: None


def _weight(part: Any) -> Any:
    """The weight of a part, where it has one; asked of the part itself, it may be computed by the program's code."""
    return part._parameters.get("weight") if part is not None else None


def install(probe: Probe) -> None:
    """Look at the calls of models, and at what their losses compare."""
    probe.training[HOOK] = arguments = Arguments(probe)
    probe.calling = probe.guard.reading(HOOK, arguments.begins)
    probe.called = probe.guard.reading(HOOK, arguments.ends)
    probe.rooted = probe.guard.reading(HOOK, arguments.rooted)
