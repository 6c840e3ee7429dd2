import os
import sys

from training import train

train()
read, write = os.pipe()
os.dup2(write, 1)
os.close(read)
print("nobody reads this")
sys.stdout.flush()
