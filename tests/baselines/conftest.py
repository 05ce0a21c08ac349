"""Rules that the base class keeps are not tried on a second and third space of the slow packages."""

import pytest

EVERYWHERE = ("test_trials_are_valid", "test_constraints_are_met")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if is_left_out(item)]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def is_left_out(item: pytest.Item) -> bool:
    name, _, parameters = item.name.partition("[")
    is_of_packages = item.path.name == "test_contract_of_packages.py" and name not in EVERYWHERE
    return is_of_packages and parameters.endswith(("continuous]", "discrete]"))
