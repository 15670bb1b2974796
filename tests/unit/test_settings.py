"""Addresses come from the environment or from the running farm, and a bad one is named."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from broker.errors import ServiceError, UsageError
from broker.home import FarmHome, has_users, hold_gate, hold_user_lock
from broker.settings import Settings, load_settings, read_address, read_manifest


def test_without_addresses_the_farm_is_our_own_and_not_there_yet(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BV3_HOME", str(tmp_path / "home"))
    settings = load_settings()
    assert settings.is_embedded
    assert read_address(settings) is None
    assert not (tmp_path / "home").exists(), "asking makes nothing"
    settings.farm_home.make()
    settings.farm_home.farm_json.write_text(json.dumps({"database_url": "postgresql://a", "schema": 1}))
    address = read_address(settings)
    assert address is not None
    assert address.database_url == "postgresql://a"


def test_an_empty_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BV3_BROKER_URL", "")
    monkeypatch.setenv("BV3_DATABASE_URL", "")
    assert load_settings().is_embedded


def test_without_any_home_variable_the_data_lies_in_the_users_own_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BV3_HOME", "XDG_STATE_HOME", "HOME"):
        monkeypatch.setenv(name, "")
    assert load_settings().home == Path(pwd.getpwuid(os.getuid()).pw_dir) / ".local" / "state" / "bv3"
    monkeypatch.setenv("HOME", "/somewhere")
    assert load_settings().home == Path("/somewhere/.local/state/bv3")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert load_settings().home == Path("/somewhere/.local/state/bv3")


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 1}'])
def test_a_broken_farm_json_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    monkeypatch.setenv("BV3_HOME", str(tmp_path))
    (tmp_path / "farm.json").write_text(text)
    with pytest.raises(ServiceError, match=r"farm\.json can't be read"):
        read_address(load_settings())


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"BV3_BROKER_URL": "amqp://x", "BV3_DATABASE_URL": "postgresql://x"}, "BV3_BROKER_URL: must begin with"),
        ({"BV3_BROKER_URL": "redis://x", "BV3_DATABASE_URL": "mysql://x"}, "BV3_DATABASE_URL: must begin with"),
        ({"BV3_BROKER_URL": "redis://x"}, "BV3_DATABASE_URL is not set"),
        ({"BV3_DATABASE_URL": "postgresql://x"}, "BV3_BROKER_URL is not set"),
    ],
)
def test_a_bad_or_missing_address_is_named(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], says: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=says):
        load_settings()


def test_a_password_is_not_in_the_settings_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BV3_BROKER_URL", "redis://:hunter2@h/0")
    monkeypatch.setenv("BV3_DATABASE_URL", "postgresql://u:hunter2@h/d")
    assert "hunter2" not in repr(load_settings())


def test_a_missing_manifest_says_what_to_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BV3_RUNTIME", str(tmp_path))
    with pytest.raises(ServiceError) as caught:
        read_manifest(load_settings())
    assert caught.value.hint == "run ./bv3 setup"


def test_the_user_lock_goes_with_its_process(tmp_path: Path) -> None:
    home = FarmHome(root=tmp_path / "home")
    with hold_user_lock(home), hold_gate(home):
        assert has_users(home)
    assert not has_users(home)
    code = (
        "import sys; from pathlib import Path; from broker.home import FarmHome, hold_user_lock\n"
        "with hold_user_lock(FarmHome(root=Path(sys.argv[1]))): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(home.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert has_users(home)
        other.kill()
        other.wait()
    assert not has_users(home), "killed with -9, and no user any more"


def test_a_home_that_cannot_be_made_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ServiceError, match="can't use the data folder") as caught:
        FarmHome(root=tmp_path / "file" / "home").make()
    assert "BV3_HOME" in str(caught.value.hint)


def test_every_setting_stands_in_the_reference_with_its_own_words() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"
    rows = [line for line in page.read_text("utf-8").splitlines() if line.startswith("| `BV3_")]
    documented = {row.split("`")[1]: row.rstrip(" |").rsplit(" | ", 1)[1] for row in rows}
    assert documented == {f"BV3_{name.upper()}": field.description for name, field in Settings.model_fields.items()}
