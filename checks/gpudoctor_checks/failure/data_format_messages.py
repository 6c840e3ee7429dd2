"""How `datasets`, the Trainer, LLaMA-Factory and verl refuse data of another format, name or version."""

from gpudoctor.model import LogMessage

_NAMES = {
    "unknown split": r"Unknown split \"",
    "config name is missing": r"Config name is missing",
    "builderconfig '": r"BuilderConfig '.{1,80}' not found",
    "not in the dataset": r"Column names? .{1,200} not in the dataset",
    "columns in the dataset match": r"No columns in the dataset match the model's forward",
}
"""Cue to pattern."""
_AUDIO = {
    "libsndfileerror": r"LibsndfileError",
    "appropriate backend to handle": r"Couldn't find appropriate backend to handle uri",
}
_TO_LLAMA_FACTORY = {
    "cannot find valid samples": r"Cannot find valid samples",
    "in dataset_info.json": r"Undefined dataset .{1,80} in dataset_info\.json",
    "does not match the number of <": r"The number of \w+ does not match the number of <\w+> tokens",
}
_TO_VERL = {
    "'prompt'": r"^KeyError: 'prompt'[\s\S]*\nin [^\n]*verl/utils/dataset/",
    "reward function is not implemented": r"Reward function is not implemented for",
}

DATA_FORMATS = (
    LogMessage(
        kind="script",
        cue="dataset scripts are no longer supported",
        pattern=r"Dataset scripts are no longer supported(?:, but found (?P<file>\S+))?",
        text="The installed `datasets` does not run the script that this data set needs[: {file}].",
        source="datasets 4.0: load.py",
    ),
    LogMessage(
        kind="feature",
        cue="feature type '",
        pattern=r"Feature type '(?P<type>\w+)' not found",
        text="A newer `datasets` wrote this data set: the installed one does not know its type {type}.",
        source="datasets/features/features.py: List came with 4.0",
    ),
    LogMessage(
        kind="feature",
        cue="cached in a localfilesystem",
        pattern=r"Loading a dataset cached in a LocalFileSystem is not supported",
        text="The installed `datasets` is too old for the installed `fsspec`.",
        source="https://github.com/huggingface/datasets/issues/6352",
    ),
    LogMessage(
        kind="name",
        cue=tuple(_NAMES),
        pattern="|".join(_NAMES.values()),
        text="The data set has no such split, configuration or column: {said}.",
        source="datasets/builder.py, arrow_dataset.py; transformers/trainer.py",
    ),
    LogMessage(
        kind="columns",
        cue=("casterror", "the same columns"),
        pattern=r"DatasetGenerationCastError|CastError: Couldn't cast|must have the same columns",
        text="The data files do not all have the same columns, or the same types in them.",
        source="datasets/builder.py, table.py",
    ),
    LogMessage(
        kind="map",
        cue="expected length",
        pattern=r"ArrowInvalid: Column \d+ named (?P<column>\S+) expected length \d+ but got length \d+",
        text="map() returned columns of different lengths: {column} differs from the old ones.",
        source="pyarrow/table.pxi by datasets/arrow_writer.py",
    ),
    LogMessage(
        kind="image",
        cue=tuple(_AUDIO),
        pattern="|".join(_AUDIO.values()),
        text="An audio file is missing, damaged, or of a format that the library cannot read.",
        source="soundfile.py; torchaudio/_backend/utils.py",
    ),
    LogMessage(
        kind="llama-factory",
        cue=tuple(_TO_LLAMA_FACTORY),
        pattern="|".join(_TO_LLAMA_FACTORY.values()),
        text="The data do not have the format that LLaMA-Factory expects: {said}.",
        source="LLaMA-Factory src/llamafactory/data",
    ),
    LogMessage(
        kind="verl",
        cue=tuple(_TO_VERL),
        pattern="|".join(_TO_VERL.values()),
        text="The data do not have the format that verl expects: {said}.",
        source="verl/utils/dataset/rl_dataset.py, utils/reward_score",
    ),
)
"""Kinds of `DataFileUnreadable`."""
