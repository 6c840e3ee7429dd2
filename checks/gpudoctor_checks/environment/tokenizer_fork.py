"""ENV014 tokenizer-fork."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.environment_assignments import assigned
from gpudoctor.analysis.source.loaders import Loader
from gpudoctor.analysis.source.syntax import is_attribute, last_name, nodes
from gpudoctor.analysis.workload import loaders_as_run, optional
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity
from gpudoctor.model.cuda import numbers
from gpudoctor.model.signs.source import Call, Known, Script, Source
from gpudoctor_checks.environment.variables import given

VARIABLE = "TOKENIZERS_PARALLELISM"
_ENCODES = {"encode", "encode_plus", "batch_encode_plus", "encode_batch", "apply_chat_template"}
_OFF = {"0", "false", "off", "no", "n", "f"}
_ITEM_METHODS = {"__getitem__", "__getitems__", "__iter__"}


class TokenizerFork(Check):
    """A fast tokenizer is used before loader workers are forked, and TOKENIZERS_PARALLELISM is not set.

    What it finds:
        - A Hugging Face fast tokenizer that the main process uses (often in `dataset.map`). A loader forks
          workers afterwards, with TOKENIZERS_PARALLELISM unset.
        - Or set to true while the workers tokenize too.
    Why it hurts:
        The tokenizer's thread pool does not survive a fork. If it is unset, each worker prints "The current
        process just got forked" and tokenizes on one thread. Set to true, a worker that tokenizes can deadlock.
    How it knows:
        The script shows the tokenizer, its uses outside the data set's item methods, and the loader's workers.
        The variable comes from the environment, the job script and the script.
    False alarms:
        Loaders that spawn instead of fork, Python 3.14 and later (forkserver) and slow tokenizers are not
        reported. The check needs a script.
    Remedies:
        Run `export TOKENIZERS_PARALLELISM=false`; it turns off threads in the main process too.
    References:
        - https://huggingface.co/docs/transformers/en/fast_tokenizers
        - https://github.com/huggingface/tokenizers (utils/parallelism: TOKENIZERS_PARALLELISM)
    """

    code = Code("ENV014")
    name = "tokenizer-fork"
    reads = frozenset({Reads.ENVIRONMENT, Reads.SOURCE})
    severity = Severity.NOTE

    def examine(self, patient: Patient) -> Iterator[Finding]:
        source = patient.source
        if not _forks(patient, source):
            return
        own, value = assigned(source, VARIABLE), given(patient, VARIABLE)
        setting = value.value if value is not None else None
        if setting is None and own is not None:
            return  # set to something that only a run tells: somebody has thought of it
        if setting is not None and setting.strip().lower() in _OFF:
            return
        loader = next((item for item in loaders_as_run(patient) if _forking(item)), None)
        for script in source.scripts if loader is not None else ():
            inside, outside = _uses(script, _tokenizers(script), source)
            use = next((use for use in outside if loader is not None and _precedes(script, use, loader)), None)
            if use is None or loader is None or (setting is not None and not inside):
                continue
            state, effect = say("is not set"), say("every worker prints a warning and uses one thread")
            if setting is not None:
                state, effect = say("is {setting}", setting=setting), say("a worker can deadlock")
            yield self.finding(
                say(
                    "The tokenizer is used in the main process (line {line}) before {loader} forks "
                    "{workers} workers, and {variable} {state}: {effect}.",
                    line=use.span.line,
                    loader=loader.label,
                    workers=loader.workers.value if isinstance(loader.workers, Known) else 0,
                    variable=VARIABLE,
                    state=state,
                    effect=effect,
                ),
                evidence=(use.span, loader.call.span),
                severity=Severity.WARNING if setting is not None else Severity.NOTE,
            )
            return


def _forks(patient: Patient, source: Source) -> bool:
    """Whether workers start by fork here: Linux, a Python before 3.14, no other start method chosen."""
    host, packages = optional(lambda: patient.host), optional(lambda: patient.packages)
    elsewhere = host is not None and not host.system.startswith("Linux")
    if elsewhere or (packages is not None and numbers(packages.python)[:2] >= (3, 14)):
        return False
    chosen = [call.argument("method", 0) for script in source.scripts for call in script.calls_to(".set_start_method")]
    return all(isinstance(method, Known) and method.value == "fork" for method in chosen)


def _forking(loader: Loader) -> bool:
    workers = loader.workers
    context = loader.argument("multiprocessing_context", None)
    forks = isinstance(context, Known) and context.value in (None, "fork")
    return forks and isinstance(workers, Known) and isinstance(workers.value, int) and workers.value > 0


def _tokenizers(script: Script) -> set[str]:
    """Names that hold a fast tokenizer: `tokenizer`, and the last part of `self.tokenizer`."""
    made = {id(call.node) for call in script.calls if _makes_fast(call)}
    names = set()
    for node in nodes(script, ast.Assign) if made else ():
        if id(node.value) in made:
            names |= {name for target in node.targets if (name := last_name(target))}
    return names


def _makes_fast(call: Call) -> bool:
    if call.name.startswith("tokenizers."):
        return call.method in {"Tokenizer", "from_file", "from_pretrained"}
    if call.method != "from_pretrained":
        return False
    owner = call.name.rpartition(".")[0]
    fast = call.argument("use_fast")
    slow = isinstance(fast, Known) and fast.value is False
    return not slow and owner.startswith("transformers.") and owner.endswith(("AutoTokenizer", "TokenizerFast"))


def _uses(script: Script, names: set[str], source: Source) -> tuple[list[Call], list[Call]]:
    """Calls that tokenize: in the workers, and in the main process."""
    collators = _collators(source)
    inside: list[Call] = []
    outside: list[Call] = []
    for call in script.calls:
        function = call.node.func
        direct = last_name(function) in names and not isinstance(function, ast.Call)
        method = is_attribute(function, *_ENCODES) and last_name(function.value) in names
        if not (direct or method):
            continue
        owner, _, last = call.function.rpartition(".")
        of_items = last in _ITEM_METHODS or last in collators or "collate" in call.function.lower()
        info = script.classes.get(owner)
        if info is not None and last != "__init__" and _ITEM_METHODS & set(info.methods):
            of_items = True  # a helper of the data set
        (inside if of_items else outside).append(call)
    return inside, outside


@once
def _collators(source: Source) -> frozenset[str]:
    """Names of functions that are handed to a loader as collate_fn or worker_init_fn."""
    names = set()
    for script in source.scripts:
        for call in script.calls:
            for keyword in call.node.keywords:
                if keyword.arg in {"collate_fn", "worker_init_fn"}:
                    names.add(last_name(keyword.value))
    return frozenset(names - {""})


def _precedes(script: Script, use: Call, loader: Loader) -> bool:
    """Whether a use can come before a fork: not when it stands after the last loop, in its function."""
    loops = [loop for own, loop in loader.loops if own.path == script.path and loop.function == use.function]
    return not loops or any(use.span.line <= loop.end_line for loop in loops)
