"""The memory sign: what a patient's files say of a job, and what stays untold."""

import json

import pytest
from jobs import launch_line, memory_patient
from memory_jobs import config, script

from gpudoctor.cli import main
from gpudoctor.model import Unavailable

QLORA = """
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

quant = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                           bnb_4bit_compute_dtype=torch.bfloat16)
model = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.1", quantization_config=quant,
                                             torch_dtype=torch.bfloat16, attn_implementation="flash_attention_2")
model = prepare_model_for_kbit_training(model)
model = get_peft_model(model, LoraConfig(r=32, target_modules=["q_proj", "v_proj"], lora_dropout=0.05))
args = TrainingArguments("out", per_device_train_batch_size=2, bf16=True, gradient_checkpointing=True,
                         optim="paged_adamw_8bit")
Trainer(model=model, args=args, train_dataset=data.map(encode, batched=True)).train()
"""


def the_job(files, gpu="A100 80GB", gpus=1, **more):
    [job] = memory_patient(files, gpu, gpus, **more).memory
    return job


def test_a_script_with_a_quantized_base_and_adapters():
    job = the_job({"train.py": QLORA})
    told = {name: job.values[name] for name in ("method", "optimizer", "batch", "attention", "lora_rank")}
    assert told == {
        "method": "qlora", "optimizer": "paged-adamw-8bit", "batch": 2, "attention": "flash", "lora_rank": 32,
    }  # fmt: skip
    assert job.guessed == {"seq"}


def test_the_estimate_is_the_commands(capsys):
    """The sign asks the same estimator: the figure is that of `gpudoctor estimate` with the same flags."""
    job = the_job({"sft.yaml": config(batch=2)})
    words = "--model llama-2-7b --method full --dtype bf16 --set mixed_precision=bf16 --seq 4096 --batch 2"
    main(["estimate", *words.split(), "--gpu", "A100 80GB", "--format", "json"])
    assert json.loads(capsys.readouterr().out)["total_bytes"] == job.now.peak


def test_the_deepspeed_file_counts_and_the_launch_line_says_the_ranks():
    engine = '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}'
    files = {"sft.yaml": config(more="deepspeed: ds.json"), "ds.json": engine, "train.py": "print()\n"}
    launch = launch_line("torchrun --nproc_per_node=4 train.py --config sft.yaml", ranks=4)
    job = the_job(files, gpus=None, launch=launch)
    assert (job.values["parallel"], job.values["gpus"]) == ("zero3", 4)
    assert [item.changes["parallel"] for item in job.layouts][:2] == ["zero1", "zero2"]
    assert job.now.peak < the_job({"sft.yaml": config()}).now.peak


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"sft.yaml": config("acme/unheard-of-v3")}, "unheard-of"),
        ({"sft.yaml": config(more="fsdp_config_file: x")}, "sharding"),
        ({"sft.yaml": config(more="stage: dpo\nfinetuning_type: full\ntemplate: x")}, "dpo"),
        ({"train.py": script().replace("import torch", "import torch\nfrom peft import IA3Config\nIA3Config()")},
         "IA3Config"),
        ({"train.py": script() + "\nother = AutoModelForCausalLM.from_pretrained('gpt2')\n"}, "2 models"),
        ({"train.py": script().replace("AutoModelForCausalLM", "AutoModelForSequenceClassification")}, "head"),
        ({"train.py": script().replace("Trainer(model=model, args=args, train_dataset=data.map(encode, batched=True)).train()", "")},
         "no script trains"),
        ({"train.py": script().replace('"mistralai/Mistral-7B-v0.1", torch', "args.model, torch")}, "at run time"),
        ],
)  # fmt: skip
def test_what_stays_untold_says_why(files, reason):
    with pytest.raises(Unavailable, match=reason):
        memory_patient(files).memory  # noqa: B018


@pytest.mark.parametrize(("how", "kept"), [("", "layer"), (", use_gradient_checkpointing=False", "none")])
def test_peft_switches_checkpointing_on(how, kept):
    text = QLORA.replace("training(model", f"training(model{how}").replace(" gradient_checkpointing=True,", "")
    assert the_job({"train.py": text}).values["checkpointing"] == kept
