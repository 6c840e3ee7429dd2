import sys
import traceback

from training import train

train()


def leave(code):
    sys.exit(code)


for code in (None, 0, "words"):
    try:
        leave(code)
    except SystemExit as error:
        traceback.print_exc()
        print(repr(error.code))
try:
    sys.exit(1, 2)
except TypeError:
    traceback.print_exc()
leave("the end")
