"""Tables of a program's own are no library's settings."""

import pytest
from configs import config_patient

from gpudoctor.testing import examine
from gpudoctor_checks.config.deprecated_key import DeprecatedKey

ROWS = {"output_dir": "out", "learning_rate": 1e-4, "num_train_epochs": 3, "per_device_train_batch_size": 4,
        "evaluation_strategy": "epoch"}  # fmt: skip


@pytest.mark.parametrize(("name", "sign", "said"), [("job.toml", " = ", 0), ("job.yaml", ": ", 1)])
def test_no_library_reads_its_settings_from_toml(tmp_path, name, sign, said):
    path = tmp_path / name
    path.write_text("".join(f"{key}{sign}{value!r}\n".replace("'", '"') for key, value in ROWS.items()))
    assert len(examine(DeprecatedKey, config_patient(path))) == said
