"""Metrics in a training step: calls of CPU metric libraries."""

from gpudoctor.analysis.source.syntax import in_order
from gpudoctor.model.signs.source import Call

OFTEN = 10
"""Training steps: metrics more often than that are SYNC004's by default (S4: every 10 steps)."""
_PACKAGES = in_order(
    "sklearn.metrics. scipy.stats. nltk.translate. sacrebleu. rouge. rouge_score. pycocotools. seqeval.metrics. "
    "jiwer. skimage.metrics. bert_score. editdistance. Levenshtein. pycocoevalcap."
)
_NO_METRICS = frozenset({"load", "ConfusionMatrixDisplay", "make_scorer", "combine", "norm", "truncnorm", "uniform"})


def is_metric(call: Call) -> bool:
    """Whether a call computes a metric on the CPU."""
    return call.name.startswith(_PACKAGES) and call.method not in _NO_METRICS and not call.name.endswith("_Score")
