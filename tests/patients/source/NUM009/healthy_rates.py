import torch

model = torch.nn.Linear(8, 8)
image = torch.zeros(3, 8, 8, requires_grad=True)
optimizers = [
    torch.optim.AdamW(model.parameters(), lr=1e-2),
    torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9),
    torch.optim.Adam(model.parameters()),
    torch.optim.Adam([image], lr=0.1),  # 直接优化图像
    torch.optim.Adam(model.parameters(), lr=0.0),
]
