"""Lines of a written program: what it is written from, its model, its optimizer, its data and its loop."""

from dataclasses import dataclass
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.estimate.job import TrainingJob
from gpudoctor.lang import say

# What the program of a synthetic job is written from.


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSpec:
    """What a program is written from."""

    title: str
    """The job in a line."""
    origin: str
    """The command that asked for it."""
    release: str
    """Ours."""
    job: TrainingJob
    """The job; `gpus` x `nodes` ranks of it."""
    kind: str
    """`cuda` or `cpu`."""
    facts: dict[str, Any]
    """What `facts.find` says of the model."""
    deepspeed: bool = False
    """Whether DeepSpeed's engine trains, by the config that `--deepspeed` names."""
    own_optimizer: bool = True
    """Whether the program makes the optimizer; False where DeepSpeed's config names one."""

    @property
    def several(self) -> bool:
        """Whether there are several ranks."""
        return self.job.world > 1


# The line that makes a job's optimizer, and which package it needs beside torch.

RATE = "1e-4"
_TORCH = {
    "adamw": f"torch.optim.AdamW(trained, lr={RATE})",
    "adamw-foreach": f"torch.optim.AdamW(trained, lr={RATE}, foreach=True)",
    "adamw-fused": f"torch.optim.AdamW(trained, lr={RATE}, fused=True)",
    "sgd": f"torch.optim.SGD(trained, lr={RATE})",
    "sgd-momentum": f"torch.optim.SGD(trained, lr={RATE}, momentum=0.9)",
    "adafactor": f"Adafactor(trained, lr={RATE}, relative_step=False, scale_parameter=False)",
}
_BITSANDBYTES = {
    "adamw-8bit": f"bnb.optim.AdamW8bit(trained, lr={RATE})",
    "paged-adamw": f"bnb.optim.PagedAdamW32bit(trained, lr={RATE})",
    "paged-adamw-8bit": f"bnb.optim.PagedAdamW8bit(trained, lr={RATE})",
    "lion": f"bnb.optim.Lion32bit(trained, lr={RATE})",
    "lion-8bit": f"bnb.optim.Lion8bit(trained, lr={RATE})",
}
_TORCHAO = {"adamw-ao-8bit": f"AdamW8bit(trained, lr={RATE})", "adamw-ao-4bit": f"AdamW4bit(trained, lr={RATE})"}
WRITTEN = (*_TORCH, *_BITSANDBYTES, *_TORCHAO)
"""Optimizers that a synthetic job can have."""


def needs_of(optimizer: str) -> str | None:
    """The package that an optimizer comes from; None for torch and transformers."""
    return "bitsandbytes" if optimizer in _BITSANDBYTES else "torchao" if optimizer in _TORCHAO else None


def optimizer_lines(optimizer: str) -> list[str]:
    """The statement that makes it over `trained`. Raises `UsageError` for one that cannot be had."""
    made = (_TORCH | _BITSANDBYTES | _TORCHAO).get(optimizer)
    if made is None:
        raise UsageError(
            say(
                "--optimizer {optimizer} is none that a synthetic job can run; it may be {written}",
                optimizer=optimizer,
                written=", ".join(WRITTEN),
            )
        )
    return [f"optimizer = {made}"]


# The lines that build the model: class, type, bits, what is frozen, checkpointing, adapters.

TYPES = {"bf16": "torch.bfloat16", "fp16": "torch.float16", "fp32": "torch.float32"}


def model_lines(script: ProgramSpec) -> list[str]:
    """From the configuration to a model in training mode."""
    job, facts = script.job, script.facts
    attention = f'attn_implementation="{facts["attention"]}"'
    made = f"model = {facts['auto']}.from_config(config, dtype={TYPES[job.dtype]}, {attention})"
    around = _around(script)
    lines = [f"with {around}:", f"    {made}"] if around else [made]
    if job.quantized:
        lines += _quantized(job)
    if job.method == "freeze":
        lines += _frozen(script)
    if job.checkpointing != "none":
        lines += _checkpointed(script)
    if job.adapted:
        lines += _adapted(script)
    lines.append("model.train()")
    if job.compiled:
        lines.append("model.compile()")
    return lines


def _around(script: ProgramSpec) -> str:
    """The context in which the weights come to be where they belong."""
    if script.job.quantized:
        return "init_empty_weights(include_buffers=False)"
    if script.deepspeed and script.job.parallel == "zero3":
        return "deepspeed.zero.Init(config_dict_or_path=options.deepspeed)"
    if script.kind == "cpu" or (script.several and script.job.parallel in {"fsdp", "fsdp2"}):
        return ""  # FSDP moves its shards by itself: no card has to hold the whole
    return "device"


def _quantized(job: TrainingJob) -> list[str]:
    compute = TYPES[job.mixed_precision if job.mixed_precision != "no" else job.dtype]
    if job.method == "qlora":
        lines = [f'four_bits(model, device, kind="{job.quant}", double={job.double_quant}, compute={compute})']
    else:
        lines = ["eight_bits(model, device)"]
    lines.append("fill(model, device)")
    if job.kbit_prepare:
        lines.append("model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)")
    return lines


def _frozen(script: ProgramSpec) -> list[str]:
    """Embedding and the lower blocks stay as they are."""
    spread = " + ".join(f"[*model.{name}]" for name in script.facts["blocks"])
    given = script.job.freeze_layers
    last = "-2" if given is None else str(given)
    return [
        "for name, parameter in model.named_parameters():",
        '    parameter.requires_grad_(not any(word in name for word in ("embed", "wte", "wpe")))',
        "model.get_input_embeddings().requires_grad_(False)",
        f"for block in ({spread})[:{last}]:",
        "    block.requires_grad_(False)",
    ]


def _checkpointed(script: ProgramSpec) -> list[str]:
    every = script.job.checkpoint_every
    lines = [f'model.{script.facts["checkpointing"]}({{"use_reentrant": {script.facts["reentrant"]}}})']
    if every > 1:
        spread = " + ".join(f"[*model.{name}]" for name in script.facts["blocks"])
        lines += [
            f"for number, block in enumerate({spread}, start=1):",
            f"    block.gradient_checkpointing = number % {every} == 0",
        ]
    return lines


def _adapted(script: ProgramSpec) -> list[str]:
    job, facts = script.job, script.facts
    options = [f"r={job.lora_rank}", f"lora_alpha={2 * job.lora_rank}", f"target_modules={facts['targets']!r}"]
    options += [f"lora_dropout={job.lora_dropout!r}"] if job.lora_dropout else []
    options += ["use_dora=True"] if job.lora_dora else []
    options += [f"modules_to_save={facts['whole']!r}"] if facts["whole"] else []
    options += ["fan_in_fan_out=True"] if facts["transposed"] and not job.quantized else []
    wide = "" if job.lora_dtype == "fp32" else ", autocast_adapter_dtype=False"
    one = f"model = get_peft_model(model, LoraConfig({', '.join(options)}){wide})"
    if len(one) <= 110:
        return [one]
    return ["adapters = LoraConfig(", *(f"    {option}," for option in options), ")",
            f"model = get_peft_model(model, adapters{wide})"]  # fmt: skip


# The lines of the data and of the training loop.


def loop_lines(script: ProgramSpec) -> list[str]:
    """From random rows to steps."""
    return [*_data(script), "", *_loop(script)]


def _data(script: ProgramSpec) -> list[str]:
    job, facts = script.job, script.facts
    rows = "options.steps * ACCUMULATE * options.batch" if job.accumulate > 1 else "options.steps * options.batch"
    rank = ", rank" if script.several else ""
    if facts["image"]:
        kind = TYPES[job.dtype if job.mixed_precision == "no" else "fp32"]
        made = f"RandomImages({rows}, {tuple(facts['image'])}, {facts['vocabulary']}, {kind}{rank})"
    else:
        made = f"RandomTokens({rows}, options.seq, config.vocab_size{rank})"
    pinned = ", pin_memory=True" if script.kind == "cuda" else ""
    return [f"rows = {made}", f"data = DataLoader(rows, batch_size=options.batch{pinned})"]


def _loop(script: ProgramSpec) -> list[str]:
    job = script.job
    head = "for batch in data:"
    if job.accumulate > 1 and not script.deepspeed:
        head = "for number, batch in enumerate(data, start=1):"
    lines = []
    if script.kind == "cuda":
        lines.append("batch = {name: part.to(device, non_blocking=True) for name, part in batch.items()}")
    lines += _forward_and_backward(script)
    if script.deepspeed:
        lines.append("model.step()")
    elif job.accumulate > 1:
        lines += ["if number % ACCUMULATE == 0:", *(f"    {line}" for line in _update(script))]
    else:
        lines += _update(script)
    before = ["scaler = torch.amp.GradScaler(device.type)"] if _scaled(script) else []
    return [*before, head, *(f"    {line}" for line in lines)]


def _forward_and_backward(script: ProgramSpec) -> list[str]:
    job = script.job
    lines = _forward(script)
    loss = "loss"
    if job.accumulate > 1 and not script.deepspeed:
        loss = "(loss / ACCUMULATE)"
    if script.deepspeed:
        lines.append("model.backward(loss)")
    elif _scaled(script):
        lines.append(f"scaler.scale({loss}).backward()")
    else:
        lines.append(f"{loss}.backward()")
    if job.parallel == "ddp" and job.accumulate > 1:
        alone = "with nullcontext() if number % ACCUMULATE == 0 else model.no_sync():"
        return [alone, *(f"    {line}" for line in lines)]
    return lines


def _forward(script: ProgramSpec) -> list[str]:
    kept = script.job.outputs_kept
    lines = ["outputs = model(**batch)", "loss = outputs.loss"] if kept else ["loss = model(**batch).loss"]
    if script.job.mixed_precision == "no" or script.deepspeed:
        return lines
    low = TYPES[script.job.mixed_precision]
    return [f"with torch.autocast(device.type, {low}):", *(f"    {line}" for line in lines)]


def _scaled(script: ProgramSpec) -> bool:
    """Whether losses are scaled: gradients in fp16 of weights in fp32."""
    return script.job.mixed_precision == "fp16" and not script.deepspeed


def _update(script: ProgramSpec) -> list[str]:
    step = ["scaler.step(optimizer)", "scaler.update()"] if _scaled(script) else ["optimizer.step()"]
    return [*step, "optimizer.zero_grad(set_to_none=True)"]
