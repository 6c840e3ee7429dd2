"""The documentation site: it builds without a warning, and every command and every page has its place."""

import os
import re
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import site_builder  # noqa: E402

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text("utf-8")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "source"
    with patch.dict(os.environ):  # it asks for 80 columns without colours
        site_builder.write(folder, with_pictures=False, progress=lambda words: None)
    return folder


@pytest.mark.slow
def test_the_site_has_no_broken_link_but_the_one_that_this_test_writes(source):
    page = source / "tutorial.md"
    page.write_text(TUTORIAL + "\n[nowhere](nowhere.md)\n", "utf-8")
    bare = source.parent / "bare"  # a theme without navigation, which is most of the time
    bare.mkdir()
    (bare / "main.html").write_text("{{ page.content }}", "utf-8")
    theme = {"name": None, "custom_dir": str(bare)}
    warnings = site_builder.build(source, source.parent / "site", theme=theme, plugins=[])
    assert [line for line in warnings if "nowhere.md" not in line] == []
    assert len(warnings) == 1


def test_a_command_page_has_its_text_and_its_flags(source):
    page = (source / "commands/compare.md").read_text("utf-8")
    assert page.startswith("# gpudoctor compare")
    assert "--max-regression SHARE" in page


def test_a_linked_script_has_a_page_and_linked_data_has_not(source):
    assert "#SBATCH" in (source / "files/examples/slurm/train.sbatch.md").read_text("utf-8")
    assert not list(source.glob("files/**/*.json*"))


@pytest.mark.parametrize("name", ["docs/tutorial.md", "docs/tutorial.zh.md", "README.zh-CN.md"])
def test_a_page_shows_an_output_for_each_of_its_commands(name):
    text = (ROOT / name).read_text("utf-8")
    commands = re.findall(r"<!-- run: (.*?) -->", text)
    assert commands
    assert re.findall(r"<!-- run: (.*?) -->\n\n```console\n\$ \1\n", text) == commands


def test_the_tutorial_has_the_same_commands_in_both_languages():
    def commands(name):
        text = (ROOT / name).read_text("utf-8")
        return list(dict.fromkeys(re.findall(r"^\$ (.*)", text, re.MULTILINE)))

    assert commands("docs/tutorial.md") == commands("docs/tutorial.zh.md")


def test_a_link_to_a_file_that_is_not_there_ends_the_build(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("[text](nowhere.md)\n", "utf-8")
    with pytest.raises(LookupError, match=r"nowhere\.md"):
        site_builder._linked(page.read_text("utf-8"), page, "page.md", {}, tmp_path)
