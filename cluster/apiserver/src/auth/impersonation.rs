//! Acting as someone else, for those who may.

use http::HeaderMap;

use super::rbac::Verdict;
use crate::{
    identity::{Attributes, Decision, Identity, refusal},
    status::ApiError,
    verb::Verb,
};

/// Who the headers ask to be.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    user: String,
    uid: String,
    groups: Vec<String>,
    extra: Vec<(String, String)>,
}

/// Reads the impersonation headers; `None` if there are none.
pub(super) fn wanted(headers: &HeaderMap) -> Result<Option<Wanted>, ApiError> {
    let mut wanted = Wanted::default();
    let mut found = false;
    for (name, value) in headers {
        let Some(what) = name.as_str().strip_prefix("impersonate-") else {
            continue;
        };
        let value = value
            .to_str()
            .map_err(|_| ApiError::bad_request(format!("the header {name} is not plain ASCII text")))?;
        found = true;
        match what {
            "user" => wanted.user = value.to_owned(),
            "uid" => wanted.uid = value.to_owned(),
            "group" => wanted.groups.push(value.to_owned()),
            _ => {
                if let Some(key) = what.strip_prefix("extra-") {
                    wanted.extra.push((key.to_owned(), value.to_owned()));
                }
            }
        }
    }
    if found && wanted.user.is_empty() {
        return Err(ApiError::internal(
            "the headers ask to impersonate groups, a uid or extras, but no user: set Impersonate-User",
        ));
    }
    Ok(found.then_some(wanted))
}

/// The other identity, if `may` allows every part of it.
pub(super) fn become_other(
    identity: &Identity,
    wanted: Wanted,
    may: impl Fn(&Attributes) -> Verdict,
) -> Result<Identity, ApiError> {
    let check = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
        let attributes = Attributes {
            verb: Verb::other("impersonate"),
            group: group.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Attributes::default()
        };
        match may(&attributes).decision() {
            Decision::Allow => Ok(()),
            Decision::Deny(reason) => Err(refusal(identity, &attributes, &reason)),
        }
    };
    let account = wanted
        .user
        .strip_prefix("system:serviceaccount:")
        .and_then(|rest| rest.split_once(':'));
    match account {
        Some((namespace, name)) => check("", "serviceaccounts", "", namespace, name)?,
        None => check("", "users", "", "", &wanted.user)?,
    }
    for group in &wanted.groups {
        check("", "groups", "", "", group)?;
    }
    if !wanted.uid.is_empty() {
        check("authentication.k8s.io", "uids", "", "", &wanted.uid)?;
    }
    for (key, value) in &wanted.extra {
        check("authentication.k8s.io", "userextras", key, "", value)?;
    }
    let mut groups: Vec<&str> = wanted.groups.iter().map(String::as_str).collect();
    let of_namespace;
    if let Some((namespace, _)) = account
        && groups.is_empty()
    {
        of_namespace = format!("system:serviceaccounts:{namespace}");
        groups.extend(["system:serviceaccounts", &of_namespace]);
    }
    let mut other = Identity::new(&wanted.user, &groups);
    other.uid = wanted.uid;
    for (key, value) in wanted.extra {
        other.extra.entry(key).or_default().push(value);
    }
    Ok(other)
}
