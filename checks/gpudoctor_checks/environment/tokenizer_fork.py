"""ENV014 tokenizer-fork."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.environment_assignments import assigned
from gpudoctor.analysis.source.loaders import Loader
from gpudoctor.analysis.source.syntax import is_attribute, last_name, nodes
from gpudoctor.analysis.workload import loaders_as_run, optional
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Severity
from gpudoctor.model.cuda import numbers
from gpudoctor.model.signs.source import Call, Known, Script, Source
from gpudoctor_checks.environment.variables import given

VARIABLE = "TOKENIZERS_PARALLELISM"
_ENCODES = {"encode", "encode_plus", "batch_encode_plus", "encode_batch", "apply_chat_template"}
_ITEM_METHODS = {"__getitem__", "__getitems__", "__iter__"}


class TokenizerFork(Check):
    """A fast tokenizer is used before loader workers are forked, and TOKENIZERS_PARALLELISM is not set.

    What it finds:
        A Hugging Face fast tokenizer that the main process uses (often in `dataset.map`). A loader forks
        workers afterwards, with TOKENIZERS_PARALLELISM unset.
    Why it hurts:
        The tokenizer's thread pool does not survive a fork. If it is unset, each worker prints "The current
        process just got forked" and tokenizes on one thread.
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

    code = "ENV014"
    reads = frozenset({Reads.ENVIRONMENT, Reads.SOURCE})
    severity = Severity.NOTE

    def examine(self, patient: Patient) -> Iterator[Finding]:
        source = patient.source
        if not _forks(patient, source):
            return
        if given(patient, VARIABLE) is not None or assigned(source, VARIABLE) is not None:
            return  # somebody has thought of it
        loader = next((item for item in loaders_as_run(patient) if _forking(item)), None)
        for script in source.scripts if loader is not None else ():
            use = next(_uses(script, _tokenizers(script)), None)
            if use is None or loader is None:
                continue
            yield self.finding(
                say(
                    "The tokenizer is used in the main process (line {line}) before {loader} forks "
                    "{workers} workers, and {variable} is not set. Every worker uses one thread.",
                    line=use.span.line,
                    loader=loader.label,
                    workers=loader.workers.value if isinstance(loader.workers, Known) else 0,
                    variable=VARIABLE,
                ),
                evidence=(use.span, loader.call.span),
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
    made: set[int] = set()
    for call in script.calls:
        owner, fast = call.name.rpartition(".")[0], call.argument("use_fast")
        slow = isinstance(fast, Known) and fast.value is False
        ours = owner.startswith("transformers.") and owner.endswith(("AutoTokenizer", "TokenizerFast"))
        if call.method == "from_pretrained" and ours and not slow:
            made.add(id(call.node))
    names = set()
    for node in nodes(script, ast.Assign) if made else ():
        if id(node.value) in made:
            names |= {name for target in node.targets if (name := last_name(target))}
    return names


def _uses(script: Script, names: set[str]) -> Iterator[Call]:
    """Calls that tokenize in the main process: those of data sets and collators run in the workers."""
    for call in script.calls:
        function = call.node.func
        direct = last_name(function) in names and not isinstance(function, ast.Call)
        method = is_attribute(function, *_ENCODES) and last_name(function.value) in names
        owner, _, last = call.function.rpartition(".")
        info = script.classes.get(owner)
        of_items = info is not None and last != "__init__" and bool(_ITEM_METHODS & set(info.methods))
        if (direct or method) and not of_items and "collate" not in call.function.lower():
            yield call
