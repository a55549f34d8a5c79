/** Numbers as they are shown. */

/** 0:00 to 59:59, then 1:00:00. */
export function clock(seconds) {
  const whole = Math.floor(seconds);
  const two = (value) => String(value).padStart(2, "0");
  const minutes = Math.floor(whole / 60);
  return minutes < 60
    ? `${minutes}:${two(whole % 60)}`
    : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(whole % 60)}`;
}

/** 0.42 s, or a dash where there is no value. */
export function seconds(value, digits = 2) {
  return value === null ? "–" : `${value.toFixed(digits)} s`;
}
