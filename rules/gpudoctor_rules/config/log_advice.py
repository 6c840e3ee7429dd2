"""Advice on what a job's log names as the first cause of its death."""

from gpudoctor.model import advise, in_log

ADVICE = (
    advise(
        "CFG009-name",
        "Use the name that the installed version knows",
        "python -c 'import inspect, transformers; print(inspect.signature(transformers.TrainingArguments))'",
        "gpudoctor check SCRIPT CONFIG   # names renamed arguments with their lines",
        when=in_log("unexpected-keyword", "multiple-values", "removed"),
    ),
    advise(
        "CFG010-option",
        "Write the options as the script declares them",
        "python SCRIPT --help   # the options that it knows",
        "if it is --local-rank: start the script with torchrun, and read LOCAL_RANK from the environment",
        when=in_log("unrecognized"),
    ),
    advise(
        "CFG010-settings",
        "Change the settings that the message names",
        "gpudoctor check SCRIPT CONFIG   # finds such conflicts before the run",
        when=in_log(
            "exists",
            "batch",
            "precision",
            "strategy",
            "deepspeed",
            "framework",
            "command-line",
            "tokenizer",
            "quantized",
            "no-loss",
        ),
    ),
    advise(
        "CFG010-object",
        "Read why the object could not be made",
        "HYDRA_FULL_ERROR=1 COMMAND   # prints the whole traceback",
        "compare the keys under _target_ with the arguments of the class",
        when=in_log("object"),
    ),
    advise(
        "CFG010-adapter",
        "Name modules that the model has",
        "print(model)   # the names of its layers: q_proj, query_key_value, c_attn, by the architecture",
        'or target_modules="all-linear"',
        when=in_log("adapter"),
    ),
)
