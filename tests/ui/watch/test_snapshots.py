"""The live view's screens as pictures. GPUDOCTOR_UPDATE_SNAPSHOTS=1 draws them anew: look at them before committing.

What is compared is every piece of text with its place and weight. Colours are in the pictures for people to see;
those of a theme change with Textual's releases.
"""

import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from screens import eight_ranks, on_screen, sick_tick

SNAPSHOTS = Path(__file__).parents[1] / "__snapshots__"
SVG = "{http://www.w3.org/2000/svg}"
WEIGHT = re.compile(r"\.terminal-\d+-(r\d+) \{[^}]*font-weight: bold")


def drawn(svg: str) -> list[tuple[int, int, str, bool]]:
    """Row, column, text and whether it is bold, in reading order."""
    bold = set(WEIGHT.findall(svg))
    pieces = []
    for node in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        style = (node.get("class") or "").rpartition("-")[2]
        text = (node.text or "").replace("\xa0", " ")
        if style != "title" and text.strip():
            place = round(float(node.get("y") or 0)), round(float(node.get("x") or 0))
            pieces.append((*place, text.rstrip(), style in bold))
    return sorted(pieces)


@pytest.mark.parametrize(
    ("name", "size"), [("sick", (80, 24)), ("sick", (120, 40)), ("ranks", (200, 60))], ids=["80x24", "120x40", "200x60"]
)
def test_the_screen_is_as_it_was_looked_at(name, size):
    kept = []

    async def act(app, pilot):
        kept.append(app.export_screenshot(title="gpudoctor watch"))

    on_screen([sick_tick() if name == "sick" else eight_ranks()], act, size=size)
    path = SNAPSHOTS / f"watch-{name}-{size[0]}.svg"
    if os.environ.get("GPUDOCTOR_UPDATE_SNAPSHOTS"):
        path.write_text(kept[0], encoding="utf-8")
    assert drawn(kept[0]) == drawn(path.read_text(encoding="utf-8"))
    assert len(drawn(kept[0])) > size[1]
