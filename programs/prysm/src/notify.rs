//! Bucket notifications of RadosGW: checked, counted, passed on.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::exposition::{Page, Type};

/// Names of events are RadosGW's; somebody else could make up any number of them.
const MOST_EVENTS: usize = 64;
const OTHER: &str = "other";

/// What is read of a notification; the message that is passed on is the one that came.
#[derive(Debug, Deserialize)]
struct Notification {
    #[serde(rename = "Records")]
    records: Vec<Record>,
}

#[derive(Debug, Deserialize)]
struct Record {
    #[serde(rename = "eventName", default)]
    event: String,
    s3: S3,
}

#[derive(Debug, Deserialize)]
struct S3 {
    bucket: Bucket,
}

#[derive(Debug, Deserialize)]
struct Bucket {
    name: String,
}

/// What came so far.
#[derive(Debug, Default)]
pub(crate) struct Received {
    events: BTreeMap<String, u64>,
    pub refused: u64,
}

impl Received {
    /// Why it is refused: it names no bucket, or is no JSON at all.
    pub(crate) fn take(&mut self, body: &[u8]) -> Result<(), String> {
        let notification: Notification = match serde_json::from_slice(body) {
            Ok(notification) => notification,
            Err(error) => {
                self.refused += 1;
                return Err(format!("this is not a bucket notification: {error}"));
            }
        };
        if notification
            .records
            .iter()
            .any(|record| record.s3.bucket.name.is_empty())
        {
            self.refused += 1;
            return Err("Records[].s3.bucket.name is empty: a notification names its bucket".to_owned());
        }
        for record in notification.records {
            let full = self.events.len() >= MOST_EVENTS && !self.events.contains_key(&record.event);
            let name = if full { OTHER.to_owned() } else { record.event };
            *self.events.entry(name).or_default() += 1;
        }
        Ok(())
    }

    pub(crate) fn render(&self, page: &mut Page) {
        let name = "prysm_bucket_notifications_total";
        page.family(name, Type::Counter, "Records of notifications, by event.");
        for (event, count) in &self.events {
            page.sample(name, [("event", event.as_str())], count);
        }
        let name = "prysm_bucket_notifications_refused_total";
        page.family(name, Type::Counter, "Messages that are not bucket notifications.");
        page.sample(name, [], self.refused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_are_counted_and_others_refused() {
        let mut received = Received::default();
        let good = br#"{"Records":[{"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":"b"},"object":{"key":"k"}}},
            {"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":"b"}}}]}"#;
        assert_eq!(received.take(good), Ok(()));
        for bad in [&b""[..], b"{}", b"[]", br#"{"Records":[{"s3":{}}]}"#] {
            assert!(received.take(bad).is_err());
        }
        let error = received.take(br#"{"Records":[{"s3":{"bucket":{"name":""}}}]}"#);
        assert!(error.is_err_and(|text| text.contains("s3.bucket.name")));
        for index in 0..1000 {
            let body =
                format!(r#"{{"Records":[{{"eventName":"{index}","s3":{{"bucket":{{"name":"b"}}}}}}]}}"#);
            received.take(body.as_bytes()).expect("a notification");
        }
        let mut page = Page::default();
        received.render(&mut page);
        let page = page.text();
        assert!(page.contains("event=\"ObjectCreated:Put\"} 2\n"), "{page}");
        assert!(page.contains("refused_total 5\n"), "{page}");
        assert!(received.events.len() <= MOST_EVENTS + 1);
    }
}
