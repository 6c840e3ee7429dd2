"""Scripts for tests of source checks: read as `gpudoctor check` reads them, never run."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

from fleeting import fleeting_folder

from gpudoctor.model import Patient, PatientKind
from gpudoctor.model.signs.source import Source
from gpudoctor.testing import make_patient

PATIENTS = Path(__file__).parent.parent / "patients" / "source"


def read_script(script: Path | str, arguments: Sequence[str] = ()) -> Source:
    """The source sign of a script file, or of a script's text; `arguments` as on its command line."""
    from gpudoctor.vitals.source import read_source

    if isinstance(script, Path):
        return read_source([script], {script: tuple(arguments)})
    with fleeting_folder() as folder:
        path = Path(folder) / "train.py"
        path.write_text(textwrap.dedent(script), encoding="utf-8")
        return read_source([path], {path: tuple(arguments)})


def script_patient(script: Path | str, arguments: Sequence[str] = (), **signs: object) -> Patient:
    """A patient whose source is the script; `signs` as in `gpudoctor.testing.make_patient`."""
    return make_patient(source=read_script(script, arguments), kind=PatientKind.SCRIPT, **signs)  # type: ignore[arg-type]


def sick_scripts(code: str) -> list[Path]:
    """The scripts on file that have the ailment."""
    return sorted((PATIENTS / code).glob("sick_*.py"))


def healthy_scripts(code: str) -> list[Path]:
    """The scripts on file that come near the ailment and must stay silent."""
    return sorted((PATIENTS / code).glob("healthy_*.py"))
