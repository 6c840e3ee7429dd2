"""Files that others name: configs in launch lines and scripts, output folders in configs and options."""

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from gpudoctor.model import ReaderCrashed, Sign, Unavailable
from gpudoctor.model.read_limits import JOB_LINE
from gpudoctor.model.signs.configs import Configs
from gpudoctor.model.signs.job import Launch
from gpudoctor.model.signs.source import Known, Source

# Config files that a launch line or a script names: they belong to the patient without being listed.

_SUFFIXES = (".json", ".yaml", ".yml", ".toml")
_LEVELS = 5
"""Folders above a config in which the root of its project is looked for."""
_ENGINE_KEYWORDS = ("deepspeed", "deepspeed_config", "hf_ds_config", "config_params")


def launch_configs(launches: Iterable[Launch]) -> Iterator[Path]:
    """Configs on launch lines: `--deepspeed ds.json`, `--config_file=fsdp.yaml`, `axolotl train lora.yaml`.

    A path counts from the working folder, else from the job script's, else from the script's own.
    """
    for launch in launches:
        folders = [Path()]
        folders += [Path(launch.path).parent] if launch.path else []
        folders += [folder / Path(launch.script).parent for folder in folders] if launch.script else []
        try:
            words = shlex.split(launch.text) if len(launch.text) <= JOB_LINE.most else launch.text.split()
        except ValueError:  # a quote that never ends
            words = launch.text.split()
        yield from word_configs(words or launch.arguments, folders)


def word_configs(words: Sequence[str], folders: Sequence[Path]) -> Iterator[Path]:
    """Configs among the words of a command line, as far as the files are there.

    Only the values of options that speak of a config or of DeepSpeed, and words that stand alone:
    `--train_file data.json` holds data.
    """
    option = ""
    for word in words:
        name, equals, value = word.partition("=")
        if word.startswith("-") and not equals:
            option = word
            continue
        if word.startswith("-"):
            option, word = name, value
        low = option.lower().replace("-", "_")
        config = not low or ("config" in low and not low.endswith("_name")) or "deepspeed" in low
        if word.endswith(_SUFFIXES) and config:
            found = next((folder / word for folder in folders if os.path.isfile(folder / word)), None)
            if found is not None:
                yield found
        option = ""


def source_configs(source: Source) -> Iterator[Path]:
    """DeepSpeed files that a script hands over, `TrainingArguments(deepspeed="ds.json")`."""
    for script in source.scripts:
        folders = (Path(), Path(script.path).parent)
        for call in script.calls:
            starts = call.name == "deepspeed.initialize"
            for keyword in (*_ENGINE_KEYWORDS, "config") if starts else _ENGINE_KEYWORDS:
                value = call.argument(keyword) if keyword in call.keywords else None
                text = value.value if isinstance(value, Known) else None
                if isinstance(text, str) and text.endswith(_SUFFIXES):
                    yield from (folder / text for folder in folders if os.path.isfile(folder / text))


def config_configs(configs: Configs) -> Iterator[Path]:
    """DeepSpeed files that configs name, `deepspeed: examples/ds_z3.json`.

    The path counts from the working folder, else from the config's own or one above it: projects start from
    their root.
    """
    for file in configs.files:
        for meaning in file.meaning("deepspeed_config"):
            name = meaning.value
            if not isinstance(name, str) or not name.endswith(_SUFFIXES) or meaning.entry.interpolated:
                continue
            own = Path(file.path)
            folders = [Path(), *list(own.parents)[:_LEVELS], *list(own.absolute().parents)[:_LEVELS]]
            found = next((folder / name for folder in folders if os.path.isfile(folder / name)), None)
            if found is not None:
                yield found


# Where the job will write: output folders that its configs and its command line name.

_OPTIONS = ("output_dir", "out_dir", "save_dir", "checkpoint_dir", "ckpt_dir", "save_path")


def output_folders(configs: Sign[Configs], source: Sign[Source]) -> list[tuple[str, str]]:
    """`("output", folder)` for each folder named, once; nothing when neither sign can be taken."""
    folders: list[str] = []
    with suppress(Unavailable, ReaderCrashed):
        for meaning in configs.take().canonical("output_dir"):
            if isinstance(meaning.value, str) and not meaning.entry.interpolated:
                folders.append(meaning.value)
    with suppress(Unavailable, ReaderCrashed):
        for script in source.take().scripts:
            for option in _OPTIONS:
                value = script.arguments.get(option)
                if script.entry and isinstance(value, Known) and isinstance(value.value, str):
                    folders.append(value.value)
    return [("output", folder) for folder in dict.fromkeys(folders) if folder.strip()]
