//! Rust's rdkafka behind the command shape of compat_tests/programs.py, for compat_tests/test_rust.py.
//!
//! `client NAME COMMAND BOOTSTRAP`, with NAME always rdkafka. The command's arguments are one line of JSON on stdin, its answer
//! is lines of JSON on stdout. An error ends the program with status 1 and its text on stderr; only `admin` goes on after one,
//! for there an error may be the expected answer.

mod administer;
mod consume;
mod produce;
mod ways;

use rdkafka::ClientConfig;
use serde_json::{json, Value};
use std::error::Error;
use std::io::{stdin, stdout, Write};
use std::time::Duration;

pub type Answer<T> = Result<T, Box<dyn Error>>;

pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Prints one line, at once.
pub fn emit(line: Value) {
    let mut out = stdout().lock();
    writeln!(out, "{line}").expect("stdout is open");
    out.flush().expect("stdout is open");
}

pub fn config(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("client.id", "compat");
    config
}

/// A text among the arguments that must be there.
pub fn text<'a>(arguments: &'a Value, name: &str) -> Answer<&'a str> {
    arguments[name].as_str().ok_or_else(|| format!("no {name} in {arguments}").into())
}

/// A list of partitions among the arguments.
pub fn partitions(arguments: &Value) -> Vec<i32> {
    let listed = arguments["partitions"].as_array().into_iter().flatten();
    listed.filter_map(Value::as_i64).map(|partition| partition as i32).collect()
}

fn run(command: &str, bootstrap: &str) -> Answer<()> {
    let mut line = String::new();
    stdin().read_line(&mut line)?;
    let arguments: Value = serde_json::from_str(&line)?;
    match command {
        "produce" => produce::produce(bootstrap, &arguments),
        "consume" => consume::consume(bootstrap, &arguments),
        "transact" => produce::transact(bootstrap, &arguments),
        "join" => {
            consume::join(bootstrap, &arguments)?;
            emit(json!({"left": true}));
            Ok(())
        }
        "admin" => administer::administer(bootstrap, &arguments),
        "ways" => ways::try_ways(&arguments),
        _ => Err(format!("no command {command}").into()),
    }
}

fn main() {
    let given: Vec<String> = std::env::args().collect();
    let [_, name, command, bootstrap] = given.as_slice() else {
        eprintln!("usage: client rdkafka COMMAND BOOTSTRAP, and the arguments as a line of JSON on stdin");
        std::process::exit(2);
    };
    let done = if name == "rdkafka" { run(command, bootstrap) } else { Err(format!("no client {name}").into()) };
    if let Err(error) = done {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
