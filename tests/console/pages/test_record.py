"""One record in full, and its bytes to be saved."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.console.rendering.text import MAX_SHOWN_BYTES
from tests.console.browser import Browser
from tests.console.conftest import Records

BIG = b"y" * 2_000_000


@pytest.fixture(scope="module")
def record(topic: Callable[..., str], produced: Records) -> str:
    name = topic("record", max_message_bytes="4000000")
    produced(name, b'{"a": [1]}', BIG, None, key=b"\x00key")
    return name


def test_a_record_in_full(browser: Browser, record: str) -> None:
    page = browser.get(f"/topics/{record}/0/0").text
    assert '<pre tabindex="0" aria-label="Value">{\n  &#34;a&#34;: [\n    1\n  ]\n}</pre>' in page
    assert ">␀key</pre>" in page
    assert "00 6b 65 79" in page
    assert "1970-01-01 00:00:01.000+00:00" in page


def test_json_of_some_lines_can_be_folded(browser: Browser, topic: Callable[..., str], produced: Records) -> None:
    attack = b'"</div></details><script>alert(1)</script>"'
    name = topic("record-folded")
    produced(name, b'{"a": [1, 2, 3], "long": [' + b", ".join([attack] * 13) + b"]}", b"[" * 70 + b"]" * 70)
    page = browser.get(f"/topics/{name}/0/0").text
    assert (
        '<div class="json" role="group" tabindex="0" aria-label="Value"><div>{</div>'
        '<details open><summary>&#34;a&#34;: [<span class="folded"> … 3 elements</span></summary>'
        "<div>    1,\n    2,\n    3\n  ],</div></details>"
        '<details><summary>&#34;long&#34;: [<span class="folded"> … 13 elements</span></summary><div>    '
    ) in page
    assert "&lt;script&gt;" in page
    assert "</div></details><div>}</div></div>" in page
    assert f'aria-label="Value">{"[" * 70}' in browser.get(f"/topics/{name}/0/1").text


def test_what_is_large_is_cut_and_saved_whole(browser: Browser, record: str) -> None:
    page = browser.get(f"/topics/{record}/0/1").text
    assert len(page) < MAX_SHOWN_BYTES + 25_000
    assert "Only the beginning: 64.0 KiB of 1.9 MiB." in page
    answer = browser.get(f"/topics/{record}/0/1/value")
    assert answer.body == BIG
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == 'attachment; filename="value.bin"'
    assert browser.get(f"/topics/{record}/0/1/key").body == b"\x00key"


@pytest.mark.parametrize("end", ["0/3", "0/99", "1/0", "0/2/value", "0/0/headers", "0/9/value"])
def test_what_is_not_there(browser: Browser, record: str, end: str) -> None:
    assert browser.get(f"/topics/{record}/{end}").status == 404


@pytest.mark.parametrize("end", ["x/0", "0/x", "0/-1", f"0/{2**63}"])
def test_what_cannot_be_meant(browser: Browser, record: str, end: str) -> None:
    assert browser.get(f"/topics/{record}/{end}").status == 400


def test_a_record_can_be_produced_again(browser: Browser, record: str) -> None:
    page = browser.get(f"/topics/{record}/0/0").text
    assert f'href="/topics/{record}/produce?again=0.0"' in page
    assert f"--partition 0 --from 0 --count 1 --isolation uncommitted --json -- {record}</pre>" in page
