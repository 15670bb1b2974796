from __future__ import annotations

from pathlib import Path

import pytest

from broker.errors import ServiceError, UsageError
from workers.boxfile import BoxFile, load_box
from workers.stack.checkout import find_python

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


def load(tmp_path: Path, text: str) -> BoxFile:
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
        (("lane =", "lanes ="), 5, "lanes: unknown key, did you mean lane?"),
        (("https =", "htps ="), 13, "ports.htps: unknown key, did you mean https?"),
        (("broker_url", "zzz"), 8, "zzz: unknown key"),
        (('"postgresql:', '"mysql:'), 7, "database_url: must begin with postgresql://"),
        (('"redis:', '"amqp:'), 8, "broker_url: must begin with redis://"),
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
    path.write_text(TEXT + REFERENCE + 'natures = "all:0.5"\n')
    assert load_box(path).reference.told == "renderer_killed:0.05, no_router, natures all:0.5 seed 7"
    path.write_text(TEXT + '\n[reference]\nnatures = "all"\n')
    assert load_box(path).reference.told == "natures all seed 0"
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
        (("seed = 7", 'natures = "late_mont"'), 18, "reference.natures: no nature is called 'late_mont'"),
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
    monkeypatch.setattr("workers.boxrules.STAND_INS", frozenset())
    load(tmp_path, TEXT)
    with pytest.raises(UsageError, match="faults, natures and scaled leashes are for the stack reference"):
        load(tmp_path, TEXT + REFERENCE)


OPENSWARM = """\
name = "box-a"
stack = "openswarm"
isolation = "host"
renderer = "playwright"
lane = "opus"
folder = "/tmp/box-a"
checkout = "/srv/openswarm"
"""
ELECTRON = OPENSWARM.replace('"playwright"', '"electron"') + 'pages = "web"\n\n[profile]\npolicy = "persistent"\n'
NETNS = TEXT.replace('isolation = "ports"', 'isolation = "netns"\nnetns = "bv3-a"')


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (OPENSWARM.replace('"host"', '"ports"'), 3, 'isolation = "ports" is for the stack reference alone'),
        (TEXT.replace('"ports"', '"netns"'), 3, "netns names the namespace"),
        (NETNS.replace('"netns"', '"host"'), 4, "netns names the namespace"),
        (OPENSWARM.replace('checkout = "/srv/openswarm"', ""), 2, "the stack openswarm needs checkout"),
        (TEXT.replace("folder =", 'checkout = "/srv/openswarm"\nfolder ='), 6, "checkout is for the stack openswarm"),
        (TEXT + '[product]\nmodel = "x"\n', 15, "[product] is for the stack openswarm"),
        (TEXT.replace("folder =", 'pages = "web"\nfolder ='), 6, "loopback pages only"),
        (TEXT.replace('"playwright"', '"electron"'), 4, 'renderer = "electron" is for the stack openswarm'),
        (ELECTRON.replace('policy = "persistent"', ""), 4, 'set profile.policy = "persistent"'),
        (ELECTRON.replace('pages = "web"', ""), 4, 'set pages = "web"'),
        (ELECTRON.replace("pages =", 'record = "video"\npages ='), 8, 'only renderer = "playwright" records'),
        (TEXT.replace("broker_url", "# "), 7, "database_url and broker_url belong together"),
        (TEXT.replace("database_url", "# "), 8, "database_url and broker_url belong together"),
        (OPENSWARM + '\n[profile]\nsigned_in = ["x"]\n', 10, "a fresh profile is signed in to nothing"),
        (TEXT.replace("18327", "18326"), 12, "ports.router: port 18326 is backend's already"),
        (ELECTRON + "\n[ports]\nhttp = 3026\n", 14, "ports.http: port 3026 is frontend's already"),
        (TEXT + "foreign = [1, 18443]\n", 15, "18443 is the box's own port https"),
        (OPENSWARM + "\n[reference]\nseed = 3\n", 9, "faults, natures and scaled leashes are for the stack reference"),
        (OPENSWARM.replace('"/srv/', '"srv/'), 7, "checkout must be an absolute path"),
        (OPENSWARM.replace("/tmp/box-a", "/srv/openswarm/runs"), 6, "folder must lie outside of the checkout"),
        (OPENSWARM.replace("/tmp/box-a", "/srv/openswarm"), 6, "folder must lie outside of the checkout"),
        (OPENSWARM + '\n[accounts]\nx = "me@example.org"\n', 10, "accounts.x"),
    ],
)
def test_words_that_contradict_each_other_are_named_with_a_line(
    tmp_path: Path, text: str, line: int, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, text)
    assert f"box.toml:{line}: " in caught.value.message
    assert said in caught.value.message


def test_a_folder_that_a_link_leads_into_the_checkout_is_refused(tmp_path: Path) -> None:
    checkout = tmp_path / "openswarm"
    checkout.mkdir()
    (tmp_path / "runs").symlink_to(checkout)
    text = OPENSWARM.replace("/srv/openswarm", str(checkout)).replace("/tmp/box-a", str(tmp_path / "runs/box-a"))
    with pytest.raises(UsageError, match="outside of the checkout"):
        load(tmp_path, text)


def test_what_is_not_said_of_a_box_has_the_values_that_its_users_know(tmp_path: Path) -> None:
    box = load(tmp_path, OPENSWARM)
    assert box.ports.model_dump() == {
        "backend": 8326,
        "router": 20128,
        "frontend": 3026,
        "https": 18443,
        "http": 18080,
        "foreign": (8324, 3000),
    }
    assert (box.pages, box.record, box.netns, box.accounts) == ("loopback", "none", None, {})
    assert (box.profile.policy, box.profile.signed_in) == ("fresh", ())
    assert (box.product.python, box.product.model) == (None, "")
    assert (box.reference.faults, box.reference.seed, box.reference.leash_scale) == ("none", 0, 1.0)
    assert (box.has_farm, box.database_url, box.broker_url) == (False, None, None)
    limits = box.limits
    assert (limits.free_mb, limits.free_inodes, limits.clock_offset_s) == (64, 1000, 2.0)
    assert (limits.load_per_core, limits.shm_mb, limits.memory_mb, limits.zombies) == (None, None, None, None)


def test_a_foreign_port_that_the_file_gives_to_the_box_is_none_of_its_usual_ones(tmp_path: Path) -> None:
    assert load(tmp_path, OPENSWARM + "\n[ports]\nbackend = 8324\n").ports.foreign == (3000,)
    assert load(tmp_path, OPENSWARM + "\n[ports]\nforeign = []\n").ports.foreign == ()
    assert load(tmp_path, TEXT).ports.foreign == ()


def test_a_relative_interpreter_is_one_in_the_checkout(tmp_path: Path) -> None:
    python = tmp_path / "openswarm" / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    text = OPENSWARM.replace("/srv", str(tmp_path)) + '\n[product]\npython = "env/bin/python"\n'
    assert find_python(load(tmp_path, text)) == python
    elsewhere = text.replace('"env/', f'"{tmp_path}/openswarm/env/')
    assert find_python(load(tmp_path, elsewhere)) == python


@pytest.mark.parametrize("text", [TEXT, NETNS, OPENSWARM, ELECTRON])
def test_a_box_of_each_kind_is_read(tmp_path: Path, text: str) -> None:
    box = load(tmp_path, text)
    assert box.lock_name == ("bv3-stack-18326" if text is TEXT else "bv3-stack")


def test_the_run_folder_is_told_by_the_old_variable_when_the_file_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TEXT.replace('folder = "/tmp/box-a"\n', "")
    monkeypatch.setenv("OSW_BENCH_DIR", "/data/runs")
    assert load(tmp_path, text).folder == Path("/data/runs")
    assert load(tmp_path, TEXT).folder == Path("/tmp/box-a")
    monkeypatch.setenv("OSW_BENCH_DIR", "runs")
    with pytest.raises(UsageError, match="OSW_BENCH_DIR: the run folder must be an absolute path"):
        load(tmp_path, text)
    monkeypatch.delenv("OSW_BENCH_DIR")
    with pytest.raises(UsageError, match="folder: the box has no run folder") as caught:
        load(tmp_path, text)
    assert caught.value.hint is not None
    assert "write folder into the file, or set OSW_BENCH_DIR" in caught.value.hint


def test_a_box_without_a_farm_says_so_when_it_is_asked_for_its_logins(tmp_path: Path) -> None:
    assert load(tmp_path, TEXT).farm().broker_url == "redis://127.0.0.1:6379/0"
    with pytest.raises(UsageError, match="box box-a belongs to no farm"):
        load(tmp_path, OPENSWARM).farm()
