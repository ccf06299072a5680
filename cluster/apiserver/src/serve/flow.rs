//! The way of a request: limits, cluster, who, may they, what.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};

use super::{Body, Connections, Lanes, Metrics, Place, Query, ResourcePath, Route, Target, body, route};
use crate::{
    cluster::Cluster,
    identity::{Access, Attributes, Decision, Identity, refusal},
    resource,
    status::{ApiError, Reason, Result},
    store::Store,
    verb::Verb,
};

/// What a client may ask of the server.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a request body.
    pub body: usize,
    /// Time for a request body to arrive.
    pub body_time: Duration,
    /// Requests under way, watches aside.
    pub requests: usize,
    pub watches: usize,
    /// Logs, commands and forwarded ports of pods.
    pub streams: usize,
    /// Open connections; one address may have half of them.
    pub connections: usize,
    /// From the handshake of a connection to the beginning of HTTP.
    pub first_bytes: Duration,
    /// A connection in which nothing is asked or answered for so long is closed; clients open another.
    pub idle: Duration,
    /// Time for one request, watches and streams aside.
    pub timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 3 << 20,
            body_time: Duration::from_secs(30),
            requests: 1024,
            watches: 10_000,
            streams: 1024,
            connections: 8192,
            first_bytes: Duration::from_secs(10),
            idle: Duration::from_secs(180),
            timeout: Duration::from_secs(60),
        }
    }
}

/// What every request may use.
pub struct Core {
    pub store: Store,
    pub clusters: BTreeMap<Arc<str>, Arc<Cluster>>,
    /// Serves paths without a `/clusters/<name>` prefix.
    pub default_cluster: Arc<str>,
    pub limits: Limits,
    pub metrics: Arc<Metrics>,
    pub access: Arc<dyn Access>,
    pub lanes: Lanes,
    pub watches: Lanes,
    pub streams: Lanes,
    pub connections: Connections,
    /// Ends watches and streams when the server stops.
    pub stopping: tokio_util::sync::CancellationToken,
}

/// On a request: the cluster of paths without a prefix, where it is not the default one.
#[derive(Clone, Debug)]
pub struct Home(pub Arc<str>);

/// One request, understood and allowed.
pub struct Call {
    pub core: Arc<Core>,
    pub cluster: Arc<Cluster>,
    pub identity: Identity,
    pub attributes: Attributes,
    pub place: ResourcePath,
    pub query: Query,
    pub parts: Parts,
    pub warnings: Warnings,
    /// Of a watch or a stream, until it ends.
    pub lasting: Option<Place>,
}

/// What the client should know though its request is done.
#[derive(Debug, Default)]
pub struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    /// Told once, however often a write starts over.
    pub fn tell(&self, text: String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains(&text) {
            all.push(text);
        }
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Core {
    pub fn cluster(&self, name: &str) -> Option<&Arc<Cluster>> {
        self.clusters.get(name)
    }

    async fn answer(self: Arc<Self>, request: Request<Body>) -> Response<Body> {
        let started = Instant::now();
        let (parts, body) = request.into_parts();
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let Some(Route {
            cluster,
            target,
            attributes,
            place,
        }) = route(&parts.method, parts.uri.path(), &query)
        else {
            return body::status(&ApiError::no_route());
        };
        let home = parts.extensions.get::<Home>().map(|home| &home.0);
        let name = cluster.unwrap_or_else(|| home.unwrap_or(&self.default_cluster).to_string());
        let Some(cluster) = self.clusters.get(name.as_str()).cloned() else {
            let message = format!("no logical cluster {name:?}; the kubeconfig names those that there are");
            return body::status(&ApiError::new(StatusCode::NOT_FOUND, Reason::NotFound, message));
        };
        let head = parts.method == Method::HEAD;
        let core = self.clone();
        let wanted = attributes.clone();
        let answer = AssertUnwindSafe(async move {
            match core.allow(cluster, (attributes, place), query, parts) {
                Ok(call) => call.run(target, body).await,
                Err(error) => Err(error),
            }
        })
        .catch_unwind()
        .await;
        let mut response = match answer {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => body::status(&error),
            Err(_) => body::status(&ApiError::internal(
                "the request made the server fail; see its log",
            )),
        };
        self.metrics
            .request(&name, &wanted, response.status().as_u16(), started.elapsed());
        if head {
            *response.body_mut() = body::empty();
        }
        response.headers_mut().insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static("no-cache, private"),
        );
        response
    }

    /// Authentication and authorisation.
    fn allow(
        self: Arc<Self>,
        cluster: Arc<Cluster>,
        (attributes, place): (Attributes, ResourcePath),
        query: Query,
        parts: Parts,
    ) -> Result<Call> {
        let identity = match parts.extensions.get::<Identity>() {
            Some(identity) => self
                .access
                .impersonate(&cluster, identity.clone(), &parts.headers)?,
            None => {
                let identity = self.access.authenticate(&cluster, &parts)?;
                self.access.impersonate(&cluster, identity, &parts.headers)?
            }
        };
        let call = Call {
            core: self,
            cluster,
            identity,
            attributes,
            place,
            query,
            parts,
            warnings: Warnings::default(),
            lasting: None,
        };
        call.authorize(&call.attributes)?;
        Ok(call)
    }
}

impl Call {
    async fn run(mut self, target: Target, body: Body) -> Result<Response<Body>> {
        if target == Target::Path {
            return crate::paths::serve(&self);
        }
        let in_process = self.parts.extensions.get::<Identity>().is_some();
        let lasting = match self.attributes.verb {
            Verb::Watch => Some((&self.core.watches, "watches")),
            _ if self.is_stream() => Some((&self.core.streams, "streams of pods")),
            _ => None,
        };
        if let Some((lanes, what)) = lasting {
            let place = lanes.place(&self.identity, in_process).ok_or_else(|| {
                ApiError::too_many_requests(format!("too many {what} are open, please try again later"))
            })?;
            self.lasting = Some(place);
            return resource::serve(self, Bytes::new()).await;
        }
        let crowded = || ApiError::too_many_requests("too many requests in progress, please try again later");
        let entry = self
            .core
            .lanes
            .enter(&self.identity, in_process)
            .ok_or_else(crowded)?;
        // Who sends slowly waits in their own share, not in the place of one who could be served.
        let bytes = self.read(body).await?;
        let permit = self.core.lanes.serve(&entry).ok_or_else(crowded)?;
        let limit = self.timeout();
        let answer = tokio::time::timeout(limit, resource::serve(self, bytes)).await;
        drop((permit, entry));
        answer.unwrap_or_else(|_| {
            Err(ApiError::timeout(format!(
                "request did not complete within {} s",
                limit.as_secs()
            )))
        })
    }

    async fn read(&self, body: Body) -> Result<Bytes> {
        let writes = matches!(
            self.attributes.verb,
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection
        );
        if !writes {
            return Ok(Bytes::new());
        }
        let time = self.core.limits.body_time;
        let arrived = tokio::time::timeout(time, body::read_all(body, self.core.limits.body)).await;
        arrived.unwrap_or_else(|_| {
            Err(ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                Reason::Timeout,
                format!("the request body did not arrive within {} s", time.as_secs()),
            ))
        })
    }

    fn authorize(&self, attributes: &Attributes) -> Result<()> {
        match self
            .core
            .access
            .authorize(&self.cluster, &self.identity, attributes)
        {
            Decision::Allow => Ok(()),
            Decision::Deny(reason) => Err(refusal(&self.identity, attributes, &reason)),
        }
    }

    /// For requests that turn out to do what another verb is for, such as an apply that creates.
    pub fn authorize_also(&self, verb: Verb) -> Result<()> {
        self.authorize(&Attributes {
            verb,
            ..self.attributes.clone()
        })
    }

    fn is_stream(&self) -> bool {
        self.attributes.resource == "pods"
            && matches!(
                self.attributes.subresource.as_str(),
                "log" | "exec" | "attach" | "portforward"
            )
    }

    fn timeout(&self) -> Duration {
        let asked = self
            .query
            .get("timeout")
            .and_then(|text| text.strip_suffix('s')?.parse().ok());
        asked.map_or(self.core.limits.timeout, |seconds: u64| {
            Duration::from_secs(seconds.max(1)).min(self.core.limits.timeout)
        })
    }

    /// The first value of a request header.
    pub fn header(&self, name: header::HeaderName) -> &str {
        self.parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

pub(super) type Answer = BoxFuture<'static, Result<Response<Body>, Infallible>>;

/// The API as a tower service.
#[derive(Clone)]
pub struct ApiService(pub Arc<Core>);

impl ApiService {
    /// Answers one request; failures are answers too.
    pub fn answer(&self, request: Request<Body>) -> Answer {
        let core = self.0.clone();
        Box::pin(async move { Ok(core.answer(request).await) })
    }
}

impl tower::Service<Request<Body>> for ApiService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.answer(request)
    }
}
