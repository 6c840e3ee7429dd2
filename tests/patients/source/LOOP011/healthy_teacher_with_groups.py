import torch
from data import batches


def make(width):
    return torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Linear(width, 2))


teacher_net = make(64)
student_net = make(16)
quiet = ("bias", "norm")
groups = [
    {"params": [p for n, p in teacher_net.named_parameters() if not n.endswith(quiet)], "weight_decay": 1e-4},
    {"params": [p for n, p in teacher_net.named_parameters() if n.endswith(quiet)], "weight_decay": 0.0},
]
teacher_optimizer = torch.optim.SGD(groups, lr=0.1)
student_optimizer = torch.optim.SGD(student_net.parameters(), lr=0.1)

for x, y in torch.utils.data.DataLoader(batches("train"), batch_size=16):
    wanted = teacher_net(x)
    loss = torch.nn.functional.cross_entropy(student_net(x), wanted.detach().argmax(1))
    student_optimizer.zero_grad()
    loss.backward()
    student_optimizer.step()
    teacher_loss = torch.nn.functional.cross_entropy(wanted, y)
    teacher_optimizer.zero_grad()
    teacher_loss.backward()
    teacher_optimizer.step()
