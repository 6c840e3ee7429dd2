"""What `estimate` prints for some jobs, whole: a changed number or word is seen.

GPUDOCTOR_UPDATE_SNAPSHOTS=1 writes the file anew: read the diff before committing it.
"""

import contextlib
import io
import os
from pathlib import Path

from gpudoctor.cli import main

FILE = Path(__file__).with_name("texts.txt")
JOBS = """
7b
llama-3-8b --gpu H100 --explain
llama-3-8b --gpu 24GiB --method qlora --lora-rank 64 --seq 4k --batch 2 --fit
llama-3-70b --gpu A100-80GB --gpus 8 --parallel zero-3 --method full --explain
llama-3-70b --gpu H200 --gpus 8 --set nodes=2 --parallel fsdp2 --optimizer adamw_8bit --fit
mistral-7b --gpu L4 --method int8-lora --no-checkpointing --attention eager --explain
qwen-2.5-7b --gpu B200 --loss chunked --optimizer lion --explain
mixtral-8x7b --gpu H100 --gpus 8 --set tp=2 --set pp=2 --set ep=2 --explain
gpt2 --gpu T4 --dtype float16 --optimizer adafactor --attention flash_attention_2 --explain
llama-2-7b --gpu 80GB --mode inference --batch 16 --seq 8k --explain
llama-3-8b --gpu 16GiB --method freeze --set accumulate=4 --explain
gemma-2-9b --gpu H100 --method gptq-lora --seq 8k --explain
"""


def test_estimates_are_what_they_were(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    found = []
    for words in JOBS.split("\n")[1:-1]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(["estimate", "--model", *words.split(), "--color", "never"])
        found.append(f"== {words}: {code}\n{out.getvalue()}{err.getvalue()}")
    text = "\n".join(line.rstrip() for line in "\n".join(found).splitlines()) + "\n"
    if os.environ.get("GPUDOCTOR_UPDATE_SNAPSHOTS"):
        FILE.write_text(text, encoding="utf-8")
    assert text == FILE.read_text(encoding="utf-8")
