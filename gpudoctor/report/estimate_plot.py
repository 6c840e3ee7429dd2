"""Memory over batch, sequence or another flag, as one SVG of its own or, through matplotlib, a PNG."""

from collections.abc import Sequence
from html import escape

from gpudoctor.errors import UsageError
from gpudoctor.estimate.answer import Answer, label
from gpudoctor.report.estimate_words import GIB, parameters_text

WIDTH, HEIGHT = 720, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 150, 50, 60
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's: told apart by readers who see fewer colours."""


def draw_svg(answer: Answer) -> str:
    """The plot: a line for each method, a dashed one where the card ends."""
    key, values, series = _series(answer)
    top = _ceiling(answer, series)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-family="sans-serif" font-size="12" role="img">',
        f"<title>{escape(_title(answer, key))}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 28, _title(answer, key), size=14),
    ]
    for step in range(6):
        amount = top * step / 5
        y = _y(amount, top)
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{WIDTH - _RIGHT}" y2="{y:.1f}" stroke="#dddddd"/>')
        parts.append(_text(_LEFT - 8, y + 4, f"{amount:,.3g}", anchor="end"))
    parts += [
        _text(_x(at, values), HEIGHT - _BOTTOM + 18, value, anchor="middle") for at, value in enumerate(values)
    ]
    parts.append(_text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 16, key.replace("_", " "), anchor="middle"))
    parts.append(_text(14, _TOP - 8, "GiB allocated"))
    for at, (name, amounts) in enumerate(series):
        parts += _line(at, name, amounts, values, top)
    parts += _card_line(answer, top)
    return "\n".join([*parts, "</svg>"]) + "\n"


def write_png(answer: Answer, path: str) -> None:
    """The same as a PNG. Raises `UsageError` where matplotlib is missing: an SVG needs nothing."""
    try:
        import matplotlib
    except ImportError:
        raise UsageError(
            f"--plot {path}: a PNG needs matplotlib (pip install matplotlib); .svg needs nothing"
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    key, values, series = _series(answer)
    figure, axes = pyplot.subplots(figsize=(WIDTH / 100, HEIGHT / 100))
    for at, (name, amounts) in enumerate(series):
        axes.plot(range(len(values)), amounts, marker="o", label=name, color=_COLOURS[at % len(_COLOURS)])
    if answer.device is not None:
        axes.axhline(answer.device.bytes / GIB, linestyle="--", color="#444444", label=answer.device.name)
    axes.set_xticks(range(len(values)), values)
    axes.set(xlabel=key.replace("_", " "), ylabel="GiB allocated", title=_title(answer, key), ylim=(0, None))
    axes.legend()
    try:
        figure.savefig(path, dpi=100)
    except OSError as error:
        raise UsageError(f"--plot {path}: cannot be written: {error.strerror or error}") from error
    finally:
        pyplot.close(figure)


def _series(answer: Answer) -> tuple[str, list[str], list[tuple[str, list[float]]]]:
    """The flag, its values, and GiB by method."""
    key, rows = answer.varied or ("batch", ())
    count = min((len(row.estimates) for row in rows), default=0)
    names = ["allocated"] if key == "method" else [label(each) for each in rows[0].estimates] if rows else []
    series = [(names[at], [row.estimates[at].total_bytes / GIB for row in rows]) for at in range(count)]
    return key, [row.value for row in rows], series


def _title(answer: Answer, key: str) -> str:
    return f"{answer.shape.name}, {parameters_text(answer.shape)}: memory over {key.replace('_', ' ')}"


def _ceiling(answer: Answer, series: Sequence[tuple[str, list[float]]]) -> float:
    """The upper end of the axis: above every point and the card, so that both are seen."""
    amounts = [amount for _, points in series for amount in points]
    if answer.device is not None:
        amounts.append(answer.device.bytes / GIB)
    return max(amounts, default=1.0) * 1.08


def _x(at: int, values: Sequence[str]) -> float:
    room = WIDTH - _LEFT - _RIGHT
    return _LEFT + room * (at + 0.5) / max(len(values), 1)


def _y(amount: float, top: float) -> float:
    return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * amount / top


def _line(at: int, name: str, amounts: Sequence[float], values: Sequence[str], top: float) -> list[str]:
    colour = _COLOURS[at % len(_COLOURS)]
    points = [(_x(place, values), _y(amount, top)) for place, amount in enumerate(amounts)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>{amount:.2f} GiB</title></circle>'
        for (x, y), amount in zip(points, amounts, strict=True)
    ]
    legend = _text(WIDTH - _RIGHT + 12, _TOP + 18 * at + 4, name, colour=colour)
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots, legend]


def _card_line(answer: Answer, top: float) -> list[str]:
    card = answer.device
    if card is None:
        return []
    y = _y(card.bytes / GIB, top)
    return [
        f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{WIDTH - _RIGHT}" y2="{y:.1f}" stroke="#444444" '
        'stroke-dasharray="6 4"/>',
        _text(_LEFT + 6, y - 5, f"{card.name}: the card ends here", colour="#444444"),
    ]


def _text(
    x: float, y: float, text: str, *, size: int = 12, anchor: str = "start", colour: str = "#222222"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">'
        f"{escape(text)}</text>"
    )
