"""A profiler left open around the whole training."""
import torch
import torch.profiler as tp


def train_one_epoch(model, loader, optimizer, prof):
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        prof.step()


def main():
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dataset = torch.utils.data.TensorDataset(torch.randn(1000, 8), torch.randn(1000, 1))
    loader = torch.utils.data.DataLoader(dataset, batch_size=10)
    with tp.profile(on_trace_ready=tp.tensorboard_trace_handler("./log"), with_stack=True) as prof:
        for epoch in range(20):
            train_one_epoch(model, loader, optimizer, prof)


if __name__ == "__main__":
    main()
