//! Producing: every send by a producer of its own, its offsets as the delivery reports tell them; and transactions.

use crate::{config, emit, text, Answer, CALL_TIMEOUT};
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{DeliveryResult, Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::{json, Value};
use std::sync::Mutex;

/// Collects the delivery reports; the opaque value of a record is its index.
struct Reports {
    told: bool,
    offsets: Mutex<Vec<i64>>,
    failures: Mutex<Vec<String>>,
}

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<usize>;

    fn delivery(&self, result: &DeliveryResult<'_>, index: Box<usize>) {
        match result {
            Ok(message) if self.told => self.offsets.lock().unwrap()[*index] = message.offset(),
            Ok(_) => {}
            Err((error, _)) => self.failures.lock().unwrap().push(error.to_string()),
        }
    }
}

pub fn produce(bootstrap: &str, arguments: &Value) -> Answer<()> {
    let topic = text(arguments, "topic")?;
    for send in arguments["sends"].as_array().ok_or("no sends")? {
        emit(json!({"offsets": send_all(bootstrap, topic, send)?}));
    }
    Ok(())
}

fn send_all(bootstrap: &str, topic: &str, send: &Value) -> Answer<Vec<i64>> {
    let records = send["records"].as_array().ok_or("no records")?;
    let acks = match text(send, "acks")? {
        "none" => "0",
        "leader" => "1",
        _ => "all",
    };
    let reports = Reports { told: acks != "0", offsets: Mutex::new(vec![-1; records.len()]), failures: Mutex::new(Vec::new()) };
    let mut settings = config(bootstrap);
    settings
        .set("compression.type", text(send, "codec")?)
        .set("acks", acks)
        .set("enable.idempotence", send["idempotent"].to_string())
        .set("linger.ms", "20");
    let producer: ThreadedProducer<Reports> = settings.create_with_context(reports)?;
    deliver(&producer, topic, records)?;
    let offsets = producer.context().offsets.lock().unwrap().clone();
    Ok(offsets)
}

/// Sends the records and waits until all are delivered; their indexes are those in the list.
fn deliver(producer: &ThreadedProducer<Reports>, topic: &str, records: &[Value]) -> Answer<()> {
    for (index, record) in records.iter().enumerate() {
        let mut headers = OwnedHeaders::new();
        for header in record["headers"].as_array().into_iter().flatten() {
            headers = headers.insert(Header { key: header[0].as_str().ok_or("no header name")?, value: header[1].as_str() });
        }
        let mut message = BaseRecord::<str, str, Box<usize>>::with_opaque_to(topic, Box::new(index))
            .partition(record["partition"].as_i64().ok_or("no partition")? as i32)
            .timestamp(record["timestamp_ms"].as_i64().ok_or("no timestamp")?)
            .headers(headers);
        if let Some(key) = record["key"].as_str() {
            message = message.key(key);
        }
        if let Some(value) = record["value"].as_str() {
            message = message.payload(value);
        }
        producer.send(message).map_err(|(error, _)| error)?;
    }
    producer.flush(CALL_TIMEOUT)?;
    let failures = producer.context().failures.lock().unwrap().join("; ");
    if !failures.is_empty() {
        return Err(failures.into());
    }
    Ok(())
}

/// Rounds of one transactional producer, each committed or aborted, with offsets of a group where one is named.
pub fn transact(bootstrap: &str, arguments: &Value) -> Answer<()> {
    let topic = text(arguments, "topic")?;
    let rounds = arguments["rounds"].as_array().ok_or("no rounds")?;
    let most = rounds.iter().filter_map(|round| round["records"].as_array()).map(Vec::len).max().unwrap_or(0);
    let reports = Reports { told: true, offsets: Mutex::new(vec![-1; most]), failures: Mutex::new(Vec::new()) };
    let mut settings = config(bootstrap);
    settings.set("transactional.id", text(arguments, "transactional_id")?).set("linger.ms", "20");
    let producer: ThreadedProducer<Reports> = settings.create_with_context(reports)?;
    producer.init_transactions(CALL_TIMEOUT)?;
    for round in rounds {
        let records = round["records"].as_array().ok_or("no records")?;
        producer.begin_transaction()?;
        deliver(&producer, topic, records)?;
        if let Some(group) = round["group"].as_str() {
            let consumer: BaseConsumer = config(bootstrap).set("group.id", group).create()?;
            let mut offsets = TopicPartitionList::new();
            for (partition, offset) in round["offsets"].as_object().ok_or("no offsets")? {
                let offset = Offset::Offset(offset.as_i64().ok_or("no offset")?);
                offsets.add_partition_offset(topic, partition.parse()?, offset)?;
            }
            let member = consumer.group_metadata().ok_or("no group")?;
            producer.send_offsets_to_transaction(&offsets, &member, CALL_TIMEOUT)?;
        }
        if round["commit"] == true {
            producer.commit_transaction(CALL_TIMEOUT)?;
        } else {
            producer.abort_transaction(CALL_TIMEOUT)?;
        }
        emit(json!({"offsets": producer.context().offsets.lock().unwrap()[..records.len()]}));
    }
    Ok(())
}
