"""PERF006 attention-eager."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.observation import confirmed, suspicions
from gpudoctor.analysis.run.instrumentation import share_below
from gpudoctor.analysis.run.job_facts import main_model, on_gpu
from gpudoctor.analysis.run.steady_run import Run, judged, ran_on_cpu
from gpudoctor.analysis.source.control_flow import taken_back
from gpudoctor.analysis.source.device_tensors import Target
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.analysis.source.networks import network
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Confidence, Detail, Finding, Patient, Reads, Severity, SourceSpan, Threshold
from gpudoctor.model.job_devices import lowest_capability
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind, Configs, Entry
from gpudoctor.model.signs.source import Call, Known, Script, Unknown
from gpudoctor.text import joined, percent

_NEEDS_EAGER = re.compile(r"gemma-?[23]|gpt-?oss", re.IGNORECASE)
"""Models whose makers train them eagerly: soft-capped scores, attention sinks."""
_EAGER = "eager_attention_forward"
"""The function of transformers that writes attention out."""
_WANTS_SCORES = re.compile(r"output_attentions|need_weights=True|return_attn|attn_maps|attention_maps")
_FUSED = re.compile(r"scaled_dot_product_attention|flash_attn|xformers|flex_attention")
_SOFTMAX = frozenset({"torch.softmax", "torch.nn.functional.softmax", "torch.Tensor.softmax", "?.softmax"})
_PRODUCTS = frozenset({"torch.matmul", "torch.bmm", "torch.einsum", "torch.Tensor.matmul", "torch.Tensor.bmm"})
_CHANGES = frozenset({"abs", "tanh", "complex", "sigmoid", "relu", "exp", "log", "square", "pow"})
"""Functions of the scores that stand between the product and the softmax only where attention is of another
kind: of frequencies, with soft caps."""
_KERNELS = ("enable_flash_sdp", "enable_mem_efficient_sdp")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionEagerDetail(Detail):
    """What the rule reads."""

    kind: str
    """`keyword`, `kernels`, `code` or `config`."""
    literal: bool | None = None
    """The keyword's value is written in the call."""
    key: str = ""
    """Of a config."""
    path: str = ""
    """Of a config."""


class AttentionEager(Check):
    """Attention writes its whole score matrix to memory, which a fused kernel avoids.

    What it finds:
        - `attn_implementation="eager"` in source or configs (LLaMA-Factory's `flash_attn: disabled`, axolotl's
          `eager_attention`).
        - Flash and memory-efficient kernels both turned off.
        - Attention computed by hand (product, softmax, product) in the program's own network.
    Why it hurts:
        The scores of a head are sequence length squared. Without fusion they are stored and read back several
        times, and kept for the backward pass. SDPA's fused kernels keep them on the chip. From a thousand
        tokens on they are 2 to 4 times faster, with memory linear in the length.
    How it knows:
        From the source of programs that train on CUDA, and from configs. In a recorded run on a GPU also if a
        library falls back to it, from the stack samples. Not reported: models that their makers train eagerly
        (Gemma 2 and 3, gpt-oss), and programs that request the scores.
    False alarms:
        Short sequences gain little. No fused kernel supports some variants of attention.
    Remedies:
        Set attn_implementation="sdpa"; use torch.nn.functional.scaled_dot_product_attention in your own code.
    References:
        - https://pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
        - https://huggingface.co/docs/transformers/attention_interface
    """

    code = Code("PERF006")
    name = "attention-eager"
    reads = frozenset({Reads.SOURCE, Reads.CONFIG, Reads.RECORDING})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="looks",
            default=0.02,
            unit="1",
            source="convention: the host only launches it, so few samples see it there",
            meaning="Eager attention in this share of the stack samples was really used.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = judged(patient)
        found = suspicions(lambda: self._read(patient), run, refuted=ran_on_cpu(patient))
        seen = _seen_eager(run) if run is not None else 0.0
        if run is None or seen < self.limit("looks"):
            yield from found
            return
        yield confirmed(
            self,
            found,
            say(
                "Attention ran eagerly ({kernel} in {share} of the stack samples): it writes its scores to memory.",
                kernel=_EAGER,
                share=percent(seen),
            ),
            evidence=(run.measured("eager_attention_looks", seen),),
            severity=Severity.WARNING,
            detail=AttentionEagerDetail(kind="keyword", literal=False),
        )

    def _read(self, patient: Patient) -> Iterator[Finding]:
        source, configs = patient.source_and_configs
        yield from self._from_configs(configs, certain=lowest_capability(patient) is not None)
        seen: set[tuple[str, int]] = set()
        for program in training_programs(source):
            if program.target not in (Target.CUDA, Target.MAYBE):
                continue
            for finding in self._from_source(program):
                span = finding.span
                place = (span.path, span.line) if span is not None else ("", 0)
                if place not in seen:
                    seen.add(place)
                    yield finding

    def _from_source(self, program: Program) -> Iterator[Finding]:
        said = {word for script in program.scripts for word in _words_said(script)}
        if "scores" in said:
            return
        if "eager model" not in said:
            yield from self._asked(program)
        yield from self._kernels_off(program)
        if "fused" not in said:
            yield from self._written_out(program)

    def _asked(self, program: Program) -> Iterator[Finding]:
        for script, call in program.calls:
            value = call.keywords.get("attn_implementation") or call.keywords.get("_attn_implementation")
            if not isinstance(value, Known) or value.value != "eager" or any(guard.never for guard in call.guards):
                continue
            model = call.argument("pretrained_model_name_or_path", 0)
            known = call.method != "from_pretrained" or not isinstance(model, Unknown)
            by_default = value.origin.startswith(("default", "field"))
            yield self.finding(
                say('Line {line} asks for eager attention (attn_implementation="eager").', line=call.span.line),
                evidence=(call.span, next(program.loops)[1].span),
                confidence=Confidence.SUSPECTED,
                severity=Severity.WARNING if known and not by_default else Severity.NOTE,
                subject=f"{script.path}:{call.span.line}",
                detail=AttentionEagerDetail(kind="keyword", literal=value.origin == "literal"),
            )

    def _kernels_off(self, program: Program) -> Iterator[Finding]:
        off: dict[str, tuple[Script, Call]] = {}
        for script, call in program.calls:
            if call.name.startswith("torch.backends.cuda.") and call.method in _KERNELS:
                value = call.argument("enabled", 0)
                never = any(guard.never for guard in call.guards) or taken_back(script, call)
                if isinstance(value, Known) and value.value is False and not never:
                    off.setdefault(call.method, (script, call))
        if len(off) < len(_KERNELS):
            return
        places = sorted(off.values(), key=lambda item: item[1].span.line)
        lines = joined([str(call.span.line) for _, call in places])
        yield self.finding(
            say(
                "Lines {lines} turn the flash and memory-efficient kernels off: attention uses plain matrix products.",
                lines=lines,
            ),
            evidence=tuple(call.span for _, call in places),
            confidence=Confidence.SUSPECTED,
            severity=Severity.NOTE if "deterministic" in places[0][0].text else Severity.WARNING,
            subject=f"{places[0][0].path}:{places[0][1].span.line}",
            detail=AttentionEagerDetail(kind="kernels"),
        )

    def _written_out(self, program: Program) -> Iterator[Finding]:
        """Product, softmax, product in a method of a module."""
        found: list[tuple[str, SourceSpan]] = []
        for script in program.scripts:
            for name, info in script.classes.items():
                if "torch.nn.Module" in info.bases and _is_built(program, name):
                    found += [(name, span) for owner, span in _attentions(script) if owner == name]
        built = network(program)
        if not found or (built is not None and not built.library and not built.parameters and not built.unknown):
            return
        name, span = found[0]
        yield self.finding(
            say(
                "{module} computes attention by hand (line {line}: softmax between two products), "
                "so it writes every score to memory.",
                module=name,
                line=span.line,
            ),
            evidence=tuple(span for _, span in found[:4]),
            confidence=Confidence.SUSPECTED,
            severity=Severity.NOTE,
            subject=program.entry.path,
            detail=AttentionEagerDetail(kind="code"),
        )

    def _from_configs(self, configs: Configs, *, certain: bool) -> Iterator[Finding]:
        """What configs ask for. Without a GPU here it may be meant for another accelerator: a note."""
        for file in configs.files:
            if not file.kind.trains or _NEEDS_EAGER.search(file.text):
                continue
            for entry in _eager(file):
                yield self.finding(
                    say(
                        "{key} is {value}: attention writes its scores to memory.",
                        key=entry.key,
                        value=str(entry.value).lower(),
                    ),
                    evidence=(file.setting(entry),),
                    confidence=Confidence.SUSPECTED,
                    severity=Severity.WARNING if certain else Severity.NOTE,
                    subject=f"{file.path}:{entry.line}",
                    detail=AttentionEagerDetail(kind="config", key=entry.key, path=file.path),
                )


def _seen_eager(run: Run) -> float:
    """Share of the looks in the library's eager attention; 0 on the CPU and for models that need it."""
    process = run.lead.process
    model = main_model(process)
    if not on_gpu(process) or _NEEDS_EAGER.search(str(model.get("name") if model is not None else "")):
        return 0.0
    return share_below(process, _EAGER)


@once
def _words_said(script: Script) -> frozenset[str]:
    """What a script speaks of: attention scores that are wanted, models trained eagerly, fused kernels."""
    patterns = (("scores", _WANTS_SCORES), (say("eager model"), _NEEDS_EAGER), ("fused", _FUSED))
    return frozenset(word for word, pattern in patterns if pattern.search(script.text))


def _eager(file: ConfigFile) -> Iterator[Entry]:
    for entry in file.find("attn_implementation", "_attn_implementation"):
        if entry.value == "eager":
            yield entry
    if file.kind is ConfigKind.LLAMA_FACTORY and file.value("flash_attn") in ("disabled", "off", False):
        yield file.entries["flash_attn"]
    if file.kind is ConfigKind.AXOLOTL and file.value("eager_attention") is True:
        yield file.entries["eager_attention"]


def _is_built(program: Program, name: str) -> bool:
    return name in _last_words(program)


@once
def _last_words(program: Program) -> frozenset[str]:
    return frozenset(called.rpartition(".")[2] for called in program.called)


@once
def _attentions(script: Script) -> list[tuple[str, SourceSpan]]:
    """Every place of a script's modules that writes attention out, with its class."""
    if "softmax" not in script.text.lower():
        return []
    places = [
        (name, _attention(script, name, method, node))
        for name, info in script.classes.items()
        for method, node in info.methods.items()
    ]
    return [(name, span) for name, span in places if span is not None]


def _attention(script: Script, owner: str, method: str, node: ast.AST) -> SourceSpan | None:
    """The softmax of attention in one method: a product feeds it, and another product takes it."""
    scope = f"{owner}.{method}"
    calls = {id(call.node): call for call in script.calls if call.function == scope}
    made: dict[str, list[ast.expr]] = {}
    softmax: tuple[str, SourceSpan] | None = None
    for statement in ast.walk(node):
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        name = ast.unparse(statement.targets[0])
        for part in ast.walk(statement.value):
            call = calls.get(id(part))
            if call is None or any(guard.never for guard in call.guards):
                continue
            if call.name in _SOFTMAX or call.name == "torch.nn.Softmax.__call__":
                fed = [*call.node.args, *([call.node.func] if isinstance(call.node.func, ast.Attribute) else [])]
                plain = not any(_changes_scores(part) for item in fed for part in ast.walk(item))
                if plain and any(_from_product(item, made, calls) for item in fed):
                    softmax = (name, call.span)
        made.setdefault(name, []).append(statement.value)
    if softmax is None:
        return None
    name, span = softmax
    for part in ast.walk(node):
        if _is_product(part, calls) and getattr(part, "lineno", 0) >= span.line and name in _words(part):
            return None if _returned(node, name) else span
    return None


def _changes_scores(node: ast.AST) -> bool:
    """Whether scores are more than scaled and masked, `abs(scores)`: no fused kernel computes that."""
    if not isinstance(node, ast.Call):
        return False
    return ast.unparse(node.func).rpartition(".")[2] in _CHANGES


def _from_product(item: ast.expr, made: dict[str, list[ast.expr]], calls: dict[int, Call], depth: int = 4) -> bool:
    """Whether an expression comes from a product with something transposed."""
    for part in ast.walk(item):
        if _is_product(part, calls) and re.search(r"transpose|\.mT|\.T\b|permute|einsum|swapaxes", ast.unparse(part)):
            return True
        if isinstance(part, ast.Name) and depth and part.id in made:
            rest = {name: other for name, other in made.items() if name != part.id}
            if any(_from_product(value, rest, calls, depth - 1) for value in made[part.id]):
                return True
    return False


def _is_product(node: ast.AST, calls: dict[int, Call]) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return True
    call = calls.get(id(node))
    return call is not None and (call.name in _PRODUCTS or call.name in {"?.matmul", "?.bmm"})


def _words(node: ast.AST) -> set[str]:
    return {ast.unparse(part) for part in ast.walk(node) if isinstance(part, ast.Name | ast.Attribute)}


def _returned(node: ast.AST, name: str) -> bool:
    """Whether the scores leave the method."""
    for part in ast.walk(node):
        if isinstance(part, ast.Return) and isinstance(part.value, ast.Tuple | ast.Name):
            values = part.value.elts if isinstance(part.value, ast.Tuple) else [part.value]
            if any(ast.unparse(item) == name for item in values):
                return True
    return False
