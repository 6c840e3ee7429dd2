"""What `gpudoctor autopsy` says of every log in a repository: each finding, for somebody to read and judge.

    python benchmarks/many_logs.py CLONE [--most 1200] [--seed 3]

CLONE is a clone of a repository with many logs, bare or not, e.g. github.com/mlcommons/training_results_v4.0.
Nothing in it says how its jobs ended. Most logs of such a collection are of jobs that ended well. So each
finding is either a job that died or a false alarm. The program prints the findings, one a line, and counts
them. Logs are `result_N.txt`, `*.log`, `*.out` and
`*.err` below 4 MB; of more than `--most` a sample is drawn.
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from autopsy import first_finding, request_for_logs

from gpudoctor.errors import DoctorError

_LOG = re.compile(r"(?:^|/)result_\d+\.txt$|\.(?:log|out|err)$")
_LARGEST = 4_000_000


def logs_of(clone: Path) -> list[tuple[str, str]]:
    """Path and object of each log in the newest commit."""
    listed = subprocess.run(
        ["git", "-C", str(clone), "ls-tree", "-r", "-l", "HEAD"], capture_output=True, text=True, check=True
    ).stdout
    found = []
    for row in listed.splitlines():
        fields, _, path = row.partition("\t")
        _, _, name, size = fields.split()
        if _LOG.search(path) and size.isdigit() and int(size) < _LARGEST:
            found.append((path, name))
    return found


def main() -> None:
    """Examine the logs and print what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("clone", type=Path)
    parser.add_argument("--most", type=int, default=1_200, help="logs of a sample")
    parser.add_argument("--seed", type=int, default=3)
    arguments = parser.parse_args()
    logs = logs_of(arguments.clone)
    if len(logs) > arguments.most:
        logs = random.Random(arguments.seed).sample(logs, arguments.most)
    request = request_for_logs()
    found: Counter[str] = Counter()
    read = lines = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "job.log"
        for path, name in logs:
            blob = ["git", "-C", str(arguments.clone), "cat-file", "blob", name]
            text = subprocess.run(blob, capture_output=True, check=True).stdout
            copy.write_bytes(text)
            try:
                first = first_finding(copy, request)
            except DoctorError:
                continue  # no text
            read, lines = read + 1, lines + text.count(b"\n")
            if first is not None:
                found[first.code] += 1
                print(f"{first.code} {first.confidence.value} {path}: {str(first.message)[:150]}", flush=True)
    print(f"{read} logs, {lines:,} lines: {sum(found.values())} with a finding {dict(found)}")


if __name__ == "__main__":
    sys.exit(main())
