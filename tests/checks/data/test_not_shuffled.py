import pytest
from recordings import make_process, make_recording, make_steps, record
from scripts import script_patient

from gpudoctor.model import Applicability, Confidence, Severity
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.data.not_shuffled import NotShuffled
from gpudoctor_rules.data.not_shuffled import NotShuffledRule

LOOP = """
    import torch
    from torch.utils.data import DataLoader, Subset, RandomSampler, random_split
    from torchvision import datasets
    model = torch.nn.Linear(8, 4)
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pictures = {dataset}
    {before}
    loader = DataLoader(pictures, batch_size=32{more})
    for epoch in range(3):
        for x, y in loader:
            loss = {loss}
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
"""
FOLDER = "datasets.ImageFolder('pets')"


def patient(dataset=FOLDER, before="pass", more="", loss="criterion(model(x), y)", recording=None):
    text = LOOP.format(dataset=dataset, before=before, more=more, loss=loss)
    return script_patient(text, recording=recording)


@pytest.mark.parametrize("more", ["", ", shuffle=False", ", sampler=None, num_workers=2"])
def test_sick_a_folder_by_class(more):
    sick = patient(more=more)
    [finding] = examine(NotShuffled, sick)
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.SUSPECTED)
    assert "class by class" in finding.message and finding.span.text.startswith("loader = DataLoader(")
    [remedy] = prescribe(NotShuffledRule, finding, sick)
    assert remedy.applicability is Applicability.UNSAFE
    assert remedy.edits[0].set == (("shuffle", "True"),)


def test_sick_a_mixed_set_is_worth_a_note():
    [finding] = examine(NotShuffled, patient("datasets.CIFAR10('.', train=True, download=False)"))
    assert finding.severity is Severity.NOTE and finding.cost.breaks is None


@pytest.mark.parametrize(
    "case",
    [
        {"more": ", shuffle=True"},
        {"more": ", sampler=RandomSampler(pictures)"},
        {"more": ", **options"},
        {"more": ", shuffle=mixed()"},
        {"before": "pictures, rest = random_split(pictures, [90, 10])"},
        {"before": "pictures = Subset(pictures, order)"},
        {"before": "torch.manual_seed(0); random.shuffle(pictures.samples)"},
        {"dataset": "datasets.VOCDetection('.')"},
        {"dataset": "Pets('.')"},
        {"dataset": "torch.utils.data.TensorDataset(torch.randn(9, 8), torch.arange(9))"},
        {"loss": "torch.nn.functional.mse_loss(model(x), x)"},
    ],
)
def test_healthy_scripts(case):
    assert examine(NotShuffled, patient(**case)) == []


def test_healthy_an_evaluation():
    text = """
        import torch
        from torchvision import datasets
        loader = torch.utils.data.DataLoader(datasets.ImageFolder('pets'))
        model = torch.nn.Linear(8, 4)
        model.eval()
        with torch.no_grad():
            for x, y in loader:
                total = torch.nn.functional.cross_entropy(model(x), y)
    """
    assert examine(NotShuffled, script_patient(text)) == []


BOTH = """
    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder
    model = torch.nn.Linear(8, 4)

    def epoch(loader, optimizer=None):
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(model(x), y)
            if optimizer is not None:
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()

    {first} = DataLoader(ImageFolder("some"), batch_size=32{more})
    {second} = DataLoader(ImageFolder("more"), batch_size=32)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        epoch({first}, sgd)
        epoch({second})
"""


@pytest.mark.parametrize(
    ("first", "second", "more", "found"),
    [
        ("train_loader", "test_loader", ", shuffle=True", []),
        ("feed", "held", ", shuffle=True", []),
        ("train_loader", "test_loader", "", ["train_loader"]),
    ],
)
def test_healthy_a_function_that_trains_and_evaluates(first, second, more, found):
    text = BOTH.format(first=first, second=second, more=more)
    seen = examine(NotShuffled, script_patient(text))
    assert [item.message.partition(" ")[0] for item in seen] == found


@pytest.mark.parametrize("dataset", ["datasets.CIFAR10('.', train=False)", "datasets.Food101('.', 'test')"])
def test_healthy_a_part_that_is_held_out(dataset):
    assert examine(NotShuffled, patient(dataset)) == []


def recorded(labels, order="sequential", losses=48):
    single = sum(often for label, often in labels if label >= 0)
    seen = record("numeric", 3.0, kind="labels", step=99, losses=losses, found=single, elements=losses * 16,
                  classes=4, loader=0, labels=labels, path="/job/train.py", line=16)  # fmt: skip
    loader = record("loader", 1.0, id=0, role="training", order=order, path="/job/train.py", line=10)
    return make_recording(make_process(make_steps(100), records=[loader, seen]))


def test_sick_recorded_batches_hold_one_class_each():
    sick = make_patient(recording=recorded([[-1, 4], [0, 22], [1, 22]]))
    [finding] = examine(NotShuffled, sick)
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.CONFIRMED)
    assert "44 batches" in finding.message and finding.cost.breaks
    assert prescribe(NotShuffledRule, finding, sick)


@pytest.mark.parametrize(
    "seen",
    [
        recorded([[-1, 48]]),
        recorded([[-1, 24], [0, 12], [1, 12]]),
        recorded([[-1, 4], [0, 43], [1, 1]]),
        recorded([[0, 48]]),
        recorded([[0, 24], [1, 24]], order=None),
        recorded([[0, 6], [1, 6]], losses=12),
    ],
)
def test_healthy_recordings(seen):
    """Mixed; half mixed; a rare class; one class; somebody's own sampler; few."""
    assert examine(NotShuffled, make_patient(recording=seen)) == []


def test_a_recording_decides_what_the_source_suspects():
    [finding] = examine(NotShuffled, patient(recording=recorded([[0, 24], [1, 24]])))
    assert finding.confidence is Confidence.CONFIRMED and finding.span.text.startswith("loader = DataLoader(")
    assert examine(NotShuffled, patient(recording=recorded([[-1, 48]]))) == []
