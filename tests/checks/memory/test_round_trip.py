"""A remedy for memory, applied and estimated again, gives what it promised: in each reader's own keys."""

import pytest
from cures import after
from jobs import memory_patient
from memory_jobs import script

from gpudoctor.model.signs.memory import Holds
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.memory.will_not_fit import WillNotFit
from gpudoctor_rules.memory import will_not_fit

TORCHTUNE = """\
output_dir: out
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  path: tokenizer.model
  max_seq_len: 4096
dataset:
  _component_: torchtune.datasets.alpaca_dataset
  packed: true
model:
  _component_: torchtune.models.llama3_1.llama3_1_8b
batch_size: 16
epochs: 1
gradient_accumulation_steps: 1
optimizer:
  _component_: torch.optim.AdamW
  lr: 2e-5
loss:
  _component_: torch.nn.CrossEntropyLoss
device: cuda
dtype: bf16
enable_activation_checkpointing: false
"""
AXOLOTL = """\
base_model: meta-llama/Llama-2-7b-hf
sequence_len: 4096
micro_batch_size: 8
gradient_accumulation_steps: 1
gradient_checkpointing: false
datasets:
  - path: rows
    type: alpaca
optimizer: adamw_torch
num_epochs: 1
bf16: true
"""
LLAMA_FACTORY = """\
model_name_or_path: meta-llama/Llama-3.2-1B
stage: sft
do_train: true
finetuning_type: full
template: llama2
dataset: alpaca
cutoff_len: 4096
per_device_train_batch_size: 128
gradient_accumulation_steps: 1
output_dir: out
bf16: true
"""
JOBS = {
    "torchtune": {"recipe.yaml": TORCHTUNE},
    "axolotl": {"axolotl.yaml": AXOLOTL},
    "llama-factory": {"sft.yaml": LLAMA_FACTORY},
    "script": {"train.py": script("meta-llama/Llama-3.2-1B", batch=64, seq=4096, checkpointing=False)},
}


def remedies(kind):
    patient = memory_patient(JOBS[kind])
    [finding] = examine(WillNotFit, patient)
    [job] = patient.memory
    return patient, finding, job, prescribe(will_not_fit, finding, patient)


def again(kind, texts):
    """The job of the changed files, whose names the patient's paths end in."""
    [name] = JOBS[kind]
    [text] = texts.values()
    [job] = memory_patient({name: text}).memory
    return job


@pytest.mark.parametrize("kind", JOBS)
def test_what_is_applied_gives_the_bytes_that_were_promised(kind):
    patient, finding, job, found = remedies(kind)
    source, configs = patient.signs.source, patient.signs.configs
    read = source.take().scripts if kind == "script" else configs.take().files
    texts = {file.path: file.text for file in read}
    applied = [remedy for remedy in found if remedy.edits]
    assert applied, [remedy.title for remedy in found]
    for remedy in applied:
        mended = again(kind, after(texts, finding, remedy))
        promised = job.now.peak - remedy.effect.low
        assert mended.now.peak == pytest.approx(promised, rel=1e-6), remedy.title
        assert (mended.now.holds is Holds.FITS) == remedy.title.endswith("fits"), remedy.title
        for name, value in remedy.sets:
            assert str(mended.values[name]) == value, remedy.title
