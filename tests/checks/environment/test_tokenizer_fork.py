"""ENV014: a fast tokenizer used before workers are forked."""

import pytest
from scripts import script_patient

from gpudoctor.model import Severity
from gpudoctor.model.signs.packages import Packages
from gpudoctor.testing import examine, make_host, prescribe
from gpudoctor_checks.environment.tokenizer_fork import TokenizerFork
from gpudoctor_rules.advice import advice

NAME = "TOKENIZERS_PARALLELISM"
MAPPED = """
    import os
    import torch
    from torch.utils.data import DataLoader
    from transformers import AutoTokenizer
    {before}
    tokenizer = AutoTokenizer.from_pretrained("gpt2"{fast})
    def encode(batch):
        return tokenizer(batch["text"])
    data = raw.map(encode, batched=True)
    loader = DataLoader(data, batch_size=8, num_workers={workers}{context})
    for batch in loader:
        model(batch).loss.backward()
        optimizer.step()
"""
IN_WORKERS = """
    from torch.utils.data import DataLoader, Dataset
    from transformers import BertTokenizerFast
    class Texts(Dataset):
        def __init__(self, texts):
            self.tokenizer = BertTokenizerFast.from_pretrained("bert-base-uncased")
            {early}
        def __len__(self):
            return len(self.texts)
        def __getitem__(self, index):
            return self.tokenizer(self.texts[index])
    loader = DataLoader(Texts(texts), num_workers=4)
    for batch in loader:
        model(batch).loss.backward()
        optimizer.step()
"""


def mapped(environment=None, *, before="", fast="", workers=4, context="", **signs):
    text = MAPPED.format(before=before, fast=fast, workers=workers, context=context)
    return script_patient(text, environment=environment or {}, **signs)


def test_sick_tokenized_before_the_fork():
    patient = mapped()
    [finding] = examine(TokenizerFork, patient)
    assert finding.severity is Severity.NOTE
    assert finding.span is not None and finding.span.line == 9
    assert "4 workers" in finding.message
    [remedy] = prescribe(advice("environment"), finding, patient)
    assert remedy.title == f"export {NAME}=false"
    assert remedy.sets == ((NAME, "false"),)


@pytest.mark.parametrize(
    "patient",
    [
        mapped({NAME: "false"}),  # off
        mapped({NAME: "true"}),  # somebody has thought of it
        mapped(before=f'os.environ["{NAME}"] = "false"'),  # set by the script
        mapped(workers=0),  # no workers
        mapped(context=', multiprocessing_context="spawn"'),  # spawn
        mapped(before='torch.multiprocessing.set_start_method("spawn")'),  # start method
        mapped(host=make_host(system="Darwin 24.1 arm64")),  # macOS
        mapped(packages=Packages(python="3.14.0", executable="python", prefix="/", distributions={})),  # forkserver
        script_patient(IN_WORKERS.format(early="self.texts = texts"), environment={}),  # only in the workers
    ],
)
def test_healthy(patient):
    assert examine(TokenizerFork, patient) == []
