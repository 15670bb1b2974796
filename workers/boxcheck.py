"""This machine, judged by a box file, before anything of the box runs. Nothing is started, nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import sqlalchemy as sa

from broker.errors import Bv3Error, ServiceError, UsageError
from broker.settings import load_settings, read_manifest
from broker.suites.loader import load_suite, suite_names
from workers import conditions, machine
from workers.boxfile import BoxFile
from workers.conditions import Condition
from workers.netns import enter
from workers.preflight import list_machine_conditions
from workers.processes import ProcessBook
from workers.stack.checkout import find_python, inspect_checkout

_HERE = ("127.0.0.1", "localhost", "::1")


def check_box(box: BoxFile, environment: Mapping[str, str] = os.environ) -> tuple[Condition, ...]:
    """What was looked at, and found. This process is in the box's network namespace afterwards, if it could get there.

    Call it before any thread is started.
    """
    namespace = tuple(_look_at_namespace(box))
    is_there = all(item.answer is conditions.Answer.OK for item in namespace)
    looks = (
        _look_at_folder(box),
        _look_at_ports(box) if is_there else (conditions.could_not_look("ports", "they are the namespace's"),),
        _look_at_browser(box),
        _look_at_checkout(box),
        _look_at_accounts(box, environment),
        _look_at_farm(box),
    )
    return (*namespace, *(item for look in looks for item in look))


def _look_at_namespace(box: BoxFile) -> Iterator[Condition]:
    if box.netns is None:
        return
    try:
        enter(box.netns)
    except UsageError as error:
        yield conditions.refuse("namespace", _join(error))
    else:
        yield conditions.hold("namespace", f"{box.netns} is there")


def _look_at_folder(box: BoxFile) -> Iterator[Condition]:
    there = next(folder for folder in (box.folder, *box.folder.parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        yield conditions.refuse("folder", f"{there} is no folder that can be written; name another one")
        return
    yield conditions.hold("folder", f"{box.folder} {'is there' if there == box.folder else 'can be made'}")
    yield from list_machine_conditions(there, box.limits)


def _look_at_ports(box: BoxFile) -> Iterator[Condition]:
    ports = box.list_own_ports()
    listeners = machine.list_listeners({*ports.values(), *box.ports.foreign})
    recorded = ProcessBook(folder=box.folder).read() if box.folder.is_dir() else ()
    own = [item for item in recorded if item.is_alive()]
    for process in own:
        listeners = machine.choose_foreign(listeners, process.pid)
    held = {item.port: machine.describe_holders([item]) for item in listeners}
    taken = [f"{port} ({name}) by {held[port]}" for name, port in ports.items() if port in held]
    if taken:
        yield conditions.refuse("ports", f"taken: {', '.join(taken)}")
    else:
        said = ", ".join(f"{name} {port}" for name, port in ports.items())
        yield conditions.hold("ports", f"{said}: {'this box is up' if own else 'free'}")
    foreign = {port: who for port, who in held.items() if port in box.ports.foreign}
    yield conditions.judge_foreign(foreign, box.ports.foreign)


def _look_at_browser(box: BoxFile) -> Iterator[Condition]:
    if box.renderer != "playwright":
        return
    try:
        browser = Path(read_manifest(load_settings()).chromium)
    except Bv3Error as error:
        yield conditions.refuse("browser", _join(error))
        return
    if os.access(browser, os.X_OK):
        yield conditions.hold("browser", str(browser))
    else:
        yield conditions.refuse("browser", f"{browser} is not there any more; run ./bv3 setup --again")


def _look_at_checkout(box: BoxFile) -> Iterator[Condition]:
    if box.checkout is None:
        return
    problems = inspect_checkout(box)
    yield from (conditions.refuse("checkout", str(problem)) for problem in problems)
    if not problems:
        yield conditions.hold("checkout", f"{box.checkout}, its environment {find_python(box)}")


def _look_at_accounts(box: BoxFile, environment: Mapping[str, str]) -> Iterator[Condition]:
    """Names only: what an account is called is nobody's business here."""
    known = {task.site for name in suite_names() for task in load_suite(name).tasks}
    for site, variable in box.accounts.items():
        said = f"{site} by {variable}"
        if environment.get(variable):
            yield conditions.hold("accounts", f"{said}, which is set")
        else:
            yield conditions.refuse("accounts", f"{said}, which is not set in this environment")
    for site in sorted({*box.accounts, *box.profile.signed_in} - known):
        yield conditions.could_not_look("sites", f"no suite has a site {site}")


def _look_at_farm(box: BoxFile) -> Iterator[Condition]:
    if not box.has_farm:
        yield conditions.not_looked_at("farm", "the box belongs to none; bv3-farm admit NAME gives it its logins")
        return
    login = box.farm()
    if box.netns is not None and (near := [url for url in (login.database_url, login.broker_url) if _is_here(url)]):
        said = f"{len(near)} of its addresses are on the host's loopback, which {box.netns} does not share"
        yield conditions.refuse("farm", f"{said}; bv3-farm admit {box.name} --netns {box.netns} writes sockets")
        return
    try:
        _ask_database(login.database_url)
    except ServiceError as error:
        yield conditions.could_not_look("farm", f"it does not answer now: {error.message}")
    else:
        yield conditions.hold("farm", "its database answers, with the box's login")


def _is_here(url: str) -> bool:
    return urlsplit(url).hostname in _HERE


def _ask_database(url: str) -> None:
    """The box's login is taken. Raises DatabaseError."""
    from broker.store.engine import begin, make_engine  # noqa: PLC0415  # a second of imports

    with begin(make_engine(url, application="bv3-box-check", pooled=False)) as connection:
        connection.execute(sa.text("select 1"))


def _join(error: Bv3Error) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message
