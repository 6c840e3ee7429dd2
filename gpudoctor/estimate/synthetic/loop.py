"""The lines of the data and of the training loop."""

from gpudoctor.estimate.synthetic.model import TYPES
from gpudoctor.estimate.synthetic.spec import ProgramSpec


def loop_lines(script: ProgramSpec) -> list[str]:
    """From random rows to steps."""
    return [*_data(script), "", *_loop(script)]


def _data(script: ProgramSpec) -> list[str]:
    job, facts = script.job, script.facts
    rows = (
        "options.steps * ACCUMULATE * options.batch" if job.accumulate > 1 else "options.steps * options.batch"
    )
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
