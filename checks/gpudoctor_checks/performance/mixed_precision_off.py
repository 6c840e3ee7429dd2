"""PERF001 mixed-precision-off."""

import re
from collections.abc import Iterator, Sequence

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import Run, spots
from gpudoctor.analysis.source.call_frequency import MEASUREMENT_STEPS, brief
from gpudoctor.analysis.source.device_tensors import Target
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.analysis.source.loaders import LoaderRole, loaders
from gpudoctor.analysis.source.networks import Network, network
from gpudoctor.analysis.source.precision import (
    ConfigTold,
    DeclaredPrecision,
    Precision,
    config_precision,
    keeps_stored_dtype,
    told_precision,
)
from gpudoctor.analysis.source.target_versions import meant_version, predates
from gpudoctor.lang import say
from gpudoctor.model import Detail, Evidence, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.cuda import numbers
from gpudoctor.model.job_devices import lowest_capability
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind, Configs, Entry
from gpudoctor.model.signs.source import Known
from gpudoctor.text import chained, percent
from gpudoctor_checks.run_check import RunCheck
from gpudoctor_checks.thresholds import COMPUTE_SHARE

_SMALL_IMAGES = re.compile(r"torchvision\.datasets\.(\w*MNIST|USPS|Omniglot)$")
_CLASSIFIER = re.compile(
    r"torchvision\.models\.(?!detection|segmentation|video|optical_flow|vit|swin|maxvit)(\w+\.)*\w+$"
)

"""torchvision's convolutional networks for one label an image."""
_TINY = re.compile(r"tiny|dummy", re.IGNORECASE)
_VOLTA = 7.0
"""Compute capability from which on cards have tensor cores."""
_KEEPS_STORED = (5,)
"""The transformers whose default dtype is that of the checkpoint."""
_AUTOCAST = "1.6"
"""The torch that brought it."""
_TRL_KEYS = ("use_peft", "dataset_name", "packing", "beta", "max_prompt_length", "assistant_only_loss")


@frozen
class MixedPrecisionOffDetail(Detail):
    """What the rule reads."""

    kind: str | None = None
    """`source` or `config`; None where only a run was seen."""
    decides: bool | None = None
    """A line of the script decides on the precision."""
    keyword: str | None = None
    """The keyword to set there."""
    value: str | None = None
    """Its new value."""
    line: int | None = None
    """Of the training loop."""
    large: bool | None = None
    """There is much to gain."""


class MixedPrecisionOff(RunCheck):
    """The training computes in float32 on a card whose tensor cores are made for 16 bits.

    What it finds:
        - A training program on CUDA with a large network: one of a library, or millions of weights. It uses
          neither autocast nor half types nor a precision setting of its engine.
        - A setting of float32 (`precision=32`, `bf16: false`, `mixed_precision: no`,
          `autocast(enabled=False)`).
    Why it hurts:
        Tensor cores multiply bfloat16 and float16 8 to 16 times faster than other cores multiply float32.
        Activations need half the memory. Convolutional and attention networks train 1.3 to 3 times faster.
    How it knows:
        From the source with its imports and command-line defaults, and from the configs; weights are counted
        from the layers' arguments. With a GPU here its compute capability must be 7.0 or more.
    False alarms:
        Runs bound by their input or by launches gain little; some science needs float32. Networks below a
        million weights are not reported, nor are programs whose precision a launcher or a library chooses.
        Neither are programs for a torch before 1.6, which has no autocast. With L-BFGS it is a note, because
        its line search compares nearly equal losses. It is also a note for a library's classifier with a few
        images per batch, which waits for its launches. A network that may not be the one that trains is a note
        too. So is a config that names no model.
    Remedies:
        Use bfloat16 autocast from compute capability 8.0 on, and float16 with a GradScaler on 7.x.
    References:
        - https://pytorch.org/docs/stable/notes/amp_examples.html
    """

    on_gpu = True
    code = "PERF001"
    judges = "precision"
    reads = frozenset({Reads.SOURCE, Reads.CONFIG, Reads.RECORDING})
    thresholds = (
        COMPUTE_SHARE,
        Threshold(
            "weights",
            5e6,
            "{weights}",
            "convention: ResNet-18 has 11 million, networks for 28 x 28 digits one million",
            "From this many weights in products and convolutions on, float32 is a warning.",
        ),
        Threshold(
            "weights_noted",
            1e6,
            "{weights}",
            "convention: below it a step is launch-bound, which precision does not change",
            "From this many weights on it is a note.",
        ),
        Threshold(
            "few_images",
            4,
            "{images}",
            "convention: ResNet-18 computes for 2 to 3 ms on four images, as long as its launches",
            "A library's image classifier with batches of at most this many is a note.",
        ),
        MEASUREMENT_STEPS,
    )

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        process = run.lead.process
        if of_run.lowered(process) is None or of_run.on_gpu(process) is None:
            yield from suspected
            return
        card, compute = of_run.capability(process), run.share("forward", "backward")
        if of_run.lowered(process) or not of_run.on_cuda(process) or (card is not None and card < _VOLTA):
            return
        if compute < self.limit("compute_share"):
            return
        model = of_run.main_model(process)
        yield confirmed(
            self,
            suspected,
            say(
                "{model} computes in float32 on a card with tensor cores, without autocast. "
                "Forward and backward take {share} of the time.",
                model=model.get("name") if model is not None else say("The model"),
                share=percent(compute),
            ),
            evidence=(*spots(patient, of_run.model_place(process)), run.measured("compute_share", compute)),
            severity=Severity.WARNING,
            detail=MixedPrecisionOffDetail(),
        )

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        card = lowest_capability(patient)
        if card is not None and card < _VOLTA:
            return
        source, configs = patient.source_and_configs
        programs = training_programs(source)
        if config_precision(configs).lowered:
            return
        own = [file for file in configs.files if _may_decide(patient, programs, file)]
        said = config_precision(Configs(files=tuple(own)))
        found: dict[object, Finding] = {}
        for program in programs:
            if any(predates(patient, script, _AUTOCAST) for script in program.scripts):
                continue
            version = numbers(meant_version(patient, "transformers", program.entry.path).version or "")
            for finding in self._from_source(program, said, version >= _KEEPS_STORED if version else None):
                found.setdefault(finding.span, finding)
        yield from found.values() if found else self._from_configs(said, own)

    def _from_source(self, program: Program, said: ConfigTold, stored: bool | None) -> Iterator[Finding]:
        """`stored`: whether transformers loads a checkpoint in its own dtype; None if its version is not known."""
        if program.target not in (Target.CUDA, Target.MAYBE):
            return
        told = told_precision(program)
        full = said.full[:1] if told.precision is Precision.UNKNOWN else ()
        if not (told.full and (told.span is not None or program.starts)) and not full:
            return
        built = network(program)
        loaded = told.stored or (built is not None and keeps_stored_dtype(built.script, built.span))
        if loaded and stored is True:
            return
        severity = self._worth(program, built, told)
        if severity is None:
            return
        if loaded and stored is None:
            severity = Severity.NOTE
        loops = list(program.loops)
        if all(brief(script, loop, self.limit("measurement_steps")) for script, loop in loops):
            return
        evidence: list[Evidence] = [told.span] if told.span is not None else []
        evidence += [file.setting(entry) for file, entry in full]
        evidence.append(loops[0][1].span)
        if built is not None and built.span not in evidence:
            evidence.append(built.span)
        who = built.size_text if built is not None else say("The network")
        yield self.finding(
            say("{network} computes in float32: {why}.", network=who, why=_says(told, full)),
            evidence=tuple(evidence),
            severity=severity,
            subject=program.entry.path,
            detail=MixedPrecisionOffDetail(
                kind="config" if full and told.call is None else "source",
                decides=told.call is not None,
                keyword=told.keywords[0][0] if told.keywords else "",
                value=told.keywords[0][1] if told.keywords else "",
                line=loops[0][1].span.line,
                large=severity is Severity.WARNING,
            ),
        )

    def _worth(self, program: Program, built: Network | None, told: DeclaredPrecision) -> Severity | None:
        """How much there is to gain; None for nothing that could be told."""
        # The losses that L-BFGS compares differ in digits that 16 bits do not have.
        searches = "torch.optim.LBFGS" in program.called
        least = Severity.NOTE if told.precision is Precision.SWITCHED_OFF or searches else Severity.WARNING
        if built is not None and not built.certain:
            least = Severity.NOTE  # the largest that it has, and perhaps not the one that trains
        if built is None:
            return Severity.NOTE if told.call is not None and told.keywords else None
        small = any(_SMALL_IMAGES.match(name) for name in program.called)
        if built.library and not built.tiny:
            few = bool(_CLASSIFIER.match(built.name)) and self._few_images(program)
            return Severity.NOTE if small or few else least
        if built.library or (small and built.parameters < self.limit("weights")):
            return None
        if built.parameters >= self.limit("weights"):
            return least
        if built.parameters >= self.limit("weights_noted"):
            return Severity.NOTE
        return None

    def _few_images(self, program: Program) -> bool:
        """Whether every training loader gives so few images at once that a step waits for launches."""
        sizes = [
            loader.call.argument("batch_size", 1)
            for loader in loaders(program.source)
            if loader.role is LoaderRole.TRAINING and not loader.engine
        ]
        known = [size.value for size in sizes if isinstance(size, Known) and isinstance(size.value, int)]
        return bool(known) and len(known) == len(sizes) and max(known) <= self.limit("few_images")

    def _from_configs(self, said: ConfigTold, files: Sequence[ConfigFile]) -> Iterator[Finding]:
        """Configs alone: only what they write themselves."""
        for file in files:
            entries = [entry for other, entry in said.full if other is file]
            if not _decides(file, entries):
                continue
            names = [meaning.value for meaning in file.meaning("model") if isinstance(meaning.value, str)]
            large = bool(names) and not any(map(_TINY.search, names))
            evidence: tuple[Evidence, ...] = tuple(file.setting(entry) for entry in entries)
            words = chained(
                dict.fromkeys(say("{key} is {value}", key=entry.key, value=_plain(entry)) for entry in entries[:2])
            )
            yield self.finding(
                say("{settings}: the training computes in float32.", settings=words),
                evidence=evidence,
                severity=Severity.WARNING if large else Severity.NOTE,
                subject=file.path,
                detail=MixedPrecisionOffDetail(kind="config", decides=False, keyword="", value="", large=large),
            )


def _may_decide(patient: Patient, programs: Sequence[Program], file: ConfigFile) -> bool:
    """Whether a file may settle the precision: beside a program only one that the user named with it, where no
    call tells it. An argument of Accelerator stands over accelerate's file."""
    if len(programs) != 1:
        return not programs
    given = file.kind is ConfigKind.ACCELERATE and any(
        call.name == "accelerate.Accelerator" and (call.open_ended or call.argument("mixed_precision") is not None)
        for _, call in programs[0].calls
    )
    from gpudoctor.analysis.source.config_links import named

    return not given and named(patient, file.path) and told_precision(programs[0]).precision is Precision.UNKNOWN


def _decides(file: ConfigFile, entries: list[Entry]) -> bool:
    """Whether what the file writes settles float32 for its tool."""
    lasts = {entry.parts[-2] if entry.last == "enabled" and len(entry.parts) > 1 else entry.last for entry in entries}
    if file.kind in (ConfigKind.LLAMA_FACTORY, ConfigKind.AXOLOTL):
        return False  # their defaults follow the checkpoint and the card
    if file.kind is ConfigKind.HUGGINGFACE:
        trl = any(file.has(key) for key in _TRL_KEYS)
        return "bf16" in lasts if trl else bool(lasts & {"bf16", "fp16"})
    if file.kind is ConfigKind.ACCELERATE:
        return "mixed_precision" in lasts and file.value("use_cpu") is not True
    return bool(lasts)


def _plain(entry: Entry) -> str:
    return str(entry.value).lower() if isinstance(entry.value, bool) else str(entry.value)


def _says(told: DeclaredPrecision, full: tuple[tuple[ConfigFile, Entry], ...]) -> str:
    if full:
        file, entry = full[0]
        return say("{key} is {value} in {path}", key=entry.key, value=_plain(entry), path=file.path)
    if told.span is None or told.call is None:
        return say("nothing enables mixed precision")
    line = told.span.line
    if told.precision is Precision.SAID_FULL:
        return say("line {line} sets it", line=line)
    if told.precision is Precision.SWITCHED_OFF:
        return say("mixed precision (line {line}) is off by default", line=line)
    return say("{method} (line {line}) gets no precision", method=told.call.method, line=line)
