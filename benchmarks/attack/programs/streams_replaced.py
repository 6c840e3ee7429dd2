import contextlib
import io
import os
import sys

from training import train

text = io.StringIO()
with contextlib.redirect_stdout(text):
    train(each=lambda step, loss: print(step, f"{loss:.3f}"))
print(len(text.getvalue().splitlines()))
os.write(1, b"written\n")
sys.stdout.buffer.write(b"\x00\xff\n")
print("last", file=sys.stderr, flush=True)
sys.stdout = open("out.txt", "w")
train(each=lambda step, loss: print(step))
sys.stdout.close()
sys.stdout = sys.__stdout__
print(input(), sys.stdin.readline())
