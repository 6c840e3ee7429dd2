"""What the probe sees of parameters and gradients, in small trainings: sick ones and healthy ones that come near."""

import pytest
from packages import need
from probed import run_script

from gpudoctor.analysis.run.training.card import training_card
from gpudoctor.vitals.recording.opening import open_recording

need("torch")


def seen(tmp_path, program, kind):
    """The last record of a kind."""
    run = run_script(tmp_path, program)
    process = open_recording(str(run.folder)).ranks[0]
    assert not process.of("lost")
    return process.of(kind)[-1], run


LOOP = """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(3):
    for step, (rows, labels) in enumerate(DataLoader(data(256), batch_size=8)):
        {before}
        {backward}  # backward
        if step % {micro} == {micro} - 1:
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("micro", "before", "backward", "said"),
    [
        (4, "", "F.cross_entropy(model(rows), labels).backward()", "undivided"),
        (4, "", "(F.cross_entropy(model(rows), labels) / 4 * 0.25).backward()", "twice"),
        (4, "", "(F.cross_entropy(model(rows), labels) / 4).backward()", ""),
        (1, "loss = F.cross_entropy(model(rows), labels); loss.backward(retain_graph=True)", "loss.backward()", "again"),
        (1, "for loss in F.cross_entropy(model(rows), labels, reduction='none').split(4):",
         "    loss.mean().backward(retain_graph=True)", ""),
        (1, "loss = F.cross_entropy(model(rows), labels).detach().requires_grad_()", "loss.backward()", "leaf"),
    ],
)  # fmt: skip
def test_what_a_loss_weighs_in_its_step(tmp_path, micro, before, backward, said):
    found, run = seen(tmp_path, LOOP.format(micro=micro, before=before, backward=backward), "gradients")
    assert found.get("looks") >= 3 and found.get("line") == run.line("backward")
    for name in ("undivided", "twice", "again", "leaf"):
        assert (found.get(name) >= found.get("looks") - 1) is (name == said), name
    assert found.get("micro") == micro


CLIPS = """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", enabled={enabled})
for rows, labels in DataLoader(data(256), batch_size=8):
    optimizer.zero_grad()
    scaler.scale(F.cross_entropy(model(rows), labels)).backward()
    {unscale}
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # clip
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("enabled", "unscale", "sick"), [(True, "", True), (True, "scaler.unscale_(optimizer)", False), (False, "", False)]
)
def test_clips_of_gradients_that_carry_the_loss_scale(tmp_path, enabled, unscale, sick):
    found, run = seen(tmp_path, CLIPS.format(enabled=enabled, unscale=unscale), "clips")
    assert found.get("clips") == 32 and (found.get("scaled") > 28) is sick and (not found.get("scaled")) is not sick
    assert found.get("limit") == 1.0 and found.get("line") == run.line("clip")
    [line] = [item for item in training_card(open_recording(str(run.folder))) if item.name == "gradients"]
    assert ("before the loss scale" in line.text) is sick


HALF = """
model = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 3)).to(torch.{type})
optimizer = torch.optim.AdamW(model.parameters(), lr={lr})
for rows, labels in DataLoader(data(1024), batch_size=8):
    optimizer.zero_grad()
    F.cross_entropy(model(rows.to(torch.{type})).float(), labels).backward()
    optimizer.step()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("type", "lr", "least", "most"), [("bfloat16", 1e-5, 0.9, 1.0), ("bfloat16", 1e-2, 0.0, 0.2)])
def test_updates_that_vanish_in_rounding(tmp_path, type, lr, least, most):
    run = run_script(tmp_path, HALF.format(type=type, lr=lr))
    process = open_recording(str(run.folder)).ranks[0]
    [*_, last] = [item for item in process.of("numeric") if item.get("kind") == "updates"]
    assert least <= last.get("stuck") <= most
    assert last.get("until") > last.get("since")


ADAPTER = """
class Lora(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base_layer = base
        self.lora_A = nn.ModuleDict({{"default": nn.Linear(8, 2, bias=False)}})
        self.lora_B = nn.ModuleDict({{"default": nn.Linear(2, 3, bias=False)}})
    def forward(self, x):
        return self.base_layer(x) + self.lora_B["default"](self.lora_A["default"](x))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(16, 8)
        self.proj = Lora(nn.Linear(8, 3))
    def forward(self, x):
        return self.proj(x + self.words.weight[0])

model = Model()
model.words.requires_grad_(False)
model.proj.base_layer.requires_grad_({base})
optimizer = torch.optim.SGD([p for n, p in model.named_parameters() if "lora" in n], lr=0.01)
for step, (rows, labels) in enumerate(DataLoader(data(256), batch_size=8)):
    if step == 10 and {late}:
        model.words.requires_grad_(True)
    optimizer.zero_grad()
    F.cross_entropy(model(rows), labels).backward()
    optimizer.step()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("base", "late"), [(False, False), (True, True)])
def test_an_adapter_its_base_and_what_is_unfrozen_later(tmp_path, base, late):
    found, run = seen(tmp_path, ADAPTER.format(base=base, late=late), "parameters")
    assert found.get("targets") == ["proj"] and found.get("ranks") == [2] and found.get("adapter") == 22
    assert found.get("adapter_trained") == 22 and found.get("base_trained") == (24 if base else 0)
    assert ("words.weight" in found.get("left")) is late and (found.get("frozen_tables") == ["words"]) is not late
    text = next(item.text for item in training_card(open_recording(str(run.folder))) if item.name == "parameters")
    assert "LoRA r2 on proj" in text and ("; words frozen" in text) is not late


TOKENS = """
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM
config = LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                     num_key_value_heads=2)
lora = LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM", modules_to_save={saved})
base = LlamaForCausalLM(config)
base.resize_token_embeddings(68)  # resized
model = get_peft_model(base, lora)
if {again}:
    model.save_pretrained("adapter")
    model = PeftModel.from_pretrained(LlamaForCausalLM(config), "adapter", is_trainable=True)  # loaded
    model = get_peft_model(model, lora) if {again} > 1 else model
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
rows = [{{"input_ids": torch.arange(i, i + 8) % 8 + 60, "labels": torch.arange(i, i + 8) % 8 + 60}} for i in range(64)]
for batch in DataLoader(rows, batch_size=8):
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("saved", "frozen"), [(None, 2), (["embed_tokens", "lm_head"], 0)])
def test_new_tokens_whose_rows_are_frozen(tmp_path, saved, frozen):
    need("peft")
    found, run = seen(tmp_path, TOKENS.format(saved=saved, again=0), "parameters")
    assert found.get("grown") == [64, 68] and len(found.get("frozen_tables")) == frozen
    assert bool(found.get("new_inputs")) is bool(frozen) and found.get("line") == run.line("resized")


@pytest.mark.slow
@pytest.mark.parametrize(("again", "kept"), [(1, 2), (2, 0)])
def test_an_adapter_that_was_loaded_and_wrapped_again(tmp_path, again, kept):
    need("peft")
    program = TOKENS.format(saved=None, again=again).replace("base.resize_token_embeddings(68)", "pass")
    found, run = seen(tmp_path, program.replace("+ 60", "+ 40"), "parameters")
    assert (found.get("loaded"), found.get("loaded_kept")) == (2, kept) and found.get("line") == run.line("loaded")


HEAD = """
from peft import LoraConfig, get_peft_model
from transformers import BertConfig, BertForSequenceClassification
config = BertConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
model = get_peft_model(BertForSequenceClassification(config), LoraConfig(r=2, target_modules=["query"], {task}))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
rows = [{{"input_ids": torch.arange(i, i + 8) % 64, "labels": i % 2}} for i in range(64)]
for batch in DataLoader(rows, batch_size=8):
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.slow
@pytest.mark.parametrize("task", ['task_type="SEQ_CLS"', ""])
def test_the_head_of_a_task_beside_an_adapter(tmp_path, task):
    need("peft")
    found, _ = seen(tmp_path, HEAD.format(task=task), "parameters")
    assert [name.rpartition(".")[2] for name in found.get("head")] == ([] if task else ["weight", "bias"])
