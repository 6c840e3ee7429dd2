"""Settings: what is read, what is refused, and with which sentence."""

import pytest
from toys import Well, toy_registry

from gpudoctor.engine.settings import find_settings_file, read_settings
from gpudoctor.errors import UsageError

REGISTRY = toy_registry()


def write(tmp_path, text, name="gpudoctor.toml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_everything_is_read(tmp_path):
    path = write(
        tmp_path,
        """
        select = ["DATA", "always-sick"]
        ignore = {MEM901 = "we know"}
        fail-on = "warning"
        [per-file-ignores]
        "tests/*" = ["ALL"]
        [thresholds]
        DATA901.warning = 0.5
        """,
    )
    settings = read_settings(path, REGISTRY)
    assert settings.select == ("DATA", "always-sick")
    assert settings.ignore == (("MEM901", "we know"),)
    assert settings.fail_on == "warning"
    assert settings.per_file_ignores == (("tests/*", frozenset(REGISTRY.checks)),)
    assert settings.thresholds == {Well.code: {"warning": 0.5}}


def test_pyproject_table_and_quoted_thresholds(tmp_path):
    path = write(
        tmp_path,
        '[project]\nname = "x"\n[tool.gpudoctor]\nignore = ["MEM901"]\n'
        '[tool.gpudoctor.thresholds]\n"DATA901.warning" = 1\n',
        "pyproject.toml",
    )
    settings = read_settings(path, REGISTRY)
    assert settings.ignore == (("MEM901", None),)
    assert settings.thresholds == {Well.code: {"warning": 1.0}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("selct = []", "unknown key 'selct'; did you mean select?"),
        ('select = "DATA"', "select is 'DATA'; it should be a list of strings"),
        ('select = ["DATTA"]', "unknown code 'DATTA'; did you mean DATA?"),
        ('ignore = ["always-sik"]', "did you mean always-sick?"),
        ('fail-on = "eror"', "it should be error, warning, note, never"),
        ("[thresholds]\nDATA901.warnin = 1", "no threshold 'warnin' (it has: warning"),
        ("[thresholds]\nDATA901.warning = nan", "it should be a number"),
        ("[thresholds]\nMEM901.x = 1", "MEM901 has no threshold 'x' (it has: none)"),
        ("per-file-ignores = 3", "it should be a table"),
        ("a = = b", "not valid TOML"),
        ("select = [", "not valid TOML"),
    ],
)
def test_refused_with_a_sentence_that_names_file_and_cure(tmp_path, text, said):
    path = write(tmp_path, text)
    with pytest.raises(UsageError) as error:
        read_settings(path, REGISTRY)
    assert said in str(error.value)
    assert str(path) in str(error.value)


def test_the_nearest_file_wins_and_the_search_stops_at_the_repository(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    write(tmp_path, "")
    assert find_settings_file(tmp_path / "a" / "b") == tmp_path / "gpudoctor.toml"
    inner = write(tmp_path / "a", "[tool.gpudoctor]\n", "pyproject.toml")
    assert find_settings_file(tmp_path / "a" / "b") == inner
    write(tmp_path / "a" / "b", "[project]\n", "pyproject.toml")
    assert find_settings_file(tmp_path / "a" / "b" / "train.py") == inner
    (tmp_path / "a" / "b" / ".git").mkdir()
    assert find_settings_file(tmp_path / "a" / "b") is None
