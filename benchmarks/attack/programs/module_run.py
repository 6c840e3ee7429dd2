import runpy
import sys

from training import train

train()
with open("other.py", "w") as stream:
    stream.write("import sys, torch\nprint(__name__, sys.argv, torch.save.__module__)\nraise SystemExit(3)\n")
try:
    runpy.run_path("other.py", run_name="__main__")
except SystemExit as error:
    print(error.code)
exec(compile("def f():\n    return 1 / 0\n", "<made>", "exec"))
f()
