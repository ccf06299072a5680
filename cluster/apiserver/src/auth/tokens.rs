//! ServiceAccount tokens: signed, short-lived, and bound to what they were made for.

use apimachinery::field::ErrorType;
use std::path::Path;

use jiff::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use rcgen::KeyPair;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::files::{self, KeyError};
use crate::{
    cluster::Cluster,
    discovery::hash,
    identity::Identity,
    status::{ApiError, Cause},
};

const SHORTEST: i64 = 600;
const DEFAULT: i64 = 3600;
const LONGEST: i64 = 1 << 32;
/// Clients renew well before this; clocks differ a little.
const LEEWAY: i64 = 5;

/// The keys that sign and check tokens. After a rotation the key before still checks.
pub struct TokenKeys {
    signing: EncodingKey,
    /// With their names, the signing one first.
    checking: Vec<(String, DecodingKey)>,
}

/// What a token is for.
#[derive(Clone, Debug, Default)]
pub struct TokenSpec {
    /// Empty: the API server.
    pub audiences: Vec<String>,
    pub seconds: i64,
    /// Kind, name and uid of the object whose life the token shares.
    pub bound: Option<(String, String, String)>,
    /// Name and uid of the node on which the pod that it is bound to runs.
    pub node: Option<(String, String)>,
}

/// A token that was checked.
#[derive(Debug)]
pub(super) struct Verified {
    pub identity: Identity,
    pub audiences: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: Vec<String>,
    exp: i64,
    nbf: i64,
    iat: i64,
    jti: String,
    #[serde(rename = "kubernetes.io")]
    kubernetes: Private,
}

#[derive(Debug, Serialize, Deserialize)]
struct Private {
    namespace: String,
    serviceaccount: Named,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pod: Option<Named>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<Named>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<Named>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Named {
    name: String,
    uid: String,
}

impl TokenKeys {
    pub fn open(directory: &Path) -> Result<Self, KeyError> {
        files::directory(directory)?;
        let path = directory.join("sa.key");
        let current = match files::read(&path)? {
            Some(pem) => KeyPair::from_pem(&pem).map_err(|error| KeyError::damaged(&path, error))?,
            None => {
                let key = KeyPair::generate()?;
                files::write(&path, &key.serialize_pem())?;
                key
            }
        };
        let signing = EncodingKey::from_ec_pem(current.serialize_pem().as_bytes())
            .map_err(|error| KeyError::damaged(&path, error))?;
        let mut checking = vec![checking_key(&path, &current)?];
        let path = directory.join("sa-previous.key");
        if let Some(pem) = files::read(&path)? {
            let key = KeyPair::from_pem(&pem).map_err(|error| KeyError::damaged(&path, error))?;
            checking.push(checking_key(&path, &key)?);
        }
        Ok(Self { signing, checking })
    }

    /// Signs with a new key from now on. Tokens of the old one stay valid until the next rotation.
    pub fn rotate(directory: &Path) -> Result<Self, KeyError> {
        if let Some(current) = files::read(&directory.join("sa.key"))? {
            files::write(&directory.join("sa-previous.key"), &current)?;
        }
        files::write(&directory.join("sa.key"), &KeyPair::generate()?.serialize_pem())?;
        Self::open(directory)
    }

    /// A token for a ServiceAccount, and when it expires.
    pub fn issue(
        &self,
        cluster: &str,
        account: &Value,
        spec: &TokenSpec,
    ) -> Result<(String, Timestamp), ApiError> {
        let now = Timestamp::now().as_second();
        let metadata = &account["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        let bound = |kind: &str| {
            let (_, name, uid) = spec.bound.clone().filter(|(of, ..)| of == kind)?;
            Some(Named { name, uid })
        };
        let audiences = if spec.audiences.is_empty() {
            vec![issuer(cluster)]
        } else {
            spec.audiences.clone()
        };
        let claims = Claims {
            iss: issuer(cluster),
            sub: format!("system:serviceaccount:{}:{}", text("namespace"), text("name")),
            aud: audiences,
            exp: now + spec.seconds,
            nbf: now,
            iat: now,
            jti: uuid::Uuid::new_v4().to_string(),
            kubernetes: Private {
                namespace: text("namespace"),
                serviceaccount: Named {
                    name: text("name"),
                    uid: text("uid"),
                },
                pod: bound("Pod"),
                secret: bound("Secret"),
                node: spec.node.clone().map(|(name, uid)| Named { name, uid }),
            },
        };
        let mut header = Header::new(Algorithm::ES256);
        header.kid = self.checking.first().map(|(name, _)| name.clone());
        let token = jsonwebtoken::encode(&header, &claims, &self.signing).map_err(ApiError::internal)?;
        let expires = Timestamp::from_second(claims.exp).map_err(ApiError::internal)?;
        Ok((token, expires))
    }

    /// Answers a TokenRequest for a ServiceAccount.
    pub(super) fn request(
        &self,
        cluster: &Cluster,
        account: &Value,
        mut request: Value,
    ) -> Result<Value, ApiError> {
        let spec = token_spec(cluster, account, &request["spec"])?;
        let (token, expires) = self.issue(&cluster.name, account, &spec)?;
        if spec.audiences.is_empty() {
            request["spec"]["audiences"] = json!([issuer(&cluster.name)]);
        }
        request["spec"]["expirationSeconds"] = json!(spec.seconds);
        request["metadata"]["name"] = account["metadata"]["name"].clone();
        request["metadata"]["namespace"] = account["metadata"]["namespace"].clone();
        request["metadata"]["creationTimestamp"] = json!(seconds(Timestamp::now()));
        request["status"] = json!({"token": token, "expirationTimestamp": seconds(expires)});
        Ok(request)
    }

    /// Checks a token of this cluster: its signature, its time, for whom it is, and that its account
    /// and what it is bound to are still there. No audiences means the API server.
    pub(super) fn verify(
        &self,
        cluster: &Cluster,
        token: &str,
        audiences: &[String],
    ) -> Result<Verified, String> {
        let claims = self.claims(&cluster.name, token)?;
        let api = [issuer(&cluster.name)];
        let wanted = if audiences.is_empty() { &api[..] } else { audiences };
        let matched: Vec<String> = wanted
            .iter()
            .filter(|a| claims.aud.contains(a))
            .cloned()
            .collect();
        if matched.is_empty() {
            return Err(format!("the token is for {:?}, not for {wanted:?}", claims.aud));
        }
        let private = &claims.kubernetes;
        let live = |resource: &str, named: &Named| {
            let stored = cluster.get("", resource, &private.namespace, &named.name);
            let object = stored
                .ok_or_else(|| format!("{resource} {:?} is gone", named.name))?
                .value();
            if object["metadata"]["uid"] != named.uid.as_str() {
                return Err(format!("{resource} {:?} is another one now", named.name));
            }
            Ok(())
        };
        live("serviceaccounts", &private.serviceaccount)?;
        if let Some(pod) = &private.pod {
            live("pods", pod)?;
        }
        if let Some(secret) = &private.secret {
            live("secrets", secret)?;
        }
        Ok(Verified {
            identity: identity(&claims),
            audiences: matched,
        })
    }

    fn claims(&self, cluster: &str, token: &str) -> Result<Claims, String> {
        let header = jsonwebtoken::decode_header(token).map_err(|error| error.to_string())?;
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_issuer(&[issuer(cluster)]);
        validation.validate_nbf = true;
        validation.validate_aud = false;
        validation.leeway = LEEWAY.unsigned_abs();
        let (_, key) = self
            .checking
            .iter()
            .find(|(name, _)| Some(name) == header.kid.as_ref())
            .ok_or("the token is signed with a key that is not known")?;
        let decoded = jsonwebtoken::decode::<Claims>(token, key, &validation);
        decoded
            .map(|token| token.claims)
            .map_err(|error| error.to_string())
    }
}

fn checking_key(path: &Path, key: &KeyPair) -> Result<(String, DecodingKey), KeyError> {
    let checking = DecodingKey::from_ec_pem(key.public_key_pem().as_bytes())
        .map_err(|error| KeyError::damaged(path, error))?;
    Ok((hash(key.public_key_raw()), checking))
}

/// Who signs the tokens of a cluster. The cluster is part of the name: a token of one is nothing in
/// another.
fn issuer(cluster: &str) -> String {
    format!("https://kubernetes.default.svc.cluster.local/clusters/{cluster}")
}

fn identity(claims: &Claims) -> Identity {
    let private = &claims.kubernetes;
    let of_namespace = format!("system:serviceaccounts:{}", private.namespace);
    let mut identity = Identity::new(&claims.sub, &["system:serviceaccounts", &of_namespace]);
    identity.uid = private.serviceaccount.uid.clone();
    let mut extra = |key: &str, value: String| {
        identity
            .extra
            .insert(format!("authentication.kubernetes.io/{key}"), vec![value]);
    };
    extra("credential-id", format!("JTI={}", claims.jti));
    if let Some(pod) = &private.pod {
        extra("pod-name", pod.name.clone());
        extra("pod-uid", pod.uid.clone());
    }
    if let Some(node) = &private.node {
        extra("node-name", node.name.clone());
        if !node.uid.is_empty() {
            extra("node-uid", node.uid.clone());
        }
    }
    identity
}

fn token_spec(cluster: &Cluster, account: &Value, spec: &Value) -> Result<TokenSpec, ApiError> {
    let refuse = |field: &str, message: String| {
        let name = account["metadata"]["name"].as_str().unwrap_or_default();
        let cause = Cause {
            reason: ErrorType::Invalid.into(),
            message,
            field: field.to_owned(),
        };
        ApiError::invalid("authentication.k8s.io", "TokenRequest", name, vec![cause])
    };
    let seconds = spec["expirationSeconds"].as_i64().unwrap_or(DEFAULT);
    if seconds < SHORTEST {
        let message = format!("Invalid value: {seconds}: may not specify a duration less than 10 minutes");
        return Err(refuse("spec.expirationSeconds", message));
    }
    if seconds > LONGEST {
        let message =
            format!("Invalid value: {seconds}: may not specify a duration larger than 2^32 seconds");
        return Err(refuse("spec.expirationSeconds", message));
    }
    let audiences = spec["audiences"].as_array().into_iter().flatten();
    let audiences = audiences.filter_map(|a| a.as_str().map(str::to_owned)).collect();
    let bound = bound_object(cluster, account, &spec["boundObjectRef"])?;
    let node = bound
        .as_ref()
        .filter(|(kind, ..)| kind == "Pod")
        .and_then(|(_, pod, _)| {
            let namespace = account["metadata"]["namespace"].as_str().unwrap_or_default();
            node_of(cluster, namespace, pod)
        });
    Ok(TokenSpec {
        audiences,
        seconds,
        bound,
        node,
    })
}

/// Name and uid of the node that a pod runs on; the uid is empty while there is no such Node.
fn node_of(cluster: &Cluster, namespace: &str, pod: &str) -> Option<(String, String)> {
    let pod = cluster.get("", "pods", namespace, pod)?.value();
    let name = pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())?;
    let node = cluster.get("", "nodes", "", name).map(|node| node.value());
    let uid = node.as_ref().and_then(|node| node["metadata"]["uid"].as_str());
    Some((name.to_owned(), uid.unwrap_or_default().to_owned()))
}

fn bound_object(
    cluster: &Cluster,
    account: &Value,
    reference: &Value,
) -> Result<Option<(String, String, String)>, ApiError> {
    if reference.is_null() {
        return Ok(None);
    }
    let kind = reference["kind"].as_str().unwrap_or_default();
    let name = reference["name"].as_str().unwrap_or_default();
    let resource = match kind {
        "Pod" => "pods",
        "Secret" => "secrets",
        _ => {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount to object type {kind:?}; use Pod or Secret"
            )));
        }
    };
    let namespace = account["metadata"]["namespace"].as_str().unwrap_or_default();
    let object = cluster
        .get("", resource, namespace, name)
        .ok_or_else(|| ApiError::not_found("", resource, name))?
        .value();
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    let asked = reference["uid"].as_str().unwrap_or_default();
    if !asked.is_empty() && asked != uid {
        return Err(ApiError::conflict(
            "",
            resource,
            name,
            &format!("the UID in the bound object reference ({asked}) does not match the UID in record"),
        ));
    }
    let runs_as = object["spec"]["serviceAccountName"].as_str().unwrap_or("default");
    if kind == "Pod" && runs_as != account["metadata"]["name"] {
        return Err(ApiError::bad_request(format!(
            "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
            account["metadata"]["name"].as_str().unwrap_or_default()
        )));
    }
    Ok(Some((kind.to_owned(), name.to_owned(), uid.to_owned())))
}

fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
