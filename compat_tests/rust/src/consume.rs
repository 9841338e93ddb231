//! Consuming: assigned partitions from a place on, and as a member of a group.

use crate::{config, emit, partitions, text, Answer, CALL_TIMEOUT};
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::{json, Value};
use std::io::{stdin, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

const POLL: Duration = Duration::from_millis(100);

fn text_of(raw: Option<&[u8]>) -> Value {
    raw.map_or(Value::Null, |bytes| Value::String(String::from_utf8_lossy(bytes).into_owned()))
}

fn emit_record(message: &BorrowedMessage<'_>) {
    let headers: Vec<Value> = message
        .headers()
        .into_iter()
        .flat_map(|headers| headers.iter().map(|header| json!([header.key, text_of(header.value)])).collect::<Vec<_>>())
        .collect();
    emit(json!({"record": {
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp_ms": message.timestamp().to_millis(),
        "key": text_of(message.key()),
        "value": text_of(message.payload()),
        "headers": headers,
    }}));
}

pub fn consume(bootstrap: &str, arguments: &Value) -> Answer<()> {
    let topic = text(arguments, "topic")?;
    let isolation = if arguments["committed"] == false { "read_uncommitted" } else { "read_committed" };
    let mut settings = config(bootstrap);
    settings.set("group.id", "unused").set("enable.auto.commit", "false").set("isolation.level", isolation);
    let consumer: BaseConsumer = settings.create()?;
    let at = match (arguments["offset"].as_i64(), arguments["timestamp_ms"].as_i64()) {
        (Some(offset), _) => Offset::Offset(offset),
        (_, Some(timestamp_ms)) => Offset::Offset(timestamp_ms), // what offsets_for_times takes
        _ => Offset::Beginning,
    };
    let mut wanted = TopicPartitionList::new();
    for partition in partitions(arguments) {
        wanted.add_partition_offset(topic, partition, at)?;
    }
    if arguments["timestamp_ms"].is_i64() {
        wanted = consumer.offsets_for_times(wanted, CALL_TIMEOUT)?;
    }
    consumer.assign(&wanted)?;
    let count = arguments["count"].as_u64().ok_or("no count")?;
    let mut seen = 0;
    while seen < count {
        if let Some(message) = consumer.poll(POLL) {
            emit_record(&message?);
            seen += 1;
        }
    }
    Ok(())
}

/// Tells of every change of the assignment.
struct Member;

impl ClientContext for Member {}

impl ConsumerContext for Member {
    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, _: &Rebalance<'_>) {
        let Ok(assigned) = consumer.assignment() else { return }; // while it closes there is none to ask for
        let mut partitions: Vec<i32> = assigned.elements().iter().map(|one| one.partition()).collect();
        partitions.sort_unstable();
        emit(json!({"assigned": partitions}));
    }
}

pub fn join(bootstrap: &str, arguments: &Value) -> Answer<()> {
    let strategy = arguments["balancer"].as_str().unwrap_or("cooperative-sticky");
    let consumer: BaseConsumer<Member> = config(bootstrap)
        .set("group.id", text(arguments, "group")?)
        .set("partition.assignment.strategy", strategy)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .set("heartbeat.interval.ms", "200")
        .create_with_context(Member)?;
    let leaving = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&leaving);
    std::thread::spawn(move || {
        let _ = stdin().read_to_end(&mut Vec::new()); // closed, or broken: leave
        told.store(true, Ordering::Relaxed);
    });
    consumer.subscribe(&[text(arguments, "topic")?])?;
    while !leaving.load(Ordering::Relaxed) {
        if let Some(message) = consumer.poll(POLL) {
            let message = message?;
            emit_record(&message);
            consumer.commit_message(&message, CommitMode::Sync)?;
        }
    }
    Ok(()) // the consumer leaves when it is dropped
}
