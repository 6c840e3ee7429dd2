import os
import signal
import time

from training import train

train()
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    print("once")
os.kill(os.getpid(), signal.SIGINT)
time.sleep(5)
