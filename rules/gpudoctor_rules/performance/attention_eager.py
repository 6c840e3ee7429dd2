"""Answers PERF006 attention-eager."""

from collections.abc import Iterator

from gpudoctor.analysis.source.syntax_edits import replace_node
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import (
    Applicability,
    Code,
    Edit,
    Effect,
    EffectOrigin,
    Effort,
    Finding,
    KeywordEdit,
    Patient,
    Remedy,
    Rule,
    SourceSpan,
    Unavailable,
)
from gpudoctor_checks.performance.attention_eager import AttentionEagerDetail

_SDPA = "https://pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html"
_CALL = "torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p, is_causal=causal)"


class AttentionEagerRule(Rule):
    """Attention through SDPA, which picks a fused kernel for the card."""

    answers = Code("PERF006")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        title, steps, edits = _answer(finding, patient)
        yield Remedy(
            id="PERF006-sdpa",
            title=title,
            steps=steps,
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE if edits else Effort.SMALL_EDIT,
            override=(("attention.implementation", "sdpa"),),
            effect=Effect(quantity="throughput", low=1.0, high=2.0, unit="x", provenance=EffectOrigin.PUBLISHED),
            sets=(("attention", "sdpa"),),
            edits=edits,
            references=(_SDPA, "https://arxiv.org/abs/2307.08691"),
        )


def _answer(finding: Finding, patient: Patient) -> tuple[str, tuple[str, ...], tuple[Edit, ...]]:
    detail = finding.detail_of(AttentionEagerDetail)
    kind, span = detail.kind, finding.span
    if kind == "code":
        return ("scaled_dot_product_attention", (say("Instead of product, softmax, product: {call}", call=_CALL),), ())
    if kind == "kernels":
        spans = [item for item in finding.evidence if isinstance(item, SourceSpan)]
        lines = ", ".join(str(item.line) for item in spans)
        return (
            say("Leave SDPA's kernels on"),
            (say("Lines {lines}: True, or drop them.", lines=lines),),
            tuple(_switched(spans, patient)),
        )
    if kind == "config":
        return _in_config(finding, patient)
    line = span.line if span is not None else 0
    edits: tuple[Edit, ...] = ()
    if span is not None and detail.literal:
        change = (("attn_implementation", '"sdpa"'),)
        edits = (KeywordEdit(path=span.path, line=line, column=span.column, set=change),)
    title = 'attn_implementation="sdpa"'
    where = (
        say("Line {line}: {title}", line=line, title=title)
        if span is not None
        else say("{title} where the model is loaded", title=title)
    )
    return title, (where, say('With flash-attn installed: "flash_attention_2".')), edits


def _in_config(finding: Finding, patient: Patient) -> tuple[str, tuple[str, ...], tuple[Edit, ...]]:
    detail = finding.detail_of(AttentionEagerDetail)
    key = detail.key
    name = key.rpartition(".")[2]
    value = {"flash_attn": "auto", "eager_attention": "false"}.get(name, "sdpa")
    title = f"{key}: {value}"
    steps = (title,) if name != "eager_attention" else (title, say("sdp_attention: true, or flash_attention: true"))
    for file in patient.configs.files:
        entry = file.entries.get(key) if file.path == detail.path else None
        if entry is not None:
            quoted = f'"{value}"' if file.format in {"json", "toml"} and value != "false" else value
            edit = file.edit(entry, quoted)
            return title, steps, (edit,) if edit is not None else ()
    return title, steps, ()


def _switched(spans: list[SourceSpan], patient: Patient) -> Iterator[Edit]:
    try:
        scripts = scripts_given(patient).scripts
    except Unavailable:
        return
    for script in scripts:
        for call in script.calls:
            if call.span in spans and call.node.args:
                yield replace_node(script, call.node.args[0], "True")
