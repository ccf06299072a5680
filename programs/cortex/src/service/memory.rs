//! Recent decisions, and recorded requests for `replay`.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use c5c3_api::cortex::SchedulingDomain;
use jiff::Timestamp;
use serde::Serialize;

use crate::engine::Explanation;
use crate::request::Intent;

/// Decisions that are remembered.
const MOST: usize = 10_000;
/// A record does not grow forever.
const LARGEST: u64 = 1 << 30;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Remembered {
    pub at: Timestamp,
    pub domain: SchedulingDomain,
    pub resource: String,
    pub intent: Intent,
    #[serde(flatten)]
    pub explanation: Explanation,
}

#[derive(Debug, Default)]
pub struct Memory {
    recent: Mutex<VecDeque<Arc<Remembered>>>,
    record: Mutex<Option<(File, u64)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Only whole values are stored.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    pub fn add(&self, one: Arc<Remembered>) {
        let mut recent = lock(&self.recent);
        if recent.len() == MOST {
            recent.pop_front();
        }
        recent.push_back(one);
    }

    /// Newest first.
    pub fn of(&self, resource: &str) -> Vec<Arc<Remembered>> {
        let recent = lock(&self.recent);
        let found = recent.iter().rev().filter(|one| one.resource == resource);
        found.take(10).cloned().collect()
    }

    /// From now on every question is kept, a line each.
    pub fn record_to(&self, file: File) -> std::io::Result<()> {
        let size = file.metadata()?.len();
        *lock(&self.record) = Some((file, size));
        Ok(())
    }

    pub fn record(&self, domain: SchedulingDomain, body: &[u8]) {
        let mut record = lock(&self.record);
        let Some((file, size)) = record.as_mut() else {
            return;
        };
        // A body may be spread over lines; a record has one for each question.
        let Ok(question) = serde_json::from_slice::<serde_json::Value>(body) else {
            return;
        };
        let line = format!("{}\n", serde_json::json!({"domain": domain, "request": question}));
        let written = file.write_all(line.as_bytes());
        *size += line.len() as u64;
        if let Err(error) = written {
            tracing::warn!("recording of requests stopped: {error}");
            *record = None;
        } else if *size > LARGEST {
            tracing::warn!("recording of requests stopped: the file has reached {size} bytes");
            *record = None;
        }
    }
}
