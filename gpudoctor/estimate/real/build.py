"""From a model and a job to the real thing: Hugging Face's class with PEFT, an optimizer, a batch, one step."""

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from gpudoctor.errors import IncompleteError, UsageError
from gpudoctor.estimate.job import TARGETS, TrainingJob, roles
from gpudoctor.estimate.real.config import NEEDS, Source, depth, hf_config
from gpudoctor.estimate.real.standins import (
    adapter_class,
    four_bit_class,
    is_linear,
    quantize,
    register_flash,
)  # fmt: skip
from gpudoctor.estimate.tables import read_table, stack

# The optimizer of a job: torch's or transformers' own, or a stand-in that holds states of the right size.

RATE = 1e-4
_MOMENTS = {"paged-adamw": 2, "lion": 1}
"""Optimizers of bitsandbytes that keep moments in 32 bits: how many (bitsandbytes/optim)."""
_FEW_BITS: dict[str, tuple[int, float, int]] = read_table("names.json")["few_bits"]
"""Moments, bytes of an element, elements that share an fp32 scale (bitsandbytes, torchao)."""
SMALLEST = 4096
"""Elements below which bitsandbytes and torchao keep a tensor's states in 32 bits."""
BUILT = ("adamw", "adamw-foreach", "adamw-fused", "sgd", "sgd-momentum", "adafactor", *_MOMENTS, *_FEW_BITS)
"""Optimizers that can be built here."""


def optimizer_of(job: TrainingJob, parameters: Iterable[Any]) -> Any:
    """The optimizer of a job over trained parameters. Raises `UsageError` for one that is not built here."""
    import torch

    trained, name = list(parameters), job.optimizer
    if name in {"adamw", "adamw-foreach"}:
        # torch takes the foreach implementation by itself on a GPU; on other devices it has to be asked for
        return torch.optim.AdamW(trained, lr=RATE, foreach=True)
    if name == "adamw-fused":
        return torch.optim.AdamW(trained, lr=RATE, fused=True)
    if name in {"sgd", "sgd-momentum"}:
        return torch.optim.SGD(trained, lr=RATE, momentum=0.9 if name == "sgd-momentum" else 0.0, foreach=True)
    if name == "adafactor":
        from transformers.optimization import Adafactor

        return Adafactor(trained, lr=RATE, relative_step=False, scale_parameter=False, warmup_init=False)
    if name in _MOMENTS:
        return standin_class()(trained, _MOMENTS[name], 4.0, 0)
    if name in _FEW_BITS:
        return standin_class()(trained, *_FEW_BITS[name])
    raise UsageError(
        "--optimizer {name} is not built with --trace; it may be one of {built}", name=name, built=", ".join(BUILT)
    )


@cache
def standin_class() -> Any:
    """The class of optimizers of which only the states' sizes are known: they step in place, in one kernel a
    parameter, with nothing allocated beside the states."""
    import torch

    class Standin(torch.optim.Optimizer):
        """Stand-in for a fused optimizer of bitsandbytes or torchao."""

        def __init__(self, parameters: list[Any], moments: int, width: float, block: int) -> None:
            self.moments, self.width, self.block = moments, width, block
            super().__init__(parameters, {"lr": RATE})

        @torch.no_grad()
        def step(self, _closure: Any = None) -> None:
            """States where they are missing, then the update in place."""
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is None:
                        continue
                    if not self.state[parameter]:
                        self._fill(parameter)
                    parameter.add_(parameter.grad, alpha=-group["lr"])

        def _fill(self, parameter: Any) -> None:
            count, state = parameter.numel(), self.state[parameter]
            for at in range(self.moments):
                if not self.block or count < SMALLEST:
                    state[f"moment{at}"] = torch.zeros_like(parameter, dtype=torch.float32)
                    continue
                size = int(count * self.width)
                state[f"moment{at}"] = torch.zeros(size, dtype=torch.uint8, device=parameter.device)
                state[f"scale{at}"] = torch.zeros(-(-count // self.block), device=parameter.device)

    return Standin


# What is built here runs on the CPU's real tensors and, inside a `FakeTensorMode`, on fake
# ones, which have shapes and types and no memory. torch, transformers and peft are imported when something is
# built.


@dataclass(slots=True)
class BuiltJob:
    """A job ready to run."""

    model: Any
    """The module: a `PreTrainedModel`, or PEFT's around it."""
    job: TrainingJob
    batch: dict[str, Any]
    """What the model is called with."""
    spare: tuple[Any, ...]
    """Tensors of the batch that lie on the device and change nothing (the mask, all ones)."""
    optimizer: Any
    outputs: Any = field(default=None)
    """The last outputs, where the job keeps them."""

    def forward(self) -> Any:
        """The loss of one micro batch."""
        import torch

        low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.job.mixed_precision)
        with torch.autocast("cpu", low) if low is not None else nullcontext():
            outputs = self.model(**self.batch)
        if self.job.outputs_kept:
            self.outputs = outputs
        return outputs.loss

    def blocks(self) -> list[Any]:
        """The modules of its blocks, in the order of the forward."""
        model = self.model
        return blocks(model.get_base_model() if hasattr(model, "get_base_model") else model)


def build(source: Source, job: TrainingJob, *, layers: int | None = None) -> BuiltJob:
    """Build a job with random weights; `layers` blocks where given.

    Raises `UsageError` for what transformers has no class for or what cannot be built, `IncompleteError` where
    torch, transformers or peft is not installed.
    """
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError:
        raise IncompleteError(NEEDS) from None
    refuse(job)
    config = hf_config(source, layers)
    model = _model(config, job)
    model.tie_weights()  # which goes with the filling that fake weights are spared
    if job.quantized:
        model = quantize(model, job)
        if job.kbit_prepare:
            from peft import prepare_model_for_kbit_training

            model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    _checkpoint(model, job)
    if job.adapted:
        model = adapt(model, job)
    model.train()
    batch, spare = _batch(config, job, model)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return BuiltJob(model=model, job=job, batch=batch, spare=spare, optimizer=optimizer_of(job, trained))


def refuse(job: TrainingJob) -> None:
    """Raise `UsageError` for what only the formulas know."""
    wrong = [
        (job.mode != "train", "--mode inference"),
        (job.world > 1 or job.parallel != "none", f"--parallel {job.parallel} on {job.world} GPUs"),
        (job.offload != "none", f"offload {job.offload}"),
        (job.method in {"gptq-lora", "int8-lora", "freeze"}, f"--method {job.method}"),
        (job.optimizer not in BUILT, f"--optimizer {job.optimizer}"),
        (job.checkpointing in {"selective", "offloaded"}, f"checkpointing {job.checkpointing}"),
        (job.loss != "stock", f"--loss {job.loss}"),
        (job.stack != "hf", f"stack {job.stack}"),
        (job.fused_norm, "fused_norm"),
        (job.compiled, "compiled"),
        (job.master_weights, "master_weights"),
        (job.lora_fused, "lora_fused"),
        (bool(job.experts_quantized), "experts_quantized"),
    ]
    for is_so, flag in wrong:
        if is_so:
            raise UsageError(
                "it cannot run {flag}. It trains the installed transformers on one GPU with their own loss. "
                "Remove {option} or --trace",
                flag=flag,
                option=flag.split()[0],
            )


def _model(config: Any, job: TrainingJob) -> Any:
    """The model of its configuration in the job's type, with the job's attention."""
    import torch
    from transformers.models.auto import modeling_auto as auto

    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[job.dtype]
    attention = register_flash() if job.attention == "flash" else job.attention
    if getattr(config, "is_encoder_decoder", False) and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = 0
    return _made(getattr(auto, auto_class(config)), config, dtype, attention)


_CLASSES = (
    ("MODEL_FOR_CAUSAL_LM_MAPPING", "AutoModelForCausalLM"),
    ("MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING", "AutoModelForSeq2SeqLM"),
    ("MODEL_FOR_MASKED_LM_MAPPING", "AutoModelForMaskedLM"),
    ("MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING", "AutoModelForImageClassification"),
)


def auto_class(config: Any) -> str:
    """The name of transformers' class that trains a model of this configuration. Raises `UsageError`."""
    from transformers.models.auto import modeling_auto as auto

    order = _CLASSES if not getattr(config, "is_encoder_decoder", False) else _CLASSES[1:] + _CLASSES[:1]
    if config.model_type in _ENCODERS:  # which have causal classes too (BERT)
        order = _CLASSES[2:] + _CLASSES[:2]
    for mapping, name in order:
        if type(config) in getattr(auto, mapping):
            return name
    raise UsageError("{kind}: transformers has no model of it that is trained with a loss", kind=type(config).__name__)


_ENCODERS = frozenset({
    "bert", "roberta", "xlm-roberta", "electra", "distilbert", "camembert", "deberta", "deberta-v2", "mpnet",
    "albert",
})  # fmt: skip


def _made(kind: Any, config: Any, dtype: Any, attention: str) -> Any:
    """`from_config`, without filling weights where they are fake, for that takes time."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
    from transformers import initialization

    fake = any(isinstance(mode, FakeTensorMode) for mode in _get_current_dispatch_mode_stack())
    try:
        with initialization.no_init_weights() if fake else nullcontext():
            try:
                return kind.from_config(config, dtype=dtype, attn_implementation=attention)
            except (ValueError, ImportError):
                if attention != "sdpa":
                    raise
                return kind.from_config(config, dtype=dtype, attn_implementation="eager")
    except (ValueError, ImportError) as error:
        raise UsageError(
            "{kind}: transformers cannot build it: {error}", kind=type(config).__name__, error=error
        ) from None


def blocks(model: Any) -> list[Any]:
    """The blocks of a model: the longest lists of modules of a kind, of both halves where there are two."""
    import torch

    lists = [
        module for module in model.modules() if isinstance(module, torch.nn.ModuleList) and len(module)
        and sum(parameter.numel() for parameter in module.parameters())
    ]  # fmt: skip
    count = depth(model.config)
    inner = {module for one in lists for module in one.modules() if module is not one}
    return [block for each in lists if len(each) == count and each not in inner for block in each]


def _checkpoint(model: Any, job: TrainingJob) -> None:
    """Gradient checkpointing as the job's libraries do it."""
    if job.checkpointing == "none":
        return
    # without random state to keep: it lies on the host, and fake tensors have none
    options = {"use_reentrant": stack(job.stack).reentrant, "preserve_rng_state": False}
    if hasattr(model, "activation_checkpointing_enable"):
        model.activation_checkpointing_enable(options)
    else:
        model.gradient_checkpointing_enable(options)
    if job.checkpoint_every > 1:
        for at, block in enumerate(blocks(model)):
            block.gradient_checkpointing = (at + 1) % job.checkpoint_every == 0


def _batch(config: Any, job: TrainingJob, model: Any) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Ids and labels [batch, seq] (int64), or pixels [batch, 3, height, width] and labels [batch]."""
    import torch

    if hasattr(config, "image_size") and not hasattr(config, "vocab_size"):
        size = config.image_size if isinstance(config.image_size, (tuple, list)) else (config.image_size,) * 2
        dtype = next(model.parameters()).dtype if job.mixed_precision == "no" else torch.float32
        pixels = torch.zeros(job.batch, config.num_channels, *size, dtype=dtype)
        return {"pixel_values": pixels, "labels": torch.zeros(job.batch, dtype=torch.int64)}, ()
    shape = (job.batch, job.seq)
    ids = torch.randint(0, config.vocab_size, shape)
    labels = torch.randint(0, config.vocab_size, shape)
    return {"input_ids": ids, "labels": labels}, (torch.ones(shape, dtype=torch.int64),)


# PEFT's adapters on a model, by the names that its own modules have.

_INNER = ("mlp", "ffn", "feed_forward", "DenseReluDense", "intermediate", "experts", "shared_expert")
_OWN = {
    "wi": "up", "wi_0": "gate", "wi_1": "up", "wo": "down", "dense_h_to_4h": "up", "dense_4h_to_h": "down",
    "o": "o", "q": "q", "k": "k", "v": "v",
}  # fmt: skip
"""Roles of names that the job's own table does not tell."""


def adapt(model: Any, job: TrainingJob) -> Any:
    """The model with frozen weights and adapters (`PeftModel`). Raises `UsageError` where no module matches."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=job.lora_rank, lora_alpha=2 * job.lora_rank, lora_dropout=job.lora_dropout, use_dora=job.lora_dora,
        target_modules=targets(model, job),
        modules_to_save=whole_modules(model) if job.train_embeddings else None,
        fan_in_fan_out=any(type(module).__name__ == "Conv1D" for module in model.modules()),
        bias="none", task_type=None,
    )  # fmt: skip
    if job.quantized:
        config._register_custom_module({four_bit_class(): adapter_class()})
    return get_peft_model(model, config, autocast_adapter_dtype=job.lora_dtype == "fp32")


def targets(model: Any, job: TrainingJob) -> str | list[str]:
    """The modules that get an adapter: PEFT's own `all-linear`, or their full names."""
    if "all-linear" in job.lora_targets:
        return "all-linear"
    asked = {role for target in job.lora_targets for role in TARGETS.get(target, (target,))}
    if asked & {"q", "k", "v"}:
        asked.add("qkv")
    if asked & {"gate", "up"}:
        asked.add("gate_up")
    found = [name for name, module in model.named_modules() if is_linear(module) and _role(name) in asked]
    if not found:
        have = sorted({name.rsplit(".", 1)[-1] for name, module in model.named_modules() if is_linear(module)})
        raise UsageError(
            "lora_targets {targets}: no module of {name} is one of them; it has {have}",
            targets=",".join(job.lora_targets),
            name=type(model).__name__,
            have=", ".join(have),
        )
    return found


def _role(name: str) -> str:
    """The short role of a module by its path: `...mlp.c_proj` -> down, `...attention.output.dense` -> o."""
    *parents, last = name.split(".")
    inner = any(parent in _INNER for parent in parents)
    if last in {"c_proj", "dense"} and "attn" not in parents and "attention" not in parents:
        if inner:
            return "up" if "intermediate" in parents else "down"
        if last == "dense" and parents and parents[-1] == "output":
            return "down"
    try:
        return _OWN.get(last) or roles((last,))[0]
    except UsageError:
        return last


def whole_modules(model: Any) -> list[str]:
    """Names of embedding and head, for `modules_to_save`."""
    named = {module: name.rsplit(".", 1)[-1] for name, module in model.named_modules()}
    both = (model.get_input_embeddings(), model.get_output_embeddings())
    return list(dict.fromkeys(named[module] for module in both if module in named))
