"""CFG008: a quantised model is used in a way that quantised models are not made for."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.source.config_links import Link, links
from gpudoctor.analysis.source.control_flow import bound_to, switched_off
from gpudoctor.analysis.source.declared_settings import Written, from_entry, from_keyword
from gpudoctor.analysis.source.pretrained_models import adapted, trained_models, trainers
from gpudoctor.analysis.source.syntax import is_method_call, keyword_value
from gpudoctor.analysis.source.training_arguments import deepspeed_configs, in_a_test
from gpudoctor.lang import say
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Cost,
    Detail,
    Finding,
    Patient,
    Reads,
    Setting,
    Severity,
    SourceSpan,
)
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind
from gpudoctor.model.signs.source import Call, Script, Source

ADAPTERS = frozenset({"lora", "oft"})
"""LLaMA-Factory's methods that train on a quantised model."""

FLOAT32 = frozenset({"float32", "float", "fp32"})
BITS = ("load_in_4bit", "load_in_8bit")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantisationConflictDetail(Detail):
    """What the rule reads."""

    cure: str
    """A word for what helps; the rule has them."""


class QuantisationConflict(Check):
    """A quantised model is trained or set up in a way that does not work with it.

    What it finds:
        - A 4-bit or 8-bit model trained without adapters.
        - `load_in_4bit` and `load_in_8bit` both on.
        - Axolotl's `qlora` without 4 bits.
        - Bitsandbytes under ZeRO-3 without a storage type that can be sharded.
        - A compute dtype of float32, which is the default of a 4-bit `BitsAndBytesConfig`.
    Why it hurts:
        Packed integers have no gradient: the libraries refuse to train them. ZeRO-3 shards parameters of one
        dtype and cannot shard bitsandbytes' 8 bits. A float32 compute dtype multiplies every 4-bit layer in
        float32, without tensor cores, two to four times slower than bf16.
    How it knows:
        It reads the switches in configs. In source it follows the model that goes to a Trainer, with its
        quantisation, and any adapter library in use.
    False alarms:
        Adapters that are attached in a module that was not read; inference with float32 on purpose.
    Remedies:
        LoRA on the quantised model; `bnb_4bit_compute_dtype` bf16; ZeRO-2, or `bnb_4bit_quant_storage` equal to
        the training dtype.
    References:
        - https://huggingface.co/docs/transformers/quantization/bitsandbytes
        - https://huggingface.co/docs/peft/accelerate/deepspeed
        - https://arxiv.org/abs/2305.14314
    """

    code = Code("CFG008")
    name = "quantisation-conflict"
    reads = frozenset({Reads.CONFIG, Reads.SOURCE})
    severity = Severity.WARNING

    def examine(self, patient: Patient) -> Iterator[Finding]:
        source, configs = patient.source_and_configs
        for file in configs.files:
            yield from self._in_config(file)
        for link in links(patient):
            yield from self._sharded(link)
        yield from self._in_source(patient, source)

    # configs

    def _in_config(self, file: ConfigFile) -> Iterator[Finding]:
        if not file.kind.trains:
            return
        four, eight = (self._switch(file, name) for name in BITS)
        if four is not None and eight is not None and _beside(four, eight):
            refused = file.kind is not ConfigKind.SECTIONS
            yield self._found(
                say("{key} and {other_key} are both on.", key=four.key, other_key=eight.key),
                (eight.place, four.place),
                breaks=say("transformers refuses both at once") if refused else "",
                cure="eight-off",
            )
        elif file.kind is ConfigKind.AXOLOTL:
            yield from self._axolotl(file, four, eight)
        elif file.kind is ConfigKind.LLAMA_FACTORY:
            yield from self._llama_factory(file)
        if four is not None or file.kind is ConfigKind.QUANTISATION:
            for entry in file.find("bnb_4bit_compute_dtype"):
                item = from_entry(file, entry)
                if item.word in FLOAT32:
                    yield self._slow(item)

    @staticmethod
    def _switch(file: ConfigFile, name: str) -> Written | None:
        return next((item for entry in file.find(name) if (item := from_entry(file, entry)).on), None)

    def _axolotl(self, file: ConfigFile, four: Written | None, eight: Written | None) -> Iterator[Finding]:
        adapter = file.entries.get("adapter")
        name = "" if adapter is None or adapter.value is None else str(adapter.value)
        packed = four or eight
        if not name and packed is not None and file.value("inference") is not True:
            yield self._found(
                say("{key} is on without an adapter: a quantised model cannot be fine-tuned as it is.", key=packed.key),
                (packed.place,),
                breaks=say("axolotl refuses a quantised model without an adapter"),
                cure="adapter",
            )
        elif name == "qlora" and adapter is not None and four is None and file.value("merge_lora") is not True:
            if file.value("gptq") is True or file.value("load_in_4bit") not in {None, False}:
                return
            places = (from_entry(file, adapter).place, *((eight.place,) if eight is not None else ()))
            yield self._found(
                say(
                    "adapter: qlora needs load_in_4bit; {eight}.",
                    eight=say("load_in_8bit is on") if eight is not None else say("it is off"),
                ),
                places,
                breaks=say("axolotl refuses qlora without 4 bits"),
                cure="adapter-lora" if eight is not None else "four-on",
            )

    def _llama_factory(self, file: ConfigFile) -> Iterator[Finding]:
        bits, method = file.entries.get("quantization_bit"), file.entries.get("finetuning_type")
        if bits is None or not bits.number or method is None or method.interpolated:
            return
        if str(method.value) not in ADAPTERS:
            yield self._found(
                say(
                    "quantization_bit={bits} with finetuning_type={method}: a quantised model can "
                    "only be trained through adapters.",
                    bits=bits.value,
                    method=method.value,
                ),
                (file.setting(method), file.setting(bits)),
                breaks=say("LLaMA-Factory refuses the combination"),
                cure="lora",
            )

    def _sharded(self, link: Link) -> Iterator[Finding]:
        """bitsandbytes under ZeRO-3."""
        stage = link.deepspeed.get("zero_optimization.stage")
        if stage is None or stage.number != 3:
            return
        arguments = link.arguments
        eight, four = arguments.on("load_in_8bit"), arguments.on("load_in_4bit")
        bits = arguments.number("quantization_bit")
        item = eight or four or arguments.get("quantization_bit")
        factory = item is not None and item.key == "quantization_bit"
        if item is None or (factory and bits in {None, 0, 4}):
            return  # LLaMA-Factory stores its 4 bits in the training dtype
        if eight is None and bits is None and arguments.get("bnb_4bit_quant_storage") is not None:
            return
        yield self._found(
            say(
                "{arguments} loads the model with {key} and {config} is ZeRO stage "
                "3, which cannot shard bitsandbytes' weights",
                arguments=link.arguments.title,
                key=item.key,
                config=link.deepspeed.title,
            )
            + ("." if eight is not None or bits else say(" in their default storage type.")),
            (item.place, stage.place),
            cure="stage",
        )

    # source

    def _in_source(self, patient: Patient, source: Source) -> Iterator[Finding]:
        trains = source.trains or next(trainers(source), None) is not None
        for script in source.scripts:
            for call in script.calls:
                named = call.method == "BitsAndBytesConfig" and not call.name.startswith("?")
                if not named or in_a_test(call) or switched_off(source, call):
                    continue
                yield from self._call(script, call, trains)
                yield from self._stage_three(patient, script, call)
        yield from self._full(source)

    def _call(self, script: Script, call: Call, trains: bool) -> Iterator[Finding]:
        four, eight = (from_keyword(script, call, name) for name in BITS)
        if four is not None and four.on and eight is not None and eight.on:
            sure = four.sure and eight.sure
            yield self._found(
                say("load_in_4bit and load_in_8bit are both on."),
                (eight.place, four.place),
                breaks=say("transformers refuses both at once") if sure else "",
                cure="eight-off",
            )
        elif trains and four is not None and four.on and four.sure:
            dtype = from_keyword(script, call, "bnb_4bit_compute_dtype")
            if dtype is None and not call.open_ended:
                yield self._found(
                    say("4-bit layers compute in float32: bnb_4bit_compute_dtype is not set."),
                    (call.span,),
                    cure="compute",
                )
            elif dtype is not None and dtype.word in FLOAT32 and dtype.sure:
                yield self._slow(dtype)

    def _slow(self, item: Written) -> Finding:
        return self._found(
            say("{key}={word}: every 4-bit layer computes in float32.", key=item.key, word=item.word),
            (item.place,),
            cure="compute",
        )

    def _stage_three(self, patient: Patient, script: Script, call: Call) -> Iterator[Finding]:
        four, eight = (from_keyword(script, call, name) for name in BITS)
        item = next((item for item in (eight, four) if item is not None and item.on), None)
        stored = "bnb_4bit_quant_storage" in call.keywords
        if item is None or call.open_ended or (item is four and stored):
            return
        linked = {id(link.deepspeed): link.deepspeed for link in links(patient) if link.arguments.script is script}
        own = {id(setup): setup for setup in deepspeed_configs(patient) if setup.script is script}
        for setup in (linked | own).values():
            stage = setup.get("zero_optimization.stage")
            if stage is not None and stage.number == 3:
                yield self._found(
                    say(
                        "The model is loaded with {key} and {title} is ZeRO stage 3, which cannot "
                        "shard bitsandbytes' weights",
                        key=item.key,
                        title=setup.title,
                    )
                    + ("." if item is eight else say(" in their default storage type.")),
                    (item.place, stage.place),
                    cure="stage",
                )
                return

    def _full(self, source: Source) -> Iterator[Finding]:
        """A quantised model given to a Trainer, and no adapter anywhere."""
        for script, load in trained_models(source):
            item = _quantised(script, load)
            if item is not None and not in_a_test(load):
                yield self._found(
                    say("The model is loaded with {key} and trained without adapters.", key=item.key),
                    (item.place, load.span),
                    breaks=say("the Trainer refuses to fine-tune a purely quantised model") if item.sure else "",
                    cure="peft",
                )

        if source.trains and not adapted(source):
            for _, load, item in _optimised(source):
                yield self._found(
                    say(
                        "The model is loaded with {key}, and the optimizer gets its parameters: packed "
                        "weights get no gradient.",
                        key=item.key,
                    ),
                    (item.place, load.span),
                    cure="peft",
                )

    def _found(self, message: str, places: tuple[SourceSpan | Setting, ...], *, breaks: str = "", cure: str) -> Finding:
        return self.finding(
            message,
            evidence=tuple(dict.fromkeys(places)),
            confidence=Confidence.SUSPECTED,
            severity=Severity.ERROR if breaks else Severity.WARNING,
            cost=Cost(breaks=breaks) if breaks else None,
            subject=f"{places[0].path}:{places[0].line}",
            detail=QuantisationConflictDetail(cure=cure),
        )


def _optimised(source: Source) -> Iterator[tuple[Script, Call, Written]]:
    """Quantised models whose own parameters are given to an optimizer of torch."""
    for script in source.scripts:
        given = {
            ast.unparse(node.func.value)
            for call in script.calls
            if call.name.startswith("torch.optim.") and not switched_off(source, call)
            for node in call.node.args[:1]
            if is_method_call(node, "parameters")
        }
        for load in script.calls_to(".from_pretrained"):
            item = _quantised(script, load) if bound_to(script, load.node) in given - {""} else None
            if item is not None and not in_a_test(load):
                yield script, load, item


def _beside(one: Written, two: Written) -> bool:
    """Whether two keys stand in one section."""
    return one.entry is not None and two.entry is not None and one.entry.parts[:-1] == two.entry.parts[:-1]


def _quantised(script: Script, load: Call) -> Written | None:
    """The switch that quantises a model when it is loaded."""
    for name in BITS:
        item = from_keyword(script, load, name)
        if item is not None and item.on:
            return item
    node = keyword_value(load.node, "quantization_config")
    if node is None:
        return None
    for call in script.calls_to(".BitsAndBytesConfig"):
        if call.node is node or (isinstance(node, ast.Name) and bound_to(script, call.node) == node.id):
            for name in BITS:
                item = from_keyword(script, call, name)
                if item is not None and item.on and not call.guards:
                    return item
    return None
