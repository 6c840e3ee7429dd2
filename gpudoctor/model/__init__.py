"""The vocabulary of gpudoctor: what a patient, a finding, a remedy and a report are.

Standard library only; imports nothing else of ours. Checks and rules import from here and nowhere else.
"""

from gpudoctor.model.check import Check, Maturity, Reads
from gpudoctor.model.evidence import Evidence, LogLine, Measurement, Provenance, Setting, SourceSpan
from gpudoctor.model.finding import Code, Cost, Finding, Resource
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
from gpudoctor.model.report import SCHEMA, Json, Named, Ranked, Report, SetAside, Silenced, Subject, Summary
from gpudoctor.model.rule import Rule
from gpudoctor.model.severity import Confidence, Severity
from gpudoctor.model.threshold import Threshold
from gpudoctor.model.unavailable import Absent, ReaderCrashed, Reading, Unavailable

__all__ = [
    "SCHEMA",
    "Absent",
    "Applicability",
    "Check",
    "Code",
    "Confidence",
    "Cost",
    "Crashed",
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
    "LogLine",
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
    "Unavailable",
]
