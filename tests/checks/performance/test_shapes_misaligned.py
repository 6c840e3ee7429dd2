import pytest
from configs import config_files, config_patient
from mending import gone
from scripts import PATIENTS, healthy_scripts, script_patient, sick_scripts

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_gpu, prescribe
from gpudoctor_checks.performance.shapes_misaligned import ShapesMisaligned
from gpudoctor_rules.performance.shapes_misaligned import ShapesMisalignedRule

FOLDER = PATIENTS / "PERF008"
TITLES = {
    "sick_vocabulary": "50257 -> 50304",
    "sick_collator": "pad_to_multiple_of=8",
    "sick_resized": "pad_to_multiple_of=64",
}


@pytest.mark.parametrize("path", sick_scripts("PERF008"), ids=lambda path: path.stem)
def test_sick_script(path):
    patient = script_patient(path)
    [finding] = examine(ShapesMisaligned, patient)
    assert finding.severity is Severity.NOTE
    [remedy] = prescribe(ShapesMisalignedRule, finding, patient)
    assert remedy.title == TITLES[path.stem]


@pytest.mark.parametrize("path", healthy_scripts("PERF008"), ids=lambda path: path.stem)
def test_healthy_script(path):
    assert examine(ShapesMisaligned, script_patient(path)) == []


def test_sick_config():
    [path] = config_files("PERF008", "sick")
    findings = examine(ShapesMisaligned, config_patient(path))
    assert {finding.detail.rounded for finding in findings} == {50304, 1024}
    assert gone("PERF008", path.read_text("utf-8"), path.name)


@pytest.mark.parametrize("path", config_files("PERF008", "healthy"), ids=lambda path: path.stem)
def test_healthy_config(path):
    assert examine(ShapesMisaligned, config_patient(path)) == []


def test_healthy_card_without_tensor_cores():
    patient = script_patient(FOLDER / "sick_vocabulary.py", gpus=[make_gpu(compute_capability=(6, 1))])
    assert examine(ShapesMisaligned, patient) == []


@pytest.mark.parametrize("name", ["sick_collator", "sick_resized"])
def test_sick_edit_cures(name):
    assert gone("PERF008", (FOLDER / f"{name}.py").read_text("utf-8"))


GROWN = """
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

def grow(model, tokenizer, words):
    new = tokenizer.add_tokens(words)
    model.resize_token_embeddings(len(tokenizer))
    rows = model.get_input_embeddings().weight.data
    {fill}

tokenizer = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.bfloat16)
grow(model, tokenizer, ["<a>"])
Trainer(model=model, args=TrainingArguments("out", bf16=True), train_dataset=None).train()
"""


@pytest.mark.parametrize(
    ("fill", "edits"),
    [("rows[-new:] = rows[:-new].mean(0)", 0), ("rows[len(tokenizer) - new : len(tokenizer)] = 0", 1)],
)
def test_sick_rows_counted_from_the_end_are_not_moved_by_an_edit(fill, edits):
    patient = script_patient(GROWN.format(fill=fill))
    [finding] = examine(ShapesMisaligned, patient)
    [remedy] = prescribe(ShapesMisalignedRule, finding, patient)
    assert len(remedy.edits) == edits
    assert ("counts rows from the end" in remedy.steps[-1]) == (not edits)


@pytest.mark.parametrize(("half", "once"), [(False, True), (True, False)])
def test_a_program_in_float32_is_told_what_16_bits_would_meet(half, once):
    text = (FOLDER / "sick_vocabulary.py").read_text("utf-8")
    if half:
        text = text.replace("def main():\n", "def main():\n    torch.set_default_dtype(torch.bfloat16)\n")
    [finding] = examine(ShapesMisaligned, script_patient(text))
    assert finding.message.endswith("of a matrix product in pieces once it computes in 16 bits.") == once


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("CLIPTextModel", 0),
        ("AutoModelForSequenceClassification", 0),
        ("T5EncoderModel", 0),
        ("AutoModelForSeq2SeqLM", 1),
        ("AutoModelForMaskedLM", 1),
    ],
)
def test_embeddings_that_are_only_looked_up_need_no_round_length(kind, found):
    script = f"""
    import torch
    from transformers import AutoTokenizer, {kind}
    words = AutoTokenizer.from_pretrained("org/words")
    words.add_tokens(["<thing>"])
    reader = {kind}.from_pretrained("org/words").cuda()
    reader.resize_token_embeddings(len(words))
    rule = torch.optim.AdamW(reader.parameters(), lr=1e-4)
    for batch in torch.utils.data.DataLoader(torch.load("d.pt"), batch_size=8):
        loss = reader(**batch)[0]
        loss.backward()
        rule.step()
        rule.zero_grad()
    """
    kinds = [finding.detail.kind for finding in examine(ShapesMisaligned, script_patient(script))]
    assert kinds == ["vocabulary"] * found
