import pytest
from programs import argument, plain, read_main

from gpudoctor.model.signs.source import Known, Unknown


@pytest.mark.parametrize(
    ("before", "expression", "expected"),
    [
        ("", "1 / 0", "?"),
        ("", "10 ** 10 ** 10", "?"),
        ("", "'Mid'.lower()", "mid"),
        ("a, *b, c = 1, 2, 3, 4", "c", 4),
        ("N = 4\nif flag(): N = 5", "N", "?"),
        ("N = 4\nif flag(): N = 4", "N", 4),
        ("if flag(): N = 4\nelse: raise ValueError", "N", 4),
        ("N = 4\nfor _ in range(3): N = 5", "N", "?"),
        ("N = 4\ntry:\n    N = read()\nexcept Exception:\n    N = 3", "N", "?"),
        ("", "4 if flag() else 8", "?"),
        ("import os", "os.environ.get('N', 4)", "?"),
        ("cfg = {'lr': 1e-3}", "cfg['lr']", 1e-3),
        ("cfg = {'lr': 1e-3}\ncfg['lr'] = 5", "cfg['lr']", 5),
        ("class C:\n    def __init__(self, n=2):\n        self.n = n\nc = C(7)", "c.n", 7),
        ("class C:\n    def __init__(self, n):\n        self.n = n\nc = C(7)\nd = C(8)", "c.n", "?"),
        ("def f(n):\n    return n + 1\nm = f(3)\nk = f(4)", "k", "?"),
        ("x = 0\ndef f():\n    global x\n    x = 3\nf()", "x", "?"),
    ],
)
def test_constant_expressions(before: str, expression: str, expected: object) -> None:
    value = plain(argument(read_main(f"{before}\nprobe({expression})\n")))
    assert value == expected
    assert type(value) is type(expected)


def test_a_value_carries_its_text_and_origin() -> None:
    value = argument(read_main("WORKERS = 4\nprobe(WORKERS)\n"))
    assert value == Known(value=4, origin="constant", text="WORKERS")
    assert argument(read_main("probe(read(1) + 2)\n")) == Unknown(text="read(1) + 2")


ARGPARSE = """
    import argparse
    def options():
        parser = argparse.ArgumentParser()
        group = parser.add_argument_group("data")
        group.add_argument("--num-workers", "-j", type=int, default=4)
        parser.add_argument("--lr", type=float, default="1e-3")
        parser.add_argument("--pin", action="store_true")
        parser.add_argument("--no-shuffle", dest="shuffle", action="store_false")
        parser.add_argument("--name", required=True)
        parser.add_argument("--betas", nargs=2, type=float, default=[0.9, 0.99])
        parser.add_argument("--device", default="cuda")
        parser.add_argument("--seed", type=int)
        parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
        parser.add_argument("data")
        parser.set_defaults(device="cpu")
        return parser
    def main():
        args = options().parse_args()
        probe(args.{name})
    main()
"""


@pytest.mark.parametrize(
    ("name", "expected", "words", "given"),
    [
        ("num_workers", 4, ["-j", "2", "path"], 2),
        ("num_workers", 4, ["--num-workers", "$N"], 4),
        ("pin", False, ["--pin"], True),
        ("shuffle", True, ["--no-shuffle"], False),
        ("name", "?", ["--name", "x"], "x"),
        ("betas", (0.9, 0.99), ["--betas", "0.8", "0.9"], (0.8, 0.9)),
        ("device", "cpu", ["--device", "cuda"], "cuda"),
    ],
)
def test_argparse(name: str, expected: object, words: list[str], given: object) -> None:
    text = ARGPARSE.replace("{name}", name)
    assert plain(argument(read_main(text))) == expected
    assert plain(argument(read_main(text, words))) == given


def test_argparse_origins() -> None:
    script = read_main(ARGPARSE.replace("{name}", "num_workers"))
    assert argument(script) == Known(value=4, origin="default of --num-workers", text="args.num_workers")
    assert script.arguments["num_workers"] == Known(value=4, origin="default of --num-workers", text="--num-workers")
    launched = read_main(ARGPARSE.replace("{name}", "num_workers"), ["-j", "9"])
    assert launched.arguments["num_workers"] == Known(value=9, origin="command line", text="--num-workers")


FILLED = """
    from dataclasses import dataclass
    from transformers import HfArgumentParser, TrainingArguments
    @dataclass
    class Config:
        n: int = 4
    def main():
        parser = HfArgumentParser((Config, TrainingArguments))
        config, training = parser.parse_args_into_dataclasses()
        probe(config.n)
    main()
"""


@pytest.mark.parametrize(("words", "expected"), [(["--n", "9"], 9), (None, 4)])
def test_a_dataclass_that_the_parser_of_transformers_fills(words: list[str] | None, expected: int) -> None:
    assert plain(argument(read_main(FILLED, words))) == expected


MNIST = """
    import argparse
    import torch
    from torch.utils.data import DataLoader
    def main(dataset):
        use_cuda = torch.cuda.is_available()
        kwargs = {"batch_size": 64}
        %s
        return DataLoader(dataset, **kwargs)
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pass", {"batch_size": 64}),
        ("kwargs.update({'num_workers': 4})", {"batch_size": 64, "num_workers": 4}),
        ("if use_cuda: kwargs.update({'num_workers': 4})", {"batch_size": 64, "num_workers": "?"}),
        ("kwargs = {**kwargs, 'num_workers': 2}", {"batch_size": 64, "num_workers": 2}),
    ],
)
def test_keyword_dicts(line: str, expected: dict[str, object]) -> None:
    [call] = read_main(MNIST % line).calls_to("torch.utils.data.DataLoader")
    assert {name: plain(value) for name, value in call.keywords.items()} == expected
    assert not call.open_ended
    assert call.argument("shuffle") is None


def test_an_unknown_keyword_dict_leaves_arguments_open() -> None:
    [call] = read_main(MNIST % "kwargs = load()").calls_to("torch.utils.data.DataLoader")
    assert call.open_ended
    assert call.argument("num_workers") == Unknown(text="**")


def test_constants_of_local_modules() -> None:
    files = {
        "settings.py": "WORKERS = 4\nclass Opt:\n    lr = 2\n",
        "pack/__init__.py": "from .deep import N\n",
        "pack/deep.py": "N = 7\n",
    }
    text = "from settings import WORKERS\nimport settings\nfrom settings import Opt\nimport pack\nprobe((WORKERS, settings.WORKERS, Opt.lr, pack.N))\n"
    assert plain(argument(read_main(text, files=files))) == (4, 4, 2, 7)


@pytest.mark.parametrize(
    "text",
    [
        """
        import hydra
        from dataclasses import dataclass, field
        @dataclass
        class Data:
            n: int = 4
        @dataclass
        class Config:
            data: Data = field(default_factory=Data)
        @hydra.main(config_name="c")
        def main(c: Config):
            probe(c.data.n)
        main()
        """,
        """
        from dataclasses import dataclass
        @dataclass
        class Config:
            n: int = 4
        def main(c: Config):
            probe(c.n)
        main(read("c.yaml"))
        """,
        """
        from hydra.utils import instantiate
        class Runner:
            def __init__(self, n=4):
                probe(n)
        instantiate(read("c.yaml"))
        """,
    ],
    ids=["hydra", "annotation", "instantiated"],
)
def test_what_a_config_that_is_not_resolved_may_set_is_unknown(text: str) -> None:
    assert plain(argument(read_main(text))) == "?"
