"""Sizes of samples, frames and steps, and the look-ahead of the features.

Nothing here needs torch: serving with the fast backend does without it.
"""

SAMPLE_RATE = 16_000  # Hz
HOP = SAMPLE_RATE // 100  # 10 ms
WINDOW = SAMPLE_RATE // 40  # 25 ms
FFT = 512
MELS = 80
FRAMES_PER_STEP = 4  # one encoder frame
SAMPLES_PER_STEP = FRAMES_PER_STEP * HOP  # 640
STEP_SECONDS = SAMPLES_PER_STEP / SAMPLE_RATE  # 0.04
OVERLAP = WINDOW - HOP  # samples that a frame shares with the audio before its hop

POWER_FLOOR = 1e-5  # below the noise of any microphone; digital silence gets log(POWER_FLOOR)
PRIOR_FRAMES = 100  # weight of the training set's mean in the running mean: 1 s
MEMORY_FRAMES = 300  # the running mean forgets what lies further back: 3 s
DROP = 2.0  # deviations that a frame lies below the running mean where it begins anew
QUIET = -0.3  # deviations from it, all bands together, below which a frame may be of a pause
STEADY, RISING = 0.4, 0.05  # deviations above the noise where it is none; noise's share of those
PAUSE_FRAMES, REST_FRAMES = 8, 50  # of a pause: to be one, and until the running mean rests
RESTING = 0.02  # what a frame weighs where it rests
BOUND, DRAWN = 0.3, 0.01  # deviations beyond which a band is drawn to the others; share a frame

DELTA_WINDOW = 2  # frames on either side, as in HTK
DELTA_LOOKAHEAD = 2 * DELTA_WINDOW  # delta of delta
PLANES = 3  # log-mel, delta, delta-delta
FREQUENCIES = MELS // 4  # after two strides of 2, of the usual features


def delay_steps(lookahead_ms: int) -> int:
    """Return the steps between the end of an encoder frame and the step that gives it.

    An encoder frame's first feature frame sees as far ahead, and the others are of its own step.
    """
    frames = lookahead_ms * SAMPLE_RATE // 1000 // HOP
    return -(-(frames - (FRAMES_PER_STEP - 1)) // FRAMES_PER_STEP)
