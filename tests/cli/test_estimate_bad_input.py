"""`gpudoctor estimate` refuses what cannot be in a sentence with the field and what it may be; exit code 2."""

import json

import pytest

from gpudoctor.cli import estimate as command
from gpudoctor.cli import estimate_model, main


@pytest.fixture(autouse=True)
def no_card_and_no_network(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "_own_card", lambda: (None, ""))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))


@pytest.fixture
def refused(capsys):
    def run(*words):
        code = main(["estimate", *words])
        said = capsys.readouterr()
        assert code == 2, (code, said)
        assert said.out == ""
        assert said.err.startswith("gpudoctor: ")
        assert len(said.err.splitlines()) == 1, said.err
        return said.err

    return run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "no model"),
        ("--model lama-3-8b", "nearest known are llama-3-8b"),
        ("--model 7b --batch 0", "batch is 0; it must be a whole number from 1"),
        ("--model 7b --seq nan", "'nan' is not a whole number"),
        ("--model 7b --gpus 8 --parallel none", "--parallel none leaves 8 of 8 GPUs without a part"),
        ("--model bert --seq 4096 --method full", "at most 512"),
        ("--model 7b --gpu 12parsec", "--gpu '12parsec' is not known"),
        ("--model 7b --set hidden=4096", "--model and hidden are both given"),
        ("--set hidden=4096", "layers is missing"),
        ("--set hidden=10000000 --set layers=100000", "is taken for a mistake"),
        ("--model 7b --fit", "--fit needs a card"),
        ("--model 7b --mode inference --gpu H100 --fit", "--fit searches training jobs"),
        ("nowhere.yaml", "no such file"),
        ("train.py", "no such file"),
    ],
)
def test_sentences(refused, words, said):
    assert said in refused(*[word.replace("''", "") for word in words.split()])


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "not valid JSON"),
        (b"[" * 100_000, "config.json"),
        (b"{}", "model_type is missing"),
        (b'{"model_type": "mamba9"}', "model_type 'mamba9' is an architecture that estimate does not know"),
        (b'{"model_type": "llama", "hidden_size": NaN}', "hidden_size is nan"),
    ],
)
def test_a_broken_config_json(refused, tmp_path, raw, said):
    (tmp_path / "config.json").write_bytes(raw)
    assert said in refused("--model", str(tmp_path / "config.json"))
    assert said in refused("--model", str(tmp_path))


def test_a_config_that_trains_nothing(refused, tmp_path):
    path = tmp_path / "package.json"
    path.write_text(json.dumps({"name": "x", "scripts": {}, "dependencies": {}}))
    assert "is not a known training config" in refused(str(path))
    path.write_text("{'")
    assert "line 1" in refused(str(path))


class Answer:
    def __init__(self, raw):
        self.raw = raw

    def read(self, size):
        return self.raw[:size]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def test_the_hub_is_asked_for_a_config_only_when_the_id_is_not_known(monkeypatch, capsys):
    asked = []
    config = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
              "intermediate_size": 128, "vocab_size": 1000}  # fmt: skip

    def fetch(request, timeout):
        asked.append(request.full_url)
        return Answer(json.dumps(config).encode())

    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.invalid")
    monkeypatch.setattr("urllib.request.urlopen", fetch)
    assert main(["estimate", "--model", "nobody/tiny-thing", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"]["name"] == "nobody/tiny-thing"
    assert asked == ["https://hub.invalid/nobody/tiny-thing/resolve/main/config.json"]
    assert main(["estimate", "--model", "meta-llama/Llama-2-7b-hf"]) == 0
    assert len(asked) == 1


@pytest.mark.parametrize(("code", "said"), [(404, "misspelt, gated or private"), (503, "HTTP 503")])
def test_a_hub_that_says_no(monkeypatch, refused, code, said):
    import urllib.error

    def fetch(request, timeout):
        raise urllib.error.HTTPError(request.full_url, code, "no", {}, None)

    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr("urllib.request.urlopen", fetch)
    assert said in refused("--model", "nobody/tiny-thing")


def test_a_hub_that_cannot_be_reached(monkeypatch, refused, capsys):
    def fetch(request, timeout):
        raise OSError("no route to host")

    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr("urllib.request.urlopen", fetch)
    assert "the hub cannot be reached from here" in refused("--model", "nobody/tiny-thing")
    assert main(["estimate", "--model", "somebody/qwen2.5-7b-merged"]) == 0
    assert "is taken for qwen2.5-7b: the hub cannot be reached" in " ".join(capsys.readouterr().out.split())


def test_the_cache_comes_before_the_network(monkeypatch, tmp_path, capsys):
    folder = tmp_path / "hf/hub/models--nobody--cached/snapshots/abc"
    folder.mkdir(parents=True)
    config = {"model_type": "qwen2", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
              "intermediate_size": 128, "vocab_size": 1000,
              "quantization_config": {"quant_method": "gptq", "bits": 4}}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr(estimate_model, "_download", lambda name: pytest.fail("asked the hub"))
    assert main(["estimate", "--model", "nobody/cached", "--format", "json"]) == 0
    got = json.loads(capsys.readouterr().out)
    assert got["model"]["name"] == "nobody/cached"
    assert got["method"] == "gptq-lora"
