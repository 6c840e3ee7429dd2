import random

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")


class Pairs(Dataset):
    def __init__(self, files, captions):
        self.files, self.captions = files, captions
        self.encoded = tokenizer(captions, truncation=True)["input_ids"]
        self.transform = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        image = self.transform(Image.open(self.files[index]).convert("RGB"))
        patches = [image[:, i * 16 : i * 16 + 16] for i in range(14)]
        return image, patches, self.encoded[index]


class Augmented(Dataset):
    def __getitem__(self, index):
        caption = random.choice(["a photo of", "a picture of"])  # 随机提示词
        return tokenizer(caption + str(index))["input_ids"]


model = torch.nn.Conv2d(3, 1, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for image, patches, ids in DataLoader(Pairs([], []), batch_size=8, num_workers=8):
        model(image).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    for ids in DataLoader(Augmented(), batch_size=8, num_workers=8):
        model(ids).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
