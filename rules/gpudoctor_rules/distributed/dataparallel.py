"""Answers DIST005 dataparallel."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effect, EffectOrigin, Effort, Finding, Patient, Remedy, Rule
from gpudoctor_checks.distributed.dataparallel import DataparallelDetail


class DataparallelRule(Rule):
    """One process a GPU."""

    answers = Code("DIST005")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        detail = finding.detail_of(DataparallelDetail)
        gpus = detail.gpus or 0
        count = str(gpus) if gpus > 1 else "gpu"
        yield Remedy(
            id="DIST005-ddp",
            title="use DistributedDataParallel with one process per GPU",
            steps=(
                'torch.distributed.init_process_group("nccl"); rank = int(os.environ["LOCAL_RANK"]); '
                "torch.cuda.set_device(rank)",
                "model = torch.nn.parallel.DistributedDataParallel(model.to(rank), device_ids=[rank])",
                "DataLoader(..., sampler=DistributedSampler(dataset)), with the batch size of one GPU",
                f"torchrun --standalone --nproc_per_node={count} {detail.script}",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.REWRITE,
            effect=Effect(quantity="throughput", low=1.1, high=2.0, unit="x", provenance=EffectOrigin.PUBLISHED)
            if gpus != 1
            else None,
            references=(
                "https://pytorch.org/tutorials/intermediate/ddp_tutorial.html#comparison-between-dataparallel-and-distributeddataparallel",
                "https://arxiv.org/abs/2006.15704",
            ),
        )
