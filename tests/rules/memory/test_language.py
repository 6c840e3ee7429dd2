"""A remedy speaks the language of its file: what it says to write is written, and the estimate finds it."""

import textwrap

import pytest
from jobs import memory_patient

from gpudoctor_rules.settings import as_written

FILES = {
    "llama-factory": """
        model_name_or_path: meta-llama/Llama-2-7b-hf
        stage: sft
        learning_rate: 1.0e-5
        finetuning_type: full
        template: llama2
        dataset: alpaca
        cutoff_len: 2048
        per_device_train_batch_size: 8
        output_dir: out
        bf16: true
        """,
    "huggingface": """
        model_name_or_path: meta-llama/Llama-2-7b-hf
        output_dir: out
        per_device_train_batch_size: 8
        gradient_accumulation_steps: 1
        max_seq_length: 2048
        num_train_epochs: 1
        learning_rate: 1.0e-5
        bf16: true
        """,
    "axolotl": """
        base_model: meta-llama/Llama-2-7b-hf
        sequence_len: 2048
        micro_batch_size: 8
        gradient_accumulation_steps: 1
        datasets:
          - path: a
            type: alpaca
        optimizer: adamw_torch
        num_epochs: 1
        bf16: true
        """,
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize(
    ("name", "value"),
    [("loss", "chunked"), ("checkpointing", "layer"), ("accumulate", 4), ("optimizer", "adamw-8bit"), ("batch", 2)],
)
def test_what_a_remedy_says_is_what_the_estimate_reads(kind, name, value):
    text = textwrap.dedent(FILES[kind]).lstrip("\n")
    patient = memory_patient({"a.yaml": text})
    [job] = patient.memory
    [file] = patient.configs.files
    assert file.kind.value == kind
    said = as_written(job, name, value, patient)
    key = said.partition(":")[0]
    kept = "".join(line + "\n" for line in text.splitlines() if not line.startswith(key + ":"))
    [again] = memory_patient({"a.yaml": kept + said + "\n"}).memory
    assert again.values[name] == value, said
