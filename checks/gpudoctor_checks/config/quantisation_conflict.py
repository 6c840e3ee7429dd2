"""CFG008: a quantised model is used in a way that quantised models are not made for."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.config_links import links
from gpudoctor.analysis.source.control_flow import bound_to, switched_off
from gpudoctor.analysis.source.declared_settings import Setup, Written, from_entry, from_keyword
from gpudoctor.analysis.source.pretrained_models import trained_models, trainers
from gpudoctor.analysis.source.syntax import keyword_value
from gpudoctor.analysis.source.training_arguments import in_a_test
from gpudoctor.lang import say, template
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind
from gpudoctor.model.signs.source import Call, Script, Source
from gpudoctor_checks.config.disagreement import sentence, settings_finding

ADAPTERS = frozenset({"lora", "oft"})
"""LLaMA-Factory's methods that train on a quantised model."""

FLOAT32 = frozenset({"float32", "float", "fp32"})
BITS = ("load_in_4bit", "load_in_8bit")
BOTH = say("transformers refuses both at once")
STORED = say(" in their default storage type.")
SLOW = template("{key}={word}: every 4-bit layer computes in float32.")


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
            if file.kind.trains:
                yield from self._in_config(file)
        for link in links(patient):
            yield from self._sharded(link.arguments, link.deepspeed)
        yield from self._in_source(source)

    def _in_config(self, file: ConfigFile) -> Iterator[Finding]:
        four, eight = (
            next((item for entry in file.find(name) if (item := from_entry(file, entry)).on), None) for name in BITS
        )
        if four is not None and eight is not None and _section(four) == _section(eight):
            text = say("{key} and {other_key} are both on.", key=four.key, other_key=eight.key)
            refused = file.kind is not ConfigKind.SECTIONS
            yield settings_finding(self, text, eight, four, breaks=BOTH, certain=refused, cure="eight-off")
        elif file.kind is ConfigKind.AXOLOTL:
            yield from self._axolotl(file, four, eight)
        elif file.kind is ConfigKind.LLAMA_FACTORY:
            bits, method = file.entries.get("quantization_bit"), file.entries.get("finetuning_type")
            told = bits is not None and bits.number and method is not None and not method.interpolated
            if told and bits is not None and method is not None and str(method.value) not in ADAPTERS:
                text = say(
                    "quantization_bit={bits} with finetuning_type={method}: a quantised model can "
                    "only be trained through adapters.",
                    bits=bits.value,
                    method=method.value,
                )
                refuses = say("LLaMA-Factory refuses the combination")
                yield settings_finding(
                    self, text, file.setting(method), file.setting(bits), breaks=refuses, cure="lora"
                )
        if four is not None or file.kind is ConfigKind.QUANTISATION:
            for entry in file.find("bnb_4bit_compute_dtype"):
                item = from_entry(file, entry)
                if item.word in FLOAT32:
                    yield settings_finding(self, sentence(SLOW, "", item, word=item.word), item, cure="compute")

    def _axolotl(self, file: ConfigFile, four: Written | None, eight: Written | None) -> Iterator[Finding]:
        adapter = file.entries.get("adapter")
        name = "" if adapter is None or adapter.value is None else str(adapter.value)
        packed = four or eight
        if not name and packed is not None and file.value("inference") is not True:
            text = say(
                "{key} is on without an adapter: a quantised model cannot be fine-tuned as it is.", key=packed.key
            )
            refuses = say("axolotl refuses a quantised model without an adapter")
            yield settings_finding(self, sentence(text, "", packed), packed, breaks=refuses, cure="adapter")
        elif name == "qlora" and adapter is not None and four is None and file.value("merge_lora") is not True:
            if file.value("gptq") is True or file.value("load_in_4bit") not in {None, False}:
                return
            state = say("load_in_8bit is on") if eight is not None else say("it is off")
            yield settings_finding(
                self,
                say("adapter: qlora needs load_in_4bit; {eight}.", eight=state),
                from_entry(file, adapter),
                eight,
                breaks=say("axolotl refuses qlora without 4 bits"),
                cure="adapter-lora" if eight is not None else "four-on",
            )

    def _sharded(self, arguments: Setup, engine: Setup) -> Iterator[Finding]:
        """bitsandbytes under ZeRO-3."""
        stage = engine.get("zero_optimization.stage")
        if stage is None or stage.number != 3:
            return
        eight, four = arguments.on("load_in_8bit"), arguments.on("load_in_4bit")
        bits = arguments.number("quantization_bit")
        item = eight or four or arguments.get("quantization_bit")
        factory = item is not None and item.key == "quantization_bit"
        if item is None or (factory and bits in {None, 0, 4}):
            return  # LLaMA-Factory stores its 4 bits in the training dtype
        if eight is None and bits is None and arguments.get("bnb_4bit_quant_storage") is not None:
            return
        text = say(
            "{arguments} loads the model with {key} and {config} is ZeRO stage "
            "3, which cannot shard bitsandbytes' weights",
            arguments=arguments.title,
            key=item.key,
            config=engine.title,
        )
        end = "." if eight is not None or bits else STORED
        yield settings_finding(self, text + end, item, stage, cure="stage")

    def _in_source(self, source: Source) -> Iterator[Finding]:
        trains = source.trains or next(trainers(source), None) is not None
        for script in source.scripts:
            for call in script.calls:
                named = call.method == "BitsAndBytesConfig" and not call.name.startswith("?")
                if named and not in_a_test(call) and not switched_off(source, call):
                    four, eight = (from_keyword(script, call, name) for name in BITS)
                    yield from self._call(script, call, trains, four, eight)
        for script, load in trained_models(source):
            item = _quantised(script, load)
            if item is not None:
                text = say("The model is loaded with {key} and trained without adapters.", key=item.key)
                refuses = say("the Trainer refuses to fine-tune a purely quantised model")
                yield settings_finding(self, text, item, load.span, breaks=refuses, certain=item.sure, cure="peft")

    def _call(
        self, script: Script, call: Call, trains: bool, four: Written | None, eight: Written | None
    ) -> Iterator[Finding]:
        if four is None or not four.on:
            return
        dtype = from_keyword(script, call, "bnb_4bit_compute_dtype")
        if eight is not None and eight.on:
            text = say("load_in_4bit and load_in_8bit are both on.")
            sure = four.sure and eight.sure
            yield settings_finding(self, text, eight, four, breaks=BOTH, certain=sure, cure="eight-off")
        elif trains and four.sure and dtype is None and not call.open_ended:
            text = say("4-bit layers compute in float32: bnb_4bit_compute_dtype is not set.")
            yield settings_finding(self, text, call.span, cure="compute")
        elif trains and four.sure and dtype is not None and dtype.word in FLOAT32 and dtype.sure:
            yield settings_finding(self, sentence(SLOW, "", dtype, word=dtype.word), dtype, cure="compute")


def _section(item: Written) -> tuple[str, ...]:
    return item.entry.parts[:-1] if item.entry is not None else ()


def _quantised(script: Script, load: Call) -> Written | None:
    """The switch that quantises a model when it is loaded, outside tests."""
    if in_a_test(load):
        return None
    node = keyword_value(load.node, "quantization_config")
    configs = [
        call
        for call in script.calls_to(".BitsAndBytesConfig")
        if node is not None
        and not call.guards
        and (call.node is node or (isinstance(node, ast.Name) and bound_to(script, call.node) == node.id))
    ]
    found = (from_keyword(script, call, name) for call in (load, *configs) for name in BITS)
    return next((item for item in found if item is not None and item.on), None)
