"""Thresholds, effects, costs, evidence and steps in words, for every reporter."""

import math
import re
import shlex
from collections import Counter

from gpudoctor.lang import ENGLISH, current_language, rendered, template, term, tr, word
from gpudoctor.lang.message import concatenated, row
from gpudoctor.lang.wrapping import is_wide
from gpudoctor.model import (
    Applicability,
    Confidence,
    Cost,
    Crashed,
    Effect,
    Evidence,
    Finding,
    Found,
    LogLine,
    Measurement,
    Outcome,
    Passed,
    Provenance,
    Ranked,
    Remedy,
    Report,
    Setting,
    Skipped,
    SourceSpan,
)
from gpudoctor.text import capitalised, count, duration, interval, percent, quantity, size


def subject_facts(report: Report) -> list[str]:
    """What was examined: its title, and a run's numbers, or what was read, cards, details."""
    parts = [report.subject.title]
    if report.run is not None:
        from gpudoctor.report.run_words import run_facts

        timed = report.trial is not None and report.trial.step_seconds is not None
        return [*parts, *([tr("first run")] if timed else []), *run_facts(report.run)]
    if report.log is not None:
        from gpudoctor.report.run_words import read_words

        parts.append(read_words(report.log))
    if report.preflight is not None:
        from gpudoctor.report.preflight_words import preflight_facts

        return [*parts, *preflight_facts(report.preflight)]
    cards = Counter(report.subject.gpus)
    parts += [name if number == 1 else f"{number} x {name}" for name, number in cards.items()]
    return parts + [f"{word(label)} {rendered(value)}" for label, value in report.subject.details]


def launch_rows(report: Report) -> list[str]:
    """What the job's script will start, a line each; JSON has all of them."""
    if not report.launch:
        return []
    from gpudoctor.analysis.workload import launch_words

    named = [(row.script or row.module, launch_words(row)) for row in report.launch[:4]]
    return [tr("launch: {row} ({script})", row=row, script=script) for script, row in named]


def threshold_text(value: float, unit: str) -> str:
    """A threshold as a settings file has it, and as people say it where that differs: "86400 (24 h)"."""
    raw = f"{value:.0f}" if value == round(value) else f"{value:g}"
    spoken = quantity(value, unit)
    return raw if spoken in (raw, "0 %") else f"{raw} ({spoken})"


def effect_text(effect: Effect) -> str:
    """An expected effect: "1.9x to 2.3x", "up to 2.4x", "-9.8 GiB memory"."""
    if effect.unit == "x":
        return _factor_text(effect)
    if effect.unit not in ("B", "s"):
        low, high = (quantity(end, effect.unit) for end in (effect.low, effect.high))
        return low if low == high else tr("{low} to {high}", low=low, high=high)
    show = size if effect.unit == "B" else duration
    low, high = show(effect.low), show(effect.high)
    text = low if low == high else tr("{low} to {high}", low=low, high=high)
    return tr("{text} {quantity}", text=text, quantity=effect.quantity.replace("_", " "))


def confidence_text(finding: Finding) -> str:
    """How sure we are, in one word: suspected, probable, confirmed, or measured when a number proves it."""
    if finding.confidence is not Confidence.CONFIRMED:
        return word(finding.confidence.value)
    measured = any(
        isinstance(item, Measurement) and item.provenance is Provenance.MEASURED for item in finding.evidence
    )
    return tr("measured") if measured else tr("confirmed")


def cost_text(cost: Cost) -> str:
    """What a finding costs, or "" when nobody knows."""
    parts = [cost.breaks] if cost.breaks else []
    if cost.step_share is not None:
        parts.append(tr("{share} of step time", share=percent(cost.step_share)))
    if cost.host_share is not None:
        parts.append(tr("{share} of the host's time in a step; its gain is unknown", share=percent(cost.host_share)))
    if cost.bytes is not None:
        parts.append(size(cost.bytes))
    return concatenated(", ", parts)


_NAMED_PLACES = re.compile(r" ?[(\uff08]([^()\uff08\uff09]*:\d+)[)\uff09]")
_BETWEEN = re.compile(", | and |\u3001|\u548c")


def finding_text(finding: Finding, most: int | None = None) -> str:
    """The message without places that its first so much evidence names anyway."""
    shown = {evidence_place(item) for item in finding.evidence[:most]}

    def kept(match: re.Match[str]) -> str:
        places = _BETWEEN.split(match[1])
        return "" if shown.issuperset(places) else match[0]

    return _NAMED_PLACES.sub(kept, finding.message)


def evidence_place(evidence: Evidence) -> str:
    """Where the evidence stands: "train.py:88", "ds.json:12", "environment", or the quantity's name."""
    match evidence:
        case SourceSpan():
            return f"{evidence.path}:{evidence.line}"
        case Setting():
            if evidence.path is None:
                return evidence.origin
            return evidence.path if evidence.line is None else f"{evidence.path}:{evidence.line}"
        case LogLine():
            return evidence.origin if evidence.line is None else f"{evidence.origin}:{evidence.line}"
        case Measurement():
            return measurement_title(evidence.name)


def measurement_title(name: str) -> str:
    """What was measured, in the reader's language: `data_wait_share` is `data wait share`.

    A name may have those of nodes and cards in it: the longest runs of words that we know are translated, the
    others stay.
    """
    words = name.replace("_", " ").split(" ")
    if current_language() == ENGLISH:
        return " ".join(words)
    said: list[str] = []
    while words:
        runs = (" ".join(words[:end]) for end in range(len(words), 0, -1))
        known = next((run for run in runs if word(run) != run), words[0])
        said.append(word(known))
        words = words[known.count(" ") + 1 :]
    return rendered(row(" ", said))


def evidence_content(evidence: Evidence) -> str:
    """What the evidence says: the source line, the setting, the log line or the value with its provenance."""
    match evidence:
        case SourceSpan():
            return evidence.text
        case Setting():
            return f"{evidence.key} = {evidence.value}"
        case LogLine():
            return evidence.text
        case Measurement():
            value = quantity(evidence.value, evidence.unit)
            return tr("{value} ({provenance})", value=value, provenance=term(evidence.provenance.value))


def evidence_command(evidence: Evidence) -> str | None:
    """The command that shows the evidence by hand, where there is one."""
    return evidence.reproduce if isinstance(evidence, Measurement | Setting) else None


def outcome_words(outcome: Outcome) -> tuple[str, str]:
    """What a check came to, and how much or why."""
    match outcome:
        case Passed():
            silenced = tr("{findings} silenced", findings=count(outcome.silenced, "finding"))
            return word("passed"), silenced if outcome.silenced else ""
        case Found():
            return word("found"), count(len(outcome.findings), "finding")
        case Skipped():
            return tr("not selected") if outcome.deselected and not outcome.held else word("skipped"), outcome.reason
        case Crashed():
            return word("crashed"), outcome.error


def proof_flags(report: Report) -> str | None:
    """The flags of `verify` that try a remedy of a run, each with a blank before it; None if none can be tried."""
    if any(remedy.edits for remedy in _remedies(report, of_runs=True)):
        return " --unsafe"
    return "" if any(remedy.override for item in report.findings for remedy in item.remedies) else None


def _remedies(report: Report, *, of_runs: bool) -> list[Remedy]:
    """Those of findings that `check` can have, or of those that only a run shows."""
    in_runs = {check.code for check in report.checks if check.in_runs}
    findings = [item for item in report.findings if (item.finding.code in in_runs) is of_runs]
    return [remedy for item in findings for remedy in item.remedies]


def diff_flags(report: Report) -> str:
    """The flags of `check` that print the edits of a report with patches; "" if they would print none."""
    fit = {remedy.applicability for remedy in _remedies(report, of_runs=False) if remedy.patch}
    if Applicability.SAFE in fit:
        return "--diff"
    return "--diff --unsafe" if Applicability.UNSAFE in fit else ""


def is_fixable(report: Report, item: Ranked) -> bool:
    """Whether `check --fix` mends a finding of this report: of what was run, a person decides."""
    safe = any(remedy.patch and remedy.applicability is Applicability.SAFE for remedy in item.remedies)
    return safe and report.subject.kind not in _NOT_FILES


_NOT_FILES = frozenset({"process", "recording"})
"""What was watched is a pid, what was recorded is a run; what can be mended is its script."""


def fix_command(report: Report) -> str:
    """What prints the edits of a report; "" where none would be printed, or nothing of it is a file."""
    edits = [edit for remedy in _remedies(report, of_runs=False) for edit in remedy.edits]
    named = () if report.subject.kind in _NOT_FILES else report.subject.targets
    paths, flags = named or tuple(dict.fromkeys(edit.path for edit in edits)), diff_flags(report)
    return f"gpudoctor check {' '.join(map(shlex.quote, paths))} {flags}" if paths and flags else ""


def counts(report: Report) -> list[str]:
    """How many checks passed, were skipped, crashed, were silenced; no zeros but that of the first."""
    summary = report.summary
    said = [tr("{checks} passed", checks=count(summary.passed, "check"))]
    said += [tr("{skipped:,} skipped", skipped=summary.skipped)] if summary.skipped else []
    said += [tr("{crashed:,} crashed", crashed=summary.crashed)] if summary.crashed else []
    return said + ([tr("{silenced:,} silenced", silenced=summary.silenced)] if summary.silenced else [])


RISKS = {
    Applicability.SAFE: template("none (same results)"),
    Applicability.UNSAFE: template("results may change"),
    Applicability.DISPLAY_ONLY: template("check by hand"),
}
"""What each applicability means to the person who makes the change."""


_FIRST_WORD = re.compile(r"[a-z]+(?: |$|, )")


def fix_title(remedy: Remedy) -> str:
    """The title of a remedy with a capital letter; a title that is code to copy stays as it is."""
    title = remedy.title
    begins_small = _FIRST_WORD.match(title) and not is_wide(title)
    return capitalised(title) if begins_small and not is_code(title) else title


def remedy_gain(remedy: Remedy) -> list[str]:
    """What a remedy is worth, with labels: ["gain: 1.9x to 2.3x"]; empty if that is not known."""
    proof = remedy.proof
    if proof is None and remedy.effect is None and not remedy.bounded:
        return [tr("gain: unknown")]
    if proof is None:
        return [tr("gain: {effect}", effect=effect_text(remedy.effect))] if remedy.effect else []
    gone = proof.cure.gone if proof.cure is not None else None
    parts = [] if gone is None else [tr("trial: the finding is gone") if gone else tr("trial: the finding remains")]
    if not math.isnan(proof.ratio):
        measured = {"ratio": proof.ratio, "interval": interval(proof.low, proof.high)}
        if proof.loss == "moved":
            parts.append(tr("trial: the loss moved, {ratio:.2f}x measured ({interval})", **measured))
        elif proof.undecided:
            parts.append(tr("trial: undecided, its runs differ too much"))
        elif proof.verdict == "no clear difference":
            parts.append(tr("trial: no clear difference, {ratio:.2f}x measured ({interval})", **measured))
        elif proof.verdict == "slower":
            parts.append(tr("trial: slower, {ratio:.2f}x measured ({interval})", **measured))
        else:
            parts.append(tr("gain: {ratio:.2f}x measured ({interval})", **measured))
    return parts


def remedy_facts(remedy: Remedy) -> list[str]:
    """Gain, risk and effort: ["gain: 1.9x to 2.3x", "risk: none (same results)", "effort: one line"]."""
    moved = remedy.proof is not None and remedy.proof.loss == "moved"
    risk = RISKS[Applicability.UNSAFE if moved else remedy.applicability]
    return [
        *remedy_gain(remedy),
        tr("risk: {risk}", risk=word(risk)),
        tr("effort: {effort}", effort=word(remedy.effort.value)),
    ]


def facts_line(remedy: Remedy) -> str:
    """The same on one line."""
    return concatenated(" · ", remedy_facts(remedy))


def _factor_text(effect: Effect) -> str:
    """A factor of speed, or of what the effect names."""
    low, high = f"{effect.low:.3g}", f"{effect.high:.3g}"
    what = "" if effect.quantity == "throughput" else tr(" {quantity}", quantity=effect.quantity.replace("_", " "))
    if low == high:
        return f"{high}x{what}"
    if low == "1":
        return tr("up to {high}x{what}", high=high, what=what)
    return tr("{low}x to {high}x{what}", low=low, high=high, what=what)


# Tells a step to copy from a sentence to read.

_WORDS = """
accelerate apt apt-get aws bash cat chmod conda cp curl deepspeed df dmesg dnf docker echo ethtool export
free getconf git gpudoctor grep ibstat journalctl kill kubectl ldconfig ls lscpu lsmod lspci mamba mkdir
modprobe mount mv numactl nvcc nvidia-smi pip pip3 podman ps python python3 rm rmmod rsync salloc
sbatch scancel scontrol sed setpci srun sudo sysctl systemctl taskset torchrun ulimit umount unset
uv yum
"""
_TOOLS = frozenset(_WORDS.split())
_ASSIGNMENT = re.compile(r"^[A-Z_][A-Z0-9_]*=\S*( |$)")
_PYTHON = re.compile(
    r"^(?:[\w.]+ = )?[\w.]+\(.*\)$|^[\w.]+ ?= ?\S+$|^(?:from [\w.]+ )?import [\w.*]+$|^with \S.*:$"
    r"|^(?:if|for|while|class|def) \S.*:(?: .*\)| +#.*)?$"
)


def is_code(step: str) -> bool:
    """Whether a step is a shell command or a line of Python, to be copied as it is."""
    line = step.strip().removeprefix("$ ")
    first = line.split(" ", 1)[0].rstrip(";")
    if first in _TOOLS:
        # A sentence may begin with a tool's name, never with a tool's name and end in a full stop.
        return not line.endswith(".") or line.endswith(("..", " ."))
    return bool(_ASSIGNMENT.match(line) or _PYTHON.match(line)) or first.startswith(("./", "#SBATCH"))
