"""A walk through a page by the Tab key, and what a reader sees at each stop."""

from collections.abc import Iterator
from dataclasses import dataclass

from playwright.sync_api import JSHandle, Locator, Page

MOST_STOPS = 500

_FOCUSED = "() => document.activeElement"
_LEAVE = "() => document.activeElement.blur()"
_NOWHERE = "(it) => it === null || it === document.body || it === document.documentElement"
_SAME = "(it, other) => it === other"
_WHAT = """(it) => {
  const name = it.getAttribute('aria-label') || it.textContent || it.name || it.id || '';
  return `${it.localName} ${name.trim().replace(/\\s+/g, ' ').slice(0, 60)}`.trim();
}"""
# What marks the focus, as a text; '' where nothing of it can be seen.
_INDICATOR = """(it) => {
  const style = getComputedStyle(it);
  const unseen = (colour) => /^(transparent|rgba\\(.*, 0\\))$/.test(colour);
  const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0
    && !unseen(style.outlineColor);
  const shadows = style.boxShadow.match(/rgba?\\([^)]*\\)|color\\([^)]*\\)/g) || [];
  const outline = outlined
    ? [style.outlineStyle, style.outlineWidth, style.outlineColor].join(' ') : '';
  return outline + (shadows.some((colour) => !unseen(colour)) ? style.boxShadow : '');
}"""
# The same without the focus, which it has back afterwards.
_PLAIN = f"""(it) => {{
  it.blur();
  const found = ({_INDICATOR})(it);
  it.focus({{ preventScroll: true, focusVisible: true }});
  return found;
}}"""
# Where it is: its first box, of which all must be in sight if there is room for it.
_PLACE = """(it) => {
  const box = it.getClientRects()[0];
  if (box === undefined || box.width < 1 || box.height < 1) return 'has no size';
  const [wide, high] = [document.documentElement.clientWidth, window.innerHeight];
  const [left, right] = [Math.max(box.left, 0), Math.min(box.right, wide)];
  const [top, bottom] = [Math.max(box.top, 0), Math.min(box.bottom, high)];
  const [roomX, roomY] = [Math.min(box.width, wide) - 2, Math.min(box.height, high) - 2];
  if (right - left < roomX || bottom - top < roomY) {
    return `is not in sight: ${JSON.stringify(box)}`;
  }
  const seen = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
  return it.contains(seen) ? '' : `is covered by ${seen && seen.outerHTML.slice(0, 80)}`;
}"""


@dataclass(frozen=True)
class Stop:
    """One element that took the focus.

    Attributes:
        what: Its tag and its name, shortened.
        wrongs: What is wrong with it.
    """

    what: str
    wrongs: tuple[str, ...]


def stops(page: Page) -> list[Stop]:
    """Press Tab until the focus comes round to the first stop again.

    Raises:
        AssertionError: It does not: some element keeps the focus.
    """
    handles: list[JSHandle] = []
    seen: list[tuple[str, str, str]] = []
    for handle in _focused(page):
        back = [number for number, other in enumerate(handles) if handle.evaluate(_SAME, other)]
        if back[:1] == [0]:
            break
        assert not back, f"{page.url}: the focus does not leave {seen[back[0]][0]}"
        handles.append(handle)
        what, place, marked = (str(handle.evaluate(look)) for look in (_WHAT, _PLACE, _INDICATOR))
        seen.append((what, place, marked))
    page.evaluate(_LEAVE)
    found = []
    for handle, (what, place, marked) in zip(handles, seen, strict=True):
        unmarked = marked in ("", handle.evaluate(_INDICATOR))
        wrongs = (place, "does not show that it has the focus" if unmarked else "")
        found.append(Stop(what, tuple(filter(None, wrongs))))
    return found


class Walker:
    """Hands that have only a keyboard; wherever they come, the focus must be seen.

    Args:
        page: The page.
    """

    def __init__(self, page: Page) -> None:
        self._page = page

    def go_to(self, target: Locator, by: str = "Tab") -> None:
        """Press a key until an element has the focus; it is not moved there by anything else."""
        passed = []
        for _ in range(MOST_STOPS):
            if target.evaluate("(it) => it === document.activeElement"):
                return
            self._page.keyboard.press(by)
            stop = self._page.evaluate_handle(_FOCUSED)
            if not stop.evaluate(_NOWHERE):
                passed.append(self._seen(stop))
        raise AssertionError(f"{by} does not lead to {target}, only to {passed}")

    def press_at(self, target: Locator, key: str = "Enter", by: str = "Tab") -> None:
        """Go to an element, and press a key there."""
        self.go_to(target, by)
        self._page.keyboard.press(key)

    def choose(self, radios: Locator, index: int) -> None:
        """Choose one of several by arrows; the first by Space."""
        chosen = radios.and_(self._page.locator(":checked"))
        self.press_at(chosen if chosen.count() else radios.first, "Space")
        for _ in range(index):
            self._page.keyboard.press("ArrowDown")
            self._seen(self._page.evaluate_handle(_FOCUSED))
        checked = [each.is_checked() for each in radios.all()]
        assert checked.count(True) == 1 and checked[index], (
            f"{index} is not chosen by Space and {index} arrows"
        )

    def _seen(self, stop: JSHandle) -> str:
        what, place, marked = (str(stop.evaluate(look)) for look in (_WHAT, _PLACE, _INDICATOR))
        assert not place, f"{self._page.url}: {what} {place}"
        plain = str(stop.evaluate(_PLAIN))
        assert marked not in ("", plain), f"{what} does not show that it has the focus"
        return what


def _focused(page: Page) -> Iterator[JSHandle]:
    """Yield what has the focus after each press; ends after two rounds without anything."""
    rested = 0
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        handle = page.evaluate_handle(_FOCUSED)
        if not handle.evaluate(_NOWHERE):
            rested = 0
            yield handle
            continue
        rested += 1
        if rested == 2:
            return
    raise AssertionError(f"{page.url} has more than {MOST_STOPS} stops")
