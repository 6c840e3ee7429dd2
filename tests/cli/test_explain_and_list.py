import json

import pytest
from some import some

from gpudoctor.cli import main
from gpudoctor.engine.registry import load_registry

REGISTRY = load_registry()
FIRST = next(iter(REGISTRY.checks.values()))


@pytest.mark.parametrize("change", [str, str.upper, str.lower])
def test_a_check_is_found_by_code_and_by_name(change, capsys):
    for word in (FIRST.code, FIRST.name):
        assert main(["explain", change(word)]) == 0
        out = capsys.readouterr().out
        assert out.startswith(f"{FIRST.code} {FIRST.name}")
        assert "Why it hurts" in out and "Remedies" in out


def test_the_list_has_every_check_and_fits_eighty_columns(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    for code, check in some(REGISTRY.checks.items()):
        assert any(line.split()[:2] == [code, check.name] for line in lines)


def test_words_and_messages_find_the_page_or_name_the_candidates(capsys):
    assert main(["explain", "loss", "spikes"]) == 0
    out = capsys.readouterr().out
    assert "checks for 'loss spikes'; read one: gpudoctor explain " in out and max(map(len, out.splitlines())) <= 80
    assert main(["explain", "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB"]) == 0
    assert "out-of-memory" in capsys.readouterr().out.splitlines()[0]
    assert main(["explain", "oom", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checks"][0]["name"] == "out-of-memory"


@pytest.mark.parametrize(("typed", "meant"), [("data1", "DATA001"), ("DATA01", "DATA001"), ("loader-bond", "DATA001")])
def test_a_mistyped_code_or_name_names_the_near_one(typed, meant, capsys):
    assert main(["explain", typed]) == 2
    assert f"did you mean {meant}" in capsys.readouterr().err


def test_the_list_of_a_topic_and_of_a_search(capsys, tmp_path):
    assert main(["list", "data", "--json"]) == 0
    codes = [item["code"] for item in json.loads(capsys.readouterr().out)["checks"]]
    assert codes and all(code.startswith("DATA") for code in codes)
    assert main(["list", "checkpoint", "-o", str(tmp_path / "list.txt")]) == 0
    assert "checkpoint-too-often" in (tmp_path / "list.txt").read_text() and capsys.readouterr().out == ""
    assert main(["list", "qqzzx"]) == 2
    assert "no check is about 'qqzzx'" in capsys.readouterr().err
