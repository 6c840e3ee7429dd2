"""Settings wherever they are written, their edits, and which files belong together."""

import pytest
from configs import config
from edits import apply_edits
from jobs import patient_of
from scripts import read_script

from gpudoctor.analysis.source.config_links import links
from gpudoctor.analysis.source.declared_settings import from_keyword, replace_key

HF = "output_dir: o\nper_device_train_batch_size: 1\nnum_train_epochs: 1\n"
DS = '{"zero_optimization": {"stage": 2}}'
CHAINED = """
from transformers import Trainer, TrainingArguments
名字 = Trainer(model=None, args=TrainingArguments("o", no_cuda=True), tokenizer=tok).train(resume_from_checkpoint=True)
"""


@pytest.mark.parametrize(
    ("method", "keyword", "expected"),
    [
        ("Trainer", "tokenizer", "processing_class=tok).train("),
        ("TrainingArguments", "no_cuda", 'TrainingArguments("o", processing_class=True)'),
    ],
)
def test_a_chained_call_is_not_taken_for_another(method: str, keyword: str, expected: str) -> None:
    source = read_script(CHAINED)
    [script] = source.scripts
    [call] = [item for item in script.calls if item.method == method]
    item = from_keyword(script, call, keyword)
    assert item is not None
    text = apply_edits(script.text, item.rename("processing_class"))
    assert expected in text
    assert "train(resume_from_checkpoint=True)" in text


@pytest.mark.parametrize(
    ("path", "text", "key"),
    [
        ("a.yaml", "output_dir: o\nnum_train_epochs: 1\nno_cuda:   true  # 注释\nlogging_steps: 5\n", "no_cuda"),
        (
            "a.json",
            '{"train_micro_batch_size_per_gpu": 1, "fp16": {"enable": true}, "steps_per_print": 5}',
            "fp16.enable",
        ),
    ],
)
def test_a_key_is_renamed_where_it_stands(path: str, text: str, key: str) -> None:
    file = config(text, path)
    edit = replace_key(file, (entry := file.entries[key]).line, entry.column, entry.last, "new_name")
    assert edit is not None
    lines = file.text.split("\n")
    line = lines[edit.line - 1]
    assert line[edit.column - 1 : edit.end_column - 1] == edit.expected == key.rpartition(".")[2]


@pytest.mark.parametrize(
    ("name", "at", "linked"),
    [
        ("ds.json", "job/ds.json", True),
        ("./ds.json", "job/ds.json", True),
        ("ds.json", "ds.json", True),
        ("../conf/ds.json", "conf/ds.json", True),
        ("conf/ds.json", "other/conf/ds.json", False),
        ("ds.json", "conf/ds.json", False),
        ("s.json", "job/ds.json", False),
    ],
)
def test_a_file_that_is_named(name: str, at: str, linked: bool) -> None:
    patient = patient_of({"job/a.yaml": HF + f"deepspeed: {name}\n", at: DS})
    assert bool(links(patient)) is linked


def test_the_only_pair_is_no_sure_link() -> None:
    [link] = links(patient_of({"a.yaml": HF, "ds.json": DS}))
    assert not link.sure
