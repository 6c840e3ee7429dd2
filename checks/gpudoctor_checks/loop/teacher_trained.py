"""LOOP011: a distillation teacher runs with gradients."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import Run, spots
from gpudoctor.analysis.source.control_flow import steady
from gpudoctor.analysis.source.optimizers import optimizers
from gpudoctor.analysis.source.syntax import without_comments
from gpudoctor.analysis.source.train_eval_mode import forwards, model_of
from gpudoctor.lang import say
from gpudoctor.model import Facts, Finding, Patient, Reads, Severity
from gpudoctor.model.signs.source import Event, Source
from gpudoctor_checks.run_check import RunCheck
from gpudoctor_checks.thresholds import FORWARDS

_TEACHER = re.compile(r"teacher", re.IGNORECASE)


class TeacherTrained(RunCheck):
    """A distillation teacher runs as if it were trained.

    What it finds:
        In a training loop, the forward of a model called teacher that builds a graph. It has no
        `torch.no_grad()` around it, and its parameters are neither frozen nor trained.
    Why it hurts:
        The teacher is often the larger model, and its graph keeps all activations for the whole step.
        `backward()` computes unused gradients through it. This easily costs half of the memory and a third of
        the time.
    How it knows:
        By the name `teacher` of what is called in the loop. By `no_grad` blocks and decorators, `requires_grad`
        switches and freezing helpers. From a recording: a second model that runs with gradients but is in no
        optimizer. From the source alone it is a note.
    False alarms:
        A teacher that an optimizer trains is not a finding (mutual learning, or a rebuilt head that is
        optimized). A model that is not called a teacher and keeps its first weights was forgotten: NUM008
        reports it.
    Remedies:
        Put `with torch.no_grad():` around the teacher's forward pass.
    References:
        - https://docs.pytorch.org/tutorials/beginner/knowledge_distillation_tutorial.html
    """

    least_steps = 1
    code = "LOOP011"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    thresholds = (FORWARDS,)

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        readings = of_run.teachers(run.lead.process, self.limit("forwards"))
        if not readings:
            yield from suspected
            return
        last = readings[-1]
        where, steps = of_run.place_of(last), int(last.get("steps") or 0)
        yield confirmed(
            self,
            suspected,
            say(
                "{last} built a graph in {steps} training steps, and no optimizer has its parameters. It keeps "
                "activations that are never used.",
                last=last.get("model") or say("A second model"),
                steps=steps,
            ),
            evidence=(*spots(patient, where), run.measured("forward_passes", steps, "{steps}")),
            severity=Severity.WARNING,
            detail=Facts(teacher=str(last.get("model") or "")),
        )

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        """What is called teacher and runs with gradients, where nothing freezes or trains it."""
        source = patient.source
        said: set[ast.AST] = set()
        for _, loop in source.training_loops:
            for event in forwards(loop):
                name = model_of(event.call) if event.call is not None else ""
                last = name.rpartition(".")[2]
                if event.no_grad or event.node in said or not steady(event) or not _TEACHER.search(last):
                    continue
                said.add(event.node)
                if ".detach()" not in event.span.text and not _held(source, last) and not _owned(source, event, name):
                    yield self._graph(event, name)

    def _graph(self, event: Event, name: str) -> Finding:
        return self.finding(
            say(
                "{use} runs with gradients on each training step, without torch.no_grad(), and its parameters are not "
                "frozen.",
                use=name,
            ),
            evidence=(event.span, *event.via),
            severity=Severity.NOTE,
            detail=Facts(teacher=name),
        )


def _held(source: Source, last: str) -> bool:
    """Whether something freezes the teacher, or an optimizer is given its parameters."""
    word = rf"\b{re.escape(last)}\b"
    if any(re.search(word, root) for held in optimizers(source) for root in held.roots):
        return True
    frozen = re.compile(
        rf"{word}.{{0,60}}(?:requires_grad|freeze|\n.*requires_grad)|freeze.{{0,60}}{word}", re.IGNORECASE
    )
    return any(last in script.text and frozen.search(without_comments(script)) for script in source.scripts)


def _owned(source: Source, event: Event, name: str) -> bool:
    """Whether the teacher is a part of a module, whose parameters an optimizer may hold as a whole."""
    owner = event.call.function.partition(".")[0] if event.call is not None and name.startswith("self.") else ""
    classes = (script.classes.get(owner) for script in source.scripts)
    return any(base.endswith("Module") for info in classes if info is not None for base in info.bases)
