"""The vocabulary of gpudoctor: what a patient, a finding, a remedy and a report are.

Standard library only; imports nothing else of ours. Checks and rules import from here and nowhere else.
Each name is imported when it is first asked for: all of them take as long as a whole estimate.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpudoctor.model.check import *
    from gpudoctor.model.evidence import *
    from gpudoctor.model.finding import *
    from gpudoctor.model.log_message import *
    from gpudoctor.model.patient import *
    from gpudoctor.model.proof import *
    from gpudoctor.model.remedy import *
    from gpudoctor.model.report import *
    from gpudoctor.model.rule import *
    from gpudoctor.model.unavailable import *

_HOMES = {
    "check": "Check Crashed Found Maturity OWN_CHOICE Outcome Passed Reads Skipped Threshold TrackRecord",
    "evidence": "Evidence LogLine Measurement Provenance Setting SourceSpan",
    "finding": "Code Confidence Cost Detail Facts Finding GROWTH Resource Severity Trait Whose",
    "log_message": "Bearing LogDetail LogMessage",
    "patient": "Patient PatientKind Sign Signs",
    "proof": "BadStepDetail LeakDetail LeakKind",
    "remedy": "Applicability Edit Effect EffectOrigin Effort ImportEdit KeywordEdit Remedy TextEdit",
    "report": "Json Named Ranked Report SCHEMA SetAside Silenced Subject Summary",
    "rule": "Advice Rule advise answers rules_of where",
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
