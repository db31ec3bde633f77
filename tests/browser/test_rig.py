"""Each check of the rig fails where it must, and passes where it must."""

from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask, Response

from tests.browser.checks import (
    assert_accessible,
    assert_sound,
    no_sideways_scroll,
    tab_order,
)
from tests.browser.chromium import find_chromium
from tests.browser.visits import WIDTHS, Open

pytestmark = pytest.mark.slow

POLICY = "default-src 'none'; style-src 'self'; img-src 'self'"
HEAD = (
    '<!doctype html><html lang="en"><head><title>A page</title>'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<link rel="icon" href="/icon.svg"><link rel="stylesheet" href="/own.css">{head}</head>'
)
GOOD = (
    "<main><h1>A page</h1><p>Some words, <a href='#more'>a link</a></p>"
    "<form><label for='key'>Key</label> <input id='key'> <button>Go</button></form></main>"
)
CSS = """
a { color: #2457a8 } @media (prefers-color-scheme: dark) { body { background: #111; color: #eee }
a { color: #82b1ff } } button { min-height: 30px } .pale { color: #bbb; background: #fff }
.wide { width: 2000px } .unmarked:focus { outline: none }
.unseen:focus { outline: 2px solid transparent; box-shadow: 0 0 3px transparent }
.off { position: absolute; left: -999px } .lid { position: fixed; inset: 0; background: #fff }
.ring:focus { outline: none; box-shadow: 0 0 0 3px #2457a8 }
"""
Serve = Callable[..., str]


@pytest.fixture
def page(site: Callable[[Flask], str]) -> Serve:
    """Serve one page: page(main, head="", status=200, policy=POLICY) -> URL."""

    def serve(main: str = GOOD, head: str = "", status: int = 200, policy: str = POLICY) -> str:
        app = Flask(__name__)
        text = f"{HEAD.format(head=head)}<body>{main}</body></html>"

        @app.get("/")
        def show() -> Response:
            headers = {"Content-Security-Policy": policy}
            return Response(text, status, headers, content_type="text/html; charset=utf-8")

        app.add_url_rule("/own.css", "css", lambda: Response(CSS, content_type="text/css"))
        icon = '<svg xmlns="http://www.w3.org/2000/svg"/>'
        app.add_url_rule("/icon.svg", "icon", lambda: Response(icon, mimetype="image/svg+xml"))
        return site(app)

    return serve


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_good_page_passes_every_check(page: Serve, visit: Open, width: int, dark: bool) -> None:
    seen = visit(page(), width=width, dark=dark)
    assert_sound(seen)
    assert_accessible(seen)
    no_sideways_scroll(seen)
    assert [stop.what for stop in tab_order(seen)] == ["a a link", "input key", "button Go"]
    colour = "getComputedStyle(document.body).backgroundColor"
    assert seen.page.evaluate(colour) == ("rgb(17, 17, 17)" if dark else "rgba(0, 0, 0, 0)")
    assert_sound(seen)  # nor have the checks left anything behind


@pytest.mark.parametrize(
    ("main", "policy", "told"),
    [
        ("<script>window.ran = 1</script>", POLICY, "script-src-elem forbids inline"),
        ("<p style='color: red'>x</p>", POLICY, "style-src-attr forbids inline"),
        ("<img src='{elsewhere}/x.svg' alt=''>", POLICY, "img-src forbids http"),
        ("<img src='{elsewhere}/icon.svg' alt=''>", "", "requests to elsewhere: {elsewhere}/icon"),
        ("<img src='http://127.0.0.1:1/x' alt=''>", "", "without an answer: http://127.0.0.1:1/x"),
        ("<img src='/none.svg' alt=''>", POLICY, "on the console: error: Failed to load"),
        ("<img src='/own.css' alt=''>", POLICY, "pictures that are not shown: http"),
        ("<script>console.warn('careful')</script>", "", "on the console: warning: careful"),
        ("<script>throw Error('oh')</script>", "", "raised by scripts: oh"),
    ],
    ids=[
        "script",
        "style",
        "image",
        "elsewhere",
        "dead",
        "missing",
        "no-picture",
        "warning",
        "raised",
    ],
)
def test_what_makes_a_page_unsound_is_told(
    page: Serve, visit: Open, main: str, policy: str, told: str
) -> None:
    names = {"elsewhere": page()}
    url = page(GOOD + main.format(**names), policy=policy)
    with pytest.raises(AssertionError) as caught:
        assert_sound(visit(url))
    assert told.format(**names) in str(caught.value)


def test_the_status_of_a_page_is_the_one_that_was_expected(page: Serve, visit: Open) -> None:
    seen = visit(page(status=404))
    assert_sound(seen, status=404)
    with pytest.raises(AssertionError, match="has status 404"):
        assert_sound(seen)


@pytest.mark.parametrize(
    ("main", "rule"),
    [
        (GOOD.replace("<label for='key'>Key</label>", ""), "label (critical)"),
        (GOOD.replace("<p>", "<p class='pale'>"), "color-contrast (serious)"),
        (GOOD.replace("<p>", "<h3>Less</h3><p>"), "heading-order (moderate)"),
        (GOOD.replace("main>", "div>"), "landmark-one-main (moderate)"),
        (GOOD + "<footer><a href='#a'>.</a><a href='#b'>.</a></footer>", "target-size (serious)"),
    ],
    ids=["label", "contrast", "headings", "landmark", "target"],
)
def test_what_keeps_readers_out_is_told(page: Serve, visit: Open, main: str, rule: str) -> None:
    with pytest.raises(AssertionError) as caught:
        assert_accessible(visit(page(main)))
    assert rule in str(caught.value)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_that_is_wider_than_its_window_is_told(page: Serve, visit: Open, width: int) -> None:
    with pytest.raises(AssertionError, match=f"2008 wide at {width}.*<p class=.*wide"):
        no_sideways_scroll(visit(page(GOOD + "<p class='wide'>x</p>"), width=width))


def test_a_page_that_does_not_know_of_phones_is_told(page: Serve, visit: Open) -> None:
    seen = visit(page(head="<meta name='viewport' content='width=1024'>"), width=WIDTHS[0])
    with pytest.raises(AssertionError, match="1024 wide at 360"):
        no_sideways_scroll(seen)


@pytest.mark.parametrize(
    ("main", "told"),
    [
        ("<a href='#x' class='unmarked'>x</a>", "a x: does not show that it has the focus"),
        ("<a href='#x' class='unseen'>x</a>", "a x: does not show that it has the focus"),
        ("<a href='#x' class='off'>x</a>", "a x: is not in sight"),
        ("<a href='#x'></a>", "a: has no size"),
        ("<div class='lid'></div>", 'button Go: is covered by <div class="lid">'),
        (
            "<input id='i'><script>i.onkeydown = (e) => e.preventDefault()</script>",
            "the focus does not leave input i",
        ),
    ],
    ids=["unmarked", "unseen", "off", "small", "covered", "trap"],
)
def test_what_is_wrong_with_the_way_of_the_focus_is_told(
    page: Serve, visit: Open, main: str, told: str
) -> None:
    with pytest.raises(AssertionError) as caught:
        tab_order(visit(page(GOOD + main, policy="")))
    assert told in str(caught.value)


def test_a_shadow_marks_the_focus_too_and_an_empty_page_has_no_stops(
    page: Serve, visit: Open
) -> None:
    (stop,) = tab_order(visit(page("<main><button class='ring'>Go</button></main>")))
    assert stop.what == "button Go"
    assert tab_order(visit(page("<main>Nothing</main>"))) == []


def test_a_screenshot_shows_the_whole_page_where_it_is_wanted(
    page: Serve,
    visit: Open,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.setenv("SOTTOVOCE_SCREENSHOTS", str(tmp_path / "drawn"))
    draw = request.getfixturevalue("screenshot")
    path = draw(visit(page(), width=WIDTHS[0]), "good")
    assert path == tmp_path / "drawn" / "good.png"
    header = path.read_bytes()[:24]
    assert header[1:4] == b"PNG" and int.from_bytes(header[16:20]) == WIDTHS[0]


def test_without_a_browser_tests_fail_and_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pytest.fail.Exception, match="install Debian's chromium"):
        find_chromium()
