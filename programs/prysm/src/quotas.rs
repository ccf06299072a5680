//! Users who have used most of their quota: what the monitor publishes and what the consumer makes of
//! it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::bounded::Bound;
use crate::exposition::{Page, Type};
use crate::rgw::User;

/// One user, in bytes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct QuotaUsage {
    pub user_id: String,
    pub total_quota: u64,
    pub used_quota: u64,
    /// Zero for a user who has more than is allowed.
    pub remaining_quota: u64,
    #[serde(default)]
    pub node_name: String,
    #[serde(default)]
    pub instance_id: String,
}

impl QuotaUsage {
    /// More than 100 where a quota was made smaller than what is stored. `None` without a quota.
    pub(crate) fn percent(&self) -> Option<f64> {
        (self.total_quota > 0).then(|| 100.0 * self.used_quota as f64 / self.total_quota as f64)
    }
}

/// Users with a quota of bytes of which at least `percent` is used.
pub(crate) fn near_the_end(users: &[User], percent: f64, node: &str, instance: &str) -> Vec<QuotaUsage> {
    let usage = |user: &User| {
        let total_quota = user.user_quota.size()?;
        let used_quota = user.stats.size;
        Some(QuotaUsage {
            user_id: user.id(),
            total_quota,
            used_quota,
            remaining_quota: total_quota.saturating_sub(used_quota),
            node_name: node.to_owned(),
            instance_id: instance.to_owned(),
        })
    };
    let all = users.iter().filter_map(usage);
    all.filter(|usage| usage.percent().is_some_and(|used| used >= percent))
        .collect()
}

/// What a consumer has heard of late.
#[derive(Debug)]
pub(crate) struct Heard {
    /// By user, node and instance.
    entries: BTreeMap<(String, String, String), (f64, Instant)>,
    percent: f64,
    /// A user without reports is forgotten after this.
    forget: Duration,
    most: usize,
    pub malformed: u64,
    pub dropped: u64,
}

impl Heard {
    pub(crate) fn new(percent: f64, forget: Duration, most: usize) -> Self {
        Heard {
            entries: BTreeMap::new(),
            percent,
            forget,
            most,
            malformed: 0,
            dropped: 0,
        }
    }

    /// A message as the monitor publishes it; Go's monitor says `null` for nobody.
    pub(crate) fn take(&mut self, message: &[u8], now: Instant) {
        let Ok(quotas) = serde_json::from_slice::<Option<Vec<QuotaUsage>>>(message) else {
            self.malformed += 1;
            return;
        };
        self.forget(now);
        for quota in quotas.unwrap_or_default() {
            let Some(percent) = quota.percent().filter(|percent| *percent >= self.percent) else {
                continue;
            };
            let key = (quota.user_id, quota.node_name, quota.instance_id);
            if self.entries.len() >= self.most && !self.entries.contains_key(&key) {
                self.dropped += 1;
                continue;
            }
            self.entries.insert(key, (percent, now));
        }
    }

    fn forget(&mut self, now: Instant) {
        let forget = self.forget;
        self.entries
            .retain(|_, (_, then)| now.saturating_duration_since(*then) < forget);
    }

    pub(crate) fn render(&mut self, now: Instant) -> String {
        self.forget(now);
        let mut page = Page::default();
        let name = "prysm_quota_messages_malformed_total";
        page.family(name, Type::Counter, "Messages that could not be read.");
        page.sample(name, [], self.malformed);
        Bound::render(
            &mut page,
            &[("users", usize::try_from(self.dropped).unwrap_or(usize::MAX))],
        );
        let name = "quota_usage";
        page.family(name, Type::Gauge, "Percent of a user's quota that is used.");
        for ((user, node, instance), (percent, _)) in &self.entries {
            let labels = [("user_id", user.as_str()), ("node", node), ("instance", instance)];
            page.sample(name, labels, percent);
        }
        page.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn user(id: &str, used: u64, enabled: bool, most: i64) -> User {
        serde_json::from_value(json!({"user_id": id, "stats": {"size": used},
            "user_quota": {"enabled": enabled, "max_size": most, "max_objects": -1}}))
        .expect("a user")
    }

    #[test]
    fn who_is_told_of_has_a_quota_and_has_used_it() {
        let users = [
            user("well", 10, true, 100),
            user("near", 80, true, 100),
            user("over", 250, true, 100),
            user("without", 250, false, 100),
            user("unlimited", 250, true, -1),
        ];
        let told = near_the_end(&users, 80.0, "n", "i");
        let names: Vec<(&str, u64, u64)> = told
            .iter()
            .map(|one| (one.user_id.as_str(), one.total_quota, one.remaining_quota))
            .collect();
        assert_eq!(names, [("near", 100, 20), ("over", 100, 0)]);
    }

    #[test]
    fn the_consumer_shows_what_is_told_and_forgets_what_is_not() {
        let start = Instant::now();
        let mut heard = Heard::new(80.0, Duration::from_secs(60), 2);
        let told = |users: &[(&str, u64)]| {
            let all: Vec<_> = users
                .iter()
                .map(|(user, used)| json!({"user_id": user, "total_quota": 100, "used_quota": used, "remaining_quota": 0, "node_name": "n"}))
                .collect();
            serde_json::to_vec(&all).expect("JSON")
        };
        heard.take(&told(&[("ann", 90), ("bob", 79), ("eve", 250)]), start);
        heard.take(b"null", start);
        heard.take(b"{]", start);
        heard.take(&told(&[("one-too-many", 99)]), start);
        let page = heard.render(start);
        assert!(
            page.contains("quota_usage{user_id=\"ann\",node=\"n\",instance=\"\"} 90\n"),
            "{page}"
        );
        assert!(
            page.contains("user_id=\"eve\",node=\"n\",instance=\"\"} 250\n"),
            "{page}"
        );
        assert!(!page.contains("bob") && !page.contains("one-too-many"), "{page}");
        assert!(page.contains("malformed_total 1\n") && page.contains("kind=\"users\"} 1\n"));
        heard.take(&told(&[("ann", 85)]), start + Duration::from_secs(50));
        let page = heard.render(start + Duration::from_secs(70));
        assert!(page.contains("ann") && !page.contains("eve"), "{page}");
    }
}
