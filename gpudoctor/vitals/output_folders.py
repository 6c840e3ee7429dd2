"""Where the job will write: output folders that its configs and its command line name."""

from collections.abc import Iterator

from gpudoctor.model import ReaderCrashed, Sign, Unavailable
from gpudoctor.model.signs.configs import Configs
from gpudoctor.model.signs.source import Known, Source

_OPTIONS = ("output_dir", "out_dir", "save_dir", "checkpoint_dir", "ckpt_dir", "save_path")


def output_folders(configs: Sign[Configs], source: Sign[Source]) -> list[tuple[str, str]]:
    """`("output", folder)` for each folder named, once; nothing when neither sign can be taken."""
    folders = [*_in_configs(configs), *_in_options(source)]
    return [("output", folder) for folder in dict.fromkeys(folders) if folder.strip()]


def _in_configs(sign: Sign[Configs]) -> Iterator[str]:
    try:
        meanings = list(sign.take().canonical("output_dir"))
    except (Unavailable, ReaderCrashed):
        return
    for meaning in meanings:
        if isinstance(meaning.value, str) and not meaning.entry.interpolated:
            yield meaning.value


def _in_options(sign: Sign[Source]) -> Iterator[str]:
    try:
        scripts = sign.take().scripts
    except (Unavailable, ReaderCrashed):
        return
    for script in scripts:
        for option in _OPTIONS:
            value = script.arguments.get(option)
            if script.entry and isinstance(value, Known) and isinstance(value.value, str):
                yield value.value
