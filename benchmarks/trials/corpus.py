"""The patients: programs that train slower than they could, each with its well twin in the same file.

Lines that end in `# sick` stand in the sick program only, lines that begin with `# well:` in the well one; the
docstring, which says what is wrong, stands in neither. Every program tells its own step time at its end, as
`step seconds 0.0123`, the first steps left out: that clock is the benchmark's, no probe is near it.
"""

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "patients"
_SAID = re.compile(r"^step seconds (\S+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Patient:
    """One program, sick and well."""

    name: str
    codes: tuple[str, ...]
    """What names the cause: one of them must come first."""
    ranks: int = 1
    needs: str = ""
    """A package beside torch."""

    @property
    def text(self) -> str:
        """The file with both twins."""
        return (FOLDER / f"{self.name}.py").read_text(encoding="utf-8")

    @property
    def what(self) -> str:
        """What is wrong with it, one line."""
        return self.text.split("\n", 1)[0].strip('"').rstrip(".")

    @property
    def arguments(self) -> list[str]:
        """How it is started, after the interpreter."""
        if self.ranks == 1:
            return ["patient.py"]
        return ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={self.ranks}", "patient.py"]

    @property
    def missing(self) -> bool:
        """Whether what it needs is not installed here."""
        return bool(self.needs) and importlib.util.find_spec(self.needs) is None


def twins(text: str) -> tuple[str, str]:
    """The sick and the well program of a file."""
    lines = text.split("\n", 1)[1].lstrip("\n").split("\n")
    sick = [re.sub(r"  # sick$", "", line) for line in lines if not line.lstrip().startswith("# well: ")]
    well = [line.replace("# well: ", "") for line in lines if not line.endswith("  # sick")]
    return "\n".join(sick), "\n".join(well)


def said_seconds(output: str) -> float | None:
    """The step time that a program has told; None where it told none."""
    found = _SAID.findall(output)
    return float(found[-1]) if found else None


PATIENTS = [
    Patient(name="loader_without_workers", codes=("DATA001", "DATA002")),
    Patient(name="workers_of_every_epoch", codes=("DATA003",)),
    Patient(name="checkpoint_of_every_step", codes=("OBS003",)),
    Patient(name="evaluation_of_every_fifth_step", codes=("OBS004",)),
    Patient(name="flops_of_every_step", codes=("OBS001",)),
    Patient(name="anomaly_mode", codes=("OBS005",)),
    Patient(name="collection_of_every_step", codes=("SYNC002",)),
    Patient(name="parameters_one_by_one", codes=("PERF005",)),
    Patient(name="log_forced_to_disk", codes=("OBS007", "OBS002")),
    Patient(name="metrics_row_by_row", codes=("SYNC004", "SYNC001")),
    Patient(name="too_many_threads", codes=("ENV007",)),
    Patient(name="gradients_of_every_micro_batch", codes=("DIST003",), ranks=2),
    Patient(name="barrier_of_every_step", codes=("DIST004",), ranks=2),
    Patient(name="hf_trainer_every_step", codes=("OBS004", "OBS003", "OBS002", "CFG006"), needs="transformers"),
]
