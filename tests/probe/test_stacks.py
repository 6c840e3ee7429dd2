"""The stack of another thread: what is read, and that reading it harms nothing."""

import subprocess
import sys
import threading
import time

from gpudoctor.probe.call_sites import rows_of
from gpudoctor.probe.stacks import line_of, stack_of_thread


def test_the_innermost_function_comes_first_with_its_line():
    go, told = threading.Event(), threading.Event()

    def inner():
        told.set()
        go.wait()  # here

    def outer():
        inner()

    thread = threading.Thread(target=outer)
    thread.start()
    told.wait()
    while (stack := stack_of_thread(thread.ident))[0][0].co_name != "wait" or len(stack) < 4:
        time.sleep(0.001)
    go.set()
    thread.join()
    names = [code.co_name for code, _ in stack]
    at = names.index("inner")
    assert names[at + 1] == "outer"
    assert line_of(stack[at]) == inner.__code__.co_firstlineno + 2
    assert line_of(stack[at + 1]) == outer.__code__.co_firstlineno + 1
    assert [row[2] for row in rows_of(stack)][-3:] != []
    assert rows_of(stack)[0][2] == names[-1]


STRESS = """
import sys, threading, time
from gpudoctor.probe.stacks import stack_of_thread

sys.setswitchinterval(1e-5)
main, stop, reads, slept = threading.get_ident(), time.monotonic() + 2, 0, -1

class Thing:
    def __init__(self):
        self.me = self
    def __del__(self):
        global slept
        if slept != reads and threading.get_ident() != main:
            slept = reads
            time.sleep(0.0005)  # during a collection of the reader's, the other thread goes on

def read():
    global reads
    while time.monotonic() < stop:
        stack = stack_of_thread(main)
        assert all(hasattr(code, "co_name") for code, _ in stack), stack
        reads += 1
        time.sleep(0.00002)

space = {"Thing": Thing, "downs": []}
for n in range(7):  # frames of different sizes
    names = ", ".join(f"v{i}" for i in range(3 * n + 1))
    exec(f'''
def down(depth):
    {names}, = [depth] * {3 * n + 1}
    Thing()
    if depth:
        return downs[depth * 5 % 7](depth - 1)
    return [v0] * 50
downs.append(down)
''', space)
reader = threading.Thread(target=read)
reader.start()
while time.monotonic() < stop:
    for depth in range(0, 40, 3):
        space["downs"][depth % 7](depth)
reader.join()
print(reads, slept)
"""


def test_a_collection_that_lets_the_other_thread_go_on_does_no_harm():
    """Python 3.11, asked frame by frame, gave other objects than frames within a second, or died."""
    done = subprocess.run([sys.executable, "-c", STRESS], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    reads, slept = map(int, done.stdout.split())
    assert reads > 100
    assert slept > 100
