"""How the page has to be laid out, at the sizes of a telephone, a tablet and a desk."""

SIZES = [(360, 640), (740, 360), (768, 1024), (1440, 900)]  # px, wide and high
SMALL = [(320, 480), (320, 256), (568, 320), (640, 320)]  # in which the page itself may scroll

# Whether the parts of the page lie beside one another, within the window.
LAID_OUT = """(() => {
    const box = (id) => document.querySelector(id).getBoundingClientRect();
    const ids = ["header", "#transcript", "#sight", "#controls"];
    const parts = ids.map(box).filter((each) => each.height);
    const apart = parts.every((each, i) => !i || parts[i - 1].bottom <= each.top + 1);
    const shown = [...document.querySelectorAll("#controls button, summary")].filter((each) =>
        each.checkVisibility() && !each.closest("details > div"));
    const { scrollWidth, scrollHeight } = document.documentElement;
    const inside = shown.every((each) => {
        const { left, right, top, bottom } = each.getBoundingClientRect();
        return left >= 0 && right <= innerWidth && top >= 0 && bottom <= scrollHeight;
    });
    return [apart, inside, scrollWidth <= innerWidth, scrollHeight <= innerHeight];
})()"""
