"""FAIL011 backward-failed."""

from gpudoctor.analysis.job_log.log_check import LogCheck
from gpudoctor.model import Bearing, Code, LogMessage


class BackwardFailed(LogCheck):
    """The backward pass could not run.

    What it finds:
        A job that died in autograd:
        - a loss without a gradient
        - a tensor changed in place
        - a second backward through one graph
        - a checkpointed block that computed something else the second time
    Why it hurts:
        Not a single step is trained.
    How it knows:
        From a job's log: texts that only the library prints, in the exception or line that came first.
    False alarms:
        A message that was caught and followed by steps is not a death.
    Remedies:
        Make the loss depend on a trainable parameter; keep the graph as the backward needs it.
    References:
        - https://pytorch.org/docs/stable/notes/autograd.html
        - https://github.com/huggingface/transformers/issues/42489
    """

    code = Code("FAIL011")
    name = "backward-failed"
    log_messages = (
        LogMessage(
            kind="no-grad",
            cue=(
                "does not require grad and does not have a grad_fn",
                "tensors does not require grad",
                "none of output has requires_grad",
            ),
            pattern="none of output has requires_grad=True|does not require grad and does not have a grad_fn",
            text="The loss has no gradient: nothing that it depends on is trainable.",
            source="https://github.com/huggingface/transformers/issues/42489",
        ),
        LogMessage(
            kind="checkpoint-frozen",
            cue="none of the inputs have requires_grad=true",
            pattern="None of the inputs have requires_grad=True. Gradients will be None",
            text="Gradient checkpointing cut the gradient: none of the inputs of the checkpointed block "
            "requires a gradient.",
            bearing=Bearing.HINT,
            everywhere=True,
            explains="does not require grad",
        ),
        LogMessage(
            kind="inplace",
            cue=("modified by an inplace operation", "used in an in-place operation"),
            pattern="modified by an inplace operation|is being used in an in-place operation",
            text="A tensor that the backward needs was changed in place.",
        ),
        LogMessage(
            kind="twice",
            cue="backward through the graph a second time",
            pattern="backward through the graph a second time",
            text="The backward ran twice through one graph.",
        ),
        LogMessage(
            kind="recomputed",
            cue=("different metadata", "different number of tensors was saved", "torch.utils.checkpoint: "),
            pattern=r"torch\.utils\.checkpoint: (?:Recomputed values|A different number of tensors)|have "
            "different metadata than during the forward",
            text="Gradient checkpointing computed something else in the backward than in the forward.",
        ),
        LogMessage(
            kind="scalar",
            cue="only for scalar outputs",
            pattern="grad can be implicitly created only for scalar outputs",
            text="backward was called on a loss that is not a scalar.",
        ),
        LogMessage(
            kind="unused",
            cue="to not have been used in the graph",
            pattern="differentiated Tensors appears? to not have been used in the graph",
            text="A gradient was asked for a tensor that the loss does not depend on.",
        ),
        LogMessage(
            kind="leaf",
            cue="only tensors of floating point",
            pattern="[Oo]nly [Tt]ensors of floating point (?:and complex )?dtype can require gradients",
            text="A gradient was required of an integer tensor.",
        ),
        LogMessage(
            kind="leaf",
            cue="non-leaf tensor",
            pattern="can't optimize a non-leaf Tensor",
            text="The optimizer got a tensor that is the result of an operation, and no parameter.",
            source="torch/optim/optimizer.py",
        ),
    )
