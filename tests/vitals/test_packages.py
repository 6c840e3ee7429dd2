"""Packages by their metadata: environments made by hand in a temporary folder."""

import os
import shlex
import sys

import pytest

from gpudoctor.model import Unavailable
from gpudoctor.vitals.packages import read_packages


def site_of(prefix, series="3.11"):
    return prefix / "lib" / f"python{series}" / "site-packages"


def make_venv(folder, *, home=None, system=False, version="3.11.4"):
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    site_of(folder).mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(
        f"home = {home or '/nowhere/bin'}\ninclude-system-site-packages = {str(system).lower()}\nversion = {version}\n"
    )
    return folder


def install(site, name, version, requires=(), text=""):
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {item}" for item in requires]
    (folder / "METADATA").write_text("\n".join(lines) + "\n\n" + text)
    return folder


def test_a_virtual_environment_by_its_folder_and_by_its_interpreter(tmp_path):
    venv = make_venv(tmp_path / "venv")
    install(site_of(venv), "Huggingface_Hub", "1.2", ["requests>=2; extra == 'x'"], "Version: 9\nName: no\n")
    for name in (venv, venv / "bin" / "python"):
        found = read_packages(str(name), {})
        assert found.prefix == str(venv)
        assert found.python == "3.11.4"
        assert list(found.distributions) == ["huggingface-hub"]
        [item] = found.distributions.values()
        assert (item.version, item.requires) == ("1.2", ("requests>=2; extra == 'x'",))
        assert item.location == str(site_of(venv))


def test_a_venv_does_not_see_its_base_unless_it_says_so(tmp_path):
    base = tmp_path / "base"
    install(site_of(base), "torch", "2.5.1")
    install(site_of(base), "numpy", "1.26.4")
    closed = make_venv(tmp_path / "closed", home=base / "bin")
    opened = make_venv(tmp_path / "open", home=base / "bin", system=True)
    install(site_of(opened), "numpy", "2.1.0")
    assert read_packages(str(closed), {}).version("torch") is None
    found = read_packages(str(opened), {})
    assert found.version("torch") == "2.5.1"
    assert found.version("numpy") == "2.1.0"
    assert [item.version for item in found.duplicates] == ["1.26.4"]


def test_path_files_add_folders_and_never_run(tmp_path):
    venv = make_venv(tmp_path / "venv")
    project = tmp_path / "project"
    (project / "mine.egg-info").mkdir(parents=True)
    (project / "mine.egg-info" / "PKG-INFO").write_text("Name: mine\nVersion: 0.3\n")
    trap = tmp_path / "trap"
    (site_of(venv) / "easy-install.pth").write_text(
        f"# a comment\nimport os; open({str(trap)!r}, 'w')\n{project}\n/does/not/exist\n\0bad\n"
    )
    [item] = read_packages(str(venv), {}).distributions.values()
    assert (item.name, item.version) == ("mine", "0.3")
    assert not trap.exists()


def test_broken_metadata_is_passed_over(tmp_path):
    venv = make_venv(tmp_path / "venv")
    site = site_of(venv)
    install(site, "good", "1.0")
    (site / "empty-1.0.dist-info").mkdir()
    (site / "binary-1.0.dist-info").mkdir()
    (site / "binary-1.0.dist-info" / "METADATA").write_bytes(os.urandom(4096))
    (site / "folder-1.0.dist-info" / "METADATA").mkdir(parents=True)
    (site / "~orch-2.0.dist-info").mkdir()
    (site / "~orch-2.0.dist-info" / "METADATA").write_text("Name: torch\nVersion: 2.0\n")
    (site / "file-1.0.egg-info").write_text("Name: file\nVersion: 1.0\n")
    (site / "crlf-2.dist-info").mkdir()
    (site / "crlf-2.dist-info" / "METADATA").write_bytes(b"Name: crlf\r\nVersion: 2\r\n\r\nVersion: 3\r\n")
    found = read_packages(str(venv), {}).distributions
    assert {"good": "1.0", "file": "1.0", "crlf": "2"}.items() <= {k: v.version for k, v in found.items()}.items()
    assert "torch" not in found


@pytest.mark.parametrize("name", ["missing", "missing-python"])
def test_a_named_interpreter_that_is_not_there_is_a_sentence(tmp_path, name):
    with pytest.raises(Unavailable, match="missing"):
        read_packages(str(tmp_path / name), {})


def test_a_shim_is_asked(tmp_path):
    real = make_venv(tmp_path / "pyenv" / "versions" / "3.11.4")
    install(site_of(real), "torch", "2.9.0")
    shim = tmp_path / "pyenv" / "shims" / "python"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(str(real / "bin" / "python"))} "$@"\n')
    shim.chmod(0o755)
    assert read_packages(None, {"PATH": str(shim.parent)}).prefix == str(real)
