"""Scripts for tests of source checks: read as `gpudoctor check` reads them, never run."""

import atexit
import re
import textwrap
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from gpudoctor.model import Patient, PatientKind
from gpudoctor.model.signs.source import Source
from gpudoctor.testing import make_patient

PATIENTS = Path(__file__).parent.parent / "patients" / "source"


def read_script(script: Path | str, arguments: Sequence[str] = ()) -> Source:
    """The source sign of a script file, or of a script's text; `arguments` as on its command line."""
    from gpudoctor.vitals.source import read_source

    if isinstance(script, Path):
        return read_source([script], {script: tuple(arguments)})
    with TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        path.write_text(textwrap.dedent(script), encoding="utf-8")
        return read_source([path], {path: tuple(arguments)})


def script_patient(script: Path | str, arguments: Sequence[str] = (), **signs: object) -> Patient:
    """A patient whose source is the script; `signs` as in `gpudoctor.testing.make_patient`."""
    return make_patient(source=read_script(script, arguments), kind=PatientKind.SCRIPT, **signs)  # type: ignore[arg-type]


_VARIANT = re.compile(r"( *)# ((?:sick|healthy)_\w+)(:| \+) ?(.*)")
"""Another script in this one: `# healthy_x: code` stands for the line above, `# healthy_x + code` comes after it."""


@cache
def scripts_on_file(code: str) -> dict[str, Path]:
    """The scripts on file of a check by name, those that are written as variants of another one included."""
    found = {path.stem: path for path in (PATIENTS / code).glob("*_*.py")}
    for path in list(found.values()):
        text = path.read_text(encoding="utf-8")
        for name in {match[2] for match in _VARIANT.finditer(text)}:
            found[name] = Path(_folder().name, code, f"{name}.py")
            found[name].parent.mkdir(exist_ok=True)
            found[name].write_text(_variant(text, name), encoding="utf-8")
    return dict(sorted(found.items()))


@cache
def _folder() -> TemporaryDirectory[str]:
    made = TemporaryDirectory()
    atexit.register(made.cleanup)
    return made


def _variant(text: str, name: str) -> str:
    lines: list[str] = []
    for line in text.splitlines():
        match = _VARIANT.fullmatch(line)
        if match is None:
            lines.append(line)
        elif match[2] == name:
            if match[3] == ":":
                lines.pop()
            lines += [match[1] + match[4]] if match[4] else []
    return "\n".join([*lines, ""])


def sick_scripts(code: str) -> list[Path]:
    """The scripts on file that have the ailment."""
    return [path for name, path in scripts_on_file(code).items() if name.startswith("sick_")]


def healthy_scripts(code: str) -> list[Path]:
    """The scripts on file that come near the ailment and must stay silent."""
    return [path for name, path in scripts_on_file(code).items() if name.startswith("healthy_")]
