"""Rules on the topic: training."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Finding, Remedy, answers
from gpudoctor_checks.training.preference_stuck import PreferenceStuckDetail
from gpudoctor_rules.remedies import remedy

_STUCK = {
    "reference": (
        say("give the trainer a reference that is not the policy, and let the policy move"),
        "ref_model = copy.deepcopy(model)   # before training; with a LoRA adapter: ref_model=None",
        say("Look whether the learning rate is above 0 and parameters are trained: see the card."),
    ),
    "pairs": (
        say("print ten pairs: chosen and rejected are the same after the template and the cut"),
        say("Raise max_length if both are cut before they differ."),
    ),
    "slow": (say("let the run make more steps, or raise the learning rate"),),
    "spread": (
        say("give rewards that differ between the answers to one prompt"),
        say("Print the reward of ten answers. Sample with temperature 1 and num_generations of 8 or more."),
    ),
    "drift": (say("lower the learning rate, or raise beta, the weight of the KL"),),
    "cut": (
        say("raise max_completion_length, and check that the model can make its end token"),
        say("The generation stops at eos_token_id: it must be the end token of the chat template."),
    ),
    "clipped": (say("lower the learning rate, or make fewer updates of one batch of answers"),),
}
"""Title and steps, by what was seen."""


@answers("TRAIN012")
def preference_stuck(finding: Finding) -> Iterator[Remedy]:
    """By the finding's `how`."""
    how = finding.detail_of(PreferenceStuckDetail).how
    title, *steps = _STUCK[how]
    yield remedy(f"{finding.code}-{how}", title, *(steps or (title,)))
