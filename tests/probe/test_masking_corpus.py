"""Secrets of the environment and of configs; all other forms are in `benchmarks/attack`."""

import pytest
from configs import config

from gpudoctor.probe.wire import masking

HEX40 = "3f1b0c5a9d7e2468ace0" + "13579bdf02468ace1357"
MIXED = "Zk3v9Qp7" + "Xw2Lr8Tn5Jd1"
SHORT = "s3cr" + "3t7x"
ENVIRONMENT = [
    ("WANDB", HEX40, "***"),
    ("PGPASSWORD", SHORT, "***"),
    ("PGPASSWORD", "80211", "***"),
    ("HF_TOKEN", "1234", "1234"),
    ("RUN_NOTE", "gh" + "p_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "***"),
    ("DATABASE_URL", f"postgresql://optuna:{SHORT}@db.local/study", "postgresql://***@db.local/study"),
    ("AWS_ACCESS_KEY_ID", "AK" + "IAQ3EGXAMPL7KEYS42", "***"),
]


@pytest.mark.parametrize(("name", "value", "shown"), ENVIRONMENT)
def test_a_secret_of_the_environment_is_masked(name, value, shown):
    assert masking.mask_value(name, value) == shown


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"wandb:\n  key: {HEX40}\n", True),
        (f"api_tokens:\n  tracker: {MIXED}\n", True),
        ("api_tokens:\n  user: somebody\n", False),
        (f"model:\n  revision: {HEX40}\n", False),
    ],
)
def test_an_entry_of_a_config_is_masked_by_the_same_sections_and_names(text, masked):
    file = config(text)
    assert [file.setting(entry).value == "***" for entry in file.entries.values()] == [masked]
