"""Known classes of exceptions: what their words mean, and what cures them."""

import re
from dataclasses import dataclass

from gpudoctor.model.reading.recordings.deaths import Told


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A class of causes."""

    word: str
    pattern: str
    """Searched in `Type: message`, whatever the case."""
    words: str
    """What it means, a clause."""
    cure: str


_CAUSES = (
    Cause(
        word="labels", pattern=r"Target -?\d+ is out of bounds|index out of range in self|Assertion.*n_classes",
        words="A label or an index lies outside of what the layer has",
        cure="labels in 0..num_classes-1; resize_token_embeddings(len(tokenizer)) after adding tokens",
    ),
    Cause(
        word="shapes",
        pattern=r"mat1 and mat2 shapes|size mismatch, m1|must match the size|shape .* is invalid for input|"
        r"Expected input batch_size|expected .* to have \d+ channels|Sizes of tensors must match|"
        r"inconsistent tensor size|stack expects each tensor to be equal size|Given groups=|"
        r"The size of tensor a|expected \d+D|only batches of spatial targets",
        words="Two shapes do not fit each other",
        cure="print the shapes before this line; pad or drop the last batch (drop_last=True), fit the "
            "layer's width",
    ),
    Cause(
        word="device", pattern=r"Expected all tensors to be on the same device|should be the same|found at "
            "least two devices|"
        r"not on the expected device",
        words="Tensors of one operation live on different devices, or have different types",
        cure=".to(device) for the model before the optimizer is made, and for every tensor of the batch",
    ),
    Cause(
        word="dtype", pattern=r"expected (scalar type|m1 and m2|mat1)|must have the same dtype|not "
            "implemented for '|"
        r"result type .* can't be cast",
        words="An operation got a type that it does not take",
        cure="labels .long(), inputs .float(), or autocast around the forward pass",
    ),
    Cause(
        word="backward-twice", pattern=r"backward through the graph a second time|saved intermediate values",
        words="A graph was walked twice: something of the last step is still in it",
        cure="detach what is carried from step to step (hidden = hidden.detach()); one backward a graph",
    ),
    Cause(
        word="in-place", pattern=r"modified by an inplace operation",
        words="A value that the backward pass needs was overwritten",
        cure="x = x + y instead of x += y; relu without inplace=True; clone() before writing",
    ),
    Cause(
        word="no-gradient", pattern=r"does not require grad and does not have a grad_fn",
        words="The loss has no graph: its way from the parameters is cut",
        cure="no detach(), item() or no_grad() between model and loss; some parameter must require gradients",
    ),
    Cause(
        word="checkpoint", pattern=r"Error\(s\) in loading state_dict|Missing key\(s\)|Unexpected key\(s\)|"
        r"PytorchStreamReader|invalid load key|Weights only load failed",
        words="The checkpoint does not fit the model, or is no whole file",
        cure="the same model and wrapper as when it was saved (DDP adds `module.`); write to a temporary "
            "name and rename",
    ),
    Cause(
        word="file",
        pattern=r"^(FileNotFoundError|IsADirectoryError|NotADirectoryError|PermissionError)|No such file",
        words="A file or folder is not where the script looks for it",
        cure="an absolute path, or one from the script's own folder: Path(__file__).parent",
    ),
    Cause(
        word="module", pattern=r"^(ModuleNotFoundError|ImportError)",
        words="A module cannot be imported in this environment",
        cure="pip install it into the environment that runs the job (which python is in recording.json)",
    ),
    Cause(
        word="disk", pattern=r"No space left on device|Disk quota exceeded",
        words="The disk or the quota is full",
        cure="fewer checkpoints (save_total_limit), another folder; df -h, quota -s",
    ),
    Cause(
        word="cuda-missing", pattern=r"not compiled with CUDA|No CUDA GPUs are available|no NVIDIA driver",
        words="There is no usable GPU in this process",
        cure="gpudoctor check   # says whether the driver, the build of torch or CUDA_VISIBLE_DEVICES is "
            "at fault",
    ),
    Cause(
        word="pickling", pattern=r"Can't pickle|cannot pickle|AttributeError: Can't get|EOFError: Ran out "
            "of input",
        words="A worker cannot be given what it needs: it is no plain, importable object",
        cure="functions and classes at module level; open files and locks in the worker (worker_init_fn)",
    ),
    Cause(
        word="main-guard", pattern=r"bootstrapping phase|freeze_support",
        words="Workers are spawned by a script without a guard",
        cure='if __name__ == "__main__": around what trains',
    ),
    Cause(
        word="host-memory", pattern=r"^MemoryError|DefaultCPUAllocator|Cannot allocate memory|can't "
            "allocate memory",
        words="The host's memory is full",
        cure="a smaller batch, fewer workers, memory-mapped data",
    ),
    Cause(
        word="key", pattern=r"^KeyError",
        words="A dictionary, a batch or a config does not have that key",
        cure="print its keys before this line",
    ),
    Cause(
        word="port", pattern=r"Address already in use|EADDRINUSE",
        words="The port of the process group is taken",
        cure="torchrun --rdzv-backend=c10d --rdzv-endpoint=localhost:0, or another MASTER_PORT",
    ),
)  # fmt: skip


def cause_of(told: Told) -> Cause | None:
    """The class that an exception's words belong to; None where none is known."""
    words = f"{told.kind}: {told.message}"
    return next((cause for cause in _CAUSES if re.search(cause.pattern, words, re.IGNORECASE)), None)
