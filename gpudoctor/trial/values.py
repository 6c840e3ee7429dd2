"""What the overrides take: a value that cannot be tried is refused before anything runs."""

_COUNTS = {
    "DataLoader.num_workers": 0,
    "DataLoader.prefetch_factor": 1,
    "DataLoader.batch_size": 1,
    "ddp.no_sync": 1,
    "torch.num_threads": 1,
    "trackers.period": 1,
}
"""Overrides that take a whole number, and the least one."""
_CHOICES = {
    "autocast.dtype": ("bf16", "bfloat16", "fp16", "float16"),
    "torch.float32_matmul_precision": ("highest", "high", "medium"),
}
_SWITCHES = {
    "DataLoader.pin_memory", "DataLoader.persistent_workers", "autograd.detect_anomaly",
    "checkpointing.enabled", "ddp.find_unused_parameters", "ddp.gradient_as_bucket_view",
    "ddp.static_graph", "gc.collect", "gc.empty_cache", "gc.synchronize", "memory_format.channels_last",
    "optimizer.foreach", "optimizer.fused", "profiler.enabled", "torch.backends.cudnn.benchmark",
    "transfer.non_blocking",
}  # fmt: skip
_TRUE, _FALSE = ("true", "1", "on", "yes"), ("false", "0", "off", "no")


def value_of(name: str, text: str) -> str:
    """A value as its override takes it. Raises `ValueError` with what it takes instead."""
    low = text.strip().lower()
    if name in _SWITCHES:
        if low not in _TRUE + _FALSE:
            raise ValueError(f"{name} takes true or false, not {text!r}")
        return str(low in _TRUE)
    if name in _CHOICES and low not in _CHOICES[name]:
        raise ValueError(f"{name} takes {', '.join(_CHOICES[name])}, not {text!r}")
    if name in _COUNTS and not (low.isascii() and low.isdigit() and int(low) >= _COUNTS[name]):
        raise ValueError(f"{name} takes a whole number from {_COUNTS[name]} on, not {text!r}")
    return low if name in _CHOICES or name in _COUNTS else text
