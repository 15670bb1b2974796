"""Nothing leaves the machine: sweeps where there is loopback alone, and what their browser tried by its own log."""

from __future__ import annotations

import http.server
import ipaddress
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Error, Page, sync_playwright

from broker.settings import load_settings, read_manifest
from workers.renderer.browser import Chromium

ROOT = Path(__file__).parents[2]
# A network of its own with loopback and no other way, for a command and all that it starts.
ALONE = ("unshare", "--net", "--", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
# Chromium asks the system whether there is a way to this address, for IPv6; a connected UDP socket sends nothing.
PROBE = "[2001:4860:4860::8888]:443"
ELSEWHERE = """async () => {
  const asks = [
    fetch("https://fetch.elsewhere.test/x"),
    fetch("https://203.0.113.7/x"),
    fetch("http://port.elsewhere.test:8080/x"),
    fetch("http://203.0.113.8:8080/x"),
    new Promise((resolve) => { new WebSocket("wss://socket.elsewhere.test/").onclose = resolve; }),
    import("https://module.elsewhere.test/x.js"),
  ];
  navigator.sendBeacon("https://beacon.elsewhere.test/b", "x");
  document.head.append(Object.assign(document.createElement("link"),
    { rel: "dns-prefetch", href: "//prefetch.elsewhere.test" }));
  document.head.append(Object.assign(document.createElement("link"),
    { rel: "preconnect", href: "https://preconnect.elsewhere.test" }));
  const turn = { urls: "turn:203.0.113.10:3478?transport=tcp", username: "a", credential: "b" };
  const servers = [{ urls: "stun:stun.elsewhere.test:3478" }, { urls: "stun:203.0.113.9:3478" }, turn];
  const call = new RTCPeerConnection({ iceServers: servers });
  call.createDataChannel("x");
  const gathered = new Promise((resolve) => {
    call.onicegatheringstatechange = () => call.iceGatheringState === "complete" && resolve();
  });
  await call.setLocalDescription(await call.createOffer());
  await Promise.allSettled([...asks, gathered]);
}"""


def why_not() -> str:
    """What this machine lacks for a network of its own; empty when it has all."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return "the programs unshare and ip are not installed"
    made = subprocess.run([*ALONE, "true"], capture_output=True, text=True, check=False)
    return f"this machine allows no network namespaces: {made.stderr.strip()}" if made.returncode else ""


class NetLog:
    """What a browser did on the network, as its own log has it; also of a browser that was killed."""

    def __init__(self, path: Path) -> None:
        text = path.read_text("utf-8", "replace").rstrip().rstrip(",")
        try:
            plain = json.loads(text)
        except ValueError:
            # the last line may be half there
            plain = json.loads(text[: text.rindex("\n")].rstrip().rstrip(",") + "]}")
        names = {number: name for name, number in plain["constants"]["logEventTypes"].items()}
        self.events = [(names[event["type"]], event.get("params") or {}) for event in plain["events"]]

    def _all(self, name: str, key: str) -> set[str]:
        return {str(params[key]) for event, params in self.events if event == name and key in params}

    @property
    def connected(self) -> set[str]:
        """Addresses that a TCP connection was tried to."""
        return self._all("TCP_CONNECT_ATTEMPT", "address")

    @property
    def sent_to(self) -> set[str]:
        """Addresses that a datagram was sent to, and those that a socket for datagrams was tied to."""
        return self._all("UDP_BYTES_SENT", "address") | (self._all("UDP_CONNECT", "address") - {PROBE})

    @property
    def looked_up(self) -> set[str]:
        """What was asked of the resolver, once the host rules had had their say."""
        return self._all("HOST_RESOLVER_MANAGER_REQUEST", "host")

    @property
    def asked_dns(self) -> bool:
        """Whether the system or a name server was asked for any name."""
        return any(
            event.startswith(("HOST_RESOLVER_SYSTEM_TASK", "HOST_RESOLVER_DNS_TASK", "DNS_TRANSACTION"))
            for event, _ in self.events
        )

    @property
    def urls(self) -> set[str]:
        return self._all("URL_REQUEST_START_JOB", "url") | self._all("CORS_REQUEST", "url")


def is_loopback(address: str) -> bool:
    host = re.sub(r":\d+$", "", address).strip("[]")
    return ipaddress.ip_address(host).is_loopback


def is_answered_here(asked: str) -> bool:
    """Whether the host rules have made loopback, or nothing at all, of this name."""
    host = re.sub(r":\d+$", "", asked.partition("://")[2] or asked)
    return host in {"127.0.0.1", "localhost", "~notfound", "~NOTFOUND"}


def assert_nothing_left(log: NetLog) -> None:
    assert {address for address in log.connected | log.sent_to if not is_loopback(address)} == set()
    assert {name for name in log.looked_up if not is_answered_here(name)} == set()
    assert not log.asked_dns


WHY_NOT = why_not()


@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "can be made")
@pytest.mark.xdist_group("farm")
@pytest.mark.timeout(480)
def test_sweeps_of_several_suites_run_where_there_is_loopback_alone(farm: Any, tmp_path: Path) -> None:
    net_log = tmp_path / "net.json"
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    own = load_settings().runtime
    facts = json.loads((own / "manifest.json").read_text())
    facts["chromium_args"].append(f"--log-net-log={net_log}")
    (runtime / "manifest.json").write_text(json.dumps(facts))

    sweeps = ("c7 --n 1 --site x", "anon --n 1 --site onlinegdb", "shapes --n 1 --site shape-cross-origin-frame")
    cli, scheduler = farm.command("infra.cli"), " ".join(farm.command("scheduler.cli"))
    each = " && ".join(f"{scheduler} {sweep}" for sweep in sweeps)
    script = f"{' '.join(cli)} up --boxes 1 && {each}; code=$?; {' '.join(cli)} down; exit $code"
    done = subprocess.run(
        [*ALONE, "sh", "-c", script],
        env={**farm.environment, "BV3_RUNTIME": str(runtime), "BV3_LEASH_SCALE": "0.3"},
        cwd=farm.results,
        capture_output=True,
        text=True,
        timeout=450,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    files = sorted((farm.results / "results").glob("*.jsonl"))
    rows = [json.loads(line) for path in files for line in path.read_text("utf-8").splitlines()]
    assert {row["site"] for row in rows} == {"x", "onlinegdb", "shape-cross-origin-frame"}

    log = NetLog(net_log)
    assert any("onlinegdb" in url for url in log.urls), "the log is of the browser that ran the sweeps"
    assert log.connected, "the sites were asked"
    assert_nothing_left(log)
    # every page that was asked for, also by the browser itself, is one of the sites' or an advertisement's
    assert {url for url in log.urls if re.search(r"google|gstatic|gvt1|chromium\\.org", url)} == set()


@contextmanager
def serve_sites(folder: Path, http_port: int, https_port: int) -> Iterator[None]:
    editors = read_manifest(load_settings()).editors
    ports = [f"--http-port={http_port}", f"--https-port={https_port}"]
    command = [sys.executable, "-P", "-m", "infra.reference", "sites", *ports]
    with (folder / "sites.log").open("wb") as output:
        process = subprocess.Popen(
            [*command, f"--editors={editors}", f"--state={folder / 'state'}"], stdout=output, stderr=output
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture
def open_page(tmp_path: Path) -> Iterator[Callable[[str], Page]]:
    """A page in a Chromium with the renderer's own arguments for this host map, whose log is complete at the end."""
    manifest = read_manifest(load_settings())
    if manifest.playwright_node:
        os.environ["PLAYWRIGHT_NODEJS_PATH"] = manifest.playwright_node
    with sync_playwright() as playwright:

        def launch(host_map: str) -> Page:
            args = (*manifest.chromium_args, f"--log-net-log={tmp_path / 'net.json'}")
            chromium = Chromium(
                path=Path(manifest.chromium), args=args, host_map=host_map, ignore_certificate_errors=True
            )
            browser = playwright.chromium.launch(
                executable_path=manifest.chromium,
                args=chromium.arguments(),
                env={**os.environ, **manifest.chromium_env},
            )
            return browser.new_page()

        yield launch


class _Hostile(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>Hostile</title><p>x")

    def log_message(self, *_: object) -> None:
        """Nothing is said about a request."""


@pytest.fixture
def hostile() -> Iterator[str]:
    """A page on loopback without the sites' policy, which would forbid it most of what it does."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Hostile) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.timeout(120)
def test_page_that_asks_elsewhere_in_every_way_reaches_nothing_and_is_listed(
    open_page: Callable[[str], Page],
    hostile: str,
    tmp_path: Path,
    free_port: Callable[[], int],
    wait_until: Callable[..., None],
) -> None:
    http_port, https_port = free_port(), free_port()
    address = f"http://127.0.0.1:{http_port}"

    def is_up() -> bool:
        try:
            return httpx.get(f"{address}/healthz", trust_env=False).is_success
        except httpx.HTTPError:
            return False

    def strangers() -> dict[str, int]:
        listed: dict[str, int] = httpx.get(f"{address}/__strangers", trust_env=False).json()["strangers"]
        return listed

    with serve_sites(tmp_path, http_port, https_port):
        wait_until(is_up, "the sites", 30)
        assert strangers() == {}
        page = open_page(f"MAP *:443 127.0.0.1:{https_port}, MAP *:80 127.0.0.1:{http_port}")
        # a page without the sites' policy, which alone would forbid most of it
        page.goto(hostile)
        page.evaluate(ELSEWHERE)
        with pytest.raises(Error, match="ERR_NAME_NOT_RESOLVED"):
            page.goto("http://port.elsewhere.test:8080/")
        wanted = {f"{name}.elsewhere.test" for name in ("fetch", "socket", "beacon", "module")} | {"203.0.113.7"}
        wait_until(lambda: wanted <= strangers().keys(), "all that was asked of hosts that no site owns", 30)
        assert page.context.browser is not None
        page.context.browser.close()
    log = NetLog(tmp_path / "net.json")
    assert any("fetch.elsewhere.test" in url for url in log.urls)
    assert_nothing_left(log)
