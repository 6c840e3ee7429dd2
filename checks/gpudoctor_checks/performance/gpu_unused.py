"""PERF009 gpu-unused."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed, suspicions
from gpudoctor.analysis.run.steady_run import judged, processes, recorded, spots
from gpudoctor.analysis.source.device_tensors import Target, training_target
from gpudoctor.analysis.source.device_transfers import moves_anything
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.signs.gpu import Gpu
from gpudoctor.model.signs.source import Source
from gpudoctor.text import count

_HELPERS = frozenset(
    {"prepare", "DataParallel", "DistributedDataParallel", "FullyShardedDataParallel", "fully_shard",
     "initialize", "set_default_device", "set_default_tensor_type", "dispatch_model", "distribute_module",
     "place_model", "to_empty", "data_parallel", "send_to_device", "move_data_to_device",
     "Trainer", "default_device"}
)  # fmt: skip


class GpuUnused(Check):
    """The training runs on the CPU, although the machine has a GPU.

    What it finds:
        - A training loop on a machine with a GPU, in a program that names no device, or only the CPU.
        - A CUDA device that is chosen and then never used.
    Why it hurts:
        PyTorch uses the CPU by default, without a message. A matrix product is 20 to 200 times slower there.
    How it knows:
        From the source, with imports and command-line defaults followed, and the GPUs that the driver reports
        for this machine.
    False alarms:
        A model too small to gain from a GPU, or a run intended for the CPU. Programs that leave the device to
        Accelerate, Lightning, DeepSpeed or the Trainer are not reported. Neither are devices that only a run
        decides.
    Remedies:
        Choose the device once, and move the model and every batch to it.
    References:
        - https://pytorch.org/docs/stable/notes/cuda.html#device-agnostic-code
    """

    code = "PERF009"
    reads = frozenset({Reads.ENVIRONMENT, Reads.SOURCE, Reads.RECORDING})
    thresholds = (
        Threshold(
            "used",
            0.05,
            "1",
            "an idle card shows 0 to 2 % now and then",
            "A card that was busier than this was in use.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = judged(patient)
        suspected = suspicions(lambda: self._suspected(patient), run, refuted=_refuted(patient))
        if run is None or of_run.on_gpu(run.lead.process) is None:
            yield from suspected
            return
        gpus = of_run.gpus_here(run.recording)
        if of_run.on_gpu(run.lead.process) or not gpus:
            return
        busy = [gpu.utilization for gpu in of_run.run_numbers(run.recording).gpus if gpu.utilization is not None]
        if busy and max(busy) > self.limit("used"):
            return
        yield confirmed(
            self,
            suspected,
            say("The training ran on the CPU, and {gpus} stayed idle.", gpus=count(gpus, "GPU")),
            evidence=(*spots(patient, of_run.model_place(run.lead.process)), run.measured("gpus", gpus, "{gpus}")),
            severity=Severity.WARNING,
        )

    def _suspected(self, patient: Patient) -> Iterator[Finding]:
        source = patient.source
        if not source.trains or source.unread or any(loop.engine for _, loop in source.training_loops):
            return
        target = training_target(source)
        helped = any(call.method in _HELPERS for script in source.scripts for call in script.calls)
        if target is Target.OTHER or helped:
            return
        if target in (Target.CUDA, Target.MAYBE):
            yield from self._never_used(source, patient)
            return
        yield from self._on_cpu(source, target, patient.gpus)

    def _on_cpu(self, source: Source, target: Target, gpus: tuple[Gpu, ...]) -> Iterator[Finding]:
        script, loop = next(source.training_loops)
        named = say("the device is the CPU")
        unnamed = say("the program never names a device, so everything stays on the CPU")
        yield self.finding(
            say("{gpus} here, and {reason}.", gpus=_here(gpus), reason=named if target is Target.CPU else unnamed),
            evidence=(loop.span, _gpus(gpus)),
            subject=script.path,
        )

    def _never_used(self, source: Source, patient: Patient) -> Iterator[Finding]:
        """A device variable that nothing is moved to."""
        placed = ("device", "device_map", "map_location", "devices")
        calls = [call for script in source.scripts for call in script.calls]
        if moves_anything(source) or any(
            name in call.keywords and call.name != "torch.device" for call in calls for name in placed
        ):
            return
        chosen = next((call for call in calls if call.name == "torch.device"), None)
        if chosen is None:
            return
        gpus = patient.gpus
        _, loop = next(source.training_loops)
        yield self.finding(
            say(
                "{gpus} here and line {line} chooses a device, but neither the model nor a batch "
                "is ever moved to it. The training runs on the CPU.",
                gpus=_here(gpus),
                line=chosen.span.line,
            ),
            evidence=(chosen.span, loop.span, _gpus(gpus)),
            subject=chosen.span.path,
        )


def _gpus(gpus: tuple[Gpu, ...]) -> Measurement:
    return Measurement("gpus", len(gpus), "{gpus}", reproduce="nvidia-smi -L")


def _refuted(patient: Patient) -> bool:
    """Whether a recorded run, of any length, was on a GPU after all, or had none."""
    recording = recorded(patient)
    seen = [of_run.on_gpu(process) for process in processes(patient)]
    return recording is not None and (True in seen or (False in seen and not of_run.gpus_here(recording)))


def _here(gpus: tuple[Gpu, ...]) -> str:
    return (
        say("1 GPU ({gpu}) is", gpu=gpus[0].name)
        if len(gpus) == 1
        else say("{gpus} GPUs ({gpu}) are", gpus=len(gpus), gpu=gpus[0].name)
    )
