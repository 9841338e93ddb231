"""The drawing of the rooms: it is what the imports say today, and floors and arrows come out of the graph as they should."""

from __future__ import annotations

from scripts.architecture_picture import BEGIN, END, drawn, floors, house, pages, with_figures
from scripts.import_graph import room_order
from scripts.written_pages import outdated


def test_the_drawing_and_the_figures_are_up_to_date() -> None:
    assert outdated(pages()) == [], "run python -m scripts.architecture_picture"


def test_a_room_stands_one_floor_above_the_highest_that_it_imports() -> None:
    arrows = {"top": {"left", "ground"}, "left": {"low"}, "low": {"ground"}, "ground": set[str](), "beside": {"ground"}}
    assert floors(arrows) == [["ground"], ["beside", "low"], ["left"], ["top"]]


def test_only_arrows_that_no_other_way_implies_are_drawn() -> None:
    arrows = {"top": {"middle", "ground"}, "middle": {"ground"}, "ground": set[str]()}
    assert drawn(arrows) == [("middle", "ground"), ("top", "middle")]


def test_an_arrow_up_is_counted_and_not_drawn() -> None:
    assert room_order().index("server/broker") < room_order().index("server/base")
    built = house(
        {
            "ottla.server.broker": {},
            "ottla.server.broker.broker": {"ottla.server.base.clock": 3},
            "ottla.server.base.clock": {"ottla.server.broker.broker": 5},
            "ottla.testing": {"ottla.server.broker.broker": 8},
            "tests.test_testing": {"ottla.testing": 9},
        }
    )
    assert built.floors == [["server/base"], ["server/broker"]]
    assert built.sizes == {"server/base": 1, "server/broker": 1}
    assert (built.up, built.circles) == (1, 1)


def test_the_figures_stand_between_their_marks_only() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert with_figures(page, "| new |") == f"before\n{BEGIN}\n| new |\n{END}\nafter\n"
