"""Cleared by the model, by hand, in a helper, in a closure."""
import torch


def clear(optimizer):
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None


def by_model(model, loader, optimizer):
    for x in loader:
        model.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()


def by_hand(model, loader, optimizer):
    for x in loader:
        model(x).pow(2).mean().backward()
        optimizer.step()
        clear(optimizer)


def by_closure(model, loader, optimizer):
    for x in loader:

        def closure():
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            return loss

        optimizer.step(closure)


def own_update(model, loader):
    for x in loader:
        gradients = torch.autograd.grad(model(x).pow(2).mean(), list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients):
                parameter -= 0.1 * gradient


net = torch.nn.Linear(8, 1)
batches = torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)
by_model(net, batches, torch.optim.SGD(net.parameters(), 0.1))
by_hand(net, batches, torch.optim.SGD(net.parameters(), 0.1))
by_closure(net, batches, torch.optim.LBFGS(net.parameters()))
own_update(net, batches)
