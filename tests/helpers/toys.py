"""Toy checks and a toy registry, for tests of the engine that must not depend on real checks."""

from gpudoctor.engine.registry import Registry
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Finding,
    Measurement,
    Reads,
    Severity,
    SourceSpan,
    Threshold,
    Unavailable,
)


class Toy(Check):
    """A toy."""

    reads = frozenset({Reads.ENVIRONMENT})
    severity = Severity.WARNING

    def find(self, span=None, **more) -> Finding:
        evidence = (span,) if span else (Measurement(name="n", value=1, unit="1"),)
        return self.finding(f"{self.name} found", evidence=evidence, confidence=Confidence.CONFIRMED, **more)


class Well(Toy):
    """Never finds."""

    code = Code("DATA901")
    name = "always-well"
    thresholds = (Threshold(name="warning", default=0.2, unit="1", source="a test", meaning="above: warns"),)

    def examine(self, patient):
        return iter(())


class Sick(Toy):
    """Always finds."""

    code = Code("MEM901")
    name = "always-sick"

    def examine(self, patient):
        yield self.find(SourceSpan(path="src/train.py", line=3, text="x"))


class Bad(Toy):
    """Always an error."""

    code = Code("MEM902")
    name = "always-bad"
    severity = Severity.ERROR

    def examine(self, patient):
        yield self.find()


class Blind(Toy):
    """Lacks a sign."""

    code = Code("GPU901")
    name = "always-blind"

    def examine(self, patient):
        raise Unavailable("no NVIDIA GPU on this machine")
        yield


class Broken(Toy):
    """Crashes."""

    code = Code("OBS901")
    name = "always-broken"

    def examine(self, patient):
        yield self.find()
        raise ZeroDivisionError("division by zero")


def toy_registry(*checks: type[Check]) -> Registry:
    chosen = checks or (Well, Sick, Blind)
    return Registry(checks={check.code: check for check in sorted(chosen, key=lambda c: c.code)}, rules={})
