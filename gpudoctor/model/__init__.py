"""The vocabulary of gpudoctor: what a patient, a finding, a remedy and a report are.

Standard library only; imports nothing else of ours. Checks and rules import from here and nowhere else.
Each name is imported when it is first asked for: all of them take as long as a whole estimate.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpudoctor.model.advice import Advice, advise, in_log, rules_of, where
    from gpudoctor.model.check import Check, Maturity, Reads
    from gpudoctor.model.detail import Detail
    from gpudoctor.model.evidence import Evidence, LogLine, Measurement, Provenance, Setting, SourceSpan
    from gpudoctor.model.finding import Code, Cost, Finding, Resource, Whose
    from gpudoctor.model.leak import LeakDetail, LeakKind
    from gpudoctor.model.log_message import Bearing, LogDetail, LogMessage
    from gpudoctor.model.outcome import Crashed, Found, Outcome, Passed, Skipped
    from gpudoctor.model.patient import Patient, PatientKind, Sign, Signs
    from gpudoctor.model.remedy import (
        Applicability,
        Edit,
        Effect,
        EffectOrigin,
        Effort,
        ImportEdit,
        KeywordEdit,
        Remedy,
        TextEdit,
    )
    from gpudoctor.model.replay import BadStepDetail
    from gpudoctor.model.report import SCHEMA, Json, Named, Ranked, Report, SetAside, Silenced, Subject, Summary
    from gpudoctor.model.rule import Rule
    from gpudoctor.model.severity import Confidence, Severity
    from gpudoctor.model.threshold import OWN_CHOICE, Threshold
    from gpudoctor.model.track_record import TrackRecord
    from gpudoctor.model.trait import GROWTH, Trait
    from gpudoctor.model.unavailable import Absent, ReaderCrashed, Reading, Unavailable

__all__ = [
    "GROWTH",
    "OWN_CHOICE",
    "SCHEMA",
    "Absent",
    "Advice",
    "Applicability",
    "BadStepDetail",
    "Bearing",
    "Check",
    "Code",
    "Confidence",
    "Cost",
    "Crashed",
    "Detail",
    "Edit",
    "Effect",
    "EffectOrigin",
    "Effort",
    "Evidence",
    "Finding",
    "Found",
    "ImportEdit",
    "Json",
    "KeywordEdit",
    "LeakDetail",
    "LeakKind",
    "LogDetail",
    "LogLine",
    "LogMessage",
    "Maturity",
    "Measurement",
    "Named",
    "Outcome",
    "Passed",
    "Patient",
    "PatientKind",
    "Provenance",
    "Ranked",
    "ReaderCrashed",
    "Reading",
    "Reads",
    "Remedy",
    "Report",
    "Resource",
    "Rule",
    "SetAside",
    "Setting",
    "Severity",
    "Sign",
    "Signs",
    "Silenced",
    "Skipped",
    "SourceSpan",
    "Subject",
    "Summary",
    "TextEdit",
    "Threshold",
    "TrackRecord",
    "Trait",
    "Unavailable",
    "Whose",
    "advise",
    "in_log",
    "rules_of",
    "where",
]

_HOMES = {
    "advice": "Advice advise in_log rules_of where",
    "check": "Check Maturity Reads",
    "detail": "Detail",
    "evidence": "Evidence LogLine Measurement Provenance Setting SourceSpan",
    "finding": "Code Cost Finding Resource Whose",
    "log_message": "Bearing LogDetail LogMessage",
    "leak": "LeakDetail LeakKind",
    "outcome": "Crashed Found Outcome Passed Skipped",
    "patient": "Patient PatientKind Sign Signs",
    "remedy": "Applicability Edit Effect EffectOrigin Effort ImportEdit KeywordEdit Remedy TextEdit",
    "replay": "BadStepDetail",
    "report": "SCHEMA Json Named Ranked Report SetAside Silenced Subject Summary",
    "rule": "Rule",
    "severity": "Confidence Severity",
    "threshold": "OWN_CHOICE Threshold",
    "track_record": "TrackRecord",
    "trait": "GROWTH Trait",
    "unavailable": "Absent ReaderCrashed Reading Unavailable",
}
"""Module to the names that live in it."""
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """A public name, from its module; it stays here, so this happens once a name."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
