import sys
import traceback

from training import train


class Paper:
    def write(self, text):
        frame, names = sys._getframe(), []
        while frame is not None:
            names.extend([frame.f_code.co_name] * (frame.f_code.co_name != "hooked"))
            frame = frame.f_back
        sys.stdout.write(" ".join(names) + "\n")
        raise BrokenPipeError("no paper")


class Thing:
    def __str__(self):
        frame = sys._getframe(1)
        return frame.f_back.f_code.co_name if frame.f_code.co_name == "hooked" else frame.f_code.co_name


train()


def report():
    print(Thing(), end="!\n", flush=True)
    print("x", file=Paper())


try:
    report()
except BrokenPipeError:
    traceback.print_exc()
print("x", sep=3)
