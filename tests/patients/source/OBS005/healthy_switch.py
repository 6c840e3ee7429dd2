import argparse

import torch


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--debug", action="store_true", help="find the NaN")
    return parser.parse_args()


def main():
    args = parse()
    if args.debug:
        torch.autograd.set_detect_anomaly(True)
    torch.autograd.set_detect_anomaly(False)
    torch.use_deterministic_algorithms(True)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.autograd.set_detect_anomaly(args.debug):
        for x in torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4):
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
