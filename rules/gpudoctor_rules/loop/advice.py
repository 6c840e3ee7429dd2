"""What is told of training loops, without computation."""

from gpudoctor.lang import template
from gpudoctor.model import Effort, advise, where
from gpudoctor_checks.loop.sigterm_unhandled import SigtermUnhandledDetail
from gpudoctor_checks.loop.silent_broadcast import SilentBroadcastDetail

_SLURM = "https://slurm.schedmd.com/sbatch.html#OPT_signal"


def _handler(signal: str) -> tuple[str, ...]:
    """Lines that leave the loop when the signal comes."""
    return (
        "import signal",
        "stop = False",
        "def on_signal(number, frame):",
        "    global stop",
        "    stop = True",
        f"signal.signal(signal.{signal}, on_signal)",
        template("at the end of each step: if stop: save a checkpoint and leave the loop"),
    )


ADVICE = (
    advise(
        "LOOP012-shape",
        "use {wide}.squeeze(1) in the loss, or {flat}.unsqueeze(1)",
        "give the loss {wide}.squeeze(1) in place of {wide}: both then have the shape of {flat}",
        "write assert {wide}.squeeze(1).shape == {flat}.shape before the loss, so that it stays so",
        when=where(SilentBroadcastDetail, lambda loss: not (loss.crossed or loss.either)),
        effort=Effort.ONE_LINE,
        references=("https://docs.pytorch.org/docs/stable/notes/broadcasting.html",),
    ),
    advise(
        "LOOP012-either",
        "Give outputs and targets one shape: squeeze(1) the one that has a dimension of size 1",
        "Put torch.no_grad() around what computes the targets, if no gradient is meant to reach it.",
        "Write assert output.shape == target.shape before the loss, so that it stays so.",
        when=where(SilentBroadcastDetail, lambda loss: loss.either),
        effort=Effort.ONE_LINE,
        references=("https://docs.pytorch.org/docs/stable/notes/broadcasting.html",),
    ),
    advise(
        "LOOP012-crossed",
        "Give the parts of the target one shape before they are added",
        "Store the rewards as (N, 1), or squeeze the values to (N).",
        "Write assert output.shape == target.shape before the loss, so that it stays so.",
        when=where(SilentBroadcastDetail, lambda loss: loss.crossed),
        effort=Effort.ONE_LINE,
        references=("https://docs.pytorch.org/docs/stable/notes/broadcasting.html",),
    ),
    advise(
        "LOOP010-handler",
        "add a handler that saves, and give it 300 s",
        "terminationGracePeriodSeconds: 300  # in the pod",
        *_handler("SIGTERM"),
        when=where(SigtermUnhandledDetail, lambda job: job.kubernetes),
        references=("https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination",),
    ),
    advise(
        "LOOP010-handler",
        "add --signal=USR1@300 and a handler that saves",
        "#SBATCH --signal=USR1@300",
        "#SBATCH --requeue",
        *_handler("SIGUSR1"),
        when=where(SigtermUnhandledDetail, lambda job: job.slurm and job.srun),
        references=(_SLURM,),
    ),
    advise(
        "LOOP010-handler",
        "add --signal=B:USR1@300 and a handler that saves",
        "#SBATCH --signal=B:USR1@300",
        "#SBATCH --requeue",
        "trap 'kill -USR1 $pid' USR1; python train.py & pid=$!; wait $pid; wait $pid",
        *_handler("SIGUSR1"),
        when=where(SigtermUnhandledDetail, lambda job: job.slurm and not job.srun),
        references=(_SLURM,),
    ),
    advise(
        "LOOP010-handler",
        "add a handler that saves",
        *_handler("SIGTERM"),
        when=where(SigtermUnhandledDetail, lambda job: not (job.slurm or job.kubernetes)),
        references=(_SLURM,),
    ),
)
