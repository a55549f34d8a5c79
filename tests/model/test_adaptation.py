"""Features normalised by a speaker's statistics: what hears one speaker, and what refuses."""

from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from cortado.model import checkpoint, checkpoint_reader
from cortado.model.adaptation import adapted, adapted_to_recording
from cortado.model.backends.choice import choose, load_recognizer
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.config import FeatureConfig, RecognizerConfig
from cortado.model.features.log_mel import Features, LogMel
from cortado.model.features.speaker import MIN_DEVIATION, Statistics, standardised, statistics_of
from cortado.model.files import transcripts
from cortado.model.loading import recognizer_of_each
from cortado.model.recognizer import Recognizer
from cortado.model.search.offline import transcribe_offline
from cortado.model.search.settings import DEFAULT_BEAM
from cortado.model.streaming.recordings import transcribe
from cortado.model.writing import write_results
from cortado.tests.model.untrained import noise, untrained
from cortado.tests.training.tiny import MODEL

CONFIG = replace(MODEL, features=FeatureConfig("speaker"))


@cache
def recognizer() -> Recognizer:
    """A recogniser of speakers' statistics, with weights of which the text depends on the audio."""
    heard = untrained(MODEL).recognizer
    found = Recognizer(CONFIG).eval()
    found.load_state_dict(heard.state_dict())
    return found.requires_grad_(False)


def frames(samples: np.ndarray) -> np.ndarray:
    return LogMel()(torch.from_numpy(samples)[None])[0].double().numpy()


@pytest.mark.parametrize("pieces", [1, 7, 163, 20_000])
def test_statistics_are_the_mean_and_deviation_of_all_frames_in_any_pieces(pieces: int) -> None:
    recordings = [noise(0, 0.5), noise(1, 0.734)]
    cut = [np.split(one, range(pieces, len(one), pieces)) for one in recordings]
    found = statistics_of(Features(), cut if pieces > 1 else [[one] for one in recordings])
    every = np.concatenate([frames(one) for one in recordings])
    np.testing.assert_allclose(found.mean, every.mean(0), rtol=1e-5)
    np.testing.assert_allclose(found.deviation, every.std(0), rtol=1e-4)


def test_silence_and_nothing_have_a_deviation_to_divide_by() -> None:
    for recordings in ([], [[np.zeros(8000, np.float32)]], [[np.zeros(3, np.float32)]]):
        found = statistics_of(Features(), recordings)
        assert np.isfinite(found.mean).all()
        np.testing.assert_allclose(found.deviation, MIN_DEVIATION, rtol=1e-6)


def test_an_adapted_recogniser_hears_frames_standardised_by_its_speaker() -> None:
    samples = noise(3, 1.0)
    statistics = statistics_of(Features(), [[samples], [noise(4, 1.0)]])
    logmel = LogMel()(torch.from_numpy(samples)[None])
    wanted = recognizer().encode_logmel(standardised(logmel, [statistics]))
    found = adapted(recognizer(), statistics).encode(torch.from_numpy(samples)[None])
    torch.testing.assert_close(found, wanted)
    normalised = (frames(samples) - statistics.mean) / statistics.deviation
    features = adapted(recognizer(), statistics).features(torch.from_numpy(samples)[None])
    np.testing.assert_allclose(features[0, 4:, :, 0], normalised[:-4], atol=1e-4)


def test_louder_speech_of_a_louder_speaker_is_the_same() -> None:
    texts = []
    for gain in (0.5, 1.0):
        samples = gain * noise(3, 1.0)
        written = transcribe_offline(adapted_to_recording(recognizer(), samples), samples, "hard")
        texts.append([one for one in written if one.time < 0.9])  # before the silence at the end
    assert texts[0] == texts[1] != []


def test_adapting_shares_the_weights_and_leaves_the_recogniser_as_it_was() -> None:
    model, statistics = recognizer(), statistics_of(Features(), [[noise(3, 1.0)]])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = adapted(model, statistics)
    assert found.encoder is model.encoder
    assert found.decoder is model.decoder
    assert found.config.features.normalisation == "fixed"
    assert model.config == CONFIG
    assert model.features.normalizer.normalisation == "speaker"
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_stream_of_an_adapted_recogniser_is_the_whole_recording() -> None:
    samples = noise(5, 2.0)
    found = adapted_to_recording(recognizer(), samples)
    whole = transcribe_offline(found, samples, "hard")
    assert transcribe(ReferenceRecognizer(found), samples)[: len(whole)] == whole


def test_only_a_recogniser_of_speakers_statistics_is_adapted() -> None:
    other = Recognizer(MODEL)
    assert adapted_to_recording(other, noise(0, 0.5)) is other
    with pytest.raises(
        ValueError, match="expected features normalised by 'speaker', got 'running'"
    ):
        adapted(other, statistics_of(Features(), []))


def test_whatever_streams_refuses_speakers_statistics_and_says_why(tmp_path: Path) -> None:
    checkpoint.save(recognizer(), tmp_path)
    why = r"'running' or 'fixed'.* got 'speaker', whose statistics"
    for backend in ("auto", "reference", "fast"):
        with pytest.raises(ValueError, match=why):
            load_recognizer(tmp_path, backend)
    with pytest.raises(ValueError, match=why):
        ReferenceRecognizer(recognizer())
    with pytest.raises(ValueError, match="adapted to a speaker"):
        recognizer().encode(torch.zeros(1, 640))
    with pytest.raises(ValueError, match="adapted to a speaker"):
        recognizer().features.step(torch.zeros(1, 640), recognizer().features.initial_state(1))


def test_the_fast_backend_does_not_know_an_adapted_recogniser() -> None:
    whole = Recognizer(RecognizerConfig(features=FeatureConfig("speaker"))).eval()
    found = adapted(whole, statistics_of(Features(), []))
    assert choose(found).name == "reference-beam128"
    with pytest.raises(ValueError, match=r"features\.normalisation is 'fixed'"):
        choose(found, "fast")


def test_the_checkpoint_says_how_features_are_normalised(tmp_path: Path) -> None:
    checkpoint.save(recognizer(), tmp_path)
    assert checkpoint_reader.read_card(tmp_path)["config"]["features"]["normalisation"] == "speaker"
    assert checkpoint.load(tmp_path).config == CONFIG


def test_a_file_is_transcribed_by_its_own_statistics(tmp_path: Path) -> None:
    paths = [tmp_path / "a.wav", tmp_path / "b.wav"]
    recordings = [noise(3, 1.5), 0.2 * noise(4, 1.5)]
    for path, samples in zip(paths, recordings, strict=True):
        soundfile.write(path, samples, 16_000, "FLOAT")
    out = StringIO()
    checkpoint.save(recognizer(), tmp_path)
    found = transcripts(recognizer_of_each(tmp_path), paths)
    assert write_results(found, len(paths), "txt", out, lambda _: None)
    heard = [
        ReferenceRecognizer(adapted_to_recording(recognizer(), samples), DEFAULT_BEAM)
        for samples in recordings
    ]
    texts = [
        "".join(one.text for one in transcribe(each, samples))
        for each, samples in zip(heard, recordings, strict=True)
    ]
    assert all(texts)
    assert out.getvalue() == f"==> {paths[0]} <==\n{texts[0]}\n==> {paths[1]} <==\n{texts[1]}\n"


def test_a_file_that_cannot_be_read_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_text("no audio")
    errors: list[Exception] = []
    checkpoint.save(recognizer(), tmp_path)
    files, out = [tmp_path / "a.wav", tmp_path / "none.wav"], StringIO()
    found = transcripts(recognizer_of_each(tmp_path), files)
    assert not write_results(found, len(files), "txt", out, errors.append)
    assert len(errors) == 2
    assert out.getvalue() == ""


def test_every_row_of_a_batch_is_standardised_by_its_own_speaker() -> None:
    voices = [Statistics(np.full(2, k, np.float32), np.full(2, k + 1, np.float32)) for k in (0, 1)]
    found = standardised(torch.full((2, 3, 2), 5.0), voices)
    assert torch.equal(found, torch.tensor([5.0, 2.0])[:, None, None].expand(2, 3, 2))
