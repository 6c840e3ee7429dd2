"""A whole job as a patient: scripts, configs and a launch line, read as `gpudoctor check` reads them."""

import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from weakref import WeakKeyDictionary

from scripts import healthy_scripts, sick_scripts

from gpudoctor.model import Patient, PatientKind, Sign
from gpudoctor.model.signs.configs import Configs
from gpudoctor.model.signs.job import Job, Launch, Profile
from gpudoctor.testing import make_patient
from gpudoctor.vitals.configs.reading import parse
from gpudoctor.vitals.memory.reader import read_memory
from gpudoctor.vitals.source import read_source

PATIENTS = Path(__file__).parent.parent / "patients"
SCRIPT = ".py"


def patient_of(files: dict[str, str], launch: Launch | None = None, **signs: object) -> Patient:
    """A patient of files by name; `.py` files are scripts, the others configs."""
    found = {name: textwrap.dedent(text).lstrip("\n") for name, text in files.items()}
    scripts = {name: text for name, text in found.items() if name.endswith(SCRIPT)}
    configs = [parse(name, text) for name, text in found.items() if not name.endswith(SCRIPT)]
    if configs:
        signs["configs"] = Configs(files=tuple(configs))
    if scripts:
        with TemporaryDirectory() as folder:
            for name, text in scripts.items():
                Path(folder, name).write_text(text, encoding="utf-8")
            signs["source"] = read_source([Path(folder, name) for name in scripts], {})
            if launch is not None:  # it stands beside the scripts
                launch = replace(launch, path=str(Path(folder, launch.path or "job.sh")))
    if launch is not None:
        signs["job"] = Job(profile=Profile.NONE, launches=(launch,))
    return make_patient(kind=PatientKind.SCRIPT, **signs)  # type: ignore[arg-type]


def launch_line(text: str, *, ranks: int | None = None, path: str = "job.sh") -> Launch:
    """A launch line `LAUNCHER [options] SCRIPT words...` of a job script."""
    words = text.split()
    at = next((i for i, word in enumerate(words) if word.endswith(SCRIPT)), len(words) - 1)
    return Launch(
        launcher=words[0],
        script=words[at],
        module=None,
        arguments=tuple(words[at + 1 :]),
        ranks_per_node=ranks,
        nodes=None,
        path=path,
        line=1,
        text=text,
        told={"config": words[3]} if "--config_file" in words else {},
    )


def job_files(code: str, state: str) -> Iterator[tuple[str, list[Path]]]:
    """Names of the jobs on file, each with its files: those that share a stem are one job."""
    groups: dict[str, list[Path]] = {}
    for path in sorted((PATIENTS / "configs" / code).glob(f"{state}_*")):
        groups.setdefault(f"configs-{path.stem}", []).append(path)
    scripts = {"sick": sick_scripts, "healthy": healthy_scripts}[state](code)
    groups |= {f"source-{path.stem}": [path] for path in scripts}
    yield from groups.items()


def job_patient(paths: list[Path], **signs: object) -> Patient:
    """The patient of such a job."""
    configs = [parse(str(path), path.read_text("utf-8")) for path in paths if path.suffix != SCRIPT]
    scripts = [path for path in paths if path.suffix == SCRIPT]
    if configs:
        signs["configs"] = Configs(files=tuple(configs))
    if scripts:
        signs["source"] = read_source(scripts, {})
    return make_patient(kind=PatientKind.SCRIPT, **signs)  # type: ignore[arg-type]


def memory_patient(
    files: dict[str, str], gpu: str | None = "A100 80GB", gpus: int | None = None, **more: object
) -> Patient:
    """A patient of files whose jobs are meant for a card, as `gpudoctor check --gpu NAME --gpus N` makes it."""
    return with_memory(patient_of(files, **more), gpu, gpus)  # type: ignore[arg-type]


MEMORY: WeakKeyDictionary[Patient, tuple[str | None, int | None]] = WeakKeyDictionary()
"""The card and the number of GPUs that a patient's memory was asked for."""


def with_memory(patient: Patient, gpu: str | None, gpus: int | None) -> Patient:
    """The patient, with its memory worked out for a card when it is first asked for."""
    memory = Sign("the memory", lambda: read_memory(patient, gpu, gpus))
    patient.signs = replace(patient.signs, memory=memory)
    MEMORY[patient] = (gpu, gpus)
    return patient
