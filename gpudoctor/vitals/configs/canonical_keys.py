"""The table of canonical names: which key of which tool means what, in which unit.

A row is `key  name  unit  reading`; the reading is a function of `canonical.READINGS`. Only keys whose meaning
is the same stand under one name. Sources: the argument classes and config references of transformers,
DeepSpeed, accelerate, LLaMA-Factory, axolotl, torchtune, Lightning, PEFT and bitsandbytes.
"""

from functools import cache
from typing import Final, NamedTuple

from gpudoctor.model.signs.configs import ConfigKind


class KeyMeaning(NamedTuple):
    """What one key means."""

    name: str
    unit: str
    reading: str


_HUGGINGFACE: Final = """
logging_steps                   logging_period          step      period
eval_steps                      evaluation_period       step      period
save_steps                      save_period             step      period
save_total_limit                save_total_limit        {file}    count
dataloader_num_workers          loader_workers          {worker}  count
dataloader_pin_memory           pin_memory              -         switch
dataloader_persistent_workers   persistent_workers      -         switch
dataloader_prefetch_factor      prefetch_factor         {batch}   count
preprocessing_num_workers       preprocessing_workers   {worker}  count
dataset_num_proc                preprocessing_workers   {worker}  count
gradient_accumulation_steps     gradient_accumulation   {batch}   count
per_device_train_batch_size     micro_batch             {sample}  count
per_gpu_train_batch_size        micro_batch             {sample}  count
per_device_eval_batch_size      evaluation_batch        {sample}  count
num_train_epochs                epochs                  {epoch}   number
max_steps                       max_steps               step      period
learning_rate                   learning_rate           1         number
weight_decay                    weight_decay            1         number
lr_scheduler_type               scheduler               -         word
warmup_steps                    warmup_steps            step      count
optim                           optimizer               -         word
max_grad_norm                   max_grad_norm           1         number
fp16                            fp16                    -         switch
bf16                            bf16                    -         switch
tf32                            tf32                    -         switch
torch_compile                   compile                 -         switch
gradient_checkpointing          gradient_checkpointing  -         switch
attn_implementation             attention               -         word
max_seq_length                  sequence_length         {token}   count
max_length                      sequence_length         {token}   count
packing                         packing                 -         switch
model_name_or_path              model                   -         word
torch_dtype                     model_dtype             -         word
dtype                           model_dtype             -         word
output_dir                      output_dir              -         word
deepspeed                       deepspeed_config        -         word
seed                            seed                    1         number
load_in_4bit                    quantisation_bits       bit       four
load_in_8bit                    quantisation_bits       bit       eight
bnb_4bit_compute_dtype          quantisation_dtype      -         word
use_cache                       use_cache               -         switch
lora_r                          lora_r                  1         count
lora_alpha                      lora_alpha              1         number
lora_dropout                    lora_dropout            1         number
lora_target_modules             lora_targets            -         names
use_peft                        lora                    -         switch
"""

_LLAMA_FACTORY: Final = """
quantization_bit                quantisation_bits       bit       count
finetuning_type                 method                  -         word
lora_rank                       lora_r                  1         count
lora_target                     lora_targets            -         names
cutoff_len                      sequence_length         {token}   count
flash_attn                      attention               -         word
pure_bf16                       bf16                    -         switch
disable_gradient_checkpointing  gradient_checkpointing  -         unless
"""

_AXOLOTL: Final = """
base_model                      model                   -         word
micro_batch_size                micro_batch             {sample}  count
num_epochs                      epochs                  {epoch}   number
sequence_len                    sequence_length         {token}   count
sample_packing                  packing                 -         switch
adapter                         method                  -         word
lora_target_modules             lora_targets            -         names
optimizer                       optimizer               -         word
lr_scheduler                    scheduler               -         word
dataset_processes               preprocessing_workers   {worker}  count
flash_attention                 flash_attention         -         switch
sdp_attention                   sdp_attention           -         switch
eager_attention                 eager_attention         -         switch
evals_per_epoch                 evaluations_per_epoch   1         number
saves_per_epoch                 saves_per_epoch         1         number
gradient_clipping               max_grad_norm           1         number
"""

_DEEPSPEED: Final = """
train_micro_batch_size_per_gpu  micro_batch             {sample}  count
train_batch_size                global_batch            {sample}  count
gradient_accumulation_steps     gradient_accumulation   {batch}   count
gradient_clipping               max_grad_norm           1         number
steps_per_print                 logging_period          step      period
fp16.enabled                    fp16                    -         switch
bf16.enabled                    bf16                    -         switch
bfloat16.enabled                bf16                    -         switch
amp.enabled                     amp                     -         switch
zero_optimization.stage         zero_stage              1         number
zero_optimization.offload_optimizer.device  offload_optimizer  -  word
zero_optimization.offload_param.device      offload_param      -  word
optimizer.type                  optimizer               -         word
optimizer.params.lr             learning_rate           1         number
optimizer.params.weight_decay   weight_decay            1         number
scheduler.type                  scheduler               -         word
wall_clock_breakdown            wall_clock_breakdown    -         switch
flops_profiler.enabled          flops_profiler          -         switch
flops_profiler.profile_step     flops_profile_step      step      count
comms_logger.enabled            comms_logger            -         switch
"""

_ACCELERATE: Final = """
mixed_precision                 precision               -         precision
num_processes                   processes               {process} count
num_machines                    nodes                   {node}    count
gradient_accumulation_steps     gradient_accumulation   {batch}   count
deepspeed_config.zero_stage     zero_stage              1         number
deepspeed_config.gradient_accumulation_steps  gradient_accumulation  {batch}  count
deepspeed_config.offload_optimizer_device     offload_optimizer      -  word
deepspeed_config.offload_param_device         offload_param          -  word
deepspeed_config.deepspeed_config_file        deepspeed_config       -  word
deepspeed_config.gradient_clipping            max_grad_norm          1  number
fsdp_config.fsdp_activation_checkpointing     gradient_checkpointing -  switch
fsdp_config.fsdp_offload_params               offload_param          -  word
distributed_type                distributed             -         word
"""

_FSDP: Final = """
fsdp_activation_checkpointing   gradient_checkpointing  -         switch
activation_checkpointing        gradient_checkpointing  -         switch
"""

_TORCHTUNE: Final = """
log_every_n_steps               logging_period          step      period
batch_size                      micro_batch             {sample}  count
gradient_accumulation_steps     gradient_accumulation   {batch}   count
epochs                          epochs                  {epoch}   number
max_steps_per_epoch             max_steps_per_epoch     step      period
optimizer._component_           optimizer               -         word
optimizer.lr                    learning_rate           1         number
optimizer.weight_decay          weight_decay            1         number
lr_scheduler.num_warmup_steps   warmup_steps            step      count
clip_grad_norm                  max_grad_norm           1         number
dtype                           precision               -         precision
enable_activation_checkpointing gradient_checkpointing  -         switch
compile                         compile                 -         switch
tokenizer.max_seq_len           sequence_length         {token}   count
dataset.packed                  packing                 -         switch
model._component_               model                   -         word
model.lora_rank                 lora_r                  1         count
model.lora_alpha                lora_alpha              1         number
model.lora_attn_modules         lora_targets            -         names
output_dir                      output_dir              -         word
profiler.enabled                profiler                -         switch
save_every_n_steps              save_period             step      period
run_val_every_n_steps           evaluation_period       step      period
seed                            seed                    1         number
"""

_LIGHTNING: Final = """
log_every_n_steps               logging_period          step      period
val_check_interval              evaluation_period       step      whole_period
check_val_every_n_epoch         evaluation_epochs       {epoch}   period
accumulate_grad_batches         gradient_accumulation   {batch}   count
max_epochs                      epochs                  {epoch}   positive
trainer.max_steps               max_steps               step      period
trainer.precision               precision               -         precision
gradient_clip_val               max_grad_norm           1         number
trainer.profiler                profiler                -         word
trainer.profiler.class_path     profiler                -         word
fast_dev_run                    smoke_run               -         switch
trainer.detect_anomaly          anomaly                 -         switch
trainer.num_nodes               nodes                   {node}    count
trainer.devices                 processes               {process} devices
trainer.strategy                strategy                -         word
every_n_train_steps             save_period             step      period
num_workers                     loader_workers          {worker}  count
pin_memory                      pin_memory              -         switch
persistent_workers              persistent_workers      -         switch
prefetch_factor                 prefetch_factor         {batch}   count
batch_size                      micro_batch             {sample}  count
seed_everything                 seed                    1         number
optimizer.init_args.lr          learning_rate           1         number
optimizer.lr                    learning_rate           1         number
init_args.learning_rate         learning_rate           1         number
optimizer.class_path            optimizer               -         word
"""

_PEFT: Final = """
r                               lora_r                  1         count
lora_alpha                      lora_alpha              1         number
lora_dropout                    lora_dropout            1         number
target_modules                  lora_targets            -         names
base_model_name_or_path         model                   -         word
"""

_QUANTISATION: Final = """
load_in_4bit                    quantisation_bits       bit       four
load_in_8bit                    quantisation_bits       bit       eight
bits                            quantisation_bits       bit       count
bnb_4bit_compute_dtype          quantisation_dtype      -         word
bnb_4bit_quant_type             quantisation_type       -         word
"""

_SECTIONS: Final = """
training_log_freq               logging_period          step      period
train_log_freq                  logging_period          step      period
log_every_n_steps               logging_period          step      period
log_every_steps                 logging_period          step      period
log_steps                       logging_period          step      period
log_interval_steps              logging_period          step      period
logging_interval_steps          logging_period          step      period
log_interval                    logging_period          step      often
logging_interval                logging_period          step      often
log_freq                        logging_period          step      often
logging_freq                    logging_period          step      often
log_frequency                   logging_period          step      often
logging_frequency               logging_period          step      often
log_every                       logging_period          step      often
print_freq                      logging_period          step      often
print_every                     logging_period          step      often
print_interval                  logging_period          step      often
wandb_log_interval              logging_period          step      often
wandb_log_freq                  logging_period          step      often
tensorboard_log_freq            logging_period          step      often
tensorboard_log_interval        logging_period          step      often
logging.every_n_steps           logging_period          step      period
logging.freq                    logging_period          step      often
logging.interval                logging_period          step      often
logging.steps                   logging_period          step      period
flops_profile_freq              flops_period            step      period
flops_profiler_freq             flops_period            step      period
flops_profile_interval          flops_period            step      period
flops_profile_every             flops_period            step      period
flops_profile_steps             flops_period            step      period
flops_freq                      flops_period            step      period
flops_interval                  flops_period            step      period
profile_freq                    profile_period          step      often
profile_frequency               profile_period          step      often
profile_interval                profile_period          step      often
profile_every                   profile_period          step      often
profile_every_n_steps           profile_period          step      period
profiler_freq                   profile_period          step      often
profiler_interval               profile_period          step      often
profiling_freq                  profile_period          step      often
profiling_interval              profile_period          step      often
torch_profile_freq              profile_period          step      often
torch_profiler_freq             profile_period          step      often
profiler.freq                   profile_period          step      often
profiler.interval               profile_period          step      often
profiler.every_n_steps          profile_period          step      period
watch_freq                      watch_period            step      often
watch_log_freq                  watch_period            step      often
wandb_watch_freq                watch_period            step      often
histogram_freq                  watch_period            step      sure
histogram_interval              watch_period            step      sure
eval_every_n_steps              evaluation_period       step      period
eval_every_steps                evaluation_period       step      period
eval_interval_steps             evaluation_period       step      period
val_every_n_steps               evaluation_period       step      period
val_steps_interval              evaluation_period       step      period
eval_freq                       evaluation_period       step      sure
eval_frequency                  evaluation_period       step      sure
eval_interval                   evaluation_period       step      sure
eval_every                      evaluation_period       step      sure
evaluation_freq                 evaluation_period       step      sure
val_freq                        evaluation_period       step      sure
val_interval                    evaluation_period       step      sure
val_every                       evaluation_period       step      sure
validation_freq                 evaluation_period       step      sure
validation_interval             evaluation_period       step      sure
save_every_n_steps              save_period             step      period
save_every_steps                save_period             step      period
save_interval_steps             save_period             step      period
checkpoint_every_n_steps        save_period             step      period
checkpoint_steps                save_period             step      period
checkpointing_steps             save_period             step      period
ckpt_steps                      save_period             step      period
save_freq                       save_period             step      sure
save_frequency                  save_period             step      sure
save_interval                   save_period             step      sure
save_every                      save_period             step      sure
checkpoint_freq                 save_period             step      sure
checkpoint_interval             save_period             step      sure
checkpoint_every                save_period             step      sure
ckpt_interval                   save_period             step      sure
ckpt_freq                       save_period             step      sure
num_workers                     loader_workers          {worker}  count
n_workers                       loader_workers          {worker}  count
loader_workers                  loader_workers          {worker}  count
data_loader_num_workers         loader_workers          {worker}  count
dataloader_workers              loader_workers          {worker}  count
pin_memory                      pin_memory              -         switch
pin_mem                         pin_memory              -         switch
persistent_workers              persistent_workers      -         switch
prefetch_factor                 prefetch_factor         {batch}   count
grad_accum                      gradient_accumulation   {batch}   count
grad_accum_steps                gradient_accumulation   {batch}   count
grad_accumulation               gradient_accumulation   {batch}   count
grad_accumulation_steps         gradient_accumulation   {batch}   count
gradient_accumulation           gradient_accumulation   {batch}   count
accumulation_steps              gradient_accumulation   {batch}   count
accumulate_grad_batches         gradient_accumulation   {batch}   count
micro_batch_size                micro_batch             {sample}  count
batch_size_per_gpu              micro_batch             {sample}  count
batch_size                      batch                   {sample}  count
train_batch_size                batch                   {sample}  count
global_batch_size               global_batch            {sample}  count
epochs                          epochs                  {epoch}   positive
num_epochs                      epochs                  {epoch}   positive
n_epochs                        epochs                  {epoch}   positive
max_epochs                      epochs                  {epoch}   positive
total_epochs                    epochs                  {epoch}   positive
max_iters                       max_steps               step      period
train_iters                     max_steps               step      period
total_iters                     max_steps               step      period
num_iterations                  max_steps               step      period
total_steps                     max_steps               step      period
train_steps                     max_steps               step      period
num_steps                       max_steps               step      period
num_train_steps                 max_steps               step      period
num_training_steps              max_steps               step      period
lr                              learning_rate           1         number
base_lr                         learning_rate           1         number
optimizer.type                  optimizer               -         word
optimizer.name                  optimizer               -         word
optimizer                       optimizer               -         word
optimizer_name                  optimizer               -         word
optimizer_type                  optimizer               -         word
scheduler                       scheduler               -         word
lr_scheduler                    scheduler               -         word
grad_clip                       max_grad_norm           1         number
gradient_clipping               max_grad_norm           1         number
amp                             amp                     -         switch
use_amp                         amp                     -         switch
amp.enabled                     amp                     -         switch
fp16.enabled                    fp16                    -         switch
bf16.enabled                    bf16                    -         switch
mixed_precision                 precision               -         precision
precision                       precision               -         precision
amp_dtype                       precision               -         precision
use_gradient_checkpointing      gradient_checkpointing  -         switch
gradient_checkpointing.enabled  gradient_checkpointing  -         switch
activation_checkpointing        gradient_checkpointing  -         switch
grad_checkpoint                 gradient_checkpointing  -         switch
grad_checkpointing              gradient_checkpointing  -         switch
use_flash_attention             flash_attention         -         switch
flash_attention                 flash_attention         -         switch
max_seq_len                     sequence_length         {token}   count
seq_len                         sequence_length         {token}   count
seq_length                      sequence_length         {token}   count
lora.enabled                    lora                    -         switch
use_lora                        lora                    -         switch
lora.r                          lora_r                  1         count
lora.rank                       lora_r                  1         count
lora_rank                       lora_r                  1         count
lora.alpha                      lora_alpha              1         number
lora.dropout                    lora_dropout            1         number
lora.target_modules             lora_targets            -         names
lora.targets                    lora_targets            -         names
target_modules                  lora_targets            -         names
peft.r                          lora_r                  1         count
peft.target_modules             lora_targets            -         names
quantization.bits               quantisation_bits       bit       count
quantization_bits               quantisation_bits       bit       count
compile                         compile                 -         switch
use_compile                     compile                 -         switch
detect_anomaly                  anomaly                 -         switch
zero_stage                      zero_stage              1         number
keep_last_n                     save_total_limit        {file}    count
max_checkpoints                 save_total_limit        {file}    count
"""

_TABLES: Final[dict[ConfigKind, tuple[str, ...]]] = {
    ConfigKind.HUGGINGFACE: (_HUGGINGFACE,),
    ConfigKind.LLAMA_FACTORY: (_HUGGINGFACE, _LLAMA_FACTORY),
    ConfigKind.AXOLOTL: (_HUGGINGFACE, _AXOLOTL),
    ConfigKind.DEEPSPEED: (_DEEPSPEED,),
    ConfigKind.ACCELERATE: (_ACCELERATE,),
    ConfigKind.FSDP: (_FSDP,),
    ConfigKind.TORCHTUNE: (_TORCHTUNE,),
    ConfigKind.LIGHTNING: (_LIGHTNING,),
    ConfigKind.PEFT: (_PEFT, _QUANTISATION),
    ConfigKind.QUANTISATION: (_QUANTISATION,),
    ConfigKind.SECTIONS: (_HUGGINGFACE, _QUANTISATION, _SECTIONS),
}

SUFFIXES: Final = frozenset({ConfigKind.LIGHTNING, ConfigKind.SECTIONS})
"""Kinds whose keys are matched by their last parts, since their owners choose the sections."""


@cache
def table(kind: ConfigKind) -> dict[str, KeyMeaning]:
    """Key (dotted) to meaning, for one kind; later tables win."""
    rows: dict[str, KeyMeaning] = {}
    for text in _TABLES.get(kind, ()):
        for line in text.strip().splitlines():
            key, name, unit, reading = line.split()
            rows[key] = KeyMeaning(name, "" if unit == "-" else unit, reading)
    return rows
