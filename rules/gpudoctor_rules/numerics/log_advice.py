"""Advice on what a job's log names as the first cause of its death."""

from gpudoctor.model import advise, in_log

ADVICE = (
    advise(
        "NUM001-anomaly",
        "Fix the input of the operation",
        "clamp the input of log, sqrt and division away from 0; compute softmax and losses in fp32",
        when=in_log("anomaly", "clip-error"),
    ),
    advise(
        "NUM001-step",
        "Find the first step whose gradient is not finite",
        "torch.autograd.set_detect_anomaly(True)   # on a short run from the last checkpoint",
        "Megatron: --rerun-mode validate_results tells a fault of the hardware from one of the training",
        "bf16 instead of fp16; a lower learning rate with warm-up; clip_grad_norm_",
        when=in_log("stopped", "logged"),
    ),
    advise(
        "NUM002-range",
        "Find the first step that is not finite",
        "torch.autograd.set_detect_anomaly(True)   # on a short run",
        "bf16 instead of fp16; a lower learning rate with warm-up; clip_grad_norm_",
        when=in_log(),
    ),
    advise(
        "NUM006-bf16",
        "Train in bf16 instead of fp16",
        "bf16=True, fp16=False   # Ampere or newer; models trained in bf16 overflow in fp16",
        when=in_log("scale-minimum", "half-overflow", "skipping"),
    ),
    advise(
        "NUM006-fp32",
        "Keep trainable parameters in fp32",
        "load without torch_dtype=torch.float16, or: for p in model.parameters(): p.data = "
        "p.data.float() if p.requires_grad else p.data",
        when=in_log("unscale"),
    ),
    advise(
        "NUM006-order",
        "Call unscale_ and step after a backward of the scaled loss",
        "scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()   # and check "
        "that a parameter has a gradient",
        when=in_log("no-inf-checks"),
    ),
)
