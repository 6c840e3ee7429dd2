import atexit
import os
import signal
import time

import torch


def late():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.01)
    print("still here")


atexit.register(late)
signal.signal(signal.SIGTERM, lambda number, frame: print("handled", number))
from training import train

train()
