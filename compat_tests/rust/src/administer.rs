//! Administration: what rdkafka's AdminClient has, and what its consumer can do for a group from outside.
//! Groups are listed and described by the older call of librdkafka: the newer ones have no place in rdkafka yet.

use crate::{config, emit, partitions, text, Answer, CALL_TIMEOUT};
use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::{json, Map, Value};

pub fn administer(bootstrap: &str, arguments: &Value) -> Answer<()> {
    for call in arguments["calls"].as_array().ok_or("no calls")? {
        match one(bootstrap, call) {
            Ok(result) => emit(json!({"result": result})),
            Err(error) => emit(json!({"error": error.to_string()})),
        }
    }
    Ok(())
}

fn one(bootstrap: &str, call: &Value) -> Answer<Value> {
    let name = text(call, "call")?;
    match name {
        "create_topic" | "delete_topic" | "create_partitions" | "delete_records" | "describe_configs" | "replace_configs"
        | "delete_group" => by_admin(bootstrap, name, call),
        "list_topics" | "describe_topic" | "describe_cluster" | "list_offsets" => by_metadata(bootstrap, name, call),
        "list_groups" | "describe_group" | "commit_offsets" | "fetch_offsets" => by_group(bootstrap, name, call),
        _ => Err(format!("rdkafka has no call for {name}").into()),
    }
}

/// The error of a result for one resource, which is a name and a code.
fn checked<T, N>(result: Result<T, (N, rdkafka::types::RDKafkaErrorCode)>) -> Answer<T> {
    result.map_err(|(_, code)| code.to_string().into())
}

fn by_admin(bootstrap: &str, name: &str, call: &Value) -> Answer<Value> {
    let admin: AdminClient<DefaultClientContext> = config(bootstrap).create()?;
    let options = AdminOptions::new().request_timeout(Some(CALL_TIMEOUT)).operation_timeout(Some(CALL_TIMEOUT));
    let topic = call["topic"].as_str().unwrap_or_default();
    let empty = Map::new();
    let settings = call["settings"].as_object().unwrap_or(&empty);
    let pairs = || settings.iter().map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()));
    match name {
        "create_topic" => {
            let count = call["count"].as_i64().ok_or("no count")? as i32;
            let wanted = NewTopic::new(topic, count, TopicReplication::Fixed(1));
            let wanted = pairs().fold(wanted, |wanted, (name, value)| wanted.set(name, value));
            checked(block_on(admin.create_topics(&[wanted], &options))?.remove(0))?;
        }
        "delete_topic" => {
            checked(block_on(admin.delete_topics(&[topic], &options))?.remove(0))?;
        }
        "create_partitions" => {
            let wanted = NewPartitions::new(topic, call["count"].as_u64().ok_or("no count")? as usize);
            checked(block_on(admin.create_partitions(&[wanted], &options))?.remove(0))?;
        }
        "delete_records" => {
            let mut before = TopicPartitionList::new();
            let partition = call["partition"].as_i64().ok_or("no partition")? as i32;
            before.add_partition_offset(topic, partition, Offset::Offset(call["offset"].as_i64().ok_or("no offset")?))?;
            for done in block_on(admin.delete_records(&before, &options))?.elements() {
                done.error()?;
            }
        }
        "describe_configs" => {
            let found = block_on(admin.describe_configs(&[ResourceSpecifier::Topic(topic)], &options))?.remove(0)?;
            let names = call["names"].as_array().ok_or("no names")?.iter().filter_map(Value::as_str);
            let values = names.filter_map(|name| found.get(name)).map(|entry| (entry.name.clone(), json!(entry.value)));
            return Ok(Value::Object(values.collect()));
        }
        "replace_configs" => {
            let wanted = AlterConfig::new(ResourceSpecifier::Topic(topic));
            let wanted = pairs().fold(wanted, |wanted, (name, value)| wanted.set(name, value));
            checked(block_on(admin.alter_configs(&[wanted], &options))?.remove(0))?;
        }
        _ => {
            checked(block_on(admin.delete_groups(&[text(call, "group")?], &options))?.remove(0))?;
        }
    }
    Ok(Value::Null)
}

fn by_metadata(bootstrap: &str, name: &str, call: &Value) -> Answer<Value> {
    let consumer: BaseConsumer = config(bootstrap).set("group.id", "unused").create()?;
    match name {
        "list_topics" => {
            let metadata = consumer.fetch_metadata(None, CALL_TIMEOUT)?;
            Ok(metadata.topics().iter().map(|topic| topic.name()).collect())
        }
        "describe_topic" => {
            let metadata = consumer.fetch_metadata(Some(text(call, "topic")?), CALL_TIMEOUT)?;
            let topic = &metadata.topics()[0];
            match topic.error() {
                Some(code) => Err(rdkafka::types::RDKafkaErrorCode::from(code).to_string().into()),
                None => Ok(json!(topic.partitions().len())),
            }
        }
        "describe_cluster" => {
            let metadata = consumer.fetch_metadata(None, CALL_TIMEOUT)?;
            let brokers: Vec<i32> = metadata.brokers().iter().map(|broker| broker.id()).collect();
            Ok(json!({"cluster_id": consumer.client().fetch_cluster_id(CALL_TIMEOUT), "brokers": brokers}))
        }
        _ => {
            let (topic, partition) = (text(call, "topic")?, call["partition"].as_i64().ok_or("no partition")? as i32);
            if let Some(timestamp_ms) = call["timestamp_ms"].as_i64() {
                let mut asked = TopicPartitionList::new();
                asked.add_partition_offset(topic, partition, Offset::Offset(timestamp_ms))?;
                let found = consumer.offsets_for_times(asked, CALL_TIMEOUT)?;
                let found = found.find_partition(topic, partition).ok_or("no answer")?;
                found.error()?;
                return Ok(json!(found.offset().to_raw()));
            }
            let (low, high) = consumer.fetch_watermarks(topic, partition, CALL_TIMEOUT)?;
            Ok(json!(if call["at"] == "earliest" { low } else { high }))
        }
    }
}

fn by_group(bootstrap: &str, name: &str, call: &Value) -> Answer<Value> {
    let group = call["group"].as_str().unwrap_or("unused");
    let consumer: BaseConsumer = config(bootstrap).set("group.id", group).create()?;
    match name {
        "list_groups" => {
            let found = consumer.fetch_group_list(None, CALL_TIMEOUT)?;
            Ok(found.groups().iter().map(|group| group.name()).collect())
        }
        "describe_group" => {
            let found = consumer.fetch_group_list(Some(group), CALL_TIMEOUT)?;
            let group = found.groups().first().ok_or("no such group")?;
            Ok(json!({"state": group.state(), "members": group.members().len()}))
        }
        "commit_offsets" => {
            let mut offsets = TopicPartitionList::new();
            for (partition, offset) in call["offsets"].as_object().ok_or("no offsets")? {
                let offset = Offset::Offset(offset.as_i64().ok_or("no offset")?);
                offsets.add_partition_offset(text(call, "topic")?, partition.parse()?, offset)?;
            }
            consumer.commit(&offsets, CommitMode::Sync)?;
            Ok(Value::Null)
        }
        _ => {
            let mut asked = TopicPartitionList::new();
            for partition in partitions(call) {
                asked.add_partition(text(call, "topic")?, partition);
            }
            let found = consumer.committed_offsets(asked, CALL_TIMEOUT)?;
            let committed = found.elements().into_iter().filter_map(|one| match one.offset() {
                Offset::Offset(offset) => Some((one.partition().to_string(), json!(offset))),
                _ => None,
            });
            Ok(Value::Object(committed.collect()))
        }
    }
}
