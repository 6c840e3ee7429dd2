"""What is told of waits for the device, without computation."""

from gpudoctor.model import Applicability, Effort, advise, where
from gpudoctor_checks.sync.allocator_flush_in_loop import AllocatorFlushInLoopDetail
from gpudoctor_checks.sync.host_sync_in_loop import HostSyncInLoopDetail
from gpudoctor_checks.sync.per_sample_metrics import PerSampleMetricsDetail

ADVICE = (
    advise(
        "SYNC001-copies",
        "copy from pinned memory without blocking",
        "DataLoader(..., pin_memory=True)",
        "batch = batch.to(device, non_blocking=True)",
        "What the step makes itself: make it on the device (torch.tensor(..., device=device)).",
        when=where(HostSyncInLoopDetail, lambda waits: waits.copies),
        applicability=Applicability.UNSAFE,
    ),
    advise(
        "SYNC002-segments",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True  # if it fought fragmentation",
        when=where(AllocatorFlushInLoopDetail, lambda flush: flush.call != "gc.collect"),
        applicability=Applicability.SAFE,
        effort=Effort.SETTING,
        override=(("env.PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),),
        sets=(("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),),
        references=(
            "https://pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf",
        ),
    ),
    advise(
        "SYNC004-batched",
        "compute on the whole batch, on the device, and read the result once",
        "correct = (logits.argmax(-1) == labels).sum()   # one kernel for all samples",
        "total_correct += correct                        # stays on the device, no .item()",
        "total_correct.item()                            # once, when it is shown",
        when=where(PerSampleMetricsDetail, lambda metric: metric.per_sample),
    ),
    advise(
        "SYNC004-device",
        "keep the metric on the device (torchmetrics), and compute it when it is shown",
        "metric = torchmetrics.F1Score(task='multiclass', num_classes=n).to(device)",
        "metric.update(logits.detach(), labels)   # in the step: no wait",
        "metric.compute()                         # every few hundred steps, or once an epoch",
        when=where(PerSampleMetricsDetail, lambda metric: not metric.per_sample),
        references=("https://lightning.ai/docs/torchmetrics/stable/pages/overview.html",),
    ),
)
