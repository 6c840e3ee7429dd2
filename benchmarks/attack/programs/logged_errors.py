import logging
import sys

import torch
from training import train

logging.basicConfig(
    stream=sys.stdout, format="%(levelname)s %(filename)s:%(lineno)d %(funcName)s %(threadName)s %(message)s"
)
log = logging.getLogger("job")


class Stack(logging.Handler):
    def emit(self, record):
        frame, names = sys._getframe(), []
        while frame is not None:
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        print(record.getMessage(), names)


log.addHandler(Stack())


def each(step, loss):
    if step % 20 == 0:
        log.warning("step %d", step, stack_info=step == 20)


train(each=each)
try:
    torch.save(1, "no/such/folder.pt")
except RuntimeError:
    log.exception("not saved")
