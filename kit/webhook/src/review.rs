//! AdmissionReviews: answers the API server with the changes to make. Nothing is ever refused: what our
//! webhooks add is not worth blocking anybody's object.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::server::{Answer, Call};

/// The answer to a review.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// A JSON patch; empty when all is as it should be.
    pub patch: Vec<Value>,
    pub warning: Option<String>,
}

/// A valid AdmissionReview request.
#[derive(Clone, Debug, PartialEq)]
pub struct Review {
    api_version: String,
    uid: String,
    pub request: Value,
}

impl Review {
    /// Reads an AdmissionReview, or says why it is none.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        let mut review: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let request = review.get_mut("request").map(Value::take).unwrap_or_default();
        let uid = request["uid"]
            .as_str()
            .ok_or("request.uid is missing")?
            .to_owned();
        let api_version = review["apiVersion"].as_str().unwrap_or("admission.k8s.io/v1");
        Ok(Review {
            api_version: api_version.to_owned(),
            uid,
            request,
        })
    }

    pub fn answer(&self, verdict: Verdict) -> Value {
        let mut response = json!({"uid": self.uid, "allowed": true});
        if !verdict.patch.is_empty() {
            let patch = Value::Array(verdict.patch).to_string();
            response["patchType"] = "JSONPatch".into();
            response["patch"] = STANDARD.encode(patch).into();
        }
        if let Some(warning) = verdict.warning {
            response["warnings"] = json!([warning]);
        }
        json!({"apiVersion": self.api_version, "kind": "AdmissionReview", "response": response})
    }
}

/// Serves POST /mutate and /healthz; `judge` has the request of the review.
pub async fn review<F>(call: Call, judge: impl FnOnce(Value) -> F) -> Answer
where
    F: Future<Output = Verdict>,
{
    match (&call.method, call.path.as_str()) {
        (&Method::POST, "/mutate") => match Review::read(&call.body) {
            Ok(mut review) => {
                let verdict = judge(review.request.take()).await;
                Answer {
                    status: StatusCode::OK,
                    kind: "application/json",
                    body: review.answer(verdict).to_string(),
                }
            }
            Err(why) => {
                let text = format!("this is not an AdmissionReview: {why}\n");
                Answer::text(StatusCode::BAD_REQUEST, text)
            }
        },
        (&Method::GET, "/healthz") => Answer::text(StatusCode::OK, "ok\n"),
        _ => Answer::text(StatusCode::NOT_FOUND, "see POST /mutate and /healthz\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: Method, path: &str, body: &Value) -> Call {
        Call {
            method,
            path: path.to_owned(),
            body: body.to_string().into(),
        }
    }

    #[tokio::test]
    async fn a_patch_and_a_warning_go_back_to_who_asked() {
        let question = json!({"apiVersion": "admission.k8s.io/v1", "request": {"uid": "u1", "name": "web"}});
        let judge = |request: Value| async move {
            Verdict {
                patch: vec![json!({"op": "add", "path": "/x", "value": request["name"]})],
                warning: Some("mind".to_owned()),
            }
        };
        let answer = review(call(Method::POST, "/mutate", &question), judge).await;
        assert_eq!(answer.status, StatusCode::OK);
        let said: Value = serde_json::from_str(&answer.body).expect("JSON");
        assert_eq!(said["response"]["uid"], "u1");
        assert_eq!(said["response"]["warnings"], json!(["mind"]));
        let patch = said["response"]["patch"].as_str().expect("a patch");
        let patch = STANDARD.decode(patch).expect("base64");
        assert_eq!(patch, br#"[{"op":"add","path":"/x","value":"web"}]"#);
    }

    async fn nothing(_: Value) -> Verdict {
        Verdict::default()
    }

    #[tokio::test]
    async fn what_is_no_question_is_told_apart() {
        for (method, path, body, status) in [
            (Method::POST, "/mutate", json!({}), StatusCode::BAD_REQUEST),
            (Method::POST, "/mutate", json!([1]), StatusCode::BAD_REQUEST),
            (Method::POST, "/other", json!({}), StatusCode::NOT_FOUND),
            (Method::GET, "/healthz", json!({}), StatusCode::OK),
        ] {
            let answer = review(call(method, path, &body), nothing).await;
            assert_eq!(answer.status, status, "{path} {body}");
        }
        assert!(Review::read(b"{]").is_err());
    }
}
