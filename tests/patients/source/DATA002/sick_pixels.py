import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class Masks(Dataset):
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        image = np.array(Image.open(self.files[index]))
        mask = np.zeros(image.shape[:2])
        for y in range(image.shape[0]):  # 逐像素循环
            for x in range(image.shape[1]):
                if image[y, x].sum() > 300:
                    mask[y, x] = 1
        return torch.from_numpy(image), torch.from_numpy(mask)


model = torch.nn.Conv2d(3, 1, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Masks(["a.png"]), batch_size=8, num_workers=4)
for epoch in range(10):
    for image, mask in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(image.cuda()), mask.cuda()).backward()
        optimizer.step()
