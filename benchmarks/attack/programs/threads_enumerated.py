import threading

from training import train

train()
print(sorted(thread.name for thread in threading.enumerate()))
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        thread.join()
print("joined")
