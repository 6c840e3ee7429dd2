import os
import sys

from training import train

os.mkdir("gone")
os.chdir("gone")
os.rmdir("../gone")
train()
try:
    print(os.getcwd())
except OSError as error:
    print(type(error).__name__)
sys.exit(2)
