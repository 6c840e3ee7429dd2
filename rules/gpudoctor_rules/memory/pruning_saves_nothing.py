"""Answers MEM011 pruning-saves-nothing."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule


class PruningSavesNothingRule(Rule):
    """Permanent masks; structure where memory or time is the aim."""

    answers = Code("MEM011")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        yield Remedy(
            id="MEM011-remove",
            title='prune.remove(module, "weight") once the pruning is done',
            steps=(
                "for module in pruned_modules:",
                '    torch.nn.utils.prune.remove(module, "weight")   # drops weight_orig and weight_mask',
            ),
            applicability=Applicability.DISPLAY_ONLY,  # where the pruning ends only its author knows
            effort=Effort.SMALL_EDIT,
            references=("https://pytorch.org/docs/stable/generated/torch.nn.utils.prune.remove.html",),
        )
        yield Remedy(
            id="MEM011-structured",
            title="structured pruning, or 2:4 semi-structured sparsity",
            steps=(
                "Remove whole channels or heads and build smaller layers (ln_structured shows which).",
                "torch.sparse.to_sparse_semi_structured(weight)   # 2:4, from compute capability 8.0 on",
            ),
            applicability=Applicability.DISPLAY_ONLY,
            effort=Effort.REWRITE,
            references=("https://pytorch.org/tutorials/advanced/semi_structured_sparse.html",),
        )
