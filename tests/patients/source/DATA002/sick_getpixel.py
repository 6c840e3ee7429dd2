import torch
from PIL import Image


class Darken:
    def __call__(self, image):
        for x in range(image.width):
            for y in range(image.height):
                r, g, b = image.getpixel((x, y))
                image.putpixel((x, y), (r // 2, g // 2, b // 2))
        return image


class Pictures(torch.utils.data.Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __getitem__(self, i):
        return self.darken(Image.open(self.paths[i]))

    def darken(self, image):
        for x in range(image.width):
            for y in range(image.height):
                image.putpixel((x, y), image.getpixel((x, y)))
        return image


def main():
    model = torch.nn.Conv2d(3, 1, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(5):
        for batch in torch.utils.data.DataLoader(Pictures([]), batch_size=4):
            model(batch).mean().backward()
            optimizer.step()
            optimizer.zero_grad()


main()
