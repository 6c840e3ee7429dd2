"""Advice on what a job's log names as the first cause of its death."""

from gpudoctor.model import advise, asked, in_log

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
        "CFG010-asks",
        "Do what the message asks",
        "the message: {asks}",
        when=asked("exists", "precision", "strategy", "deepspeed", "framework", "quantized"),
    ),
    advise(
        "CFG010-settings",
        "Change the settings that the message names",
        "gpudoctor check SCRIPT CONFIG   # finds such conflicts before the run",
        when=in_log("exists", "batch", "precision", "strategy", "deepspeed", "framework", "command-line", "quantized"),
    ),
    advise(
        "CFG010-padding-token",
        "Give the tokenizer and the model a padding token",
        "tokenizer.pad_token = tokenizer.eos_token; model.config.pad_token_id = tokenizer.pad_token_id",
        when=in_log("tokenizer"),
    ),
    advise(
        "CFG010-template",
        "Set a chat template, or use the tokenizer of the model's chat version",
        "tokenizer.chat_template = ...   # or text that is formatted already, without apply_chat_template",
        when=in_log("chat-template"),
    ),
    advise(
        "CFG010-code",
        "Set trust_remote_code=True, if you trust that code",
        "pin it: revision=COMMIT; newer versions of the library may have the model without that code",
        "datasets 4 runs no script of a data set any more: use a copy without one",
        when=in_log("remote-code"),
    ),
    advise(
        "CFG010-length",
        "Raise the limit of the length, or leave out the samples that are longer",
        "verl: data.max_prompt_length, data.filter_overlong_prompts=True",
        "images: their tokens must not be cut; a greater max_length, or fewer pixels an image",
        when=in_log("length"),
    ),
    advise(
        "CFG010-attention",
        "Use another attention implementation, or another version of this one",
        'attn_implementation="sdpa" or "eager"   # in from_pretrained',
        when=in_log("attention"),
    ),
    advise(
        "CFG010-labels",
        "Give the model labels in each batch",
        'the key is "labels", unless label_names says otherwise; a collator may make them',
        when=in_log("no-loss"),
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
