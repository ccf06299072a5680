//! Failures as Kubernetes tells them: a `Status` object with code, reason, message and causes.

use apimachinery::field::ErrorType;
use http::StatusCode;
use serde_json::{Map, Value, json};

/// Why a request failed, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Of an answer in plain text.
    None,
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    Expired,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    ServiceUnavailable,
    Timeout,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::None => "",
            Reason::BadRequest => "BadRequest",
            Reason::Unauthorized => "Unauthorized",
            Reason::Forbidden => "Forbidden",
            Reason::NotFound => "NotFound",
            Reason::MethodNotAllowed => "MethodNotAllowed",
            Reason::NotAcceptable => "NotAcceptable",
            Reason::AlreadyExists => "AlreadyExists",
            Reason::Conflict => "Conflict",
            Reason::Expired => "Expired",
            Reason::RequestEntityTooLarge => "RequestEntityTooLarge",
            Reason::UnsupportedMediaType => "UnsupportedMediaType",
            Reason::Invalid => "Invalid",
            Reason::TooManyRequests => "TooManyRequests",
            Reason::InternalError => "InternalError",
            Reason::ServiceUnavailable => "ServiceUnavailable",
            Reason::Timeout => "Timeout",
        }
    }
}

/// Why a part of a request was refused, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CauseReason {
    None,
    /// The value of a field.
    Field(ErrorType),
    FieldManagerConflict,
    NamespaceTerminating,
    ResourceVersionTooLarge,
    DisruptionBudget,
}

impl CauseReason {
    pub fn as_str(self) -> &'static str {
        match self {
            CauseReason::None => "",
            CauseReason::Field(kind) => kind.reason(),
            CauseReason::FieldManagerConflict => "FieldManagerConflict",
            CauseReason::NamespaceTerminating => "NamespaceTerminating",
            CauseReason::ResourceVersionTooLarge => "ResourceVersionTooLarge",
            CauseReason::DisruptionBudget => "DisruptionBudget",
        }
    }
}

impl From<ErrorType> for CauseReason {
    fn from(kind: ErrorType) -> Self {
        CauseReason::Field(kind)
    }
}

/// One field's part in a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub reason: CauseReason,
    pub message: String,
    pub field: String,
}

/// A refused or failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    pub code: u16,
    pub reason: Reason,
    pub message: String,
    pub details: Option<Box<Details>>,
    /// Where a list whose token has expired may go on.
    pub continue_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    pub name: String,
    pub group: String,
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    pub retry_after_seconds: u32,
}

pub type Result<T, E = ApiError> = std::result::Result<T, E>;

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

/// `deployments.apps`, `pods`: how messages name a resource or kind.
pub fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

impl ApiError {
    pub fn new(code: StatusCode, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            code: code.as_u16(),
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
        }
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        let details = self.details.get_or_insert_default();
        details.group = group.to_owned();
        details.kind = kind.to_owned();
        details.name = name.to_owned();
        self
    }

    pub fn with_causes(mut self, causes: Vec<Cause>) -> Self {
        self.details.get_or_insert_default().causes = causes;
        self
    }

    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Reason::BadRequest, message)
    }

    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, Reason::Unauthorized, "Unauthorized")
    }

    /// `what` is the sentence after the colon.
    pub fn forbidden(group: &str, resource: &str, name: &str, what: &str) -> Self {
        let subject = if name.is_empty() {
            format!("{} is forbidden", qualified(resource, group))
        } else {
            format!("{} {name:?} is forbidden", qualified(resource, group))
        };
        Self::new(
            StatusCode::FORBIDDEN,
            Reason::Forbidden,
            format!("{subject}: {what}"),
        )
        .about(group, resource, name)
    }

    /// No such object.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {name:?} not found", qualified(resource, group));
        Self::new(StatusCode::NOT_FOUND, Reason::NotFound, message).about(group, resource, name)
    }

    /// No such path or resource: told in plain text, without a `Status`.
    pub fn no_route() -> Self {
        Self::new(StatusCode::NOT_FOUND, Reason::None, "404 page not found")
    }

    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, Reason::MethodNotAllowed, message).with_causes(Vec::new())
    }

    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", qualified(resource, group));
        Self::new(StatusCode::CONFLICT, Reason::AlreadyExists, message).about(group, resource, name)
    }

    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {why}",
            qualified(resource, group)
        );
        Self::new(StatusCode::CONFLICT, Reason::Conflict, message).about(group, resource, name)
    }

    pub fn modified(group: &str, resource: &str, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(group, resource, name, why)
    }

    /// Causes are printed as `field: message`, several in brackets.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let mut lines: Vec<String> = causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        lines.dedup();
        let list = match lines.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} {name:?} is invalid: {list}", qualified(kind, group));
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, Reason::Invalid, message)
            .about(group, kind, name)
            .with_causes(causes)
    }

    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, Reason::Expired, message)
    }

    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            Reason::InternalError,
            format!("Internal error occurred: {message}"),
        )
        .with_causes(vec![Cause {
            reason: CauseReason::None,
            message: message.to_string(),
            field: String::new(),
        }])
    }

    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Reason::UnsupportedMediaType,
            message,
        )
    }

    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, Reason::NotAcceptable, message)
    }

    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity is too large: limit is {limit}");
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            Reason::RequestEntityTooLarge,
            message,
        )
    }

    pub fn too_many_requests(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, Reason::TooManyRequests, message).retry_after(1)
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            Reason::ServiceUnavailable,
            message,
        )
    }

    pub fn timeout(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, Reason::Timeout, message)
    }

    pub fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The `Status` object.
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "apiVersion": "v1",
            "code": self.code,
            "kind": "Status",
            "message": self.message,
            "metadata": {},
            "reason": self.reason.as_str(),
            "status": "Failure",
        });
        if let Some(token) = &self.continue_token {
            status["metadata"]["continue"] = token.as_str().into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.to_json();
        }
        status
    }
}

impl Details {
    fn to_json(&self) -> Value {
        let mut map = Map::new();
        for (key, text) in [
            ("name", &self.name),
            ("group", &self.group),
            ("kind", &self.kind),
            ("uid", &self.uid),
        ] {
            if !text.is_empty() {
                map.insert(key.into(), text.as_str().into());
            }
        }
        if !self.causes.is_empty() {
            map.insert("causes".into(), self.causes.iter().map(Cause::to_json).collect());
        }
        if self.retry_after_seconds > 0 {
            map.insert("retryAfterSeconds".into(), self.retry_after_seconds.into());
        }
        Value::Object(map)
    }
}

impl Cause {
    fn to_json(&self) -> Value {
        let mut map = Map::new();
        for (key, text) in [
            ("reason", self.reason.as_str()),
            ("message", &self.message),
            ("field", &self.field),
        ] {
            if !text.is_empty() {
                map.insert(key.into(), text.into());
            }
        }
        Value::Object(map)
    }
}
