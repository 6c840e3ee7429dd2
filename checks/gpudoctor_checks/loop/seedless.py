"""LOOP008: a program trains and never sets a random seed."""

import re
from collections.abc import Iterator

from gpudoctor.analysis.source.checkpoints import Saving, saving
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.analysis.source.syntax import says
from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Measurement, Patient, Provenance, Reads, Severity
from gpudoctor.model.signs.source import Loop, Script

_SEEDS = re.compile(r"seed|determinis|reproduc", re.IGNORECASE)
_DRAWS = re.compile(r"^(torch|numpy\.random|random)\.(rand\w*|normal|uniform|standard_normal|linspace|default_rng)$")
_SEEDED_ENGINES = (
    "transformers.", "trl.", "sentence_transformers.", "setfit.", "unsloth.", "composer.", "ultralytics.",
    "mmengine.", "mmcv.", "nemo.", "torchtune.", "llamafactory.", "axolotl.",
)  # fmt: skip
"""Engines that set a seed by themselves."""


class Seedless(Check):
    """A program trains and never sets a random seed.

    What it finds:
        A program with a training loop in which nothing sets a seed. It has no `torch.manual_seed`,
        `seed_everything`, `set_seed` or the like, and no `seed` option, argument or config key.
    Why it hurts:
        Weights, shuffling, dropout and augmentation differ from run to run. A result cannot be repeated, and a
        bug cannot be caught again. Two runs that differ in one setting also differ in luck.
    How it knows:
        It searches for anything about a seed or determinism, in all modules of the program and in its configs.
        One note for a program.
    False alarms:
        Engines that set a seed by themselves are not findings, such as transformers' Trainer (seed 42) and
        LightningCLI. Neither are programs that draw their data at random and keep no weights. A helper of another
        package may set a seed under another name.
    Remedies:
        `torch.manual_seed(0)` before the model is built.
    References:
        - https://docs.pytorch.org/docs/stable/notes/randomness.html
    """

    code = "LOOP008"
    reads = frozenset({Reads.SOURCE})
    severity = Severity.NOTE

    def examine(self, patient: Patient) -> Iterator[Finding]:
        configs = optional(lambda: patient.configs)
        entries = [entry for file in configs.files for entry in file.entries.values()] if configs is not None else []
        if any(_SEEDS.search(entry.last) for entry in entries):
            return
        for program in training_programs(patient.source):
            found = next(iter(program.loops), None)
            if found is None or not program.starts or _rehearses(program):
                continue
            if not any(says(script, _SEEDS) for script in program.scripts) and not _engine(program):
                yield self._found(program, *found)

    def _found(self, program: Program, script: Script, loop: Loop) -> Finding:
        files = " ".join(item.path for item in program.scripts[:8])
        return self.finding(
            say("The program trains and never sets a random seed: every run gives different results."),
            evidence=(
                loop.span,
                Measurement("calls_that_set_a_seed", 0, "{call}", Provenance.DECLARED, f"grep -n -i seed {files}"),
            ),
            subject=program.entry.path,
            detail=Facts(script=script.path),
        )


def _rehearses(program: Program) -> bool:
    """Whether a program trains on numbers that it draws, and keeps no weights: nobody waits for its result."""
    draws = any(_DRAWS.match(call.name) for script in program.scripts for call in script.calls)
    return draws and saving(program).how is Saving.NOTHING


def _engine(program: Program) -> bool:
    """Whether every training loop is an engine's that sets a seed, or the seed may be set out of sight."""
    cli = any(True for script in program.scripts for _ in script.calls_to(".LightningCLI"))
    return cli or all((loop.engine or "").startswith(_SEEDED_ENGINES) for _, loop in program.loops)
