"""Interpreters by option and by environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from artifact.bench.named import OWN_OPTIONS, resolve, spelled
from artifact.errors import UsageError
from artifact.model.backend import Environment


def environment(name: str, option: str = "--python") -> Environment:
    return Environment(
        name=name, title=name, python="3.12", option=option, requirements=f"{name}.lock"
    )


MAIN, TWIN = environment("main"), environment("twin")
OTHER = environment("other", "--ws-python")
ODD = environment("odd", "--odd-python")
ALL = (MAIN, TWIN, OTHER, ODD)


def test_by_option_and_by_name() -> None:
    assert resolve({}, (), ALL) == {}
    found = resolve({"--python": Path("p")}, ("odd=a=b", "other=/x y/python"), ALL)
    assert found == {
        "main": Path("p"),
        "twin": Path("p"),
        "odd": Path("a=b"),
        "other": Path("/x y/python"),
    }


BAD = [
    ({}, ("no",), "does not name an environment and its interpreter", "main, twin, other, odd"),
    ({}, ("main=",), "does not name an environment and its interpreter", "main, twin, other, odd"),
    ({}, ("=p",), "does not name an environment and its interpreter", "main, twin, other, odd"),
    ({}, ("no=p",), "no such environment", "one of: main, twin, other, odd"),
    ({}, ("odd=p", "odd=p"), "two interpreters", "main, twin, other, odd"),
    ({"--python": Path("q")}, ("twin=p",), "two interpreters", "main, twin, other, odd"),
]


@pytest.mark.parametrize(("options", "texts", "what", "allowed"), BAD)
def test_what_is_refused(
    options: dict[str, Path], texts: tuple[str, ...], what: str, allowed: str
) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        resolve(options, texts, ALL)
    assert caught.value.where == f"--interpreter {texts[-1]}"
    assert allowed in str(caught.value.expected)


def test_an_option_that_no_environment_asks_for() -> None:
    with pytest.raises(UsageError, match="from this option") as caught:
        resolve({"--python": Path("p")}, (), (OTHER, ODD))
    assert caught.value.expected == "one of: --interpreter odd=PATH, --ws-python"


def test_an_artifact_without_environments() -> None:
    for options, texts in (({"--python": Path("p")}, ()), ({}, ("main=p",))):
        with pytest.raises(UsageError) as caught:
            resolve(options, texts, ())
        assert str(caught.value.expected).startswith("no such option")


def test_only_options_that_there_are_are_advised() -> None:
    assert spelled(MAIN) == "--python PATH"
    assert spelled(OTHER, Path("/p")) == "--ws-python /p"
    assert spelled(ODD, "/p") == "--interpreter odd=/p"


@pytest.mark.parametrize("name", ["run", "doctor", "profile"])
def test_the_command_line_has_the_options_that_are_advised(name: str) -> None:
    from artifact.cli.app import load

    taken = {option for parameter in load(name).params for option in parameter.opts}
    assert taken >= {*OWN_OPTIONS, "--interpreter"}
