"""This machine, judged by a box file: real ports, real folders, names of variables and never their values."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from workers.boxcheck import check_box
from workers.boxfile import BoxFile
from workers.cli import run
from workers.conditions import Answer

Make = Callable[..., BoxFile]


@pytest.fixture
def make(tmp_path: Path, free_port: Callable[[], int]) -> Make:
    """A box with the reference stack on free ports, with other words than these."""

    def made(**words: object) -> BoxFile:
        plain: dict[str, object] = {
            "name": "box-a",
            "stack": "reference",
            "isolation": "host",
            "renderer": "playwright",
            "lane": "stub",
            "folder": str(tmp_path / "run" / "box-a"),
            "ports": {name: free_port() for name in ("backend", "router", "https", "http")},
        }
        return BoxFile.model_validate(plain | words)

    return made


def look(box: BoxFile, reason: str, **environment: str) -> list[tuple[Answer, str]]:
    """What was found under that reason."""
    return [(item.answer, item.said) for item in check_box(box, environment) if item.reason == reason]


def test_a_machine_that_is_fit_is_told_so_and_nothing_is_made(make: Make) -> None:
    box = make()
    found = check_box(box, {})
    assert [item for item in found if item.answer is Answer.REFUSED] == []
    assert not box.folder.parent.exists()
    assert look(box, "farm") == [
        (Answer.NOT_LOOKED_AT, "the box belongs to none; bv3-farm admit NAME gives it its logins")
    ]


def test_a_port_that_is_taken_is_named_with_who_has_it(make: Make) -> None:
    box = make()
    with socket.create_server(("127.0.0.1", box.ports.router)):
        [(answer, said)] = look(box, "ports")
    assert answer is Answer.REFUSED
    assert f"{box.ports.router} (router) by pid {os.getpid()} (" in said
    [(answer, said)] = look(box, "ports")
    assert answer is Answer.OK
    assert said.endswith("free")


def test_a_router_that_the_product_would_adopt_is_in_nobodys_way_but_the_lanes_own_is(make: Make) -> None:
    checkout = {"stack": "openswarm", "checkout": "/srv/openswarm"}
    adopting, own = make(**checkout, lane="opus"), make(**checkout, lane="stub")
    for box, answer in ((adopting, Answer.OK), (own, Answer.REFUSED)):
        with socket.create_server(("127.0.0.1", box.ports.router)):
            assert look(box, "ports")[0][0] is answer


def test_somebody_on_a_foreign_port_is_named(make: Make, free_port: Callable[[], int]) -> None:
    port = free_port()
    box = make()
    box = box.model_copy(update={"ports": box.ports.model_copy(update={"foreign": (port,)})})
    assert look(box, "foreign") == [(Answer.OK, f"nobody listens on {port}")]
    with socket.create_server(("127.0.0.1", port)):
        [(answer, said)] = look(box, "foreign")
    assert answer is Answer.REFUSED
    assert f"listens on port {port}" in said


def test_a_limit_that_this_machine_does_not_keep_is_told_with_its_numbers(make: Make) -> None:
    [(answer, said)] = look(make(limits={"free_mb": 10**9}), "space")
    assert answer is Answer.REFUSED
    assert "1000000000 are needed" in said


def test_a_run_folder_that_can_not_be_made_is_told(make: Make, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    [(answer, said)] = look(make(folder=str(tmp_path / "file" / "box-a")), "folder")
    assert answer is Answer.REFUSED
    assert f"{tmp_path / 'file'} is no folder" in said


def test_accounts_are_looked_for_by_their_variables_and_never_shown(make: Make) -> None:
    box = make(accounts={"x": "MY_X", "reddit": "MY_REDDIT", "nosuch": "MY_X"})
    found = look(box, "accounts", MY_X="secret-handle")
    assert found == [
        (Answer.OK, "x by MY_X, which is set"),
        (Answer.REFUSED, "reddit by MY_REDDIT, which is not set in this environment"),
        (Answer.OK, "nosuch by MY_X, which is set"),
    ]
    assert look(box, "sites", MY_X="secret-handle") == [(Answer.COULD_NOT_LOOK, "no suite has a site nosuch")]


def test_what_a_checkout_lacks_is_named_with_the_command_that_makes_it(make: Make, tmp_path: Path) -> None:
    words = {"stack": "openswarm", "checkout": str(tmp_path / "openswarm"), "lane": "stub"}
    [(answer, said)] = look(make(**words), "checkout")
    assert (answer, "holds no backend/main.py" in said) == (Answer.REFUSED, True)
    (tmp_path / "openswarm" / "backend").mkdir(parents=True)
    (tmp_path / "openswarm" / "backend" / "main.py").touch()
    found = look(make(**words), "checkout")
    assert [answer for answer, _ in found] == [Answer.REFUSED]
    assert "has no Python environment" in found[0][1]


def test_a_browser_that_set_up_has_not_brought_is_told(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BV3_RUNTIME", str(tmp_path))
    [(answer, said)] = look(make(), "browser")
    assert answer is Answer.REFUSED
    assert "run ./bv3 setup" in said
    (tmp_path / "manifest.json").write_text(json.dumps({"chromium": str(tmp_path / "gone"), "editors": ""}))
    assert look(make(), "browser") == [
        (Answer.REFUSED, f"{tmp_path / 'gone'} is not there any more; run ./bv3 setup --again")
    ]
    (tmp_path / "gone").touch(mode=stat.S_IRWXU)
    assert look(make(), "browser") == [(Answer.OK, str(tmp_path / "gone"))]


def test_a_farm_that_does_not_answer_now_keeps_no_box_from_being_fit(make: Make, free_port: Callable[[], int]) -> None:
    url = f"postgresql://box_a:hidden-word@127.0.0.1:{free_port()}/farm"
    [(answer, said)] = look(make(database_url=url, broker_url="redis://127.0.0.1:1/0"), "farm")
    assert answer is Answer.COULD_NOT_LOOK
    assert "does not answer now" in said
    assert "hidden-word" not in said


def test_a_namespace_that_is_not_there_is_a_problem_of_the_machine_and_not_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "box.toml"
    assert run(["init", "--name=box-a", "--netns=bv3-none", f"--folder={tmp_path}/run", f"--out={file}"]) == 0
    with pytest.raises(SystemExit) as ended:
        run(["check", "--box", str(file)])
    assert ended.value.code == 1
    assert "refused         namespace" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        run(["check", "--box", str(file), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert (document["fit"], document["refused"]) == (False, ["namespace"])
    file.write_text("name = 3\n")
    assert run(["check", "--box", str(file)]) == 2


def test_addresses_on_the_hosts_loopback_are_out_of_a_namespaces_reach(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.boxcheck.enter", lambda _: None)
    logins = {"database_url": "postgresql://a:b@127.0.0.1/c", "broker_url": "redis://localhost/0"}
    [(answer, said)] = look(make(isolation="netns", netns="bv3-none", **logins), "farm")
    assert answer is Answer.REFUSED
    assert "2 of its addresses are on the host's loopback" in said
    assert "bv3-farm admit box-a --netns bv3-none" in said
