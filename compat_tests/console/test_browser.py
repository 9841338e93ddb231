"""The console in Chromium: no script of a stranger runs, the policy is kept, axe finds nothing, and the keyboard is enough.

The browser is Debian's, or the one that OTTLA_CHROMIUM names. A picture of each page that fails is left in build/console.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from playwright.sync_api import Browser, Page

from compat_tests.brokers import SharedBrokers
from compat_tests.commands import made
from compat_tests.console.axe import PICTURES, check, pictured, violations
from compat_tests.console.chromium import chromium
from compat_tests.console.hostile import HOSTILE
from compat_tests.console.running import Visitor, broker, console
from compat_tests.console.test_secured import COMMAND_CONFIG, WITH_LOGIN, broker_words, client_properties
from compat_tests.test_commands_txn import open_transaction
from compat_tests.waiting import wait_for


@pytest.fixture(scope="module", name="chromium")
def _chromium() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def at(shared_brokers: SharedBrokers) -> str:
    """Returns where the broker is; what a browser is tested for does not depend on its kind."""
    return shared_brokers.get("ottla").bootstrap


@pytest.fixture(scope="module")
def address(at: str, shared_brokers: SharedBrokers) -> Iterator[str]:
    data_dir = Path(shared_brokers.get("ottla").log_file).parent / "data"
    with console(at, "--data-dir", str(data_dir)) as found:
        yield found


@pytest.fixture(scope="module")
def within(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The console of a broker that has started it and shows its inside: requests that were watched, an open transaction, a test
    kit with a fault and a snapshot, two log directories."""
    place = tmp_path_factory.mktemp("inside")
    with broker(Path(f"{place}/one,{place}/two"), "--metrics-port", "0", "--test-port", "0") as (
        _,
        bootstrap,
        url,
    ):
        visitor = Visitor(url)
        for form in (
            {"act": "fault", "api": "Fetch", "topic": "none", "do": "hold until released"},
            {"act": "snapshot", "name": "one"},
            {"act": "record", "max": "100"},
        ):
            assert visitor.post("/test", visitor.get("/test"), **form).status == 303
        visitor.post("/requests", visitor.get("/requests"), client="", n="20", seconds="60")
        open_transaction(bootstrap, "till", made(bootstrap, 1))
        wait_for(lambda: "The watch is over" in visitor.get("/requests").text, "requests are seen")
        yield url


@pytest.fixture
def look(chromium: Browser, address: str, request: pytest.FixtureRequest) -> Iterator[Callable[..., Page]]:
    """`look(script=True)` opens the console; at the end nothing may have been said on any page's console."""
    said: list[str] = []
    pages: list[Page] = []

    def open_(*, script: bool = True) -> Page:
        context = chromium.new_context(java_script_enabled=script, viewport={"width": 1200, "height": 800})
        context.set_default_timeout(30_000)
        page = context.new_page()
        page.on(
            "console",
            lambda message: said.append(message.text) if message.type != "error" or not _is_status(message.text) else None,
        )
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
        page.goto(address)
        pages.append(page)
        return page

    yield open_
    if said:
        PICTURES.mkdir(parents=True, exist_ok=True)
        pages[-1].screenshot(path=PICTURES / f"{request.node.name}.png")
    for page in pages:
        page.context.close()
    assert said == []


@pytest.fixture(scope="module")
def hostile(at: str) -> str:
    """A topic with a record for each hostile value, and a group of that name that has committed in it."""
    name = made(at, 1)
    producer = Producer({"bootstrap.servers": at, "linger.ms": 5})
    for value in HOSTILE:
        producer.produce(name, value.encode(), value.encode(), headers=[(value.replace("\0", ""), value.encode())])
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": at, "group.id": f"<img src=x onerror=alert(1)>{name}"})
    consumer.commit(offsets=[TopicPartition(name, 0, 1)], asynchronous=False)
    consumer.close()
    return name


def _is_status(text: str) -> bool:
    """Returns whether this is how Chromium says that a page had a status of 400 or more."""
    return text.startswith("Failed to load resource: the server responded with a status of 40")


def paths(topic: str) -> list[str]:
    group = f"%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E{topic}"
    return [
        *("/", "/topics", "/new-topic", "/groups", "/brokers", "/inside", "/nothing", "/topics?sort=x"),
        *(f"/topics/{topic}{end}" for end in ("", "/settings", "/messages?n=4", "/0/0", "/0/999999", "/produce", "/delete")),
        *(
            f"/topics/{topic}{end}"
            for end in ("/messages?where=5", "/messages?value=%3C&n=4", "/tail", "/groups", "/rates", "/produce?again=0.0")
        ),
        "/topics/__consumer_offsets/messages?n=4",
        *(f"/group?id={group}", f"/group/reset?id={group}&to=beginning", f"/group/rates?id={group}"),
        *(f"/group/why?id={group}&watch=0", "/denied"),
        *("/transactions", "/transaction/hanging", f"/topics/{topic}/producers", "/access", "/access/new", "/access/users"),
        *("/access/users/new", "/access/quotas/new", "/brokers/1"),
        *("/access/tokens", "/access/quotas", "/broker/directories", "/broker/reassignments", "/broker/quorum"),
        *(f"/setting?of=topic&name={topic}&key=retention.ms", f"/setting/set?of=topic&name={topic}&key=retention.ms"),
        *(f"/group/settings?id={group}", f"/group/delete?id={group}", f"/topics/{topic}/partitions"),
        f"/group/forget?id={group}",
        *("/files", "/file/meta.properties", f"/files/{topic}-0"),
        *(f"/files/{topic}-0/{end}" for end in (f"{0:020d}.log{of}" for of in ("", "?records=1", "?batch=0"))),
    ]


def visit(page: Page, address: str, path: str) -> None:
    parts = urlsplit(address)
    page.goto(f"{parts.scheme}://{parts.netloc}{path}")


INSIDE = (
    *("/inside", "/requests", "/requests?request=1", "/transactions", "/transaction?id=till", "/transaction/abort?id=till"),
    *("/test", "/test/reset", "/files?dir=2", "/file/2%3Ameta.properties"),
)
SECURED = ("/access/tokens", "/access/tokens/new", "/access/tokens/renew?id=TOKEN", "/access/tokens/expire?id=TOKEN")
"""Pages of a cluster with delegation tokens, of which there is one."""


def test_axe_finds_nothing_in_light_and_dark_and_it_is_narrow_where_the_screen_is(
    look: Callable[..., Page], address: str, within: str, hostile: str
) -> None:
    page = look()
    page.goto(within)
    for at, path in [*((address, path) for path in paths(hostile)), *((within, path) for path in INSIDE)]:
        visit(page, at, path)
        check(page, path)


def test_axe_and_partitions_that_would_move(look: Callable[..., Page], tmp_path: Path) -> None:
    page = look()
    with broker(tmp_path / "data", "--test-port", "0", "--test-nodes", "3") as (_, bootstrap, url):
        page.goto(url)
        topic = made(bootstrap, 2)
        visit(page, url, "/broker/reassignments")
        check(page, "no reassignment")
        page.get_by_role("link", name="Move partitions").click()
        page.get_by_label("Topic").wait_for()
        check(page, "which topic")
        page.get_by_label("Topic").fill(topic)
        page.keyboard.press("Enter")
        page.get_by_label("Brokers, the preferred leader first").fill("2, 3")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Move").wait_for()
        check(page, "the preview")
        assert page.locator("tbody tr").count() == 2
        page.get_by_label("Type the topic's name").fill(topic)
        page.get_by_role("button", name="Move").click()
        page.get_by_role("alert").wait_for()  # there is one copy behind the three, which cannot move
        check(page, "what was refused")


def test_axe_and_tokens(look: Callable[..., Page], tmp_path: Path) -> None:
    words = [*broker_words(WITH_LOGIN, tmp_path), "--override", "delegation.token.secret.key=the secret key"]
    words += ["--override", f"{COMMAND_CONFIG}={client_properties(WITH_LOGIN, tmp_path)}"]
    page = look()
    with broker(tmp_path / "data", *words) as (_, _, url):
        page.goto(url)
        visit(page, url, "/access/tokens/new")
        page.get_by_label("Who may renew").fill("User:bob")
        page.get_by_role("button", name="Make").click()
        page.get_by_role("button", name="Copy").first.wait_for()
        check(page, "the new token")
        token = page.locator("dd").first.inner_text()
        for path in SECURED:
            visit(page, url, path.replace("TOKEN", token))
            check(page, path)


def test_hostile_records_are_text(look: Callable[..., Page], address: str, hostile: str) -> None:
    page = look()
    visit(page, address, f"/topics/{hostile}/messages?from=beginning&n=500")
    assert page.locator("tbody tr").count() == len(HOSTILE)
    assert page.locator("tbody script, tbody img, tbody svg, tbody iframe, tbody form").count() == 0
    visit(page, address, f"/topics/{hostile}/0/0")
    assert page.locator("pre").first.inner_text() == HOSTILE[0]


def test_without_script_by_keyboard(look: Callable[..., Page], address: str, hostile: str) -> None:
    page = look(script=False)
    visit(page, address, f"/topics/{hostile}/produce")
    page.get_by_label("Key; blank for none").focus()
    page.keyboard.type("typed")
    page.keyboard.press("Tab")
    page.keyboard.type("a value")
    for _ in range(3):  # past two boxes to be ticked
        page.keyboard.press("Tab")
    page.keyboard.type("h=1")
    page.keyboard.press("Tab")
    with pictured(page, "keyboard"):
        assert page.evaluate("document.activeElement.textContent") == "Send"
    page.keyboard.press("Enter")
    page.wait_for_url("**/0/*")
    assert page.locator("pre").first.inner_text() == "typed"
    visit(page, address, f"/topics/{hostile}/messages")
    page.get_by_label("Value contains").fill("a value")
    page.keyboard.press("Enter")
    page.wait_for_url("**value=a+value**")
    assert page.locator("tbody tr").count() == 1


def test_keys(look: Callable[..., Page], hostile: str) -> None:
    page = look()
    page.keyboard.type("gt")
    page.wait_for_url("**/topics")
    page.keyboard.type("/")
    page.keyboard.type(hostile)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**q={hostile}**")
    assert page.locator("tbody tr").count() == 1
    page.locator("h1").click()
    page.keyboard.type("?")
    assert page.get_by_role("dialog").count() == 1
    page.keyboard.press("Escape")
    assert page.get_by_role("dialog").count() == 0


def test_the_switch_of_colours(look: Callable[..., Page]) -> None:
    page = look()
    page.emulate_media(color_scheme="light")

    def paper() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light = paper()
    page.get_by_role("button", name="Colours: system").click()
    page.get_by_role("button", name="Colours: light").click()
    dark = paper()
    assert dark != light
    page.keyboard.press("Enter")  # the button has the focus
    page.get_by_role("button", name="Colours: system").click()
    page.get_by_role("button", name="Colours: light").click()
    visit(page, page.url, "/topics")
    page.get_by_role("button", name="Colours: dark").wait_for()
    assert paper() == dark
    assert violations(page, []) == []


def test_json_is_folded_without_script_and_by_keyboard(look: Callable[..., Page], address: str, at: str) -> None:
    topic, producer = made(at, 1), Producer({"bootstrap.servers": at})
    items = ", ".join(f'"</summary><img src=x onerror=alert({number})>"' for number in range(20))
    producer.produce(topic, f'{{"short": [1, 2, 3], "long": [{items}]}}')
    assert producer.flush(60) == 0
    page = look(script=False)
    visit(page, address, f"/topics/{topic}/0/0")
    value = page.locator(".json")
    assert value.locator("img").count() == 0
    assert value.inner_text().split("\n")[:6] == ["{", '"short": [', "    1,", "    2,", "    3", "  ],"]
    long = value.locator("details").last
    assert long.get_attribute("open") is None
    assert long.locator("summary").inner_text().endswith("[ … 20 elements")
    assert not long.locator("div").is_visible()
    long.locator("summary").focus()
    page.keyboard.press("Enter")
    assert long.locator("div").inner_text().count("<img src=x onerror=alert") == 20
    assert long.locator("summary").inner_text().endswith("[")
    page = look()
    visit(page, address, f"/topics/{topic}/0/0")
    check(page, "JSON that can be folded")
    page.locator(".json details").last.locator("summary").click()
    check(page, "JSON that is not folded")


def test_the_overview_renews_itself(look: Callable[..., Page], within: str) -> None:
    page = look()
    page.goto(within)
    page.locator("#look").focus()
    page.locator("svg.chart").nth(2).wait_for()  # there is one more look every five seconds, and a chart needs three
    assert page.evaluate("document.activeElement.id") == "look"
    page.locator("details summary").first.click()
    check(page, "the overview with its charts")
    page.route(lambda url: urlsplit(url).path == "/", lambda route: route.fulfill(status=401))
    page.get_by_text("Not renewed since").wait_for()
    check(page, "an overview whose session is over")
    page.unroute_all()
    page.get_by_text("Not renewed since").wait_for(state="detached")


def test_a_table_is_sorted_by_its_heads(look: Callable[..., Page], address: str, hostile: str) -> None:
    page = look()
    visit(page, address, f"/topics/{hostile}/settings")
    names = page.locator("table").last.locator("tbody th")
    before = names.all_inner_texts()
    head = page.locator("table").last.get_by_role("button", name="Setting")
    head.click()
    assert names.all_inner_texts() == sorted(before)
    head.focus()
    page.keyboard.press("Enter")
    assert names.all_inner_texts() == sorted(before, reverse=True)
    assert page.locator('[aria-sort="descending"]').count() == 1
    check(page, "a table that was sorted")
    visit(page, address, "/broker/directories")
    page.locator("tbody th a").first.click()
    page.get_by_role("button", name="Size").wait_for()
    for _ in range(2):  # the page has the largest first
        page.get_by_role("button", name="Size").click()
    sizes = page.locator("tbody td:nth-child(3)").all_inner_texts()
    units = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
    amounts = [float(text.split()[0]) * units[text.split()[1]] for text in sizes]
    assert len(amounts) > 2
    assert amounts == sorted(amounts)
    assert amounts[0] < amounts[-1]


def test_a_tail_shows_what_comes_as_text(look: Callable[..., Page], at: str) -> None:
    topic, producer = made(at, 1), Producer({"bootstrap.servers": at, "linger.ms": 0})

    def send(value: str) -> None:
        producer.produce(topic, value, value, headers=[("h", value)])
        assert producer.flush(60) == 0

    page = look()
    visit(page, page.url, f"/topics/{topic}/tail")
    attack = "<img src=x onerror=alert(1)>\u202e"
    send(attack)
    rows = page.locator("tbody tr")
    rows.first.wait_for()
    assert rows.first.locator("td").all_inner_texts()[3:] == [
        "<img src=x onerror=alert(1)>⟨U+202E⟩",
        "<img src=x onerror=alert(1)>⟨U+202E⟩",
        "h: <img src=x onerror=alert(1)>⟨U+202E⟩",
    ]
    assert page.locator("tbody img").count() == 0
    page.get_by_role("button", name="Pause").click()
    send("unseen")
    page.get_by_text("2 records came, 1 shown, 1 that fit were not shown.").wait_for()
    page.get_by_role("button", name="Go on").click()
    send("seen")
    page.get_by_text("3 records came, 2 shown").wait_for()
    page.get_by_role("button", name="Stop").click()
    assert page.get_by_role("button", name="Pause").count() == 0
    rows.first.get_by_role("link").click()
    page.wait_for_url(f"**/topics/{topic}/0/2")


def test_a_search_goes_on_by_itself_and_a_chart_is_renewed(look: Callable[..., Page], hostile: str) -> None:
    page = look()
    found = f"/topics/{hostile}/messages?n=2"
    page.route(
        "**/messages?n=1", lambda route: route.fulfill(body=searching(route.fetch().text(), found), content_type="text/html")
    )
    visit(page, page.url, f"/topics/{hostile}/messages?n=1")
    page.wait_for_url(f"**{found}")
    assert page.locator("tbody tr").count() == 2
    page.route("**/messages?n=2", lambda route: route.fulfill(status=401))
    visit(page, page.url, f"/topics/{hostile}/messages?n=1")
    page.get_by_text("This has ended").wait_for()
    assert page.get_by_role("button", name="Stop searching").count() == 0
    visit(page, page.url, f"/topics/{hostile}/rates")
    page.locator("polyline").wait_for(state="attached")
    page.locator("summary").click()
    looks = page.get_by_role("status").inner_text()
    page.wait_for_function("before => document.querySelector('[role=status]').innerText !== before", arg=looks)
    assert page.locator("table").is_visible()


def searching(text: str, next_: str) -> str:
    """Returns the page as if nothing had been found on it yet."""
    return text.replace("</main>", f'<a data-goon href="{next_}">Earlier</a></main>')
