"""Metrics in a training step: calls of CPU metric libraries, and loops over the samples of a batch."""

import ast
import re

from gpudoctor.analysis.source.control_flow import loop_node
from gpudoctor.analysis.source.syntax import called_name, in_order, last_name
from gpudoctor.model.signs.source import Call, Event, Loop, LoopRole, Script

OFTEN = 10
"""Training steps: metrics more often than that are SYNC004's by default (S4: every 10 steps)."""
_PACKAGES = in_order(
    "sklearn.metrics. scipy.stats. nltk.translate. sacrebleu. rouge. rouge_score. pycocotools. seqeval.metrics. "
    "jiwer. skimage.metrics. bert_score. editdistance. Levenshtein. pycocoevalcap."
)
_NO_METRICS = frozenset({"load", "ConfusionMatrixDisplay", "make_scorer", "combine", "norm", "truncnorm", "uniform"})
_FEW = re.compile(
    r"(?:^|_)(?:criteri(?:a|ons?)|(?:loss|metric|objective)_?(?:fns?|funcs?|functions?|modules?|names?)|meters|metrics"
    r"|param(?:eter)?_?groups|optimi[sz]ers|schedulers|tasks|heads|losses)$"
)
"""Names of what a program has a few of, one for each loss, metric or group of parameters."""
_COUNTS = re.compile(r"(?:(?:^|[._])(?:batch_?size|bsz?|n_?samples|num_samples|batch_len)|\.size\(0\)|\.shape\[0\])$")
"""`batch_size`, `labels.size(0)`, `x.shape[0]`."""


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
    if not isinstance(node, ast.Call):
        return isinstance(node, ast.Name | ast.Attribute) and not _few(node) and _tensor(node, event)
    name = called_name(node)
    if name in {"enumerate", "tqdm", "zip"}:
        # The shortest ends a zip: values of the whole batch, one for each loss.
        few = name == "zip" and any(map(_few, node.args))
        return not few and any(_over_samples(item, event) for item in node.args)
    if name != "range" or not node.args:
        return False
    last = node.args[-1] if len(node.args) < 3 else node.args[1]
    if isinstance(last, ast.Call) and called_name(last) == "len" and last.args:
        return _tensor(last.args[0], event)
    return bool(_COUNTS.search(ast.unparse(last).lower()))


def _few(node: ast.expr) -> bool:
    return bool(_FEW.search(last_name(node).lower()))


def _tensor(node: ast.expr, event: Event) -> bool:
    return event.thing(node).type == "torch.Tensor"
