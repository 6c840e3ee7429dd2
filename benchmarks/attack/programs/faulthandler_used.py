import faulthandler
import sys

from training import train

print(faulthandler.is_enabled())
train()
print(faulthandler.is_enabled(), faulthandler.disable())
with open("faults", "w") as stream:
    print(faulthandler.enable(stream), faulthandler.is_enabled())
    train(5)
    print(faulthandler.disable(), faulthandler.is_enabled())
print(faulthandler.unregister(10))
faulthandler.register(10, file=sys.stderr, all_threads=False)
print(faulthandler.unregister(10), faulthandler.unregister(10))
try:
    faulthandler.enable(3.5)
except Exception as error:
    print(type(error).__name__, error)
