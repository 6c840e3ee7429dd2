"""DATA012 slow-start."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import best_match, confirmed, suspicions
from gpudoctor.analysis.run.steady_run import judged, measured, processes, spot
from gpudoctor.analysis.source.control_flow import switched_off
from gpudoctor.analysis.source.entry_points import only_evaluates
from gpudoctor.analysis.source.syntax import keyword_value, last_name, nodes
from gpudoctor.lang import say
from gpudoctor.model import Check, Cost, Facts, Finding, Patient, Reads, Severity, Threshold, Whose
from gpudoctor.model.signs.source import Call, Known, Script, Source
from gpudoctor.text import duration, percent

_TOKENISES = re.compile(r"tokenize\w*\(|tokenizer?\w*(?:\.\w+)?\(|\.encode(?:_plus)?\(|apply_chat_template\(")
_CAPPED = re.compile(r"streaming=True|\.select\(|train_test_split|\[:")
"""What says that the set is streamed, or cut to a part."""
_LARGE = re.compile(
    r"c4|openwebtext|the_?pile|\bpile|wikipedia|fineweb|oscar|redpajama|slimpajama|bookcorpus|laion|mc4|starcoder"
    r"|the-stack|cosmopedia|dolma|common_?voice|librispeech|ultrachat|openhermes|imagenet|culturax|wikitext-103",
    re.I,
)
"""Names of public sets with hundreds of thousands of texts and more."""
_LEAST_SECONDS = 2.0
"""A shorter start does not matter, however short the run."""
_MOST = 0.5
"""Share of a run that ended by itself from which on its start is what it mostly did."""


class SlowStart(Check):
    """The training starts late: the data set is tokenised by one process, or again at each start.

    What it finds:
        - `datasets.map` with a tokenising function and no `num_proc`, item by item or on a set known to be
          large.
        - `load_from_cache_file=False`, which repeats the work at each start.
    Why it hurts:
        One process tokenises a few thousand texts per second, so a million need 5 to 20 minutes. All GPUs of
        the job wait for that at each start and each requeue.
    How it knows:
        From the source: the arguments of the call, the mapped function, and the set's name and cap. A note,
        since the size of the set is not known before the run.
    False alarms:
        Small sets. Not reported are batched calls of fast tokenizers on sets of unknown size (they use their
        own threads). Neither are streamed sets, capped sets, switches that are off and other functions.
    Remedies:
        `num_proc` for this machine's CPUs, and the cache left on. With one CPU: prepare once, and store the
        result.
    References:
        - https://huggingface.co/docs/datasets/process#multiprocessing
        - https://huggingface.co/docs/datasets/cache
    """

    code = "DATA012"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.NOTE
    thresholds = (
        Threshold("start_noted", 300.0, "s", "convention: 5 min", "A first step that ends later is a note."),
        Threshold(
            "start_warned",
            1200.0,
            "s",
            "SageMaker's MaxInitializationTime: 20 min",
            "A first step that ends later is a warning.",
        ),
        Threshold(
            "run_share",
            0.10,
            "1",
            "convention: a tenth of a short run",
            "A start that takes this share of the whole run is a note.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        process = next((item for item in processes(patient) if len(item.steps)), None)
        suspected = suspicions(lambda: self._in_source(patient), judged(patient, 1))
        yield from suspected if process is None else self._measured(patient, process, suspected)

    def _measured(self, patient: Patient, process: "of_run.Process", suspected: list[Finding]) -> Iterator[Finding]:
        """The time before the first step, and what of it is the user's own doing."""
        ends, own = process.steps.column("t"), of_run.start(process)
        whole, took = ends[-1], ends[0] - process.steps.column("duration")[0]
        long = took >= self.limit("start_noted")
        if not long and own.seconds < max(_LEAST_SECONDS, self.limit("run_share") * whole):
            return
        took = took if long else own.seconds
        lines = of_run.by_line(own.lines)[:3]
        spans = [spot(patient, item.place) for item in lines]
        spans += of_run.callers(patient, spans[:1])
        severity = Severity.WARNING if took >= self.limit("start_warned") else Severity.NOTE
        # A run that was stopped to look at it is not what one pays for; nor is a start among many steps.
        end = patient.recording.end
        finished = end is not None and end.stopped_by is None and not end.failed
        paid = long or (finished and took >= _MOST * whole)
        base = best_match(suspected, spans)
        yield confirmed(
            self,
            [base] if base is not None else (),
            say(
                "{took} pass before the first step, {share} of the run{at}.",
                took=duration(took),
                share=percent(took / whole),
                at=of_run.at(spans),
            ),
            evidence=(*spans, measured("start_seconds", took, "s", patient.recording)),
            severity=severity,
            cost=Cost(step_share=took / whole if paid else None, whose=Whose.STEPS),
            detail=Facts(how="recording", kind="workers") if base is None else None,
        )

    def _in_source(self, patient: Patient) -> Iterator[Finding]:
        source = patient.source
        if not only_evaluates(source):
            yield from (finding for script in source.scripts for finding in self._from_source(source, script))

    def _from_source(self, source: Source, script: Script) -> Iterator[Finding]:
        """`.map` with a function that tokenises, of a program that imports datasets, and the cache switched off."""
        roots = {name.partition(".")[0] for name in script.imports.values()}
        if "datasets" not in roots or _CAPPED.search(script.text):
            return
        large = any(_LARGE.search(ast.unparse(call.node)) for call in script.calls_to("datasets.load_dataset"))
        for call in script.calls_to(".map"):
            name, single = call.receiver, not _is(call.argument("batched"), True)
            if switched_off(source, call) or "pool" in name.lower():
                continue
            if not call.name.startswith(("?.", "datasets.")) or not _tokenises(script, call):
                continue
            elif _is(call.keywords.get("load_from_cache_file"), False):
                yield self._found(call, say("{receiver}.map tokenises again at every start", receiver=name), "cache")
            elif (single or large) and (call.argument("num_proc") is None or _is(call.argument("num_proc"), 1)):
                how = say(", item by item") if single else ""
                message = say("{receiver}.map tokenises with one process{how}", receiver=name, how=how)
                yield self._found(call, message, "workers")

    def _found(self, call: Call, message: str, kind: str) -> Finding:
        return self.finding(
            say("{message} (line {line}).", message=message, line=call.span.line),
            evidence=(call.span,),
            detail=Facts(how="source", kind=kind),
        )


def _is(value: object, wanted: object) -> bool:
    return isinstance(value, Known) and value.value == wanted and value.origin == "literal"


def _tokenises(script: Script, call: Call) -> bool:
    """Whether what maps each item is a function of the script in which a tokenizer is called."""
    given = call.node.args[0] if call.node.args else keyword_value(call.node, "function")
    name = last_name(given) if given is not None and not isinstance(given, ast.Lambda) else ""
    bodies = [node for node in nodes(script, ast.FunctionDef) if node.name == name]
    return any(_TOKENISES.search(ast.unparse(body)) for body in ([given] if isinstance(given, ast.Lambda) else bodies))
