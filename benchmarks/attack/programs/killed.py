import os
import signal

from training import train

train()
print("before", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
