"""Answers DATA004 unpinned-transfer."""

from collections.abc import Iterator

from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say
from gpudoctor.model import (
    Applicability,
    Code,
    Effort,
    Finding,
    KeywordEdit,
    Patient,
    Remedy,
    Resource,
    Rule,
    SourceSpan,
)
from gpudoctor_checks.data.unpinned_transfer import UnpinnedTransferDetail


class UnpinnedTransferRule(Rule):
    """Pinned batches and copies that do not block, together."""

    answers = Code("DATA004")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        detail = finding.detail_of(UnpinnedTransferDetail)
        kind = detail.kind
        spans = [item for item in finding.evidence if isinstance(item, SourceSpan) and item.end_line]
        edits: list[KeywordEdit] = []
        if kind != "blocking" and spans:
            keyword = "dataloader_pin_memory" if kind == "engine" else "pin_memory"
            edits.append(_set(spans[0], keyword))
        if kind in ("blocking", "unpinned"):
            edits += [_set(span, "non_blocking", _move(span, patient)) for span in spans[1:]]
        names = list(dict.fromkeys(name for edit in edits for name, _ in edit.set))
        steps = [
            say(
                "{call}, line {edit_line}: {name}=True",
                call=say("Loader") if name.endswith("pin_memory") else say("Copy"),
                edit_line=edit.line,
                name=name,
            )
            for edit in edits
            for name, _ in edit.set
        ]
        if detail.workers == 0 and kind != "blocking":
            steps.append(say("Give the loader workers too: without them the training process itself does the pinning."))
        yield Remedy(
            id="DATA004-pin",
            title=", ".join(f"{name}=True" for name in names) or "pin_memory=True, non_blocking=True",
            steps=tuple(steps) or ("Loader: pin_memory=True; batch.to(device, non_blocking=True).",),
            # A copy that does not block reads what is written into its source meanwhile.
            applicability=Applicability.UNSAFE if "non_blocking" in names else Applicability.SAFE,
            effort=Effort.ONE_LINE if len(edits) == 1 else Effort.SMALL_EDIT,
            sets=tuple((f"DataLoader.{name}", "True") for name in names if name == "pin_memory"),
            uses=frozenset({Resource.HOST_MEMORY}) if kind != "blocking" else frozenset(),
            edits=tuple(edits) if kind == "blocking" or detail.settable else (),
            override=(("DataLoader.pin_memory", "True"),) if kind != "blocking" else (),
            references=("https://pytorch.org/tutorials/intermediate/pinmem_nonblock.html",),
        )


def _set(span: SourceSpan, keyword: str, method: str = "") -> KeywordEdit:
    change = ((keyword, "True"),)
    return KeywordEdit(path=span.path, line=span.line, column=span.column, set=change, method=method)


def _move(span: SourceSpan, patient: Patient) -> str:
    """`to` or `cuda`, whichever of the calls at a place copies: `x.float().cuda()` has two."""
    source = optional(lambda: patient.source)
    names = {
        call.method
        for script in (source.scripts if source is not None else ())
        if script.path == span.path
        for call in script.calls_to(".to", ".cuda")
        if call.span == span
    }
    return names.pop() if len(names) == 1 else ""
