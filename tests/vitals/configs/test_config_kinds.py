from pathlib import Path

import pytest
from configs import config

from gpudoctor.model.signs.configs import ConfigKind
from gpudoctor.vitals.configs.reading import looks_like_config, looks_like_job

KNOWN = {
    ConfigKind.HUGGINGFACE: [
        "output_dir: out\nper_device_train_batch_size: 8\nnum_train_epochs: 3\nlogging_steps: 10\n",
        "model_name_or_path: a/b\nbf16: true\nlearning_rate: 2e-5\nmax_steps: 100\nlogging_steps: 5\nseed: 1\n",
    ],
    ConfigKind.DEEPSPEED: [
        "train_micro_batch_size_per_gpu: auto\nzero_optimization:\n  stage: 2\n",
        "fp16:\n  enabled: true\nbf16:\n  enabled: false\n",
    ],
    ConfigKind.ACCELERATE: [
        "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 4\nmixed_precision: bf16\n",
        "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\nnum_processes: 8\n",
    ],
    ConfigKind.FSDP: [
        "fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\nfsdp_backward_prefetch: BACKWARD_PRE\n",
        "transformer_layer_cls_to_wrap: [Block]\nbackward_prefetch: backward_pre\nactivation_checkpointing: true\n",
    ],
    ConfigKind.LLAMA_FACTORY: [
        "model_name_or_path: a\nstage: sft\nfinetuning_type: lora\ntemplate: llama3\nlogging_steps: 10\n",
        "model_name_or_path: a\nstage: pt\ndo_train: true\ncutoff_len: 1\nper_device_train_batch_size: 1\n",
        "model_name_or_path: a\ntemplate: llama3\ninfer_backend: vllm\n",
    ],
    ConfigKind.AXOLOTL: [
        "base_model: a/b\nadapter: lora\nmicro_batch_size: 2\ndatasets:\n  - path: x\n    type: alpaca\n",
        "base_model: a/b\nsequence_len: 4096\ngradient_accumulation_steps: 4\nnum_epochs: 1\noptimizer: adamw\n",
    ],
    ConfigKind.TORCHTUNE: [
        "model:\n  _component_: torchtune.models.llama3.lora_llama3_8b\nbatch_size: 2\nlog_every_n_steps: 1\n"
    ],
    ConfigKind.LIGHTNING: [
        "trainer:\n  max_epochs: 3\n  accelerator: gpu\n  devices: 2\ndata:\n  batch_size: 3\n",
        "seed_everything: 1\ntrainer:\n  max_epochs: 3\nmodel:\n  class_path: a.B\n",
    ],
    ConfigKind.PEFT: [
        "peft_type: LORA\nr: 8\nbase_model_name_or_path: x\n",
        "r: 8\nlora_alpha: 16\ntarget_modules: [q_proj]\n",
    ],
    ConfigKind.QUANTISATION: ["load_in_4bit: true\nbnb_4bit_quant_type: nf4\n"],
    ConfigKind.MODEL: ["architectures: [LlamaForCausalLM]\nmodel_type: llama\nhidden_size: 4096\nvocab_size: 3\n"],
    ConfigKind.SECTIONS: [
        "training:\n  batch_size: 8\n  lr: 1e-4\n  epochs: 3\nmodel:\n  name: x\n",
        "all_freq:\n  training_log_freq: 1\n  flops_profile_freq: 1\n",
        "data:\n  dataloader_num_workers: 0\nmodel:\n  name: 小模型\n",
        "lr: 0.1\nbatch_size: 128\nepochs: 90\n",
        "lora:\n  r: 8\n  lora_alpha: 16\n",
        "defaults:\n  batch_size: 8\nlr: 1e-4\nepochs: 3\nwarmup_steps: 2\n",
        "SOLVER:\n  BASE_LR: 0.1\n  BATCH_SIZE: 3\n  MAX_EPOCHS: 5\n",
        "trainer:\n  logger: [console]\n  total_epochs: 3\n  save_freq: 5\n  profiler: x\ndata:\n  class_path: a\n"
        "  batch_size: 2\n",
    ],
    ConfigKind.KUBERNETES: ["apiVersion: batch/v1\nkind: Job\nspec:\n  template: {}\n"],
    ConfigKind.UNKNOWN: [
        "a: 1\n",
        "[]\n",
        "",
        "name: CI\non: push\njobs:\n  train:\n    steps: []\n    env:\n      LR: 1\n      EPOCHS: 2\n      BATCH_SIZE: 3\n",
        "services:\n  train:\n    image: x\n    environment:\n      batch_size: 1\n      lr: 3\n      epochs: 4\n",
        "log_history:\n  - loss: 1\nglobal_step: 5\nlogging_steps: 1\nsave_steps: 1\nnum_train_epochs: 3\n"
        "max_steps: 1\ntrain_batch_size: 4\n",
        "site_name: docs\nnav:\n  - Training: train.md\nplugins: [search]\n",
        "model_name: x\nresults:\n  lr: 0.1\n  accuracy: 0.9\n",
        "trainer:\n  _target_: lightning.pytorch.trainer.Trainer\n  max_epochs: 3\n",
        "_target_: lightning.pytorch.trainer.Trainer\nmax_epochs: 3\nlog_every_n_steps: 1\n",
        "defaults:\n  - model: gpt\ntrain:\n  lr: 0.1\n  batch_size: 3\n  epochs: 3\n",
        "defaults: [base]\nper_device_train_batch_size: 1\nnum_train_epochs: 3\nlogging_steps: 1\n",
    ],
}


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in KNOWN.items() for text in texts], ids=lambda x: str(x)[:30]
)
def test_kinds_are_told_by_content(kind: ConfigKind, text: str, tmp_path: Path) -> None:
    assert config(text).kind is kind
    path = tmp_path / "some.yaml"
    path.write_text(text)
    if kind.trains and "infer_backend" not in text:
        assert looks_like_config(path) is kind
    elif not kind.trains:
        assert looks_like_config(path) is None


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("apiVersion: batch/v1\nkind: Job\n", True),
        ("apiVersion: v1\nkind: ConfigMap\n---\napiVersion: kubeflow.org/v1\nkind: PyTorchJob\n", True),
        ("apiVersion: v1\nkind: Service\n", False),
        ("# helm\n{{- if .Values.x }}\napiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .x }}\n{{- end }}\n", True),
        ("services:\n  train:\n    image: x\n    command: python t.py\n", True),
        ("resources:\n  accelerators: A100:8\nnum_nodes: 2\nrun: |\n  python t.py\n", True),
        ("spec:\n  apiVersion: v1\n  kind: Job\n", False),
    ],
)
def test_kubernetes_jobs(text: str, runs: bool, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    assert looks_like_job(path) is runs
    assert not looks_like_job(tmp_path / "missing.yaml")
