"""Panels of the live view on the training loop: phases, hottest lines, ranks, findings."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.text import Text
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from gpudoctor.analysis.live.rank_positions import standing_for
from gpudoctor.lang import rendered, template, term, tr, word
from gpudoctor.lang.wrapping import cells, padded
from gpudoctor.model import Ranked, Severity
from gpudoctor.model.signs.process import Place, Rank
from gpudoctor.model.watch import Tick
from gpudoctor.report.palette import phase_colour
from gpudoctor.report.run_words import phase_shares
from gpudoctor.report.units import confidence_text, fix_title, remedy_gain
from gpudoctor.text import duration
from gpudoctor.ui.console.canvas import clipped
from gpudoctor.ui.watch.band import phase_band
from gpudoctor.ui.watch.marks import View, counted, percent, phase_name, plain, shown_places, shown_ranks, tint
from gpudoctor.ui.watch.panels import Panel, absence, coloured, lines_text, severity_style

# Where the loop's time goes: a bar a phase, and the phases over time.

_NAME = 11
_LEGEND = 30
"""Columns of the bars beside the band, at least."""
_BAND = 24
"""Columns of the band, at least; below that the bars stand alone."""
_LINES = 5
"""Four rows of the band, and its axis."""
_LEAST = 0.005


class Phases(Panel):
    """Shares by stack samples; exact ones where `gpudoctor run` records the job. The band is always samples."""

    def wanted(self, tick: Tick, view: View) -> int:
        """The lines of a band."""
        return _LINES if phase_shares(shown_ranks(tick.window, view)) else len(_absence(tick))

    def draw(self, tick: Tick, view: View, width: int, height: int) -> Text:
        """Bars, largest first, and beside them the band."""
        height = min(height, _LINES)
        shares = phase_shares(shown_ranks(tick.window, view))
        if not shares:
            return Text("\n".join(_absence(tick)), overflow="fold")
        legend = min(44, max(_LEGEND, width // 4))
        if width - legend - 2 < _BAND or view.plain:  # the band has nothing but colours
            legend = width
        named = [item for item in shares.items() if item[1] >= _LEAST]
        bars = [_phase_row(phase, share, named[0][1], legend, view) for phase, share in named[:height]]
        band = []
        if legend < width:
            window = tick.window
            band = phase_band(shown_ranks(window, view), window.t, width - legend - 2, height)
        lines = []
        for row in range(height if band else min(height, len(bars))):
            left = bars[row] if row < len(bars) else Text()
            left.truncate(legend, pad=True)
            lines.append(Text.assemble(left, "  ", band[row]) if band else left)
        return lines_text(lines, height)

    def heading(self, tick: Tick, view: View) -> str:
        """Where it is now, how many samples this is made of, and how many were lost."""
        good, lost = counted(tick.window, view)
        missed = tr(", {lost} lost", lost=lost) if lost else ""
        return tr(
            "where the loop is: {good} samples{missed}{now}",
            good=good,
            missed=missed,
            now=_now(shown_ranks(tick.window, view)),
        )


def _now(ranks: Sequence[Rank]) -> str:
    """` · now data wait in __getitem__ (data.py:31)` of one rank; of several, the phase that most are in."""
    alive = [rank for rank in ranks if rank.trail and rank.alive]
    if not alive:
        return ""
    newest = Counter(rank.trail[-1][1] for rank in alive).most_common(1)[0]
    if len(alive) > 1:
        return tr(
            " · now {newest} of {alive} ranks in {phase_name}",
            newest=newest[1],
            alive=len(alive),
            phase_name=phase_name(newest[0]),
        )
    leaf = tr(" in {plain}", plain=plain(alive[0].stack[-1].label)) if alive[0].stack else ""
    return tr(" · now {phase_name}{leaf}", phase_name=phase_name(newest[0]), leaf=leaf)


def _phase_row(phase: str, share: float, largest: float, width: int, view: View) -> Text:
    """`■ data wait   58% ███████`, the largest as wide as there is room."""
    colour = tint(phase_colour(phase), view)
    gauge = max(0, width - _NAME - 9)
    filled = max(1, min(gauge, round(share / largest * gauge))) if gauge else 0
    return Text.assemble(
        coloured("■ ", colour), f"{padded(clipped(phase_name(phase), _NAME), _NAME)} {share:>4.0%} ",
        coloured("█" * filled, colour),
    )  # fmt: skip


def _absence(tick: Tick) -> list[str]:
    return absence(tick, "stacks", template("no stacks: {reason}")) or [tr("waiting for the first stack sample")]


# The hottest lines of the user's code.

_HEAD = 18
"""Columns of share and phase."""


class PlacesTable(Panel):
    """Share, phase, place, and the line itself where there is room."""

    def wanted(self, tick: Tick, view: View) -> int:
        """A line a place; 0 where there is none."""
        return len([place for place in _by_line(shown_places(tick.window, view)) if place.path])

    def draw(self, tick: Tick, view: View, width: int, height: int) -> Text:
        """A line a place."""
        total, _ = counted(tick.window, view)
        named = [place for place in _by_line(shown_places(tick.window, view)) if place.path]
        named.sort(key=lambda place: (-place.count, place.path, place.line))
        if not named:
            return Text(tr("no line of your own code has been seen yet") if total else "", overflow="fold")
        wide = max(len(_where(place)) for place in named[:height])
        wide = min(wide, width - _HEAD)
        return lines_text([_place_row(place, total, wide, width, view) for place in named[:height]], height)

    def heading(self, tick: Tick, view: View) -> str:
        """What they are ordered by."""
        del tick, view
        return tr("hottest lines (by share)")


def _by_line(places: Iterable[Place]) -> list[Place]:
    """Places of the same line and phase added up, whatever library function they were in."""
    merged: dict[tuple[str, str, int], Place] = {}
    for place in places:
        key = (place.phase, place.path, place.line)
        same = merged.get(key)
        merged[key] = place if same is None else replace(same, count=same.count + place.count)
    return list(merged.values())


def _place_row(place: Place, total: int, wide: int, width: int, view: View) -> Text:
    colour = tint(phase_colour(place.phase), view)
    where = f"{clipped(_where(place), wide):<{wide}}  {plain(place.text)}"
    head = Text.assemble(
        f"{place.count / max(1, total):>4.0%} ", coloured("■ ", colour), padded(phase_name(place.phase), 10) + " "
    )
    return head.append(clipped(where, width - head.cell_len))


def _where(place: Place) -> str:
    return plain(f"{place.path.rpartition('/')[2]}:{place.line} {place.function.rpartition('.')[2]}")


# Ranks and their loader workers: who stands where.

_STATES = {
    "R": template("running"),
    "S": template("asleep"),
    "D": template("disk wait"),
    "T": template("stopped"),
    "t": template("stopped"),
    "Z": template("dead"),
    "X": template("gone"),
}
_STILL = 10.0
"""Seconds without any movement from which a rank's standing still is shown."""


class Ranks(Panel):
    """A line a rank; of one rank, what its workers do."""

    def wanted(self, tick: Tick, view: View) -> int:
        """A line a rank or worker; 0 for a single process without workers: the phases' title has it."""
        ranks = shown_ranks(tick.window, view)
        if len(ranks) > 1:
            return len(ranks)
        rank = ranks[0]
        plain_one = not rank.workers and not rank.lost_workers and rank.alive and rank.state in "RS"
        return 0 if plain_one and len(tick.window.ranks) < 2 and standing_for(rank) < _STILL else 2

    def draw(self, tick: Tick, view: View, width: int, height: int) -> Text:
        """Ranks where there are several and none is chosen."""
        ranks = shown_ranks(tick.window, view)
        if len(ranks) > 1:
            # Those that are gone or stand elsewhere than most come first: they must not fall off the panel.
            newest = {rank.pid: rank.trail[-1][1] if rank.trail else "" for rank in ranks}
            usual = Counter(newest.values()).most_common(1)[0][0]
            ranks = sorted(ranks, key=lambda rank: rank.alive and newest[rank.pid] == usual)
            return lines_text([_rank_line(rank, width, view) for rank in ranks], height)
        rank = ranks[0]
        return lines_text([_rank_line(rank, width, view), Text(_summary(rank, width))], height)

    def heading(self, tick: Tick, view: View) -> str:
        """`8 ranks`, or the chosen one."""
        ranks = shown_ranks(tick.window, view)
        return (
            tr("{ranks} ranks", ranks=len(ranks))
            if len(ranks) > 1
            else tr("{title} and its workers", title=ranks[0].title)
        )


def _rank_line(rank: Rank, width: int, view: View) -> Text:
    name = padded(rendered(rank.title), 8) + " "
    if not rank.alive:
        return Text(clipped(f"{name}{word('gone')}", width), severity_style(Severity.ERROR, view))
    phase = rank.trail[-1][1] if rank.trail else ""
    words = phase_name(phase) if phase else rendered(rank.blind) or tr("not seen yet")
    leaf = plain(rank.stack[-1].label) if rank.stack else ""
    seconds = standing_for(rank)
    still = tr("  still for {seconds}", seconds=duration(seconds)) if seconds >= _STILL else ""
    state = "" if rank.state in "RS" else f"  {_state(rank.state, rank.wait_channel)}"
    mark = coloured("■ ", tint(phase_colour(phase), view)) if phase else Text()
    head = Text.assemble(name, mark)
    return head.append(
        clipped(
            tr(
                "{words} cpu {cpu:>4}  {leaf}{still}{state}",
                words=padded(words, 11),
                cpu=percent(rank.cpu),
                leaf=leaf,
                still=still,
                state=state,
            ),
            width - head.cell_len,
        )
    )


def _summary(rank: Rank, width: int) -> str:
    if not rank.workers:
        return clipped(tr("no loader workers"), width)
    counts: dict[str, int] = {}
    for worker in rank.workers:
        state = word(_STATES.get(worker.state, worker.state))
        counts[state] = counts.get(state, 0) + 1
    states = ", ".join(f"{count} {state}" for state, count in counts.items())
    lost = tr("; {lost_workers} died", lost_workers=len(rank.lost_workers)) if rank.lost_workers else ""
    return clipped(tr("{workers} workers: {states}{lost}", workers=len(rank.workers), states=states, lost=lost), width)


def _state(state: str, channel: str) -> str:
    return word(_STATES.get(state, state)) + (tr(" in {channel}", channel=channel) if channel else "")


# The findings, best to act on first; Enter or a click opens the manual page.


class Findings(OptionList):
    """One option a finding; a tick that brings the same ones leaves the choice where it is."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, markup=False)
        self._shown: list[Text] = []
        self._tick: Tick | None = None
        self._view = View()

    def show(self, tick: Tick, view: View) -> None:
        """Show the findings of a tick."""
        chosen = self.code
        self._tick, self._view = tick, view
        found = tick.report.findings
        hint = tr(" · enter: manual page") if found else ""
        self.border_title = tr("findings ({found}){hint}", found=len(found), hint=hint)
        texts = [finding_text(item, max(20, self.content_size.width - 2), view) for item in found]
        if texts == self._shown and self.option_count:
            return
        self._shown = texts
        self.clear_options()
        if not texts:
            self.add_option(Option(tr("nothing found so far"), disabled=True))
        codes = [str(item.finding.code) for item in found]
        self.add_options([Option(text) for text in texts])
        if texts:
            self.highlighted = codes.index(chosen) if chosen in codes else 0

    def wanted(self, tick: Tick) -> int:
        """Two lines a finding, and one for none."""
        return sum(2 if item.remedies else 1 for item in tick.report.findings) or 1

    def on_resize(self) -> None:
        """Write again for the new width."""
        if self._tick is not None:
            self._shown = []
            self.show(self._tick, self._view)

    @property
    def chosen(self) -> Ranked | None:
        """The finding under the cursor."""
        place = self.highlighted
        if self._tick is None or place is None or place >= len(self._tick.report.findings):
            return None
        return self._tick.report.findings[place]

    @property
    def code(self) -> str:
        """Its code; "" without one."""
        return str(self.chosen.finding.code) if self.chosen else ""


def finding_text(item: Ranked, width: int, view: View) -> Text:
    """Two lines: the ailment and how sure we are, then the best remedy and what it is worth."""
    finding = item.finding
    style = severity_style(finding.severity, view)
    head = f"{item.rank} {plain(finding.code)} {plain(finding.name)}"
    aside = tr("{severity}, {sure}", severity=term(finding.severity.value), sure=confidence_text(finding))
    subject = f"  {plain(finding.subject)}" if finding.subject else ""
    room = width - cells(head) - cells(aside) - 2
    text = Text(no_wrap=True, overflow="crop")
    text.append(head, style=style)
    text.append(padded(clipped(subject, room), room) if room > 0 else "  ")
    text.append(f" {aside}", style=style)
    if item.remedies:
        best = item.remedies[0]
        worth = " · ".join(remedy_gain(best))
        title = clipped(tr("  fix: {plain}", plain=plain(fix_title(best))), width - cells(worth) - 2)
        text.append(f"\n{title}  {worth}".rstrip())
    return text
