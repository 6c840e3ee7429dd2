"""What a cure gives back: without a look at the device, nobody knows what a wait of the host costs."""

from dataclasses import replace

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import recorded, run_of, watched
from gpudoctor.lang import say
from gpudoctor.model.finding import Finding, Whose
from gpudoctor.model.patient import Patient
from gpudoctor.model.remedy import EffectOrigin, Remedy

UNSEEN = say("neither the device's clock nor its utilisation was recorded")
"""Why it is not known for a recording, as a clause."""


def speedup(share: float) -> float:
    """The factor by which a step gets faster when a share of it (0..1) is gone: 1 / (1 - share).

    A share of 1 would be infinite; it is held at 0.99, since something always remains.
    """
    return 1.0 / (1.0 - min(max(share, 0.0), 0.99))


def unknown_in(recording: "of_run.Recording") -> str:
    """Why it is not known what the waits of a recorded run cost, as a clause; "" where it is."""
    run = run_of(recording)
    return UNSEEN if run is not None and run.blind else ""


def unknown(patient: Patient) -> str:
    """The same of a patient, recorded or watched."""
    window = watched(patient)
    if window is not None:
        return of_run.blind(window)
    recording = recorded(patient)
    return unknown_in(recording) if recording is not None else ""


def claimed(finding: Finding, patient: Patient) -> Finding:
    """The finding; where its gain is unknown, its share is of the host's time and claims nothing."""
    cost = finding.cost
    if cost.step_share is None or cost.whose is Whose.STEPS or not unknown(patient):
        return finding
    return replace(finding, cost=replace(cost, step_share=None, host_share=cost.step_share))


def knowable(remedy: Remedy, finding: Finding, patient: Patient) -> Remedy:
    """The remedy without a factor that nobody can know; what a trial has measured stays."""
    effect = remedy.effect
    if effect is None or effect.unit != "x" or effect.provenance is EffectOrigin.MEASURED:
        return remedy
    if finding.cost.whose is Whose.STEPS or not unknown(patient):
        return remedy
    return replace(remedy, effect=None)
