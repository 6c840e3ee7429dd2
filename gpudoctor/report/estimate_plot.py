"""Memory over batch, sequence or another flag, as one SVG of its own or, through matplotlib, a PNG."""

import math
from collections.abc import Sequence
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.estimate.answer import Answer, label
from gpudoctor.lang import rendered, say, term, tr, word
from gpudoctor.report.estimate_words import GIB, card_text, parameters_text
from gpudoctor.report.templating import environment

WIDTH, HEIGHT = 720, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 120, 64, 58
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's: told apart by readers who see fewer colours."""
_AXES = {
    "seq": say("sequence, tokens"),
    "batch": say("batch, rows on one GPU"),
    "gpus": say("number of GPUs"),
    "lora_rank": say("LoRA rank"),
}
_LETTER = 6.3
"""Mean width of a letter at size 12."""
_APART = 16.0
"""Least distance of two names at the right edge."""


def draw_svg(answer: Answer) -> str:
    """The plot: a line for each method, named at its end; a dashed one where the card ends."""
    key, values, series = _series(answer)
    step, top = _scale(answer, series)
    room = (WIDTH - _LEFT - _RIGHT) / max(len(values), 1)
    places = [_LEFT + room * (at + 0.5) for at in range(len(values))]
    curves = [
        {
            "colour": _colour(at),
            "points": [(x, _y(amount, top), amount) for x, amount in zip(places, amounts, strict=True)],
            "name": name,
            "y": y,
        }
        for at, ((_, amounts), (name, y)) in enumerate(zip(series, _places(series, top), strict=True))
    ]
    return (
        environment("gpudoctor.report")
        .get_template("estimate_plot.jinja")
        .render(
            width=WIDTH,
            height=HEIGHT,
            left=_LEFT,
            right=WIDTH - _RIGHT,
            title=_title(answer, key),
            axis=_axis(key),
            ticks=[(_y(tick * step, top), f"{tick * step:,g}") for tick in range(round(top / step) + 1)],
            values=list(zip(places, values, strict=True)),
            slanted=_slanted(values),
            under=HEIGHT - _BOTTOM + 18,
            card=None if answer.device is None else (_y(answer.device.bytes / GIB, top), card_text(answer.device)),
            curves=curves,
            joined=_ordered(values),
        )
        + "\n"
    )


def write_png(answer: Answer, path: str) -> None:
    """The same as a PNG. Raises `UsageError` where matplotlib is missing: an SVG needs nothing."""
    try:
        import matplotlib
    except ImportError:
        raise UsageError(
            say("--plot {path}: a PNG needs matplotlib (pip install matplotlib); .svg needs nothing", path=path)
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(WIDTH / 100, HEIGHT / 100), layout="constrained")
    try:
        _paint(axes, answer)
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise UsageError(
            say("--plot {path}: cannot be written: {error}", path=path, error=error.strerror or error)
        ) from error
    finally:
        pyplot.close(figure)


def _paint(axes: Any, answer: Answer) -> None:
    """The plot on matplotlib's axes."""
    key, values, series = _series(answer)
    step, top = _scale(answer, series)
    style = "-" if _ordered(values) else ""
    for at, (_, amounts) in enumerate(series):
        axes.plot(range(len(values)), amounts, marker="o", linestyle=style, color=_colour(at))
    for at, (name, y) in enumerate(_places(series, top)):
        share = (HEIGHT - _BOTTOM - y) / (HEIGHT - _BOTTOM - _TOP)
        axes.text(1.02, share, name, transform=axes.transAxes, color=_colour(at), va="center")
    if answer.device is not None:
        end = answer.device.bytes / GIB
        axes.axhline(end, linestyle="--", color="#444444", linewidth=1)
        said = tr(" {card_text}: the card ends here", card_text=card_text(answer.device))
        halo = {"facecolor": "#ffffff", "edgecolor": "none", "pad": 0.5}
        axes.text(-0.5, end + top / 80, said, color="#444444", fontsize=9, bbox=halo)
    slant = {"rotation": 30, "ha": "right"} if _slanted(values) else {}
    axes.set_xticks(range(len(values)), values, **slant)
    axes.set_yticks([tick * step for tick in range(round(top / step) + 1)])
    axes.set(xlabel=_axis(key), xlim=(-0.5, len(values) - 0.5), ylim=(0, top))
    axes.set_ylabel(tr("GiB allocated on one GPU"))
    axes.set_title(_title(answer, key), loc="left", fontsize=11)
    axes.grid(axis="y", color="#dddddd")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _series(answer: Answer) -> tuple[str, list[str], list[tuple[str, list[float]]]]:
    """The flag, its values, and GiB by method."""
    key, rows = answer.varied or ("batch", ())
    count = min((len(row.estimates) for row in rows), default=0)
    names = (
        [tr("allocated")] if key == "method" else [rendered(label(each)) for each in rows[0].estimates] if rows else []
    )
    series = [(names[at], [row.estimates[at].total_bytes / GIB for row in rows]) for at in range(count)]
    return key, [word(row.value) for row in rows], series


def _title(answer: Answer, key: str) -> str:
    return tr(
        "{name}, {parameters_text}: memory over {key}",
        name=answer.shape.name,
        parameters_text=parameters_text(answer.shape),
        key=term(key.replace("_", " ")),
    )


def _axis(key: str) -> str:
    return rendered(_AXES.get(key, term(key.replace("_", " "))))


def _colour(at: int) -> str:
    return _COLOURS[at % len(_COLOURS)]


def _scale(answer: Answer, series: Sequence[tuple[str, list[float]]]) -> tuple[float, float]:
    """Distance of two ticks, a round number, and the axis' end: above every point and the card."""
    amounts = [amount for _, points in series for amount in points]
    if answer.device is not None:
        amounts.append(answer.device.bytes / GIB)
    most = max(amounts, default=1.0) * 1.04
    rough = most / 5
    size = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    step = next(size * each for each in (1, 2, 2.5, 5, 10) if size * each >= rough)
    return step, step * math.ceil(most / step)


def _ordered(values: Sequence[str]) -> bool:
    """Whether a line between two values says anything: numbers have an order, optimizers have none."""
    return all(value[:1].isdigit() for value in values)


def _slanted(values: Sequence[str]) -> bool:
    """Whether the longest value is wider than its place."""
    room = (WIDTH - _LEFT - _RIGHT) / max(len(values), 1)
    return max(map(len, values), default=0) * _LETTER > room


def _y(amount: float, top: float) -> float:
    return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * amount / top


def _places(series: Sequence[tuple[str, list[float]]], top: float) -> list[tuple[str, float]]:
    """Where each name stands: at the height of its last point, moved apart where two would touch."""
    order = sorted(range(len(series)), key=lambda at: series[at][1][-1])
    heights, last = {}, HEIGHT - _BOTTOM + _APART
    for at in order:
        last = min(_y(series[at][1][-1], top), last - _APART)
        heights[at] = last
    return [(name, heights[at]) for at, (name, _) in enumerate(series)]
