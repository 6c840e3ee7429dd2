"""The lines that build the model: class, type, bits, what is frozen, checkpointing, adapters."""

from gpudoctor.estimate.job import TrainingJob
from gpudoctor.estimate.synthetic.spec import ProgramSpec

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
