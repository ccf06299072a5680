//! What `up` applies: a ControlPlane and what the machine adds to it. Pure.

use c5c3_api::c5c3::ControlPlane;
use c5c3_api::services::SERVICES;
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{Resource, ResourceExt};
use machine::Plan;
use serde_json::{Value, json};

use super::{NAMESPACE, accounts};

/// A document that is not applied: it says which clusters and nodes the machine has.
const MACHINE: (&str, &str) = ("embedded.c5c3.io/v1alpha1", "Machine");

/// The cluster of the machine that an object belongs to, where it is not the first.
const CLUSTER: &str = "c5c3.io/cluster";

/// The objects of a file or a profile.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Bundle {
    pub objects: Vec<Value>,
    pub planes: Vec<ControlPlane>,
    pub machine: Plan,
}

impl Bundle {
    /// Reads YAML documents; an error names the document and the field. What names no namespace
    /// belongs to [`NAMESPACE`]. An object that is there twice is what its last document says.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let objects: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
        let mut objects: Vec<Value> = objects.into_iter().filter(|object| !object.is_null()).collect();
        let (mut planes, mut machine) = (Vec::new(), Plan::default());
        for (number, object) in objects.iter_mut().enumerate() {
            let number = number + 1;
            if is_machine(object) {
                let plan: Plan = serde_json::from_value(object["spec"].take())
                    .map_err(|error| format!("document {number}, a Machine: {error}"))?;
                machine.clusters.extend(plan.clusters);
                continue;
            }
            for field in ["apiVersion", "kind"] {
                if !object[field].is_string() {
                    return Err(format!("document {number} has no {field}"));
                }
            }
            if object["metadata"]["name"].as_str().unwrap_or_default().is_empty() {
                return Err(format!("document {number} has no metadata.name"));
            }
            let namespace = &mut object["metadata"]["namespace"];
            match namespace {
                Value::Null => *namespace = NAMESPACE.into(),
                Value::String(name) if !name.is_empty() => {}
                // YAML reads y, no and 1 as something else.
                other => {
                    return Err(format!(
                        "document {number}: metadata.namespace {other} is not a name; put it in quotes"
                    ));
                }
            }
            if object["kind"] == "ControlPlane" {
                let plane = serde_json::from_value(object.clone())
                    .map_err(|error| format!("document {number}, a ControlPlane: {error}"))?;
                planes.push(plane);
            }
        }
        objects.retain(|object| !is_machine(object));
        Ok(Bundle {
            objects: last_words(objects),
            planes,
            machine,
        })
    }

    /// Moves every public port of the machine by so many, for a second cloud beside the first.
    pub(crate) fn shifted(self, offset: u16) -> Result<Self, String> {
        if offset == 0 {
            return Ok(self);
        }
        let mut objects = self.objects;
        for object in objects
            .iter_mut()
            .filter(|object| object["kind"] == "ControlPlane")
        {
            let services = object
                .pointer_mut("/spec/services")
                .and_then(Value::as_object_mut);
            for service in services.into_iter().flat_map(serde_json::Map::values_mut) {
                let (mut own, mut consoles) = (None, None);
                for (field, value) in service.as_object_mut().into_iter().flatten() {
                    match field.as_str() {
                        "publicEndpoint" => own = Some(value),
                        "consoles" => consoles = value.as_object_mut(),
                        _ => {}
                    }
                }
                let consoles = consoles.into_iter().flat_map(serde_json::Map::values_mut);
                for url in own.into_iter().chain(consoles) {
                    shift(url, offset)?;
                }
            }
        }
        let text = objects
            .iter()
            .map(serde_saphyr::to_string)
            .collect::<Result<Vec<_>, _>>();
        let moved = Self::parse(&text.map_err(|error| error.to_string())?.join("---\n"))?;
        Ok(Bundle {
            machine: self.machine,
            ..moved
        })
    }

    /// On a machine whose clusters are given: hypervisors in a cluster that is not among them are nodes
    /// of the first.
    pub(crate) fn on(mut self, clusters: &[String]) -> Self {
        self.machine = Plan::default();
        let there = |name: &str| clusters.iter().any(|cluster| cluster == name);
        without_arbiters(&mut self.objects, there);
        for object in &mut self.objects {
            if !cluster_of(object).is_some_and(there) {
                *object = unplaced(object);
            }
        }
        for plane in &mut self.planes {
            if let Some(compute) = &mut plane.spec.services.nova.compute {
                compute.cluster_ref.take_if(|cluster| !there(&cluster.name));
            }
        }
        for object in self
            .objects
            .iter_mut()
            .filter(|object| object["kind"] == "ControlPlane")
        {
            let compute = object.pointer_mut("/spec/services/nova/compute");
            if let Some(compute) = compute.and_then(Value::as_object_mut) {
                let named = compute
                    .get("clusterRef")
                    .and_then(|cluster| cluster["name"].as_str());
                if named.is_some_and(|name| !there(name)) {
                    compute.remove("clusterRef");
                }
            }
        }
        self
    }

    /// Clouds that are there already: nothing of theirs is applied.
    pub(crate) fn of(planes: Vec<ControlPlane>) -> Self {
        Bundle {
            planes,
            ..Bundle::default()
        }
    }
}

/// Where `up` brings it, unless that is the first cluster.
pub(crate) fn cluster_of(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][CLUSTER].as_str()
}

/// As it is applied: where it is, is said by where it is.
pub(crate) fn unplaced(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.remove(CLUSTER);
    }
    object
}

/// A monitor elsewhere is of no use where there is no elsewhere.
fn without_arbiters(objects: &mut Vec<Value>, there: impl Fn(&str) -> bool) {
    let missing = |object: &&Value| accounts::place(object).is_some_and(|place| !there(place));
    let remotes = objects.iter().filter(missing);
    let remotes: Vec<Value> = remotes.map(|one| one["metadata"]["name"].clone()).collect();
    objects.retain(|object| match object["kind"].as_str() {
        Some("RemoteCluster") => !missing(&object),
        Some("RemoteArbiter") => !remotes.contains(&object["spec"]["remoteCluster"]["name"]),
        _ => true,
    });
}

fn is_machine(object: &Value) -> bool {
    (object["apiVersion"].as_str(), object["kind"].as_str()) == (Some(MACHINE.0), Some(MACHINE.1))
}

/// Each object once, at the place of its first document.
fn last_words(objects: Vec<Value>) -> Vec<Value> {
    let place = |object: &Value| {
        let metadata = &object["metadata"];
        let named = [
            &object["apiVersion"],
            &object["kind"],
            &metadata["namespace"],
            &metadata["name"],
        ];
        (named.map(Clone::clone), cluster_of(object).map(str::to_owned))
    };
    let mut all: Vec<Value> = Vec::with_capacity(objects.len());
    for object in objects {
        match all.iter_mut().find(|earlier| place(earlier) == place(&object)) {
            Some(earlier) => *earlier = object,
            None => all.push(object),
        }
    }
    all
}

/// The port of a URL on the machine's loopback.
fn loopback_port(url: &str) -> Option<u16> {
    let uri: http::Uri = url.parse().ok()?;
    let host = uri.host()?;
    let loopback = host == "localhost" || host.starts_with("127.");
    uri.port_u16().filter(|_| loopback)
}

/// Moves the port of a URL on loopback.
fn shift(url: &mut Value, offset: u16) -> Result<(), String> {
    let Some(text) = url.as_str() else { return Ok(()) };
    let Some(port) = loopback_port(text) else {
        return Ok(());
    };
    let moved = port
        .checked_add(offset)
        .ok_or_else(|| format!("--port-offset {offset}: port {port} would go beyond 65535"))?;
    *url = text.replacen(&format!(":{port}"), &format!(":{moved}"), 1).into();
    Ok(())
}

/// Services that bring a cloud's public endpoints on loopback to the machine; they go with it.
pub(crate) fn exposures(plane: &ControlPlane) -> Vec<Value> {
    let namespace = plane.namespace().unwrap_or_default();
    let owners: Vec<_> = plane.owner_ref(&()).into_iter().collect();
    let exposed = |service: &str, component: &str, name: String, url: Option<&str>| {
        let port = loopback_port(url?)?;
        let selector = [
            ("app.kubernetes.io/name", service),
            ("app.kubernetes.io/instance", service),
            ("app.kubernetes.io/component", component),
        ];
        Some(json!(Service {
            metadata: ObjectMeta {
                namespace: Some(namespace.clone()),
                name: Some(name),
                annotations: Some([("c5c3.io/expose".to_owned(), port.to_string())].into()),
                owner_references: Some(owners.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(ServiceSpec {
                selector: Some(
                    selector
                        .map(|(label, value)| (label.to_owned(), value.to_owned()))
                        .into()
                ),
                ports: Some(vec![ServicePort {
                    name: Some("api".to_owned()),
                    port: port.into(),
                    target_port: Some(IntOrString::String("api".to_owned())),
                    ..ServicePort::default()
                }]),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        }))
    };
    let apis = SERVICES.iter().filter(|service| service.runs(&plane.spec));
    let apis = apis.filter_map(|service| {
        let url = (service.toggle)(&plane.spec)?.public_endpoint.as_deref();
        exposed(service.name, "api", format!("{}-public", service.name), url)
    });
    let nova = &plane.spec.services.nova;
    let consoles = nova.consoles.iter().filter(|_| nova.common.enabled);
    let consoles = consoles.filter_map(|(cell, url)| {
        let component = format!("novncproxy-{cell}");
        exposed("nova", &component, format!("nova-{component}-public"), Some(url))
    });
    apis.chain(consoles).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = include_str!("../../../deploy/profiles/small.yaml");

    #[test]
    fn a_profile_says_its_ports() {
        let small = Bundle::parse(SMALL).expect("parses");
        let exposed = exposures(&small.planes[0]);
        let ports: Vec<_> = exposed
            .iter()
            .map(|service| {
                service["metadata"]["annotations"]["c5c3.io/expose"]
                    .as_str()
                    .unwrap_or_default()
            })
            .collect();
        assert_eq!(ports, ["5000", "9292", "8778", "8774", "9696", "8776", "6080"]);
    }

    #[test]
    fn ports_move_together_and_stay_ports() {
        let moved = Bundle::parse(SMALL)
            .and_then(|bundle| bundle.shifted(10_000))
            .expect("moves");
        let keystone = &moved.planes[0].spec.services.keystone.common;
        assert_eq!(
            keystone.public_endpoint.as_deref(),
            Some("http://127.0.0.1:15000/v3")
        );
        let exposed = exposures(&moved.planes[0]);
        assert_eq!(exposed[1]["spec"]["ports"][0]["port"], 19292);
        let consoles = exposed.last().expect("those of cell1");
        assert_eq!(consoles["spec"]["ports"][0]["port"], 16080);
        assert_eq!(
            consoles["spec"]["selector"]["app.kubernetes.io/component"],
            "novncproxy-cell1"
        );
        let error = Bundle::parse(SMALL)
            .and_then(|bundle| bundle.shifted(60_000))
            .expect_err("too far");
        assert!(error.contains("beyond 65535"), "{error}");
    }

    #[test]
    fn what_is_exposed_goes_with_its_cloud() {
        let mut plane = Bundle::parse(SMALL).expect("parses").planes.remove(0);
        plane.metadata.uid = Some("u-1".into());
        let owner = &exposures(&plane)[0]["metadata"]["ownerReferences"][0];
        assert_eq!(
            (&owner["kind"], &owner["name"], &owner["uid"]),
            (&json!("ControlPlane"), &json!("cloud"), &json!("u-1"))
        );
        // Others make the Deployments: none of these may be taken for the controller's.
        assert!(owner["controller"] != true);
    }

    #[test]
    fn what_names_no_namespace_belongs_to_the_default_one() {
        let text = "apiVersion: c5c3.io/v1alpha1\nkind: ControlPlane\nmetadata: {name: x}\n\
            spec: {openStackRelease: '2025.2'}\n---\n\
            apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: mine}\n";
        let bundle = Bundle::parse(text).expect("parses");
        assert_eq!(bundle.planes[0].namespace().as_deref(), Some("openstack"));
        assert_eq!(bundle.objects[0]["metadata"]["namespace"], "openstack");
        assert_eq!(bundle.objects[1]["metadata"]["namespace"], "mine");
        let moved = bundle.shifted(1).expect("moves");
        assert_eq!(moved.planes[0].namespace().as_deref(), Some("openstack"));
    }

    #[test]
    fn an_object_is_what_was_said_of_it_last() {
        let map = |name: &str, cluster: &str, value: u8| {
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, annotations: {{c5c3.io/cluster: {cluster}}}}}\n\
                 data: {{value: '{value}'}}\n---\n"
            )
        };
        let text = [
            map("a", "one", 1),
            map("b", "one", 2),
            map("a", "two", 3),
            map("a", "one", 4),
        ];
        let bundle = Bundle::parse(&text.concat()).expect("parses");
        let values: Vec<&str> = bundle
            .objects
            .iter()
            .filter_map(|object| object["data"]["value"].as_str())
            .collect();
        assert_eq!(values, ["4", "2", "3"]);
    }

    #[test]
    fn a_machine_is_read_and_not_applied() {
        let text = "apiVersion: embedded.c5c3.io/v1alpha1\nkind: Machine\nspec:\n  clusters:\n\
            \x20 - {name: control-plane, nodes: [{count: 3}]}\n\
            \x20 - name: hypervisor\n    nodes: [{traits: {hypervisor: true, zone: a, taints: [{key: x, effect: NoSchedule}]}}]\n\
            ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n";
        let bundle = Bundle::parse(text)
            .and_then(|bundle| bundle.shifted(1))
            .expect("parses");
        assert_eq!(bundle.objects.len(), 1);
        let names: Vec<&str> = bundle.machine.clusters.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["control-plane", "hypervisor"]);
        assert_eq!(bundle.machine.clusters[0].nodes[0].count, 3);
        let traits = bundle.machine.clusters[1].nodes[0].traits.clone().expect("said");
        assert!(traits.hypervisor && traits.zone.as_deref() == Some("a"));
        let wrong = Bundle::parse(&text.replace("zone", "zones")).expect_err("refused");
        assert!(
            wrong.starts_with("document 1, a Machine: unknown field `zones`"),
            "{wrong}"
        );
    }

    #[test]
    fn the_small_profile_has_hypervisors_of_their_own_unless_the_machine_has_none() {
        let small = || Bundle::parse(SMALL).expect("parses");
        let nodes = |bundle: &Bundle| -> Vec<(String, u8)> {
            let clusters = bundle.machine.clusters.iter();
            clusters
                .map(|one| (one.name.clone(), one.nodes.iter().map(|group| group.count).sum()))
                .collect()
        };
        let cluster = |bundle: &Bundle| {
            let compute = bundle.planes[0].spec.services.nova.compute.clone();
            let applied = bundle.objects[0]
                .pointer("/spec/services/nova/compute/clusterRef/name")
                .cloned();
            let read = compute
                .and_then(|compute| compute.cluster_ref)
                .map(|cluster| cluster.name);
            assert_eq!(applied, read.clone().map(Value::from));
            read
        };
        let whole = small();
        assert_eq!(
            nodes(&whole),
            [
                ("control-plane".to_owned(), 1),
                ("hypervisor".to_owned(), 2),
                ("storage".to_owned(), 1)
            ]
        );
        assert_eq!(cluster(&whole).as_deref(), Some("hypervisor"));
        let one = small().on(&["default".to_owned()]);
        assert_eq!((nodes(&one), cluster(&one)), (vec![], None));
        let other = small().on(&["cp".to_owned(), "hypervisor".to_owned()]);
        assert_eq!(
            (nodes(&other), cluster(&other).as_deref()),
            (vec![], Some("hypervisor"))
        );
    }

    #[test]
    fn storage_goes_to_its_cluster_where_there_is_one() {
        let storage = || {
            Bundle::parse(include_str!("../../../deploy/quickstart/storage.yaml"))
                .and_then(|bundle| bundle.shifted(1))
                .expect("parses")
        };
        let places = |bundle: &Bundle, kind: &str| -> Vec<Option<String>> {
            let of_kind = bundle.objects.iter().filter(|object| object["kind"] == kind);
            of_kind
                .map(|object| cluster_of(object).map(str::to_owned))
                .collect()
        };
        let there = Some("storage".to_owned());
        let whole = storage();
        assert_eq!(places(&whole, "CephCluster"), [Some("storage".to_owned())]);
        assert_eq!(places(&whole, "PushSecret"), vec![there.clone(); 4]);
        assert_eq!(places(&whole, "ExternalSecret"), [None, None, None]);
        assert_eq!(places(&whole, "ClusterSecretStore"), [there.clone(), None]);
        assert_eq!(cluster_of(&unplaced(&whole.objects[0])), None);
        let one = storage().on(&["default".to_owned()]);
        assert!(one.objects.iter().all(|object| cluster_of(object).is_none()));
        let named = storage().on(&["cp".to_owned(), "storage".to_owned()]);
        assert_eq!(places(&named, "CephCluster"), [there]);
    }

    #[test]
    fn bad_files_are_named() {
        for (text, expected) in [
            ("kind: X\nmetadata: {name: x}\n", "document 1 has no apiVersion"),
            ("apiVersion: v1\nkind: X\n", "document 1 has no metadata.name"),
            (
                "apiVersion: v1\nkind: X\nmetadata: {name: x, namespace: no}\n",
                "document 1: metadata.namespace false is not a name; put it in quotes",
            ),
            (
                "apiVersion: c5c3.io/v1alpha1\nkind: ControlPlane\nmetadata: {name: x}\nspec: {region: r}\n",
                "document 1, a ControlPlane: missing field `openStackRelease`",
            ),
        ] {
            assert_eq!(Bundle::parse(text).expect_err("refused"), expected);
        }
    }
}
