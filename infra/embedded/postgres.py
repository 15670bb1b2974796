"""PostgreSQL on loopback and a socket, with SCRAM passwords; fsync and synchronous_commit on.

As root it runs as an unprivileged user, with its data and a copy of its programs outside of every
private folder (docs/adr/0003-postgres-as-root.md).
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psutil

from broker.errors import ServiceError
from infra.embedded.binaries import PostgresInstallation, find_postgres
from infra.embedded.credentials import Credentials
from infra.embedded.documents import read_document, write_document
from infra.embedded.files import SPACE_NEEDED_AGAIN_BYTES, SPACE_NEEDED_BYTES, FarmFiles, check_space
from infra.embedded.ports import HOST, PortBook
from infra.embedded.processes import MARK, Account, Launch, identify
from infra.embedded.services import Say, plain_environment
from infra.embedded.sockets import choose_folder, make_folder

# The farm's own role: it may make the boxes' logins; nobody is superuser over the network.
ROLE = "bv3"
DATABASE = "bv3"

_SYSTEM_DATA = Path("/var/lib/bv3")
_COPY_BYTES = 100_000_000

_CONFIGURATION = """\
listen_addresses = '{host}'
port = {port}
unix_socket_directories = {sockets}
max_connections = 200
shared_buffers = '64MB'
max_wal_size = '256MB'
fsync = on
synchronous_commit = on
full_page_writes = on
password_encryption = 'scram-sha-256'
timezone = 'UTC'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] %u '
jit = off
"""
# A socket that only one user can reach needs the password too: a box has a login that may do little.
_ACCESS = f"host all all {HOST}/32 scram-sha-256\nlocal all all scram-sha-256\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """The farm's one PostgreSQL."""

    files: FarmFiles
    credentials: Credentials
    ports: PortBook
    # Reports what takes seconds, before it begins.
    say: Say

    name: str = "postgres"
    needs: tuple[str, ...] = ()
    start_timeout_s: float = 60.0
    # After a crash it refuses for as long as a process of its predecessor still has the shared memory.
    attempts: int = 6
    # Fast shutdown: clients are cut off, nothing committed is lost.
    stop_signal: int = signal.SIGINT
    stop_timeout_s: float = 60.0
    came_up: str = "ready"
    remark: str = ""

    @property
    def url(self) -> str:
        """The address with the password in it."""
        return self.url_for(ROLE, self.credentials.postgres)

    def url_for(self, role: str, password: str) -> str:
        """The address as another role uses it."""
        return f"postgresql+psycopg://{role}:{password}@{HOST}:{self.ports.kept(self.name)}/{DATABASE}"

    def socket_url_for(self, role: str, password: str) -> str:
        """The address as a role uses it in another network namespace of this machine."""
        where = f"host={quote(str(self._sockets), safe='')}&port={self.ports.kept(self.name)}"
        return f"postgresql+psycopg://{role}:{password}@/{DATABASE}?{where}"

    @property
    def socket_url(self) -> str:
        """The farm's own role's, with the password in it."""
        return self.socket_url_for(ROLE, self.credentials.postgres)

    @property
    def _sockets(self) -> Path:
        # nobody can't reach what is below root's private folders
        if os.geteuid() == 0:
            return outside_folder(self.files.home.root, self.credentials.farm_id) / "sockets"
        return choose_folder(self.files)

    def prepare(self, *, may_move: bool) -> Launch:
        """The database cluster is there, whole, with this start's configuration."""
        port = self.ports.assign(self.name) if may_move else self.ports.kept(self.name)
        account = unprivileged_account() if os.geteuid() == 0 else None
        installation = find_postgres()
        if account is None:
            folder = self.files.data(self.name)
            folder.mkdir(mode=0o700, exist_ok=True)
            make_folder(self.files)
        else:
            installation = copy_programs(installation, self.say)
            folder = self._folder_outside(account)
        mark = f"{self.credentials.farm_id}/{self.name}"
        cluster = Cluster(folder=folder / "data", bin=installation.bin, account=account, mark=mark)
        if not cluster.is_built:
            self.say("making the database …")
        cluster.build(self.credentials.postgres)
        cluster.configure(_CONFIGURATION.format(host=HOST, port=port, sockets=_quote_folder(self._sockets)))
        cluster.void_stale_locks(self._sockets)
        argv = (str(installation.bin / "postgres"), "-D", str(cluster.folder))
        return Launch(argv=argv, environment=plain_environment(), folder=cluster.folder, account=account)

    def is_ready(self) -> bool:
        """Whether our role can log in and ask."""
        import psycopg  # noqa: PLC0415 - the commands that only look at files do without it

        conninfo = self.url.replace("+psycopg", "")
        try:
            with psycopg.connect(conninfo, connect_timeout=2) as connection:
                connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def _folder_outside(self, account: Account) -> Path:
        folder = outside_folder(self.files.home.root, self.credentials.farm_id)
        _make_open_folder(_SYSTEM_DATA)
        remove_orphans(_SYSTEM_DATA)
        folder.mkdir(mode=0o700, exist_ok=True)
        os.chown(folder, account.uid, account.gid)
        check_space(folder, SPACE_NEEDED_AGAIN_BYTES if (folder / "data").exists() else SPACE_NEEDED_BYTES)
        sockets = folder / "sockets"
        sockets.mkdir(mode=0o700, exist_ok=True)
        os.chown(sockets, account.uid, account.gid)
        # For `remove_orphans`, and for a person who finds the folder and asks whose it is.
        write_document(folder / "home.json", {"home": str(self.files.home.root.resolve())})
        return folder


def outside_folder(home: Path, farm_id: str) -> Path:
    """Where root's farm keeps its database: by home and farm, so that a new home has a new one."""
    digest = hashlib.sha256(f"{home.resolve()}\0{farm_id}".encode()).hexdigest()
    return _SYSTEM_DATA / digest[:16]


def remove_orphans(system_data: Path) -> None:
    """No folder is left whose home was temporary and has gone, as that of a test has.

    Another home that is gone may be on a disk that is not there just now: its data stays.
    """
    temporary = Path(tempfile.gettempdir()).resolve()
    for note in system_data.glob("*/home.json"):
        home = Path(str((read_document(note) or {}).get("home", "/")))
        serves = (note.parent / "data" / "postmaster.pid").exists()
        if home.is_relative_to(temporary) and not home.exists() and not serves:
            shutil.rmtree(note.parent, ignore_errors=True)


def unprivileged_account() -> Account:
    """The system's `nobody`. Raises ServiceError when there is none."""
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError as error:
        raise ServiceError(
            "PostgreSQL refuses to run as root and there is no user nobody to run it",
            hint="run bv3 as an ordinary user",
        ) from error
    return Account(uid=entry.pw_uid, gid=entry.pw_gid)


def copy_programs(installation: PostgresInstallation, say: Say) -> PostgresInstallation:
    """A copy that any user may execute, once per version of the wheel.

    The environment may lie under /root, and opening that to others is not ours to do.
    """
    stamp = (installation.bin / "postgres").stat()
    name = f"postgres-{installation.version}-{stamp.st_size:x}"
    target = _SYSTEM_DATA / name
    copied = PostgresInstallation(
        package=target / installation.package.name,
        libraries=target / installation.libraries.name,
        version=installation.version,
    )
    if target.exists():
        return copied
    say("copying PostgreSQL's programs …")
    _make_open_folder(_SYSTEM_DATA)
    check_space(_SYSTEM_DATA, _COPY_BYTES)
    beside = _SYSTEM_DATA / f".{name}.{os.getpid()}"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(mode=0o755)
    shutil.copytree(installation.package / "pginstall", beside / installation.package.name / "pginstall")
    if installation.libraries.exists():
        shutil.copytree(installation.libraries, beside / installation.libraries.name)
    _open_copy(beside)
    try:
        beside.rename(target)
    except OSError:  # another farm of root's was faster
        shutil.rmtree(beside)
    return copied


def _open_copy(folder: Path) -> None:
    # Only what we have just copied: a umask of 077 must not lock the unprivileged user out.
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)


def _make_open_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, mode=0o755)
        folder.chmod(0o755)
    except FileExistsError:
        return
    except OSError as error:
        raise ServiceError(
            f"can't make {folder}: {error.strerror}",
            hint="PostgreSQL can't run as root from a private folder; run bv3 as an ordinary user",
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One database cluster on disk."""

    folder: Path
    bin: Path
    account: Account | None
    # By which a left-over initdb is found and ended.
    mark: str

    @property
    def is_built(self) -> bool:
        """Whether it is there, whole."""
        return (self.folder / "PG_VERSION").exists()

    def build(self, password: str) -> None:
        """The cluster is there with our role and database in it; built beside and renamed when whole."""
        if self.is_built:
            self._check_version()
            return
        for half in self.folder.parent.glob("data.new-*"):  # what an interrupted initdb left
            shutil.rmtree(half, ignore_errors=True)
        # A name of its own: an initdb whose keeper was killed may still be at work on another.
        beside = Path(tempfile.mkdtemp(prefix="data.new-", dir=self.folder.parent))
        self._own(beside)
        self._run(
            "initdb", "--pgdata", str(beside), "--username=postgres", "--auth=reject",
            "--encoding=UTF8", "--locale=C", "--no-instructions",
        )  # fmt: skip
        # In single-user mode, so that no superuser ever needs a password.
        self._run("postgres", "--single", "-D", str(beside), "postgres", text=_founding(password))
        beside.rename(self.folder)

    def configure(self, configuration: str) -> None:
        """This start's configuration is in place."""
        for name, text in (("postgresql.conf", configuration), ("pg_hba.conf", _ACCESS)):
            beside = self.folder / f"{name}.new"
            beside.write_text(text, "utf-8")
            beside.chmod(0o600)
            self._own(beside)
            beside.replace(self.folder / name)

    def void_stale_locks(self, sockets: Path) -> None:
        """Lock files that a crash left do not hinder the start any more.

        PostgreSQL takes any living process of the same user with that pid for its predecessor,
        and an unreaped one too. The file itself must stay: by it PostgreSQL sees whether a
        process of the predecessor still has the shared memory. It does not mind its parent's pid.
        """
        lock = self.folder / "postmaster.pid"
        try:
            pid, *rest = lock.read_text("utf-8").splitlines(keepends=True)
        except (FileNotFoundError, ValueError):
            return
        if not self._is_served_by(int(pid)):
            lock.write_text("".join([f"{os.getpid()}\n", *rest]), "utf-8")
            for left in sockets.glob(".s.PGSQL.*.lock"):
                left.unlink(missing_ok=True)

    def _is_served_by(self, pid: int) -> bool:
        if identify(pid) is None:
            return False
        try:
            return str(self.folder) in psutil.Process(pid).cmdline()
        except psutil.Error:
            return False

    def _check_version(self) -> None:
        of_data = (self.folder / "PG_VERSION").read_text("ascii").strip()
        of_program = self._run("postgres", "--version").split()[2].partition(".")[0]
        if of_data != of_program:
            raise ServiceError(
                f"the database in {self.folder} is of PostgreSQL {of_data}, the program is {of_program}",
                hint="set BV3_HOME to a new folder, or install the old version to read the old data",
            )

    def _own(self, path: Path) -> None:
        if self.account is not None:
            os.chown(path, self.account.uid, self.account.gid)

    def _run(self, program: str, *arguments: str, text: str = "") -> str:
        done = subprocess.run(
            [self.bin / program, *arguments],
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            cwd="/",
            env={**plain_environment(), MARK: self.mark},
            user=self.account.uid if self.account else None,
            group=self.account.gid if self.account else None,
            extra_groups=[] if self.account else None,
        )
        # Single-user mode exits 0 after a failed statement too.
        if done.returncode != 0 or "ERROR:" in done.stderr:
            last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
            raise ServiceError(f"PostgreSQL's {program} failed: {last}", hint=f"its folder is {self.folder}")
        return done.stdout


def _quote_folder(folder: Path) -> str:
    # A list of names, each in double quotes, within a string in single ones.
    name = str(folder).replace('"', '""')
    return "'" + f'"{name}"'.replace("\\", "\\\\").replace("'", "''") + "'"


def _founding(password: str) -> str:
    # One statement a line. The password is URL-safe: it holds no quote.
    return (
        f"CREATE ROLE {ROLE} LOGIN CREATEROLE CREATEDB PASSWORD '{password}'\nCREATE DATABASE {DATABASE} OWNER {ROLE}\n"
    )
