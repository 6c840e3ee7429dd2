"""Formulas of an estimate and where they come from, in the reader's language.

A formula is numbers with a few nouns, and --fit makes many thousands of them: it is a plain text, whose known
phrases are translated when it is shown. tests/report/test_formula_words.py makes every kind of job, so that a
phrase that is missing here is noticed.
"""

import re
from functools import lru_cache

from gpudoctor.lang import ENGLISH, current_language, rendered, template, term
from gpudoctor.lang.message import row

FORMULA_PHRASES = (
    template("adapter parameters of rank"),
    template("attention and norm"),
    template("attention and norms"),
    template("B gradients of the scores"),
    template("B and"),
    template("a billion"),
    template("activations"),
    template("billion"),
    template("blocks"),
    template("classes"),
    template("cuBLAS, one per thread and stream"),
    template("elements"),
    template("elements of the largest update"),
    template("GPUs"),
    template("gradients"),
    template("heads"),
    template("hidden"),
    template("ids, labels, mask"),
    template("images"),
    template("inputs"),
    template("latent"),
    template("latent attention"),
    template("layers"),
    template("logits of the last token"),
    template("master"),
    template("micro batches in flight"),
    template("MLP gradients"),
    template("moments"),
    template("more chunks"),
    template("norms"),
    template("norms, biases and others"),
    template("of scales, whole on each"),
    template("of the first ones not yet"),
    template("one chunk of"),
    template("parameters"),
    template("parameters of one layer"),
    template("parameters of the stage"),
    template("quantized weights"),
    template("reduce and gather buckets"),
    template("residual"),
    template("inner"),
    template("row and column factors"),
    template("sequences"),
    template("that the loss had not yet"),
    template("the next one, and the gradient"),
    template("tokens"),
    template("trained"),
    template("trained parameters"),
    template("unpacked head"),
    template("vocabulary"),
    template("weights"),
    template("weights of embedding and head"),
    template("weights of fused experts"),
    template("weights of linear layers"),
    template("weights of one block"),
    template("weights of the blocks"),
    template("weights of the embedding"),
    template("weights of the head"),
    template("weights of the largest matrix"),
    template("weights of the MLP's last matrix"),
    template("weights, whole"),
)
"""What stands between the numbers of a formula."""

SOURCE_PHRASES = (
    template("4-bit with one scale per 64 weights"),
    template("4-bit, one scale and zero point a group of weights"),
    template("a flat parameter's gradient has its whole size"),
    template("a window of"),
    template("and PEFT's k-bit preparation turns them to fp32"),
    template("and PEFT's k-bit preparation turns to fp32"),
    template("at a quarter of the width"),
    template("attention outputs and every second matrix product are kept"),
    template("autocast caches copies of trained weights only, so each chunk of the head keeps its own"),
    template("autocast's 16-bit copies"),
    template("block-wise states with fp32 scales"),
    template("blocks freed after the loss are reused in part by the backward, and the other way round"),
    template("caches casts of leaf weights"),
    template("caps"),
    template("chunked head and loss: whole logits never exist"),
    template("cross entropy in place on fp32 logits"),
    template("defaults"),
    template("driver readings per architecture, lazy loading"),
    template("each block's input"),
    template("DDP's gradient buckets"),
    template("frees a frozen unit's input only when the backward ends"),
    template("fused cross entropy"),
    template("gathers block by block"),
    template("gathers the vocabulary matrices whole"),
    template("gradients are neither reduced nor sharded"),
    template("gradients of the partition in fp32"),
    template("its gradient comes first"),
    template("its gradient was just made"),
    template("its two gradients"),
    template("keeps one square-root list of all parameters"),
    template("keeps states in the parameter's type"),
    template("keeps the root unit gathered until the backward"),
    template("keys and values of every layer"),
    template("Lightning quantizes every nn.Linear, so the head too"),
    template("ctx.tensors lives as long as the logits of the last iteration"),
    template("fp32 logits, their copy without the last position, and a gradient or softmax"),
    template("the head in chunks; Lightning Fabric copies all of them to fp32"),
    template("puts in a StableEmbedding after the optimizer was made: it has a gradient that nothing clears"),
    template("logits and log-softmax in fp32"),
    template("logits and their fp32 copy for sampling"),
    template("mixed precision with fp32 master weights"),
    template("no resharding between micro batches"),
    template("of logits kept by the caller"),
    template("of the layers"),
    template("one block's tensors at the worst operation of its backward, counted"),
    template("one flat parameter a unit, so frozen weights in it have gradients too"),
    template("one row of logits an image"),
    template("one update at a time"),
    template("PEFT copies modules_to_save"),
    template("per channel and protocol"),
    template("quantizers leave the vocabulary matrices"),
    template("rank x (inputs + outputs) for each adapted matrix"),
    template("scales the embedding: both tensors stay"),
    template("tanh keeps its result"),
    template("tensor count"),
    template("tensors"),
    template("the adapter's input and mask"),
    template("the last norm and its output"),
    template("tensors saved for the backward, counted"),
    template("the embedding's backward makes a dense gradient"),
    template("the loop keeps its outputs until after backward"),
    template("the loop names its last logits until the forward returns"),
    template("the loop names its logits until the next forward returns"),
    template("the loss in the type of the logits"),
    template("the optimizer steps inside the backward"),
    template("the views' gradients are joined to the flat parameter's"),
    template("the widest point of one block without gradients"),
    template("their bf16 source"),
    template("those gradients come last"),
    template("transformers 5 fuses experts into 3-D parameters, which bitsandbytes passes by"),
    template("unpacks to fp16, what Lightning quantized from; then it is cast to bf16"),
    template("vocabulary-parallel, logits bf16 2V and the fp32 softmax 4V written in place"),
    template("logits in bf16, log-softmax and gradient in fp32"),
)
"""Explanations beside the names of libraries, files and papers."""


_HAN = "[\u3400-\u9fff\uff09]"
_WIDE = {":": "\uff1a", ";": "\uff1b", ",": "\uff0c"}


@lru_cache(maxsize=2)
def _pattern(phrases: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(phrases, key=len, reverse=True)
    return re.compile(rf"(?<![A-Za-z_])({'|'.join(map(re.escape, longest_first))})(?![A-Za-z_])")


def formula_text(formula: str) -> str:
    """A formula in the reader's language: `2 B x 4,096 hidden x 32 blocks`."""
    return _spoken(formula, FORMULA_PHRASES)


def source_text(source: str) -> str:
    """Where a formula comes from, in the reader's language; names of files and papers stay as they are."""
    return _spoken(source, SOURCE_PHRASES)


def _spoken(text: str, phrases: tuple[str, ...]) -> str:
    if current_language() == ENGLISH:
        return str(text)
    whole = rendered(text)
    if whole != text:
        return whole
    pieces = _pattern(phrases).split(text)  # every second one is a phrase
    said = rendered(row("", [term(piece) if at % 2 else piece for at, piece in enumerate(pieces)]))
    said = re.sub(rf"(?<={_HAN})[:;,] ?", lambda found: _WIDE[found[0][0]], said)
    return re.sub(rf"([:;,])(?={_HAN})", r"\1 ", said)
