"""A real Chromium without a window, driven over the Chrome DevTools protocol."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from cortado.tests import needs
from cortado.tests.clients.browser import Watched, begun, running

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--mute-audio",
    "--autoplay-policy=no-user-gesture-required",
    "--remote-debugging-port=0",
)


# Whether a take has ended.
HEARD = "document.body.dataset.state === 'idle' && document.querySelector('.caption')"


class Page(Watched):
    """One page of the browser."""

    def __init__(self, socket: ClientConnection, session: str) -> None:
        self._socket = socket
        self._session = session
        self._last = 0
        self.messages: list[str] = []  # of the page's console, and exceptions
        self.asked: list[str] = []  # the kinds of the dialogs, each of which is accepted

    def command(self, method: str, **parameters: object) -> dict[str, Any]:
        """Return the browser's answer to one command of the protocol."""
        number = self._send(method, parameters)
        while True:
            answer = json.loads(self._socket.recv(timeout=60))
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])
            self._note(answer)

    def _send(self, method: str, parameters: dict[str, object]) -> int:
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        return self._last

    def _note(self, event: dict[str, Any]) -> None:
        details = event.get("params", {})
        if event.get("method") == "Page.javascriptDialogOpening":
            self.asked.append(details["type"])
            self._send("Page.handleJavaScriptDialog", {"accept": True})
        if event.get("method") == "Runtime.exceptionThrown":
            thrown = details["exceptionDetails"]
            self.messages.append(thrown.get("exception", {}).get("description", thrown["text"]))
        elif event.get("method") == "Log.entryAdded":
            entry = details["entry"]
            self.messages.append(
                f"{entry['level']}: {entry['text']} {entry.get('url', '')}".strip()
            )

    def open(self, url: str) -> None:
        """Go to `url` and wait until its scripts have run."""
        for domain in ("Page", "Runtime", "Log"):
            self.command(f"{domain}.enable")
        self.command("Emulation.setFocusEmulationEnabled", enabled=True)
        self.command("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def open_first(self, url: str) -> None:
        """Go to `url` as somebody who was never there, with a microphone that is allowed."""
        self.answer("microphone")
        self.open(url)
        self.evaluate("localStorage.clear()")
        self.open(f"{url}&again")
        self.messages.clear()

    def evaluate(self, expression: str) -> Any:
        """Return the JSON value of a JavaScript expression; a promise is waited for."""
        answer = self.command(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
            userGesture=True,
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key, such as Tab, Enter or a space."""
        codes = {"Enter": (13, "\r"), " ": (32, " "), "Tab": (9, ""), "Escape": (27, "")}
        codes |= {"ArrowLeft": (37, ""), "Home": (36, ""), "End": (35, "")}
        code, text = codes[key]
        for kind in ("keyDown", "keyUp"):
            self.command(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                text=text if kind == "keyDown" else "",
            )

    def hear_file(self, path: Path) -> None:
        """Open a file as a person does, and wait until it was heard."""
        self.open_file(path)
        self.wait_for(HEARD)

    def open_file(self, *paths: Path) -> None:
        """Choose files as a person does in the browser's window."""
        document = self.command("DOM.getDocument")["root"]["nodeId"]
        found = self.command("DOM.querySelector", nodeId=document, selector="#file")
        self.command("DOM.setFileInputFiles", nodeId=found["nodeId"], files=[*map(str, paths)])

    def look(
        self, scheme: str = "light", width: int = 1100, height: int = 760, density: int = 2
    ) -> None:
        """Set the colour scheme, the size of the window, and the pixels of the screen in each."""
        self.command(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=density,
            mobile=False,
        )

    def screenshot(self) -> bytes:
        """Return a PNG of what is shown."""
        return base64.b64decode(self.command("Page.captureScreenshot", format="png")["data"])

    def answer(self, name: str, setting: str = "granted") -> None:
        """Answer every question for a permission with "granted" or "denied"."""
        self.command("Browser.setPermission", permission={"name": name}, setting=setting)


@contextmanager
def chromium(profile: Path, *flags: str) -> Iterator[Page]:
    """Run a Chromium with the empty folder `profile`, and give its one page."""
    path = needs.CHROMIUM
    assert path, "no Chromium here"
    log = profile / "chromium.log"
    command = [path, *FLAGS, *flags, f"--user-data-dir={profile}", "about:blank"]
    with running(command, log) as process:
        endpoint = begun(process, log, lambda: _endpoint(profile))
        # Nobody reads between two commands, so nothing may wait for that: neither events nor pings.
        with connect(endpoint, max_size=2**28, max_queue=None, ping_interval=None) as socket:
            browser = Page(socket, "")
            pages = browser.command("Target.getTargets")["targetInfos"]
            target = next(each["targetId"] for each in pages if each["type"] == "page")
            attached = browser.command("Target.attachToTarget", targetId=target, flatten=True)
            yield Page(socket, attached["sessionId"])


def _endpoint(profile: Path) -> str | None:
    """Return where the browser says that it is driven from, as soon as it does."""
    stated = profile / "DevToolsActivePort"
    lines = stated.read_text().splitlines() if stated.exists() else []
    return f"ws://127.0.0.1:{lines[0]}{lines[1]}" if len(lines) == 2 else None
