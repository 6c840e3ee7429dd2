import threading
import time

from training import train

worker = threading.Thread(target=time.sleep, args=(0.2,))
worker.start()
train()
while threading.active_count() > 1:
    time.sleep(0.01)
print("alone", threading.active_count())
