"""Metrics in a training step: calls of CPU metric libraries, and loops over the samples of a batch."""

import ast
import re

from gpudoctor.analysis.source.control_flow import loop_node
from gpudoctor.analysis.source.syntax import is_attribute, is_method_call
from gpudoctor.model.signs.source import Call, Event, Loop, LoopRole, Script

OFTEN = 10
"""Training steps: metrics more often than that are SYNC004's by default (S4: every 10 steps)."""
_PACKAGES = (
    "sklearn.metrics.",
    "scipy.stats.",
    "nltk.translate.",
    "sacrebleu.",
    "rouge.",
    "rouge_score.",
    "pycocotools.",
    "seqeval.metrics.",
    "jiwer.",
    "skimage.metrics.",
    "bert_score.",
    "editdistance.",
    "Levenshtein.",
    "pycocoevalcap.",
)
_NO_METRICS = frozenset({"load", "ConfusionMatrixDisplay", "make_scorer", "combine", "norm", "truncnorm", "uniform"})
_SAMPLES = re.compile(
    r"pred|label|target|output|logit|sample|batch|input|mask|image|img|score|prob|caption|sentence|token|answer"
)
_FEW = re.compile(
    r"(?:^|_)(?:criteri(?:a|ons?)|(?:loss|metric|objective)_?(?:fns?|funcs?|functions?|modules?|names?)|meters|metrics"
    r"|param(?:eter)?_?groups|optimi[sz]ers|schedulers|tasks|heads|losses)$"
)
"""Names of what a program has a few of, one for each loss, metric or group of parameters."""
_BATCH_SIZE = re.compile(r"(?:^|[._])(?:batch_?size|bsz?|n_?samples|num_samples|batch_len)$")


def is_metric(call: Call) -> bool:
    """Whether a call computes a metric on the CPU."""
    return call.name.startswith(_PACKAGES) and call.method not in _NO_METRICS and not call.name.endswith("_Score")


def samples_around(script: Script, loop: Loop, event: Event) -> str | None:
    """The iterable of the innermost loop around an event when it runs over the samples of a batch."""
    inner = [item for item in event.inner if item is not loop]
    if not inner or inner[-1].role is not LoopRole.OTHER:
        return None
    last = inner[-1]
    node = loop_node(script, last) if last.span.path == script.path else None
    if not isinstance(node, ast.For):
        return None
    return last.iterates if _over_samples(node.iter, event) else None


def _over_samples(node: ast.expr, event: Event) -> bool:
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        if name == "zip" and any(_few(item) for item in node.args):
            return False  # the shortest ends it: values of the whole batch, one for each loss
        if name in {"enumerate", "tqdm", "zip"}:
            return any(_over_samples(item, event) for item in node.args)
        if name == "range" and node.args:
            return _counts_samples(node.args[-1] if len(node.args) < 3 else node.args[1], event)
        return False
    named = isinstance(node, ast.Name | ast.Attribute) and not _few(node)
    return named and event.thing(node).type == "torch.Tensor"


def _few(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and bool(
        _FEW.search(ast.unparse(node).rpartition(".")[2].lower())
    )


def _counts_samples(node: ast.expr, event: Event) -> bool:
    """`len(preds)`, `labels.size(0)`, `x.shape[0]`, `batch_size`."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "len" and node.args:
        return _tensor(node.args[0], event)
    if is_method_call(node, "size"):
        return [ast.unparse(item) for item in node.args] == ["0"]
    if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "0":
        return is_attribute(node.value, "shape")
    return isinstance(node, ast.Name | ast.Attribute) and bool(_BATCH_SIZE.search(ast.unparse(node).lower()))


def _tensor(node: ast.expr, event: Event) -> bool:
    text = ast.unparse(node)
    kind = event.thing(node).type
    if kind is not None:
        return kind == "torch.Tensor"
    return isinstance(node, ast.Name | ast.Attribute) and bool(_SAMPLES.search(text.rpartition(".")[2].lower()))
