"""Pieces of a written program that are more than a line: their source goes into it as it stands here.

They run there only, after its own `import torch` and `import bitsandbytes as bnb`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import bitsandbytes as bnb
    import torch


class RandomTokens:
    """Rows of random tokens: the same in every run, others on every rank."""

    def __init__(self, rows: int, length: int, vocabulary: int, rank: int = 0) -> None:
        self.rows, self.length, self.vocabulary, self.rank = rows, length, vocabulary, rank

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, row: int) -> "dict[str, torch.Tensor]":
        draws = torch.Generator().manual_seed(row + self.rank * self.rows)
        ids = torch.randint(self.vocabulary, (self.length,), generator=draws)
        return {"input_ids": ids, "labels": ids}


class RandomImages:
    """Images of noise with random classes: the same in every run, others on every rank."""

    def __init__(self, rows: int, shape: "tuple[int, ...]", classes: int, dtype: "torch.dtype", rank: int = 0) -> None:
        self.rows, self.shape, self.classes, self.dtype, self.rank = rows, shape, classes, dtype, rank

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, row: int) -> "dict[str, torch.Tensor]":
        draws = torch.Generator().manual_seed(row + self.rank * self.rows)
        label = torch.randint(self.classes, (), generator=draws)
        return {"pixel_values": torch.randn(self.shape, generator=draws).to(self.dtype), "labels": label}


def linears(model: Any) -> "list[tuple[Any, str, Any, int, int]]":
    """Parent, name, layer, outputs and inputs of every linear layer of the body; the head is left as it is."""
    found = []
    for parent in model.modules():
        for name, layer in parent.named_children():
            if layer is model.get_output_embeddings() or name in ("lm_head", "classifier"):
                continue
            if isinstance(layer, torch.nn.Linear):
                found.append((parent, name, layer, *layer.weight.shape))
            elif type(layer).__name__ == "Conv1D":  # GPT-2's, whose weight lies the other way round
                found.append((parent, name, layer, *reversed(layer.weight.shape)))
    return found


def four_bits(model: Any, device: "torch.device", kind: str, double: bool, compute: "torch.dtype") -> None:
    """Linear layers of 4 bits with random weights, made one by one: the whole never lies there in 16."""
    for parent, name, layer, rows, columns in linears(model):
        weight = torch.empty(rows, columns, dtype=layer.weight.dtype, device=device).normal_(std=0.02)
        made = bnb.nn.Linear4bit(
            columns, rows, bias=layer.bias is not None, compute_dtype=compute, compress_statistics=double,
            quant_type=kind, device="meta",
        )  # fmt: skip
        packed = bnb.nn.Params4bit(weight, requires_grad=False, compress_statistics=double, quant_type=kind)
        made.weight, made.bias = packed.to(device), layer.bias
        setattr(parent, name, made)
    model.is_loaded_in_4bit = True  # what PEFT looks for


def eight_bits(model: Any, device: "torch.device") -> None:
    """Linear layers of 8 bits (LLM.int8) with random weights, made one by one."""
    for parent, name, layer, rows, columns in linears(model):
        weight = torch.empty(rows, columns, dtype=torch.float16, device=device).normal_(std=0.02)
        made = bnb.nn.Linear8bitLt(
            columns, rows, bias=layer.bias is not None, has_fp16_weights=False, threshold=6.0, device="meta"
        )
        packed = bnb.nn.Int8Params(weight, requires_grad=False, has_fp16_weights=False)
        made.weight, made.bias = packed.to(device), layer.bias
        setattr(parent, name, made)
    model.is_loaded_in_8bit = True  # what PEFT looks for


def fill(model: Any, device: "torch.device") -> None:
    """Random values for the parameters that have no memory yet; norms start at 1, biases at 0."""
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            if not parameter.is_meta:
                continue
            filled = torch.empty_like(parameter, device=device, requires_grad=False)
            if parameter.ndim > 1:
                filled.normal_(std=0.02)
            else:
                filled.fill_(1.0 if name == "weight" else 0.0)
            setattr(module, name, torch.nn.Parameter(filled, requires_grad=parameter.requires_grad))
    model.tie_weights()
    model.to(device)
