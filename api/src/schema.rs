//! Schemas of the scalars that many kinds share, for `#[schemars(schema_with = …)]`.
//!
//! A plain Rust type (`String`, `Quantity`) with a strict schema keeps the types easy to use.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// What a Kubernetes quantity may look like.
pub(crate) const QUANTITY: &str = r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)(([KMGTPE]i)|[mkMGTPE]|[eE][+-]?[0-9]+)?$";
/// What a duration may look like: `90s`, `1h30m`.
pub(crate) const DURATION: &str = r"^([0-9]+(ms|s|m|h))+$";
/// Five cron fields or a named schedule.
pub(crate) const CRON: &str =
    r"^(@(hourly|daily|weekly|monthly|yearly)|[0-9A-Za-z*,/-]+( [0-9A-Za-z*,/?-]+){4})$";
/// An HTTP address.
pub(crate) const URL: &str = r"^https?://[^\s/?#]+([/?#]\S*)?$";
/// `host:port`, IPv6 in brackets.
pub(crate) const HOST_PORT: &str = r"^([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):[0-9]{1,5}$";
/// A DNS name or an address.
pub(crate) const HOST: &str = r"^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[?[0-9A-Fa-f:]+\]?)$";
const DNS_SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";
const DNS_LABEL: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const UUID: &str = r"^[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}$";

/// CEL rules: pairs of expression and message. The message names the field and the way out.
pub(crate) fn rules(rules: &[(&str, &str)]) -> Value {
    rules
        .iter()
        .map(|(rule, message)| json!({ "rule": rule, "message": message }))
        .collect()
}

fn pattern(pattern: &str, max: u32) -> Schema {
    json_schema!({ "type": "string", "pattern": pattern, "minLength": 1, "maxLength": max })
}

/// The name of a Kubernetes object.
pub(crate) fn name(_: &mut SchemaGenerator) -> Schema {
    pattern(DNS_SUBDOMAIN, 253)
}

/// A DNS label: the name of a namespace, a cell, a backend.
pub(crate) fn label(_: &mut SchemaGenerator) -> Schema {
    pattern(DNS_LABEL, 63)
}

/// A key of a Secret or ConfigMap.
pub(crate) fn data_key(_: &mut SchemaGenerator) -> Schema {
    pattern(r"^[-._a-zA-Z0-9]+$", 253)
}

/// `90s`, `1h30m`.
pub(crate) fn duration(_: &mut SchemaGenerator) -> Schema {
    pattern(DURATION, 32)
}

/// A cron schedule.
pub(crate) fn cron(_: &mut SchemaGenerator) -> Schema {
    pattern(CRON, 128)
}

/// An HTTP address.
pub(crate) fn url(_: &mut SchemaGenerator) -> Schema {
    pattern(URL, 1024)
}

/// A DNS name or an address.
pub(crate) fn host(_: &mut SchemaGenerator) -> Schema {
    pattern(HOST, 253)
}

/// A list of `host:port`.
pub(crate) fn host_ports(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 16,
        "x-kubernetes-list-type": "set",
        "items": {
            "type": "string", "pattern": HOST_PORT, "maxLength": 262,
            "x-kubernetes-validations": rules(&[(
                "int(self.substring(self.lastIndexOf(':') + 1)) >= 1 && int(self.substring(self.lastIndexOf(':') + 1)) <= 65535",
                "port: must be 1 to 65535; write host:port",
            )]),
        },
    })
}

/// An IPv4 or IPv6 address.
pub(crate) fn ip(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "pattern": r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)$",
        "minLength": 1, "maxLength": 45,
        "x-kubernetes-validations": rules(&[(
            "isIP(self)",
            "address: not an IPv4 or IPv6 address; write it like 10.0.0.1 or fd00::1",
        )]),
    })
}

/// A UUID as OpenStack writes it, with or without dashes.
pub(crate) fn uuid(_: &mut SchemaGenerator) -> Schema {
    pattern(UUID, 36)
}

/// A list of UUIDs without repeats.
pub(crate) fn uuids(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 256,
        "x-kubernetes-list-type": "set",
        "items": { "type": "string", "pattern": UUID, "maxLength": 36 },
    })
}

/// A regular expression.
pub(crate) fn regex(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": 1024 })
}

fn quantity_value() -> Value {
    json!({
        "pattern": QUANTITY,
        "maxLength": 32,
        "x-kubernetes-int-or-string": true,
    })
}

/// An amount such as `500m` or `10Gi`; a bare integer is accepted, as everywhere in Kubernetes.
pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    Schema::try_from(quantity_value()).unwrap_or_default()
}

/// A size that a rule compares: text only, so that CEL can parse it.
pub(crate) fn size(_: &mut SchemaGenerator) -> Schema {
    pattern(QUANTITY, 32)
}

/// Resource name → quantity.
pub(crate) fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "maxProperties": 16, "additionalProperties": quantity_value() })
}

/// Requests and limits of a container.
pub(crate) fn resources(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "requests": {
                "type": "object",
                "description": "Resources that are reserved.",
                "maxProperties": 16,
                "additionalProperties": quantity_value(),
            },
            "limits": {
                "type": "object",
                "description": "Resources that are never exceeded.",
                "maxProperties": 16,
                "additionalProperties": quantity_value(),
            },
        },
    })
}

/// Taints that do not keep a pod away.
pub(crate) fn tolerations(_: &mut SchemaGenerator) -> Schema {
    let text = |what: &str, most: u32| json!({ "type": "string", "description": what, "maxLength": most });
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "properties": {
                "key": text("Key of the taint; every one when left out.", 317),
                "operator": { "type": "string", "description": "How the value is compared.", "enum": ["Exists", "Equal"] },
                "value": text("Value of the taint.", 63),
                "effect": {
                    "type": "string", "description": "Effect of the taint; every one when left out.",
                    "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"],
                },
                "tolerationSeconds": {
                    "type": "integer", "format": "int64", "description": "Seconds for which a NoExecute taint is tolerated; forever when left out.",
                },
            },
        },
    })
}

/// Labels, or a node selector.
pub(crate) fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 32,
        "additionalProperties": { "type": "string", "maxLength": 63 },
    })
}

/// HTTP addresses by name.
pub(crate) fn urls(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": { "type": "string", "maxLength": 1024, "pattern": URL },
    })
}

/// Free text for people, one or more characters.
pub(crate) fn text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": 1024 })
}

/// A moment, RFC 3339.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// An object whose shape belongs to somebody else.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Any value, kept as it is.
pub(crate) fn any_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// `status.conditions`: one entry per type.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {
                    "type": "string",
                    "description": "Type of the condition.",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
                "status": {
                    "type": "string",
                    "description": "Whether the condition holds.",
                    "enum": ["True", "False", "Unknown"],
                },
                "reason": {
                    "type": "string",
                    "description": "Reason in one word, for programs.",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": {
                    "type": "string",
                    "description": "Explanation, for people.",
                    "maxLength": 32768,
                },
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When the status last changed.",
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                    "description": "The generation of the object that the condition describes.",
                },
            },
        },
    })
}
