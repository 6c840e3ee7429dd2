import os
import sys

from training import train

train()
sys.stdout.write("not flushed")
os._exit(7)
