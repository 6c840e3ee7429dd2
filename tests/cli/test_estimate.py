"""`gpudoctor estimate`: what it prints, in which width, with which exit code, and how fast."""

import json

import pytest
from some import some

import gpudoctor.estimate as api
from gpudoctor.cli import estimate as command
from gpudoctor.cli import main

READ_CARD = command._own_card


@pytest.fixture(autouse=True)
def no_card(monkeypatch, tmp_path):
    """The machine's own card must not decide what these tests see."""
    monkeypatch.setattr(command, "_own_card", lambda: (None, ""))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))


@pytest.fixture
def ask(capsys):
    def run(*words):
        code = main(["estimate", *words])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err

    return run


@pytest.fixture
def data(ask):
    def run(*words):
        code, out, err = ask(*words, "--format", "json")
        assert code in (0, 1), err
        return json.loads(out)

    return run


def test_a_size_says_what_it_assumed_and_shows_three_methods(ask):
    code, out, _ = ask("--model", "7b")
    assert code == 0
    assert "assumed: the size '7b' is taken for llama-2-7b" in out
    for word in ("full", "LoRA r16", "QLoRA r16", "RTX 4090", "H100 80GB", "sequence 2,048", "checkpointing"):
        assert word in out


def test_the_verdict_comes_first(ask):
    code, out, _ = ask("--model", "7b", "--gpu", "24GiB")
    assert code == 0
    verdict = "LoRA r16 and QLoRA r16 fit; full does not fit (24 GiB). LoRA r16 has room for batch 6 or sequence"
    assert " ".join(out.splitlines()[2:4]).startswith(verdict)
    assert "62.8 GiB     out of memory  does not fit" in out
    assert "the card will show" in out
    assert "(the peak)" in out


def test_a_named_card_that_does_not_hold_it_gives_1(ask):
    code, out, _ = ask("--model", "7b", "--method", "full", "--gpu", "RTX 4090")
    assert code == 1
    assert out.splitlines()[2].startswith("Full does not fit: 62.8 GiB allocated at the optimizer step")
    assert "--method lora" in out
    assert "What changes give back to full" in out


def test_the_machines_own_card_is_taken_and_never_fails_a_script(ask, monkeypatch):
    card = api.device("RTX 3060")
    monkeypatch.setattr(command, "_own_card", lambda: (card, "the card is this machine's own, RTX 3060"))
    code, out, _ = ask("--model", "70b", "--method", "full")
    assert code == 0
    assert "does not fit" in out
    assert "this machine's own" in out


def test_the_own_card_is_read_from_the_drivers_files(tmp_path, monkeypatch):
    (tmp_path / "0000:01:00.0").mkdir()
    (tmp_path / "0000:01:00.0/information").write_text("Model: \t\t NVIDIA A100-SXM4-80GB\nIRQ:   \t\t 16\n")
    monkeypatch.setattr("gpudoctor.cli.output._DRIVER", tmp_path)
    card, said = READ_CARD()
    assert card.name == "A100 80GB"
    assert "NVIDIA A100-SXM4-80GB" in said
    (tmp_path / "0000:01:00.0/information").write_text("Model: \t\t NVIDIA Unheard 9000\n")
    assert READ_CARD() == (None, "")


JOB_FLAGS = {
    "--method lora": ("method", "lora"), "--dtype fp32 --set mixed_precision=bf16": ("mixed_precision", "bf16"),
    "--optimizer adamw-8bit": ("optimizer", "adamw-8bit"), "--seq 4k": ("seq", 4096), "--batch 3": ("batch", 3),
    "--no-checkpointing": ("checkpointing", "none"), "--set checkpointing=selective": ("checkpointing", "selective"),
    "--attention eager": ("attention", "eager"), "--loss chunked": ("loss", "chunked"),
    "--method qlora --set=kbit_prepare=no": ("kbit_prepare", False),
    "--method freeze --set freeze_layers=3": ("freeze_layers", 3), "--method lora --lora-rank 64": ("lora_rank", 64),
    "--method lora --set lora_targets=q_proj,v_proj": ("lora_targets", ["q", "v"]),
    "--method lora --set lora_dropout=0.1": ("lora_dropout", 0.1), "--set stack=torchtune": ("stack", "torchtune"),
    "--gpus 8 --set nodes=2 --parallel zero2": ("nodes", 2), "--gpus 8 --set tp=8": ("tp", 8),
    "--gpus 8 --parallel zero3 --set offload=params": ("offload", "params"),
    "--mode inference --set context=8k": ("context", 8192), "--mode inference --set kv_dtype=fp8": ("kv_dtype", "fp8"),
}  # fmt: skip


def test_every_flag_reaches_the_job(data):
    for flags, (name, value) in some(JOB_FLAGS.items()):
        method = () if "--method" in flags or "inference" in flags else ("--method", "full")
        got = data("--model", "llama-3-8b", *flags.split(), *method)
        assert got["job"][name] == value, flags
        assert got["total_bytes"] == max(instant["bytes"] for instant in got["instants"])
        assert got["total_bytes"] == sum(line["bytes"] for line in got["lines"])


def test_numbers_instead_of_a_name(data):
    llama = {"hidden": 4096, "layers": 32, "heads": 32, "kv-heads": 8, "intermediate": 14336, "vocab": 128256}
    got = data("--method", "full", *(word for name, value in llama.items() for word in ("--set", f"{name}={value}")))
    assert got["model"]["parameters"] == api.lookup("llama-3-8b").preset.parameters
    got = data("--set=hidden=1024", "--set=layers=2", "--set=heads=4", "--set=head_dim=64", "--method=full")
    assert got["model"]["head_dim"] == 64
    assert any("taken as in Llama" in said for said in got["assumptions"])


def test_explain_prints_every_formula(ask, data):
    words = ("--model", "llama-3-8b", "--method", "lora", "--gpu", "24GiB")
    _, out, _ = ask(*words, "--explain")
    said = " ".join(out.split())
    for instant in some(data(*words)["instants"]):
        for line in some(instant["lines"]):
            assert " ".join(line["formula"].split()) in said
            assert f"from: {' '.join(line['source'].split())} (analytic)" in said


def test_fit(ask, data):
    got = data("--model", "7b", "--gpu", "24GiB", "--fit")
    best = got["fit"]["best"]
    assert best[0]["speed"] == 1.0
    assert {item["job"]["method"] for item in best} == {"lora", "qlora"}
    for item in best:
        fields = {**item["job"], "lora_targets": tuple(item["job"]["lora_targets"])}
        again = api.estimate("7b", gpu="24GiB", **fields)
        assert again.total_bytes == item["total_bytes"]
        assert again.card.verdict is api.Verdict.FITS
    full, lora, _ = got["fit"]["methods"]
    assert full["largest_batch"] is None
    assert full["cards"] == 4
    assert lora["cards"] == 1
    code, out, _ = ask("--model", "70b", "--method", "full", "--gpu", "T4", "--fit")
    assert code == 1
    assert "Nothing that was tried fits" in out


@pytest.mark.parametrize("gpu", ["2x24GiB", "2 x 24GiB", "2X24GiB"])
def test_several_cards_in_one_word(data, gpu):
    one = data("--model", "7b", "--gpu", gpu)
    assert one == data("--model", "7b", "--gpu", "24GiB", "--gpus", "2")
    assert one == data("--model", "7b", "--gpu", gpu, "--gpus", "2")
    ddp = data("--model", "7b", "--gpu", gpu, "--parallel", "ddp")
    assert one["total_bytes"] < ddp["total_bytes"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--gpu", "2x24GiB", "--gpus", "4"], "--gpu 2x24GiB names 2 GPUs and --gpus 4; give one number"),
        (["--gpu", "0x24GiB"], "--gpu 0x24GiB is below 1; give 1 or more"),
    ],
)
def test_numbers_of_cards_that_contradict(ask, flags, said):
    code, _, err = ask("--model", "7b", *flags)
    assert code == 2
    assert said in err


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("--set tp", "give a key and its value, such as tp=2"),
        ("--set speed=9", "--set speed: no such key; choose from accumulate"),
    ],
)
def test_a_wrong_key_of_set_is_said(typed, said, capsys):
    assert main(["estimate", "--model", "7b", *typed.split()]) == 2
    assert said in capsys.readouterr().err


def test_what_a_stack_and_a_shape_leave_open_is_told(ask):
    _, out, _ = ask("--model", "7b", "--gpus", "8", "--gpu", "80GB", "--set", "stack=megatron")
    assert "8 GPUs, ddp" in out and "as Megatron does" in out
    numbers = ("--set", "hidden=768", "--set", "layers=12", "--set", "heads=12", "--gpu", "24GB")
    assert "an MLP of three matrices" in " ".join(ask(*numbers)[1].split())
    assert "three matrices" not in ask(*numbers, "--set", "gated=false")[1]


def test_a_script_with_its_config_is_read_as_check_reads_it(ask, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = """
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B", torch_dtype="bfloat16")
model = get_peft_model(model, LoraConfig(r=32))
args = TrainingArguments("out", per_device_train_batch_size=4, bf16=True, gradient_checkpointing=True, deepspeed="ds.json")
Trainer(model=model, args=args, train_dataset=data).train()
"""
    (tmp_path / "finetune.py").write_text(script, encoding="utf-8")
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 2}}', encoding="utf-8")
    code, out, _ = ask("finetune.py", "ds.json", "--gpu", "80GB")
    assert code == 0 and "LoRA r32 fits" in out
    assert all(word in " ".join(out.split()) for word in ("llama-3.1-8b", "batch 4", "zero2", "autocast bf16"))
    (tmp_path / "other.py").write_text("import torch\n", encoding="utf-8")
    code, _, error = ask("other.py", "--gpu", "80GB")
    assert code == 2 and "other.py: " in error and "give a config or --model 7b" in error
