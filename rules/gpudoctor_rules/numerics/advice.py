"""What is told of numbers that go wrong, without computation."""

from gpudoctor.model import Applicability, BadStepDetail, Effort, advise, where
from gpudoctor_checks.numerics.constant_output import ConstantOutputDetail
from gpudoctor_checks.numerics.constant_target import ConstantTargetDetail
from gpudoctor_checks.numerics.dead_parameters import DeadParametersDetail
from gpudoctor_checks.numerics.exploding_gradients import ExplodingGradientsDetail
from gpudoctor_checks.numerics.fp16_unsafe import Fp16UnsafeDetail
from gpudoctor_checks.numerics.learning_rate_out_of_band import LearningRateOutOfBandDetail
from gpudoctor_checks.numerics.loss_trouble import LossTroubleDetail
from gpudoctor_checks.numerics.weights_frozen import WeightsFrozenDetail

_HOOK = (
    "for layer in model.modules(): layer.register_forward_hook(lambda layer, given, out:",
    "    print(type(layer).__name__, (out[0] - out[1]).abs().max().item()))   # one batch",
)
_DEAD_UNITS = "https://arxiv.org/abs/1903.06733"
_COUNT = (
    "collections.Counter(int(dataset[i][1]) for i in range(len(dataset)))",
    "check the column, the mapping and the folder that the label is made of",
)

_TRAINED_ALONE = "optimizer = ...(p for p in model.parameters() if p.requires_grad)"
_BUILT = "https://docs.pytorch.org/docs/stable/optim.html#constructing-it"

ADVICE = (
    advise(
        "NUM003-clip",
        "call clip_grad_norm_(model.parameters(), 1.0) after backward",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)   # after backward, before optimizer.step()",
        "with a GradScaler: scaler.unscale_(optimizer) before it",
        when=where(ExplodingGradientsDetail, lambda gradients: not gradients.clipped),
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
        references=("https://pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html",),
    ),
    advise(
        "NUM003-rate",
        "use a third of the learning rate, and a warm-up",
        "a third of the rate; warm-up over the first 1 % of the steps",
        applicability=Applicability.UNSAFE,
        effort=Effort.ONE_LINE,
    ),
    advise(
        "NUM004-activations",
        "use ReLU or GELU, LayerNorm between the layers, and residual connections",
        "x = x + block(norm(x))   # a residual connection hands the gradient on unchanged",
        "nn.init.kaiming_normal_ for ReLU, xavier_normal_ for tanh",
        applicability=Applicability.UNSAFE,
        references=("https://arxiv.org/abs/1512.03385",),
    ),
    advise(
        "NUM007-overfit",
        "train on one batch: a model that cannot learn 16 samples by heart has a bug",
        "batch = next(iter(loader)); for step in range(1000): ...the step on this batch...",
        "If it learns, raise the rate or check the labels. If it does not, check the loss, the optimizer's "
        "parameters and detach() calls.",
        when=where(LossTroubleDetail, lambda loss: loss.kind == "stalled"),
        references=("https://karpathy.github.io/2019/04/25/recipe/",),
    ),
    advise(
        "NUM007-rate",
        "use a third of the learning rate, and a warm-up",
        "a third of the rate; warm-up over the first 1 % of the steps",
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
        when=where(ConstantOutputDetail, lambda output: not output.single and not output.since),
        references=(_DEAD_UNITS,),
    ),
    advise(
        "NUM010-layer",
        "find the first layer whose output is the same for two samples",
        *_HOOK,
        "lower the learning rate and warm it up: a step has killed the units",
        "LeakyReLU or GELU for ReLU; normalisation before it",
        when=where(ConstantOutputDetail, lambda output: not output.single and output.since),
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
    advise(
        "NUM002-batch",
        "check the batch of that step",
        "assert torch.isfinite(batch).all()   # before the forward pass: NaN data make a NaN loss",
        "a mean over no element (an empty batch, labels that are all ignored) is NaN as well",
        when=where(BadStepDetail, lambda bad: bad.replay is None),
    ),
    advise(
        "NUM005-grad",
        "Call {module} with gradients",
        "Move the call of {module} out of torch.no_grad(), if it is meant to be trained.",
        when=where(DeadParametersDetail, lambda dead: dead.module),
        applicability=Applicability.UNSAFE,
    ),
    advise(
        "NUM005-leave-out",
        "Leave {module} out of the optimizer, if it is meant to stay as it is",
        "Call requires_grad_(False) on it before the optimizer is made.",
        _TRAINED_ALONE,
        when=where(DeadParametersDetail, lambda dead: dead.module),
        applicability=Applicability.UNSAFE,
    ),
    advise(
        "NUM005-use",
        "let the gradient reach {layer}",
        "check how forward uses {layer}: a detach(), a no_grad() block, an argmax or a branch never taken",
        "hard choices: torch.nn.functional.gumbel_softmax(logits, hard=True) instead of argmax",
        when=where(DeadParametersDetail, lambda dead: not dead.module),
        applicability=Applicability.UNSAFE,
    ),
    advise(
        "NUM005-freeze",
        "freeze {layer}, if it is meant to stay as it is",
        "model.{layer}.requires_grad_(False)   # before the optimizer is made",
        _TRAINED_ALONE,
        when=where(DeadParametersDetail, lambda dead: not dead.module),
        applicability=Applicability.UNSAFE,
    ),
    advise(
        "NUM006-float32",
        "keep the weights in float32 and let bf16 autocast do the rest",
        "leave torch_dtype / .half() out",
        "torch.autocast('cuda', dtype=torch.bfloat16), or bf16=True",
        when=where(Fp16UnsafeDetail, lambda half: half.cure in ("cast", "load")),
        effort=Effort.SETTING,
    ),
    advise(
        "NUM006-scaler",
        "scale the loss with a GradScaler",
        "scaler = torch.amp.GradScaler('cuda')",
        "scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()",
        when=where(Fp16UnsafeDetail, lambda half: half.cure == "autocast"),
        effort=Effort.SETTING,
    ),
    advise(
        "NUM008-step",
        "call the optimizer's step()",
        "after each backward pass: optimizer.step(), then optimizer.zero_grad()",
        when=where(WeightsFrozenDetail, lambda frozen: frozen.how == "step"),
        effort=Effort.ONE_LINE,
        references=(_BUILT,),
    ),
    advise(
        "NUM008-frozen",
        "unfreeze what is to be trained",
        "set requires_grad=True for the layers to train, and give the optimizer only those:",
        "    [p for p in model.parameters() if p.requires_grad]",
        when=where(WeightsFrozenDetail, lambda frozen: frozen.how == "frozen"),
        effort=Effort.ONE_LINE,
        references=(_BUILT,),
    ),
    advise(
        "NUM008-forgotten",
        "give an optimizer the parameters of {text}",
        "torch.optim.AdamW([*first.parameters(), *second.parameters()], lr=...)",
        "if {text} is to stay as it is: with torch.no_grad(): around its call",
        when=where(WeightsFrozenDetail, lambda frozen: frozen.how == "forgotten"),
        effort=Effort.ONE_LINE,
        references=(_BUILT,),
    ),
    advise(
        "NUM008-swapped",
        "give the optimizer the parameters of the model that is trained: {text}",
        "build it over the model that loss.backward() goes through, not over its copy",
        when=where(WeightsFrozenDetail, lambda frozen: frozen.how == "swapped"),
        effort=Effort.ONE_LINE,
        references=(_BUILT,),
    ),
    advise(
        "NUM008-other",
        "give the optimizer the parameters of the model that is trained",
        "pass the parameters of the model that the message names",
        when=where(WeightsFrozenDetail, lambda frozen: frozen.how in (None, "other")),
        effort=Effort.ONE_LINE,
        references=(_BUILT,),
    ),
    advise(
        "NUM008-cleared",
        "Call zero_grad() after the optimizer's step, or before the backward pass",
        "optimizer.zero_grad(); loss.backward(); optimizer.step()",
        when=where(WeightsFrozenDetail, lambda frozen: frozen.how == "cleared"),
        effort=Effort.ONE_LINE,
        references=(_BUILT,),
    ),
    advise(
        "NUM008-shared",
        "give this optimizer the parameters of the model that it is meant to train",
        "its parameters are those of {text}, which another optimizer trains",
        when=where(WeightsFrozenDetail, lambda frozen: frozen.how == "shared"),
        effort=Effort.ONE_LINE,
        references=(_BUILT,),
    ),
    advise(
        "NUM008-idle",
        "let gradients reach {text} before its step",
        "remove detach() and no_grad() between its output and its loss",
        "call zero_grad() before the backward pass, not between it and the step",
        "leave the optimizer out where the part is to stay as it is",
        when=where(WeightsFrozenDetail, lambda frozen: frozen.how == "idle"),
        effort=Effort.ONE_LINE,
        references=(_BUILT,),
    ),
    advise(
        "NUM009-spent",
        "Make the schedule as long as the training",
        "Step a schedule of epochs once an epoch, after the loop over the batches.",
        "Give a schedule of steps the number of all optimizer steps (T_max, total_steps).",
        "Or end it at a rate that still learns: eta_min=1e-6.",
        when=where(LearningRateOutOfBandDetail, lambda rate: rate.cure == "spent"),
        effort=Effort.ONE_LINE,
    ),
    advise(
        "NUM012-labels",
        "Count the labels that are not masked in one batch",
        '(batch["labels"] != -100).sum(dim=-1)   # 0 in a row: the loss of that sample is zero',
        "If whole rows are masked, check the chat template, the truncation length and the mask.",
        references=("https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",),
    ),
    advise(
        "NUM012-margin",
        "Mine harder pairs, or raise the margin of the loss",
        "Take the hardest negatives of each batch (semi-hard mining).",
        "If the model already knows the data by heart, stop the training.",
        applicability=Applicability.UNSAFE,
        references=("https://arxiv.org/abs/1503.03832",),
    ),
)
