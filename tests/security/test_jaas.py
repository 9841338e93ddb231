"""JAAS texts: the words of Java's StreamTokenizer, and what is refused without showing a password."""

from __future__ import annotations

import pytest

from ottla.log.config_def import ConfigError, Secret
from ottla.security.jaas import LOGIN_MODULES, Module, login_module, parse_file, parse_modules

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def options(text: str) -> dict[str, str]:
    (module,) = parse_modules(Secret(text))
    assert module.name == PLAIN
    return {name: value.reveal() for name, value in module.options.items()}


@pytest.mark.parametrize("flag", ["required", "REQUISITE", "Sufficient", "optional"])
def test_any_flag_in_any_case(flag: str) -> None:
    assert options(f"{PLAIN} {flag};") == {}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("word", "word"),
        ("two-part_name.9$x", "two-part_name.9$x"),
        ('"with blanks, and ; signs"', "with blanks, and ; signs"),
        ("'single'", "single"),
        (r'"a\"b\\c"', 'a"b\\c'),
        (r'"\t\n\101\7z\400"', "\t\nA\7z 0"),
        (r'"\q"', "q"),
        ('""', ""),
        ('"ünï"', "ünï"),
        ("ünï", "ünï"),
    ],
)
def test_values(written: str, value: str) -> None:
    assert options(f"{PLAIN} required password={written};") == {"password": value}


def test_comments_and_blanks() -> None:
    text = f"// first\n{PLAIN} /* in the\n middle */ required\n\ta = b // here ;\n / and here too\n c=d\n;"
    assert options(text) == {"a": "b", "c": "d"}


def test_a_later_option_of_the_same_name_counts() -> None:
    assert options(f"{PLAIN} required a=b a=c;") == {"a": "c"}


def test_an_unclosed_quote_ends_with_its_line() -> None:
    assert options(f'{PLAIN} required a="b;\n c=d;') == {"a": "b;", "c": "d"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("; required", "does not begin with the name of a class"),
        ("12 required;", "does not begin with the name of a class"),
        (PLAIN, "required, requisite, sufficient or optional is missing"),
        (f"{PLAIN};", "required, requisite, sufficient or optional is missing"),
        (f"{PLAIN} must;", "required, requisite, sufficient or optional is missing"),
        (f"{PLAIN} required", "semicolon is missing"),
        (f"{PLAIN} required a=b", "semicolon is missing"),
        (f"{PLAIN} required a;", 'has no value; write it as name="value"'),
        (f"{PLAIN} required a=;", "has no value"),
        (f"{PLAIN} required a=12345;", "has no value"),
        (f"{PLAIN} required a=-5;", "has no value"),
        (f"{PLAIN} required a=.5;", "has no value"),
        (f"{PLAIN} required a=hunter2,hunter3;", "is not name=value"),
        (f'{PLAIN} required a="hunter2', "semicolon is missing"),
        (f"{PLAIN} required =hunter2;", "is not name=value"),
        (f"{PLAIN} required a=one hunter2;", "has no value"),
        (f"{PLAIN} required a=one;hunter2;", "is missing behind the class of login module 2"),
    ],
)
def test_what_does_not_parse_is_refused_without_its_secrets(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refusal:
        parse_modules(Secret(text))
    assert "hunter" not in str(refusal.value)


def test_no_text_holds_no_module() -> None:
    assert parse_modules(Secret("")) == ()
    assert parse_modules(Secret(" // nothing")) == ()


def test_options_are_hidden() -> None:
    module = Module("a.B", {"password": Secret("hunter2")})
    assert "hunter2" not in repr(module)
    assert module.option("password") == "hunter2"
    assert module.option("username") is None


FILE = """
// the broker's logins
KafkaServer {
    org.apache.kafka.common.security.scram.ScramLoginModule required;
    org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="b";
};
external.KafkaServer { a.B optional; };
"""


def test_a_file_has_sections_of_modules() -> None:
    sections = parse_file(FILE)
    assert {name: [module.name.rpartition(".")[2] for module in modules] for name, modules in sections.items()} == {
        "KafkaServer": ["ScramLoginModule", "PlainLoginModule"],
        "external.KafkaServer": ["B"],
    }
    assert sections["KafkaServer"][1].option("user_bob") == "b"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("KafkaServer", "does not begin with a name and {"),
        ("{ a.B required; };", "does not begin with a name and {"),
        ("A { a.B required; ", "section 1 is not closed"),
        ("A { a.B required; }", "semicolon is missing behind section 1"),
        ("A { }; A { };", "section 2 has the name of an earlier one"),
        ("A { a.B; };", "required, requisite, sufficient or optional is missing"),
    ],
)
def test_files_that_do_not_parse(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_file(text)


def test_a_module_that_is_written_is_read_again() -> None:
    options = {"username": 'a"b', "password": "c\\d;= \n\r'//"}
    for mechanism, name in LOGIN_MODULES.items():
        text = login_module(mechanism, options.items())
        assert "\n" not in text
        (module,) = parse_modules(Secret(text))
        assert (module.name, {key: value.reveal() for key, value in module.options.items()}) == (name, options)
