import pytest
from recordings import make_process, make_recording, make_steps, record
from scripts import script_patient

from gpudoctor.model import Severity
from gpudoctor.testing import examine, make_patient, prescribe
from gpudoctor_checks.data.same_seed import SameSeed
from gpudoctor_rules.data.advice import ADVICE

PROGRAM = """
    import os, random, time
    import numpy as np
    import torch
    from numpy.random import default_rng
    from torch.utils.data import DataLoader, Dataset, get_worker_info

    class Waves(Dataset):
        def __init__(self, size):
            self.size = size
            {init}

        def __len__(self):
            return self.size

        def noise(self):
            return {noise}

        def __getitem__(self, index):
            {first}
            return torch.ones(8) * index + {draw}, index % 3

    SEED = 11

    def start(worker):
        {start}

    model = torch.nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Waves(400), batch_size=8, {loader})
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
PARTS = {
    "init": "self.numbers = np.random.default_rng(3)", "noise": "0", "first": "pass", "draw": "self.numbers.normal()",
    "start": "pass", "loader": "num_workers=4, shuffle=True",
}  # fmt: skip
STARTED = {
    "init": "pass",
    "draw": "np.random.rand()",
    "loader": "num_workers=4, shuffle=True, worker_init_fn=start",
}


def look(**parts):
    patient = script_patient(PROGRAM.format(**{**PARTS, **parts}))
    return [(item, prescribe(ADVICE, item, make_patient())) for item in examine(SameSeed, patient)]


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"init": "self.numbers = default_rng()"},
        {"init": "self.numbers = np.random.RandomState(size)", "draw": "self.numbers.rand()"},
        {"init": "self.numbers = random.Random(1)", "draw": "self.noise()", "noise": "self.numbers.random()"},
        {"loader": "num_workers=2, persistent_workers=True"},
    ],
)
def test_sick_each_worker_has_a_copy_of_the_generator(parts):
    [(finding, [remedy])] = look(**parts)
    assert (
        finding.severity is Severity.WARNING and finding.cost.breaks
    )  # the result is worse, nothing is slower
    assert "self.numbers" in finding.message and "workers of loader" in finding.message
    assert "torch.initial_seed()" in " ".join(remedy.steps)


@pytest.mark.parametrize(
    "parts",
    [
        {"loader": "num_workers=0"},
        {"loader": "num_workers=1"},
        {"loader": "num_workers=int(os.environ['N'])"},
        {"loader": "num_workers=4, worker_init_fn=start"},
        {"loader": "num_workers=4, **options"},
        {"draw": "0"},
        {"init": "self.order = np.random.default_rng(3).permutation(size)", "draw": "self.order[index]"},
        {"first": "self.numbers = np.random.default_rng([3, index])"},
        {"first": "self.numbers.seed(index)", "init": "self.numbers = random.Random()"},
        {"first": "info = get_worker_info()"},
        {"init": "self.numbers = np.random", "draw": "self.numbers.rand()"},
        {
            "init": "self.numbers = None",
            "first": "self.numbers = self.numbers or np.random.default_rng(os.getpid())",
        },
    ],
)
def test_healthy_generators(parts):
    assert look(**parts) == []


@pytest.mark.parametrize(
    ("start", "draw"),
    [
        ("np.random.seed(11)", "np.random.rand()"),
        ("np.random.seed(SEED)", "np.random.uniform(0, 1)"),
        ("torch.set_num_threads(1); random.seed(SEED + 1)", "random.random()"),
    ],
)
def test_sick_a_start_that_seeds_all_workers_alike(start, draw):
    [(finding, [remedy])] = look(**{**STARTED, "start": start, "draw": draw})
    assert "worker_init_fn seeds each of the 4 workers with" in finding.message
    assert "torch.initial_seed()" in remedy.steps[0]


@pytest.mark.parametrize(
    ("start", "draw"),
    [
        ("np.random.seed(SEED + worker)", "np.random.rand()"),
        ("np.random.seed(torch.initial_seed() % 2**32)", "np.random.rand()"),
        ("seed = torch.initial_seed() % 2**32; np.random.seed(seed)", "np.random.rand()"),
        ("np.random.seed(int(time.time()))", "np.random.rand()"),
        ("np.random.seed(SEED)", "0"),
        ("np.random.seed(SEED)", "random.random()"),
        ("np.random.seed()", "np.random.rand()"),
        ("np.random.seed(None)", "np.random.rand()"),
    ],
)
def test_healthy_starts(start, draw):
    assert look(**{**STARTED, "start": start, "draw": draw}) == []


def test_healthy_a_lambda_with_the_workers_number():
    given = {**STARTED, "loader": "num_workers=4, worker_init_fn=lambda worker: np.random.seed(worker)"}
    assert look(**given) == []
    given["loader"] = "num_workers=4, worker_init_fn=lambda _: np.random.seed(0)"
    assert len(look(**given)) == 1


GIVEN_BACK = """
    def sets(options):
        train = {made}
        return train, options
    rows, _ = sets(3)
    loader = DataLoader(rows,"""


@pytest.mark.parametrize(("made", "said"), [("Waves(400)", 1), ("torch.load('rows.pt')", 0)])
def test_a_set_that_a_function_gives_back_beside_another_thing(made, said):
    text = PROGRAM.format(**{**PARTS, **STARTED, "start": "np.random.seed(11)"})
    text = text.replace("    loader = DataLoader(Waves(400),", GIVEN_BACK.format(made=made))
    assert "_ = sets(3)" in text
    assert len(examine(SameSeed, script_patient(text))) == said


def counted(workers):
    """The source leaves the number of workers open; a recording tells it."""
    text = PROGRAM.format(init="pass", noise="0", first="pass", draw="np.random.rand()", start="np.random.seed(7)",
                          loader="num_workers=os.cpu_count(), worker_init_fn=start")  # fmt: skip
    line = next(n for n, row in enumerate(text.splitlines(), 1) if "DataLoader(Waves" in row)
    source = script_patient(text).source
    path = source.scripts[0].path
    made = record("loader", 1.0, id=1, workers=workers, role="training", path=path, line=line)
    recording = make_recording(make_process(make_steps(50), records=[made]))
    return examine(SameSeed, make_patient(source=source, recording=recording))


def test_sick_workers_that_a_recording_counts():
    [finding] = counted(4)
    assert "each of the 4 workers" in finding.message


def test_healthy_one_worker_by_the_recording():
    assert counted(1) == [] and counted(0) == []


SHARED = """
    import random
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Tones(Dataset):
        def __init__(self, names, noisy):
            self.names, self.noisy = names, noisy

        def __len__(self):
            return len(self.names)

        def __getitem__(self, index):
            return torch.ones(8) * index + random.random(), index % 3

    def seed_worker(worker):
        random.seed(7)

    def make_loader(names, noisy=False):
        return DataLoader(Tones(names, noisy), batch_size=8, num_workers=3, worker_init_fn=seed_worker)

    class Runner:
        def __init__(self, first, second):
            self.first, self.second = first, second
            self.model = torch.nn.Linear(8, 3)
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

        def go(self):
            for x, y in self.{loop}:
                loss = torch.nn.functional.cross_entropy(self.model(x), y)
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
            with torch.no_grad():
                for x, y in self.{other}:
                    self.model(x)

    {one} = make_loader(range(400), noisy=True)
    {two} = make_loader(range(40))
    Runner({one}, {two}).go()
"""


def test_sick_one_function_makes_the_loaders_of_training_and_evaluation():
    text = SHARED.format(loop="first", other="second", one="train_loader", two="valid_loader")
    [finding] = examine(SameSeed, script_patient(text))
    assert "each of the 3 workers" in finding.message


def test_healthy_one_function_makes_loaders_that_only_evaluate():
    text = SHARED.replace("loss.backward()", "pass").replace("self.optimizer.step()", "pass")
    text = text.format(loop="first", other="second", one="test_loader", two="valid_loader")
    assert examine(SameSeed, script_patient(text)) == []


STARTS = """
    import functools, os, random
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, Dataset

    def seed_all(seed=None, fast=True):
        np.random.seed(seed)
        random.seed(seed)

    def window(row, width):
        begin = {random}
        return row[begin : begin + width]

    class Crop:
        def __init__(self, width):
            self.width = width
        def __call__(self, row):
            return window(row, self.width)

    class Rows(Dataset):
        def __init__(self, table, change=None):
            self.table, self.change = table, change
        def __len__(self):
            return len(self.table)
        def __getitem__(self, index):
            return self.change(self.table[index]), index % 3

    class Starter:
        def __init__(self, seed):
            self.seed = seed
        def __call__(self, worker):
            np.random.seed(self.seed{more})
        def begin(self, worker):
            np.random.seed(self.seed{more})

    def seeded(seed, worker):
        np.random.seed(seed{more})

    class Trainer:
        seed = 3
        def init_worker(self, worker):
            seed_all(self.seed{more})

        def fit(self, options):
            def start(worker):
                base = int(options.seed)
                np.random.seed(base{more})

            change = Crop(4)
            rows = Rows(torch.load("rows.pt"), change)
            loader = DataLoader(rows, batch_size=8, num_workers=4, worker_init_fn={start})
            model = torch.nn.Linear(4, 3)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                loss = torch.nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
"""
WAYS = [
    "start", "self.init_worker", "Starter(7)", "Starter(7).begin", "functools.partial(seeded, options.seed)",
    "lambda worker: seed_all(5{more})", "lambda worker: seed_all(seed=options.seed{more}, fast=False)",
    "functools.partial(lambda worker, base: np.random.seed(base{more}), base=3)",
]  # fmt: skip


def started(start, more="", random="np.random.randint(8)"):
    return examine(
        SameSeed, script_patient(STARTS.format(start=start.replace("{more}", more), more=more, random=random))
    )


@pytest.mark.parametrize("start", WAYS)
def test_sick_however_the_start_is_written(start):
    [finding] = started(start)
    assert "worker_init_fn seeds each of the 4 workers with" in finding.message
    assert any("np.random.randint(8)" in item.text for item in finding.evidence)


@pytest.mark.parametrize("start", WAYS)
def test_healthy_with_the_workers_number(start):
    assert started(start, more=" + worker") == []


@pytest.mark.parametrize(
    ("start", "random"),
    [
        ("start", "int(torch.randint(8, (1,)))"),  # torch is seeded apart in each worker
        ("lambda worker: seed_all()", "np.random.randint(8)"),
        ("lambda worker: seed_all(None)", "np.random.randint(8)"),
        ("lambda worker: np.random.seed(torch.initial_seed() % 2**32)", "np.random.randint(8)"),
        ("lambda worker: np.random.seed(os.getpid())", "np.random.randint(8)"),
        ("lambda worker: torch.manual_seed(3)", "np.random.randint(8)"),
        ("start", "3"),
    ],
)
def test_healthy_starts_that_leave_the_draws_apart(start, random):
    assert started(start, random=random) == []


def test_sick_torch_seeded_alike():
    [finding] = started("lambda worker: torch.manual_seed(3)", random="int(torch.randint(8, (1,)))")
    assert "with 3: all draw the same random numbers" in finding.message


TRANSFORMED = """
    import random
    import torch
    from torch.utils.data import DataLoader
    from torchvision import datasets, transforms

    def start(worker):
        {seed}

    class TwoCrops:
        def __init__(self, change):
            self.change = change
        def __call__(self, image):
            return [self.change(image), self.change(image)]

    def loader_of(name):
        change = transforms.Compose([{transform}, transforms.ToTensor()])
        if name == "cifar":
            images = datasets.CIFAR10("data", transform=TwoCrops(change))
        else:
            images = datasets.ImageFolder(name, transform=TwoCrops(change))
        return DataLoader(images, batch_size=8, num_workers=4, shuffle=True, worker_init_fn=start)

    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader_of("photos"):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("seed", "transform", "found"),
    [
        ("torch.manual_seed(42)", "transforms.RandomResizedCrop(16)", 1),
        ("torch.manual_seed(42)", "transforms.v2.ColorJitter(0.4)", 1),
        ("torch.manual_seed(42 + worker)", "transforms.RandomResizedCrop(16)", 0),
        ("torch.manual_seed(42)", "transforms.CenterCrop(16)", 0),
        ("random.seed(42)", "transforms.RandomResizedCrop(16)", 0),  # they draw from torch
    ],
)
def test_transforms_of_a_library_draw_from_torch(seed, transform, found):
    text = TRANSFORMED.format(seed=seed, transform=transform)
    assert len(examine(SameSeed, script_patient(text))) == found
