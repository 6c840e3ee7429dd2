"""What is told of logging, saving and evaluating, without computation."""

from gpudoctor.analysis.run.trainer_engines import ENGINES
from gpudoctor.model import Resource, advise, where
from gpudoctor_checks.observability.checkpoint_too_often import CheckpointTooOftenDetail
from gpudoctor_checks.observability.evaluation_too_often import EvaluationTooOftenDetail

ADVICE = (
    advise(
        "OBS003-async",
        "write in the background with torch.distributed.checkpoint.async_save",
        "future = torch.distributed.checkpoint.async_save(state, checkpoint_id=path)",
        "future.result()   # before the next save",
        when=where(CheckpointTooOftenDetail, lambda save: save.engine_loop not in ENGINES),
        uses=frozenset({Resource.HOST_MEMORY}),
        references=(
            "https://pytorch.org/docs/stable/distributed.checkpoint.html#torch.distributed.checkpoint.state_dict_saver.async_save",
        ),
    ),
    advise(
        "OBS004-part",
        "evaluate on a fixed part of the set between whole evaluations",
        "for batch in itertools.islice(val_loader, 10):   # whole once an epoch",
        when=where(EvaluationTooOftenDetail, lambda evaluation: evaluation.engine_loop not in ENGINES),
    ),
    advise(
        "OBS006-norms",
        "log norms instead of histograms, read in one transfer",
        "norms = torch._foreach_norm([p.grad for p in model.parameters() if p.grad is not None])",
        "torch.stack(norms).tolist()   # one wait for the whole model, every 100 steps",
    ),
)
