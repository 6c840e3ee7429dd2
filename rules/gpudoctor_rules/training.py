"""Rules on the topic: training."""

from collections.abc import Iterator

from gpudoctor.lang import say
from gpudoctor.model import Finding, Remedy, answers
from gpudoctor_rules.remedies import remedy

_ROWS = "dataset = dataset.filter(lambda row: any(label >= 0 for label in row['labels']))"
_MASKED = "labels = input_ids.masked_fill(attention_mask == 0, -100)"
_STEPS = {
    "TRAIN001-cut": (
        say("cut the prompt and not the answer, raise the maximum length, or drop such rows"),
        "ids = prompt[-(max_length - len(answer)):] + answer",
        _ROWS,
    ),
    "TRAIN001-rows": (
        say("print such a row: its answer, template or mask leaves nothing to train; drop or mend it"),
        _ROWS,
    ),
    "TRAIN001-pad": (
        say("give the tokenizer a padding token of its own, or mask labels by the attention mask"),
        "tokenizer.add_special_tokens({'pad_token': '<pad>'}); model.resize_token_embeddings(len(tokenizer))",
        _MASKED,
    ),
    "TRAIN001-end": (
        say("end each text with the end token, and train it"),
        "text + tokenizer.eos_token   # and labels of the answer up to and with it",
    ),
    "TRAIN002-twice": (
        say("give the model labels = input_ids: it shifts them itself"),
        "return {'input_ids': ids, 'labels': ids.clone()}",
    ),
    "TRAIN002-copy": (
        say("shift the labels by one against the logits"),
        "loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())",
    ),
    "TRAIN002-padding": (say("set the labels of padding to -100"), _MASKED),
    "TRAIN002-prompt": (
        say("mask the prompt from where the text begins, or pad at the right"),
        "start = attention_mask[i].argmax(); labels[i, : start + n_prompt] = -100",
    ),
    "TRAIN003-pixels": (
        say("scale the pixels as the model expects them"),
        "image = (image / 255 - mean) / std   # of ImageNet: 0.485 0.456 0.406, 0.229 0.224 0.225",
    ),
    "TRAIN003-last": (say("permute the images to channels first"), "images = images.permute(0, 3, 1, 2).contiguous()"),
    "TRAIN003-unreal": (
        say("find the samples that are not finite, and mend or drop them"),
        "bad = [i for i in range(len(dataset)) if not torch.isfinite(dataset[i][0]).all()]",
    ),
    "TRAIN003-constant": (say("print some samples: a scaler, an integer division or a join has lost the values"),),
    "TRAIN003-attended": (
        say("give the model a mask that is 0 at padding"),
        "attention_mask = (input_ids != pad_token_id).long()",
        "src_key_padding_mask = input_ids == pad_token_id   # of torch.nn.Transformer",
    ),
    "TRAIN003-positions": (
        say("count the positions from 0 in each text, and on by one"),
        "position_ids = torch.cat([torch.arange(n) for n in lengths])",
    ),
    "TRAIN003-repeated": (say("look for the samples that are in the set twice, and drop them"),),
    "TRAIN004-samples": (
        say("split the samples once, by a fixed seed, and check that both parts are disjoint"),
        "train, valid = torch.utils.data.random_split(dataset, [0.9, 0.1], torch.Generator().manual_seed(0))",
    ),
    "TRAIN004-padding": (
        say("leave positions without a label out of the metric"),
        "real = labels != -100; accuracy = (predictions[real] == labels[real]).mean()",
    ),
    "TRAIN005-tokens": (
        say("train the rows of the new tokens"),
        'LoraConfig(..., modules_to_save=["embed_tokens", "lm_head"])   # their names in the model',
    ),
    "TRAIN005-replaced": (
        say("leave get_peft_model out after PeftModel.from_pretrained"),
        "model = PeftModel.from_pretrained(base, folder, is_trainable=True)   # this is the model to train",
    ),
    "TRAIN005-adapter": (
        say("load the adapter with is_trainable=True"),
        'model = PeftModel.from_pretrained(base, folder, is_trainable=True); or model.set_adapter("default")',
    ),
    "TRAIN005-base": (
        say("freeze the base: set requires_grad only for the adapter"),
        'for name, p in model.named_parameters(): p.requires_grad_("lora_" in name)',
    ),
    "TRAIN005-left": (
        say("give the optimizer what was unfrozen"),
        'optimizer.add_param_group({"params": [*part.parameters()], "lr": ...})   # right after requires_grad_(True)',
    ),
    "TRAIN007-undivided": (
        say("divide the loss by the number of micro batches"),
        "(loss / micro_batches).backward()",
        say("In a Trainer's compute_loss: divide the sum of the losses by num_items_in_batch."),
    ),
    "TRAIN007-twice": (
        say("divide the loss once: accelerator.backward and Trainer divide it, too"),
        "accelerator.backward(loss)",
    ),
    "TRAIN007-again": (say("remove the second backward() of the same loss"),),
    "TRAIN007-uneven": (
        say("divide the sum of the losses by the number of targets of all micro batches"),
        'loss = F.cross_entropy(logits, labels, reduction="sum") / targets_of_the_step',
    ),
    "TRAIN007-clipped": (say("raise the limit of the clip to the usual norm, or lower the learning rate"),),
    "TRAIN012-chance": (
        say("give the trainer a reference that is not the policy, and print ten pairs after template and cut"),
        "ref_model = copy.deepcopy(model)   # before training; with a LoRA adapter: model.disable_adapter()",
    ),
    "TRAIN012-spread": (
        say("give rewards that differ between the answers to one prompt"),
        say("Print the reward of ten answers. Sample with temperature 1 and num_generations of 8 or more."),
    ),
    "TRAIN012-drift": (
        say("subtract the KL from the reward, raise its weight beta, or lower the learning rate"),
        "reward = score - beta * kl",
    ),
    "TRAIN012-cut": (
        say("raise max_completion_length, and check that the model can make its end token"),
        say("The generation stops at eos_token_id: it must be the end token of the chat template."),
    ),
    "TRAIN012-clipped": (say("lower the learning rate, or make fewer updates of one batch of answers"),),
}
"""Title and steps, by what was seen."""


@answers("TRAIN001", "TRAIN002", "TRAIN003", "TRAIN004", "TRAIN005", "TRAIN007", "TRAIN012")
def by_how(finding: Finding) -> Iterator[Remedy]:
    """By the `how` of the finding's detail, or the first word of its subject."""
    id = f"{finding.code}-{getattr(finding.detail, 'how', '') or finding.subject.split()[0]}"
    title, *steps = _STEPS[id]
    yield remedy(id, title, *(steps or (title,)))
