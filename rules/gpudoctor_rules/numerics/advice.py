"""What is told of numbers that go wrong, without computation."""

from gpudoctor.model import Applicability, Effort, advise, where
from gpudoctor_checks.numerics.constant_output import ConstantOutputDetail
from gpudoctor_checks.numerics.constant_target import ConstantTargetDetail
from gpudoctor_checks.numerics.loss_trouble import LossTroubleDetail

_HOOK = (
    "for layer in model.modules(): layer.register_forward_hook(lambda layer, given, out:",
    "    print(type(layer).__name__, (out[0] - out[1]).abs().max().item()))   # one batch",
)
_DEAD_UNITS = "https://arxiv.org/abs/1903.06733"
_COUNT = (
    "collections.Counter(int(dataset[i][1]) for i in range(len(dataset)))",
    "look at the column, the mapping and the folder that the label is made of",
)

ADVICE = (
    advise(
        "NUM003-clip",
        "clip_grad_norm_(model.parameters(), 1.0) after backward",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)   # after backward, before optimizer.step()",
        "with a GradScaler: scaler.unscale_(optimizer) before it",
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
        references=("https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html",),
    ),
    advise(
        "NUM003-rate",
        "a third of the rate, and a warm-up",
        "a third of the rate; warm-up over the first 1 % of the steps",
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
    ),
    advise(
        "NUM004-activations",
        "ReLU or GELU instead of sigmoid and tanh, LayerNorm between the layers, residual connections",
        "x = x + block(norm(x))   # a residual connection hands the gradient on unchanged",
        "nn.init.kaiming_normal_ for ReLU, xavier_normal_ for tanh",
        applicability=Applicability.UNSAFE,
        references=("https://arxiv.org/abs/1512.03385",),
    ),
    advise(
        "NUM007-overfit",
        "train on one batch: a model that cannot learn 16 samples by heart has a bug",
        "batch = next(iter(loader)); for step in range(1000): ...the step on this batch...",
        "if it learns: a higher rate, or data whose labels say nothing; if not: the loss, the optimizer's "
        "parameters, a detach",
        when=where(LossTroubleDetail, lambda loss: loss.kind == "stalled"),
        references=("https://karpathy.github.io/2019/04/25/recipe/",),
    ),
    advise(
        "NUM007-rate",
        "a third of the rate, warm-up, clipping",
        "a third of the rate; warm-up over the first 1 % of the steps",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)   # after backward, before step",
        when=where(LossTroubleDetail, lambda loss: loss.kind != "stalled"),
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
    ),
    advise(
        "NUM010-single",
        "give the softmax several scores, or take the sigmoid of one",
        "An output of one score: leave the softmax out and use binary_cross_entropy_with_logits.",
        "Weights over the parts of a sample: softmax(scores, dim=1), the dimension of the parts.",
        when=where(ConstantOutputDetail, lambda output: output.single),
        effort=Effort.ONE_LINE,
        references=("https://docs.pytorch.org/docs/stable/generated/torch.nn.Softmax.html",),
    ),
    advise(
        "NUM010-layer",
        "find the first layer whose output is the same for two samples",
        *_HOOK,
        "scale the inputs to mean 0 and deviation 1, and test the weights that were loaded",
        "LeakyReLU or GELU for ReLU; normalisation before it",
        when=where(ConstantOutputDetail, lambda output: not output.single and output.since <= 1),
        references=(_DEAD_UNITS,),
    ),
    advise(
        "NUM010-layer",
        "find the first layer whose output is the same for two samples",
        *_HOOK,
        "lower the learning rate, warm it up, clip the gradients: a step has killed the units",
        "LeakyReLU or GELU for ReLU; normalisation before it",
        when=where(ConstantOutputDetail, lambda output: not output.single and output.since > 1),
        references=(_DEAD_UNITS,),
    ),
    advise(
        "NUM011-count",
        "count the labels of the whole set",
        *_COUNT,
        when=where(ConstantTargetDetail, lambda labels: not labels.ordered),
    ),
    advise(
        "NUM011-count",
        "count the labels of the whole set, and shuffle",
        *_COUNT,
        "set shuffle=True for the training loader",
        when=where(ConstantTargetDetail, lambda labels: labels.ordered),
    ),
)
