import os
import signal

import torch
from training import F, data, net, train

train()


class Alarm(Exception):
    def __init__(self, number, why):
        super().__init__(number, why)


raised, caught, armed = 0, 0, False


def handler(number, frame):
    global raised, armed
    if armed:
        armed = False
        raised += 1
        raise Alarm(raised, "time is up")


signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
paper = open(os.devnull, "w")
x, y = data(8).tensors
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while raised < 800:
    try:
        torch.set_grad_enabled(True)
        armed = True
        for _ in range(20):
            print("x", file=paper)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            print(loss.item(), file=paper)
            optimizer.step()
    except Alarm as alarm:
        assert alarm.args == (raised, "time is up")
        caught += 1
armed = False
signal.setitimer(signal.ITIMER_REAL, 0)
print(caught == raised)
