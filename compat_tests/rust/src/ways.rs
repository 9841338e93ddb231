//! Ways to reach a secured broker: a record is sent each way and read again.

use crate::{config, emit, text, Answer};
use rdkafka::client::ClientContext;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::ClientConfig;
use serde_json::{json, Value};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(100);

/// Keeps the errors that librdkafka tells of, and where the record went.
#[derive(Default)]
struct Told {
    errors: Mutex<Vec<RDKafkaErrorCode>>,
    placed: Mutex<Option<Result<i64, KafkaError>>>,
}

impl ClientContext for Told {
    fn error(&self, error: KafkaError, _: &str) {
        self.errors.lock().unwrap().extend(error.rdkafka_error_code());
    }
}

impl ProducerContext for Told {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let placed = result.as_ref().map(|message| message.offset()).map_err(|(error, _)| error.clone());
        *self.placed.lock().unwrap() = Some(placed);
    }
}

impl ConsumerContext for Told {}

pub fn try_ways(arguments: &Value) -> Answer<()> {
    for way in arguments["ways"].as_array().ok_or("no ways")? {
        match try_way(way) {
            Ok(()) => emit(json!({"result": null})),
            Err(classes) => emit(json!({"error": classes, "message": ""})),
        }
    }
    Ok(())
}

fn settings(way: &Value) -> Result<ClientConfig, String> {
    let mut settings = config(text(way, "bootstrap").map_err(|error| error.to_string())?);
    for (name, value) in way["librdkafka"].as_object().into_iter().flatten() {
        settings.set(name, value.as_str().unwrap_or_default());
    }
    Ok(settings)
}

/// What went wrong: librdkafka's names of the errors.
fn try_way(way: &Value) -> Result<(), Vec<String>> {
    let one = |error: String| vec![error];
    let topic = text(way, "topic").map_err(|error| one(error.to_string()))?;
    let settings = settings(way).map_err(one)?;
    let producer = BaseProducer::from_config_and_context(&settings, Told::default()).map_err(|error| one(error.to_string()))?;
    let record = BaseRecord::<str, str>::to(topic).partition(0).payload("secured");
    producer.send(record).map_err(|(error, _)| one(error.to_string()))?;
    let began = Instant::now();
    let offset = loop {
        producer.poll(POLL);
        let told = producer.context();
        match told.placed.lock().unwrap().take() {
            Some(Ok(offset)) => break offset,
            Some(Err(error)) => return Err(named(error.rdkafka_error_code())),
            None => {}
        }
        // that all brokers are down may be told before the reason, and there may be none
        let errors = told.errors.lock().unwrap();
        let patience = if errors.is_empty() { TIMEOUT } else { PATIENCE };
        if errors.iter().any(|code| *code != RDKafkaErrorCode::AllBrokersDown) || began.elapsed() > patience {
            return Err(errors.iter().flat_map(|code| named(Some(*code))).collect());
        }
    };
    read(&settings, topic, offset).map_err(one)
}

fn named(code: Option<RDKafkaErrorCode>) -> Vec<String> {
    code.map(|code| format!("{code:?}")).into_iter().collect()
}

fn read(settings: &ClientConfig, topic: &str, offset: i64) -> Result<(), String> {
    let mut settings = settings.clone();
    settings.set("group.id", "unused").set("enable.auto.commit", "false");
    let consumer: BaseConsumer<Told> =
        BaseConsumer::from_config_and_context(&settings, Told::default()).map_err(|error| error.to_string())?;
    let mut wanted = TopicPartitionList::new();
    wanted.add_partition_offset(topic, 0, Offset::Offset(offset)).map_err(|error| error.to_string())?;
    consumer.assign(&wanted).map_err(|error| error.to_string())?;
    let began = Instant::now();
    while began.elapsed() < TIMEOUT {
        if let Some(message) = consumer.poll(POLL) {
            let message = message.map_err(|error| error.to_string())?;
            let value = String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned();
            emit(json!({"record": {"partition": 0, "offset": message.offset(), "value": value}}));
            return Ok(());
        }
    }
    Err("nothing came".into())
}
