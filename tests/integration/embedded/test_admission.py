"""Boxes that are admitted to the embedded farm while it runs."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.engine import begin, make_engine
from workers.boxfile import load_box


def log_in(url: str) -> str:
    with begin(make_engine(url, application="test", pooled=False)) as connection:
        return str(connection.scalar(sa.text("select current_user")))


def count_logins(url: str, box: str) -> int:
    with begin(make_engine(url, application="test", pooled=False)) as connection:
        return int(connection.scalar(sa.text("select count(*) from boxes where name = :box"), {"box": box}) or 0)


def test_a_farm_may_have_no_box_of_its_own(stopped: Any) -> None:
    address = json.loads(stopped.done("up", "--boxes", "0", "--json").stdout)
    assert address["boxes"] == []
    assert {"dispatcher", "grader", "valkey"} <= set(stopped.status()["parts"])


def test_a_box_in_a_namespace_is_told_the_sockets_and_another_one_the_ports(farm: Any, tmp_path: Path) -> None:
    address = farm.up(boxes=0)
    inside, outside = tmp_path / "inside.toml", tmp_path / "outside.toml"
    farm.done("admit", "ns-a", "--netns", "bv3-a", "--folder", str(tmp_path / "a"), "--out", str(inside))
    farm.done("admit", "near", "--folder", str(tmp_path / "b"), "--out", str(outside))
    assert stat.S_IMODE(inside.stat().st_mode) == 0o600
    box = load_box(inside)
    assert (box.name, box.isolation, box.netns, box.ports.backend) == ("ns-a", "netns", "bv3-a", 8326)
    assert box.farm().broker_url == address["broker_socket_url"]
    assert "127.0.0.1" not in inside.read_text().replace("on 127.0.0.1 as all of these", "")
    assert log_in(box.farm().database_url) == "box_ns_a"
    near = load_box(outside)
    assert (near.isolation, near.farm().broker_url) == ("ports", address["broker_url"])
    assert log_in(near.farm().database_url) == "box_near"


def test_a_box_with_the_product_is_told_its_checkout(farm: Any, tmp_path: Path) -> None:
    farm.up(boxes=0)
    file = tmp_path / "box.toml"
    words = ("--checkout", str(tmp_path / "openswarm"), "--renderer", "electron", "--lane", "opus")
    farm.done("admit", "desk", *words, "--folder", str(tmp_path / "run"), "--out", str(file))
    box = load_box(file)
    assert (box.stack, box.checkout, box.renderer, box.lane) == (
        "openswarm",
        tmp_path / "openswarm",
        "electron",
        "opus",
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("box-a",), "box-a is a name of the embedded farm's own boxes"),
        (("Desk 1",), "can't be a box's name"),
        (("refused", "--stack", "openswarm"), "the stack openswarm needs checkout"),
        (("refused", "--isolation", "netns"), "netns names the namespace"),
        (("refused", "--renderer", "lynx"), "lynx"),
    ],
)
def test_words_that_can_not_be_change_no_login_and_make_no_file(
    farm: Any, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    url = farm.up(boxes=0)["database_url"]
    refused = farm.run("admit", *words, "--out", str(tmp_path / "box.toml"))
    assert refused.returncode == 2
    assert said in refused.stderr
    assert not (tmp_path / "box.toml").exists()
    assert count_logins(url, "refused") == 0


def test_a_box_file_that_is_there_stays_and_so_does_its_login(farm: Any, tmp_path: Path) -> None:
    farm.up(boxes=0)
    file = tmp_path / "box.toml"
    farm.done("admit", "kept", "--folder", str(tmp_path / "run"), "--out", str(file))
    again = farm.run("admit", "kept", "--out", str(file))
    assert again.returncode == 2
    assert f"{file} is there already" in again.stderr
    assert log_in(load_box(file).farm().database_url) == "box_kept"


def test_without_a_farm_nobody_is_admitted(stopped: Any, tmp_path: Path) -> None:
    refused = stopped.run("admit", "early", "--out", str(tmp_path / "box.toml"))
    assert refused.returncode == 3
    assert "bv3-farm up --boxes 0" in refused.stderr
