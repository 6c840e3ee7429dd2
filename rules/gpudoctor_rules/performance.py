"""Rules on the topic: performance."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import enclosing, loop_node, statement
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.analysis.source.precision import TRAINING_ARGUMENTS
from gpudoctor.analysis.source.syntax import is_attribute, nodes
from gpudoctor.analysis.source.syntax_edits import block, insert_after, own_lines, put_under, replace_node
from gpudoctor.analysis.source.tf32 import settings_in, tf32_settings
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.lang import say
from gpudoctor.model import Facts, Finding, Patient, Unavailable, answers
from gpudoctor.model.evidence import Setting
from gpudoctor.model.job_devices import lowest_capability
from gpudoctor.model.remedy import Applicability, Edit, Effort, Remedy, TextEdit
from gpudoctor.model.signs.source import Loop, Script
from gpudoctor.model.unavailable import optional
from gpudoctor_checks.performance.compile_off import CompileOffDetail
from gpudoctor_checks.performance.mixed_precision_off import MixedPrecisionOffDetail
from gpudoctor_checks.performance.unexplained_time import UnexplainedTimeDetail
from gpudoctor_rules.remedies import (
    after_imports,
    config_edit,
    keyword_edit,
    published,
    remedy,
    script_of,
    source_places,
)

_AMPERE = 8.0
_GUIDE = "https://pytorch.org/docs/stable/notes/amp_examples.html"
_PUBLISHED = "https://pytorch.org/blog/what-every-user-should-know-about-mixed-precision-training-in-pytorch/"


@answers("PERF001")
def mixed_precision_off(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """bfloat16 autocast where the card has it, float16 with a scaler where not; TF32 for what stays float32."""
    card = lowest_capability(patient)
    bf16 = card is None or card >= _AMPERE
    program = _program(finding, patient)
    title, steps, edits = _autocast(finding, program, bf16)
    large = bool(finding.detail_of(MixedPrecisionOffDetail).large)
    yield remedy(
        "PERF001-autocast",
        title,
        *steps,
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE if edits else Effort.SMALL_EDIT,
        effect=published(1.2, 3.0) if large else None,
        sets=(("precision", "bf16" if bf16 else "fp16"),),
        edits=edits,
        references=(_GUIDE, _PUBLISHED),
    )
    if program is not None and bf16 and not tf32_settings(program):
        yield _tf32()


def _tf32() -> Remedy:
    return remedy(
        "PERF001-tf32",
        'torch.set_float32_matmul_precision("high")',
        'After the imports: torch.set_float32_matmul_precision("high")',
        "Products that stay float32 then run in TF32: 10 bits of mantissa, float32's range.",
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
        override=(("torch.float32_matmul_precision", "high"),),
        references=("https://pytorch.org/docs/stable/notes/cuda.html#tf32-on-ampere",),
    )


def _autocast(finding: Finding, program: Program | None, bf16: bool) -> tuple[str, tuple[str, ...], tuple[Edit, ...]]:
    detail = finding.detail_of(MixedPrecisionOffDetail)
    keyword, value = (detail.keyword or ""), (detail.value or "")
    span = finding.span
    if keyword and span is not None and detail.decides:
        if not bf16:
            keyword, value = ("fp16", "True") if keyword == "bf16" else (keyword, value.replace("bf16-", "16-"))
            value = value.replace('"bf16"', '"fp16"')
        edit = keyword_edit(span, set=((keyword, value),))
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
        short = "bf16" if bf16 else "fp16"
        return f"{short}: true", (say("Set {short} in the config.", short=short),), ()
    dtype = "torch.bfloat16" if bf16 else "torch.float16"
    context = f'torch.autocast("cuda", dtype={dtype})'
    steps = [say("Around the forward and the loss: with {context}:", context=context)]
    if not bf16:
        steps.append("scaler = torch.amp.GradScaler('cuda'); scaler.scale(loss).backward()")
        steps.append("scaler.step(optimizer); scaler.update()")
    threads = program is not None and "torch.nn.DataParallel" in program.called
    if threads:  # autocast is a state of the thread, and DataParallel computes in threads of its own
        steps = [say("Above the model's forward: @{context}", context=context), *steps[1:]]
    edits: tuple[Edit, ...] = ()
    if bf16 and program is not None and not threads:
        here = [_wrap(script, loop, context) for script, loop in program.loops if loop.span.line == detail.line]
        edits = tuple(edit for edit in here[:1] if edit is not None)
    where = (
        say("@{context} on the model's forward", context=context)
        if threads
        else say("with {context}: around the forward", context=context)
    )
    return where, tuple(steps), edits


def _program(finding: Finding, patient: Patient) -> Program | None:
    try:
        programs = training_programs(scripts_given(patient))
    except Unavailable:
        return None
    return next((item for item in programs if item.entry.path == finding.subject), None)


def _wrap(script: Script, loop: Loop, context: str) -> TextEdit | None:
    """The statements from the forward to the loss, put under autocast, where they stand in one block."""
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
    passes = statement(script, backwards[0].node)
    body = block(script, passes) if passes is not None else []
    before, loss = body[: body.index(passes)] if passes in body else [], backwards[0].call.receiver
    binding = (
        n for n, each in enumerate(before) if isinstance(each, ast.Assign) and loss in map(ast.unparse, each.targets)
    )
    last = max(binding, default=None)
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
    inside = before[first : last + 1]
    movable = all(own_lines(script, item) is not None for item in inside)
    return put_under(script, inside, f"with {context}:") if movable else None


_ALLOWED = {"highest": '"high"', "ieee": '"tf32"', "none": '"tf32"'}


_BY_CALL = 'torch.set_float32_matmul_precision("high")'
"""What a run shows has no setting in a file that could be changed."""


@answers("PERF002")
def tf32_off(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Allow it where it is forbidden."""
    title, edits = _tf32_allowed(finding, patient)
    yield remedy(
        "PERF002-allow",
        title,
        title,
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
        effect=published(1.0, 3.0),
        sets=(("tf32", "on"),),
        edits=edits,
        override=(("torch.float32_matmul_precision", "high"),),
        references=(
            "https://pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices",
            "https://developer.nvidia.com/blog/accelerating-ai-training-with-tf32-tensor-cores/",
        ),
    )


def _tf32_allowed(finding: Finding, patient: Patient) -> tuple[str, tuple[Edit, ...]]:
    target, span = finding.detail_of(Facts).target, finding.span
    script = script_of(patient, span) if target else None
    setting = next((item for item in settings_in(script) if script.span(item.node) == span), None) if script else None
    if setting is None or script is None:
        return _BY_CALL, ()
    if target == "tf32":
        call = next((node for node in enclosing(script, setting.node) if isinstance(node, ast.Call)), None)
        edits = (keyword_edit(script.span(call), set=(("tf32", "True"),)),) if call is not None else ()
        return "tf32=True", edits
    plain = setting.node.value if isinstance(setting.node, ast.Constant) else None
    value = _ALLOWED.get(str(plain), "True")
    written = f"{target}({value})" if plain == "highest" else f"{target} = {value}"
    return written, (replace_node(script, setting.node, value),)


@answers("PERF003")
def compile_off(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Compile the network in place, which keeps the names of its weights."""
    title, edits = _compiled(finding, patient)
    yield remedy(
        "PERF003-compile",
        title,
        title if "=" in title else say("{change}  # after the network is on its device, before the loop", change=title),
        "TORCH_LOGS=recompiles,graph_breaks shows what keeps it from gaining.",
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
        effect=published(1.0, 1.5),
        sets=(("compile", "True"),),
        edits=edits,
        references=("https://pytorch.org/get-started/pytorch-2-x/",),
    )


def _compiled(finding: Finding, patient: Patient) -> tuple[str, tuple[Edit, ...]]:
    detail, program = finding.detail_of(CompileOffDetail), _program(finding, patient)
    if program is None:
        return "model.compile()", ()
    if detail.engine.startswith(("transformers.", "trl.")):
        calls = [call for _, call in program.calls if TRAINING_ARGUMENTS.search(call.name)]
        settable = len(calls) == 1 and not calls[0].open_ended
        edits = (keyword_edit(calls[0].span, set=(("torch_compile", "True"),)),) if settable else ()
        return "torch_compile=True", edits
    for script, loop in program.loops:
        if script.path == detail.script and loop.span.line == detail.line:
            return _after_the_model(script, loop)
    return "model.compile()", ()


def _after_the_model(script: Script, loop: Loop) -> tuple[str, tuple[Edit, ...]]:
    """`model.compile()` after the last assignment to the network's name that stands before the loop."""
    names = [
        event.call.node.func.id
        for event in loop.events
        if event.call is not None
        and not event.via
        and isinstance(event.call.node.func, ast.Name)
        and event.call.name.endswith("Module.__call__")
    ]
    node = loop_node(script, loop)
    if not names or node is None:
        return "model.compile()", ()
    text = f"{names[0]}.compile()"
    places = [
        item
        for item in nodes(script, ast.Assign)
        if item.lineno < node.lineno
        and any(isinstance(target, ast.Name) and target.id == names[0] for target in item.targets)
    ]
    functions = {
        call.function for call in script.calls if any(call.node is part for item in places for part in ast.walk(item))
    }
    if not places or functions != {loop.function}:
        return text, ()
    last = max(places, key=lambda item: item.lineno)
    if last.col_offset != min(item.col_offset for item in places) or statement(script, last) is None:
        return text, ()  # inside a branch
    return text, (insert_after(script, last, text),)


_SDPA = "https://pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html"


@answers("PERF006")
def attention_eager(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Attention through SDPA, which picks a fused kernel for the card."""
    edits: tuple[Edit, ...] = ()
    if finding.span is None and finding.evidence and isinstance(finding.evidence[0], Setting):
        edits = config_edit(finding, patient, "sdpa")
    elif finding.span is not None and finding.detail_of(Facts).literal:
        edits = (keyword_edit(finding.span, set=(("attn_implementation", '"sdpa"'),)),)
    title = 'attn_implementation="sdpa"'
    yield remedy(
        "PERF006-sdpa",
        title,
        say("{title} where the model is loaded", title=title),
        say('With flash-attn installed: "flash_attention_2".'),
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE if edits else Effort.SMALL_EDIT,
        effect=published(1.0, 2.0),
        sets=(("attention", "sdpa"),),
        edits=edits,
        references=(_SDPA, "https://arxiv.org/abs/2307.08691"),
    )


_LINE = "torch.backends.cudnn.benchmark = True"


@answers("PERF010")
def autotune_off(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """Let cuDNN time its algorithms once."""
    edits = tuple(_autotune_edits(finding, patient))
    yield remedy(
        "PERF010-benchmark",
        _LINE,
        say("Once, before the training: {setting}", setting=_LINE),
        applicability=Applicability.UNSAFE,  # other algorithms round otherwise
        effort=Effort.ONE_LINE,
        effect=published(1.0, 1.15),
        sets=(("cudnn.benchmark", "True"),),
        edits=edits,
        override=(("torch.backends.cudnn.benchmark", "True"),),
        references=("https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#enable-cudnn-auto-tuner",),
    )


def _autotune_edits(finding: Finding, patient: Patient) -> Iterator[Edit]:
    """A line after the imports, where no other sets it."""
    scripts = optional(lambda: scripts_given(patient).scripts) or ()
    if any(is_attribute(node.targets[0], "benchmark") for item in scripts for node in nodes(item, ast.Assign)):
        return
    script = next((item for item in scripts if item.path == finding.subject), None)
    yield from after_imports(script, _LINE) if script is not None else ()


@answers("PERF014")
def unexplained_time(finding: Finding) -> Iterator[Remedy]:
    """By what is known of it: a Python loop, or lines alone; rows have what is said of the rest."""
    detail = finding.detail_of(UnexplainedTimeDetail)
    if not detail.engine_loop and not detail.nature:
        yield _look(finding)


def _look(finding: Finding) -> Remedy:
    places = [f"{item.path}:{item.line}" for item in source_places(finding)]
    loop = finding.detail_of(UnexplainedTimeDetail).loop
    if not places:
        title = say("find the lines that take the time")
    elif loop:
        title = say("replace the Python loop at {loop} by operations on whole arrays or tensors", loop=loop)
    else:
        title = say("do the work of {place} once before the loop, or every N steps", place=places[0])
    looks = (
        say("py-spy dump --pid PID, or look at {places}", places=", ".join(places[:3]))
        if places
        else say("py-spy dump --pid PID")
    )
    return remedy(
        "PERF014-look",
        title,
        say("{looks}: what is computed there, and who needs it on every step?", looks=looks),
        "do it every N steps (if step % 50 == 0:), once before the loop, or on whole tensors",
    )
