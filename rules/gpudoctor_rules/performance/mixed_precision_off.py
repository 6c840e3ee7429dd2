"""Answers PERF001 mixed-precision-off."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import enclosing
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.analysis.source.syntax_edits import replace_node
from gpudoctor.analysis.source.tf32 import tf32_settings
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
    Setting,
    TextEdit,
    Unavailable,
)
from gpudoctor.model.job_devices import lowest_capability
from gpudoctor.model.signs.configs import Configs
from gpudoctor.model.signs.source import Loop, Script
from gpudoctor_checks.performance.mixed_precision_off import MixedPrecisionOffDetail

_AMPERE = (8, 0)
_GUIDE = "https://pytorch.org/docs/stable/notes/amp_examples.html"
_PUBLISHED = "https://pytorch.org/blog/what-every-user-should-know-about-mixed-precision-training-in-pytorch/"


class MixedPrecisionOffRule(Rule):
    """bfloat16 autocast where the card has it, float16 with a scaler where not; TF32 for what stays float32."""

    answers = Code("PERF001")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        card = lowest_capability(patient)
        bf16 = card is None or card >= _AMPERE
        program = _program(finding, patient)
        title, steps, edits = _answer(finding, patient, program, bf16)
        large = bool(finding.detail_of(MixedPrecisionOffDetail).large)
        yield Remedy(
            id="PERF001-autocast",
            title=title,
            steps=steps,
            applicability=Applicability.UNSAFE,
            effort=Effort.ONE_LINE if edits else Effort.SMALL_EDIT,
            override=(("autocast.dtype", "bf16"),) if bf16 else (),
            effect=Effect(quantity="throughput", low=1.2, high=3.0, unit="x", provenance=EffectOrigin.PUBLISHED)
            if large
            else None,
            sets=(("precision", "bf16" if bf16 else "fp16"),),
            edits=edits,
            references=(_GUIDE, _PUBLISHED),
        )
        if program is not None and bf16 and not tf32_settings(program):
            yield _tf32()


def _tf32() -> Remedy:
    return Remedy(
        id="PERF001-tf32",
        title='torch.set_float32_matmul_precision("high")',
        steps=(
            'After the imports: torch.set_float32_matmul_precision("high")',
            "Products that stay float32 then run in TF32: 10 bits of mantissa, float32's range.",
        ),
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
        override=(("torch.float32_matmul_precision", "high"),),
        references=("https://pytorch.org/docs/stable/notes/cuda.html#tf32-on-ampere",),
    )


def _answer(
    finding: Finding, patient: Patient, program: Program | None, bf16: bool
) -> tuple[str, tuple[str, ...], tuple[Edit, ...]]:
    detail = finding.detail_of(MixedPrecisionOffDetail)
    keyword, value = (detail.keyword or ""), (detail.value or "")
    span = finding.span
    if keyword and span is not None and detail.decides:
        if not bf16:
            keyword, value = ("fp16", "True") if keyword == "bf16" else (keyword, value.replace("bf16-", "16-"))
            value = value.replace('"bf16"', '"fp16"')
        edit = KeywordEdit(path=span.path, line=span.line, column=span.column, set=((keyword, value),))
        return (
            f"{keyword}={value}",
            (say("Line {line}: {keyword}={value}", line=span.line, keyword=keyword, value=value),),
            (edit,),
        )
    if detail.decides and span is not None:
        return (
            say("Switch mixed precision on"),
            (say("Line {line}: turn the switch on when the job is launched, or make it the default.", line=span.line),),
            (),
        )
    if detail.kind == "config":
        return _in_config(finding, patient, bf16)
    dtype = "torch.bfloat16" if bf16 else "torch.float16"
    context = f'torch.autocast("cuda", dtype={dtype})'
    steps = [say("Around the forward and the loss: with {context}:", context=context)]
    if not bf16:
        steps.append("scaler = torch.amp.GradScaler('cuda'); scaler.scale(loss).backward()")
        steps.append("scaler.step(optimizer); scaler.update()")
    threads = program is not None and "torch.nn.DataParallel" in program.called
    if threads:  # autocast is a state of the thread, and DataParallel computes in threads of its own
        steps = [say("Above the model's forward: @{context}", context=context), *steps[1:]]
    edits = tuple(_wrapped(finding, program, context)) if bf16 and program is not None and not threads else ()
    where = (
        say("@{context} on the model's forward", context=context)
        if threads
        else say("with {context}: around the forward", context=context)
    )
    return where, tuple(steps), edits


def _in_config(finding: Finding, patient: Patient, bf16: bool) -> tuple[str, tuple[str, ...], tuple[Edit, ...]]:
    """The value of the key that says float32."""
    configs = _configs(patient)
    settings = [item for item in finding.evidence if isinstance(item, Setting)]
    short = "bf16" if bf16 else "fp16"
    # Of two switches the one for this card is turned.
    settings.sort(key=lambda item: short not in item.key)
    for setting in settings[:1]:
        name = setting.key.rpartition(".")[2]
        word = "true" if setting.value == "false" and name != "mixed_precision" else short
        if "precision" in name and word == short:
            word = f"{short}-mixed" if bf16 else "16-mixed"
            word = short if name == "mixed_precision" else word
        for file in configs.files:
            entry = file.entries.get(setting.key) if file.path == setting.path else None
            if entry is None:
                continue
            if setting.key == "finetuning_type":
                return (f"{short}: true", (say("{file}: add {short}: true", file=file.path, short=short),), ())
            if name == "fp16" and bf16:
                return "bf16: true", (say("{file}: bf16: true", file=file.path),), ()
            quoted = f'"{word}"' if file.format in {"json", "toml"} and word != "true" else word
            edit = file.edit(entry, quoted)
            return (
                f"{setting.key}: {word}",
                (
                    say(
                        "{file}:{entry_line}: {key}: {word}",
                        file=file.path,
                        entry_line=entry.line,
                        key=setting.key,
                        word=word,
                    ),
                ),
                ((edit,) if edit is not None else ()),
            )
    return f"{short}: true", (say("Set {short} in the config.", short=short),), ()


def _configs(patient: Patient) -> Configs:
    try:
        return patient.configs
    except Unavailable:
        return Configs(files=())


def _program(finding: Finding, patient: Patient) -> Program | None:
    try:
        programs = training_programs(scripts_given(patient))
    except Unavailable:
        return None
    return next((item for item in programs if item.entry.path == finding.subject), None)


def _wrapped(finding: Finding, program: Program, context: str) -> Iterator[TextEdit]:
    """The statements from the forward to the loss, put under autocast, where they stand in one block."""
    detail = finding.detail_of(MixedPrecisionOffDetail)
    for script, loop in program.loops:
        if loop.span.line == detail.line:
            edit = _wrap(script, loop, context)
            if edit is not None:
                yield edit
            return


def _wrap(script: Script, loop: Loop, context: str) -> TextEdit | None:
    backwards = [
        event
        for event in loop.events
        if event.call is not None
        and event.call.method == "backward"
        and not event.via
        and event.span.path == script.path
    ]
    if len(backwards) != 1 or script.imports.get("torch") != "torch" or backwards[0].call is None:
        return None
    block = next(
        (
            (node.body, place)
            for node in enclosing(script, backwards[0].node)
            if isinstance(node, ast.For | ast.While | ast.If | ast.With)
            for place, statement in enumerate(node.body)
            if any(part is backwards[0].node for part in ast.walk(statement))
        ),
        None,
    )
    if block is None:
        return None
    before, loss = block[0][: block[1]], backwards[0].call.receiver
    last = next((n for n in range(len(before) - 1, -1, -1) if _binds(before[n], loss)), None)
    models = {
        id(event.node)
        for event in loop.events
        if event.call is not None
        and not event.via
        and event.call.name.endswith(".__call__")
        and "Loss" not in event.call.name
    }
    first = next((n for n, item in enumerate(before) if any(id(part) in models for part in ast.walk(item))), None)
    if last is None or first is None or first > last:
        return None
    return _indented(script, before[first : last + 1], context)


def _binds(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Assign) and any(ast.unparse(item) == name for item in statement.targets)


def _indented(script: Script, statements: list[ast.stmt], context: str) -> TextEdit | None:
    """Whole lines, four columns further in; None where a string runs over lines or a line is shared."""
    lines = script.text.splitlines()
    first, end = statements[0].lineno, statements[-1].end_lineno or statements[-1].lineno
    text = lines[first - 1 : end]
    indent = text[0][: len(text[0]) - len(text[0].lstrip())]
    if indent.encode() != text[0].encode()[: statements[0].col_offset] or ";" in "".join(text):
        return None
    for statement in statements:
        for part in ast.walk(statement):
            if isinstance(part, ast.Constant | ast.JoinedStr) and part.lineno != part.end_lineno:
                return None
    unit = "\t" if indent.startswith("\t") else "    "
    start, stop = replace_node(script, statements[0], ""), replace_node(script, statements[-1], "")
    # A comment behind the last statement stays where it is.
    shown = [*text[:-1], text[-1][: stop.end_column - 1]]
    body = "\n".join(unit + line if line.strip() else line for line in shown)
    return TextEdit(
        path=script.path,
        line=start.line,
        column=start.column,
        end_line=end,
        end_column=stop.end_column,
        new_text=f"with {context}:\n{body}",
        expected="\n".join(shown)[start.column - 1 :],
    )
