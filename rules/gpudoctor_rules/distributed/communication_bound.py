"""Answers DIST002: less often, in bigger pieces, overlapped."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class CommunicationBoundRule(Rule):
    """Less often, in bigger pieces, overlapped."""

    answers = Code("DIST002")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        yield Remedy(
            id="DIST002-accumulate",
            title="accumulate gradients under no_sync()",
            steps=(
                "with model.no_sync(): loss.backward()   # for all but the last micro batch of a step",
                "twice the accumulation halves the communication; the effective batch doubles",
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.SMALL_EDIT,
        )
        yield Remedy(
            id="DIST002-buckets",
            title="bucket_cap_mb=100, gradient_as_bucket_view=True",
            steps=(
                "DistributedDataParallel(model, bucket_cap_mb=100, gradient_as_bucket_view=True)",
                "FSDP: backward_prefetch=BackwardPrefetch.BACKWARD_PRE, forward_prefetch=True",
            ),
            applicability=Applicability.SAFE,
            effort=Effort.ONE_LINE,
        )
        yield Remedy(
            id="DIST002-compress",
            title="gradients in bf16 on the wire",
            steps=(
                "model.register_comm_hook(None, "
                "torch.distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_hook)",
            ),
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE,
        )
