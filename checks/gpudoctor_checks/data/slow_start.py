"""DATA012 slow-start."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.observation import best_match, confirmed, suspicions
from gpudoctor.analysis.run.cost_attribution import at
from gpudoctor.analysis.run.line_costs import by_line, start
from gpudoctor.analysis.run.recorded_statements import callers
from gpudoctor.analysis.run.steady_run import judged, measured, processes, spot
from gpudoctor.analysis.source.built_classes import of_program
from gpudoctor.analysis.source.control_flow import enclosing, switched_off
from gpudoctor.analysis.source.entry_points import only_evaluates
from gpudoctor.analysis.source.origins import origin
from gpudoctor.analysis.source.syntax import FunctionNode, keyword_value, nodes
from gpudoctor.lang import say
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Cost,
    Detail,
    Evidence,
    Finding,
    Patient,
    Reads,
    Severity,
    Threshold,
    Whose,
)
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind, Configs
from gpudoctor.model.signs.recording import Process
from gpudoctor.model.signs.source import Call, Known, Script, Source
from gpudoctor.text import duration, percent

_TOKENISES = re.compile(r"tokeni[sz]e|tokenizer|encode|preprocess|prepare_(?:features|train)|apply_chat_template")
_LARGE = re.compile(
    r"c4|openwebtext|the_?pile|\bpile|wikipedia|fineweb|oscar|redpajama|slimpajama|bookcorpus|laion|mc4|starcoder"
    r"|the-stack|cosmopedia|dolma|common_?voice|librispeech|ultrachat|openhermes|imagenet|culturax|wikitext-103",
    re.I,
)
"""Names of public sets with hundreds of thousands of texts and more."""
_TOKENISER = re.compile(r"tok\w{0,80}(?:\.__call__)?$|\.encode$|apply_chat_template$|encode_plus$")
_MOST = 0.5
"""Share of a run that ended by itself from which on its start is what it mostly did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowStartDetail(Detail):
    """What the rule reads."""

    how: str
    """`recording`, `config` or `source`."""
    kind: str
    """`workers`, `cache` or `off`."""


class SlowStart(Check):
    """The training starts late: the data set is tokenised by one process, or again at each start.

    What it finds:
        - `datasets.map` with a tokenising function and no `num_proc`, item by item or on a set known to be
          large.
        - `load_from_cache_file=False` and `disable_caching()`, which repeat the work at each start.
        - LLaMA-Factory configs without `preprocessing_num_workers`, or with `overwrite_cache`.
    Why it hurts:
        One process tokenises a few thousand texts per second, so a million need 5 to 20 minutes. All GPUs of
        the job wait for that at each start and each requeue.
    How it knows:
        From the source and the configs: the arguments of the call, the mapped function, and the set's name and
        cap. A note, since the size of the set is not known before the run.
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

    code = Code("DATA012")
    name = "slow-start"
    reads = frozenset({Reads.SOURCE, Reads.CONFIG, Reads.RECORDING})
    severity = Severity.NOTE
    thresholds = (
        Threshold(
            name="capped_samples",
            default=20_000,
            unit="{samples}",
            source="one process tokenises some thousand texts a second: 20,000 take under half a minute",
            meaning="A set that is limited to this many samples starts fast enough.",
        ),
        Threshold(
            name="start_noted",
            default=300.0,
            unit="s",
            source="convention: 5 min",
            meaning="A first step that ends later is a note.",
        ),
        Threshold(
            name="start_warned",
            default=1200.0,
            unit="s",
            source="SageMaker's MaxInitializationTime: 20 min",
            meaning="A first step that ends later is a warning.",
        ),
        Threshold(
            name="run_share",
            default=0.10,
            unit="1",
            source="convention: a tenth of a short run",
            meaning="A start that takes this share of the whole run is a note.",
        ),
        Threshold(
            name="start_floor",
            default=2.0,
            unit="s",
            source="convention: too short to matter",
            meaning="A shorter start is never a finding, however short the run.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        process = next((item for item in processes(patient) if len(item.steps)), None)
        suspected = suspicions(lambda: self._declared_anywhere(patient), judged(patient, 1))
        yield from suspected if process is None else self._measured(patient, process, suspected)

    def _measured(self, patient: Patient, process: Process, suspected: list[Finding]) -> Iterator[Finding]:
        """The time before the first step, and what of it is the user's own doing."""
        ends, own = process.steps.column("t"), start(process)
        whole, took = ends[-1], ends[0] - process.steps.column("duration")[0]
        long = took >= self.limit("start_noted")
        if not long and own.seconds < max(self.limit("start_floor"), self.limit("run_share") * whole):
            return
        took = took if long else own.seconds
        lines = by_line(own.lines)[:3]
        spans = [spot(patient, item.place) for item in lines]
        spans += callers(patient, spans[:1])
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
                at=at(spans),
            ),
            evidence=(*spans, measured("start_seconds", took, "s", patient.recording)),
            severity=severity,
            cost=Cost(step_share=took / whole if paid else None, whose=Whose.STEPS),
            detail=SlowStartDetail(how="recording", kind="workers") if base is None else None,
        )

    def _declared_anywhere(self, patient: Patient) -> Iterator[Finding]:
        source, configs = patient.source_and_configs
        yield from self._from_source(source)
        yield from self._from_configs(configs)

    def _from_configs(self, configs: Configs) -> Iterator[Finding]:
        for file in configs.of(ConfigKind.LLAMA_FACTORY):
            dataset, cap = file.get("dataset"), file.value("max_samples")
            small = isinstance(cap, int) and not isinstance(cap, bool) and cap <= self.limit("capped_samples")
            trains = file.value("do_train") is True
            if dataset is None or not trains or small or file.value("streaming") or file.value("tokenized_path"):
                continue
            workers = file.meaning("preprocessing_workers")
            if not workers or workers[0].number in (0, 1):
                place = workers[0].entry if workers else dataset
                yield self._declared(
                    file, place.key, say("tokenises its data with one process at the start"), "workers"
                )
            again = file.get("overwrite_cache")
            if again is not None and again.value is True:
                yield self._declared(file, again.key, say("tokenises its data again at every start"), "cache")

    def _declared(self, file: ConfigFile, key: str, says: str, kind: str) -> Finding:
        entry = file.entries[key]
        word = f"{key}: true" if kind == "cache" else say("no preprocessing_num_workers")
        if kind == "workers" and entry.last == "preprocessing_num_workers":
            word = f"{key}: {entry.value}"
        return self.finding(
            say("{file} {says} ({word}).", file=file.path.rpartition("/")[2], says=says, word=word),
            evidence=(file.setting(entry),),
            confidence=Confidence.SUSPECTED,
            subject=f"{file.path}:{entry.line}",
            detail=SlowStartDetail(how="config", kind=kind),
        )

    def _from_source(self, source: Source) -> Iterator[Finding]:
        if only_evaluates(source) or not any(
            "map(" in script.text or "disable_caching" in script.text for script in source.scripts
        ):
            return
        for script in source.scripts:
            if "datasets" not in script.text or "streaming=True" in script.text:
                continue
            for call in script.calls_to(".map", "datasets.disable_caching"):
                if not switched_off(source, call):
                    yield from self._call(source, script, call)

    def _call(self, source: Source, script: Script, call: Call) -> Iterator[Finding]:
        if call.name == "datasets.disable_caching":
            if source.trains:
                yield self._found(script, call, "disable_caching() makes each start prepare the data again", "off")
            return
        if not _maps_tokeniser(script, call) or not _of_datasets(source, script, call):
            return
        cached, processes = call.keywords.get("load_from_cache_file"), call.argument("num_proc")
        if isinstance(cached, Known) and cached.value is False and cached.origin == "literal":
            yield self._found(
                script, call, say("{receiver}.map tokenises again at every start", receiver=call.receiver), "cache"
            )
        elif processes is None or (isinstance(processes, Known) and processes.value in (None, 1)
                                   and processes.origin == "literal"):  # fmt: skip
            batched = call.argument("batched")
            single = batched is None or (isinstance(batched, Known) and batched.value is False)
            if (single or _LARGE.search(_loads(script))) and not _capped(script, call):
                how = say(", item by item") if single else ""
                yield self._found(
                    script,
                    call,
                    say("{receiver}.map tokenises with one process{how}", receiver=call.receiver, how=how),
                    "workers",
                )

    def _found(self, script: Script, call: Call, message: str, kind: str) -> Finding:
        evidence: tuple[Evidence, ...] = (call.span,)
        return self.finding(
            say("{message} (line {line}).", message=message, line=call.span.line),
            evidence=evidence,
            confidence=Confidence.SUSPECTED,
            subject=f"{script.path}:{call.span.line}",
            detail=SlowStartDetail(how="source", kind=kind),
        )


def _maps_tokeniser(script: Script, call: Call) -> bool:
    """Whether a `.map` of a data set is given a function that tokenises."""
    if not call.receiver or not call.name.startswith(("?.", "datasets.")):  # another library's map
        return False
    given = call.node.args[0] if call.node.args else keyword_value(call.node, "function")  # fmt: skip
    if given is None or len(call.node.args) > 1 or any(word in call.receiver.lower() for word in ("pool", "executor")):
        return False
    if isinstance(given, ast.Lambda):
        return bool(_TOKENISES.search(ast.unparse(given.body)))
    name = ast.unparse(given).rpartition(".")[2]
    for node in nodes(script, ast.FunctionDef, ast.AsyncFunctionDef):
        if node.name == name:
            return any(
                isinstance(part, ast.Call) and _TOKENISER.search(ast.unparse(part.func).lower())
                for part in ast.walk(node)
            )
    return False


def _of_datasets(source: Source, script: Script, call: Call) -> bool:
    """Whether the mapped object may be a data set of Hugging Face, by what made it and what is imported."""
    func = call.node.func
    if call.receiver_type and not call.receiver_type.startswith("datasets."):
        return False
    made = origin(source, script, func.value) if isinstance(func, ast.Attribute) else None
    if made:
        return made == "datasets"
    return any(
        name.partition(".")[0] == "datasets" and not of_program(source, script, f"{name.partition('.')[0]}.x")
        for other in source.scripts
        for name in other.imports.values()
    )


def _loads(script: Script) -> str:
    """The names of the sets that the script loads."""
    return " ".join(
        ast.unparse(call.node) for call in script.calls_to("datasets.load_dataset", "datasets.load_from_disk")
    )


def _capped(script: Script, call: Call) -> bool:
    """Whether the set is cut to a part: `.select(range(1000))`, `split="train[:1%]"`, a file of toy data."""
    near = call.receiver + _loads(script)
    if "[:" in near or "select(" in near or ".select(range(" in script.text or "train_test_split" in near:
        return True
    function = next((item for item in enclosing(script, call.node) if isinstance(item, FunctionNode)), None)
    return function is not None and function.name.startswith("test")
