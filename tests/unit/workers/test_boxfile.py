from __future__ import annotations

from pathlib import Path

import pytest

from broker.errors import ServiceError, UsageError
from workers.boxfile import load_box

TEXT = """\
name = "box-a"
stack = "reference"
isolation = "ports"
renderer = "playwright"
lane = "stub"
folder = "/tmp/box-a"
database_url = "postgresql://box_a:hidden-word@127.0.0.1/farm"
broker_url = "redis://127.0.0.1:6379/0"

[ports]
backend = 18326
router = 18327
https = 18443
http = 18080
"""


def load(tmp_path: Path, text: str) -> object:
    path = tmp_path / "box.toml"
    path.write_text(text)
    return load_box(path)


def test_box_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "box.toml"
    path.write_text(TEXT)
    box = load_box(path)
    assert (box.name, box.ports.https, box.lock_name) == ("box-a", 18443, "bv3-stack-18326")


def test_host_isolation_has_one_lock_for_the_machine(tmp_path: Path) -> None:
    path = tmp_path / "box.toml"
    path.write_text(TEXT.replace('"ports"', '"host"'))
    assert load_box(path).lock_name == "bv3-stack"


@pytest.mark.parametrize(
    ("change", "line", "said"),
    [
        (("lane =", "lanes ="), 5, "lanes: unknown key"),
        (("backend = 18326", "backend = 0"), 11, "ports.backend"),
        (("router = 18327", 'router = 18327\nextra = "x"'), 13, "ports.extra: unknown key"),
        (("folder =", 'mode = "dry"\nfolder ='), 6, "bv3-box up dry"),
        (('folder = "/tmp/box-a"', 'folder = "box-a"'), 6, "absolute"),
        (('name = "box-a"', 'name = "Box A"'), 1, "name"),
    ],
)
def test_mistake_is_named_with_its_line(tmp_path: Path, change: tuple[str, str], line: int, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, TEXT.replace(*change))
    assert f"box.toml:{line}:" in caught.value.message
    assert said in caught.value.message


def test_password_in_a_bad_file_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, TEXT.replace('lane = "stub"', "lane = 3"))
    assert "hidden-word" not in caught.value.message
    assert "hidden-word" not in repr(load(tmp_path, TEXT))


def test_missing_file_and_broken_toml_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be read"):
        load_box(tmp_path / "none.toml")
    with pytest.raises(UsageError, match="line 2"):
        load(tmp_path, 'name = "box-a"\nlane = =\n')


REFERENCE = '\n[reference]\nfaults = "renderer_killed:0.05, no_router"\nseed = 7\nleash_scale = 0.1\n'


def test_what_the_reference_stack_is_told_is_read_and_named_as_a_record_names_it(tmp_path: Path) -> None:
    path = tmp_path / "box.toml"
    path.write_text(TEXT + REFERENCE)
    told = load_box(path).reference
    assert (told.told, told.leash_scale) == ("renderer_killed:0.05, no_router seed 7", 0.1)
    path.write_text(TEXT)
    assert (load_box(path).reference.told, load_box(path).reference.leash_scale) == ("", 1.0)


@pytest.mark.parametrize(
    ("change", "line", "said"),
    [
        (
            ("renderer_killed", "renderer_kiled"),
            17,
            "no fault is called 'renderer_kiled' hint: did you mean renderer_ki",
        ),
        ((":0.05", ":5"), 17, "the share of renderer_killed is '5'"),
        (("leash_scale = 0.1", "leash_scale = 0"), 19, "reference.leash_scale"),
        (("leash_scale = 0.1", "leash_scale = 1.5"), 19, "reference.leash_scale"),
        (("seed = 7", "seed = -7"), 18, "reference.seed"),
        (("seed = 7", "seeds = 7"), 18, "reference.seeds: unknown key"),
    ],
)
def test_a_mistake_in_what_it_is_told_is_named_with_its_line(
    tmp_path: Path, change: tuple[str, str], line: int, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, TEXT + REFERENCE.replace(*change))
    assert f"box.toml:{line}: " in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize("faults", [" none", "none ", "none"])
def test_no_faults_are_none_however_they_are_spaced(tmp_path: Path, faults: str) -> None:
    path = tmp_path / "box.toml"
    path.write_text(TEXT + f'\n[reference]\nfaults = "{faults}"\n')
    assert (load_box(path).reference.faults, load_box(path).reference.told) == ("none", "")


def test_faults_that_can_not_be_judged_in_time_are_an_error_with_a_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.boxfile._JUDGE_TIMEOUT_S", 0.001)
    with pytest.raises(ServiceError, match="could not be told within") as caught:
        load(tmp_path, TEXT + REFERENCE)
    assert "less busy" in str(caught.value.hint)


def test_a_stack_that_is_no_stand_in_refuses_faults_and_scaled_leashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.boxfile.INJECTABLE", frozenset())
    load(tmp_path, TEXT)
    with pytest.raises(UsageError, match="faults and scaled leashes are for the stack reference"):
        load(tmp_path, TEXT + REFERENCE)
