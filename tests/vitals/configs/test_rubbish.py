"""Whatever a file holds: a config or a sentence, never an exception."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpudoctor.vitals.configs import looks_like_config, looks_like_kubernetes_job, read_configs

MANY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@MANY
@given(raw=st.binary(max_size=300), suffix=st.sampled_from([".yaml", ".json", ".toml", ""]))
def test_any_bytes(tmp_path: Path, raw: bytes, suffix: str) -> None:
    path = tmp_path / f"file{suffix}"
    path.write_bytes(raw)
    configs = read_configs([path])
    assert len(configs.files) + len(configs.unread) == 1
    looks_like_config(path)
    looks_like_kubernetes_job(path)
