"""Training jobs whose memory can be told, as their files are written."""

HF = """
model_name_or_path: {model}
output_dir: out
per_device_train_batch_size: {batch}
gradient_accumulation_steps: {accumulate}
max_seq_length: {seq}
bf16: true
torch_dtype: bfloat16
gradient_checkpointing: {checkpointing}
num_train_epochs: 3
{more}
"""
SCRIPT = """
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("{model}", torch_dtype=torch.bfloat16)
tokenizer = AutoTokenizer.from_pretrained("{model}")


def encode(rows):
    return tokenizer(rows["text"], truncation=True, max_length={seq}, padding="max_length")


args = TrainingArguments(
    "out",
    per_device_train_batch_size={batch},
    gradient_accumulation_steps={accumulate},
    gradient_checkpointing={checkpointing},
    bf16=True,
    optim="adamw_torch",
)
Trainer(model=model, args=args, train_dataset=data.map(encode, batched=True)).train()
"""


def config(
    model: str = "meta-llama/Llama-2-7b-hf",
    *,
    batch: int = 1,
    accumulate: int = 1,
    seq: int = 4096,
    checkpointing: bool = True,
    more: str = "",
) -> str:
    """A Hugging Face training config."""
    return HF.format(
        model=model, batch=batch, accumulate=accumulate, seq=seq, checkpointing=str(checkpointing).lower(),
        more=more,
    )  # fmt: skip


def script(
    model: str = "mistralai/Mistral-7B-v0.1",
    *,
    batch: int = 1,
    accumulate: int = 1,
    seq: int = 1024,
    checkpointing: bool = True,
) -> str:
    """A script with a Trainer."""
    return SCRIPT.format(model=model, batch=batch, accumulate=accumulate, seq=seq, checkpointing=checkpointing)
