//! Paths of the Kubernetes API.

use http::Method;
use percent_encoding::percent_decode_str;

use super::Query;
use crate::identity::Attributes;
use crate::verb::Verb;

/// What a path points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Resource,
    /// `/api`, `/apis`, `/apis/<group>`, `/apis/<group>/<version>`, `/openapi/…`, `/healthz` and so on.
    Path,
}

#[derive(Clone, Debug)]
pub struct Route {
    /// The logical cluster that the path names.
    pub cluster: Option<String>,
    pub target: Target,
    /// What authorisation is asked.
    pub attributes: Attributes,
    /// What the path itself says.
    pub place: ResourcePath,
}

/// Where in the tree of resources a path points. Not always what authorisation is asked: a
/// namespace counts as part of itself, and a field selector may name the one object of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// The namespace that the path lies below.
    pub namespace: Option<String>,
    pub name: Option<String>,
}

/// `None`: the path is not UTF-8, holds an empty, `.` or `..` segment, or goes on where nothing does.
pub fn route(method: &Method, path: &str, query: &Query) -> Option<Route> {
    let mut segments: Vec<String> = Vec::new();
    for segment in path.trim_matches('/').split('/') {
        let segment = percent_decode_str(segment).decode_utf8().ok()?.into_owned();
        if segment == "." || segment == ".." || segment.contains(['/', '\0']) {
            return None;
        }
        segments.push(segment);
    }
    let mut cluster = None;
    if segments.len() > 1 && segments[0] == "clusters" {
        cluster = Some(segments.remove(1));
        segments.remove(0);
    }
    let path = format!("/{}", segments.join("/"));
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => {
            let verb = Verb::from(method.as_str().to_ascii_lowercase().as_str());
            let attributes = Attributes {
                verb,
                path,
                ..Attributes::default()
            };
            return Some(Route {
                cluster,
                target: Target::Path,
                attributes,
                place: ResourcePath::default(),
            });
        }
    };
    // With an empty group, `/apis//v1/pods` would be another name of `/api/v1/pods`.
    if parts.iter().any(|segment| segment.is_empty()) {
        return None;
    }
    let mut attributes = Attributes {
        group: group.to_owned(),
        version: version.to_owned(),
        path,
        ..Attributes::default()
    };
    let mut place = ResourcePath::default();
    let of_namespace = |segment: &str| group.is_empty() && (segment == "status" || segment == "finalize");
    let rest = match rest {
        ["namespaces", namespace, tail @ ..] if tail.first().is_some_and(|first| !of_namespace(first)) => {
            attributes.namespace = (*namespace).to_owned();
            place.namespace = Some((*namespace).to_owned());
            tail
        }
        // A namespace is in itself: rights inside of it may cover reading or deleting it.
        ["namespaces", namespace, ..] if group.is_empty() => {
            attributes.namespace = (*namespace).to_owned();
            rest
        }
        _ => rest,
    };
    let mut rest = rest.iter();
    let mut next = || rest.next().map(|&segment| segment.to_owned()).unwrap_or_default();
    (attributes.resource, attributes.name, attributes.subresource) = (next(), next(), next());
    if rest.next().is_some() && attributes.subresource != "proxy" {
        return None;
    }
    place.name = (!attributes.name.is_empty()).then(|| attributes.name.clone());
    attributes.verb = verb(method, &attributes, query);
    if place.name.is_none() && matches!(attributes.verb, Verb::List | Verb::Watch) {
        // RBAC by resourceNames lets a client list the one object that it may see.
        let selector = query.get("fieldSelector").unwrap_or_default();
        attributes.name = selected_name(selector).unwrap_or_default();
        attributes.field_selector = selector.to_owned();
    }
    Some(Route {
        cluster,
        target: Target::Resource,
        attributes,
        place,
    })
}

fn verb(method: &Method, attributes: &Attributes, query: &Query) -> Verb {
    let named = !attributes.name.is_empty();
    match *method {
        Method::GET | Method::HEAD if named => Verb::Get,
        Method::GET | Method::HEAD if query.flag("watch") => Verb::Watch,
        Method::GET | Method::HEAD => Verb::List,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE if named => Verb::Delete,
        Method::DELETE => Verb::DeleteCollection,
        _ => Verb::default(),
    }
}

fn selected_name(selector: &str) -> Option<String> {
    let name = selector.strip_prefix("metadata.name=")?.trim_start_matches('=');
    (!name.contains([',', '=', '!'])).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(method: &Method, uri: &str) -> Option<(Option<String>, Attributes)> {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        route(method, path, &Query::parse(query)).map(|r| (r.cluster, r.attributes))
    }

    #[test]
    fn paths_read_as_in_kubernetes() {
        let cases = [
            (
                Method::GET,
                "/api/v1/namespaces",
                "list  v1 namespaces/ ns= name=",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a",
                "get  v1 namespaces/ ns=a name=a",
            ),
            (
                Method::PUT,
                "/api/v1/namespaces/a/finalize",
                "update  v1 namespaces/finalize ns=a name=a",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a/pods?watch=1",
                "watch  v1 pods/ ns=a name=",
            ),
            (
                Method::GET,
                "/api/v1/pods?watch=false",
                "list  v1 pods/ ns= name=",
            ),
            (
                Method::GET,
                "/api/v1/pods?fieldSelector=metadata.name%3Dx",
                "list  v1 pods/ ns= name=x",
            ),
            (
                Method::DELETE,
                "/apis/apps/v1/namespaces/a/deployments",
                "deletecollection apps v1 deployments/ ns=a name=",
            ),
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/a/deployments/d/scale",
                "patch apps v1 deployments/scale ns=a name=d",
            ),
            (
                Method::GET,
                "/apis/example.com/v1/namespaces/a/things/a%3Ab",
                "get example.com v1 things/ ns=a name=a:b",
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/pods/p/exec",
                "create  v1 pods/exec ns=a name=p",
            ),
        ];
        for (method, uri, expected) in cases {
            let (_, a) = attributes(&method, uri).unwrap();
            let found = format!(
                "{} {} {} {}/{} ns={} name={}",
                a.verb, a.group, a.version, a.resource, a.subresource, a.namespace, a.name
            );
            assert_eq!(found, expected, "{uri}");
        }
    }

    #[test]
    fn clusters_and_other_paths() {
        let (cluster, a) = attributes(&Method::GET, "/clusters/storage/api/v1/nodes").unwrap();
        assert_eq!(
            (cluster.as_deref(), a.path.as_str()),
            (Some("storage"), "/api/v1/nodes")
        );
        let (_, a) = attributes(&Method::GET, "/apis/apps/v1").unwrap();
        assert!(!a.is_resource());
        for bad in [
            "/api/v1/pods/..",
            "/api/v1/namespaces/a/pods/%2e%2e/log",
            "/api/v1/pods/%ff",
            "/api/v1/namespaces//pods",
            "/api/v1/a/b/c/d",
        ] {
            assert!(attributes(&Method::GET, bad).is_none(), "{bad}");
        }
    }
}
