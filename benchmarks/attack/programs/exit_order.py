import atexit
import threading
import time
import weakref

import torch
from training import train


class Last:
    def __del__(self):
        print("del")


keep = Last()
atexit.register(print, "first registered")
train()
atexit.register(print, "last registered")
threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
weakref.finalize(keep, print, "finalized")
print("end", torch.__name__)
