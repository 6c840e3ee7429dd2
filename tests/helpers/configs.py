"""Config texts as patients."""

from textwrap import dedent

from gpudoctor.model.signs.configs import ConfigFile, Configs
from gpudoctor.vitals.configs import parse


def config(text: str, path: str = "config.yaml") -> ConfigFile:
    """The config that an indented text holds."""
    return parse(path, dedent(text).lstrip("\n"))


def configs(*texts: str, path: str = "config.yaml") -> Configs:
    """Several texts as the config files of one job; all but the first are numbered."""
    stem, dot, suffix = path.rpartition(".")
    names = [path] + [f"{stem}-{index}{dot}{suffix}" for index in range(2, len(texts) + 1)]
    return Configs(files=tuple(config(text, name) for text, name in zip(texts, names, strict=True)))
