"""A page of our own to write on: one text area and a button, served on loopback for as long as it is needed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_MOST_BYTES = 100_000
# More than 200 characters, so that the product sees at once that the page is there (contract 5.2).
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page for checking a box</title></head>
<body><h1>A page for checking a box</h1>
<p>This page is served by bv3 on this very machine, for one check of one box, and is gone when the check is over.
Whatever is written here and posted goes to that check, at the address of this page on the loopback interface,
and nowhere else: no account is used, nobody reads it, and nothing leaves the machine.</p>
<form id="form"><textarea aria-label="Write a post" rows="5" cols="60"></textarea>
<button type="submit">Post</button></form>
<h2>Posted here</h2><ul id="posted"></ul>
<script>
document.getElementById("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const area = document.querySelector("textarea");
  const text = area.value;
  const answer = await fetch(location.href, {method: "POST", body: JSON.stringify({text})});
  if (!answer.ok) return;
  area.value = "";
  const item = document.createElement("li");
  item.textContent = text;
  document.getElementById("posted").append(item);
});
</script></body></html>
"""


class HealthPage(ThreadingHTTPServer):
    """The page's server; `posts` is what was posted, in order."""

    daemon_threads = True

    def __init__(self, nonce: str) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.path = f"/check-{nonce}"
        self.posts: list[str] = []

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://127.0.0.1:{self.server_port}{self.path}"


class _Answer(BaseHTTPRequestHandler):
    server: HealthPage
    timeout = 10.0

    def do_GET(self) -> None:  # the name that http.server looks for
        """The page, or nothing."""
        if self.path != self.server.path:
            self.send_error(404)
            return
        self._send(_PAGE.encode(), "text/html; charset=utf-8")

    def do_POST(self) -> None:  # the name that http.server looks for
        """What was posted is noted."""
        length = int(self.headers.get("Content-Length") or 0)
        if self.path != self.server.path or length > _MOST_BYTES:
            self.send_error(404)
            return
        try:
            self.server.posts.append(str(json.loads(self.rfile.read(length))["text"]))
        except (ValueError, KeyError, TypeError):
            self.send_error(400)
            return
        self._send(b"{}", "application/json")

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not a word: stderr is for the person who asked."""


@contextmanager
def serve_page(nonce: str) -> Iterator[HealthPage]:
    """The page is there within the block, on a port of the system's choice."""
    with HealthPage(nonce) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
