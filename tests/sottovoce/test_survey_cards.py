"""Sheets for paper: every step and the right odds, in HTML and in PDF, and back to an estimate."""

import csv
import io
import math
import re
import shlex
import tomllib
from fractions import Fraction
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from string import Formatter
from typing import Any

import pypdf
import pytest

from client_sdk.survey import loads_survey
from client_sdk.survey.odds import sent_as
from estimator.designs import design
from estimator.designs.base import Design, DesignError
from estimator.designs.catalogue import all_parameters
from estimator.designs.devices import CARDS, CHOICES, THREE_COINS
from sottovoce.__main__ import main, parser_for
from sottovoce.surveys import cards, design_options, plan
from sottovoce.surveys.paper import html, mixed, pdf, sheet
from sottovoce.surveys.paper.procedure import Procedure, procedure
from sottovoce.surveys.paper.words import languages, named, words_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "surveys" / "habits.toml"
QUESTION = "Have you ever driven after drinking?"

ASKED: dict[str, tuple[dict[str, object], dict[str, Any]]] = {
    "warner": ({"p": "0.7"}, {}),
    "two-coins": ({}, {}),
    "forced": ({"forced_yes": "1/6", "forced_no": "1/12"}, {}),
    "unrelated": ({"p": "0.7", "q": "1/4"}, {}),
    "unrelated-unknown": ({"p1": "0.7", "p2": "0.3"}, {}),
    "mangat": ({"p": "2/3"}, {}),
    "kuk": ({"red_if_yes": "0.8", "red_if_no": "0.2"}, {}),
    "crosswise": ({"p": "1/4"}, {}),
    "triangular": ({"p": "1/4"}, {}),
    "lie-detector": ({"p1": "1/6", "p2": "5/6"}, {}),
    "item-count": ({"items": 3}, {"items": ("I like tea.", "I own a bicycle.", "I am tall.")}),
    "matrix": ({"answers": "never,once,often", "truth": "0.4"}, {}),
}


def asked(name: str, **more: Any) -> Procedure:
    given, options = ASKED[name]
    return procedure(design(name, given), QUESTION, **(options | more))


def printed(of: Procedure, language: str = "en", copies: int = 4) -> dict[str, Any]:
    return sheet.document([of], words_of(language), copies=copies)


def texts_of(document: dict[str, Any]) -> list[str]:
    """Return every sentence that a sheet has to show."""
    found = [step for page in document["interviewer"] for step in page["steps"]]
    if document["sheets"]:
        found.append(document["title"])
    for page in document["sheets"]:
        found += [page["lead"], page["need"], page["never"], page["free"], page["foot"]]
        found += [page["dots"]]
        found += [*page["steps"], *page["why"], *page["list"]]
        found += [part for item in page["items"] for part in (item["label"], item["text"])]
        found += [cell for row in (page["table"] or {"rows": []})["rows"] for cell in row]
        found += [cell for row in page["rules"] for cell in row[:2]]
        found += [row["text"] for row in page["odds"]]
        if not page["odds"]:
            found.remove(page["dots"])
    for fact in (fact for page in document["interviewer"] for fact in page["facts"]):
        found += [cell for row in fact["rows"] for cell in row] + fact["exact"]
    for tally in document["tallies"]:
        found += [tally[key] for key in ("text", "header", "example", "total", "command")]
        found += [cell for row in tally["rows"] for cell in (row["text"], row["code"])]
    for bag in document["slips"]:
        found += [bag["title"], bag["text"], *bag["labels"], bag["of"]]
    for card in document["cards"]:
        found += [card["heading"], card["text"], *(box["text"] for box in card["boxes"])]
    return [text for text in found if text]


class Text(HTMLParser):
    """The text of a page, its tags and their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, list[str]] = {}
        self.parts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value or "")

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.parts).split())


def text_of(content: bytes) -> str:
    """Return a PDF's text, without the white space by which lines are broken."""
    pages = pypdf.PdfReader(io.BytesIO(content)).pages
    return "".join("".join(page.extract_text().split()) for page in pages)


def test_every_language_has_the_same_keys_and_placeholders() -> None:
    def keys(table: dict[str, Any], path: str = "") -> dict[str, object]:
        found: dict[str, object] = {}
        for key, value in table.items():
            if isinstance(value, dict):
                found |= keys(value, f"{path}{key}.")
            elif isinstance(value, list):
                found[path + key] = len(value)
            else:
                fields = {field for _, field, _, _ in Formatter().parse(value) if field}
                found[path + key] = fields
        return found

    folder = files("sottovoce.surveys.paper").joinpath("languages")
    tables = {
        tag: keys(tomllib.loads(folder.joinpath(f"{tag}.toml").read_text("utf-8")))
        for tag in languages()
    }
    assert set(tables) == {"en", "de", "ar"}
    assert tables["de"] == tables["en"] == tables["ar"]


def test_every_device_has_words_in_every_language() -> None:
    for tag in languages():
        for device in {device for each in CHOICES.values() for device in each}:
            assert {"need", "throw", "check", "statement"} <= set(
                words_of(tag).devices[named(device)]
            )
            assert words_of(tag).values(device, device.values)


def test_every_word_is_used() -> None:
    folder = Path(sheet.__file__).parent
    source = "".join(
        path.read_text()
        for path in folder.rglob("*")
        if path.suffix != ".toml" and path.suffix in (".py", ".html", ".typ")
    )
    built = ("rule_", "ask_", "tick_", "odds_", "why_", "never_")
    for key in words_of("en").texts:
        assert key in source or key.startswith(built), key


@pytest.mark.parametrize("language", ["en", "de", "ar"])
@pytest.mark.parametrize("name", ASKED)
def test_pages_hold_every_step_and_nothing_from_elsewhere(name: str, language: str) -> None:
    document = printed(asked(name), language)
    page = Text(html.page_of(document))
    for text in texts_of(document):
        assert " ".join(text.split()) in page.text, text
    assert page.attributes["lang"] == [language]
    assert page.attributes["dir"][0] == ("rtl" if language == "ar" else "ltr")
    assert {"script", "link", "img", "iframe", "object", "form"}.isdisjoint(page.tags)
    assert {"src", "href", "srcset", "style"}.isdisjoint(page.attributes)
    assert "default-src 'none'" in page.attributes["content"][0]
    style = html.page_of(document).partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style and "@import" not in style and "://" not in style


@pytest.mark.parametrize("name", ASKED)
def test_pdfs_hold_every_step_and_all_cards(name: str) -> None:
    document = printed(asked(name), "de", copies=3)
    content = pdf.pdf_of(document)
    text = text_of(content)
    for sentence in texts_of(document):
        assert "".join(sentence.split()) in text, sentence
    for card in document["cards"]:
        times = text.count("".join(card["text"].split()))
        assert times == 3 * len(document["cards"])
    pages = len(pypdf.PdfReader(io.BytesIO(content)).pages)
    parts = ("sheets", "tallies", "slips", "cards")
    assert pages == 1 + sum(len(document[part]) for part in parts)


def pages_of(document: dict[str, Any], size: Any = "a4") -> list[str]:
    """Return the text of each page of the PDF, without white space."""
    pages = pypdf.PdfReader(io.BytesIO(pdf.pdf_of(document, size))).pages
    return ["".join(page.extract_text().split()) for page in pages]


@pytest.mark.slow
@pytest.mark.parametrize("size", ["a4", "letter"])
@pytest.mark.parametrize("language", ["en", "de", "ar"])
def test_sheets_fit_on_a_page_and_twenty_cards_of_two_answers_on_another(
    size: Any, language: str
) -> None:
    survey = loads_survey(EXAMPLE.read_text())
    of = [*mixed.procedures(survey, language), *map(asked, ASKED)]
    words = words_of(language)
    sheets = sheet.document(of, words, copies=1, parts=("sheets",))
    assert len(pages_of(sheets, size)) == len(sheets["sheets"]) == len(of) + 3
    cards = sheet.document([asked("two-coins")], words, copies=20, parts=("cards",))
    assert len(pages_of(cards, size)) == 1


@pytest.mark.parametrize("name", ["matrix", "item-count", "crosswise"])
def test_no_card_is_torn_between_two_pages(name: str) -> None:
    document = sheet.document([asked(name)], words_of("de"), copies=40, parts=("cards",))
    pages = pages_of(document)
    heading, title, text = (
        "".join(document["cards"][0][key].split()) for key in ("heading", "title", "text")
    )
    assert len(pages) >= 3
    for page in pages:
        headings = re.findall(rf"{title}·Gruppe\d(?={title})", page) or re.findall(
            rf"^{heading}(?={title})", page
        )
        assert page.count(text) == page.count(title) - len(headings) > 0


def test_parts_print_what_is_asked_for() -> None:
    for part in sheet.PARTS:
        document = sheet.document([asked("forced")], words_of("ar"), copies=1, parts=(part,))
        page = Text(html.page_of(document))
        for text in texts_of(document):
            assert " ".join(text.split()) in page.text
        if part != "slips":  # nobody needs any here
            assert page.tags.count("section") == len(pages_of(document)) == 1
    with pytest.raises(ValueError, match="parts must be among sheets"):
        sheet.document([asked("forced")], words_of("en"), copies=1, parts=("card",))


@pytest.mark.parametrize("language", ["en", "de", "ar"])
@pytest.mark.parametrize("name", ASKED)
def test_a_tally_has_the_words_of_the_cards_that_are_counted(name: str, language: str) -> None:
    document = printed(asked(name), language)
    counted = {row["text"].split(" · ")[-1] for row in document["tallies"][0]["rows"]}
    for card in document["cards"]:
        assert {box["text"] for box in card["boxes"]} < counted


def interviewing(of: Procedure) -> str:
    """Return what the interviewer is told."""
    return " ".join(step for page in printed(of)["interviewer"] for step in page["steps"])


def test_interviewers_are_told_of_throws_where_something_is_thrown() -> None:
    for name in ASKED:
        told = interviewing(asked(name))
        thrown = name not in ("crosswise", "triangular", "item-count")
        assert ("Nobody throws again" in told) == thrown, name
        assert ("Practise" in told) == (name != "item-count")
        assert "at least 20 cards" in told and "stay turned away" in told
    told = interviewing(asked("kuk"))
    assert "bag 1: 8 × red, 2 × black and bag 2: 2 × red, 8 × black" in told
    assert "One throw or draw for each line" not in told


def test_interviewers_are_told_of_groups_where_there_are_two() -> None:
    groups = words_of("en").texts["interviewer_groups"]
    for name in ASKED:
        two = len(asked(name).design.samples) > 1
        assert (groups in interviewing(asked(name))) == two, name


def test_what_rarely_happens_is_not_said_to_happen_never() -> None:
    told = [words_of("en").of_100(Fraction(of, 300)) for of in (0, 1, 100, 299, 300)]
    assert told == ["0", "about 0.3", "about 33", "about 99.7", "100"]


def test_sheets_name_what_must_stay_hidden() -> None:
    hidden = {name: printed(asked(name))["sheets"][0]["never"] for name in ASKED}
    assert hidden["kuk"].startswith("From which bag")
    assert hidden["item-count"].startswith("Which of the things")
    assert hidden["crosswise"] == hidden["triangular"] != hidden["warner"]
    assert "it says the truth or what" not in printed(asked("kuk"))["sheets"][0]["why"][0]


def test_slips_of_two_bags_are_told_apart_by_number_but_not_by_colour() -> None:
    survey = loads_survey(EXAMPLE.read_text())
    document = sheet.document(mixed.procedures(survey, "en"), words_of("en"), copies=1)
    assert [bag["of"] for bag in document["slips"]] == ["of 26", "of 33", "of 40"]
    assert [bag["of"] for bag in printed(asked("kuk"))["slips"]] == ["", ""]


def test_exact_odds_of_two_groups_are_told_apart() -> None:
    (page,) = printed(asked("lie-detector"))["interviewer"]
    assert page["facts"][0]["exact"] == [
        "Group 1, 1 to 5: 5/6",
        "Group 1, 6: 1/6",
        "Group 2, 1: 1/6",
        "Group 2, 2 to 6: 5/6",
    ]


def places(page: pypdf.PageObject, of: str) -> list[float]:
    """Return where a text of a page begins, in points from the left."""
    found: list[float] = []
    page.extract_text(
        visitor_text=lambda text, outer, inner, *_: (
            found.append(outer[4] + inner[4]) if text.strip() == of else None
        )
    )
    return found


def test_arabic_is_set_from_the_right_and_stays_text() -> None:
    document = printed(asked("two-coins"), "ar")
    content = pdf.pdf_of(document)
    reader = pypdf.PdfReader(io.BytesIO(content))
    assert reader.trailer["/Root"]["/Lang"] == "ar"
    text = reader.pages[0].extract_text()
    page = document["sheets"][0]
    words = {
        word.strip(".:،؟«»()")
        for sentence in (document["title"], *page["steps"])
        for word in sentence.split()
    }
    assert len(words) > 30
    # Text is stored as letters, not as shapes; one word in twenty may be a ligature's.
    assert sum(word in text for word in words) >= 0.95 * len(words)
    # A row of slips begins on the right: of 1 to 5 the first is the last from the left.
    for language, from_left in (("ar", False), ("en", True)):
        slips = pypdf.PdfReader(io.BytesIO(pdf.pdf_of(printed(asked("warner"), language)))).pages[3]
        (first,), (fifth,) = places(slips, "1"), places(slips, "5")
        assert (first < fifth) == from_left
    fonts = {
        str(font.get_object()["/BaseFont"])
        for font in reader.pages[0]["/Resources"]["/Font"].values()
    }
    assert all("FiraGO" in font for font in fonts), fonts


def test_pdfs_are_tagged_titled_and_equal_when_made_again() -> None:
    document = printed(asked("warner"))
    content = pdf.pdf_of(document)
    root = pypdf.PdfReader(io.BytesIO(content)).trailer["/Root"]
    assert root["/MarkInfo"]["/Marked"] and "/StructTreeRoot" in root
    reader = pypdf.PdfReader(io.BytesIO(content))
    assert reader.metadata is not None and reader.metadata.title == document["title"]
    assert reader.metadata.creation_date is None
    assert pdf.pdf_of(document) == content


@pytest.mark.parametrize(("size", "points"), [("a4", (595, 842)), ("letter", (612, 792))])
def test_pdfs_have_the_size_of_the_paper(size: Any, points: tuple[int, int]) -> None:
    for page in pypdf.PdfReader(io.BytesIO(pdf.pdf_of(printed(asked("warner")), size))).pages:
        assert (round(page.mediabox.width), round(page.mediabox.height)) == points


def test_text_is_text_in_both_layouts() -> None:
    question = "Is 1 < 2 & <b>#panic()</b> *x* $y$ {{ z }} @here?"
    of = procedure(design("warner", {"p": "0.7"}), question)
    assert question in Text(html.page_of(printed(of))).text
    assert "".join(question.split()) in text_of(pdf.pdf_of(printed(of)))


def test_a_character_that_no_font_has_is_an_error_and_no_box() -> None:
    of = procedure(design("warner", {"p": "0.7"}), "What is \U000f0001?")
    with pytest.raises(ValueError, match="no font"):
        pdf.pdf_of(printed(of))


def test_the_odds_of_two_dice_are_those_of_36_throws() -> None:
    page = printed(asked("forced"))["sheets"][0]
    assert [row[0] for row in page["table"]["rows"]] == ["2 to 4", "5 to 10", "11 or 12"]
    assert [row[2] for row in page["table"]["rows"]] == ["about 17", "75", "about 8"]
    assert page["odds"][0]["text"] == (
        "for whom “yes” is true: about 92 answer “yes”, about 8 answer “no”"
    )
    assert [row["dots"] for row in page["odds"]] == [92, 17]  # 11/12 and 1/6 of 100


def test_odds_out_of_100_are_the_designs_rounded() -> None:
    for name in ASKED:
        of = asked(name)
        matrix = of.design.matrix() if of.design.samples == ("all",) else None
        if matrix is None or name == "matrix":
            continue
        yes, no = printed(of)["sheets"][0]["odds"]
        assert yes["dots"] == round(100 * matrix[1][1])
        assert no["dots"] == round(100 * matrix[0][1])
        assert str(round(100 * matrix[1][1])) in yes["text"]


def test_an_answer_that_proves_is_called_one() -> None:
    for name, answer in (("mangat", "no"), ("lie-detector", "no"), ("triangular", "circle")):
        page = printed(asked(name))["sheets"][0]
        assert any(
            f"“{answer}” can only be given by people for whom" in each for each in page["why"]
        )
        assert "none that holds for every answer" in page["foot"]
        assert "nobody can tell" not in page["lead"]
    for name in ("warner", "crosswise", "kuk", "matrix"):
        page = printed(asked(name))["sheets"][0]
        assert not any("exception" in each for each in page["why"])
        assert "nobody can tell" in page["lead"]


def test_birthdays_are_called_inexact_and_are_not_handed_over() -> None:
    for name in ("crosswise", "triangular", "unrelated"):
        document = printed(asked(name))
        assert any("only nearly right" in each for each in document["sheets"][0]["why"])
        (fact,) = document["interviewer"][0]["facts"]
        assert any("36097/146097" in each for each in fact["exact"])
        assert any("36097/146097" in row[1] and "wished for" in row[1] for row in fact["rows"])
    steps = interviewing(asked("crosswise"))
    assert "birthday;" not in steps and "Use no other device" not in steps
    exact = asked("crosswise", devices=CHOICES["dice"])
    assert "nearly right" not in " ".join(printed(exact)["sheets"][0]["why"])
    assert exact.design.p == Fraction(1, 4)


def test_own_words_of_a_harmless_statement_keep_their_rate() -> None:
    of = asked("crosswise", harmless="My house number ends in 1, 2 or 3.")
    assert of.design.p == Fraction(1, 4)
    (first, second) = printed(of)["sheets"][0]["items"]
    assert (first["text"], second["text"]) == (QUESTION, "My house number ends in 1, 2 or 3.")


def test_slips_are_all_there_and_say_what_they_must() -> None:
    (bag,) = printed(asked("warner"))["slips"]
    assert bag["labels"] == [str(number) for number in range(1, 11)]
    first, second = printed(asked("kuk"))["slips"]
    assert (first["labels"].count("red"), first["labels"].count("black")) == (8, 2)
    assert (second["labels"].count("red"), second["labels"].count("black")) == (2, 8)
    assert printed(asked("two-coins"))["slips"] == []
    twice = sheet.document([asked("warner")] * 2, words_of("en"), copies=1)
    assert twice["slips"] == [bag]


def test_cards_are_read_by_suits_and_coins_by_heads() -> None:
    english = words_of("en")
    assert english.values(CARDS, tuple(range(1, 17))) == "all spades or hearts: ace to 3"
    assert english.values(THREE_COINS, (0, 3)) == "no head or three heads"
    assert words_of("de").values(CARDS, (1, 2, 3)) == "Pik: Ass bis 3"


@pytest.mark.parametrize("name", ASKED)
def test_a_tally_with_the_printed_header_is_what_the_printed_command_reads(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """Counts are those expected at a share of 1/4, times a number that makes them whole."""
    monkeypatch.chdir(tmp_path)
    of = asked(name)
    (tally,) = printed(of)["tallies"]
    share, counts = Fraction(1, 4), []
    for row in tally["rows"]:
        *sample, report = row["code"].split(",")
        number = of.design.samples.index(sample[0]) if sample else 0
        if report in ("blank", "refused"):
            counts.append(2)
        else:
            counts.append(round(expected(of.design, number, report, share) * 1_000_000))
    rows = [
        [*row["code"].split(","), count] for row, count in zip(tally["rows"], counts, strict=True)
    ]
    with open("tally.csv", "w", newline="") as file:
        file.write(tally["header"] + "\n")
        csv.writer(file).writerows(rows)
    command = shlex.split(tally["command"])
    assert command[:3] == ["sottovoce", "survey", "estimate"]
    assert main([*command[1:], "--csv"]) == 0
    found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert float(found[0]["estimate"]) == pytest.approx(0.25, abs=1e-4)
    groups = len(of.design.samples)
    assert main(command[1:]) == 0
    assert f"{2 * groups} blank, {2 * groups} refused" in capsys.readouterr().out


def expected(of: Design, sample: int, report: str, share: Fraction) -> Fraction:
    """Return the expected share of a report; unknown rates are 1/2."""
    if of.name == "item-count":
        counts = [Fraction(n, 8) for n in (1, 3, 3, 1)]
        rows = [(*counts, 0), (0, *counts)] if sample else [counts, counts]
    elif of.name == "unrelated-unknown":
        rows = of.at("1/2")[sample].matrix()
    else:
        rows = of.matrix(sample)
    truths = [share, *[(1 - share) / 2] * 2] if of.name == "matrix" else [1 - share, share]
    place = of.reports(sample).index(report)
    return sum((t * row[place] for t, row in zip(truths, rows, strict=True)), Fraction(0))


def test_a_browser_survey_is_asked_on_paper_for_no_more_epsilon() -> None:
    survey = loads_survey(EXAMPLE.read_text())
    for language in survey.languages:
        for question, of in zip(survey.questions, mixed.procedures(survey, language), strict=True):
            assert of.browser_epsilon == float(question.metric.mechanism.epsilon)
            assert 0.99 * of.browser_epsilon <= of.epsilon <= of.browser_epsilon
            assert of.text == question.text[language]
            matrix = of.design.matrix()
            for i in range(len(question.answers)):
                for j in range(len(question.answers)):
                    browser = sent_as(question.metric.mechanism, i, j)
                    assert abs(matrix[i][j] - browser) < Fraction(1, 200)
    document = sheet.document(mixed.procedures(survey, "de"), words_of("de"), copies=1)
    (page,) = document["interviewer"]
    said = " ".join(row[1] for fact in page["facts"] for row in fact["rows"])
    assert "Umfrage im Browser 1,000, auf Papier 0,999" in said
    assert len(document["sheets"]) == len(survey.questions)


def test_a_card_of_many_ticks_counts_what_two_lines_reveal() -> None:
    text = EXAMPLE.read_text().replace(
        'name = "main_way"\n', 'name = "main_way"\nmechanism = "symmetric_unary"\n'
    )
    survey = loads_survey(text)
    (of,) = [each for each in mixed.procedures(survey, "en") if each.each]
    p = of.design.matrix()[1][1]
    assert of.epsilon == pytest.approx(2 * math.log(p / (1 - p)))
    assert of.epsilon <= 2.0
    document = sheet.document([of], words_of("en"), copies=1)
    (tally,) = document["tallies"]
    assert "One throw or draw for each line" in document["interviewer"][0]["steps"][5]
    assert tally["header"] == "line,answer,count" and tally["command"].endswith("--by line")
    assert tally["rows"][0]["code"] == "on_foot,yes"
    assert "throw or draw anew" in " ".join(document["sheets"][0]["steps"])


@pytest.mark.parametrize("mechanism", ["symmetric_unary", "optimized_unary"])
def test_a_line_is_ticked_on_paper_as_often_as_in_the_browser(mechanism: str) -> None:
    text = EXAMPLE.read_text().replace(
        'name = "main_way"\n', f'name = "main_way"\nmechanism = "{mechanism}"\n'
    )
    survey = loads_survey(text)
    question, of = survey.questions[2], mixed.procedures(survey, "en")[2]
    own, other = (sent_as(question.metric.mechanism, truth, 1) for truth in (1, 0))
    assert mixed.browser_design(question).matrix() == ((1 - other, other), (1 - own, own))
    (_, q), (_, p) = of.design.matrix()
    assert abs(p - own) < Fraction(1, 100) and abs(q - other) < Fraction(1, 100)
    assert (p == Fraction(1, 2)) == (mechanism == "optimized_unary")
    # Two lines differ: a tick of what is true, none of what is not, against the reverse.
    assert of.epsilon == pytest.approx(math.log(p / q * (1 - q) / (1 - p)))
    assert 0.99 * 2 <= of.epsilon <= 2


def test_a_card_of_many_ticks_that_chance_left_empty_is_an_answer() -> None:
    """Were it blank, 4 of 100 cards would be thrown away, and not at random."""
    text = EXAMPLE.read_text().replace(
        'name = "main_way"\n', 'name = "main_way"\nmechanism = "symmetric_unary"\n'
    )
    (of,) = [each for each in mixed.procedures(loads_survey(text), "en") if each.each]
    empty = of.design.matrix()[1][0] * of.design.matrix()[0][0] ** 6
    assert 0.04 < empty < 0.05
    document = printed(of)
    told = " ".join(document["sheets"][0]["steps"])
    assert "even if no line is ticked" in told
    assert "Throw or draw only once" not in told and "nothing else" not in told
    assert "leave the card empty" not in document["sheets"][0]["free"]
    assert document["tallies"][0]["total"] == ""
    assert "A card without any tick is none" in interviewing(of)
    assert "An empty or unreadable" not in interviewing(of)


@pytest.mark.parametrize("language", ["en", "de", "ar"])
def test_a_tally_of_many_lines_is_one_page(language: str) -> None:
    text = EXAMPLE.read_text().replace(
        'name = "main_way"\n', 'name = "main_way"\nmechanism = "symmetric_unary"\n'
    )
    of = mixed.procedures(loads_survey(text), language)
    document = sheet.document(of, words_of(language), copies=1, parts=("tallies",))
    assert len(pages_of(document, "letter")) == len(of)


def test_the_command_writes_both_and_says_what_it_chose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    own = ["survey", "cards", "--design", "warner", "--p", "0.73", "--device", "die"]
    assert main([*own, "--question", QUESTION, "--out", "sheet.html"]) == 0
    said = capsys.readouterr().out
    assert "warner, p = 2/3, a die and a cup, epsilon 0.693, wished for p = 73/100" in said
    assert QUESTION in Path("sheet.html").read_text("utf-8")
    few = ["survey", "cards", "--design", "warner", "--epsilon", "1", "--question", QUESTION]
    assert main([*few, "--out", "sheet.pdf", "--language", "de", "--paper", "letter"]) == 0
    assert "p = 19/26, the bag with 26 slips, epsilon 0.999" in capsys.readouterr().out
    assert main(["survey", "cards", "--survey", str(EXAMPLE), "--out", "habits.html"]) == 0
    assert "browser survey 1.000, paper 0.999" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ("--design warner --p 0.7 --out sheet.pdf", "--question must be given"),
        ("--design warner --p 0.7 --question Q --out sheet.txt", "--out must end with"),
        ("--design warner --p 0.5 --question Q --out sheet.pdf", "must not be 1/2"),
        ("--design warner --p 0.7 --question Q --out sheet.pdf --language fr", "en, ar, de"),
        ("--design warner --p 0.7 --question Q --out sheet.pdf --copies 0", "copies must be"),
        ("--design warner --p 0.7 --question Q --out sheet.pdf --parts card", "got 'card'"),
        ("--design direct --question Q --out sheet.pdf", "no sheets for direct"),
        ("--design mangat --epsilon 1 --question Q --out sheet.pdf", "does not choose"),
        ("--design warner --p 0.7 --epsilon 1 --question Q --out sheet.pdf", "leave out --p"),
        ("--design warner --epsilon 0.1 --device die --question Q --out s.pdf", "within epsilon"),
        ("--question Q --out sheet.pdf", "--design must be given"),
        ("--design two-coins --opposite Q --question Q --out sheet.pdf", "opposite"),
        ("--design two-coins --harmless Q --question Q --out sheet.pdf", "harmless"),
        ("--design item-count --items 2 --item A --question Q --out sheet.pdf", "takes 2"),
        (f"--survey {EXAMPLE} --question Q --out sheet.pdf", "leave out --question"),
        (f"--survey {EXAMPLE} --language fr --out sheet.pdf", "the survey is written in"),
    ],
)
def test_what_cannot_be_printed_is_refused_with_the_rule(
    options: str, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["survey", "cards", *shlex.split(options)]) == 2
    assert rule in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_no_sheet_is_made_of_an_empty_question() -> None:
    with pytest.raises(DesignError, match="question must have a text"):
        procedure(design("warner", {"p": "0.7"}), " ")


def test_examples_of_the_help_are_real() -> None:
    for module in (cards, plan):
        text = re.sub(r"\\\n\s*", "", module.EPILOG)
        lines = re.findall(r"^  (sottovoce survey .*?)(?:   .*)?$", text, re.MULTILINE)
        assert len(lines) >= 5
        for line in lines:
            parser_for("survey").parse_args(shlex.split(line)[2:])


def test_options_name_every_parameter_of_designs_that_are_printed_or_planned() -> None:
    shown = parser_for("survey").parse_args(["cards", "--out", "x.pdf"])
    others = {"draws", "reports"}  # of several draws from Kuk's decks, and renamed reports
    assert {name for name in all_parameters() if hasattr(shown, name)} == (
        set(all_parameters()) - others
    )


def test_devices_that_can_be_named_are_those_to_choose_from() -> None:
    assert design_options.DEVICES == tuple(CHOICES)
