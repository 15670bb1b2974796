"""How the checkout's own scripts call webpack and Electron, and what a box gives them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from workers.boxfile import BoxFile, Product
from workers.stack.desktop import Call, describe_electron, describe_frontend, find_call, read_session


@pytest.mark.parametrize(
    ("script", "arguments", "environment"),
    [
        ("webpack serve", ("serve",), {}),
        ("webpack serve --mode development", ("serve", "--mode", "development"), {}),
        ("NODE_ENV=development webpack serve", ("serve",), {"NODE_ENV": "development"}),
        ("cross-env A=1 B='two words' npx webpack serve", ("serve",), {"A": "1", "B": "two words"}),
        ("npm run clean && webpack serve --hot", ("serve", "--hot"), {}),
        ("node_modules/.bin/webpack serve", ("serve",), {}),
    ],
)
def test_a_script_is_called_by_its_last_command(
    script: str, arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    found = find_call({"scripts": {"dev": script}}, "webpack", "serve")
    assert found == Call(arguments=arguments, environment=environment)


@pytest.mark.parametrize(
    "scripts",
    [
        {"build": "webpack serve"},
        {"dev": "webpack --watch"},
        {"dev": "vite"},
        {"dev": "concurrently 'webpack serve' 'electron .'"},
        {"dev": "webpack serve && echo done"},
        {"dev": "an 'unfinished quote"},
        {"dev": 7},
        [],
    ],
)
def test_what_does_not_serve_by_webpack_is_passed_over(scripts: object) -> None:
    assert find_call({"scripts": scripts}, "webpack", "serve") is None


def test_the_usual_names_are_asked_before_those_that_begin_like_them() -> None:
    scripts = {"start:fast": "webpack serve --fast", "start": "webpack serve --start", "dev": "tsc -w"}
    assert find_call({"scripts": scripts}, "webpack", "serve") == Call(arguments=("serve", "--start"))


def make_box(folder: Path) -> BoxFile:
    return BoxFile.model_validate(
        {
            "name": "box-a",
            "stack": "openswarm",
            "isolation": "host",
            "renderer": "electron",
            "lane": "stub",
            "pages": "web",
            "profile": {"policy": "persistent"},
            "folder": folder / "run",
            "checkout": folder / "product",
        }
    )


def test_a_checkout_without_scripts_is_served_and_shown_all_the_same(tmp_path: Path) -> None:
    product = tmp_path / "product"
    frontend = describe_frontend(make_box(tmp_path), product, {"HOME": "/h"})
    electron = describe_electron(make_box(tmp_path), product, {"HOME": "/h"})
    assert frontend.argv == (
        f"{product}/frontend/node_modules/.bin/webpack", "serve", "--port", "3026", "--host", "127.0.0.1",
    )  # fmt: skip
    assert electron.argv[:3] == (
        f"{product}/electron/node_modules/.bin/electron", ".", f"--user-data-dir={tmp_path}/run/profile",
    )  # fmt: skip
    assert frontend.is_bare
    assert electron.is_bare


def test_a_script_s_own_port_host_and_browser_give_way_to_the_box_s(tmp_path: Path) -> None:
    folder = tmp_path / "product" / "frontend"
    folder.mkdir(parents=True)
    script = "webpack serve --port 3000 --host=0.0.0.0 --open --hot"
    (folder / "package.json").write_text(f'{{"scripts": {{"start": "{script}"}}}}')
    words = describe_frontend(make_box(tmp_path), tmp_path / "product", {}).argv[1:]
    assert words == ("serve", "--hot", "--port", "3026", "--host", "127.0.0.1")


def test_electron_finds_the_screen_though_its_home_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DISPLAY", ":3")
    monkeypatch.delenv("XAUTHORITY", raising=False)
    assert "XAUTHORITY" not in read_session()
    (tmp_path / ".Xauthority").touch()
    assert read_session()["XAUTHORITY"] == str(tmp_path / ".Xauthority")
    assert read_session()["DISPLAY"] == ":3"


def test_a_command_that_would_use_a_person_s_own_profile_is_refused() -> None:
    assert Product(electron=("electron", "--user-data-dir={profile}")).electron
    with pytest.raises(ValidationError, match="profile"):
        Product(electron=("electron", "."))
