import gc

from training import train

gc.collect()
train(150)
print(
    gc.collect() < 200, gc.garbage, gc.isenabled(), gc.get_threshold(), gc.callbacks, gc.get_freeze_count() >= 0
)
