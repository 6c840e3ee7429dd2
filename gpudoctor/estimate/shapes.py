"""What a model is made of: widths and counts, and from them every parameter by its part, exactly.

The counts agree with the Hugging Face classes built on the meta device (`presets.json` keeps those counts and a
test compares all of them).
"""

from functools import lru_cache
from typing import Any, Literal

from gpudoctor.errors import UsageError
from gpudoctor.lang import template
from gpudoctor.model.records import fields, frozen

Kind = Literal["decoder", "encoder", "encoder-decoder", "vision"]
Norm = Literal["rmsnorm", "layernorm", "layernorm-without-bias", "plain"]
Positions = Literal["rotary", "learned", "alibi", "relative", "none"]

LARGEST = 10**14
"""Parameters beyond which a shape is taken for a mistake: fifty times the largest model published."""


@frozen
class Latent:
    """Multi-head latent attention (DeepSeek-V2 and later): low-rank queries, keys and values."""

    q_rank: int | None
    """Rank of the queries' first projection; None where the queries are projected directly."""
    kv_rank: int
    """Rank of the compressed keys and values: what the cache holds, beside the rotary part."""
    nope: int
    """Head width without position, for queries and keys."""
    rope: int
    """Head width with rotary position; one such key for all heads."""
    value: int
    """Head width of the values."""


@frozen
class Linear:
    """All copies of one linear layer of the body: `count` matrices of `rows` x `columns`."""

    role: str
    """q, k, v, o, qkv, gate, up, down, gate_up; with `cross_` or `shared_` before it; q_a, q_b, kv_a, kv_b;
    router."""
    rows: int
    """Output width."""
    columns: int
    """Input width."""
    count: int
    """How many of them the whole model has."""
    bias: bool = False
    """Whether each has a bias of `rows`."""
    expert: bool = False
    """A routed expert: fused into 3-D parameters by transformers 5, so quantizers of nn.Linear pass it by."""
    adaptable: bool = True
    """Whether "all-linear" adapters and quantizers reach it (routers are parameters, not nn.Linear)."""

    @property
    def weights(self) -> int:
        """Elements of all copies, without biases."""
        return self.rows * self.columns * self.count


@frozen
class ParameterCounts:
    """Exact parameter counts of a model by part; tied matrices are counted once."""

    embedding: int
    head: int
    """Output matrix; 0 where it is tied to the embedding or there is none."""
    linear: int
    """Weights of all linear layers of the body, routed experts (with their biases) included."""
    experts: int
    """Of these, parameters of routed experts."""
    norms: int
    """Weights and biases of norms, query and key norms included."""
    biases: int
    """Biases of linear layers and of the head."""
    positions: int
    others: int
    """Routers, token types, attention sinks, patch convolutions and the like."""

    @property
    def total(self) -> int:
        """All parameters."""
        return self.embedding + self.head + self.linear + self.norms + self.biases + self.positions + self.others


@frozen
class ModelShape:
    """The architecture of one model, enough to count its parameters and its activations."""

    name: str
    """How it is called in output: `llama-3-8b`, or the folder it was read from."""
    family: str = "llama"
    """transformers' `model_type`, or the nearest one; chooses constants that belong to one implementation."""
    kind: Kind = "decoder"
    """What runs: a causal decoder, an encoder, both, or an image encoder."""
    layers: int
    """Blocks; of each half in an encoder-decoder."""
    hidden: int
    """Width of the residual stream."""
    heads: int
    kv_heads: int
    head_dim: int
    """Width of a head; need not be hidden / heads."""
    mlp: int
    """Inner width of the (dense) MLP."""
    vocab: int
    """Rows of the embedding, padded as in the checkpoint; classes for a vision model."""
    tied: bool = False
    """Whether the output matrix is the embedding."""
    gated: bool = True
    """Whether the MLP has a gate (three matrices) or not (two)."""
    norm: Norm = "rmsnorm"
    """Kind of norm; `plain` has no weights."""
    block_norms: int = 2
    """Norms in a block: 1 where attention and MLP run in parallel, 4 in Gemma 2 and 3."""
    final_norm: bool = True
    """Whether a norm follows the last block."""
    qk_norm: Literal["none", "head", "full"] = "none"
    """Norms of queries and keys: none, per head (Qwen3, Gemma 3) or over the whole projection (OLMo 2)."""
    biases: tuple[str, ...] = ()
    """Which linears have a bias, out of `qkv`, `o`, `mlp`, `experts`, `head`, `router`."""
    positions: Positions = "rotary"
    """How positions enter."""
    max_positions: int = 0
    """Longest sequence it was made for; 0 = no limit known. A hard limit where positions are learned."""
    fused_qkv: bool = False
    """One matrix for queries, keys and values (GPT-2, GPT-NeoX, Phi-3, Falcon, BLOOM)."""
    fused_gate_up: bool = False
    """One matrix for gate and up (Phi-3, GLM-4)."""
    window: int | None = None
    """Sliding attention window in tokens."""
    window_share: float = 1.0
    """Share of the layers that use the window: 0.5 in Gemma 2 and gpt-oss, 5/6 in Gemma 3."""
    experts: int = 0
    """Routed experts in a mixture-of-experts layer; 0 = a dense model."""
    top_k: int = 0
    """Experts that a token visits."""
    expert_mlp: int = 0
    """Inner width of one routed expert."""
    shared_mlp: int = 0
    """Inner width of the shared experts together; 0 = none."""
    shared_gate: bool = False
    """Whether a gate of `hidden` weighs the shared expert (Qwen MoE)."""
    router_linear: bool = False
    """Whether the router is an nn.Linear that quantizers and counts take for one (Llama 4)."""
    dense_layers: int = 0
    """Layers of a mixture-of-experts model that have a dense MLP."""
    latent: Latent | None = None
    """Latent attention, instead of plain queries, keys and values."""
    extras: tuple[tuple[str, int], ...] = ()
    """Parameters that no other field tells: (what, elements); counted as `others`."""
    extra_linear: int = 0
    """Weights of single linears outside blocks (the transform of a masked-language head, a classifier)."""
    tower: "ModelShape | None" = None
    """The encoder of images or sound beside it, with the projector among its extras."""
    rough: bool = False
    """Whether its blocks have no formula: parameters are those of its class, activations those of plain blocks."""

    def __post_init__(self) -> None:
        counts = {"layers": 1, "hidden": 1, "heads": 1, "kv_heads": 1, "head_dim": 1}
        counts |= dict.fromkeys(
            ("mlp", "vocab", "experts", "top_k", "expert_mlp", "shared_mlp", "dense_layers", "max_positions"), 0
        )
        for name, least in counts.items():
            value, plain = getattr(self, name), name.replace("_", " ")
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                text = template("the model's {name} is {value!r}; it must be a whole number of at least 1")
                none = template("the model's {name} is {value!r}; it must be a whole number, not negative")
                raise UsageError(text if least else none, name=plain, value=value)
        if self.heads % self.kv_heads:
            raise UsageError(
                "the model's kv heads is {kv_heads}; it must divide the heads, which are {heads}",
                kv_heads=self.kv_heads, heads=self.heads,
            )  # fmt: skip
        if self.experts and not 1 <= self.top_k <= self.experts:
            raise UsageError(
                "the model has {experts} experts and top_k {top_k}; top_k must be from 1 to {experts}",
                experts=self.experts, top_k=self.top_k,
            )  # fmt: skip
        if self.dense_layers > self.layers:
            raise UsageError(
                "the model has {dense_layers} dense layers out of {layers} layers",
                dense_layers=self.dense_layers, layers=self.layers,
            )  # fmt: skip
        if self.parameters.total > LARGEST:
            raise UsageError(
                "the model would have {total:.3g} parameters; more than {largest:.0e} is taken for a "
                "mistake. Correct hidden ({hidden}), layers ({layers}), mlp ({mlp}) or vocab ({vocab})",
                total=self.parameters.total, largest=LARGEST, hidden=self.hidden, layers=self.layers, mlp=self.mlp,
                vocab=self.vocab,
            )  # fmt: skip

    @property
    def q_width(self) -> int:
        """All query heads side by side."""
        return self.heads * (self.latent.nope + self.latent.rope if self.latent else self.head_dim)

    @property
    def kv_width(self) -> int:
        """All key (or value) heads side by side."""
        return self.kv_heads * self.head_dim

    @property
    def blocks(self) -> int:
        """Blocks of all halves."""
        return self.layers * (2 if self.kind == "encoder-decoder" else 1)

    @property
    def moe_layers(self) -> int:
        """Layers with routed experts."""
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def linears(self) -> tuple[Linear, ...]:
        """Every linear layer of the body, by role."""
        return _linears(self)

    @property
    def parameters(self) -> ParameterCounts:
        """Exact counts by part."""
        return _parameters(self)

    @property
    def layer_parameters(self) -> int:
        """Parameters of the largest block: what a sharded job gathers at a time."""
        return _largest_block(self)


FIELDS = frozenset(field.name for field in fields(ModelShape))
"""Names that a shape may be given by."""


def _attention(shape: ModelShape, prefix: str = "") -> list[Linear]:
    """The linears of one attention, once for every block of one half."""
    h, n = shape.hidden, shape.layers
    qkv, o = "qkv" in shape.biases, "o" in shape.biases
    if shape.latent is not None:
        latent = shape.latent
        found = []
        if latent.q_rank is None:
            found.append(Linear(role="q", rows=shape.q_width, columns=h, count=n))
        else:
            found.append(Linear(role="q_a", rows=latent.q_rank, columns=h, count=n))
            found.append(Linear(role="q_b", rows=shape.q_width, columns=latent.q_rank, count=n))
        found.append(Linear(role="kv_a", rows=latent.kv_rank + latent.rope, columns=h, count=n))
        wide = shape.heads * (latent.nope + latent.value)
        found.append(Linear(role="kv_b", rows=wide, columns=latent.kv_rank, count=n))
        found.append(Linear(role="o", rows=h, columns=shape.heads * latent.value, count=n))
        return found
    q, kv = shape.q_width, shape.kv_width
    if shape.fused_qkv and not prefix:
        found = [Linear(role="qkv", rows=q + 2 * kv, columns=h, count=n, bias=qkv)]
    else:
        found = [
            Linear(role=prefix + role, rows=rows, columns=h, count=n, bias=qkv)
            for role, rows in (("q", q), ("k", kv), ("v", kv))
        ]
    found.append(Linear(role=prefix + "o", rows=h, columns=q, count=n, bias=o))
    return found


def _mlp(shape: ModelShape, width: int, count: int, prefix: str = "", *, expert: bool = False) -> list[Linear]:
    """The linears of `count` MLPs of one inner width."""
    if not width or not count:
        return []
    h, bias = shape.hidden, ("experts" if expert else "mlp") in shape.biases
    down = Linear(role=prefix + "down", rows=h, columns=width, count=count, bias=bias, expert=expert)
    if not shape.gated:
        return [Linear(role=prefix + "up", rows=width, columns=h, count=count, bias=bias, expert=expert), down]
    if shape.fused_gate_up and not prefix:
        return [Linear(role="gate_up", rows=2 * width, columns=h, count=count, bias=bias, expert=expert), down]
    gate, up = (
        Linear(role=prefix + role, rows=width, columns=h, count=count, bias=bias, expert=expert)
        for role in ("gate", "up")
    )
    return [gate, up, down]


@lru_cache(maxsize=1024)
def _linears(shape: ModelShape) -> tuple[Linear, ...]:
    found = _attention(shape)
    dense = shape.dense_layers if shape.experts else shape.layers
    if shape.kind == "encoder-decoder":
        decoder = [*_attention(shape), *_attention(shape, "cross_")]
        return (*found, *decoder, *_mlp(shape, shape.mlp, 2 * shape.layers))
    found += _mlp(shape, shape.mlp, dense)
    if shape.experts:
        found += _mlp(shape, shape.expert_mlp, shape.experts * shape.moe_layers, "expert_", expert=True)
        found += _mlp(shape, shape.shared_mlp, shape.moe_layers, "shared_")
        rows = (shape.experts if shape.router_linear else 0) + shape.shared_gate
        if rows:
            routers = Linear(role="router", rows=rows, columns=shape.hidden, count=shape.moe_layers, adaptable=False)
            found.append(routers)
    return tuple(found)


def norm_size(shape: ModelShape, width: int) -> int:
    """Parameters of one norm over `width`."""
    return {"rmsnorm": width, "layernorm": 2 * width, "layernorm-without-bias": width, "plain": 0}[shape.norm]


def _norms(shape: ModelShape) -> int:
    h = shape.hidden
    if shape.kind == "encoder-decoder":  # the decoder's blocks have a third norm, for cross attention
        return norm_size(shape, h) * (5 * shape.layers + 2)
    each = shape.block_norms * norm_size(shape, h)
    if shape.qk_norm == "head":
        each += 2 * shape.head_dim
    elif shape.qk_norm == "full":
        each += shape.q_width + shape.kv_width
    if shape.latent is not None:
        each += (shape.latent.q_rank or 0) + shape.latent.kv_rank
    return each * shape.layers + (norm_size(shape, h) if shape.final_norm else 0)


@lru_cache(maxsize=1024)
def _parameters(shape: ModelShape) -> ParameterCounts:
    linears = _linears(shape)
    vision = shape.kind == "vision"
    router = 0 if shape.router_linear else (shape.hidden + ("router" in shape.biases)) * shape.experts
    head = 0 if shape.tied or vision or shape.kind == "encoder" else shape.vocab * shape.hidden
    expert_biases = sum(linear.rows * linear.count for linear in linears if linear.expert and linear.bias)
    tower = _parameters(shape.tower) if shape.tower else None
    inside = tower.linear if tower else 0
    return ParameterCounts(
        embedding=0 if vision else shape.vocab * shape.hidden,
        head=head,
        linear=sum(linear.weights for linear in linears) + expert_biases + shape.extra_linear + inside,
        experts=sum(linear.weights for linear in linears if linear.expert) + expert_biases,
        norms=_norms(shape),
        biases=sum(linear.rows * linear.count for linear in linears if linear.bias and not linear.expert)
        + (shape.vocab if "head" in shape.biases else 0),
        positions=shape.max_positions * shape.hidden if shape.positions == "learned" else 0,
        others=router * shape.moe_layers
        + sum(count for _, count in shape.extras)
        + (tower.total - inside if tower else 0),
    )


@lru_cache(maxsize=1024)
def _largest_block(shape: ModelShape) -> int:
    per_block = 0
    for linear in _linears(shape):
        copies = linear.count // (shape.moe_layers or 1) if linear.expert else 1
        if shape.experts and linear.role in {"gate", "up", "down", "gate_up"} and shape.moe_layers:
            continue  # the dense layers of a mixture-of-experts model are the smaller ones
        per_block += linear.rows * linear.columns * max(copies, 1) + (linear.rows * copies if linear.bias else 0)
    norms = shape.block_norms * norm_size(shape, shape.hidden)
    return per_block + norms + shape.hidden * shape.experts


def shape_of(fields: dict[str, Any]) -> ModelShape:
    """A shape from its JSON."""
    given: dict[str, Any] = {key: _tuples(value) for key, value in fields.items()}
    if given.get("latent") is not None:
        given["latent"] = Latent(**given["latent"])
    if given.get("tower") is not None:
        given["tower"] = shape_of(given["tower"])
    return ModelShape(**given)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
