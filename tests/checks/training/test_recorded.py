"""Checks of what is trained, on recordings."""

from recordings import make_process, make_recording, make_steps, record

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.training.gradients_misscaled import GradientsMisscaled
from gpudoctor_checks.training.parameters_untrained import ParametersUntrained
from gpudoctor_checks.training.updates_lost import UpdatesLost
from gpudoctor_rules.advice import advice


def seen(optimizer="SGD", clips=None, norm=1.0, loader=True, **fields):
    passes = {"looks": 10, "micro": 4, "path": "/job/train.py", "line": 7}
    records = [
        *([record("loader", id=1)] if loader else []),
        record("optimizer", name=optimizer, parameters=100, path="/job/train.py", line=9),
        record("gradients", step=32, **{**passes, **fields}),
        *([record("clips", step=32, clips=10, scaled=0, limit=clips)] if clips else []),
    ]
    steps = make_steps(60, grad_norm=lambda step: norm)
    patient = make_patient(recording=make_recording(make_process(steps, records=records)))
    found = examine(GradientsMisscaled, patient)
    assert all(prescribe(advice("training"), item, patient) for item in found)
    return found


def test_sick_micro_batches_that_nobody_divides():
    [found] = seen(undivided=10)
    assert found.severity is Severity.WARNING and found.span.line == 7
    assert "a weight of 1." in found.message and "4 times that of their mean" in found.message
    for less in ({"optimizer": "AdamW"}, {"loader": False}):
        [found] = seen(**less, undivided=10)
        assert found.severity is Severity.NOTE


def test_sick_divided_twice():
    [found] = seen(twice=10)
    assert "0.0625" in found.message and "0.25 times" in found.message


def test_sick_gradients_that_are_cleared_before_each_micro_batch():
    [found] = seen(cleared=10, twice=10, optimizer="AdamW")
    assert found.severity is Severity.WARNING and "uses the last one only" in found.message


def test_healthy_one_step_of_ten():
    assert seen(undivided=1, twice=1, again=1, cleared=1) == []


def test_healthy_too_few_looks():
    assert seen(looks=2, undivided=2) == []


def test_sick_the_same_loss_twice():
    [found] = seen(again=10, micro=1)
    assert "runs backward twice in 10 of 10 steps" in found.message


def test_sick_means_over_uneven_micro_batches():
    [found] = seen(uneven=7.0)
    assert found.severity is Severity.NOTE and "7.0 times the targets" in found.message
    assert seen(uneven=1.2) == []


def test_sick_clipped_in_every_step():
    [found] = seen(clips=0.1, norm=5.0)
    assert found.severity is Severity.NOTE and "clipped at 0.1 in 100 % of the steps" in found.message
    assert seen(clips=0.1, norm=0.5) == []  # above the limit, as it is meant
    assert seen(clips=10.0, norm=5.0) == []


def clipped(norm, looked=3.0, clips=True):
    """What is said of a run whose clips returned this norm, and whose gradients were looked at."""
    records = [
        *([record("clips", step=32, clips=10, scaled=0, limit=1.0, path="/job/train.py", line=8)] if clips else []),
        *(record("numeric", kind="norms", step=step, norm=looked, path="", line=0) for step in (1, 2, 4)),
        record("gradients", step=32, looks=10, micro=1),
    ]
    steps = make_steps(60, grad_norm=lambda step: norm)
    patient = make_patient(recording=make_recording(make_process(steps, records=records)))
    found = examine(GradientsMisscaled, patient)
    assert all(prescribe(advice("training"), item, patient) for item in found)
    return found


def test_sick_clips_that_are_given_no_gradient():
    [found] = clipped(0.0)
    assert found.severity is Severity.WARNING and found.span.line == 8
    assert "each returned a norm of 0, while the gradients have one of 3" in found.message


def test_healthy_clips_of_gradients():
    assert clipped(0.7) == clipped(0.0, looked=0.0) == clipped(0.0, clips=False) == []


def trained(steps=40, missing=(), **fields):
    """What is said of a run whose parameters are so."""
    records = [
        record("optimizer", name="AdamW", parameters=100, missing=list(missing), path="/job/train.py", line=9),
        record("parameters", step=32, path="/job/train.py", line=4, **{"total": 1000, "trained": 100, **fields}),
    ]
    patient = make_patient(recording=make_recording(make_process(make_steps(steps), records=records)))
    found = examine(ParametersUntrained, patient)
    assert all(prescribe(advice("training"), item, patient) for item in found)
    return found


GROWN = {"grown": [128, 132], "frozen_tables": ["model.embed_tokens", "lm_head"], "batches": 9}


def test_sick_new_tokens_whose_rows_are_frozen():
    [found] = trained(**GROWN, new_inputs=30)
    assert found.severity is Severity.ERROR and found.span.line == 4
    assert (
        "to 132 rows, and embed_tokens and lm_head" in found.message and "9 batches had 30 new tokens" in found.message
    )


def test_sick_head_that_is_frozen_beside_an_adapter():
    head = ["base_model.model.classifier.weight", "base_model.model.classifier.bias"]
    adapter = {"adapter": 8, "adapter_held": 8, "head": head}
    [found] = trained(**adapter, adapter_trained=8)
    assert found.severity is Severity.WARNING and "frozen: classifier." in found.message
    [other] = trained(**adapter, adapter_trained=0)  # nothing is trained: said of the adapter
    assert "The adapter is frozen" in other.message


def test_healthy_new_tokens_that_no_batch_has():
    """A padding token: its row is never used."""
    assert trained(**GROWN, new_inputs=0) == []


def test_healthy_new_rows_that_are_trained():
    assert trained(grown=[128, 132], frozen_tables=[], batches=9, new_inputs=30) == []


def test_sick_an_adapter_that_was_loaded_and_replaced():
    [found] = trained(loaded=8, loaded_kept=0, adapter=50, adapter_trained=50)
    assert found.severity is Severity.ERROR and "An adapter of 8 tensors was loaded" in found.message
    assert trained(loaded=8, loaded_kept=8, adapter=50, adapter_trained=50) == []


def test_sick_a_frozen_adapter():
    [found] = trained(adapter=50, adapter_trained=0)
    assert found.severity is Severity.WARNING and "none of its 50 elements" in found.message
    assert trained(adapter=50, adapter_trained=25) == []  # a reference beside it
    assert len(trained(adapter=50, trained=0, adapter_held=50)) == 1 and trained(adapter=50, trained=0) == []


def test_sick_a_base_that_is_trained_under_its_adapter():
    [found] = trained(adapter=50, adapter_trained=50, base_trained=800)
    assert found.severity is Severity.WARNING and "800 elements of the base" in found.message


def test_sick_unfrozen_after_the_optimizer_was_made():
    [found] = trained(left=["body.weight"])
    assert found.severity is Severity.ERROR and "body.weight get gradients" in found.message and found.span.line == 9
    assert trained(left=["body.weight"], missing=["body.weight"]) == []  # from the start: NUM008's


def test_healthy_a_backbone_that_is_frozen_on_purpose():
    assert trained(frozen_tables=["embed_tokens"]) == []


def updated(steps=400, **fields):
    records = [
        record("optimizer", name="AdamW", parameters=100, path="/job/train.py", line=9),
        record("numeric", kind="updates", step=steps - 1, ratio=1e-5, since=0, **fields),
    ]
    patient = make_patient(recording=make_recording(make_process(make_steps(steps), records=records)))
    found = examine(UpdatesLost, patient)
    assert all(prescribe(advice("training"), item, patient) for item in found)
    return found


def test_sick_most_updates_vanish():
    [found] = updated(stuck=0.7, until=390)
    assert found.severity is Severity.WARNING and found.span.line == 9
    assert "After 390 steps, 70 %" in found.message


def test_sick_nearly_all_vanish():
    [found] = updated(stuck=0.97, until=390)
    assert found.severity is Severity.ERROR and found.cost.breaks


def test_healthy_a_copy_in_float32_moves_the_weights_after_some_steps():
    assert updated(stuck=0.2, until=390) == []


def test_healthy_too_early_or_weights_in_float32():
    assert updated(stuck=0.98, until=12) == updated() == []
