import pytest
from configs import config, configs

HF = "per_device_train_batch_size: 1\nnum_train_epochs: 1\noutput_dir: x\n"
LF = "model_name_or_path: a\nstage: sft\nfinetuning_type: lora\ntemplate: x\n"
TT = "model:\n  _component_: torchtune.models.llama3.llama3_8b\n"
PL = "seed_everything: 1\nmodel:\n  class_path: a.B\ntrainer:\n  max_epochs: 3\n"
DS = "zero_optimization:\n  stage: 2\n"
OWN = "training:\n  dataloader_num_workers: 4\n"


def _said(text: str, name: str) -> list[object]:
    return [meaning.value for meaning in config(text).meaning(name)]


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        (TT + "log_every_n_steps: 1\n", "logging_period", 1),
        ("monitor:\n  training_log_freq: 1\n", "logging_period", 1),
        ("all_freq:\n  training_log_freq: 1\n  flops_profile_freq: 7\n", "flops_period", 7),
        (OWN + "  profile_freq: 10\n", "profile_period", 10),
        (HF + "eval_strategy: steps\neval_steps: 5\n", "evaluation_period", 5),
        (PL + "  val_check_interval: 100\n", "evaluation_period", 100),
        (PL + "  callbacks:\n  - class_path: ModelCheckpoint\n    init_args:\n      every_n_train_steps: 9\n",
         "save_period", 9),
        (OWN + "  max_steps: 5000\n  eval_interval: 100\n", "evaluation_period", 100),
        (OWN, "loader_workers", 4),
        (HF + "dataloader_pin_memory: no\n", "pin_memory", False),
        (DS + "train_micro_batch_size_per_gpu: 4\n", "micro_batch", 4),
        (HF + "learning_rate: 5e-5\n", "learning_rate", 5e-5),
        (DS + "optimizer:\n  type: AdamW\n  params:\n    lr: 3e-4\n", "learning_rate", 3e-4),
        (PL + "  precision: bf16-mixed\n", "bf16", True),
        (TT + "dtype: bf16\n", "bf16", True),
        (LF + "lora_target: q_proj, v_proj\n", "lora_targets", ("q_proj", "v_proj")),
        ("lora:\n  r: 8\n  lora_alpha: 16\n  target_modules: [q, v]\n", "lora_targets", ("q", "v")),
        (LF + "quantization_bit: 4\n", "quantisation_bits", 4),
        (LF + "disable_gradient_checkpointing: true\n", "gradient_checkpointing", False),
        (LF + "num_train_epochs: 3.0\n", "epochs", 3),
        (PL + "  devices: [0, 1]\n", "processes", 2),
    ],
)  # fmt: skip
def test_one_meaning_over_kinds(text: str, name: str, value: object) -> None:
    [meaning] = config(text).meaning(name)
    assert meaning.value == value
    assert meaning.setting.line == meaning.entry.line
    assert text.split("\n")[meaning.entry.line - 1].strip(" -").replace('"', "").startswith(meaning.entry.last)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (HF + "logging_strategy: epoch\nlogging_steps: 1\n", "logging_period"),
        (HF + "eval_strategy: epoch\neval_steps: 1\n", "evaluation_period"),
        (HF + "logging_steps: 0.1\n", "logging_period"),
        (DS + "train_micro_batch_size_per_gpu: auto\n", "micro_batch"),
        (PL + "  val_check_interval: 1.0\n", "evaluation_period"),
        (PL + "  max_steps: -1\n", "max_steps"),
        (OWN + "  save_freq: 1\n  epochs: 10\n", "save_period"),
        (OWN + "profiler:\n  enabled: false\n  profile_freq: 1\n", "profile_period"),
        (OWN + "monitor:\n  enabled: false\n  logging:\n    log_freq: 1\n", "logging_period"),
        ("logging_steps: 1\n", "logging_period"),
    ],
)
def test_what_has_no_effect_says_nothing(text: str, name: str) -> None:
    assert _said(text, name) == []


def test_over_files() -> None:
    both = configs(HF + "logging_steps: 1\n", DS + "steps_per_print: 5\n")
    assert [(said.value, said.file.path) for said in both.canonical("logging_period")] == [
        (1, "config.yaml"),
        (5, "config-2.yaml"),
    ]
    assert both.trains
    assert both.canonical("no_such_name") == ()
