"""Files of answers: what is read, and which rows are refused by which rule."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.designs import BadRows, DesignError, Request, analyse
from estimator.designs.answers import Reading, gather
from estimator.designs.table import read
from estimator.errors import DocumentError, NoReports

WARNER = Reading("warner", {"p": "0.7"})


def survey(text, name="warner", given=None, **options):
    reading = {
        key: options.pop(key) for key in ("answer", "one", "strata", "others") if key in options
    }
    own = {"p": "0.7"} if given is None else given
    if "strata" in reading:
        options["strata"] = reading["strata"]
        reading["strata"] = tuple(reading["strata"])
    return analyse(read(text), Request(Reading(name, own, **reading), **options))


def problems(text, reading=WARNER):
    with pytest.raises(BadRows) as caught:
        gather(read(text), reading)
    return list(caught.value.problems)


LONG = "answer\n" + "yes\n" * 6 + "no\n" * 4 + "refused\n" + '""\n'


@pytest.mark.parametrize(
    "text",
    [
        LONG,
        "\ufeff" + LONG.replace("\n", "\r\n"),
        "answer;other\n" + "1;x\n" * 6 + "0;\n" * 4 + "refusal;x\n" + "NA;x\n",
        "answer\tcount\nyes\t6\nNo\t4\nREFUSED\t1\n\t1\n",
        "yes,no,blank,refused\n6,4,1,1\n",
        "No,Yes,refused,blank\n3,6,1,0\n1,0,0,1\n",
        "No,Yes,refused,blank,,\n4,6,1,1,,\n,,,,,\n",
        "No,Yes,refused,blank\n4,6,1,1,,\n",
        json.dumps({"counts": {"yes": 6, "no": 4, "blank": 1, "refused": 1}}),
        json.dumps(
            [{"answer": True}] * 6 + [{"answer": 0}] * 4 + [{"answer": None}, {"answer": "refused"}]
        ),
    ],
)
def test_one_survey_may_be_written_in_many_ways(text):
    found = survey(text)
    assert (found.n, found.blank, found.refused) == (10, 1, 1)
    assert found.figures[0].estimate == pytest.approx((0.6 - 0.3) / 0.4)


def test_blanks_and_refusals_are_never_a_no():
    without = survey("yes,no\n6,4\n").figures[0]
    assert survey("yes,no,blank,refused\n6,4,100,200\n").figures[0] == without


def test_a_respondent_with_a_blank_line_and_a_refusal_refused():
    found = survey("respondent,answer\na,\na,refused\nb,yes\nc,no\n")
    assert (found.n, found.blank, found.refused) == (2, 0, 1)


def test_all_bad_rows_are_named_by_line_and_nothing_is_used():
    text = (
        "answer,weight,respondent,age\n"
        "yes,1,a,30\n"
        "no,heavy,b,31\n"
        "perhaps,1,c,32\n"
        "yes,-1,d,33\n"
        "no,1,e,34\n"
        "yes,1,e,34\n"
        "no,1,f\n"
        "no,1,,35\n"
        "no,1,g,\n"
        "refused,,h,\n"
    )
    reading = Reading("warner", {"p": "0.7"}, others=("age",))
    assert problems(text, reading) == [
        "line 3: weight must be a number above 0",
        "line 4: answer must be one of no, yes, blank, or refused",
        "line 5: weight must be a number above 0",
        "lines 6, 7: one respondent with different answers",
        "line 8: 3 fields, the header has 4",
        "line 9: respondent must not be blank",
        "line 10: age must not be blank",
    ]


def test_a_broken_quote_hides_no_later_bad_row():
    told = problems('answer,x\nyes,"1"2\nmaybe,3\nno,4\n')
    assert [problem.split(":")[0] for problem in told] == ["line 2", "line 3"]


@pytest.mark.parametrize(
    ("odd", "where", "rule"),
    [("unknown", [9], "a number, as in other rows"), (None, range(2, 62), "a decimal point")],
)
def test_a_slip_in_a_column_of_numbers_makes_no_categories(odd, where, rule):
    ages = [f"{20 + i},5" if odd is None else str(20 + i) for i in range(60)]
    ages[7] = odd or ages[7]
    text = "answer;age\n" + "".join(f"{i % 2};{age}\n" for i, age in enumerate(ages))
    with pytest.raises(BadRows) as caught:
        survey(text, covariates=("age",), others=("age",))
    assert [int(p.split()[1][:-1]) for p in caught.value.problems] == [*where]
    assert all(rule in problem for problem in caught.value.problems)


def test_a_name_for_each_respondent_is_no_covariate():
    text = "answer,id\n" + "".join(f"{i % 2},r{i}\n" for i in range(3000))
    with pytest.raises(DesignError, match="'id' has 3000 categories, more than 20"):
        survey(text, covariates=("id",), others=("id",))


def test_groups_are_compared_in_each_of_several_answers():
    text = "sex,a,b,c\nf,10,20,30\nm,30,20,10\nx,20,20,20\n"
    given = {"answers": "a,b,c", "truth": "1/2"}
    found = survey(text, "matrix", given, by="sex", others=("sex",))
    told = {(group.name, each.name): each.estimate for group, each in found.differences}
    assert told["m", "a"] == pytest.approx(2 / 3) and told["m", "c"] == pytest.approx(-2 / 3)
    assert len(told) == 6 and [test.name for test in found.homogeneity] == ["a", "b", "c"]


def test_weights_count_in_a_regression():
    # A respondent of weight 2 says what two people of the population do, but is one respondent.
    lines = [("yes", "f", 1, 60), ("no", "f", 1, 40), ("yes", "m", 2, 45), ("no", "m", 1, 45)]
    text = "answer,sex,weight,count\n" + "".join(f"{a},{s},{w},{n}\n" for a, s, w, n in lines)
    fit = survey(text, covariates=("sex",), others=("sex",)).fit
    assert fit.weighted and fit.n == 190
    shares = [(0.6 - 0.3) / 0.4, (90 / 135 - 0.3) / 0.4]
    logits = [np.log(share / (1 - share)) for share in shares]
    assert fit.coefficients[0].estimate == pytest.approx(logits[0], abs=1e-5)
    assert fit.coefficients[1].estimate == pytest.approx(logits[1] - logits[0], abs=1e-5)
    (groups,) = (survey(text, by="sex", others=("sex",)).groups,)
    error = groups[0].figures[0].standard_error / (shares[0] * (1 - shares[0]))
    spread = np.sqrt(190 / 189 * 99 / 100)  # one sample of 190, not one of 100
    assert fit.coefficients[0].standard_error == pytest.approx(error * spread, rel=1e-5)


def test_an_error_repeats_no_respondents_value():
    for bad in problems("answer,weight\nmysecret,1\nyes,mysecret\n"):
        assert "mysecret" not in bad


@pytest.mark.parametrize(
    ("text", "reading", "found"),
    [
        ("answer,count\nyes,-1\n", WARNER, "line 2: count must be a whole number, 0 or more"),
        ("answer,count\nyes,1.5\n", WARNER, "line 2: count must be a whole number, 0 or more"),
        ("yes,no\n3,x\n", WARNER, "line 2: no must be a whole number, 0 or more"),
        ("answer,stratum\nyes,\n", WARNER, "line 2: stratum must not be blank"),
        (
            "answer,stratum\nyes,west\n",
            Reading("warner", {"p": 0.7}, strata=("east", "north")),
            "line 2: stratum must be one of east, north",
        ),
        (
            "answer,sample\nyes,3\n",
            Reading("lie-detector", {"p1": 0.2, "p2": 0.8}),
            "line 2: sample must be one of 1, 2",
        ),
        (
            "sample,0,1,2\nshort,3,4,5\n",
            Reading("item-count", {"items": 1}),
            "line 2: 2 is no report of sample short",
        ),
        ("answer,p\nyes,0.5\n", Reading("warner", {}), "line 2: warner: reports say nothing"),
        ("p,yes,no\n2,1,1\n0.7,1,1\n", Reading("warner", {}), "line 2: p must be a probability"),
        ("p,yes\n2,1\n", Reading("warner", {}), "line 2: p must be a probability"),
        ("yes,no\n1,9999999999999\n", WARNER, "line 2: no must be a whole number, 0 or more"),
        ("answer,p\nyes,2\n", Reading("warner", {}), "line 2: p must be a probability in 0..1"),
        ('[{"answer": "yes"}, 3]', WARNER, "row 2: must be an object of texts and numbers"),
        ('answer,x\nyes,"1\n', WARNER, "line 2: unexpected end of data"),
        ("answer;weight\nyes;1,5\n", WARNER, "line 2: weight must be a number above 0 (with a dec"),
    ],
)
def test_bad_rows_are_refused_by_a_rule(text, reading, found):
    (only,) = problems(text, reading)
    assert only.startswith(found)


@pytest.mark.parametrize(
    ("text", "reading", "error", "reason"),
    [
        ("yes,no,refusals\n1,2,3\n", WARNER, DocumentError, "got 'refusals'"),
        ("yes\n1\n", WARNER, DocumentError, "counts of all of no, yes"),
        ("answer,answer\nyes,no\n", WARNER, DocumentError, "each column once"),
        ("", WARNER, DocumentError, "must name the columns"),
        ("answer,,x\nyes,1,2\n", WARNER, DocumentError, "must name each column, got 'none for 2'"),
        ("Answer\nyes\n", WARNER, DocumentError, "--answer names another"),
        ("answer\n", WARNER, DocumentError, "at least one answer"),
        ("{", WARNER, DocumentError, "must be JSON"),
        ('{"rows": 3}', WARNER, DocumentError, "must be a list"),
        ('{"rows": [], "counts": {}}', WARNER, DocumentError, "either rows or counts"),
        ('{"rows": [], "color": 3}', WARNER, DocumentError, "unknown fields"),
        ('{"rows": [{"answer": NaN}]}', WARNER, DocumentError, "NaN is no JSON"),
        ('{"rows": [{"a": 1, "a": 2}]}', WARNER, DocumentError, "twice"),
        ("answer\nyes\n", Reading("lie-detector", {"p1": 0.2, "p2": 0.8}), DocumentError, "sample"),
        ("answer,p\nyes,0.7\n", WARNER, DesignError, "there is a column 'p', too"),
        ("answer,count,respondent\nyes,1,a\n", WARNER, DocumentError, "both counts and respondent"),
        ("answer\nyes\n", Reading("warner", {"p": 0.7}, others=("age",)), DocumentError, "'age'"),
        ("answer\n1\n", Reading("kuk", {"red_if_yes": 0.8, "red_if_no": 0.2}, one="blue"),
         DesignError, "one must be black or red"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_by_a_rule(text, reading, error, reason):
    with pytest.raises(error, match=reason):
        gather(read(text), reading)


@pytest.mark.usefixtures("uncollected")
def test_a_document_nested_without_end_is_refused():
    with pytest.raises(DocumentError, match="must be JSON"):
        read("[" * 200_000)


def test_a_parameter_in_a_column_makes_cells():
    found = survey("p,yes,no\n0.7,60,40\n0.8,50,50\n", given={})
    assert [str(each.p) for each in found.designs] == ["7/10", "4/5"]
    assert found.agreement.degrees == 1
    same = survey("p,yes,no\n0.7,60,40\n0.7,50,50\n", given={})
    assert same.agreement is None and len(same.designs) == 1


def test_what_does_not_go_together_is_refused():
    cells = "p,yes,no,weight\n0.7,60,40,2\n0.8,50,50,1\n"
    with pytest.raises(DesignError, match="cells\\) and weights"):
        survey(cells, given={})
    with pytest.raises(DesignError, match="cells\\) and a finite population"):
        survey("p,yes,no\n0.7,60,40\n0.8,50,50\n", given={}, population=900)
    with pytest.raises(DesignError, match="cells\\) and Clopper"):
        survey("p,yes,no\n0.7,60,40\n0.8,50,50\n", given={}, method="clopper_pearson")
    with pytest.raises(DesignError, match="one set of parameters"):
        survey("p1,p2,sample,yes,no\n0,1,1,6,4\n0,1,2,5,5\n0,0.9,1,6,4\n0,0.9,2,6,4\n",
               "lie-detector", {})  # fmt: skip
    with pytest.raises(DesignError, match="within a stratum"):
        survey("p,stratum,yes,no\n0.7,a,6,4\n0.8,a,5,5\n0.8,b,5,5\n", given={})
    rows = "answer,stratum,weight,sex\n" + "yes,a,1,f\nno,a,1,m\nyes,b,1,f\nno,b,1,m\n" * 2
    with pytest.raises(DesignError, match="groups to compare and strata"):
        survey(rows, strata={"a": 9, "b": 9}, by="sex", others=("sex",))
    with pytest.raises(DesignError, match="covariates and strata: rename the column, and give"):
        survey(rows, strata={"a": 9, "b": 9}, covariates=("sex",), others=("sex",))
    for column in ("answer", "count"):
        with pytest.raises(DocumentError, match="must not be how answers are told"):
            survey("answer,count\nyes,4\nno,3\n", by=column, others=(column,))
    with pytest.raises(DesignError, match="needs its size"):
        survey(rows)
    with pytest.raises(NoReports, match="stratum 'c'"):
        survey(rows, strata={"a": 90, "b": 90, "c": 90})
    with pytest.raises(DesignError, match="no regression for item-count"):
        survey("answer,sample,x\n0,short,1\n1,short,2\n1,long,1\n2,long,2\n", "item-count",
               {"items": 2}, covariates=("x",), others=("x",))  # fmt: skip
    with pytest.raises(NoReports, match="nobody answered in sample 2"):
        survey("sample,yes,no\n1,5,5\n", "lie-detector", {"p1": 0.2, "p2": 0.8})
    with pytest.raises(DocumentError, match="two groups"):
        survey("answer,sex\nyes,f\nno,f\n", by="sex", others=("sex",))


def test_sizes_given_correct_the_errors_of_one_sample():
    plain = survey("yes,no\n60,40\n")
    small = survey("yes,no\n60,40\n", population=120)
    assert small.finite and not plain.finite
    assert small.figures[0].standard_error < plain.figures[0].standard_error
    two = survey("sample,yes,no\n1,60,40\n2,50,50\n", "lie-detector", {"p1": 0, "p2": 1},
                 population=300)  # fmt: skip
    assert two.finite and two.population == 300
    strata = survey("stratum,yes,no\na,60,40\nb,50,50\n", strata={"a": 300, "b": 100})
    assert strata.finite and strata.population == 400
    assert strata.figures[0].estimate == pytest.approx(0.75 * 0.75 + 0.25 * 0.5)


def test_a_mistyped_number_among_covariates_is_named_and_makes_no_categories():
    rows = [f"{'yes' if age % 2 else 'no'},{age}" for age in range(20, 60)]
    with pytest.raises(BadRows, match="line 42: age must be a number, as in other rows"):
        survey("answer,age\n" + "\n".join([*rows, "yes,4O"]), covariates=("age",), others=("age",))
    few = "answer,size\n" + "yes,1\nno,1\nyes,2\nno,2\nyes,3 or more\nno,3 or more\n" * 20
    fit = survey(few, covariates=("size",), others=("size",)).fit
    assert len(fit.coefficients) == 3


def test_counts_may_be_written_in_the_digits_of_any_script():
    assert survey("answer,count\nyes,٣١\nno,30\n").n == 61


def test_paper_and_browser_are_two_strata_with_parameters_of_their_own():
    text = (
        "answer,stratum,truth,count\na,paper,4/11,120\nb,paper,4/11,80\nc,paper,4/11,40\n"
        "a,browser,0.36,300\nb,browser,0.36,90\nc,browser,0.36,110\n"
    )
    given, sizes = {"answers": "a,b,c"}, {"paper": 3000, "browser": 1000}
    both = survey(text, "matrix", given, strata=sizes)
    assert len(both.designs) == 2 and not both.cells and both.finite
    assert both.epsilon == max(design.epsilon for design in both.designs)
    lines = text.splitlines(keepends=True)
    paper, browser = (
        survey("".join([lines[0], *part]), "matrix", given) for part in (lines[1:4], lines[4:])
    )
    for place in range(3):
        alone = 0.75 * paper.figures[place].estimate + 0.25 * browser.figures[place].estimate
        assert both.figures[place].estimate == pytest.approx(alone)
    with pytest.raises(DesignError, match="truth is given, and there is a column"):
        survey(text, "matrix", given | {"truth": "0.36"})
    called_truth = survey("truth,lie\n60,40\n", "matrix", {"answers": "truth,lie", "truth": "0.5"})
    assert called_truth.n == 100


def test_counts_and_rows_give_the_same_regression():
    lines = [("yes", "f", 30), ("no", "f", 30), ("yes", "m", 45), ("no", "m", 25)]
    counted = "answer,sex,count\n" + "".join(f"{a},{s},{n}\n" for a, s, n in lines)
    rows = "answer,sex\n" + "".join(f"{a},{s}\n" * n for a, s, n in lines)
    first, second = (
        survey(text, covariates=("sex",), others=("sex",)).fit for text in (counted, rows)
    )
    assert first.n == second.n == 130
    for one, other in zip(first.coefficients, second.coefficients, strict=True):
        assert one.estimate == pytest.approx(other.estimate, abs=1e-6)
        assert one.standard_error == pytest.approx(other.standard_error, rel=1e-6)
    assert first.tests[0].chi_square == pytest.approx(second.tests[0].chi_square, abs=1e-7)
    assert [c.label for c in first.coefficients] == ["(intercept)", "sex: m"]


def test_the_lie_detector_has_a_regression_with_its_honesty():
    random = np.random.default_rng(6)
    n = 4000
    x, sample = random.normal(size=n).round(2), random.integers(0, 2, n)
    held = random.random(n) < 1 / (1 + np.exp(-0.5 - x))
    says = np.where(held, random.random(n) < 0.8, random.random(n) < np.where(sample, 0.9, 0.1))
    text = "answer,sample,x\n" + "".join(
        f"{int(a)},{s + 1},{v}\n" for a, s, v in zip(says, sample, x, strict=True)
    )
    own = survey(text, "lie-detector", {"p1": 0.9, "p2": 0.1}, covariates=("x",), others=("x",))
    honesty, slope = own.fit.honesty, own.fit.coefficients[1]
    assert abs(honesty.estimate - 0.8) < 5 * honesty.standard_error  # false alarm below 1e-6
    assert abs(slope.estimate - 1) < 5 * slope.standard_error


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=200))
def test_no_text_does_anything_but_be_read_or_refused(text):
    try:
        gather(read(text), WARNER)
    except ValueError:
        pass


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["answer", "count", "weight", "respondent", "p", "yes"]),
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
        ),
        max_size=6,
    )
)
def test_no_document_does_anything_but_be_read_or_refused(rows):
    try:
        gather(read(json.dumps(rows)), WARNER)
    except ValueError:
        pass
