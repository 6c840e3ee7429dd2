"""Time inside a forward pass that goes into packages which know no tensors: graphs, pictures, tables, text.

A forward pass may call anything. What such a package does there runs in Python or on the CPU, sample by sample,
while the device waits; and what it works out often depends on the input alone.
"""

import re
from collections import defaultdict
from collections.abc import Mapping

from gpudoctor.analysis import of_run
from gpudoctor.analysis.memo import once
from gpudoctor.model.records import frozen

_FORWARD = "forward"
_PASSES = (_FORWARD, "evaluation")
_PACKAGES = re.compile(
    r"/(?:site|dist)-packages/(networkx|igraph|scipy|sklearn|skimage|pandas|polars|numpy|PIL|cv2|imageio|shapely|"
    r"rdkit|Bio|nltk|spacy|gensim|sympy|librosa|soundfile|statsmodels|matplotlib)/"
)
_PYTHON = re.compile(
    r"/lib/python\d[\d.]*/(json|copy|re|random|pickle|csv|heapq|bisect|statistics|fractions|decimal|difflib|"
    r"textwrap|string|glob|fnmatch|hashlib|zlib|gzip|xml|html)(?:/|\.py$)"
)
"""Modules of Python's own that compute; those that wait, or wrap calls, are none of them."""


@frozen
class Foreign:
    """What packages without tensors take in the forward passes of a rank."""

    share: float
    """Of step time (0..1): the phase's measured time, told apart by the sampler's looks."""
    packages: tuple[str, ...]
    """Dearest first."""
    lines: "tuple[of_run.LineCost, ...]"
    """The user's lines that call them, dearest first."""


def foreign(state: "of_run.Steady") -> Foreign | None:
    """The time in such packages; None where the sampler never saw any in a forward pass that trains.

    An evaluation makes the same passes: its part of those lines is counted with them.
    """
    seen = _seen(state.process)
    share = sum(state.share(phase) * samples / seen.whole[phase] for phase, samples in seen.inside.items() if samples)
    if not seen.inside.get(_FORWARD) or not share:
        return None
    return Foreign(share=share, packages=seen.packages, lines=seen.lines)


@frozen
class _Looks:
    """What the sampler saw in steady state."""

    inside: Mapping[str, float]
    """Phase to its looks in such packages."""
    whole: Mapping[str, float]
    """Phase to all of its looks."""
    packages: tuple[str, ...]
    lines: "tuple[of_run.LineCost, ...]"


@once
def _seen(process: "of_run.Process") -> _Looks:
    begin = of_run.steady(process).begin
    counted: dict[tuple[str, str, int, str], float] = {}
    packages: dict[str, float] = defaultdict(float)
    whole: dict[str, float] = defaultdict(float)
    for record in process.of("lines"):
        if record.t < begin:
            continue
        counts = record.get("counts") or ()
        for phase, *_, samples in counts:
            whole[str(phase)] += samples
        for index, path, _, samples in record.get("leaves") or ():
            phase, user, line, function, _ = counts[index]
            found = _PACKAGES.search(str(path)) or _PYTHON.search(str(path))
            if phase in _PASSES and user is not None and found is not None:
                key = (str(phase), str(user), int(line or 0), str(function or ""))
                counted[key] = counted.get(key, 0.0) + samples
                packages[found[1]] += samples
    trained = {key[1:] for key in counted if key[0] == _FORWARD}
    mine = {key: samples for key, samples in counted.items() if key[1:] in trained}
    inside: dict[str, float] = defaultdict(float)
    for key, samples in mine.items():
        inside[key[0]] += samples
    return _Looks(
        inside=inside,
        whole=whole,
        packages=tuple(sorted(packages, key=lambda name: (-packages[name], name))),
        lines=tuple(of_run.by_line(of_run.line_costs(mine, sum(whole.values()) or 1.0))),
    )
