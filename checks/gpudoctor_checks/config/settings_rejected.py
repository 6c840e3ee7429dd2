"""CFG010 settings-rejected."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Bearing, Code, Confidence, LogMessage
from gpudoctor_checks.failure.mpi_messages import MPI_REFUSED

_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "tune", "litgpt", "trl", "axolotl", "composer")
"""Commands of which a line `NAME: error: ` says that their arguments are wrong."""
_SUBCOMMANDS = ("fit", "train", "test", "validate", "predict", "eval", "run")

_DIVISIBLE = (
    "(?:(?:is|are) not (?:evenly )?divisible by|(?:must|should|has to) be (?:(?:evenly )?divisible by|"
    "(?:a |an integer )?multiple of))"
)
_OF_A_SIZE = (
    r"(?i:\b(?:\w{0,30}(?:batch|size|heads?|parallel|hidden|vocab|embed|dim|dims|degrees?)\w{0,30}|(?:num|n)_\w{1,30}|groups?|"
    r"experts?|layers?|gpus?|ranks?|process(?:es)?|devices?|stages?|nodes?|workers?|shards?|channels?|features?|"
    r"steps?|tensor|height|width|resolution)\b)"
)
"""A word of a setting: a number of something else, which no setting has, may have to be divisible, too."""

_ATTENTION = {
    "only supports head dimension": r"only supports head dimensions?\b",
    "head_dim=": r"\bSM\d{2,3} (?:forward|backward) .{0,40}head_dim=\d+.{0,40}not support",
    "not support flash attention": r"does not support Flash Attention",
    "not support an attention": r"does not support an attention implementation through",
    "no available kernel": r"No available kernel\. Aborting execution",
    "no operator found for": r"No operator found for `memory_efficient_attention",
}
"""Cue to pattern, of limits that have nothing to do with the card."""


class SettingsRejected(LogCheck):
    """A library rejected the settings.

    What it finds:
        A job that died because a library tests its settings at the start:
        - sizes that do not divide
        - a precision that the GPU lacks
        - an evaluation strategy that does not fit the saving
        - a wrong command line
    Why it hurts:
        The job waits in the queue and ends in its first seconds.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        Settings that a library changes by itself with a warning are not a death.
    Remedies:
        Change the setting that the message names.
    References:
        - https://www.deepspeed.ai/docs/config-json/
        - https://huggingface.co/docs/transformers/main_classes/trainer
    """

    code = Code("CFG010")
    name = "settings-rejected"
    log_messages = (
        LogMessage(
            kind="exists",
            cue=("already exists",),
            pattern=r"already exists[\s\S]{0,200}(?:overwrite|resume)",
            text="The output folder of an earlier run exists, and the settings neither resume it nor overwrite it.",
        ),
        LogMessage(
            kind="batch",
            cue=(
                "train_batch_size",
                "batch related parameters",
                "divisible by",
                "multiple of",
                "batch_size should be a positive",
                "size of dataproto",
                "set at least one of '",
            ),
            pattern="[Cc]heck batch related parameters|batch_size should be a positive integer|"
            r"Got size of DataProto \d|set at least one of '[\w.]*micro_batch_size|"
            rf"{_OF_A_SIZE}[^\n]{{0,200}}?{_DIVISIBLE}|{_DIVISIBLE}[^\n]{{0,80}}?{_OF_A_SIZE}",
            text="Settings of sizes do not fit each other: {said}.",
            general=True,
        ),
        LogMessage(
            kind="precision",
            cue=(
                "doesn't support bf16",
                "bf16/gpu",
                "at most one of fp16",
                "mixed precision training with amp",
                "fp16 half precision",
                "requires ampere",
                "bfloat16 is only supported",
                "mixed precision requires",
                "fp16 mixed precision",
            ),
            pattern="doesn't support bf16|At most one of fp16 and bf16|[Mm]ixed precision training with AMP "
            "or APEX|[Mm]ixed precision requires|FP16 [Mm]ixed precision .{0,80}(?:not supported|"
            "requires)|[Bb]float16 is only supported",
            text="The precision setting does not fit this machine or another setting: {said}.",
        ),
        LogMessage(
            kind="strategy",
            cue=(
                "load_best_model_at_end",
                "eval_dataset",
                "evaluation strategy",
                "strategy to match",
                "eval_strategy",
                "evaluation_strategy",
            ),
            pattern="strategy to match|load_best_model_at_end|(?:requires|needs|without) an? `?eval_dataset|"
            "requires? .{0,40}eval(?:uation)?_strategy",
            text="Evaluation and saving settings do not fit each other: {said}.",
        ),
        LogMessage(
            kind="deepspeed",
            cue=(
                "no sync context manager is incompatible",
                "no slot '",
                "hostfile ",
                "deepspeedconfigerror",
                "deepspeed config values that mismatch",
                "zero stage",
                "zerorunt",
                "is not compatible",
                "incompatible",
                "not supported",
            ),
            pattern=r"no.?sync context manager is incompatible|No slot '\d+' specified on host|"
            "Hostfile (?:contains|is not formatted)|"
            "DeepSpeedConfigError|DeepSpeed config values that mismatch|(?:ZeRO|"
            "DeepSpeed).{0,80}(?:is not compatible|not supported|incompatible)",
            text="DeepSpeed rejects the config: {said}.",
        ),
        LogMessage(
            kind="framework",
            cue=(
                "set `--ntasks=",
                "per node configured in slurm",
                "early stopping conditioned on",
                "could not find the monitored key",
                "is less than total desired gpus",
                "bundles for the placement group",
                "misconfigurationexception",
                "validationerror",
                "missingmandatoryvalue",
                "could not override",
                "overrideparseexception",
                "missingconfigexception",
                "configattribute",
                "configkey",
                "configtype",
                "configcomposition",
                "is not supported, only ",
                ", please select one of",
                "loaded with `device_map=",
                "the transformer layer class",
                "non-existent config key",
                "are not supported for now",
                "than the derived max_model_len",
                "quantization method",
                " registry. ",
            ),
            pattern=r"Model architectures \[[^\]]{1,200}\] are not supported for now|"
            "than the derived max_model_len|"
            r"[Qq]uantization method specified in the model config|is not supported for quantization method|"
            r"loaded with `device_map=.{1,40} in any distributed mode|"
            r"Could not find the transformer layer class|Non-existent config key|"
            r"is not in the \S{1,60} registry\. |"
            r"is not supported, only [^\n]{1,400} (?:is|are) supported|"
            r"is not a valid \w{2,40}, please select one of|"
            "You set `--ntasks=|tasks per node configured in SLURM .{0,60} does not match|"
            "Early stopping conditioned on metric .{1,80} which is not available|could not "
            r"find the monitored key|available GPUs \d+ is less than total desired GPUs|"
            "cannot fit into any bundles for the placement group|"
            r"MisconfigurationException|\bValidationError|Config(?:Attribute|Key|Type|"
            r"Composition)\w*(?:Error|Exception)|MissingMandatoryValue|MissingConfigException|"
            "Could not override|OverrideParseException",
            text="The framework rejects the settings: {said}.",
            general=True,
        ),
        LogMessage(
            kind="unrecognized",
            cue=(
                "unrecognized arguments",
                "are not used by the hfargumentparser",
                "unrecognized argument",
                "unknown command line flag",
            ),
            pattern=r"Unknown command line flag '(?P<flag>[\w-]{1,80})'|"
            r"unrecognized arguments?: +(?P<argument>\S[^\n]{0,119})|error: unrecognized "
            r"arguments?:\s*$|are not used by the HfArgumentParser: (?P<unused>[^\n]{1,120})",
            text="The program does not know an argument[: {argument}][: {unused}][: {flag}].",
            everywhere=True,
            closing=True,
        ),
        LogMessage(
            kind="command-line",
            cue=(
                "error: argument",
                "the following arguments are required",
                "invalid choice",
                "expected one argument",
                "ambiguous option",
                "error: no such option",
                "error: missing option",
                "error: missing argument",
                "error: invalid value for",
                "unexpected extra argument",
                "flags parsing error",
                "could not override",
                "error merging override",
                "no value for the required argument",
                "error: one of the arguments",
                "cannot find primary config",
                ".py: error: ",
                *(f"{name}: error: " for name in _LAUNCHERS),
                *(f".py {word}: error: " for word in _SUBCOMMANDS),
                "could not consume arg",
                "missing required flags:",
                "unexpected kwargs present:",
                "cannot find target in dict:",
                "no such option",
                "missing option",
                "missing argument",
                "missing parameter",
                "invalid value for",
                "unrecognized options:",
                "error parsing --",
                "required options",
                "error: parser key",
                "error: 'configuration check failed",
                "configuration check failed ::",
                "error: problem with given class_path",
                "validation failed: ",
                "error: problem in default config file",
                "error: unable to load config",
                "error: expected ",
                "could not find '",
                "primary config ",
                "error while handling argument",
            ),
            pattern=r"^error while handling argument \"(?P<option>-[\w-]{1,60})\": |"
            "error: (?:argument .{0,80}: (?:invalid|expected|not allowed with|ignored explicit)|"
            "the following arguments "
            r"are required|ambiguous option: |one of the arguments .{0,200} is required)|"
            r"^(?:Error:|[│|]) (?:No such option|Missing (?:option|argument|parameter)|Invalid value for|"
            r"Got unexpected extra argument)|FATAL Flags parsing error|^Could not override '|"
            r"^Error merging override |"
            r"^ERROR: (?:The function received no value for the required argument|Could not consume arg|"
            r"Missing required flags:|Unexpected kwargs present:|Cannot find target in dict:)|"
            r"^Cannot find primary config '|^Primary config (?:module|directory) '[^']{1,300}' not found|"
            r"^In '[^']{1,300}': Could not find '|"
            r"^[│|] (?:Unrecognized options:|Error parsing --|Required options )|"
            r"^error: (?:Parser key |'?Configuration check failed ::|"
            r"Problem (?:with given class_path|in default config file)|Validation failed: |"
            r"Unable to load config |Expected )|"
            rf"^(?:\S*/)?(?:[\w.-]+\.py(?: (?:{'|'.join(_SUBCOMMANDS)}))?|{'|'.join(_LAUNCHERS)}): error: "
            r"(?!unrecognized arguments)",
            text="The command line is wrong: {said}.",
            everywhere=True,
            closing=True,
            source="argparse, click, typer, absl, Hydra, Fire, tyro, jsonargparse",
        ),
        LogMessage(
            kind="object",
            cue=("error in call to target '", "error locating target '"),
            pattern=r"^Error (?:in call to|locating) target '(?P<target>[^']{1,200})'",
            text="Hydra could not make {target}.",
            bearing=Bearing.SYMPTOM,
            confidence=Confidence.PROBABLE,
            everywhere=True,
            general=True,
            closing=True,
            source="hydra/_internal/instantiate/_instantiate2.py: the exception is printed in the next line",
        ),
        LogMessage(
            kind="tokenizer",
            cue=("does not have a padding token", "no padding token is defined"),
            pattern="does not have a padding token|no padding token is defined",
            text="The tokenizer has no padding token, and a batch needs one.",
        ),
        LogMessage(
            kind="chat-template",
            cue=("chat_template is not set", "chat template is no longer"),
            pattern="chat_template is not set|default chat template is no longer allowed",
            text="The tokenizer has no chat template: usually it is that of a base model.",
            source="transformers/tokenization_utils_base.py",
        ),
        LogMessage(
            kind="remote-code",
            cue="contains custom code which must be executed",
            pattern="contains custom code which must be executed to correctly load the (?P<what>model|dataset)",
            text="The {what} brings code of its own, and the program does not allow it to run.",
            source="transformers/dynamic_module_utils.py; datasets 2 and 3: load.py",
        ),
        LogMessage(
            kind="length",
            cue=("is longer than", "is larger than max_length", "features and image tokens do not match"),
            pattern=r"Prompt length \d+ is longer than|sequence_length=\d+ is larger than max_length|"
            r"[Ii]mage features and image tokens do not match",
            text="A sample is longer than the limit that the settings give: {said}.",
            source="verl/utils/torch_functional.py, rl_dataset.py; a cut that removes image tokens",
        ),
        LogMessage(
            kind="attention",
            cue=tuple(_ATTENTION),
            pattern="|".join(_ATTENTION.values()),
            text="The attention implementation does not take this model or its tensors: {said}.",
            source="flash-attention csrc/flash_attn, flash_attn/cute; torch, xformers, transformers",
        ),
        LogMessage(
            kind="adapter",
            cue=("target modules ", "target module ", "target_modules"),
            pattern=r"Target modules? (?P<modules>.{1,300}?) not found in the base model|"
            r"Target module .{1,300} is not supported|Please specify `target_modules`|"
            r"No `target_modules` passed",
            text="The adapter's target modules do not fit the model[: {modules}].",
            source="peft tuners/tuners_utils.py, tuners/lora/model.py",
        ),
        LogMessage(
            kind="quantized",
            cue=(
                "precision with cpu or disk offload",
                "purely quantized models",
                "fine-tuning on quantized",
                "quantized model",
                "loaded in 8",
                "loaded in 4",
                "not supported for ",
            ),
            pattern="precision with CPU or disk offload|"
            "fine-tuning on purely quantized models|loaded in (?:8|4)-?bit.{0,60}(?:device|train)|"
            "not supported for `?(?:4|8)-bit`?",
            text="The quantized model cannot be trained this way: {said}.",
        ),
        LogMessage(
            kind="no-loss",
            cue="did not return a loss",
            pattern="The model did not return a loss from the inputs",
            text="The model returned no loss: the batches hold no labels under the name that the model expects.",
        ),
        *MPI_REFUSED,
    )
