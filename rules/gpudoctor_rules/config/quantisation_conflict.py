"""Answers CFG008: adapters on quantised weights, and a half precision to compute in."""

from collections.abc import Iterator

from gpudoctor.analysis.source.declared_settings import Written, add_keyword
from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say
from gpudoctor.model import Applicability, Code, Edit, Effort, Finding, Patient, Remedy, Rule, SourceSpan
from gpudoctor_checks.config.quantisation_conflict import QuantisationConflictDetail
from gpudoctor_rules.config.placing import settings

AMPERE = (8, 0)
"""Compute capability from which cards have bf16."""

TEXTS = {
    "adapter": (
        say("adapter: qlora, with load_in_4bit: true"),
        say("train LoRA on the quantised model, or switch it off"),
    ),
    "peft": (
        say("train LoRA on the quantised model"),
        "model = get_peft_model(prepare_model_for_kbit_training(model), LoraConfig(...))",
    ),
    "stage": (
        say("ZeRO stage 2, or bnb_4bit_quant_storage in the training dtype"),
        say("bnb_4bit_quant_storage=torch.bfloat16 lets ZeRO-3 shard 4-bit weights; 8-bit weights need stage 2"),
    ),
}


class QuantisationConflictRule(Rule):
    """The setting that goes with a quantised model."""

    answers = Code("CFG008")

    def prescribe(self, finding: Finding, patient: Patient) -> Iterator[Remedy]:
        cure = finding.detail_of(QuantisationConflictDetail).cure
        items = [item for _, item in settings(finding, patient)]
        if cure == "eight-off" and items:
            edit = items[0].edit("false", python="False")
            yield _remedy(cure, say("4 bits only"), "load_in_8bit off", () if edit is None else (edit,))
        elif cure == "lora" and items:
            edit = items[0].edit("lora")
            yield _remedy(cure, "finetuning_type: lora", say("or no quantization_bit"), () if edit is None else (edit,))
        elif cure == "adapter-lora" and items:
            edit = items[0].edit("lora")
            yield _remedy(cure, say("adapter: lora with 8 bits"), "or load_in_4bit", () if edit is None else (edit,))
        elif cure == "four-on":
            yield _remedy(cure, "load_in_4bit: true", say("qlora is LoRA on 4-bit weights"), ())
        elif cure == "compute":
            yield _compute(finding, patient, items)
        else:
            yield _remedy(cure, *TEXTS.get(cure, TEXTS["peft"]), ())


def _compute(finding: Finding, patient: Patient, items: list[Written]) -> Remedy:
    """A half precision that the cards have; its name as a word, which needs no import."""
    cards = optional(lambda: patient.gpus)
    known = [card.compute_capability for card in cards or () if isinstance(card.compute_capability, tuple)]
    word = "float16" if known and not all(item >= AMPERE for item in known) else "bfloat16"
    edits: tuple[Edit, ...] = ()
    place = finding.evidence[0]
    if items:
        owner = items[0].node_text.rpartition(".")[0]
        edit = items[0].edit(_quoted(items[0], word), python=f"{owner}.{word}" if owner else f'"{word}"')
        edits = () if edit is None else (edit,)
    elif isinstance(place, SourceSpan):
        for script in patient.source.scripts:
            for call in script.calls_to(".BitsAndBytesConfig"):
                if call.span == place:
                    added = add_keyword(script, call, "bnb_4bit_compute_dtype", f'"{word}"')
                    edits = () if added is None else (added,)
    return _remedy("compute", f"bnb_4bit_compute_dtype={word}", say("4-bit layers then use tensor cores"), edits)


def _quoted(item: Written, word: str) -> str:
    return f'"{word}"' if item.file is not None and item.file.format in {"json", "toml"} else word


def _remedy(name: str, title: str, why: str, edits: tuple[Edit, ...]) -> Remedy:
    return Remedy(
        id=f"CFG008-{name}",
        title=title,
        steps=(title, why),
        applicability=Applicability.UNSAFE if edits else Applicability.DISPLAY_ONLY,
        effort=Effort.SETTING,
        edits=edits,
    )
