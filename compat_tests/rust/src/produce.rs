//! Producing: every send by a producer of its own, its offsets as the delivery reports tell them.

use crate::{config, emit, text, Answer, CALL_TIMEOUT};
use rdkafka::client::ClientContext;
use rdkafka::message::{DeliveryResult, Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
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
    let offsets = producer.context().offsets.lock().unwrap().clone();
    Ok(offsets)
}
