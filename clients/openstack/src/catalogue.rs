use std::fmt;

use serde::Deserialize;

/// Which of a service's endpoints is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interface {
    #[default]
    #[serde(alias = "publicURL")]
    Public,
    #[serde(alias = "internalURL")]
    Internal,
    #[serde(alias = "adminURL")]
    Admin,
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Admin => "admin",
        })
    }
}

/// What a token says about where services are.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Catalogue(Vec<Entry>);

#[derive(Clone, Debug, Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    type_: String,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Clone, Debug, Deserialize)]
struct Endpoint {
    interface: String,
    url: String,
    region_id: Option<String>,
    region: Option<String>,
}

impl Catalogue {
    /// The address of a service, without a slash at its end. Without a region the first one serves.
    pub fn endpoint(&self, service: &str, interface: Interface, region: Option<&str>) -> Option<&str> {
        let wanted = interface.to_string();
        self.0
            .iter()
            .filter(|entry| entry.type_ == service)
            .flat_map(|entry| &entry.endpoints)
            .filter(|endpoint| endpoint.interface == wanted)
            .find(|endpoint| {
                let own = endpoint.region_id.as_deref().or(endpoint.region.as_deref());
                region.is_none() || own == region
            })
            .map(|endpoint| endpoint.url.trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_by_type_interface_and_region() {
        let catalogue: Catalogue = serde_json::from_value(serde_json::json!([
            {"type": "image", "name": "glance", "endpoints": [
                {"interface": "public", "url": "http://a/", "region_id": "One", "id": "1"},
                {"interface": "internal", "url": "http://b", "region": "One", "id": "2"},
                {"interface": "public", "url": "http://c/", "region_id": "Two", "id": "3"},
            ]},
            {"type": "empty"},
        ]))
        .expect("a catalogue");
        let at = |service, interface, region| catalogue.endpoint(service, interface, region);
        assert_eq!(at("image", Interface::Public, None), Some("http://a"));
        assert_eq!(at("image", Interface::Public, Some("Two")), Some("http://c"));
        assert_eq!(at("image", Interface::Internal, Some("One")), Some("http://b"));
        assert_eq!(at("image", Interface::Admin, None), None);
        assert_eq!(at("empty", Interface::Public, None), None);
        assert_eq!(at("compute", Interface::Public, None), None);
    }
}
