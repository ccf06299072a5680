//! The answers of the Admin API, as far as they are used.

use serde::{Deserialize, Deserializer};

/// All that one look brings.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Site {
    pub users: Vec<User>,
    pub buckets: Vec<Bucket>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct User {
    pub tenant: String,
    pub user_id: String,
    pub display_name: String,
    pub email: String,
    pub default_storage_class: String,
    pub user_quota: Quota,
    pub stats: Stats,
}

impl User {
    /// As RadosGW writes it: `tenant$user`.
    pub(crate) fn id(&self) -> String {
        owner(&self.tenant, &self.user_id)
    }
}

fn owner(tenant: &str, user: &str) -> String {
    // Some versions tell the user with the tenant before it already.
    if tenant.is_empty() || user.contains('$') {
        user.to_owned()
    } else {
        format!("{tenant}${user}")
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(crate) struct Stats {
    pub size: u64,
    pub size_actual: u64,
    pub num_objects: u64,
}

impl Stats {
    pub(crate) fn sum(all: impl Iterator<Item = Stats>) -> Self {
        all.fold(Stats::default(), |sum, one| Stats {
            size: sum.size.saturating_add(one.size),
            size_actual: sum.size_actual.saturating_add(one.size_actual),
            num_objects: sum.num_objects.saturating_add(one.num_objects),
        })
    }
}

/// Below zero is without a limit.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(crate) struct Quota {
    pub enabled: bool,
    pub max_size: i64,
    pub max_objects: i64,
}

impl Quota {
    pub(crate) fn size(self) -> Option<u64> {
        self.limit(self.max_size)
    }

    pub(crate) fn objects(self) -> Option<u64> {
        self.limit(self.max_objects)
    }

    fn limit(self, limit: i64) -> Option<u64> {
        u64::try_from(limit)
            .ok()
            .filter(|limit| self.enabled && *limit > 0)
    }
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct Bucket {
    pub bucket: String,
    pub tenant: String,
    #[serde(deserialize_with = "text_of_owner")]
    pub owner: String,
    pub zonegroup: String,
    pub num_shards: u64,
    pub usage: Usage,
    pub bucket_quota: Quota,
}

impl Bucket {
    pub(crate) fn owner(&self) -> String {
        owner(&self.tenant, &self.owner)
    }
}

/// An empty bucket has none.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct Usage {
    #[serde(rename = "rgw.main")]
    pub main: Stats,
}

/// A text, or from Ceph 19 on an object with an `id`.
fn text_of_owner<'a, D: Deserializer<'a>>(from: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Owner {
        Text(String),
        Object { id: String },
    }
    Ok(match Owner::deserialize(from)? {
        Owner::Text(text) | Owner::Object { id: text } => text,
    })
}

/// A page of names.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Names {
    pub keys: Vec<String>,
    pub truncated: bool,
    pub marker: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_as_radosgw_names_it() {
        for (tenant, user, id) in [
            ("", "ann", "ann"),
            ("acme", "ann", "acme$ann"),
            ("acme", "acme$ann", "acme$ann"),
        ] {
            assert_eq!(owner(tenant, user), id);
        }
    }

    #[test]
    fn a_quota_that_is_off_or_without_a_limit_is_none() {
        let quota = |enabled, max_size| Quota {
            enabled,
            max_size,
            max_objects: -1,
        };
        assert_eq!(quota(true, 5).size(), Some(5));
        assert_eq!(quota(false, 5).size(), None);
        assert_eq!(quota(true, -1).size(), None);
        assert_eq!(quota(true, 0).size(), None);
        assert_eq!(quota(true, 5).objects(), None);
    }
}
