//! Entries of the operations log as CADF events: who did what to which object, and how it ended.

use std::borrow::Cow;
use std::collections::BTreeMap;

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::exposition::{Page, Type};

/// Which entries become events.
#[derive(Clone, Debug, Args)]
pub(crate) struct AuditArguments {
    /// Make a CADF audit event of each entry; without NATS they are printed
    #[arg(long, env = "AUDIT_ENABLED")]
    pub audit: bool,
    /// NATS subject of the audit events
    #[arg(long, env = "AUDIT_SUBJECT", default_value = "rgw.s3.audit", value_parser = crate::nats::subject)]
    pub audit_subject: async_nats::Subject,
    /// Audit only requests that change something
    #[arg(long)]
    pub audit_changes_only: bool,
    /// Skip entries whose user has no project
    #[arg(long, env = "AUDIT_REQUIRE_TENANT")]
    pub audit_require_tenant: bool,
    /// Buckets that are not audited, such as the one where audit events are stored
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "hermes",
        env = "AUDIT_SKIP_BUCKETS"
    )]
    pub audit_skip_buckets: Vec<String>,
    /// Audit only these domains of Keystone, by id or name
    #[arg(long, value_delimiter = ',', env = "AUDIT_ALLOW_DOMAINS")]
    pub audit_allow_domains: Vec<String>,
    /// Do not audit these domains of Keystone, by id or name
    #[arg(long, value_delimiter = ',', env = "AUDIT_DENY_DOMAINS")]
    pub audit_deny_domains: Vec<String>,
    /// Region to name in the events
    #[arg(long, env = "AUDIT_REGION", default_value = "")]
    pub audit_region: String,
    /// Observer to name in the events
    #[arg(long, env = "AUDIT_OBSERVER_NAME", default_value = "radosgw")]
    pub audit_observer: String,
}

/// What an event needs of an entry.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Entry<'a> {
    #[serde(borrow)]
    bucket: Cow<'a, str>,
    #[serde(borrow)]
    object: Cow<'a, str>,
    #[serde(borrow)]
    time: Cow<'a, str>,
    #[serde(borrow)]
    remote_addr: Cow<'a, str>,
    #[serde(borrow)]
    user: Cow<'a, str>,
    #[serde(borrow)]
    operation: Cow<'a, str>,
    #[serde(borrow)]
    uri: Cow<'a, str>,
    #[serde(borrow)]
    http_status: Cow<'a, str>,
    #[serde(borrow)]
    user_agent: Cow<'a, str>,
    keystone_scope: Option<Scope>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Scope {
    project: Named,
    user: Named,
    application_credential: Option<Named>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    id: String,
    name: String,
    domain: Domain,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Domain {
    id: String,
    name: String,
}

impl Entry<'_> {
    fn is_read(&self) -> bool {
        ["get_", "head_", "list_", "stat_"]
            .iter()
            .any(|kind| self.operation.starts_with(kind))
    }

    /// Of a name `tenant/bucket` the bucket.
    fn bucket(&self) -> &str {
        self.bucket.rsplit('/').next().unwrap_or_default()
    }

    /// The path of the request. Parameters can hold a signature that lets its reader in.
    fn path(&self) -> &str {
        let path = self.uri.split(' ').nth(1).unwrap_or("/");
        path.split('?').next().unwrap_or("/")
    }

    /// RadosGW leaves the object out of many entries; then it is what follows the bucket in the path.
    fn object(&self) -> Cow<'_, str> {
        if !self.object.is_empty() {
            return Cow::Borrowed(&self.object);
        }
        let path = self.path().trim_start_matches('/');
        let object = match path.split_once('/') {
            Some((bucket, object)) if bucket == self.bucket() => object,
            _ => "",
        };
        percent_encoding::percent_decode_str(object).decode_utf8_lossy()
    }

    /// The project: Keystone's, or the tenant of RadosGW.
    fn project(&self) -> &str {
        match &self.keystone_scope {
            Some(scope) => &scope.project.id,
            None if &*self.user == "anonymous" => "",
            None => self.user.split('$').next().unwrap_or_default(),
        }
    }
}

/// Makes the events, and counts those that it does not make.
pub(crate) struct Auditor {
    arguments: AuditArguments,
    observer: String,
    made: u64,
    dropped: BTreeMap<&'static str, u64>,
}

impl Auditor {
    pub(crate) fn new(arguments: AuditArguments, observer: uuid::Uuid) -> Self {
        Auditor {
            arguments,
            observer: observer.to_string(),
            made: 0,
            dropped: BTreeMap::new(),
        }
    }

    pub(crate) fn subject(&self) -> &async_nats::Subject {
        &self.arguments.audit_subject
    }

    /// The event of an entry; `None` if it is not to be audited.
    pub(crate) fn event(&mut self, text: &[u8], id: uuid::Uuid) -> Option<Value> {
        let entry: Entry<'_> = serde_json::from_slice(text).unwrap_or_default();
        if let Some(reason) = self.left_out(&entry) {
            *self.dropped.entry(reason).or_default() += 1;
            return None;
        }
        self.made += 1;
        Some(self.made_of(&entry, id))
    }

    fn left_out(&self, entry: &Entry<'_>) -> Option<&'static str> {
        let arguments = &self.arguments;
        let among = |names: &[String], name: &str| {
            !name.is_empty() && names.iter().any(|one| one.trim().eq_ignore_ascii_case(name))
        };
        let domain = entry.keystone_scope.as_ref().map(|scope| &scope.project.domain);
        let of_domain = |names: &[String]| {
            domain.is_some_and(|domain| among(names, &domain.id) || among(names, &domain.name))
        };
        let allowed = &arguments.audit_allow_domains;
        let has_domain = domain.is_some_and(|domain| !domain.id.is_empty());
        if among(&arguments.audit_skip_buckets, entry.bucket()) {
            Some("skip_bucket")
        } else if of_domain(&arguments.audit_deny_domains) || (!allowed.is_empty() && !of_domain(allowed)) {
            Some("domain_filtered")
        } else if arguments.audit_require_tenant && entry.project().is_empty() && !has_domain {
            Some("no_tenant")
        } else if arguments.audit_changes_only && entry.is_read() {
            Some("read")
        } else {
            None
        }
    }

    fn made_of(&self, entry: &Entry<'_>, id: uuid::Uuid) -> Value {
        let success = !matches!(entry.http_status.as_bytes().first(), Some(b'4' | b'5'));
        json!({
            "typeURI": "http://schemas.dmtf.org/cloud/audit/1.0/event",
            "id": id.to_string(),
            "eventTime": time(&entry.time),
            "eventType": "activity",
            "action": action(&entry.operation),
            "outcome": if success { "success" } else { "failure" },
            "reason": {"reasonType": "HTTP", "reasonCode": entry.http_status},
            "initiator": initiator(entry),
            "target": self.target(entry),
            "observer": {"typeURI": "service/storage", "name": self.arguments.audit_observer, "id": self.observer},
            "requestPath": entry.path(),
        })
    }

    fn target(&self, entry: &Entry<'_>) -> Value {
        let (bucket, object, project) = (entry.bucket(), entry.object(), entry.project());
        let object = &*object;
        let mut attachments = Vec::new();
        let attach = |name: &str, kind: &str, content: &str| json!({"name": name, "typeURI": kind, "content": content});
        let (kind, id, name) = if !object.is_empty() {
            attachments.push(attach("bucket", "service/storage/bucket", bucket));
            ("service/storage/object", format!("{bucket}/{object}"), object)
        } else if !bucket.is_empty() {
            ("service/storage/bucket", bucket.to_owned(), bucket)
        } else {
            ("service/storage/account", project.to_owned(), project)
        };
        let region = &self.arguments.audit_region;
        if !region.is_empty() {
            attachments.push(attach("region", "xs:string", region));
        }
        let mut target = json!({"typeURI": kind, "id": id, "name": name, "project_id": project});
        if !attachments.is_empty() {
            target["attachments"] = attachments.into();
        }
        target
    }

    pub(crate) fn render(&self, page: &mut Page) {
        let name = "prysm_audit_events_total";
        page.family(name, Type::Counter, "Audit events created.");
        page.sample(name, [], self.made);
        let name = "prysm_audit_events_dropped_total";
        page.family(
            name,
            Type::Counter,
            "Entries for which no audit event was created, by reason.",
        );
        for (reason, count) in &self.dropped {
            page.sample(name, [("reason", *reason)], count);
        }
    }
}

fn initiator(entry: &Entry<'_>) -> Value {
    let host = json!({"address": entry.remote_addr, "agent": entry.user_agent});
    let kind = "service/security/account/user";
    let Some(scope) = &entry.keystone_scope else {
        return json!({"typeURI": kind, "id": entry.user, "name": entry.user, "project_id": entry.project(), "host": host});
    };
    let (user, project) = (&scope.user, &scope.project);
    let mut initiator = json!({
        "typeURI": kind, "id": user.id, "name": user.name, "domain": user.domain.name,
        "project_id": project.id, "project_name": project.name, "domain_id": project.domain.id,
        "domain_name": project.domain.name, "project_domain_name": project.domain.name, "host": host,
    });
    if let Some(credential) = &scope.application_credential {
        initiator["application_credential_id"] = credential.id.clone().into();
        initiator["attachments"] = json!([{
            "name": "application_credential_name", "typeURI": "xs:string", "content": credential.name}]);
    }
    initiator
}

/// RadosGW's names of what is done.
fn action(operation: &str) -> &'static str {
    match operation {
        "list_buckets" | "list_bucket" | "list_multipart" | "list_bucket_multiparts" => "read/list",
        "copy_obj" => "update/copy",
        "post_obj" | "complete_multipart" => "update",
        "create_bucket" | "put_obj" | "init_multipart" => "create",
        other if other.starts_with("get_") || other.starts_with("head_") || other.starts_with("stat_") => {
            "read"
        }
        other
            if other.starts_with("delete_")
                || other == "multi_object_delete"
                || other == "abort_multipart" =>
        {
            "delete"
        }
        other if other.starts_with("put_") || other.starts_with("set_") => "update",
        _ => "unknown",
    }
}

/// CADF wants an offset; what is no time is told as it came.
fn time(text: &str) -> String {
    let read: Result<jiff::Timestamp, _> = text.parse();
    read.map_or_else(
        |_| text.to_owned(),
        |time| time.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auditor(change: impl FnOnce(&mut AuditArguments)) -> Auditor {
        let mut arguments = AuditArguments {
            audit: true,
            audit_skip_buckets: vec!["hermes".to_owned()],
            audit_observer: "radosgw".to_owned(),
            audit_subject: "a.b".into(),
            audit_changes_only: false,
            audit_require_tenant: false,
            audit_allow_domains: Vec::new(),
            audit_deny_domains: Vec::new(),
            audit_region: String::new(),
        };
        change(&mut arguments);
        Auditor::new(arguments, uuid::Uuid::nil())
    }

    fn entry(change: Value) -> Vec<u8> {
        let mut entry = json!({
            "bucket": "acme/photos", "object": "a.jpg", "time": "2026-01-02T03:04:05.678901Z", "remote_addr": "10.0.0.7",
            "user": "acme$ann", "operation": "put_obj", "uri": "PUT /photos/a.jpg?X-Amz-Signature=abc HTTP/1.1",
            "http_status": "200", "user_agent": "aws-sdk",
        });
        for (field, value) in change.as_object().into_iter().flatten() {
            entry[field] = value.clone();
        }
        serde_json::to_vec(&entry).expect("JSON")
    }

    #[test]
    fn an_event_says_who_did_what_to_which_object() {
        let event = auditor(|arguments| arguments.audit_region = "qa-de-1".to_owned())
            .event(&entry(json!({})), uuid::Uuid::nil())
            .expect("an event");
        for (path, value) in [
            ("/eventTime", "2026-01-02T03:04:05.678901+00:00"),
            ("/action", "create"),
            ("/outcome", "success"),
            ("/reason/reasonCode", "200"),
            ("/initiator/id", "acme$ann"),
            ("/initiator/project_id", "acme"),
            ("/initiator/host/address", "10.0.0.7"),
            ("/target/typeURI", "service/storage/object"),
            ("/target/id", "photos/a.jpg"),
            ("/target/attachments/1/content", "qa-de-1"),
            ("/requestPath", "/photos/a.jpg"),
        ] {
            assert_eq!(event.pointer(path).and_then(Value::as_str), Some(value), "{path}");
        }
        assert!(!event.to_string().contains("abc"), "a signature is not repeated");
    }

    #[test]
    fn keystone_knows_more() {
        let scope = json!({"keystone_scope": {
            "project": {"id": "p1", "name": "shop", "domain": {"id": "d1", "name": "acme"}},
            "user": {"id": "u1", "name": "ann", "domain": {"id": "d1", "name": "acme"}},
            "application_credential": {"id": "c1", "name": "ci"}}, "object": "", "bucket": "",
            "operation": "list_buckets", "http_status": "403"});
        let event = auditor(|_| {})
            .event(&entry(scope), uuid::Uuid::nil())
            .expect("an event");
        for (path, value) in [
            ("/initiator/id", "u1"),
            ("/initiator/domain_name", "acme"),
            ("/initiator/application_credential_id", "c1"),
            ("/target/typeURI", "service/storage/account"),
            ("/target/id", "p1"),
            ("/action", "read/list"),
            ("/outcome", "failure"),
        ] {
            assert_eq!(event.pointer(path).and_then(Value::as_str), Some(value), "{path}");
        }
    }

    #[test]
    fn what_is_left_out_is_counted_by_reason() {
        let domain = |name: &str| json!({"keystone_scope": {"project": {"id": "p", "domain": {"id": name, "name": name}}}});
        type Change = fn(&mut AuditArguments);
        let table: &[(Change, Value, Option<&str>)] = &[
            (|_| {}, json!({"bucket": "x/Hermes"}), Some("skip_bucket")),
            (
                |a| a.audit_deny_domains = vec!["acme".into()],
                domain("ACME"),
                Some("domain_filtered"),
            ),
            (
                |a| a.audit_allow_domains = vec!["acme".into()],
                domain("other"),
                Some("domain_filtered"),
            ),
            (
                |a| a.audit_allow_domains = vec!["acme".into()],
                json!({}),
                Some("domain_filtered"),
            ),
            (
                |a| a.audit_allow_domains = vec!["acme".into()],
                domain("acme"),
                None,
            ),
            (
                |a| a.audit_require_tenant = true,
                json!({"user": "anonymous"}),
                Some("no_tenant"),
            ),
            (|a| a.audit_require_tenant = true, json!({}), None),
            (
                |a| a.audit_changes_only = true,
                json!({"operation": "get_obj"}),
                Some("read"),
            ),
            (
                |a| a.audit_changes_only = true,
                json!({"operation": "delete_obj"}),
                None,
            ),
        ];
        for (change, fields, reason) in table {
            let mut auditor = auditor(change);
            let made = auditor.event(&entry(fields.clone()), uuid::Uuid::nil());
            assert_eq!(made.is_none(), reason.is_some(), "{fields}");
            assert_eq!(auditor.dropped.keys().next().copied(), *reason, "{fields}");
        }
    }

    #[test]
    fn an_object_that_is_left_out_is_read_off_the_path() {
        for (uri, id) in [
            ("PUT /photos/b/c%20d.jpg?uploadId=1 HTTP/1.1", "photos/b/c d.jpg"),
            ("GET /photos?list-type=2 HTTP/1.1", "photos"),
            ("GET /photos/ HTTP/1.1", "photos"),
            // The bucket is in the name of the host: the path does not tell which part is what.
            ("PUT /elsewhere/c.jpg HTTP/1.1", "photos"),
        ] {
            let event = auditor(|_| {}).event(&entry(json!({"object": "", "uri": uri})), uuid::Uuid::nil());
            let event = event.expect("an event");
            assert_eq!(event["target"]["id"], id, "{uri}");
        }
    }
}
