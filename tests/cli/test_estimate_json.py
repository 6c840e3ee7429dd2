"""`gpudoctor estimate --format json` keeps to its schema, whatever was asked."""

import json
from pathlib import Path

import jsonschema
import pytest

import gpudoctor
from gpudoctor.cli import estimate as command
from gpudoctor.cli import main

SCHEMA = json.loads((Path(gpudoctor.__file__).parent / "report/estimate-1.schema.json").read_text("utf-8"))

ASKED = {
    "plain": "--model 7b",
    "a card": "--model 7b --gpu 24GiB",
    "nothing fits": "--model 405b --gpu T4",
    "inference": "--model mistral-7b --mode inference --gpu L4 --set context=8k",
    "fit": "--model 7b --gpu 24GiB --fit",
    "experts in parallel": "--model deepseek-v3 --gpus 8 --set nodes=8 --parallel fsdp2 --set ep=8 --method full",
    "encoder-decoder": "--model t5-base",
    "vision": "--model vit-base-patch16-224",
    "numbers": "--set hidden=512 --set layers=4",
}


@pytest.fixture(autouse=True)
def no_card(monkeypatch):
    monkeypatch.setattr(command, "_own_card", lambda: (None, ""))


@pytest.mark.parametrize("name", ASKED)
def test_valid(capsys, name):
    assert main(["estimate", *ASKED[name].split(), "--format", "json"]) in (0, 1)
    out = capsys.readouterr().out
    assert out.isascii()
    got = json.loads(out)
    jsonschema.Draft202012Validator(SCHEMA).validate(got)
    for each in (got, *got["alternatives"]):
        assert each["total_bytes"] == sum(line["bytes"] for line in each["lines"])
        assert each["static_bytes"] <= each["total_bytes"]
        low, high = each["card"]["used_bytes"]
        assert low <= high
        assert (each["fits"] is None) == (each["device"] is None)


def test_full_on_top_and_the_others_beside(capsys):
    main(["estimate", "--model", "7b", "--gpu", "24GiB", "--format", "json"])
    got = json.loads(capsys.readouterr().out)
    assert got["schema"] == "gpudoctor.estimate/1"
    assert (got["method"], got["fits"], got["verdict"]) == ("full", False, "does not fit")
    assert [each["method"] for each in got["alternatives"]] == ["lora", "qlora"]
    assert got["device"] == {"name": "24GiB", "bytes": 24 << 30, "capability": None, "context": None}
    assert set(got["lines"][0]) == {"kind", "bytes", "formula", "source", "provenance"}
