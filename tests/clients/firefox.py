"""A real Firefox without a window, driven over WebDriver BiDi."""

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from cortado.tests import needs
from cortado.tests.clients.browser import Watched, begun, running

PREFERENCES = {
    "media.navigator.permission.disabled": True,  # nobody is there to be asked
    "media.autoplay.default": 0,
    "media.autoplay.blocking_policy": 0,
    "app.update.disabledForTesting": True,
    "browser.aboutwelcome.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,none",
    "toolkit.telemetry.reportingpolicy.firstRun": False,
}
# One sink that nobody hears, and one whose sound is the microphone.
SINKS = ("quiet", "microphone")


class Sound:
    """A sound server of its own, whose microphone hears what is played."""

    def __init__(self, server: str) -> None:
        self.environment = {**os.environ, "PULSE_SERVER": server}

    def play(self, recording: Path) -> None:
        """Play a wav file into the microphone, to its end."""
        command = ["paplay", "--device", SINKS[1], str(recording)]
        subprocess.run(command, env=self.environment, check=True, timeout=120)


@contextmanager
def sound(folder: Path) -> Iterator[Sound]:
    """Run PulseAudio in an empty folder, without any device."""
    server = f"unix:{folder / 'native'}"
    modules = [f"module-null-sink sink_name={name}" for name in SINKS]
    modules.append(f"module-native-protocol-unix socket={folder / 'native'} auth-anonymous=1")
    command = ["pulseaudio", "-n", "--daemonize=no", "--exit-idle-time=-1", "--use-pid-file=no"]
    command += [part for module in modules for part in ("--load", module)]
    home = {name: str(folder) for name in ("HOME", "XDG_RUNTIME_DIR", "PULSE_RUNTIME_PATH")}
    found, log = Sound(server), folder / "pulseaudio.log"
    choose = ["pactl", "set-default-source", f"{SINKS[1]}.monitor"]

    def chosen() -> str | None:
        done = subprocess.run(choose, env=found.environment, capture_output=True, check=False)
        return None if done.returncode else server

    with running(command, log, os.environ | home) as process:
        begun(process, log, chosen)
        yield found


class Page(Watched):
    """One page of the browser."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._last = socket, 0
        self.messages: list[str] = []  # warnings and errors of the page's console
        self.command("session.new", capabilities={})
        self.command("session.subscribe", events=["log.entryAdded"])
        self._context = self.command("browsingContext.getTree")["contexts"][0]["context"]

    def command(self, method: str, **parameters: object) -> dict[str, Any]:
        """Return the browser's answer to one command of the protocol."""
        self._last += 1
        self._socket.send(json.dumps({"id": self._last, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv(timeout=60))
            if answer.get("id") == self._last:
                if answer["type"] == "error":
                    raise RuntimeError(f"{method}: {answer['message']}")
                return dict(answer["result"])
            entry = answer.get("params", {})
            if answer.get("method") == "log.entryAdded" and entry["level"] != "info":
                self.messages.append(f"{entry['level']}: {entry['text']}")

    def open(self, url: str) -> None:
        """Go to `url` and wait until its scripts have run."""
        self.command("browsingContext.navigate", context=self._context, url=url, wait="complete")

    def evaluate(self, expression: str) -> Any:
        """Return the JSON value of a JavaScript expression; a promise is waited for."""
        answer = self.command(
            "script.evaluate",
            expression=f"Promise.resolve({expression}).then((one) => JSON.stringify(one ?? null))",
            target={"context": self._context},
            awaitPromise=True,
            userActivation=True,
        )
        if answer["type"] != "success":
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']['text']}")
        return json.loads(answer["result"]["value"])

    def screenshot(self) -> bytes:
        """Return a PNG of what is shown."""
        answer = self.command("browsingContext.captureScreenshot", context=self._context)
        return base64.b64decode(answer["data"])


@contextmanager
def firefox(profile: Path, sound: Sound) -> Iterator[Page]:
    """Run a Firefox with the empty folder `profile`, and give its one page."""
    path = needs.FIREFOX
    assert path, "no Firefox here"
    lines = [f"user_pref({json.dumps(k)}, {json.dumps(v)});" for k, v in PREFERENCES.items()]
    (profile / "user.js").write_text("\n".join(lines))
    flags = ("--headless", "--no-remote", "--remote-debugging-port=0")
    log = profile / "firefox.log"
    command = [path, *flags, "--profile", str(profile), "about:blank"]
    with running(command, log, sound.environment) as process:
        endpoint = begun(process, log, lambda: _endpoint(profile), 120)
        with connect(endpoint, max_size=2**28) as socket:
            yield Page(socket)


def _endpoint(profile: Path) -> str | None:
    """Return where the browser says that it is driven from, as soon as it does."""
    stated = profile / "WebDriverBiDiServer.json"
    if not (stated.exists() and stated.read_text().endswith("}")):
        return None
    place = json.loads(stated.read_text())
    return f"ws://{place['ws_host']}:{place['ws_port']}/session"
