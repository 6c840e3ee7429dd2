"""Answers SYNC002 allocator-flush-in-loop."""

from collections.abc import Iterator

from gpudoctor.model import Applicability, Code, Effort, Finding, Patient, Remedy, Rule, TextEdit


class AllocatorFlushInLoopRule(Rule):
    """Take the call out; where it fought fragmentation, there is a setting for that."""

    answers = Code("SYNC002")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:  # noqa: ARG002
        call = str(finding.fact("call"))
        span = finding.span
        edits: tuple[TextEdit, ...] = ()
        if span is not None and finding.fact("alone"):
            end = span.column + len(span.text)
            edits = (
                TextEdit(
                    path=span.path,
                    line=span.line,
                    column=span.column,
                    end_line=span.line,
                    end_column=end,
                    new_text="pass",  # the block may hold nothing else
                    expected=span.text,
                ),
            )
        yield Remedy(
            id="SYNC002-remove",
            title=f"Remove {call}() from the loop",
            steps=(
                f"Delete the call; once an epoch, after the evaluation, is often enough ({call}).",
                "Memory that is freed in Python goes back to the cache by itself and is reused.",
            ),
            applicability=Applicability.SAFE,
            effort=Effort.ONE_LINE,
            edits=edits,
        )
        if call != "gc.collect":
            yield Remedy(
                id="SYNC002-segments",
                title="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                steps=(
                    "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True  # if it fought fragmentation",
                ),
                applicability=Applicability.SAFE,
                effort=Effort.SETTING,
                sets=(("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),),
                references=(
                    "https://pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf",
                ),
            )
