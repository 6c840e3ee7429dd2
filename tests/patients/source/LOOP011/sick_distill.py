"""Knowledge distillation: the teacher builds a graph on each step, with dropout on."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, 10))

    def forward(self, x):
        return self.body(x)


def distill(student, teacher, loader, optimizer, temperature=4.0):
    student.train()
    for x, y in loader:
        teacher_logits = teacher(x)
        student_logits = student(x)
        soft = F.softmax(teacher_logits / temperature, dim=1)
        loss = F.kl_div(F.log_softmax(student_logits / temperature, dim=1), soft, reduction="batchmean")
        loss = loss + F.cross_entropy(student_logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    teacher = Net(1024)
    teacher.load_state_dict(torch.load("teacher.pt"))
    student = Net(64)
    optimizer = torch.optim.Adam(student.parameters())
    distill(student, teacher, DataLoader([(torch.randn(32), 1)] * 64, batch_size=8), optimizer)


if __name__ == "__main__":
    main()
