"""Canonical names of library objects, and the kinds their types belong to.

One object has one name here whatever the path it was imported by: `torch.utils.data.dataloader.DataLoader` is
`torch.utils.data.DataLoader`. Deprecated doubles stay apart: `torch.cuda.amp.GradScaler` is not
`torch.amp.GradScaler`.
"""

import re
from functools import lru_cache

from gpudoctor.analysis.source.syntax import words
from gpudoctor.vitals.source.values import DATASET, LOADER, MODULE, OPTIMIZER, SCHEDULER, TENSOR

_PREFIXES = {
    longer: short
    for short, several in (
        (
            "torch.utils.data.",
            "torch.utils.data.dataloader. torch.utils.data.dataset. "
            "torch.utils.data.sampler. torch.utils.data.distributed.",
        ),
        ("torch.nn.", "torch.nn.parallel.data_parallel."),
        ("torch.nn.parallel.", "torch.nn.parallel.distributed."),
        ("torch.nn.utils.", "torch.nn.utils.clip_grad."),
        ("torch.cuda.amp.", "torch.cuda.amp.grad_scaler. torch.cuda.amp.autocast_mode."),
        ("torch.amp.", "torch.amp.grad_scaler. torch.amp.autocast_mode."),
        ("torch.profiler.", "torch.profiler.profiler."),
        ("torch.distributed.", "torch.distributed.distributed_c10d."),
        ("torch.utils.tensorboard.", "torch.utils.tensorboard.writer. tensorboardX."),
        ("torch.cuda.", "torch.cuda.memory."),
        ("torch.", "torch.autograd.grad_mode. torch.functional. torch.tensor. torch._tensor."),
        ("torch.autograd.", "torch.autograd.anomaly_mode."),
        ("lightning.", "pytorch_lightning. lightning.pytorch."),
        ("lightning.fabric.", "lightning.fabric.fabric. lightning_fabric."),
        ("wandb.", "wandb.sdk."),
        ("tqdm.", "tqdm.auto. tqdm.notebook. tqdm.std. tqdm.rich. tqdm.asyncio."),
    )
    for longer in several.split()
}
"""Beginnings of names, and the shorter ones for the same objects."""
_EXACT = {
    "torch.amp.autocast": "torch.autocast",
    "torch.nn.parallel.DataParallel": "torch.nn.DataParallel",
    "lightning.fabric.Fabric": "lightning.Fabric",
    "torch.autograd.no_grad": "torch.no_grad",
    "torch.autograd.enable_grad": "torch.enable_grad",
    "torch.autograd.set_grad_enabled": "torch.set_grad_enabled",
    "torch.FloatTensor": "torch.FloatTensor",
    "torch.nn.parameter.Parameter": "torch.nn.Parameter",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel": (
        "torch.distributed.fsdp.FullyShardedDataParallel"
    ),
    "tqdm.tqdm_notebook": "tqdm.tqdm",
    "wandb.wandb_run.Run": "wandb.Run",
}
# Libraries that re-export every public class at their root.
_FLAT = ("transformers.", "accelerate.", "peft.", "trl.", "lightning.", "diffusers.", "deepspeed.")
_KEEP = ("lightning.callbacks.", "lightning.loggers.", "lightning.strategies.", "lightning.profilers.")
_OPTIM = re.compile(r"torch\.optim\.[a-z_]+\.([A-Z]\w*)$")
_NN = re.compile(r"torch\.nn\.modules\.(?:\w+\.)?([A-Z]\w*)$")


@lru_cache(maxsize=8192)
def canonical(name: str) -> str:
    """The one name of a library object."""
    for _ in range(3):
        for prefix, short in _PREFIXES.items():
            if name.startswith(prefix):
                name = short + name[len(prefix) :]
                break
        else:
            break
    if name.startswith("torch."):
        if not name.startswith("torch.optim.lr_scheduler."):
            name = _OPTIM.sub(r"torch.optim.\1", name)
        name = _NN.sub(r"torch.nn.\1", name)
    elif name.startswith(_FLAT) and not name.startswith(_KEEP):
        parts = name.split(".")
        for index in range(2, len(parts)):
            if parts[index][:1].isupper() and all(part.islower() for part in parts[:index]):
                name = ".".join([parts[0], *parts[index:]])
                break
    return _EXACT.get(name, name)


_HF_MODEL = re.compile(
    r"(?:transformers|diffusers|peft|optimum\.\w+)\.(?:Auto)?\w*(?:Model|For[A-Z]\w*|HeadModel|Transformer\dD\w*)$"
)
_TRAINERS = re.compile(r"(?:transformers|trl|sentence_transformers|optimum\.\w+|setfit|unsloth)\.(?:\w*Trainer)$")
_LOADERS = words(
    f"{LOADER} torch_geometric.loader.DataLoader torch_geometric.loader.NeighborLoader "
    "torch_geometric.loader.DataListLoader torch_geometric.data.DataLoader monai.data.DataLoader "
    "monai.data.ThreadDataLoader torchdata.stateful_dataloader.StatefulDataLoader webdataset.WebLoader "
    "dgl.dataloading.GraphDataLoader ffcv.loader.Loader"
)
_OPTIMIZERS = re.compile(
    r"(?:torch\.optim\.(?!lr_scheduler)[A-Z]\w*|apex\.optimizers\.\w+|bitsandbytes\.optim\.[A-Z]\w*"
    r"|transformers\.(?:AdamW|Adafactor)|deepspeed\.ops\.\w+\.[A-Z]\w*|deepspeed\.\w*Optimizer|timm\.optim\.[A-Z]\w*"
    r"|torch_optimizer\.[A-Z]\w*|lion_pytorch\.Lion|torchao\.(?:\w+\.)*\w*Adam\w*"
    r"|torch\.distributed\.optim\.[A-Z]\w*)$"
)
_NOT_MODULES = frozenset({"torch.nn.Parameter", "torch.nn.UninitializedParameter", "torch.nn.Buffer"})
_MODULES = re.compile(
    r"(?:torch\.nn\.(?:parallel\.)?[A-Z]\w*|torch_geometric\.nn\.(?:\w+\.)*[A-Z]\w*|torchvision\.ops\.[A-Z]\w*"
    r"|torch\.distributed\.fsdp\.FullyShardedDataParallel|lightning\.LightningModule|timm\.(?!utils|data|optim|scheduler)\w+\.[A-Z]\w*"
    r"|monai\.(?:networks|losses)\.(?:\w+\.)*[A-Z]\w*|segmentation_models_pytorch\.[A-Z]\w*"
    r"|torchvision\.models\.(?:\w+\.)*[A-Z]\w*|deepspeed\.DeepSpeedEngine|transformers\.PreTrainedModel"
    r"|sentence_transformers\.SentenceTransformer|torchaudio\.models\.(?:\w+\.)*[A-Z]\w*|peft\.PeftModel"
    r"|torch\.jit\.\w*Module|open_clip\.CLIP)$"
)
_DATASETS = re.compile(
    r"(?:torch\.utils\.data\.(?:\w*Dataset|Subset)|torchvision\.datasets\.[A-Z]\w*|datasets\.\w*Dataset\w*"
    r"|torch_geometric\.(?:data|datasets)\.[A-Z]\w*|torchaudio\.datasets\.[A-Z]\w*|torchtext\.datasets\.\w+)$"
)


@lru_cache(maxsize=8192)
def kind_of(name: str | None) -> str | None:
    """The kind a type belongs to: `torch.nn.Module`, `torch.optim.Optimizer`...; the type itself when none."""
    if name is None:
        return None
    if name in (TENSOR, "torch.nn.Parameter", "torch.nn.Buffer"):
        return TENSOR
    if name.startswith("torch.optim.lr_scheduler."):
        return SCHEDULER
    if name in _LOADERS:
        return LOADER
    if _OPTIMIZERS.match(name):
        return OPTIMIZER
    if name not in _NOT_MODULES and (_MODULES.match(name) or _HF_MODEL.match(name)):
        return MODULE
    if _TRAINERS.match(name):
        return "transformers.Trainer"
    if _DATASETS.match(name):
        return DATASET
    if name.startswith("transformers.") and name.endswith(("Tokenizer", "TokenizerFast", "TokenizerBase")):
        return "transformers.PreTrainedTokenizerBase"
    return name


TENSOR_METHODS = words(
    "to cuda cpu item tolist numpy size dim numel backward detach clone float half double long int bool view "
    "reshape sum mean max min argmax argmin eq ne gt lt ge le squeeze unsqueeze permute transpose contiguous "
    "pin_memory backward requires_grad_ norm softmax log_softmax expand repeat flatten type_as type mul add "
    "masked_fill any all abs sqrt pow exp log t data_ptr element_size record_stream is_cuda topk sort gather "
    "scatter index_select new_zeros new_ones split chunk unbind zero_ copy_ fill_ add_ mul_ div_ sub_ clamp"
)

MODULE_METHODS = words(
    "train eval to cuda cpu half float double bfloat16 parameters named_parameters children named_children "
    "modules named_modules state_dict load_state_dict zero_grad requires_grad_ apply register_forward_hook "
    "register_forward_pre_hook register_full_backward_hook register_buffer register_parameter add_module "
    "register_backward_hook buffers named_buffers forward __call__ compile share_memory type get_parameter "
    "get_submodule register_module to_empty ipu xpu"
)

_ENGINE = words("backward step zero_grad save_checkpoint load_checkpoint eval_batch train_batch")


def method_name(type_: str, method: str) -> str:
    """The resolved name of a method of an instance: that of its kind where the kind has it."""
    kind = kind_of(type_)
    if type_ == "deepspeed.DeepSpeedEngine" and method in _ENGINE:
        return f"{type_}.{method}"
    if kind == MODULE:
        if type_.startswith("torch.nn.") and method == "__call__":
            return f"{type_}.__call__"
        if method in MODULE_METHODS or not type_.startswith(("lightning", "transformers", "deepspeed", "peft")):
            return f"{MODULE}.{method}"
        return f"{type_}.{method}"
    if kind == "transformers.Trainer":
        return f"{type_}.{method}"
    return f"{kind or type_}.{method}"


# Names that people give to these objects; used only where nothing better is known and torch is imported.
_GUESSES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?:\w{1,80}_)?(?:optimizer|optim|opt)(?:_?[A-Za-z0-9]{1,2})?$|optimizer\w{0,80}$"), OPTIMIZER),
    (re.compile(r"(?:\w{1,80}_)?(?:lr_)?(?:scheduler|lr_scheduler|sched)(?:_[a-z0-9]{1,2})?$"), SCHEDULER),
    (re.compile(r"(?:\w{1,80}_)?(?:data_?)?loader(?:_\w{1,80})?$|(?:\w{1,80}_)?dataloader(?:_\w{1,80})?$"), LOADER),
    (
        re.compile(
            r"(?:raw_|base_|my_|ddp_|the_|teacher_|student_|ema_)?model(?:_\w{1,8})?$|(?:\w{1,80}_)?net(?:_?[A-Z0-9]{1,2})?$"
            r"|generator|discriminator|encoder|decoder|unet|backbone|actor|critic|student|teacher|policy$"
        ),
        MODULE,
    ),
    (re.compile(r"(?:\w{1,80}_)?criterion(?:_\w{1,80})?$|loss_fn$|loss_func(?:tion)?$"), MODULE),
    (re.compile(r"(?:grad_|loss_|amp_)?scaler$"), "torch.amp.GradScaler"),
)


@lru_cache(maxsize=4096)
def guess(name: str) -> str | None:
    """The kind of object that a name usually holds."""
    if name.startswith(("num_", "n_", "use_", "has_", "create_", "get_")) or name.isupper() or "param" in name:
        return None
    for pattern, kind in _GUESSES:
        if pattern.fullmatch(name):
            return kind
    return None
