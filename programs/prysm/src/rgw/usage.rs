//! Metrics of users and buckets, from one check of RadosGW.

use super::view::{Bucket, Site, User};
use crate::bounded::Bound;
use crate::exposition::{Page, Type};

/// Labels that every figure has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    pub cluster: String,
    pub node: String,
    pub instance: String,
}

impl Target {
    fn labels(&self) -> [(&str, &str); 3] {
        [
            ("rgw_cluster_id", &self.cluster),
            ("node", &self.node),
            ("instance_id", &self.instance),
        ]
    }
}

type OfUser = (&'static str, &'static str, fn(&User, u64) -> Option<u64>);
type OfBucket = (&'static str, &'static str, fn(&Bucket) -> Option<u64>);

const OF_USERS: &[OfUser] = &[
    (
        "radosgw_user_buckets_total",
        "Buckets of a user.",
        |_, buckets| Some(buckets),
    ),
    ("radosgw_user_objects_total", "Objects of a user.", |user, _| {
        Some(user.stats.num_objects)
    }),
    (
        "radosgw_user_data_size_bytes",
        "Bytes that a user stores.",
        |user, _| Some(user.stats.size),
    ),
    (
        "radosgw_usage_user_quota_enabled",
        "1 if a user has a quota.",
        |user, _| Some(user.user_quota.enabled.into()),
    ),
    (
        "radosgw_usage_user_quota_size",
        "Quota of a user, in bytes.",
        |user, _| user.user_quota.size(),
    ),
    (
        "radosgw_usage_user_quota_size_objects",
        "Quota of a user, in objects.",
        |user, _| user.user_quota.objects(),
    ),
];

const OF_BUCKETS: &[OfBucket] = &[
    (
        "radosgw_usage_bucket_size",
        "Bytes that a bucket stores.",
        |bucket| Some(bucket.usage.main.size_actual),
    ),
    ("radosgw_usage_bucket_objects", "Objects in a bucket.", |bucket| {
        Some(bucket.usage.main.num_objects)
    }),
    (
        "radosgw_usage_bucket_shards",
        "Shards of a bucket's index.",
        |bucket| Some(bucket.num_shards),
    ),
    (
        "radosgw_usage_bucket_quota_enabled",
        "1 if a bucket has a quota.",
        |bucket| Some(bucket.bucket_quota.enabled.into()),
    ),
    (
        "radosgw_usage_bucket_quota_size",
        "Quota of a bucket, in bytes.",
        |bucket| bucket.bucket_quota.size(),
    ),
    (
        "radosgw_usage_bucket_quota_size_objects",
        "Quota of a bucket, in objects.",
        |bucket| bucket.bucket_quota.objects(),
    ),
];

/// `site` is what the last look found, `None` if it failed; `errors` are looks that failed so far.
/// Of more than `most` users or buckets those that store most are shown.
pub(crate) fn render(site: Option<&Site>, target: &Target, errors: u64, most: usize) -> String {
    let mut page = Page::default();
    let up = "prysm_target_up";
    page.family(up, Type::Gauge, "1 if RadosGW answered the last check.");
    page.sample(up, [], u8::from(site.is_some()));
    let failed = "exporter_scrape_errors_total";
    page.family(failed, Type::Counter, "Failed checks of RadosGW.");
    page.sample(failed, [], errors);
    let Some(site) = site else {
        return page.text();
    };

    let mut owned = std::collections::HashMap::<String, u64>::new();
    for bucket in &site.buckets {
        *owned.entry(bucket.owner()).or_default() += 1;
    }
    let users = Bound::largest(&site.users, most, |user| user.stats.size);
    let buckets = Bound::largest(&site.buckets, most, |bucket| bucket.usage.main.size_actual);
    Bound::render(&mut page, &[("users", users.beyond), ("buckets", buckets.beyond)]);

    let metadata = "radosgw_user_metadata";
    page.family(
        metadata,
        Type::Gauge,
        "Properties of a user, as labels; always 1.",
    );
    for user in &users.shown {
        let id = user.id();
        let own = [
            ("user", id.as_str()),
            ("display_name", &user.display_name),
            ("email", &user.email),
            ("storage_class", &user.default_storage_class),
        ];
        page.sample(metadata, own.into_iter().chain(target.labels()), 1);
    }
    for (name, help, value) in OF_USERS {
        page.family(name, Type::Gauge, help);
        for user in &users.shown {
            let id = user.id();
            let buckets = owned.get(&id).copied().unwrap_or_default();
            if let Some(value) = value(user, buckets) {
                let own = [("user", id.as_str())];
                page.sample(name, own.into_iter().chain(target.labels()), value);
            }
        }
    }
    for (name, help, value) in OF_BUCKETS {
        page.family(name, Type::Gauge, help);
        for bucket in &buckets.shown {
            if let Some(value) = value(bucket) {
                let owner = bucket.owner();
                let own = [
                    ("bucket", bucket.bucket.as_str()),
                    ("owner", &owner),
                    ("zonegroup", &bucket.zonegroup),
                ];
                page.sample(name, own.into_iter().chain(target.labels()), value);
            }
        }
    }
    page.text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn site() -> Site {
        let user = json!({"tenant": "acme", "user_id": "ann", "display_name": "Ann", "email": "", "extra": 1,
            "user_quota": {"enabled": true, "max_size": 1000, "max_objects": -1},
            "stats": {"size": 300, "size_actual": 4096, "num_objects": 2}});
        let full = json!({"bucket": "photos", "tenant": "acme", "owner": "acme$ann", "zonegroup": "z", "num_shards": 11,
            "usage": {"rgw.main": {"size": 300, "size_actual": 4096, "num_objects": 2}},
            "bucket_quota": {"enabled": false, "max_size": 5, "max_objects": 5}});
        let empty = json!({"bucket": "empty", "tenant": "acme", "owner": {"id": "ann"}, "usage": {}});
        Site {
            users: vec![serde_json::from_value(user).expect("a user")],
            buckets: [full, empty]
                .into_iter()
                .map(|bucket| serde_json::from_value(bucket).expect("a bucket"))
                .collect(),
        }
    }

    fn target() -> Target {
        Target {
            cluster: "c1".to_owned(),
            node: "n1".to_owned(),
            instance: "0".to_owned(),
        }
    }

    #[test]
    fn users_and_buckets_are_told_with_their_limits() {
        let page = render(Some(&site()), &target(), 3, 100);
        let rest = r#"rgw_cluster_id="c1",node="n1",instance_id="0"}"#;
        for line in [
            "prysm_target_up 1".to_owned(),
            "exporter_scrape_errors_total 3".to_owned(),
            format!(r#"radosgw_user_buckets_total{{user="acme$ann",{rest} 2"#),
            format!(r#"radosgw_user_data_size_bytes{{user="acme$ann",{rest} 300"#),
            format!(r#"radosgw_usage_user_quota_size{{user="acme$ann",{rest} 1000"#),
            format!(
                r#"radosgw_usage_bucket_shards{{bucket="photos",owner="acme$ann",zonegroup="z",{rest} 11"#
            ),
            format!(r#"radosgw_usage_bucket_objects{{bucket="empty",owner="acme$ann",zonegroup="",{rest} 0"#),
        ] {
            assert!(page.lines().any(|each| each == line), "{line}\nis not in\n{page}");
        }
        assert!(
            !page.contains("quota_size_objects{"),
            "no limit has no figure:\n{page}"
        );
        assert!(
            !page.contains("bucket_quota_size{"),
            "a quota that is off has none:\n{page}"
        );
    }

    #[test]
    fn a_site_that_does_not_answer_has_no_figures() {
        let page = render(None, &target(), 1, 100);
        assert!(
            page.contains("prysm_target_up 0\n") && !page.contains("radosgw_"),
            "{page}"
        );
    }

    #[test]
    fn only_the_largest_are_shown_and_the_rest_is_counted() {
        let page = render(Some(&site()), &target(), 0, 1);
        assert!(
            page.contains("bucket=\"photos\"") && !page.contains("bucket=\"empty\""),
            "{page}"
        );
        assert!(
            page.contains("prysm_series_dropped{kind=\"buckets\"} 1\n"),
            "{page}"
        );
    }
}
