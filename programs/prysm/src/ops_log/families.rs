//! The metrics, as a table. Names and labels are those that dashboards of Prysm know.

use super::entry::Entry;
use crate::error::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    Pod,
    Tenant,
    User,
    Bucket,
    Method,
    Operation,
    HttpStatus,
    Status,
    Ip,
    TimeoutType,
    ErrorCategory,
    /// `get` or `list`: what an objective is set on.
    Objective,
    StatusClass,
}

impl Label {
    pub fn name(self) -> &'static str {
        match self {
            Label::Pod => "pod",
            Label::Tenant => "tenant",
            Label::User => "user",
            Label::Bucket => "bucket",
            Label::Method => "method",
            Label::Operation | Label::Objective => "operation",
            Label::HttpStatus => "http_status",
            Label::Status => "status",
            Label::Ip => "ip",
            Label::TimeoutType => "timeout_type",
            Label::ErrorCategory => "error_category",
            Label::StatusClass => "status_class",
        }
    }

    pub fn value<'a>(self, entry: &'a Entry<'_>, pod: &'a str) -> &'a str {
        match self {
            Label::Pod => pod,
            Label::Tenant => entry.tenant_and_user().0,
            Label::User => entry.tenant_and_user().1,
            Label::Bucket => &entry.bucket,
            Label::Method => entry.method(),
            Label::Operation => &entry.operation,
            Label::HttpStatus | Label::Status => &entry.http_status,
            Label::Ip => &entry.remote_addr,
            Label::TimeoutType => entry.timeout().unwrap_or_default(),
            Label::ErrorCategory => entry.error_category().unwrap_or_default(),
            Label::Objective => entry.objective().unwrap_or_default(),
            Label::StatusClass => entry.status_class(),
        }
    }
}

/// What is added up, and which entries count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    Requests,
    BytesSent,
    BytesReceived,
    Errors,
    Timeouts,
    /// Reads and listings of a tenant's bucket.
    Objectives,
    /// Seconds; entries without a time do not count.
    Latency(&'static [f64]),
    ObjectiveLatency(&'static [f64]),
}

impl Measure {
    /// `None`: the entry does not count.
    pub fn amount(self, entry: &Entry<'_>) -> Option<Amount> {
        let objective = || {
            let tenant = entry.tenant_and_user().0;
            entry.objective().is_some() && !entry.bucket.is_empty() && tenant != super::entry::NO_TENANT
        };
        let seconds = || Amount::Seconds(entry.total_time as f64 / 1000.0);
        match self {
            Measure::Requests => Some(Amount::Count(1)),
            Measure::BytesSent => Some(Amount::Count(entry.bytes_sent)),
            Measure::BytesReceived => Some(Amount::Count(entry.bytes_received)),
            Measure::Errors => entry.is_error().then_some(Amount::Count(1)),
            Measure::Timeouts => entry.timeout().map(|_| Amount::Count(1)),
            Measure::Objectives => objective().then_some(Amount::Count(1)),
            Measure::Latency(_) => (entry.total_time > 0).then(seconds),
            Measure::ObjectiveLatency(_) => objective().then(seconds),
        }
    }

    pub fn buckets(self) -> &'static [f64] {
        match self {
            Measure::Latency(buckets) | Measure::ObjectiveLatency(buckets) => buckets,
            _ => &[],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    Count(u64),
    Seconds(f64),
}

#[derive(Debug)]
pub struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub labels: &'static [Label],
    pub measure: Measure,
    /// Counted when nobody says what to count.
    pub usual: bool,
}

use Label::{
    Bucket, ErrorCategory, HttpStatus, Ip, Method, Objective, Operation, Pod, Status, StatusClass, Tenant,
    TimeoutType, User,
};
use Measure::{BytesReceived, BytesSent, Errors, Latency, ObjectiveLatency, Objectives, Requests, Timeouts};

const SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const OBJECTIVE: &[f64] = &[0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0];

const fn rare(name: &'static str, help: &'static str, labels: &'static [Label], measure: Measure) -> Family {
    Family {
        name,
        help,
        labels,
        measure,
        usual: false,
    }
}

const fn usual(name: &'static str, help: &'static str, labels: &'static [Label], measure: Measure) -> Family {
    Family {
        usual: true,
        ..rare(name, help, labels, measure)
    }
}

#[rustfmt::skip]
pub const FAMILIES: &[Family] = &[
    rare("radosgw_total_requests", "Requests.", &[Pod, User, Tenant, Bucket, Method, HttpStatus], Requests),
    rare("radosgw_total_requests_per_user", "Requests of a user.", &[Pod, User, Tenant, Method, HttpStatus], Requests),
    usual("radosgw_total_requests_per_bucket", "Requests to a bucket.", &[Pod, Tenant, Bucket, Method, HttpStatus], Requests),
    usual("radosgw_total_requests_per_tenant", "Requests of a tenant.", &[Pod, Tenant, Method, HttpStatus], Requests),
    rare("radosgw_requests_by_method", "Requests by HTTP method.", &[Pod, User, Tenant, Bucket, Method], Requests),
    rare("radosgw_requests_by_method_per_user", "Requests of a user by HTTP method.", &[Pod, User, Tenant, Method], Requests),
    rare("radosgw_requests_by_method_per_bucket", "Requests to a bucket by HTTP method.", &[Pod, Tenant, Bucket, Method], Requests),
    rare("radosgw_requests_by_method_per_tenant", "Requests of a tenant by HTTP method.", &[Pod, Tenant, Method], Requests),
    rare("radosgw_requests_by_method_global", "All requests by HTTP method.", &[Pod, Method], Requests),
    rare("radosgw_requests_by_operation", "Requests by operation.", &[Pod, User, Tenant, Bucket, Operation, Method], Requests),
    rare("radosgw_requests_by_operation_per_user", "Requests of a user by operation.", &[Pod, User, Tenant, Operation, Method], Requests),
    rare("radosgw_requests_by_operation_per_bucket", "Requests to a bucket by operation.", &[Pod, Tenant, Bucket, Operation, Method], Requests),
    rare("radosgw_requests_by_operation_per_tenant", "Requests of a tenant by operation.", &[Pod, Tenant, Operation, Method], Requests),
    rare("radosgw_requests_by_operation_global", "All requests by operation.", &[Pod, Operation, Method], Requests),
    rare("radosgw_requests_by_status_detailed", "Requests by HTTP status.", &[Pod, User, Tenant, Bucket, Status], Requests),
    rare("radosgw_requests_by_status_per_user", "Requests of a user by HTTP status.", &[Pod, User, Tenant, Status], Requests),
    rare("radosgw_requests_by_status_per_bucket", "Requests to a bucket by HTTP status.", &[Pod, Tenant, Bucket, Status], Requests),
    rare("radosgw_requests_by_status_per_tenant", "Requests of a tenant by HTTP status.", &[Pod, Tenant, Status], Requests),
    rare("radosgw_bytes_sent", "Bytes sent.", &[Pod, User, Tenant, Bucket], BytesSent),
    rare("radosgw_bytes_sent_per_user", "Bytes sent to a user.", &[Pod, User, Tenant], BytesSent),
    usual("radosgw_bytes_sent_per_bucket", "Bytes sent from a bucket.", &[Pod, Tenant, Bucket], BytesSent),
    rare("radosgw_bytes_sent_per_tenant", "Bytes sent to a tenant.", &[Pod, Tenant], BytesSent),
    rare("radosgw_bytes_received", "Bytes received.", &[Pod, User, Tenant, Bucket], BytesReceived),
    rare("radosgw_bytes_received_per_user", "Bytes received from a user.", &[Pod, User, Tenant], BytesReceived),
    usual("radosgw_bytes_received_per_bucket", "Bytes received for a bucket.", &[Pod, Tenant, Bucket], BytesReceived),
    rare("radosgw_bytes_received_per_tenant", "Bytes received from a tenant.", &[Pod, Tenant], BytesReceived),
    rare("radosgw_errors_detailed", "Requests that failed.", &[Pod, User, Tenant, Bucket, HttpStatus], Errors),
    usual("radosgw_errors_per_user", "Requests of a user that failed.", &[Pod, User, Tenant, HttpStatus], Errors),
    rare("radosgw_errors_per_bucket", "Requests to a bucket that failed.", &[Pod, Tenant, Bucket, HttpStatus], Errors),
    rare("radosgw_errors_per_tenant", "Requests of a tenant that failed.", &[Pod, Tenant, HttpStatus], Errors),
    rare("radosgw_errors_per_status", "All requests that failed, by HTTP status.", &[Pod, HttpStatus], Errors),
    rare("radosgw_errors_per_ip", "Requests from an address that failed.", &[Pod, Ip, Tenant, HttpStatus], Errors),
    rare("radosgw_timeout_errors", "Requests that timed out (408, 499, 504, 598).", &[Pod, User, Tenant, Bucket, TimeoutType], Timeouts),
    rare("radosgw_errors_by_category", "Requests that failed: client, server, timeout or connection.", &[Pod, Tenant, Bucket, ErrorCategory, HttpStatus], Errors),
    rare("radosgw_requests_by_ip", "Requests of a user from an address.", &[Pod, User, Tenant, Ip], Requests),
    rare("radosgw_requests_per_ip", "Requests from an address.", &[Pod, Tenant, Ip], Requests),
    rare("radosgw_requests_by_ip_bucket_method_tenant", "Requests from an address to a bucket.", &[Pod, Ip, Bucket, Method, Tenant], Requests),
    rare("radosgw_requests_per_tenant_from_ip", "Requests of a tenant from all addresses.", &[Pod, Tenant], Requests),
    rare("radosgw_bytes_sent_by_ip", "Bytes sent to a user at an address.", &[Pod, User, Tenant, Ip], BytesSent),
    rare("radosgw_bytes_sent_per_ip", "Bytes sent to an address.", &[Pod, Tenant, Ip], BytesSent),
    rare("radosgw_bytes_sent_per_tenant_from_ip", "Bytes sent to a tenant at all addresses.", &[Pod, Tenant], BytesSent),
    rare("radosgw_bytes_received_by_ip", "Bytes received from a user at an address.", &[Pod, User, Tenant, Ip], BytesReceived),
    rare("radosgw_bytes_received_per_ip", "Bytes received from an address.", &[Pod, Tenant, Ip], BytesReceived),
    rare("radosgw_bytes_received_per_tenant_from_ip", "Bytes received from a tenant at all addresses.", &[Pod, Tenant], BytesReceived),
    rare("radosgw_requests_duration", "Seconds that requests took.", &[User, Tenant, Bucket, Method], Latency(SECONDS)),
    rare("radosgw_requests_duration_per_user", "Seconds that requests of a user took.", &[User, Tenant, Method], Latency(SECONDS)),
    rare("radosgw_requests_duration_per_bucket", "Seconds that requests to a bucket took.", &[Tenant, Bucket, Method], Latency(SECONDS)),
    rare("radosgw_requests_duration_per_tenant", "Seconds that requests of a tenant took.", &[Tenant, Method], Latency(SECONDS)),
    usual("radosgw_requests_duration_per_method", "Seconds that requests took, by HTTP method.", &[Method], Latency(SECONDS)),
    rare("radosgw_requests_duration_per_bucket_and_method", "Seconds that requests to a bucket took, by HTTP method.", &[Tenant, Bucket, Method], Latency(SECONDS)),
    rare("radosgw_bucket_sli_requests_total", "Reads and listings of a bucket, for objectives.", &[Tenant, Bucket, Objective, StatusClass], Objectives),
    rare("radosgw_bucket_sli_request_duration_seconds", "Seconds that reads and listings of a bucket took.", &[Tenant, Bucket, Objective], ObjectiveLatency(OBJECTIVE)),
];

/// The families of these names; `all` is every one, and nothing is the usual ones.
pub fn choose(names: &[String]) -> Result<Vec<&'static Family>, Error> {
    if names.is_empty() {
        return Ok(FAMILIES.iter().filter(|family| family.usual).collect());
    }
    if names.iter().any(|name| name == "all") {
        return Ok(FAMILIES.iter().collect());
    }
    for name in names {
        if !FAMILIES.iter().any(|family| family.name == name) {
            let known: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
            return Err(Error::UnknownFamily {
                name: name.clone(),
                known: format!("all, {}", known.join(", ")),
            });
        }
    }
    let chosen = |family: &&Family| names.iter().any(|name| name == family.name);
    Ok(FAMILIES.iter().filter(chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_unique() {
        for (index, family) in FAMILIES.iter().enumerate() {
            let again = FAMILIES
                .iter()
                .skip(index + 1)
                .find(|other| other.name == family.name);
            assert!(again.is_none(), "{}", family.name);
            let names: std::collections::BTreeSet<_> =
                family.labels.iter().map(|label| label.name()).collect();
            assert_eq!(names.len(), family.labels.len(), "{}", family.name);
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = choose(&["radosgw_requests".to_owned()])
            .expect_err("unknown")
            .to_string();
        assert!(
            error.contains("\"radosgw_requests\"") && error.contains("radosgw_requests_by_ip,"),
            "{error}"
        );
        assert_eq!(choose(&["all".to_owned()]).expect("all").len(), FAMILIES.len());
        assert!(choose(&[]).expect("usual").len() > 3);
    }
}
