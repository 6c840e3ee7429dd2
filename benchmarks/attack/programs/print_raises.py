import sys
import traceback

from training import train


class Paper:
    def write(self, text):
        frame, names = sys._getframe(), []
        while frame is not None:
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        sys.stdout.write(" ".join(names) + "\n")
        raise BrokenPipeError("no paper")


class Thing:
    def __str__(self):
        return sys._getframe(1).f_code.co_name


train()


def report():
    print(Thing(), end="!\n", flush=True)
    print("x", file=Paper())


try:
    report()
except BrokenPipeError:
    traceback.print_exc()
print("x", sep=3)
