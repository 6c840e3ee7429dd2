from recordings import make_process, make_recording, make_steps, record

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.training.parameters_untrained import ParametersUntrained
from gpudoctor_rules.advice import advice


def seen(steps=40, missing=(), **fields):
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
    [found] = seen(**GROWN, new_inputs=30)
    assert found.severity is Severity.ERROR and found.span.line == 4
    assert (
        "to 132 rows, and embed_tokens and lm_head" in found.message and "9 batches had 30 new tokens" in found.message
    )


def test_healthy_new_tokens_that_no_batch_has():
    """A padding token: its row is never used."""
    assert seen(**GROWN, new_inputs=0) == []


def test_healthy_new_rows_that_are_trained():
    assert seen(grown=[128, 132], frozen_tables=[], batches=9, new_inputs=30) == []


def test_sick_an_adapter_that_was_loaded_and_replaced():
    [found] = seen(loaded=8, loaded_kept=0, adapter=50, adapter_trained=50)
    assert found.severity is Severity.ERROR and "An adapter of 8 tensors was loaded" in found.message
    assert seen(loaded=8, loaded_kept=8, adapter=50, adapter_trained=50) == []


def test_sick_a_frozen_adapter():
    [found] = seen(adapter=50, adapter_trained=0)
    assert found.severity is Severity.WARNING and "none of its 50 elements" in found.message
    assert seen(adapter=50, adapter_trained=25) == []  # a reference beside it
    assert len(seen(adapter=50, trained=0, adapter_held=50)) == 1 and seen(adapter=50, trained=0) == []


def test_sick_a_base_that_is_trained_under_its_adapter():
    [found] = seen(adapter=50, adapter_trained=50, base_trained=800)
    assert found.severity is Severity.WARNING and "800 elements of the base" in found.message


def test_sick_unfrozen_after_the_optimizer_was_made():
    [found] = seen(left=["body.weight"])
    assert found.severity is Severity.ERROR and "body.weight get gradients" in found.message and found.span.line == 9
    assert seen(left=["body.weight"], missing=["body.weight"]) == []  # from the start: NUM008's


def test_healthy_a_backbone_that_is_frozen_on_purpose():
    assert seen(frozen_tables=["embed_tokens"]) == []
