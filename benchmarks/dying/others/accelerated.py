"""accelerate with one bar on the main process: one rank is killed as the out-of-memory killer does it."""

import os
import signal

import torch
from accelerate import Accelerator
from accelerate.logging import get_logger
from small import Classifier, arguments, batch
from tqdm.auto import tqdm

log = get_logger(__name__)


def main() -> None:
    options = arguments()
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    accelerator.print(accelerator.state)
    model = Classifier()
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    bar = tqdm(range(40), disable=not accelerator.is_local_main_process, desc="Steps")
    for number in range(40):
        ids, labels = batch(number * 64 + accelerator.process_index)
        loss = torch.nn.functional.cross_entropy(model(ids), labels)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        bar.update(1)
        bar.set_postfix(loss=loss.item(), lr=0.1)
        if accelerator.process_index == options.victim and number == options.at:
            os.kill(os.getpid(), signal.SIGKILL)


main()
