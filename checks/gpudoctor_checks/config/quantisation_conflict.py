"""CFG008: a quantised model is used in a way that quantised models are not made for."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import bound_to, switched_off
from gpudoctor.analysis.source.declared_settings import Written, from_keyword
from gpudoctor.analysis.source.pretrained_models import trained_models, trainers
from gpudoctor.analysis.source.syntax import keyword_value
from gpudoctor.analysis.source.training_arguments import in_a_test
from gpudoctor.lang import say, template
from gpudoctor.model import Check, Finding, Patient, Reads
from gpudoctor.model.signs.source import Call, Script, Source
from gpudoctor_checks.config.conflicts import conflicts
from gpudoctor_checks.config.disagreement import sentence, settings_finding

FLOAT32 = frozenset({"float32", "float", "fp32"})
BITS = ("load_in_4bit", "load_in_8bit")
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
    """

    code = "CFG008"
    reads = frozenset({Reads.CONFIG, Reads.SOURCE})

    def examine(self, patient: Patient) -> Iterator[Finding]:
        source, _ = patient.source_and_configs
        yield from conflicts(self, patient)
        yield from self._in_source(source)

    def _in_source(self, source: Source) -> Iterator[Finding]:
        trains = source.trains or bool(trainers(source))
        for script in source.scripts:
            for call in script.calls:
                named = call.method == "BitsAndBytesConfig" and not call.name.startswith("?")
                if named and not in_a_test(call) and not switched_off(source, call):
                    yield from self._call(script, call, trains)
        for script, load in trained_models(source):
            item = _quantised(script, load)
            if item is not None:
                text = say("The model is loaded with {key} and trained without adapters.", key=item.key)
                refuses = say("the Trainer refuses to fine-tune a purely quantised model")
                yield settings_finding(self, text, item, load.span, breaks=refuses, certain=item.sure, cure="peft")

    def _call(self, script: Script, call: Call, trains: bool) -> Iterator[Finding]:
        four, dtype = from_keyword(script, call, "load_in_4bit"), from_keyword(script, call, "bnb_4bit_compute_dtype")
        if four is None or not four.on or not four.sure or not trains:
            return
        if dtype is None and not call.open_ended:
            text = say("4-bit layers compute in float32: bnb_4bit_compute_dtype is not set.")
            yield settings_finding(self, text, call.span, cure="compute")
        elif dtype is not None and dtype.word in FLOAT32 and dtype.sure:
            yield settings_finding(self, sentence(SLOW, "", dtype, word=dtype.word), dtype, cure="compute")


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
