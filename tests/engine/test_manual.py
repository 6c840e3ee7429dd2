import pytest

from gpudoctor.engine.manual import HEADINGS, ManualError, help_markdown, named, parse_manual, read_page
from gpudoctor.engine.registry import load_registry
from gpudoctor.model import Check, Code, Reads

PAGE = "The ailment in\n    one sentence.\n\n" + "\n".join(
    f"    {heading}:\n        About {heading}.\n        Second line." for heading in HEADINGS
)


class Sick(Check):
    __doc__ = PAGE
    code = Code("ACME001")
    name = "sick"
    reads = frozenset({Reads.CONFIG, Reads.ENVIRONMENT})

    def examine(self, patient):
        yield from ()


class Undocumented(Sick):
    """Somebody's check."""


def test_a_page_has_its_title_and_sections():
    manual = parse_manual(PAGE)
    assert manual.title == "The ailment in one sentence."
    assert list(manual.sections) == list(HEADINGS)
    assert manual.sections["Remedies"] == "About Remedies.\nSecond line."


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("", "expected a title"),
        (PAGE.replace("Remedies:", "Remedys:"), "Remedys, References; expected"),
        (PAGE + "\n    Remedies:\n        x", "References, Remedies; expected"),
        (PAGE.replace("        About Remedies.\n        Second line.", ""), "nothing under the heading 'Remedies'"),
        (
            PAGE.replace("    What it finds:", "    Stray words.\n    What it finds:"),
            "expected a title, then What it finds",
        ),
        (PAGE.replace("Why it hurts", "How it knows", 1), "finds, How it knows, How it knows"),
    ],
)
def test_what_is_no_page_is_refused_with_a_reason(page, sentence):
    with pytest.raises(ManualError, match=sentence):
        parse_manual(page)


def test_a_report_names_a_check_with_its_help():
    entry = named(Sick)
    assert (entry.code, entry.name, entry.title) == ("ACME001", "sick", "The ailment in one sentence.")
    assert entry.help.startswith("**What it finds**\n\nAbout What it finds.")
    assert help_markdown(read_page(Undocumented)) == ""


def test_an_example_of_sick_lines_and_of_their_cure_stands_before_the_references():
    page = read_page(load_registry().checks[Code("OBS005")])
    *_, example, instead, references = page.sections
    assert (example, instead, references) == ("Example", "Use instead", "References")
    assert page.sections[example].replace("True", "False") == page.sections[instead] != page.sections[example]
