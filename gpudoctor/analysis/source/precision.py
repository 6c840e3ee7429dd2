"""In which precision a program trains: lowered, full because somebody said so, or full because nobody did.

Whatever hints at lower precision and cannot be resolved (a launcher's config, a dtype chosen at run time) makes
the answer `UNKNOWN`, so that a check stays silent.
"""

import ast
import re
from collections.abc import Iterator
from enum import Enum

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.entry_points import Program
from gpudoctor.analysis.source.syntax import nodes, words
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind, Configs, Entry
from gpudoctor.model.signs.source import Call, Known, Script, Unknown, Value

_AUTOCAST = frozenset({"torch.autocast", "torch.cuda.amp.autocast", "torch.amp.autocast"})
_SCALERS = frozenset({"torch.amp.GradScaler", "torch.cuda.amp.GradScaler"})
_HALF = re.compile(r"b?float16|half|bf16|fp16|float8|fp8|nf4|int8|uint8_?4?bit", re.IGNORECASE)
_HALF_WORDS = re.compile(
    r"(bf16|fp16|bfloat16|float16|half|16|16-mixed|bf16-mixed|16-true|bf16-true|fp8|O1|O2|O3|bf16_mixed|auto)$"
)
_FULL_WORDS = re.compile(r"(no|none|false|32|32-true|fp32|float32|highest|64|64-true|O0)$", re.IGNORECASE)
_HINTS = re.compile(r"(^|_)(amp|autocast|fp16|bf16|half|float16|bfloat16|mixed_precision|precision|mp_policy)($|_)")
_OTHER = re.compile(r"float32_matmul|^precision$|precision.*(recall|score|average|macro|mean|print)|average_precision")
"""Names that speak of another precision: metrics, and float32 matmul settings."""
_OPTION = re.compile(
    r"--?([\w-]*[-_])?(use|enable)?(amp([-_][\w-]*)?|[\w-]*(fp16|bf16|half|precision)[\w-]*)", re.IGNORECASE
)
"""Options that ask for lower precision; `--num_samples` and `--rampup` only have the letters."""
_DTYPES = frozenset({"float16", "bfloat16", "half", "HalfTensor", "BFloat16Tensor", "float8_e4m3fn", "float8_e5m2"})
_OWN_WAYS = words(
    "deepspeed bitsandbytes unsloth torchao torchtune torchtitan megatron colossalai composer fastai ultralytics "
    "mmengine mmcv transformer_engine litgpt axolotl llamafactory apex nemo paddle detectron2 ignite catalyst "
    "torch_xla openrlhf fairseq espnet speechbrain fairscale jax tensorflow verl intel_extension_for_pytorch"
)
"""Libraries that choose the precision in ways this reader does not follow."""
_FP32_CHECKPOINTS = re.compile(
    r"bert|electra|deberta|albert|mpnet|minilm|t5|bart|gpt2|vit[-_]|resnet|wav2vec|hubert|whisper-(tiny|base|small)|"
    r"swin|convnext|beit|segformer|clip|xlm|pegasus|longformer|funnel|layoutlm|detr",
    re.IGNORECASE,
)
TRAINING_ARGUMENTS = re.compile(
    r"(transformers\.(Seq2Seq)?TrainingArguments|sentence_transformers\..*TrainingArguments)$"
)
_MODELS = re.compile(r"(Model|For[A-Z]\w{0,80})\.from_pretrained$")
TRL_CONFIGS = re.compile(r"trl\.\w+Config$")
"""TRL's configs train in bf16 unless told otherwise (since 0.20)."""


class Precision(Enum):
    """What the matrix products of the training run in."""

    LOWERED = "lowered"
    """Some of them in 16 bits or less."""
    FULL = "full"
    """float32: nothing lowers it."""
    SAID_FULL = "said full"
    """float32, and it is written so."""
    SWITCHED_OFF = "switched off"
    """float32, with mixed precision behind a switch that is off by default."""
    UNKNOWN = "unknown"


@frozen
class DeclaredPrecision:
    """The precision of a program and what says so."""

    precision: Precision
    call: Call | None = None
    """The call that decides: `TrainingArguments(...)`, `autocast(enabled=False)`, `Trainer(precision=32)`."""
    keywords: tuple[tuple[str, str], ...] = ()
    """The keywords of that call that lower it, with the value to give."""
    stored: bool = False
    """Whether a checkpoint of unknown dtype is loaded: from transformers 5 on in the one it is stored in."""

    @property
    def span(self) -> SourceSpan | None:
        """The place of that call."""
        return self.call.span if self.call is not None else None

    @property
    def full(self) -> bool:
        """Whether it trains in float32."""
        return self.precision in {Precision.FULL, Precision.SAID_FULL, Precision.SWITCHED_OFF}


_UNKNOWN = DeclaredPrecision(precision=Precision.UNKNOWN)
_LOWERED = DeclaredPrecision(precision=Precision.LOWERED)
_STRONGEST = (Precision.LOWERED, Precision.UNKNOWN, Precision.SWITCHED_OFF, Precision.SAID_FULL, Precision.FULL)
"""Which of several tellings counts."""


@once
def told_precision(program: Program) -> DeclaredPrecision:
    """The precision that the program's source tells."""
    if program.roots & _OWN_WAYS:
        return _UNKNOWN
    tellings = [told for script in program.scripts for told in _tellings(script)]
    first = {told.precision: told for told in reversed(tellings)}
    for verdict in _STRONGEST:
        if verdict in first:
            return first[verdict]
    if any(_hints(script) for script in program.scripts) or _left_to_others(program):
        return _UNKNOWN
    return DeclaredPrecision(precision=Precision.FULL)


@once
def _tellings(script: Script) -> list[DeclaredPrecision]:
    """What the calls of one script say."""
    found = []
    for call in script.calls:
        told = _call(script, call)
        if told is _LOWERED and any(guard.never for guard in call.guards):
            told = DeclaredPrecision(precision=Precision.SWITCHED_OFF, call=call)
        if told is not None:
            found.append(told)
    decided = {id(node) for call in script.calls if call.name in _AUTOCAST for node in ast.walk(call.node)}
    for node in nodes(script, ast.Attribute):
        if node.attr not in _DTYPES or id(node) in decided:
            continue
        if isinstance(node.value, ast.Name) and script.imports.get(node.value.id) == "torch":
            found.append(_UNKNOWN)  # a dtype that goes we know not where
    return found


def _call(script: Script, call: Call) -> DeclaredPrecision | None:
    if call.name in _AUTOCAST:
        return _by_switch(call, call.argument("enabled", 0 if call.name == "torch.cuda.amp.autocast" else 2))
    if call.name in _SCALERS:
        return _by_switch(call, call.argument("enabled", 5 if call.name == "torch.amp.GradScaler" else 4))
    if call.method in {"half", "bfloat16"} and not call.node.args:
        return _LOWERED
    if call.name == "torch.set_default_dtype" or (call.method == "double" and call.name.startswith("torch.nn.")):
        return _UNKNOWN
    if call.name == "accelerate.Accelerator":
        return _word(call, "mixed_precision", None, "bf16")
    if call.name in {"lightning.Trainer", "lightning.Fabric"}:
        return _word(call, "precision", "32-true", "bf16-mixed")
    if TRAINING_ARGUMENTS.search(call.name):
        return _training_arguments(script, call)
    if TRL_CONFIGS.search(call.name):
        on = (call.argument(name) for name in ("fp16", "bf16"))
        return _LOWERED if any(isinstance(value, Known) and value.value is True for value in on) else _UNKNOWN
    return None


def _by_switch(call: Call, value: Value | None) -> DeclaredPrecision:
    """A call with an `enabled` argument: an option that is off is a switch, a plain False is a decision."""
    if value is None:
        return _LOWERED
    if isinstance(value, Unknown):
        return _UNKNOWN
    if value.value:
        return _LOWERED
    if value.origin in {"literal", "constant"}:
        plain = value.text in {"False", "0", ""}
        keywords = (("enabled", "True"),) if plain else ()
        return DeclaredPrecision(precision=Precision.SAID_FULL, call=call, keywords=keywords)
    if value.origin.startswith("default of"):
        return DeclaredPrecision(precision=Precision.SWITCHED_OFF, call=call)
    return _UNKNOWN


def _word(call: Call, keyword: str, default: str | None, better: str) -> DeclaredPrecision:
    """A call that takes the precision as a word; without it, the default (None: a launcher decides)."""
    value = call.argument(keyword)
    if value is None:
        if default is None:
            return _UNKNOWN
        return DeclaredPrecision(precision=Precision.FULL, call=call, keywords=((keyword, f'"{better}"'),))
    if isinstance(value, Unknown):
        return _UNKNOWN
    text = str(value.value)
    if _HALF_WORDS.match(text) and text != "auto":
        return _LOWERED
    if not _FULL_WORDS.match(text) or "64" in text or (value.value is None and default is None):
        return _UNKNOWN
    if value.origin.startswith("default of"):
        return DeclaredPrecision(precision=Precision.SWITCHED_OFF, call=call)
    return DeclaredPrecision(precision=Precision.SAID_FULL, call=call, keywords=((keyword, f'"{better}"'),))


def _training_arguments(script: Script, call: Call) -> DeclaredPrecision:
    values = [call.argument(name) for name in ("fp16", "bf16", "half_precision_backend", "deepspeed")]
    if any(isinstance(value, Unknown) or (isinstance(value, Known) and bool(value.value)) for value in values):
        lowered = any(isinstance(value, Known) and value.value is True for value in values[:2])
        return _LOWERED if lowered else _UNKNOWN
    dtypes = {_dtype_of_checkpoint(other) for other in script.calls}
    if "given" in dtypes:
        return _UNKNOWN
    said = values[0] is not None or values[1] is not None
    options = any(isinstance(value, Known) and value.origin.startswith("default of") for value in values[:2])
    precision = Precision.SAID_FULL if said else Precision.FULL
    return DeclaredPrecision(
        precision=Precision.SWITCHED_OFF if options else precision,
        call=call,
        keywords=() if options else (("bf16", "True"),),
        stored="stored" in dtypes,
    )


def _dtype_of_checkpoint(call: Call) -> str:
    """`given` when a call loads a checkpoint in a dtype that is named, `stored` when in that it may be stored in,
    `float32` when it is known to be stored so; "" of a call that loads none."""
    if call.method != "from_pretrained" or not _MODELS.search(call.name):
        return ""
    if "torch_dtype" in call.keywords or "dtype" in call.keywords or "quantization_config" in call.keywords:
        return "given"
    first = call.argument("pretrained_model_name_or_path", 0)
    name = first.value if isinstance(first, Known) else None
    return "float32" if isinstance(name, str) and _FP32_CHECKPOINTS.search(name) else "stored"


def keeps_stored_dtype(script: Script, place: SourceSpan) -> bool:
    """Whether a checkpoint is loaded at a place, in the dtype that it is stored in and that nobody knows."""
    return any(call.span == place and _dtype_of_checkpoint(call) == "stored" for call in script.calls)


@once
def _hints(script: Script) -> bool:
    """Whether a script speaks of lower precision anywhere: names, keywords, words that are values."""
    for node in nodes(script):
        text = ""
        if isinstance(node, ast.Name):
            text = node.id
        elif isinstance(node, ast.Attribute):
            text = node.attr
        elif isinstance(node, ast.keyword | ast.arg):
            text = node.arg or ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 40:
            if _HALF.fullmatch(node.value) or _OPTION.fullmatch(node.value):
                return True
            continue
        plain = isinstance(node, ast.Name | ast.Attribute)  # half = len(x) // 2
        if _HINTS.search(text.lower()) and not _OTHER.search(text.lower()) and not (plain and "half" in text.lower()):
            return True
    return False


def _left_to_others(program: Program) -> bool:
    """Whether an engine trains whose settings stand elsewhere: parsed from a command line, or a launcher's."""
    engines = {loop.engine for _, loop in program.loops if loop.engine}
    if any(engine.startswith(("transformers.", "trl.", "sentence_transformers.")) for engine in engines):
        return True
    if "lightning.Trainer" in engines or program.roots & {"lightning", "pytorch_lightning"}:
        return True  # its Trainer is made elsewhere
    return "accelerate" in program.roots


# configs


@frozen
class ConfigTold:
    """What the config files say of precision, together."""

    lowered: bool
    """Whether any of them lowers it, or leaves it to a tool (`auto`)."""
    full: tuple[tuple[ConfigFile, Entry], ...]
    """Keys that say float32, those that decide first."""


_KEYS = ("mixed_precision", "precision", "dtype", "torch_dtype", "amp_dtype", "compute_dtype")
_SWITCHES = ("bf16", "fp16", "amp")
_PRECISION_SECTIONS = frozenset({"model", "training", "train", "trainer", "optimization", "precision", "amp", "mixed"})
_SAYS_FLOAT32 = re.compile(r"(no|32|32-true|fp32|float32|torch\.float32)$")
_HALF_WEIGHTS = ("float16", "bfloat16", "use_badam")
"""Switches that leave the weights themselves in 16 bits: axolotl's, and LLaMA-Factory's under BAdam."""


def config_precision(configs: Configs) -> ConfigTold:
    """The precision that the config files tell."""
    lowered = False
    full: list[tuple[ConfigFile, Entry]] = []
    for file in configs.files:
        if not file.kind.trains:
            continue
        lowered = lowered or _lowers(file)
        full += [(file, entry) for entry in _full_entries(file)]
    return ConfigTold(lowered=lowered, full=tuple(full))


def _lowers(file: ConfigFile) -> bool:
    if any(meaning.value is True for name in _SWITCHES for meaning in file.meaning(name)):
        return True
    if file.meaning("quantisation_bits") or any(entry.value is True for entry in file.find(*_HALF_WEIGHTS)):
        return True
    words = [meaning.value for name in ("precision", "model_dtype") for meaning in file.meaning(name)]
    if any(isinstance(word, str) and _HALF_WORDS.match(word.removeprefix("torch.")) for word in words):
        return True
    return any(
        (entry.value == "auto" or entry.interpolated)
        and (entry.last in (*_KEYS, *_SWITCHES) or entry.key in {"fp16.enabled", "bf16.enabled"})
        for entry in file.entries.values()
    )


def _full_entries(file: ConfigFile) -> Iterator[Entry]:
    """Keys that say float32; none beside a DeepSpeed config, which decides instead."""
    if file.meaning("deepspeed_config"):
        return
    yield from (meaning.entry for name in _SWITCHES for meaning in file.meaning(name) if meaning.value is False)
    for entry in file.find(*_KEYS):
        named = entry.last in {"mixed_precision", "precision"}
        placed = len(entry.parts) == 1 or (
            file.kind is ConfigKind.SECTIONS and entry.parts[-2].lower() in _PRECISION_SECTIONS
        )
        if not (placed or (named and file.kind in {ConfigKind.SECTIONS, ConfigKind.LIGHTNING})):
            continue  # the dtype of something else
        plain = isinstance(entry.value, str | int) and not isinstance(entry.value, bool)
        if (named and entry.value is False) or (plain and _SAYS_FLOAT32.match(str(entry.value))):
            yield entry
