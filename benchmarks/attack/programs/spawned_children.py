import torch.multiprocessing as mp
from training import train


def child(rank, words):
    train(5)
    if rank == 0:
        raise ValueError(words)


if __name__ == "__main__":
    train()
    try:
        mp.spawn(child, ("in a child",), nprocs=1, join=True)
    except Exception as error:
        text = str(error)
        print(type(error).__name__, text[text.index("Traceback") :])
