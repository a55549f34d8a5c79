"""The speech synthesisers espeak-ng, flite and festival as subprocesses."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from cortado.model.arrays import Samples

TIMEOUT = 60.0  # s for one utterance, far above the second that the slowest engine takes
ESPEAK_WORDS_PER_MINUTE = 175  # espeak-ng's own default, at rate 1
MAX_CHARACTERS_PER_SECOND = 45.0  # faster means that the engine has swallowed words
MIN_LEVEL = 1e-3  # peak; below it the engine has said nothing
PACKAGES = {
    "espeak-ng": "espeak-ng",
    "flite": "flite",
    "festival": "festival festvox-kallpc16k festvox-us-slt-hts",
}

ACCENTS = {
    "en-us": 0.4,
    "en-gb": 0.14,
    "en-gb-scotland": 0.1,
    "en-gb-x-rp": 0.1,
    "en-gb-x-gbclan": 0.07,
    "en-gb-x-gbcwmd": 0.07,
    "en-029": 0.06,
    "en-us-nyc": 0.06,
}
# Those that sound like people: no whispers, croaks, robots or demons.
VARIANTS = (  # noqa: SIM905 (a list of 67 strings would take 67 lines)
    "m1 m2 m3 m4 m5 m6 m7 m8 f1 f2 f3 f4 f5 Alex Alicia Andrea Andy Annie Denis Diogo Gene Gene2 "
    "Henrique Hugo Jacky Lee Marco Mario Michael Mike adam anika antonio aunty belinda benjamin "
    "boris caleb david ed edward edward2 iven iven2 iven3 john kaukovalta klatt klatt2 klatt3 "
    "linda marcelo max michel miguel norbert pablo paul pedro quincy rob robert sandro shelby "
    "steph steph2 steph3 travis victor zac"
).split()
FLITE_VOICES = {"awb": 0.3, "rms": 0.3, "slt": 0.3, "kal16": 0.1}
FESTIVAL_VOICES = {"cmu_us_slt_arctic_hts": 0.6, "kal_diphone": 0.4}
_VOICES = {"espeak-ng": ACCENTS, "flite": FLITE_VOICES, "festival": FESTIVAL_VOICES}  # shares


class EngineError(RuntimeError):
    """An engine did not speak an utterance."""


@dataclass(frozen=True)
class Voice:
    """Who speaks one utterance, and how."""

    engine: str
    name: str
    rate: float  # 1 = the engine's own tempo; cmu_us_slt_arctic_hts does not follow it
    pitch: float  # 0 to 1, 0.5 = the voice's own; only espeak-ng and kal16 follow it
    word_gap: int  # espeak-ng only: extra pause between words in units of 10 ms


def installed_engines() -> dict[str, tuple[str, ...]]:
    """Return the engines that this machine has, each with the voices it offers here."""
    voices = {
        "espeak-ng": tuple(ACCENTS) if shutil.which("espeak-ng") else (),
        "flite": _listed(["flite", "-lv"], FLITE_VOICES),
        "festival": _listed(["festival", "--batch", "(print (voice.list))"], FESTIVAL_VOICES),
    }
    return {engine: names for engine, names in voices.items() if names}


def _listed(command: list[str], known: Mapping[str, float]) -> tuple[str, ...]:
    if shutil.which(command[0]) is None:
        return ()
    answer = subprocess.run(command, capture_output=True, timeout=TIMEOUT, check=False)
    present = set(re.findall(r"\w+", answer.stdout.decode(errors="replace")))
    return tuple(name for name in known if name in present)


def draw_voice(
    rng: np.random.Generator, shares: Mapping[str, float], voices: Mapping[str, tuple[str, ...]]
) -> Voice:
    """Return a random voice of `voices` (engine -> names), engines weighted by `shares`."""
    engines = [engine for engine in PACKAGES if shares.get(engine, 0.0) > 0 and engine in voices]
    weights = np.array([shares[engine] for engine in engines])
    engine = engines[int(rng.choice(len(engines), p=weights / weights.sum()))]
    names = voices[engine]
    chances = np.array([_VOICES[engine][name] for name in names])
    name = names[int(rng.choice(len(names), p=chances / chances.sum()))]
    if engine == "espeak-ng":
        name = f"{name}+{VARIANTS[int(rng.integers(len(VARIANTS)))]}"
    rate = round(float(rng.uniform(0.75, 1.35)), 3)
    gap = int(rng.integers(1, 6)) if rng.random() < 0.2 else 0
    return Voice(engine, name, rate, round(float(rng.uniform(0.2, 0.8)), 3), gap)


def speak(text: str, voice: Voice) -> tuple[Samples, int]:
    """Return the samples (N,) of `text` in `voice` and their rate in Hz.

    Raises:
        EngineError: the program is missing, failed, hung, said nothing or swallowed words.
    """
    with tempfile.TemporaryDirectory(prefix="cortado-synth-") as folder:
        wav = Path(folder) / "speech.wav"
        command, script = _COMMANDS[voice.engine](text, voice, wav)
        try:
            subprocess.run(
                command, input=script.encode(), capture_output=True, timeout=TIMEOUT, check=True
            )
            samples, rate = soundfile.read(wav, dtype="float32", always_2d=True)
        except (OSError, subprocess.SubprocessError, soundfile.LibsndfileError) as error:
            raise EngineError(f"{voice.engine} ({voice.name}) on {text!r}: {error}") from error
    mono: Samples = samples[:, 0]
    if len(mono) == 0 or float(np.max(np.abs(mono))) < MIN_LEVEL:
        raise EngineError(f"{voice.engine} ({voice.name}) said nothing to {text!r}")
    speed = len(text) * rate / len(mono)
    if speed > MAX_CHARACTERS_PER_SECOND:
        raise EngineError(
            f"{voice.engine} ({voice.name}) swallowed words of {text!r}: expected at most "
            f"{MAX_CHARACTERS_PER_SECOND:.0f} characters a second, got {speed:.0f}"
        )
    return mono, int(rate)


def _espeak(text: str, voice: Voice, wav: Path) -> tuple[list[str], str]:
    speed = round(ESPEAK_WORDS_PER_MINUTE * voice.rate)
    pitch = round(99 * voice.pitch)
    options = ["-s", str(speed), "-p", str(pitch), "-g", str(voice.word_gap)]
    return ["espeak-ng", "-v", voice.name, *options, "--stdin", "-w", str(wav)], f"{text}\n"


def _flite(text: str, voice: Voice, wav: Path) -> tuple[list[str], str]:
    options = ["--setf", f"duration_stretch={1 / voice.rate:.3f}"]
    if voice.name == "kal16":
        options += ["--setf", f"int_f0_target_mean={75 + 80 * voice.pitch:.0f}"]
    return ["flite", "-voice", voice.name, *options, "-o", str(wav)], f"{text}\n"


def _festival(text: str, voice: Voice, wav: Path) -> tuple[list[str], str]:
    script = (
        f"(voice_{voice.name})\n"
        f"(Parameter.set 'Duration_Stretch {1 / voice.rate:.3f})\n"
        f'(utt.save.wave (utt.synth (Utterance Text "{text}")) "{wav}" \'riff)\n'
    )
    # The default heap of 40 M cells takes a second to lay out; a sentence needs far less.
    return ["festival", "--heap", "2000000", "--pipe"], script


_COMMANDS = {"espeak-ng": _espeak, "flite": _flite, "festival": _festival}
