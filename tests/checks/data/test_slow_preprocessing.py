import pytest
from scripts import PATIENTS, script_patient

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_host, prescribe
from gpudoctor_checks.data.slow_preprocessing import SlowPreprocessing
from gpudoctor_rules.data.items import slow_preprocessing

FOLDER = PATIENTS / "DATA002"


def test_healthy_single_epoch_of_the_sick_script():
    text = (FOLDER / "sick_tokenises.py").read_text("utf-8")
    assert examine(SlowPreprocessing, script_patient(text.replace("range(3)", "range(1)"))) == []
    # Cells by one counter only, or blocks of them, are work for the array library already.
    text = (FOLDER / "sick_pixels.py").read_text("utf-8")
    rows = text.replace("image[y, x].sum()", "image[y].sum()").replace("mask[y, x] = 1", "mask[y] = 1")
    assert examine(SlowPreprocessing, script_patient(rows)) == []


def test_the_rule_names_processes_for_this_machine():
    patient = script_patient(FOLDER / "sick_tokenises.py", host=make_host(cpus_affinity=6))
    [finding] = examine(SlowPreprocessing, patient)
    [remedy] = prescribe(slow_preprocessing, finding, patient)
    assert "num_proc=6" in remedy.title


@pytest.mark.parametrize("held", ["self.source.read(self.names[n])", "self.fetch(n)", "spread(np.load(self.names[n]))"])
def test_sick_cells_one_by_one_behind_several_calls(held):
    script = f"""
        import numpy as np
        import torch
        def spread(raw):
            out = np.zeros_like(raw)
            for a in range(raw.shape[0]):
                for b in range(raw.shape[1]):
                    out[a, b] = raw[max(a - 1, 0), b]
            return out
        class Store:
            def read(self, name):
                return self.even(np.load(name))
            def even(self, raw):
                return spread(raw)
        class Maps(torch.utils.data.Dataset):
            def __init__(self, names):
                self.names, self.source = names, Store()
            def __getitem__(self, n):
                return {held}
            def fetch(self, n):
                return spread(np.load(self.names[n]))
        net = torch.nn.Linear(8, 8).cuda()
        rule = torch.optim.SGD(net.parameters(), lr=0.1)
        for x in torch.utils.data.DataLoader(Maps(["a"]), num_workers=2):
            loss = net(x.cuda()).square().mean()
            rule.zero_grad()
            loss.backward()
            rule.step()
    """
    [finding] = examine(SlowPreprocessing, script_patient(script))
    assert finding.detail.kind == "pixels" and finding.severity is Severity.NOTE


CHATS = """
    from datasets import load_dataset
    from transformers import AutoModelForImageTextToText, AutoProcessor
    from trl import SFTConfig, SFTTrainer
    processor = AutoProcessor.from_pretrained("org/vision")
    def together(rows):
        texts = [processor.apply_chat_template(row["messages"]{given}) for row in rows]
        return {result}
    trainer = SFTTrainer(
        model=AutoModelForImageTextToText.from_pretrained("org/vision"),
        args=SFTConfig("out", num_train_epochs=3, remove_unused_columns=False),
        train_dataset=load_dataset("org/rows")["train"],
        data_collator=together,
    )
    trainer.train()
"""


@pytest.mark.parametrize(("given", "said"), [("", 1), (", tokenize=False", 0), (", tokenize=True", 1)])
def test_a_template_that_is_only_filled_in_is_no_tokenizing(given, said):
    text = CHATS.format(given=given, result="{'text': texts}")
    assert len(examine(SlowPreprocessing, script_patient(text))) == said
