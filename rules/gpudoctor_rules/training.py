"""Rules on the topic: training."""

from collections.abc import Iterator, Mapping, Sequence

from gpudoctor.lang import say
from gpudoctor.model import Finding, Remedy, answers
from gpudoctor_checks.training.gradients_misscaled import GradientsMisscaledDetail
from gpudoctor_checks.training.parameters_untrained import ParametersUntrainedDetail
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
    yield from _by_how(finding, finding.detail_of(PreferenceStuckDetail).how, _STUCK)


_DATA = {
    "cut": (
        say("cut the prompt and not the answer, raise the maximum length, or drop such rows"),
        "ids = prompt[-(max_length - len(answer)):] + answer",
        "dataset = dataset.filter(lambda row: any(label >= 0 for label in row['labels']))",
    ),
    "rows": (
        say("print such a row: its answer, template or mask leaves nothing to train; drop or mend it"),
        "dataset = dataset.filter(lambda row: any(label >= 0 for label in row['labels']))",
    ),
    "pad": (
        say("give the tokenizer a padding token of its own, or mask labels by the attention mask"),
        "tokenizer.add_special_tokens({'pad_token': '<pad>'}); model.resize_token_embeddings(len(tokenizer))",
        "labels = input_ids.masked_fill(attention_mask == 0, -100)",
    ),
    "end": (
        say("end each text with the end token, and train it"),
        "text + tokenizer.eos_token   # and labels of the answer up to and with it",
    ),
    "twice": (
        say("give the model labels = input_ids: it shifts them itself"),
        "return {'input_ids': ids, 'labels': ids.clone()}",
    ),
    "copy": (
        say("shift the labels by one against the logits"),
        "loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())",
    ),
    "padding": (say("set the labels of padding to -100"), "labels = input_ids.masked_fill(attention_mask == 0, -100)"),
    "prompt": (
        say("mask the prompt from where the text begins, or pad at the right"),
        "start = attention_mask[i].argmax(); labels[i, : start + n_prompt] = -100",
    ),
    "pixels": (
        say("scale the pixels as the model expects them"),
        "image = (image / 255 - mean) / std   # of ImageNet: 0.485 0.456 0.406, 0.229 0.224 0.225",
    ),
    "last": (say("permute the images to channels first"), "images = images.permute(0, 3, 1, 2).contiguous()"),
    "unreal": (
        say("find the samples that are not finite, and mend or drop them"),
        "bad = [i for i in range(len(dataset)) if not torch.isfinite(dataset[i][0]).all()]",
    ),
    "constant": (say("print some samples: a scaler, an integer division or a join has lost the values"),),
    "attended": (
        say("give the model a mask that is 0 at padding"),
        "attention_mask = (input_ids != pad_token_id).long()",
        "src_key_padding_mask = input_ids == pad_token_id   # of torch.nn.Transformer",
    ),
    "positions": (
        say("count the positions from 0 in each text, and on by one"),
        "position_ids = torch.cat([torch.arange(n) for n in lengths])",
    ),
    "repeated": (say("look for the samples that are in the set twice, and drop them"),),
    "samples": (
        say("split the samples once, by a fixed seed, and check that both parts are disjoint"),
        "train, valid = torch.utils.data.random_split(dataset, [0.9, 0.1], torch.Generator().manual_seed(0))",
    ),
}
"""Title and steps, by what was seen."""


@answers("TRAIN001", "TRAIN002", "TRAIN003", "TRAIN004")
def training_data(finding: Finding) -> Iterator[Remedy]:
    """By the first word of the finding's subject."""
    how = finding.subject.split()[0]
    yield from _by_how(finding, how, _DATA)


def _by_how(finding: Finding, how: str, texts: Mapping[str, Sequence[str]]) -> Iterator[Remedy]:
    title, *steps = texts[how]
    yield remedy(f"{finding.code}-{how}", title, *(steps or (title,)))


_PARAMETERS = {
    "tokens": (
        say("train the rows of the new tokens"),
        'LoraConfig(..., modules_to_save=["embed_tokens", "lm_head"])   # their names in the model',
        'or only the new rows: LoraConfig(..., trainable_token_indices={"embed_tokens": new_ids})',
    ),
    "replaced": (
        say("leave get_peft_model out after PeftModel.from_pretrained"),
        "model = PeftModel.from_pretrained(base, folder, is_trainable=True)   # this is the model to train",
    ),
    "adapter": (
        say("load the adapter with is_trainable=True"),
        'model = PeftModel.from_pretrained(base, folder, is_trainable=True); or model.set_adapter("default")',
    ),
    "base": (
        say("freeze the base: set requires_grad only for the adapter"),
        'for name, p in model.named_parameters(): p.requires_grad_("lora_" in name)',
    ),
    "left": (
        say("give the optimizer what was unfrozen"),
        'optimizer.add_param_group({"params": [*part.parameters()], "lr": ...})   # right after requires_grad_(True)',
    ),
}
_GRADIENTS = {
    "undivided": (
        say("divide the loss by the number of micro batches"),
        "(loss / micro_batches).backward()",
        say("In a Trainer's compute_loss: divide the sum of the losses by num_items_in_batch."),
    ),
    "twice": (
        say("divide the loss once: accelerator.backward and Trainer divide it, too"),
        "accelerator.backward(loss)",
    ),
    "again": (say("remove the second backward() of the same loss"),),
    "uneven": (
        say("divide the sum of the losses by the number of targets of all micro batches"),
        'loss = F.cross_entropy(logits, labels, reduction="sum") / targets_of_the_step',
    ),
    "clipped": (say("raise the limit of the clip to the usual norm, or lower the learning rate"),),
}


@answers("TRAIN005")
def parameters_untrained(finding: Finding) -> Iterator[Remedy]:
    """By the finding's `how`."""
    yield from _by_how(finding, finding.detail_of(ParametersUntrainedDetail).how, _PARAMETERS)


@answers("TRAIN007")
def gradients_misscaled(finding: Finding) -> Iterator[Remedy]:
    """By the finding's `how`."""
    yield from _by_how(finding, finding.detail_of(GradientsMisscaledDetail).how, _GRADIENTS)
