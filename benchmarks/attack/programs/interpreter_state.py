import os
import sys
import threading

from training import train

train()
print(sys.argv[1:], sys.orig_argv[1:] == [__file__] or len(sys.orig_argv), sys.flags, sys.dont_write_bytecode)
print(
    [os.path.basename(entry) for entry in sys.path], sys.path[0] == os.path.dirname(os.path.abspath(__file__))
)
print(
    sys.excepthook is sys.__excepthook__,
    sys.displayhook is sys.__displayhook__,
    sys.unraisablehook is sys.__unraisablehook__,
)
print(
    threading.excepthook is threading.__excepthook__, sys.gettrace(), sys.getprofile(), sys.getrecursionlimit()
)
print(
    sys.stdout.line_buffering, sys.stdout.encoding, sys.stderr.errors, sys.stdin.isatty(), sys.stdout.isatty()
)
print(sorted(name for name in globals() if not name.startswith("__")), __name__, __spec__)
print(
    os.getcwd() == os.environ["ATTACK_FOLDER"],
    os.umask(0o22),
    os.nice(0),
    os.getpgid(0) == os.getpid() or "group",
)
print(sys.stdin.read(), [name for name in sys.modules if name == "sitecustomize"] or "none")
print(
    sorted(name for name in os.environ if not name.startswith(("GPUDOCTOR_", "PYTHONPATH")))
    == sorted(name for name in os.environ if not name.startswith(("GPUDOCTOR_", "PYTHONPATH")))
)
