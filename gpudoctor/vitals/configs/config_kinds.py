"""Whose config a file is, told from its keys: a name or a suffix proves nothing.

Every rule asks for keys that only that tool has, or for several of those that it shares with others. What no
rule takes is `UNKNOWN`, so a package.json, a compiler's settings or a data file is never judged as training.
"""

import re
from collections.abc import Callable, Collection
from typing import Final

from gpudoctor.model.signs.configs import ConfigKind
from gpudoctor.vitals.configs.config_text import words
from gpudoctor.vitals.configs.tree import Flat

HF_KEYS: Final = words(
    """per_device_train_batch_size per_device_eval_batch_size per_gpu_train_batch_size num_train_epochs
    gradient_accumulation_steps logging_steps save_steps eval_steps save_total_limit save_strategy
    evaluation_strategy eval_strategy logging_strategy lr_scheduler_type warmup_ratio warmup_steps
    gradient_checkpointing gradient_checkpointing_kwargs dataloader_num_workers dataloader_pin_memory
    output_dir overwrite_output_dir learning_rate weight_decay max_steps max_grad_norm report_to
    remove_unused_columns load_best_model_at_end metric_for_best_model push_to_hub optim
    ddp_find_unused_parameters group_by_length torch_compile auto_find_batch_size model_name_or_path
    attn_implementation fp16 bf16 tf32 seed max_seq_length"""
)
HF_STRONG: Final = words(
    """per_device_train_batch_size per_gpu_train_batch_size num_train_epochs save_total_limit
    evaluation_strategy eval_strategy save_strategy dataloader_num_workers lr_scheduler_type warmup_ratio
    gradient_checkpointing_kwargs load_best_model_at_end remove_unused_columns auto_find_batch_size
    ddp_find_unused_parameters per_device_eval_batch_size dataloader_pin_memory logging_strategy"""
)
_DEEPSPEED_STRONG: Final = words(
    """zero_optimization train_micro_batch_size_per_gpu zero_allow_untested_optimizer wall_clock_breakdown
    steps_per_print zero_force_ds_cpu_optimizer"""
)
_DEEPSPEED_WEAK: Final = words(
    """train_batch_size gradient_accumulation_steps gradient_clipping fp16 bf16 optimizer scheduler
    activation_checkpointing flops_profiler comms_logger aio prescale_gradients communication_data_type
    fp32_allreduce sparse_gradients tensorboard wandb csv_monitor amp zero_optimization"""
)
_ACCELERATE: Final = words(
    """compute_environment distributed_type num_processes num_machines machine_rank mixed_precision
    main_training_function main_process_port main_process_ip rdzv_backend same_network downcast_bf16
    gpu_ids use_cpu tpu_env fsdp_config deepspeed_config enable_cpu_affinity"""
)
_FSDP: Final = words(
    """fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap fsdp_backward_prefetch
    fsdp_backward_prefetch_policy fsdp_forward_prefetch fsdp_min_num_params fsdp_sharding_strategy
    fsdp_state_dict_type fsdp_offload_params fsdp_use_orig_params fsdp_sync_module_states
    fsdp_cpu_ram_efficient_loading fsdp_activation_checkpointing transformer_layer_cls_to_wrap
    backward_prefetch forward_prefetch limit_all_gathers xla_fsdp_v2 sync_module_states
    cpu_ram_efficient_loading activation_checkpointing use_orig_params min_num_params
    reshard_after_forward state_dict_type auto_wrap_policy"""
)
_LLAMA_FACTORY: Final = words(
    """finetuning_type template cutoff_len dataset_dir do_train stage lora_target preprocessing_num_workers
    overwrite_cache infer_backend export_dir adapter_name_or_path max_samples plot_loss
    freeze_trainable_layers pure_bf16 flash_attn quantization_bit pref_beta"""
)
_AXOLOTL: Final = words(
    """micro_batch_size sequence_len sample_packing adapter lora_r lora_target_linear lora_target_modules
    val_set_size dataset_prepared_path datasets num_epochs pad_to_sequence_len flash_attention
    evals_per_epoch saves_per_epoch wandb_project train_on_inputs base_model_config chat_template rl
    special_tokens model_type tokenizer_type load_in_4bit load_in_8bit"""
)
_TRAINER: Final = words(
    """max_epochs min_epochs accelerator devices precision log_every_n_steps val_check_interval
    check_val_every_n_epoch accumulate_grad_batches gradient_clip_val num_nodes strategy
    num_sanity_val_steps limit_train_batches limit_val_batches fast_dev_run enable_checkpointing
    enable_progress_bar callbacks logger default_root_dir deterministic benchmark sync_batchnorm
    max_steps profiler detect_anomaly use_distributed_sampler gpus"""
)
_TRAINER_OWN: Final = words(
    """max_epochs accelerator devices log_every_n_steps val_check_interval check_val_every_n_epoch
    accumulate_grad_batches gradient_clip_val limit_train_batches limit_val_batches fast_dev_run
    num_sanity_val_steps"""
)
"""Words of Lightning's Trainer that other tools' `trainer` sections seldom use."""
_PEFT: Final = words("r lora_alpha lora_dropout target_modules bias task_type modules_to_save use_rslora")
_QUANTISATION: Final = words(
    """load_in_4bit load_in_8bit bnb_4bit_quant_type bnb_4bit_compute_dtype bnb_4bit_use_double_quant
    bnb_4bit_quant_storage llm_int8_threshold llm_int8_skip_modules quant_method"""
)
_SECTION: Final = re.compile(
    r"(train|data|loader|monitor|log|lora|peft|optim|solver|sched|model|eval|valid|checkpoint|profil|freq|memory"
    r"|hardware|system|runtime|accel|distributed|precision|trainer|run|exp|hparam|hyper|param|config|quant)"
)
_OWN_STRONG: Final = re.compile(
    r"(flops_profile(r)?_freq|profile_freq|training_log_freq|log_freq|logging_freq|log_interval|log_every(_n)?(_steps)?"
    r"|(data_?loader_)?num_workers|dataloader_pin_memory|pin_memory|gradient_checkpointing|grad_accum(ulation)?(_steps)?"
    r"|gradient_accumulation(_steps)?|micro_batch_size|per_device_train_batch_size|batch_size|train_batch_size"
    r"|learning_rate|lr|base_lr|num_train_epochs|num_epochs|epochs|max_epochs|total_epochs|n_epochs|max_steps|max_iters"
    r"|train_iters|total_steps|num_train_steps|warmup_steps|warmup_ratio|warmup_epochs|weight_decay|grad_clip"
    r"|max_grad_norm|amp|use_amp|mixed_precision|fp16|bf16|save_freq|save_interval|save_every|save_steps|eval_freq"
    r"|eval_interval|eval_every|eval_steps|val_interval|ckpt_interval|checkpoint_interval|persistent_workers"
    r"|prefetch_factor|lora_alpha|lora_r|lora_rank|lora_dropout|optimizer|optimizer_name|lr_scheduler)\Z"
)
_FOREIGN: Final = words(
    """build-system tool package dependencies devDependencies compilerOptions scripts services jobs openapi
    swagger $schema lockfileVersion workspace repos paths log_history model_type architectures nbformat"""
)


def recognise(flat: Flat) -> ConfigKind:
    """The kind of a config, by its keys."""
    top = _top(flat)
    if {"apiVersion", "kind"} <= top:
        return ConfigKind.KUBERNETES
    if "log_history" in top or "nbformat" in top:
        return ConfigKind.UNKNOWN  # a Trainer's own state, a notebook: what was, no settings
    if composed(flat):
        return ConfigKind.UNKNOWN  # what other files and the command line make of it, only Hydra knows
    for kind, matches in _RULES:
        if matches(flat, top):
            return kind
    return ConfigKind.UNKNOWN


def composed(flat: Flat) -> bool:
    """Whether Hydra puts the file together with others, or builds objects from it."""
    return any(
        entry.last == "_target_"
        or entry.key.startswith("defaults[")
        or (entry.key == "defaults" and isinstance(entry.value, tuple))
        for entry in flat.entries.values()
    )


def _top(flat: Flat) -> set[str]:
    """Names at the top level; a list's name without its index."""
    names = {key for key in flat.sections if "." not in key and "[" not in key}
    return names | {entry.parts[0] for entry in flat.entries.values() if len(entry.parts) == 1}


def _many(names: Collection[str], wanted: frozenset[str], least: int) -> bool:
    return len(wanted.intersection(names)) >= least


def _torchtune(flat: Flat, top: set[str]) -> bool:
    return any(entry.last == "_component_" for entry in flat.entries.values()) and not top & _FOREIGN


def _lightning(flat: Flat, top: set[str]) -> bool:
    classes = any(f"{part}.class_path" in flat.entries for part in ("model", "data", "optimizer"))
    for prefix in ("trainer", "fit.trainer", "pl_trainer", "lightning.trainer"):
        target = flat.entries.get(f"{prefix}.class_path")
        if target is not None and "lightning" in str(target.value):
            return True
        inside = {key[len(prefix) + 1 :].split(".")[0] for key in flat.entries if key.startswith(prefix + ".")}
        if _many(inside, _TRAINER, 1 if classes or "seed_everything" in top else 3) and inside & _TRAINER_OWN:
            return True
    return False


def _accelerate(_: Flat, top: set[str]) -> bool:
    return bool({"compute_environment", "distributed_type"} & top) and _many(top, _ACCELERATE, 2)


def _llama_factory(flat: Flat, top: set[str]) -> bool:
    stage = flat.entries.get("stage")
    staged = stage is not None and stage.value in {"pt", "sft", "rm", "ppo", "dpo", "kto"}
    named = bool({"model_name_or_path", "adapter_name_or_path"} & top)
    return "base_model" not in top and (
        ("finetuning_type" in top and (named or _many(top, _LLAMA_FACTORY, 2)))
        or (staged and _many(top, _LLAMA_FACTORY, 3))
        or (named and "template" in top and _many(top, _LLAMA_FACTORY, 2))
    )


def _axolotl(_: Flat, top: set[str]) -> bool:
    return "base_model" in top and _many(top, _AXOLOTL, 2)


def _deepspeed(flat: Flat, top: set[str]) -> bool:
    if top & (HF_STRONG | {"base_model"}):
        return False
    strong, weak = len(top & _DEEPSPEED_STRONG), len(top & _DEEPSPEED_WEAK)
    enabled = any(key in flat.entries for key in ("fp16.enabled", "bf16.enabled", "flops_profiler.enabled"))
    staged = "zero_optimization.stage" in flat.entries
    only = top <= _DEEPSPEED_STRONG | _DEEPSPEED_WEAK
    several = (strong >= 1 and strong + weak >= 2) or (enabled and (weak >= 2 or only))
    return staged or several or "steps_per_print" in top


def _huggingface(_: Flat, top: set[str]) -> bool:
    return (_many(top, HF_STRONG, 1) and _many(top, HF_KEYS, 3)) or _many(top, HF_KEYS, 5)


def _fsdp(_: Flat, top: set[str]) -> bool:
    return _many(top, _FSDP, 2) and len(top - _FSDP) <= 4


def _peft(_: Flat, top: set[str]) -> bool:
    return "peft_type" in top or ({"lora_alpha", "target_modules"} <= top and _many(top, _PEFT, 3))


def _quantisation(_: Flat, top: set[str]) -> bool:
    return _many(top, _QUANTISATION, 1) and len(top - _QUANTISATION) <= 4


def _model(_: Flat, top: set[str]) -> bool:
    shape = words("hidden_size num_hidden_layers num_attention_heads vocab_size n_layer n_embd d_model")
    return "model_type" in top and (bool({"architectures", "transformers_version"} & top) or _many(top, shape, 3))


def _sections(flat: Flat, top: set[str]) -> bool:
    """Somebody's own config: at least three settings of training, at the top or in sections named for it."""
    if top & _FOREIGN:
        return False
    found: set[str] = set()
    for entry in flat.entries.values():
        *outer, name = [part.lower().replace("-", "_") for part in entry.parts]
        if len(outer) > 4:
            continue
        if _TELLING.match(name):
            return True
        if _OWN_STRONG.match(name) and (not outer or any(_SECTION.search(part) for part in outer)):
            found.add(name)
    return len(found) >= 3


_TELLING: Final = re.compile(
    r"(flops_profile(r)?_freq|training_log_freq|dataloader_num_workers|gradient_checkpointing|grad_accum.*"
    r"|gradient_accumulation.*|per_device_train_batch_size|lora_alpha|num_train_epochs|dataloader_pin_memory)\Z"
)

_RULES: Final[tuple[tuple[ConfigKind, Callable[[Flat, set[str]], bool]], ...]] = (
    (ConfigKind.TORCHTUNE, _torchtune),
    (ConfigKind.LIGHTNING, _lightning),
    (ConfigKind.ACCELERATE, _accelerate),
    (ConfigKind.LLAMA_FACTORY, _llama_factory),
    (ConfigKind.AXOLOTL, _axolotl),
    (ConfigKind.DEEPSPEED, _deepspeed),
    (ConfigKind.HUGGINGFACE, _huggingface),
    (ConfigKind.PEFT, _peft),
    (ConfigKind.MODEL, _model),
    (ConfigKind.QUANTISATION, _quantisation),
    (ConfigKind.FSDP, _fsdp),
    (ConfigKind.SECTIONS, _sections),
)
"""Most telling first."""
