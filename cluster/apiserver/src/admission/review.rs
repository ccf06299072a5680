//! AdmissionReview: the question to a webhook and its answer. Pure.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::StatusCode;
use serde_json::{Value, json};

use super::{Operation, matching::Subject};
use crate::{
    identity::Identity,
    registry::api_version,
    status::{ApiError, Reason},
};

const API_VERSION: &str = "admission.k8s.io/v1";

/// The request without the objects, as conditions see it too.
pub(super) fn request(
    subject: &Subject<'_>,
    version: &str,
    namespace: &str,
    name: &str,
    identity: &Identity,
    dry_run: bool,
) -> Value {
    let kind = subject.kind;
    let of_kind = |version: &str| match subject.subresource {
        "scale" => json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}),
        "binding" => json!({"group": "", "version": "v1", "kind": "Binding"}),
        _ => json!({"group": kind.group, "version": version, "kind": kind.kind}),
    };
    let of_resource =
        |version: &str| json!({"group": kind.group, "version": version, "resource": kind.plural});
    let options = match subject.operation {
        Operation::Create => "CreateOptions",
        Operation::Delete => "DeleteOptions",
        Operation::Update => "UpdateOptions",
    };
    let mut request = json!({
        "uid": uuid::Uuid::new_v4().to_string(),
        "kind": of_kind(version), "resource": of_resource(version),
        "requestKind": of_kind(&kind.version), "requestResource": of_resource(&kind.version),
        "name": name, "operation": subject.operation.as_str(), "dryRun": dry_run,
        "userInfo": {"username": identity.user, "groups": identity.groups},
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": options},
    });
    for (field, value) in [
        ("subResource", subject.subresource),
        ("requestSubResource", subject.subresource),
        ("namespace", namespace),
    ] {
        if !value.is_empty() {
            request[field] = value.into();
        }
    }
    if !identity.uid.is_empty() {
        request["userInfo"]["uid"] = identity.uid.as_str().into();
    }
    if !identity.extra.is_empty() {
        request["userInfo"]["extra"] = json!(identity.extra);
    }
    if dry_run {
        request["options"]["dryRun"] = json!(["All"]);
    }
    request
}

/// The whole question.
pub(super) fn question(mut request: Value, subject: &Subject<'_>, version: &str) -> Value {
    let shown = |object: Option<&Value>| {
        let mut object = object.cloned().unwrap_or_default();
        // A Scale and a Binding say themselves what they are.
        if !["scale", "binding"].contains(&subject.subresource)
            && let Some(map) = object.as_object_mut()
        {
            map.insert(
                "apiVersion".into(),
                api_version(&subject.kind.group, version).into(),
            );
            map.insert("kind".into(), subject.kind.kind.as_str().into());
        }
        object
    };
    request["object"] = shown(subject.object);
    request["oldObject"] = shown(subject.old);
    json!({"apiVersion": API_VERSION, "kind": "AdmissionReview", "request": request})
}

/// What a webhook said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub allowed: bool,
    /// A JSON patch.
    pub patch: Option<Vec<u8>>,
    pub warnings: Vec<String>,
    pub code: u16,
    pub message: String,
}

pub(super) fn answer(review: &Value, uid: &Value) -> Result<Answer, String> {
    let got = (&review["apiVersion"], &review["kind"]);
    if got != (&json!(API_VERSION), &json!("AdmissionReview")) {
        return Err(format!(
            "expected webhook response of {API_VERSION}, Kind=AdmissionReview, got {}, {}",
            got.0, got.1
        ));
    }
    let response = &review["response"];
    if response["uid"] != *uid {
        return Err(format!("expected response.uid={uid}, got {}", response["uid"]));
    }
    let patch = match (
        response["patch"].as_str().filter(|p| !p.is_empty()),
        response["patchType"].as_str(),
    ) {
        (None, _) => None,
        (Some(patch), Some("JSONPatch")) => Some(
            STANDARD
                .decode(patch)
                .map_err(|error| format!("response.patch: {error}"))?,
        ),
        (Some(_), other) => {
            return Err(format!(
                "webhook returned response.patch with the type {other:?}, which is not JSONPatch"
            ));
        }
    };
    let warnings = response["warnings"].as_array().into_iter().flatten();
    let status = &response["status"];
    let text = |field: &str| status[field].as_str().filter(|text| !text.is_empty());
    Ok(Answer {
        allowed: response["allowed"].as_bool().unwrap_or(false),
        patch,
        warnings: warnings.filter_map(|w| w.as_str().map(str::to_owned)).collect(),
        code: status["code"]
            .as_u64()
            .and_then(|code| u16::try_from(code).ok())
            .unwrap_or(0),
        message: text("message").or(text("reason")).unwrap_or_default().to_owned(),
    })
}

impl Answer {
    pub(super) fn refusal(&self, hook: &str) -> ApiError {
        let message = match self.message.as_str() {
            "" => format!("admission webhook {hook:?} denied the request without explanation"),
            why => format!("admission webhook {hook:?} denied the request: {why}"),
        };
        // Never a code that says that all went well.
        let code = StatusCode::from_u16(self.code)
            .ok()
            .filter(|code| code.as_u16() >= 400);
        let code = code.unwrap_or(StatusCode::BAD_REQUEST);
        let reason = match code {
            StatusCode::UNAUTHORIZED => Reason::Unauthorized,
            StatusCode::FORBIDDEN => Reason::Forbidden,
            StatusCode::NOT_FOUND => Reason::NotFound,
            StatusCode::CONFLICT => Reason::Conflict,
            StatusCode::UNPROCESSABLE_ENTITY => Reason::Invalid,
            StatusCode::TOO_MANY_REQUESTS => Reason::TooManyRequests,
            code if code.is_server_error() => Reason::InternalError,
            _ => Reason::BadRequest,
        };
        ApiError::new(code, reason, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(response: Value) -> Result<Answer, String> {
        let review = json!({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response});
        answer(&review, &json!("u"))
    }

    #[test]
    fn answers_are_read_or_refused() {
        let patch = STANDARD.encode("[]");
        let read = review(
            json!({"uid": "u", "allowed": true, "patch": patch, "patchType": "JSONPatch", "warnings": ["w"]}),
        );
        let read = read.expect("good");
        assert!(read.allowed && read.patch.as_deref() == Some(b"[]".as_slice()) && read.warnings == ["w"]);
        for wrong in [
            json!({"uid": "other", "allowed": true}),
            json!({"uid": "u", "allowed": true, "patch": patch}),
            json!({"uid": "u", "allowed": true, "patch": "!", "patchType": "JSONPatch"}),
            Value::Null,
        ] {
            assert!(review(wrong.clone()).is_err(), "{wrong}");
        }
        assert!(answer(&json!({"kind": "Pod"}), &json!("u")).is_err());
    }

    #[test]
    fn a_refusal_is_never_a_success() {
        let denied = review(json!({"uid": "u", "allowed": false, "status": {"code": 200, "message": "no"}}))
            .expect("good");
        let error = denied.refusal("a.b.c");
        assert_eq!(error.status_code(), StatusCode::BAD_REQUEST);
        let status = error.to_status();
        assert_eq!(
            status["message"],
            "admission webhook \"a.b.c\" denied the request: no"
        );
        let denied = review(json!({"uid": "u", "allowed": false, "status": {"code": 403}})).expect("good");
        assert_eq!(denied.refusal("a").status_code(), StatusCode::FORBIDDEN);
    }
}
