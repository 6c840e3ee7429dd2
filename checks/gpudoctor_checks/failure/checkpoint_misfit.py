"""FAIL014 checkpoint-misfit."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Code, Confidence, LogMessage


class CheckpointMisfit(LogCheck):
    """A checkpoint could not be loaded or saved.

    What it finds:
        A job that died because of its checkpoint:
        - it does not fit the model
        - it is damaged, or is a pointer of git-lfs
        - it contains more than tensors
        - it was saved for another number of ranks
    Why it hurts:
        The run cannot resume, or loses what it had trained.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        Keys that are reported and ignored are not a death.
    Remedies:
        Load what fits; get a damaged file again.
    References:
        - https://github.com/huggingface/transformers/issues/34631
        - https://github.com/axolotl-ai-cloud/axolotl/issues/933
    """

    code = Code("FAIL014")
    name = "checkpoint-misfit"
    log_messages = (
        LogMessage(
            kind="zero3",
            cue=("torch.size([0])", "'weight' must be 2-d", "size from checkpoint", "from torch.size"),
            pattern=r"size mismatch.{0,300}torch\.Size\(\[0\]\)|'weight' must be 2-D|set a tensor of shape "
            r"torch\.Size\(\[0\]\)",
            text="A ZeRO-3 shard of size 0 was used where the whole weight is needed: it was not gathered.",
            source="https://github.com/axolotl-ai-cloud/axolotl/issues/933",
        ),
        LogMessage(
            kind="size-mismatch",
            cue=(
                "error(s) in loading state_dict",
                "size mismatch for",
                "set a tensor of shape",
                "mismatched sizes",
                "copying a param with shape",
                "incorrect",
            ),
            pattern=r"(?:Error\(s\) in loading state_dict for (?P<model>\w{1,100})\b[\s\S]{0,3000}?)?"
            r"size mismatch for (?P<parameter>[\w.]+)|(?:which |that )(?:looks|has shape).{0,20}incorrect|"
            "[Tt]rying to set a tensor of shape",
            text="The checkpoint's tensors have other shapes than the model's[: {parameter}].",
        ),
        LogMessage(
            kind="size-mismatch",
            cue=("size mismatch for ",),
            pattern=r"^\s*size mismatch for (?P<parameter>[\w.]{1,200}): copying a param with shape "
            r"torch\.Size\(\[(?P<saved>[\d, ]*)\]\) from checkpoint, the shape in current "
            r"model is torch\.Size\(\[(?P<model>[\d, ]*)\]\)",
            text="The checkpoint's {parameter} has another shape than the model's.",
            everywhere=True,
            last=True,
            source="torch/nn/modules/module.py: a line of the message alone",
        ),
        LogMessage(
            kind="keys",
            cue=(
                "missing key in checkpoint state_dict",
                "key(s) in state_dict",
                "not initialized from checkpoint",
                "no module or parameter named",
                "missing key",
                "unexpected key",
            ),
            pattern="Missing key in checkpoint state_dict|"
            r"(?P<which>Missing|Unexpected) key\(s\) in state_dict|"
            r"weights were not initialized from checkpoint|There is no module or parameter named",
            text="The checkpoint does not have the model's parameter names.",
        ),
        LogMessage(
            kind="weights-only",
            cue=(
                "weights only load failed",
                "weightsunpickler",
                "weights_only",
                "unsupported global",
                "unsupported class",
                "unsupported operand",
            ),
            pattern="[Ww]eights only load failed|WeightsUnpickler error|Unsupported (?:global|class|operand)",
            text="torch.load refused the checkpoint: it contains more than tensors, and weights_only is on.",
            source="https://github.com/huggingface/transformers/issues/34631",
        ),
        LogMessage(
            kind="old-torch",
            cue="require users to upgrade torch to at least",
            pattern=r"require users to upgrade torch to at least v?(?P<version>[\d.]+\d)",
            text="transformers refuses to load this checkpoint by torch.load with a torch before {version}.",
            source="transformers/utils/import_utils.py: CVE-2025-32434",
        ),
        LogMessage(
            kind="lfs-pointer",
            cue=(
                "headertoolarge",
                "header too large",
                "invalid load key, 'v'",
                "git-lfs",
                "invalidheaderdeserialization",
                "header too small",
                "headertoosmall",
                "headertoo large",
                "header toolarge",
                "headertoo small",
                "header toosmall",
            ),
            pattern=r"[Hh]eader ?[Tt]oo ?(?:[Ll]arge|[Ss]mall)|invalid load key, 'v'|git-lfs\.github\.com|"
            "InvalidHeaderDeserialization",
            text="The weight file is not a weight file: usually a git-lfs pointer that was never downloaded.",
            confidence=Confidence.PROBABLE,
        ),
        LogMessage(
            kind="corrupt",
            cue=(
                "invalid magic number; corrupt",
                "pickle data was truncated",
                "unable to load weights from",
                "pytorchstreamreader failed",
                "archive is corrupted",
                "invalid load key",
                "unexpected eof",
                "metadataincompletebuffer",
                "not a zip archive",
                "file in archive is not",
                "might be corrupted",
                "incomplete metadata",
                "wrong byte size",
            ),
            pattern=r"storage has wrong byte size: expected|Invalid magic number; corrupt file|"
            r"pickle data was truncated(?![\s\S]*\nin "
            r"(?:\S+ )*multiprocessing/)|Unable to load weights from (?:pytorch|PyTorch|the) "
            "checkpoint|"
            "PytorchStreamReader failed|archive is corrupted|invalid load key|unexpected EOF, "
            "expected|MetadataIncompleteBuffer|incomplete metadata|file might be corrupted",
            text="The checkpoint file is damaged or incomplete.",
        ),
        LogMessage(
            kind="corrupt",
            cue=("file.lua:",),
            pattern=r"/torch/File\.lua:\d+: (?:read error: read \d+ blocks instead of \d+|unknown "
            "object)",
            text="The checkpoint file is damaged or incomplete.",
            everywhere=True,
            source="torch7 File.lua, lib/TH/THDiskFile.c: it reads less than the file should hold",
        ),
        LogMessage(
            kind="optimizer",
            cue=("parameter group", "optimizer state", "size of optimizer", "zero_pp_rank", "world size"),
            pattern="loaded state dict (?:contains a parameter group|has a different number of parameter "
            "groups)|doesn't match the size of optimizer's group|DP world size|"
            "zero_pp_rank.{0,80}(?:missing|not found)|world size .{0,40}checkpoint",
            text="The optimizer state of the checkpoint does not fit this run's optimizer or number of ranks.",
        ),
        LogMessage(
            kind="not-found",
            cue=(
                "is not a distributed checkpoint",
                "can't load tokenizer",
                "can't load the ",
                "can't find 'adapter_config.json'",
                "find a valid checkpoint",
                "does not contain",
                "no file named",
                "not appear to have a file named",
                "no checkpoint found",
                "no such file or directory",
                "parent directory",
                "not found",
                "does not exist",
                "find any model weights",
                "failed to open gguf file",
            ),
            pattern="Cannot find any model weights with|failed to open GGUF file|"
            "is not a distributed checkpoint|Can't load (?:tokenizer|the (?:model|"
            r"configuration)) (?:of|for) '|Can't find 'adapter_config\.json' at|"
            "[Cc]an't find a valid checkpoint|[Ee]rror no file named|does not appear to have a file "
            r"named (?P<file>[\w.-]+)|[Nn]o checkpoint found|(?:(?<!artifact ')[Cc]heckpoint|[Pp]rovided "
            "path).{0,120}(?:not found|does not exist|does not contain)|No such file or directory: "
            r"""['"](?P<weights>[^'"\n]{0,300}\.(?:pth?|pth\.tar|ckpt|safetensors))['"]|"""
            r"Parent directory (?P<folder>\S{1,300}) does not exist",
            text="The checkpoint or its folder is not there[: no {file}][: {weights}][: {folder}].",
        ),
        LogMessage(
            kind="no-device",
            cue="deserialize object on",
            pattern="[Aa]ttempting to deserialize object on (?:a )?(?:CUDA|cuda) device",
            text="The checkpoint was saved on a GPU that this process does not have (map_location is missing).",
        ),
        LogMessage(
            kind="shared",
            cue=("share memory", "shared tensors"),
            pattern="[Ss]ome tensors share memory|shared tensors",
            text="The checkpoint could not be saved: some tensors share memory.",
        ),
    )
