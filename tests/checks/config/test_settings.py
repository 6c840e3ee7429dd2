"""Checks of settings: what the patients on file do not show."""

import pytest
from configs import config_patient
from jobs import job_files, job_patient, launch_line, patient_of
from scripts import script_patient

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_gpu, prescribe
from gpudoctor.vitals.job import read_job
from gpudoctor_checks.config.batch_mismatch import BatchMismatch
from gpudoctor_checks.config.deprecated_key import DeprecatedKey
from gpudoctor_checks.config.frequencies import Frequencies
from gpudoctor_checks.config.known_keys import meant
from gpudoctor_checks.config.lora_misfit import LoraMisfit
from gpudoctor_checks.config.optimizer_mismatch import OptimizerMismatch
from gpudoctor_checks.config.precision_conflict import PrecisionConflict
from gpudoctor_checks.config.quantisation_conflict import QuantisationConflict
from gpudoctor_checks.config.settings_rejected import SettingsRejected
from gpudoctor_checks.config.unknown_key import UnknownKey
from gpudoctor_rules.config import quantisation_conflict

ERROR, WARNING = Severity.ERROR, Severity.WARNING
HF = "output_dir: o\nper_device_train_batch_size: 1\nnum_train_epochs: 1\ndeepspeed: ds.json\n"
DS = '{"zero_optimization": {"stage": 2}, %s}'


@pytest.mark.parametrize(
    ("arguments", "engine", "found"),
    [
        ("weight_decay: 0.01", '"optimizer": {"type": "AdamW", "params": {"weight_decay": 0.1}}', 1),
        ("max_grad_norm: 1.0", '"gradient_clipping": 0.5', 1),
        ("warmup_steps: 100", '"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 500}}', 1),
        ("learning_rate: 1e-4", '"scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.001}}', 1),
        ("optim: adafactor", '"optimizer": {"type": "AdamW", "params": {"lr": "auto"}}', 1),
        ("weight_decay: 0.1", '"optimizer": {"type": "AdamW", "params": {"weight_decay": 1e-1}}', 0),
        ("max_grad_norm: 1.0", '"gradient_clipping": "auto"', 0),
        ("warmup_steps: 0", '"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 500}}', 0),
        ("learning_rate: 1e-4", '"scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.0001}}', 0),
        ("optim: adamw_torch_fused", '"optimizer": {"type": "AdamW", "params": {"lr": "auto"}}', 0),
        ("seed: 1", '"optimizer": {"type": "AdamW", "params": {"lr": 0.001}}', 0),  # whose default is not known
    ],
)
def test_sick_and_healthy_arguments(arguments: str, engine: str, found: int) -> None:
    patient = patient_of({"a.yaml": HF + arguments + "\n", "ds.json": DS % engine})
    assert len(examine(OptimizerMismatch, patient)) == found


ROWS = {"output_dir": "out", "learning_rate": 1e-4, "num_train_epochs": 3, "per_device_train_batch_size": 4,
        "evaluation_strategy": "epoch"}  # fmt: skip


@pytest.mark.parametrize(("name", "sign", "said"), [("job.toml", " = ", 0), ("job.yaml", ": ", 1)])
def test_no_library_reads_its_settings_from_toml(tmp_path, name, sign, said):
    path = tmp_path / name
    path.write_text("".join(f"{key}{sign}{value!r}\n".replace("'", '"') for key, value in ROWS.items()))
    assert len(examine(DeprecatedKey, config_patient(path))) == said


SICK = dict(job_files("CFG008", "sick"))


@pytest.mark.parametrize("flag", ["USE", "args.quantise"])
def test_healthy_behind_a_switch(flag: str) -> None:
    script = f"""
        from transformers import AutoModel, BitsAndBytesConfig, Trainer, TrainingArguments
        config = BitsAndBytesConfig(load_in_4bit={flag}, bnb_4bit_compute_dtype="bfloat16")
        model = AutoModel.from_pretrained("gpt2", quantization_config=config)
        Trainer(model=model, args=TrainingArguments("o")).train()
        """
    assert examine(QuantisationConflict, patient_of({"train.py": script})) == []


@pytest.mark.parametrize(("capability", "word"), [((7, 5), "float16"), ((8, 0), "bfloat16")])
def test_the_rule_asks_the_card(capability: tuple[int, int], word: str) -> None:
    cards = [make_gpu(compute_capability=capability)]
    patient = job_patient(SICK["source-sick_default_dtype"], gpus=cards)
    [finding] = examine(QuantisationConflict, patient)
    [remedy] = prescribe(quantisation_conflict, finding, patient)
    assert remedy.title.endswith(f"={word}")


def arguments(text: str) -> dict[str, str]:
    return {"train.py": f"from transformers import TrainingArguments\na = TrainingArguments('o', {text})\n"}


@pytest.mark.parametrize(("text", "severities"), [("future_option=1", []), ("gradient_acumulation_steps=2", [ERROR])])
def test_sick_and_healthy_names_of_a_call(text, severities) -> None:
    assert [finding.severity for finding in examine(UnknownKey, patient_of(arguments(text)))] == severities


@pytest.mark.parametrize(
    ("key", "known"),
    [
        ("learing_rate", "learning_rate"),
        ("learningrate", "learning_rate"),
        ("learning-rate", "learning_rate"),
        ("use_lora", None),
        ("rate", None),
        ("learning_rate2", None),
    ],
)
def test_sick_and_healthy_words(key: str, known: str | None) -> None:
    assert meant(key, ("learning_rate", "use_dora", "lr")) == known


def trainer(text):
    return script_patient(f"from transformers import TrainingArguments\nargs = TrainingArguments('out', {text})\n")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("logging_steps=9", 1),
        ("logging_steps=1, gradient_accumulation_steps=16", 1),
        ("save_steps=49", 1),
        ("eval_strategy='steps', eval_steps=49", 1),
        ("logging_steps=10", 0),
        ("logging_steps=2, gradient_accumulation_steps=8", 0),
        ("save_steps=50", 0),
        ("eval_strategy='steps', eval_steps=50", 0),
        ("logging_strategy='epoch', logging_steps=1", 0),
        ("save_strategy=STRATEGY, save_steps=1", 0),
        ("logging_steps=STEPS", 0),
        ("eval_strategy='steps', eval_steps=0.001, max_steps=10000", 0),
        ("**options", 0),
    ],
)
def test_sick_and_healthy_frequencies(text, found):
    assert len(examine(Frequencies, trainer(text))) == found


def config(text: str) -> str:
    return f"from peft import LoraConfig\nconfig = LoraConfig({text})\n"


def test_sick_rank_zero() -> None:
    [finding] = examine(LoraMisfit, patient_of({"train.py": config("r=0, lora_alpha=8")}))
    assert finding.severity is ERROR
    assert finding.cost.breaks


@pytest.mark.parametrize(
    ("text", "found"),
    [("r=8, lora_alpha=136", 1), ("r=64, lora_alpha=6", 1), ("r=8, lora_alpha=128", 0), ("r=160, lora_alpha=16", 0),
     ("r=2, lora_alpha=64", 0), ("r=RANK, lora_alpha=512", 0), ("r=8, lora_alpha=512, use_rslora=True", 0),
     ("**options", 0)],
)  # fmt: skip
def test_sick_and_healthy_scales(text: str, found: int) -> None:
    assert len(examine(LoraMisfit, patient_of({"train.py": config(text)}))) == found


ARGUMENTS = "from transformers import TrainingArguments\nargs = TrainingArguments('o', deepspeed='ds.json'%s)\n"


@pytest.mark.parametrize(
    ("more", "engine", "found"),
    [
        (", per_device_train_batch_size=4", '"train_micro_batch_size_per_gpu": 2', 1),
        ("", '"train_micro_batch_size_per_gpu": 2', 1),  # transformers' default is 8
        (", gradient_accumulation_steps=4", '"gradient_accumulation_steps": 2', 1),
        (", per_device_train_batch_size=4", '"train_micro_batch_size_per_gpu": 4', 0),
        ("", '"train_micro_batch_size_per_gpu": 8', 0),
        (", per_device_train_batch_size=4", '"train_batch_size": 32', 0),
    ],
)
def test_sick_and_healthy_arguments_and_engine(more: str, engine: str, found: int) -> None:
    findings = examine(BatchMismatch, patient_of({"train.py": ARGUMENTS % more, "ds.json": DS % engine}))
    assert [finding.severity for finding in findings] == [ERROR] * found


@pytest.mark.parametrize(
    ("total", "ranks", "severities"),
    [(64, 4, [ERROR]), (64, 8, []), (32, 8, [WARNING])],  # model parallelism may explain the last
)
def test_sick_and_healthy_ranks_of_the_launch_line(total: int, ranks: int, severities: list[Severity]) -> None:
    engine = DS % f'"train_batch_size": {total}, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2'
    found = examine(BatchMismatch, patient_of({"ds.json": engine}, launch_line("x train.py", ranks=ranks)))
    assert [finding.severity for finding in found] == severities
    assert all(f"on {ranks} ranks are {8 * ranks}" in finding.message for finding in found)


@pytest.mark.parametrize(
    ("batch", "ranks", "severity"), [(2, None, Severity.NOTE), (2, 2, Severity.ERROR), (2, 4, None), (8, None, None)]
)
def test_completions_that_are_not_whole_groups(batch, ranks, severity):
    text = f"from trl import GRPOConfig\nargs = GRPOConfig(num_generations=8, per_device_train_batch_size={batch})\n"
    launch = launch_line("torchrun grpo.py", ranks=ranks) if ranks else None
    found = examine(BatchMismatch, patient_of({"grpo.py": text}, launch))
    assert [finding.severity for finding in found] == ([severity] if severity else [])


SERVED = "from vllm import LLM\nllm = LLM(model='Qwen/Qwen2.5-7B-Instruct', tensor_parallel_size=%d)\n"
BF16 = "from transformers import TrainingArguments\nargs = TrainingArguments('o', bf16=True)\n"


@pytest.mark.parametrize(("parts", "found"), [(8, 1), (4, 0)])
def test_a_tensor_parallel_size_divides_the_heads(parts: int, found: int) -> None:
    assert len(examine(SettingsRejected, script_patient(SERVED % parts))) == found


@pytest.mark.parametrize(("card", "found"), [("V100", 1), ("A100", 0), (None, 0)])
def test_bf16_on_the_card_of_the_job(card: str | None, found: int) -> None:
    patient = script_patient(BF16, job=read_job(None, {}, card=card))
    assert len(examine(PrecisionConflict, patient)) == found


LOADED = "from transformers import AutoModelForCausalLM\nmodel = AutoModelForCausalLM.from_pretrained('x', attn_implementation='%s')\n"
STREAM = (
    "model_name_or_path: m\nstage: pt\nfinetuning_type: full\ndataset: d\ncutoff_len: 64\noutput_dir: o\nbf16: true\n"
)


@pytest.mark.parametrize(
    ("name", "card", "found"), [("flash_attention_2", "T4", 1), ("flash_attention_2", "A100", 0), ("sdpa", "T4", 0)]
)
def test_attention_on_the_card_of_the_job(name: str, card: str, found: int) -> None:
    assert len(examine(SettingsRejected, script_patient(LOADED % name, job=read_job(None, {}, card=card)))) == found


@pytest.mark.parametrize(
    ("keys", "found"), [("streaming: true", 1), ("streaming: true\nmax_steps: 9", 0), ("streaming: false", 0)]
)
def test_a_stream_needs_a_number_of_steps(keys: str, found: int) -> None:
    assert len(examine(SettingsRejected, patient_of({"train.yaml": f"{STREAM}{keys}\n"}))) == found


@pytest.mark.parametrize(
    ("targets", "severities"),
    [
        (["query_key_value", "dense_h_to_4h"], [ERROR]),
        (["q_proj", "query_key_value"], [Severity.NOTE]),
        (["q_proj", "v_proj"], []),
    ],
)
def test_targets_that_the_model_does_not_have(targets: list[str], severities: list[Severity]) -> None:
    text = (LOADED % "sdpa").replace("'x'", "'mistralai/Mistral-7B-v0.3'")
    text += f"from peft import LoraConfig\nlora = LoraConfig(r=8, target_modules={targets})\n"
    assert [item.severity for item in examine(LoraMisfit, patient_of({"train.py": text}))] == severities
