"""What several checks ask of a patient at once."""

import pytest
from configs import config_patient
from scripts import script_patient

from gpudoctor.model import Unavailable
from gpudoctor.testing import make_patient


def test_a_script_without_a_config():
    source, configs = script_patient("import torch").source_and_configs
    assert len(source.scripts) == 1 and not configs.files


def test_a_config_without_a_script():
    source, configs = config_patient("learning_rate: 1e-5").source_and_configs
    assert not source.scripts and len(configs.files) == 1


def test_neither_says_why_there_is_none_of_both():
    with pytest.raises(Unavailable, match=r"the source was not given, and the configs"):
        assert make_patient().source_and_configs
