"""What is told of the machine and its settings, without computation."""

from gpudoctor.model import Applicability, Effort, advise, where
from gpudoctor_checks.environment.tokenizer_fork import TokenizerForkDetail

_OFF = "export TOKENIZERS_PARALLELISM=false"
_SETS_OFF = (("TOKENIZERS_PARALLELISM", "false"),)
_TOKENIZERS = "https://huggingface.co/docs/transformers/en/fast_tokenizers"

ADVICE = (
    advise(
        "ENV014-off",
        _OFF,
        f"{_OFF}   # before the launch line",
        when=where(TokenizerForkDetail, lambda fork: fork.workers_tokenize),
        applicability=Applicability.SAFE,
        effort=Effort.ONE_LINE,
        sets=_SETS_OFF,
        references=(_TOKENIZERS,),
    ),
    advise(
        "ENV014-off",
        _OFF,
        f"{_OFF}   # before the launch line",
        "tokenizing in the main process then runs on one thread; with dataset.map(..., num_proc=N) it "
        "runs in N processes instead",
        when=where(TokenizerForkDetail, lambda fork: not fork.workers_tokenize),
        applicability=Applicability.SAFE,
        effort=Effort.ONE_LINE,
        sets=_SETS_OFF,
        references=(_TOKENIZERS,),
    ),
)
