"""Known classes of exceptions: what their words mean, and what cures them."""

import re

from gpudoctor.analysis import of_run
from gpudoctor.lang import say
from gpudoctor.model.records import frozen, replace


@frozen
class CauseClass:
    """A class of causes."""

    word: str
    pattern: str
    """Searched in `Type: message`, whatever the case."""
    words: str
    """What it means, a clause."""
    cure: str


_CAUSES = (
    CauseClass(
        word="not-a-number",
        pattern=r"\b(nan|inf)\W{1,8}(or \W?)?(nan|inf)\b|contains? (NaN|infinity|invalid numeric entries)|"
        r"float (NaN|infinity) to integer|returned nan values|found invalid values:[^)]{0,400}\bnan\b|"
        r"loss is (nan|inf)|non-?finite (loss|values?|gradients?)|is not finite",
        words=say("A value became NaN or infinite"),
        cure=say("Find the first one: torch.isfinite(x).all() on the batch, then on the output. A finite batch "
            "and bad weights mean too high a rate: lower it, clip the gradients"),
    ),
    CauseClass(
        word="overflow",
        pattern=r"^OverflowError: (math range error|\(34, )",
        words=say("A power or an exponential of a value that is too large left the range of a float"),
        cure=say("Print the value before this line. A loss that has grown: lower the rate, clip the gradients. "
            "For a perplexity: math.exp(min(loss, 20))"),
    ),
    CauseClass(
        word="outside-0-1",
        pattern=r"elements of input should be between 0 and 1|input_val >= zero && input_val <= one",
        words=say("The loss got a value that is NaN or outside of 0 to 1"),
        cure=say("Find out which: torch.isfinite(output).all() before this line. NaN: look at the batch, then "
            "lower the rate. Finite: BCEWithLogitsLoss on the output without a sigmoid"),
    ),
    CauseClass(
        word="target-outside-0-1", pattern=r"elements of target should be between 0 and 1|target_val >= zero",
        words=say("The loss got labels outside of 0 to 1"),
        cure=say("Scale the labels to 0..1, or CrossEntropyLoss for numbers of classes"),
    ),
    CauseClass(
        word="labels", pattern=r"Target -?\d+ is out of bounds|index out of range in self|Assertion.*n_classes",
        words=say("A label or an index lies outside of what the layer has"),
        cure=say("use labels in 0..num_classes-1; resize_token_embeddings(len(tokenizer)) after adding tokens"),
    ),
    CauseClass(
        word="shapes",
        pattern=r"mat1 and mat2 shapes|size mismatch, m1|must match the size|shape .* is invalid for input|"
        r"Expected input batch_size|expected .* to have \d+ channels|Sizes of tensors must match|"
        r"inconsistent tensor size|stack expects each tensor to be equal size|Given groups=|"
        r"The size of tensor a|expected \d+D|only batches of spatial targets",
        words=say("Two shapes do not fit each other"),
        cure=say("print the shapes before this line; pad or drop the last batch (drop_last=True), fit the "
            "layer's width"),
    ),
    CauseClass(
        word="device", pattern=r"Expected all tensors to be on the same device|should be the same|found at "
            "least two devices|"
        r"not on the expected device",
        words=say("Tensors of one operation live on different devices, or have different types"),
        cure=".to(device) for the model before the optimizer is made, and for every tensor of the batch",
    ),
    CauseClass(
        word="dtype", pattern=r"expected (scalar type|m1 and m2|mat1)|must have the same dtype|not "
            "implemented for '|"
        r"result type .* can't be cast",
        words=say("An operation got a type that it does not take"),
        cure=say("use labels .long(), inputs .float(), or autocast around the forward pass"),
    ),
    CauseClass(
        word="backward-twice", pattern=r"backward through the graph a second time|saved intermediate values",
        words=say("A graph was walked twice: something of the last step is still in it"),
        cure=say("detach what is carried from step to step (hidden = hidden.detach()); one backward a graph"),
    ),
    CauseClass(
        word="in-place", pattern=r"modified by an inplace operation",
        words=say("A value that the backward pass needs was overwritten"),
        cure=say("x = x + y instead of x += y; relu without inplace=True; clone() before writing"),
    ),
    CauseClass(
        word="no-gradient", pattern=r"does not require grad and does not have a grad_fn",
        words=say("The loss has no graph: its way from the parameters is cut"),
        cure=say("remove detach(), item() and no_grad() between model and loss; set requires_grad on "
         "a parameter"),
    ),
    CauseClass(
        word="checkpoint", pattern=r"Error\(s\) in loading state_dict|Missing key\(s\)|Unexpected key\(s\)|"
        r"PytorchStreamReader|invalid load key|Weights only load failed",
        words=say("The checkpoint does not fit the model, or is not a whole file"),
        cure=say("use the same model and wrapper as when it was saved (DDP adds `module.`). Write to "
         "a temporary "
            "name and rename"),
    ),
    CauseClass(
        word="file",
        pattern=r"^(FileNotFoundError|IsADirectoryError|NotADirectoryError|PermissionError)|No such file",
        words=say("A file or folder is not where the script looks for it"),
        cure=say("use an absolute path, or one from the script's own folder: Path(__file__).parent"),
    ),
    CauseClass(
        word="module", pattern=r"^(ModuleNotFoundError|ImportError)",
        words=say("A module cannot be imported in this environment"),
        cure=say("install its package with the interpreter that runs the job: python -m pip install PACKAGE"),
    ),
    CauseClass(
        word="disk", pattern=r"No space left on device|Disk quota exceeded",
        words=say("The disk or the quota is full"),
        cure=say("keep fewer checkpoints (save_total_limit), or use another folder; df -h, quota -s"),
    ),
    CauseClass(
        word="cuda-missing", pattern=r"not compiled with CUDA|No CUDA GPUs are available|no NVIDIA driver",
        words=say("This process has no usable GPU"),
        cure=say("gpudoctor check   # says whether the driver, the build of torch or CUDA_VISIBLE_DEVICES is "
            "at fault"),
    ),
    CauseClass(
        word="pickling", pattern=r"Can't pickle|cannot pickle|AttributeError: Can't get|EOFError: Ran out "
            "of input",
        words=say("A worker cannot be given what it needs: it is not a plain, importable object"),
        cure=say("functions and classes at module level; open files and locks in the worker (worker_init_fn)"),
    ),
    CauseClass(
        word="main-guard", pattern=r"bootstrapping phase|freeze_support",
        words=say("Workers are spawned by a script without a guard"),
        cure=say('if __name__ == "__main__": around what trains'),
    ),
    CauseClass(
        word="host-memory", pattern=r"^MemoryError|DefaultCPUAllocator|Cannot allocate memory|can't "
            "allocate memory",
        words=say("The host's memory is full"),
        cure=say("a smaller batch, fewer workers, memory-mapped data"),
    ),
    CauseClass(
        word="key", pattern=r"^KeyError",
        words=say("A dictionary, a batch or a config does not have that key"),
        cure=say("print its keys before this line"),
    ),
    CauseClass(
        word="port", pattern=r"Address already in use|EADDRINUSE",
        words=say("The port of the process group is taken"),
        cure=say("torchrun --rdzv-backend=c10d --rdzv-endpoint=localhost:0, or another MASTER_PORT"),
    ),
)  # fmt: skip


def cause_of(told: "of_run.DeathMessage") -> CauseClass | None:
    """The class that an exception's words belong to; None where none is known. With numbers, where the recorder
    read which labels or indices it were.
    """
    words = f"{told.kind}: {told.message}"
    found = next((cause for cause in _CAUSES if re.search(cause.pattern, words, re.IGNORECASE)), None)
    outside = beyond(told)
    return replace(found, words=outside[0], cure=outside[1]) if found and outside else found


def beyond(told: "of_run.DeathMessage") -> tuple[str, str] | None:
    """Labels or indices outside of what there is: which, as a clause, and what cures it; None where unknown."""
    seen = told.record.get("beyond") if told.record is not None else None
    if not seen:
        return None
    least, most, count = int(seen["least"]), int(seen["most"]), int(seen["count"])
    reach = (
        say("reach from {least} to {most}", least=least, most=most) if least < most else say("are {most}", most=most)
    )
    if seen["what"] != "label":
        cure = (
            say(
                "nn.Embedding({most}, ...), a row for each index; after adding tokens "
                "resize_token_embeddings(len(tokenizer))",
                most=most + 1,
            )
            if least >= 0
            else say("Give padding a row of its own (padding_idx) in place of an index below 0")
        )
        return say(
            "The indices {reach}, and the embedding has {count} rows (0 to {last})",
            reach=reach,
            count=count,
            last=count - 1,
        ), cure
    if least >= 1 and most == count:
        cure = say("Give the loss labels - 1: they count from 1, and its classes from 0")
    elif least < 0:
        cure = say(
            "Set ignore_index={least} where that marks places to ignore, or map the labels to 0..{count}",
            least=least,
            count=count - 1,
        )
    else:
        cure = say(
            "Give the last layer {most} outputs, or map the labels to 0..{count}", most=most + 1, count=count - 1
        )
    return say(
        "The labels {reach}, and the loss has {count} classes (0 to {last})", reach=reach, count=count, last=count - 1
    ), cure
