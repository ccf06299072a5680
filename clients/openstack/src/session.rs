//! A login and the calls made with it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderName, Method, StatusCode, header};
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::catalogue::{Catalogue, Interface};
use crate::clouds::{Auth, Cloud, DomainName, Scope, UserName};
use crate::error::{Cause, Class, Error, Result};
use crate::identity::{Connect, Identified, Identity};
use crate::secret::Secret;
use crate::tls::Tls;
use crate::transport::{Call, Chunks, Limits, Reply, Transport};
use dial::{Dial, Tcp};

/// A token is renewed this long before it ends, so that none ends on the way.
const EARLY: SignedDuration = SignedDuration::from_secs(60);
/// A login that failed is not tried again sooner, however many calls ask for it.
const QUIET: Duration = Duration::from_secs(1);

static TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
static SUBJECT: HeaderName = HeaderName::from_static("x-subject-token");

struct Login {
    token: Secret,
    expires: Timestamp,
    who: Identified,
    catalogue: Catalogue,
    asked: Instant,
}

#[derive(Default)]
struct Memory {
    login: Option<Arc<Login>>,
    failed: Option<(Instant, Error)>,
}

/// Somebody's access to one cloud: logs in when needed, keeps the token until shortly before its
/// end, and once more when a token is refused. Shared by all who act as the same user.
pub struct Session {
    cloud: Cloud,
    transport: Transport,
    memory: Mutex<Memory>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("cloud", &self.cloud).finish()
    }
}

/// Where a call goes.
#[derive(Clone, Copy)]
pub(crate) enum Destination<'a> {
    /// Keystone is where the login is, whatever the catalogue says: that address was reachable.
    Identity,
    Service(&'a str),
    /// Through this endpoint, not the one that the session prefers.
    Endpoint(&'a str, Interface),
}

impl Session {
    pub fn new(cloud: Cloud) -> Result<Self> {
        Self::with(cloud, Arc::new(Tcp), Limits::default())
    }

    pub fn with(cloud: Cloud, dial: Arc<dyn Dial>, limits: Limits) -> Result<Self> {
        let tls = match (&cloud.ca, cloud.auth_url.starts_with("https://")) {
            (None, false) => None,
            (ca, _) => {
                Some(Tls::new(ca.as_deref()).map_err(|why| Error::new("prepare TLS", Cause::Invalid(why)))?)
            }
        };
        Ok(Self {
            cloud,
            transport: Transport::new(dial, tls, limits),
            memory: Mutex::default(),
        })
    }

    pub fn cloud(&self) -> &Cloud {
        &self.cloud
    }

    /// Who this session is; logs in when it has not yet.
    pub async fn identify(&self) -> Result<Identified> {
        Ok(self.login(None).await?.who.clone())
    }

    /// Does Keystone answer? Asks for what needs no token.
    pub async fn ping(&self) -> Result<()> {
        let doing = format!("reach {}", self.cloud.auth_url);
        let call = Call {
            doing: &doing,
            method: Method::GET,
            url: &self.cloud.auth_url,
            headers: &[],
            body: None,
        };
        let reply = self.transport.send(&call).await?;
        if reply.status.is_server_error() {
            return Err(Error::answer(&doing, reply.status, &reply.body));
        }
        Ok(())
    }

    /// The login to use. `refused`: a token that the service did not take any more.
    async fn login(&self, refused: Option<&Secret>) -> Result<Arc<Login>> {
        let mut memory = self.memory.lock().await;
        if let Some(login) = &memory.login {
            let fresh = login.expires.duration_since(Timestamp::now()) > EARLY;
            if fresh && refused != Some(&login.token) {
                return Ok(login.clone());
            }
        }
        if let Some((at, error)) = &memory.failed
            && at.elapsed() < QUIET
        {
            return Err(error.clone());
        }
        memory.login = None;
        match self.ask_for_token().await {
            Ok(login) => {
                let login = Arc::new(login);
                *memory = Memory {
                    login: Some(login.clone()),
                    failed: None,
                };
                Ok(login)
            }
            Err(error) => {
                memory.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    async fn ask_for_token(&self) -> Result<Login> {
        let doing = format!("log in to {}", self.cloud.auth_url);
        let url = format!("{}/auth/tokens", self.cloud.auth_url);
        let call = Call {
            doing: &doing,
            method: Method::POST,
            url: &url,
            headers: &[(header::CONTENT_TYPE, "application/json")],
            body: Some(Bytes::from(request(&self.cloud.auth).to_string())),
        };
        let reply = self.transport.send(&call).await?;
        if !reply.status.is_success() {
            return Err(Error::answer(&doing, reply.status, &reply.body));
        }
        let garbled = |why: &str| Error::new(&doing, Cause::Garbled(why.to_owned()));
        let token = reply.headers.get(&SUBJECT).and_then(|value| value.to_str().ok());
        let token = Secret::new(token.ok_or_else(|| garbled("no X-Subject-Token"))?);
        let body: Value = serde_json::from_slice(&reply.body).map_err(|_| garbled("no JSON"))?;
        let text = |path: &str| body.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let catalogue = body.pointer("/token/catalog").cloned().unwrap_or(json!([]));
        let expires = text("/token/expires_at").and_then(|text| text.parse::<Timestamp>().ok());
        Ok(Login {
            token,
            expires: expires.ok_or_else(|| garbled("no token.expires_at"))?,
            who: Identified {
                user: text("/token/user/id").ok_or_else(|| garbled("no token.user.id"))?,
                project: text("/token/project/id"),
            },
            catalogue: serde_json::from_value(catalogue).map_err(|_| garbled("no token.catalog"))?,
            asked: Instant::now(),
        })
    }

    fn address<'l>(&'l self, login: &'l Login, doing: &str, place: Destination<'_>) -> Result<&'l str> {
        let (service, interface) = match place {
            Destination::Identity => return Ok(&self.cloud.auth_url),
            Destination::Service(service) => (service, self.cloud.interface),
            Destination::Endpoint(service, interface) => (service, interface),
        };
        let region = self.cloud.region.as_deref();
        let found = login.catalogue.endpoint(service, interface, region);
        found.ok_or_else(|| {
            Error::new(
                doing,
                Cause::NoEndpoint {
                    service: service.to_owned(),
                    interface: interface.to_string(),
                    region: region.unwrap_or("any region").to_owned(),
                },
            )
        })
    }

    /// The login to use, and where the call goes. A catalogue that lacks the service is asked for again,
    /// unless it is new.
    async fn way(
        &self,
        refused: Option<&Secret>,
        asked: &Asked<'_>,
        place: Destination<'_>,
    ) -> Result<(Arc<Login>, String)> {
        let mut login = self.login(refused).await?;
        let lacks = self.address(&login, asked.doing, place).is_err();
        if lacks && login.asked.elapsed() >= self.transport.limits.catalogue {
            login = self.login(Some(&login.token)).await?;
        }
        let url = format!("{}{}", self.address(&login, asked.doing, place)?, asked.path);
        Ok((login, url))
    }

    /// One call, with a second try under a new token when the first is refused.
    pub(crate) async fn send(&self, place: Destination<'_>, asked: Asked<'_>) -> Result<Reply> {
        let mut refused = None;
        loop {
            let (login, url) = self.way(refused.as_ref(), &asked, place).await?;
            let mut headers = vec![(TOKEN.clone(), login.token.reveal())];
            headers.extend(asked.headers.iter().cloned());
            if asked.body.is_some() {
                headers.push((header::CONTENT_TYPE, "application/json"));
            }
            let call = Call {
                doing: asked.doing,
                method: asked.method.clone(),
                url: &url,
                headers: &headers,
                body: asked.body.map(|body| Bytes::from(body.to_string())),
            };
            let reply = self.transport.send(&call).await?;
            if reply.status == StatusCode::UNAUTHORIZED && refused.is_none() {
                refused = Some(login.token.clone());
                continue;
            }
            return if reply.status.is_success() {
                Ok(reply)
            } else {
                Err(Error::answer(asked.doing, reply.status, &reply.body))
            };
        }
    }

    pub(crate) async fn send_to(
        &self,
        service: &str,
        interface: Interface,
        asked: Asked<'_>,
    ) -> Result<Reply> {
        self.send(Destination::Endpoint(service, interface), asked).await
    }

    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        place: Destination<'_>,
        asked: Asked<'_>,
    ) -> Result<T> {
        let doing = asked.doing;
        let reply = self.send(place, asked).await?;
        serde_json::from_slice(&reply.body).map_err(|e| Error::new(doing, Cause::Garbled(e.to_string())))
    }

    /// Sends a stream; a refused token is an error, for a stream cannot be sent twice.
    pub(crate) async fn upload(
        &self,
        place: Destination<'_>,
        asked: Asked<'_>,
        content: Chunks,
    ) -> Result<()> {
        let (login, url) = self.way(None, &asked, place).await?;
        let mut headers = vec![(TOKEN.clone(), login.token.reveal())];
        headers.extend(asked.headers.iter().cloned());
        let call = Call {
            doing: asked.doing,
            method: asked.method,
            url: &url,
            headers: &headers,
            body: None,
        };
        let reply = self.transport.upload(&call, content).await?;
        if reply.status.is_success() {
            Ok(())
        } else {
            Err(Error::answer(asked.doing, reply.status, &reply.body))
        }
    }

    pub(crate) async fn download(&self, place: Destination<'_>, asked: Asked<'_>) -> Result<Chunks> {
        let mut refused = None;
        loop {
            let (login, url) = self.way(refused.as_ref(), &asked, place).await?;
            let headers = [(TOKEN.clone(), login.token.reveal())];
            let call = Call {
                doing: asked.doing,
                method: asked.method.clone(),
                url: &url,
                headers: &headers,
                body: None,
            };
            match self.transport.download(&call).await {
                Err(error) if error.class() == Class::Unauthorized && refused.is_none() => {
                    refused = Some(login.token.clone());
                }
                done => return done,
            }
        }
    }
}

/// A request to a service, relative to its address.
pub(crate) struct Asked<'a> {
    pub doing: &'a str,
    pub method: Method,
    pub path: &'a str,
    pub headers: &'a [(HeaderName, &'a str)],
    pub body: Option<&'a Value>,
}

impl<'a> Asked<'a> {
    pub(crate) fn new(doing: &'a str, method: Method, path: &'a str) -> Self {
        Self {
            doing,
            method,
            path,
            headers: &[],
            body: None,
        }
    }

    pub(crate) fn body(mut self, body: impl Into<Option<&'a Value>>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn headers(mut self, headers: &'a [(HeaderName, &'a str)]) -> Self {
        self.headers = headers;
        self
    }
}

fn domain(domain: &DomainName) -> Value {
    match domain {
        DomainName::Id(id) => json!({"id": id}),
        DomainName::Name(name) => json!({"name": name}),
    }
}

/// The body of a login.
fn request(auth: &Auth) -> Value {
    match auth {
        Auth::Password {
            user,
            password,
            scope,
        } => {
            let mut user = match user {
                UserName::Id(id) => json!({"id": id}),
                UserName::Name { name, domain: of } => json!({"name": name, "domain": domain(of)}),
            };
            user["password"] = json!(password.reveal());
            let scope = match scope {
                Scope::Unscoped => json!("unscoped"),
                Scope::ProjectId(id) => json!({"project": {"id": id}}),
                Scope::Project { name, domain: of } => {
                    json!({"project": {"name": name, "domain": domain(of)}})
                }
                Scope::Domain(of) => json!({"domain": domain(of)}),
                Scope::System => json!({"system": {"all": true}}),
            };
            json!({"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}})
        }
        Auth::ApplicationCredential { id, secret } => {
            json!({"auth": {"identity": {"methods": ["application_credential"],
                "application_credential": {"id": id, "secret": secret.reveal()}}}})
        }
    }
}

/// Opens sessions to real clouds.
#[derive(Clone, Debug)]
pub struct Connector {
    pub dial: Arc<dyn Dial>,
    pub limits: Limits,
}

impl Default for Connector {
    fn default() -> Self {
        Self {
            dial: Arc::new(Tcp),
            limits: Limits::default(),
        }
    }
}

impl Connect for Connector {
    fn connect(&self, cloud: Cloud) -> Result<Arc<dyn Identity>> {
        Ok(Arc::new(Session::with(cloud, self.dial.clone(), self.limits)?))
    }
}
