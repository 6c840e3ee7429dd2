"""Advice on what a job's log names as the first cause of its death."""

from gpudoctor.model import advise, in_log

ADVICE = (
    advise(
        "DATA010-see",
        "Run the loader in the main process to see its error",
        "num_workers=0 for one epoch; PYTHONFAULTHANDLER=1",
        "dmesg | grep -i -E 'killed process|oom'   # host memory is the usual reason",
        when=in_log("background-workers", "worker-exited", "worker-killed", "pin-thread", "handed-over"),
    ),
    advise(
        "DATA010-timeout",
        "Find what the workers wait for",
        "py-spy dump --pid WORKER; a slow or hung mount is usual",
        when=in_log("loader-timeout"),
    ),
)
