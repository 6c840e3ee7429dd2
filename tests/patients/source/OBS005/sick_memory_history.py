import torch


def main():
    torch.cuda.memory._record_memory_history(max_entries=100000)
    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader(torch.randn(10000, 8), batch_size=4):
        optimizer.zero_grad()
        model(x.cuda()).pow(2).mean().backward()
        optimizer.step()
    torch.cuda.memory._dump_snapshot("snapshot.pickle")


main()
