"""`from_pretrained` without weights: the class of the configuration, empty, in the type and bits asked for."""

import os
from collections.abc import Callable
from typing import Any

from gpudoctor.errors import IncompleteError, UsageError
from gpudoctor.estimate.job import TrainingJob


def library_patches() -> list[tuple[Any, str, Any]]:
    """What is put in place of transformers' and PEFT's own: (owner, name, value)."""
    from transformers import AutoConfig, PreTrainedModel
    from transformers.models.auto import auto_factory

    patches: list[tuple[Any, str, Any]] = [
        (AutoConfig, "from_pretrained", _config_loader(AutoConfig.from_pretrained)),
        (PreTrainedModel, "from_pretrained", classmethod(_own_class)),
        # its own asks bitsandbytes
        (PreTrainedModel, "num_parameters", lambda self, *_, **__: sum(each.numel() for each in self.parameters())),
    ]
    # transformers gives each of its Auto classes a copy (models/auto/auto_factory.py, auto_class_update)
    base = auto_factory._BaseAutoModelClass
    patches += [(each, "from_pretrained", classmethod(_auto_class)) for each in _heirs(base)]
    patches += [(PreTrainedModel, "save_pretrained", _nothing), *_trainer()]
    try:
        from peft import LoraConfig, PeftModel
    except ImportError:
        return patches
    return [
        *patches, (PeftModel, "save_pretrained", _nothing),
        (LoraConfig, "__post_init__", _registering(LoraConfig.__post_init__)),
    ]  # fmt: skip


def _nothing(*_: Any, **__: Any) -> None:
    """There are no values to write."""


def _trainer() -> list[tuple[Any, str, Any]]:
    """The Trainer's mixed precision where no card is seen; fp16 takes the bytes of bf16 and needs no scaler."""
    try:
        from accelerate import Accelerator
        from transformers import training_args
    except ImportError:
        return []
    real = Accelerator.__init__

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        if os.environ.get("ACCELERATE_MIXED_PRECISION") == "fp16":
            os.environ["ACCELERATE_MIXED_PRECISION"] = "bf16"
        if str(kwargs.get("mixed_precision")) == "fp16":
            kwargs["mixed_precision"] = "bf16"
        real(self, *args, **kwargs)

    return [
        (Accelerator, "__init__", made), (training_args, "is_torch_bf16_gpu_available", lambda: True),
    ]  # fmt: skip


def _heirs(cls: Any) -> list[Any]:
    """A class and all that derive from it."""
    return [cls, *(each for heir in cls.__subclasses__() for each in _heirs(heir))]


def _config_loader(real: Callable[..., Any]) -> Any:
    """A cached or local configuration, or the one of a model that is known by name."""

    def load(name: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return real(name, *args, **kwargs)
        except (OSError, ValueError) as error:
            known = _known(str(name), error)
            if not kwargs.pop("return_unused_kwargs", False):
                return known
            return known, kwargs

    return staticmethod(load)


def _known(name: str, error: Exception) -> Any:
    from gpudoctor.estimate.real.config import hf_config

    try:
        return hf_config(name)
    except UsageError:
        said = f"{name} is neither a folder, nor cached, nor a model that is known ({type(error).__name__})"
        raise IncompleteError(said) from None


def _own_class(cls: Any, name: Any, *_: Any, **kwargs: Any) -> Any:
    """`LlamaForCausalLM.from_pretrained`."""
    config = kwargs.get("config")
    if config is None:
        try:
            config = cls.config_class.from_pretrained(name)
        except OSError as error:
            config = _known(str(name), error)
    return _made(cls._from_config, config, kwargs)


def _auto_class(cls: Any, name: Any, *_: Any, **kwargs: Any) -> Any:
    """`AutoModelForCausalLM.from_pretrained`."""
    from transformers import AutoConfig

    config = kwargs.get("config")
    if config is None:
        config = AutoConfig.from_pretrained(name)
    return _made(cls.from_config, config, kwargs)


def _made(make: Callable[..., Any], config: Any, kwargs: dict[str, Any]) -> Any:
    """The model, as `from_pretrained` leaves it, but for its values."""
    from transformers import initialization

    for key in [each for each in kwargs if hasattr(config, each) and each not in _NOT_CONFIG]:
        setattr(config, key, kwargs[key])
    options: dict[str, Any] = {"dtype": _dtype(config, kwargs)}
    if kwargs.get("attn_implementation") is not None:
        options["attn_implementation"] = _attention(kwargs["attn_implementation"])
    quantization = kwargs.get("quantization_config") or getattr(config, "quantization_config", None)
    if quantization is not None and "quantization_config" in config.__dict__:
        del config.quantization_config
    with initialization.no_init_weights():
        model = make(config, **options)
    model.tie_weights()
    if quantization is not None:
        _quantize(model, quantization)
    return model.eval()


_NOT_CONFIG = frozenset({"config", "dtype", "torch_dtype", "attn_implementation", "quantization_config"})


def _dtype(config: Any, kwargs: dict[str, Any]) -> Any:
    import torch

    asked = kwargs.get("dtype", kwargs.get("torch_dtype", "auto"))
    if asked in {None, "auto"}:
        asked = getattr(config, "dtype", None) or torch.float32
    return getattr(torch, asked) if isinstance(asked, str) else asked


def _attention(asked: str) -> str:
    if "flash" not in asked:
        return asked
    from gpudoctor.estimate.real.standins import register_flash

    return register_flash()


def _quantize(model: Any, asked: Any) -> None:
    """Stand-ins for the layers that bitsandbytes would put in place."""
    from gpudoctor.estimate.real.standins import quantize

    fields = asked if isinstance(asked, dict) else asked.to_dict()
    if not fields.get("load_in_4bit"):
        kind = fields.get("quant_method", "unknown")
        raise UsageError("quantization_config of {kind}: only bitsandbytes' 4 bits can be traced", kind=kind)
    compute = str(fields.get("bnb_4bit_compute_dtype") or "float32").rpartition(".")[2]
    job = TrainingJob(
        method="qlora", dtype={"bfloat16": "bf16", "float16": "fp16"}.get(compute, "fp32"),
        double_quant=bool(fields.get("bnb_4bit_use_double_quant")),
    )  # fmt: skip
    quantize(model, job)
    model.is_loaded_in_4bit = True


def _registering(real: Callable[..., None]) -> Any:
    """PEFT's adapters on the stand-ins."""

    def made(self: Any) -> None:
        from gpudoctor.estimate.real.standins import adapter_class, four_bit_class

        real(self)
        self._register_custom_module({four_bit_class(): adapter_class()})

    return made
