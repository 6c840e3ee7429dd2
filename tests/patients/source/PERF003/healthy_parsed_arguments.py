"""The Trainer's arguments come from the command line: `--torch_compile` is for the caller to say."""

from transformers import AutoModelForImageClassification, HfArgumentParser, Trainer, TrainingArguments
from torchvision import transforms

[settings] = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
network = AutoModelForImageClassification.from_pretrained("facebook/convnext-tiny-224")
crop = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])


def cropped(rows):
    return {"pixel_values": [crop(image) for image in rows["image"]], "labels": rows["label"]}


Trainer(model=network, args=settings, train_dataset=cropped).train()
