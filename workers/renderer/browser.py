"""Chromium: started through Playwright's pipe, so that it never outlives this process."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, CDPSession, Error, Playwright, ViewportSize, async_playwright

from workers.renderer.errors import RendererError, describe, tell_in_a_line
from workers.renderer.recording import Record, Recorder
from workers.renderer.rooms import Rooms

VIEWPORT: ViewportSize = {"width": 1280, "height": 800}
LAUNCH_TIMEOUT_MS = 30_000
# A stopped browser never closes; stopping us must fit into two seconds all the same.
CLOSE_TIMEOUT_S = 1.0
# Recordings of sessions that are still going on get this long at the end.
RECORD_TIMEOUT_S = 3.0
PULSE_EVERY_S = 1.0
PULSE_TIMEOUT_S = 15.0
# With a host map no name is looked up and no address asked but by the map and on loopback, whatever the port.
_NO_OTHER = "EXCLUDE 127.0.0.1, EXCLUDE localhost, MAP * ~NOTFOUND"
# A page's WebRTC would send to a bare address past every map.
_NO_UDP = "--force-webrtc-ip-handling-policy=disable_non_proxied_udp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chromium:
    """Which Chromium, and how it is started."""

    path: Path
    args: tuple[str, ...] = ()
    # Chromium's --host-resolver-rules: under them every name is answered here, so a proxy must not be asked.
    host_map: str = ""
    ignore_certificate_errors: bool = False
    # A persistent profile; None gives each session a fresh one.
    profile_folder: Path | None = None

    def arguments(self) -> list[str]:
        """Its command line, beyond what Playwright gives."""
        arguments = list(self.args)
        if self.host_map:
            arguments += [f"--host-resolver-rules={self.host_map}, {_NO_OTHER}", "--no-proxy-server", _NO_UDP]
        if self.ignore_certificate_errors:
            arguments.append("--ignore-certificate-errors")
        return arguments


@contextlib.asynccontextmanager
async def open_rooms(chromium: Chromium, recorder: Recorder, *, on_gone: Callable[[str], None]) -> AsyncIterator[Rooms]:
    """Start Chromium; `on_gone` hears why when it disconnects.

    Its rooms are fresh contexts, or with a profile folder the one context of that profile. At the end the browser
    is closed, and killed when it does not close in time.

    Raises:
        RendererError: it did not start.
    """
    if not chromium.path.is_file():
        raise RendererError(f"no Chromium at {chromium.path}", hint="give --chromium the path of its executable")
    async with async_playwright() as playwright:
        browser, profile = await _launch(playwright, chromium, recorder)
        browser.on("disconnected", lambda _: on_gone("Chromium is gone"))
        session = await browser.new_browser_cdp_session()
        group = await _find_group(session)
        pulse = asyncio.create_task(_watch_pulse(session, on_gone))

        async def open_context(is_filmed: bool) -> BrowserContext:  # noqa: FBT001 - one question, one answer
            folder = recorder.video_folder if is_filmed else None
            return profile or await browser.new_context(**_describe_context(chromium, folder))

        if recorder.video_folder is not None:
            await _try_filming(browser, _describe_context(chromium, recorder.video_folder))
        rooms = Rooms(open_context, recorder, is_shared=profile is not None)
        try:
            yield rooms
        finally:
            pulse.cancel()
            await _finish(rooms, recorder)
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await (profile or browser).close()
            except (Error, TimeoutError):
                _kill(group)


async def _try_filming(browser: Browser, described: dict[str, Any]) -> None:
    """Make sure that videos can be made, before a session counts on it.

    Raises:
        RendererError: they can't.
    """
    context = await browser.new_context(**described)
    try:
        page = await context.new_page()
    except Error as error:
        raise RendererError(
            f"no video can be made: {describe(error)}", hint="run playwright install ffmpeg, or record a trace"
        ) from error
    finally:
        await context.close()
    if page.video is not None:
        await page.video.delete()


async def _finish(rooms: Rooms, recorder: Recorder) -> None:
    if recorder.kind is Record.NONE:
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(RECORD_TIMEOUT_S):
            await rooms.finish()


def _describe_context(chromium: Chromium, video_folder: Path | None) -> dict[str, Any]:
    described: dict[str, Any] = {
        "viewport": VIEWPORT,
        "accept_downloads": False,
        "ignore_https_errors": chromium.ignore_certificate_errors,
    }
    if video_folder is not None:
        described |= {"record_video_dir": video_folder, "record_video_size": VIEWPORT}
    return described


async def _watch_pulse(session: CDPSession, on_gone: Callable[[str], None]) -> None:
    """Ask the browser for a sign of life, for ever: when Playwright's own process dies, no event tells us."""
    while True:
        await asyncio.sleep(PULSE_EVERY_S)
        try:
            async with asyncio.timeout(PULSE_TIMEOUT_S):
                await session.send("Browser.getVersion")
        except Error:
            on_gone("Chromium is gone")
        except TimeoutError:
            on_gone(f"Chromium has not answered for {PULSE_TIMEOUT_S:.0f} s")


async def _find_group(session: CDPSession) -> int | None:
    """The process group that Playwright started the browser in; None when the browser does not tell."""
    try:
        answer = await session.send("SystemInfo.getProcessInfo")
        pid = next(one["id"] for one in answer["processInfo"] if one["type"] == "browser")
        group = os.getpgid(pid)
    except (Error, StopIteration, OSError):
        return None
    return None if group == os.getpgid(0) else group


def _kill(group: int | None) -> None:
    if group is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


async def _launch(
    playwright: Playwright, chromium: Chromium, recorder: Recorder
) -> tuple[Browser, BrowserContext | None]:
    """The browser, and the context of its persistent profile if it has one."""
    options: dict[str, Any] = {
        "executable_path": chromium.path,
        "args": chromium.arguments(),
        # Playwright's default is no sandbox, whatever the arguments say; these pages are nobody's friends.
        "chromium_sandbox": "--no-sandbox" not in chromium.args,
        "timeout": LAUNCH_TIMEOUT_MS,
        "handle_sigint": False,
        "handle_sigterm": False,
        "handle_sighup": False,
    }
    try:
        if chromium.profile_folder is None:
            return await playwright.chromium.launch(**options), None
        context = _describe_context(chromium, recorder.video_folder)
        profile = await playwright.chromium.launch_persistent_context(chromium.profile_folder, **options, **context)
    except Error as error:
        raise RendererError(
            f"Chromium did not start: {tell_in_a_line(error.message)}",
            hint=f"see what {chromium.path} --headless --dump-dom about:blank says",
        ) from error
    if profile.browser is None:
        raise RendererError("Playwright gives no browser with a persistent profile", hint="update Playwright")
    return profile.browser, profile
