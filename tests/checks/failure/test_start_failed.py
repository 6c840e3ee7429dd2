from log_cases import each_wording_is_found, silent_behind_another_exception, silent_if_the_training_goes_on

CODE = "FAIL020"


def test_sick_each_wording_is_found(tmp_path):
    each_wording_is_found(CODE, tmp_path)


def test_healthy_the_training_goes_on(tmp_path):
    silent_if_the_training_goes_on(CODE, tmp_path)


def test_healthy_another_exception_came_first(tmp_path):
    silent_behind_another_exception(CODE, tmp_path)
