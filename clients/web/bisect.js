/**
 * The first index of a list whose entry passes a test, found by bisection, as all entries after it
 * pass, too; the list's length if none does.
 * @template T  @param {ArrayLike<T>} list  @param {(entry: T) => boolean} passes
 */
export function firstThat(list, passes) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (passes(list[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}
