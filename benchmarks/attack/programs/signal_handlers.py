import os
import signal
import sys

from training import train

train()
print(
    [
        signal.getsignal(number) is not None and str(signal.getsignal(number))
        for number in (1, 2, 10, 12, 14, 15, 24)
    ]
)


def handler(number, frame):
    print("got", number, frame.f_code.co_name)


print(signal.signal(signal.SIGTERM, handler), signal.signal(signal.SIGUSR1, handler))
train(5)
sys.stdout.flush()
child = os.fork()
os.kill(os.getpid(), signal.SIGTERM) if not child else os.waitpid(child, 0)
os.kill(os.getpid(), signal.SIGUSR1)
print("child" if not child else "parent")
sys.stdout.flush()
if not child:
    os._exit(0)
print(signal.signal(signal.SIGTERM, signal.SIG_DFL) is handler)
os.kill(os.getpid(), signal.SIGTERM)
