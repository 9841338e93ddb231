"""scripts/cluster_picture.py: docs/cluster.svg is what it draws, it is well-formed, and each colour has one for the dark."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from scripts.cluster_picture import BROKERS, DARK, LIGHT, pages, picture
from scripts.written_pages import outdated


def test_the_picture_is_up_to_date() -> None:
    assert outdated(pages()) == [], "run python -m scripts.cluster_picture"


def test_each_partition_has_one_leader_and_is_copied_to_every_follower() -> None:
    drawn = list(ElementTree.fromstring(picture()).iter())
    words = [element.text for element in drawn if element.tag.endswith("text")]
    for partition in range(len(BROKERS)):
        assert words.count(f"orders-{partition}, leader") == 1
        assert words.count(f"orders-{partition}, follower") == len(BROKERS) - 1
    copies = [element for element in drawn if element.get("class") == "copies"]
    assert len(copies) == len(BROKERS) * (len(BROKERS) - 1)


def test_every_colour_is_known_in_light_and_dark() -> None:
    used = {name for names in re.findall(r'class="([^"]+)"', picture()) for name in names.split()}
    assert LIGHT.keys() == DARK.keys()
    assert used - LIGHT.keys() == {"box", "line", "copies", "follower"}
