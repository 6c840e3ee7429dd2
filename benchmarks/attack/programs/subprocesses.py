import subprocess
import sys

from training import train

train()
print(
    subprocess.run(
        [sys.executable, "-c", "import sys; print(sys.flags.isolated, len(sys.argv)); sys.exit(4)"],
        capture_output=True,
        check=False,
    )
)
print(
    subprocess.run(
        [sys.executable, "-c", "import torch; torch.ones(2).sum(0).view(3)"], capture_output=True, check=False
    ).stderr.decode()
)
print(
    subprocess.run(
        [sys.executable, "-I", "-c", "import threading; print(threading.active_count())"],
        capture_output=True,
        check=False,
    )
)
