"""CFG010 settings-rejected."""

import re
from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Severity
from gpudoctor.model.evidence import Evidence
from gpudoctor.model.redaction import mask_text
from gpudoctor.model.signs.packages import ReaderAnswer
from gpudoctor.model.unavailable import optional
from gpudoctor_checks.api_facts import facts
from gpudoctor_checks.config.conflicts import conflicts
from gpudoctor_checks.config.known_keys import known, meant

LONGEST = 300
"""Characters of a library's message."""
OTHERS = ("CFG001", "CFG008")
"""Checks with rows of their own: what they say of a line is not said again."""


class SettingsRejected(Check):
    """A library rejects the settings.

    What it finds:
        - Before the run: settings that the installed library's own class refuses.
        - Settings of two files or calls that their readers refuse together, or ignore.
        - From a log: a job that died because a library tests its settings at the start.
    Why it hurts:
        The job waits in the queue and ends in its first seconds.
    How it knows:
        A child process of the job's Python gives the written settings to the class that will read them. These
        are the classes of transformers, TRL, PEFT, bitsandbytes and Lightning. DeepSpeed, accelerate,
        LLaMA-Factory and axolotl have readers, too. The child imports nothing of yours, sees no card, and ends
        after 60 s at the latest. gpudoctor leaves out what only the job's machine can settle. If a script
        computes a setting that may matter, the class is not asked. Combinations come from a table. From a log:
        texts that only the library prints, in the exception or line that came first.
    False alarms:
        Settings that a library changes by itself with a warning are not a death. A refusal may depend on the
        number of processes: without a launch line it is a warning or a note.
    Remedies:
        Change the setting that the message names.
    References:
        - https://www.deepspeed.ai/docs/config-json/
        - https://huggingface.co/docs/transformers/main_classes/trainer
    """

    code = "CFG010"
    reads = frozenset({Reads.CONFIG, Reads.SOURCE, Reads.ENVIRONMENT, Reads.LOG})
    severity = Severity.ERROR
    log_messages_file = "log_messages.toml"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        _ = patient.source_and_configs
        answers = optional(lambda: patient.reader_answers) or ()
        named: set[Evidence] = set()
        """Places that some finding speaks of already."""
        for code in OTHERS:
            for finding in conflicts(self, patient, code):
                named.update(finding.evidence)
        for answer in answers:
            yield from self._unknown(answer)
            text = next(iter(answer.refused.values()), "")
            names = [name for name in answer.settings if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]
            places = {answer.settings[name] for name in names}
            old = any(row.value and row.value in text for row in facts("training-values"))
            if text and not old and named.isdisjoint(places):
                named |= places
                yield self._refused(answer, text, tuple(names))
        for finding in conflicts(self, patient):
            if named.isdisjoint(finding.evidence):
                yield finding

    def _unknown(self, answer: ReaderAnswer) -> Iterator[Finding]:
        """Names that the class does not have; a name that was renamed or mistyped is another check's."""
        renamed = {row.name for row in facts("training-arguments")}
        for name in answer.unknown:
            near = meant(name, known(("training-arguments", "trl")))
            if name in answer.settings and name not in renamed and near is None:
                yield self._found(answer, say("it has no {name}", name=name), (name,), Severity.ERROR)

    def _refused(self, answer: ReaderAnswer, text: str, names: tuple[str, ...]) -> Finding:
        shown = mask_text(" ".join(text.split()))[:LONGEST].rstrip(".")
        taken = [ranks for ranks in answer.ranks if ranks not in answer.refused]
        severity = Severity.ERROR if answer.sure else Severity.WARNING
        if taken:
            shown += say("; it takes them with {ranks} processes", ranks=taken[0])
            severity = Severity.WARNING if answer.sure and 1 in answer.refused else Severity.NOTE
        return self._found(answer, shown, names, severity)

    def _found(self, answer: ReaderAnswer, text: str, names: tuple[str, ...], severity: Severity) -> Finding:
        breaks = say("the program ends when it reads the settings")
        return self.finding(
            say("{title}: {reader} refuses the settings: {text}.", title=answer.title, reader=answer.reader, text=text),
            evidence=tuple(dict.fromkeys(answer.settings[name] for name in names)) or (answer.place,),
            severity=severity,
            breaks=breaks if severity is Severity.ERROR else None,
            subject=f"{answer.title} {' '.join(names)}",
        )
