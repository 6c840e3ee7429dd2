"""Config texts as patients."""

from pathlib import Path
from textwrap import dedent

from gpudoctor.model import Patient, PatientKind
from gpudoctor.model.signs.configs import ConfigFile, Configs
from gpudoctor.testing import make_patient
from gpudoctor.vitals.configs.reading import parse


def config(text: str, path: str = "config.yaml") -> ConfigFile:
    """The config that an indented text holds."""
    return parse(path, dedent(text).lstrip("\n"))


def configs(*texts: str, path: str = "config.yaml") -> Configs:
    """Several texts as the config files of one job; all but the first are numbered."""
    stem, dot, suffix = path.rpartition(".")
    names = [path] + [f"{stem}-{index}{dot}{suffix}" for index in range(2, len(texts) + 1)]
    return Configs(files=tuple(config(text, name) for text, name in zip(texts, names, strict=True)))


PATIENTS = Path(__file__).parent.parent / "patients" / "configs"


def config_patient(*files: Path | str | ConfigFile, **signs: object) -> Patient:
    """A patient whose configs are the files, or the indented texts."""
    read = tuple(_file(file) for file in files)
    return make_patient(configs=Configs(files=read), kind=PatientKind.SCRIPT, **signs)  # type: ignore[arg-type]


def _file(file: Path | str | ConfigFile) -> ConfigFile:
    if isinstance(file, Path):
        return parse(str(file), file.read_text("utf-8"))
    return config(file) if isinstance(file, str) else file
