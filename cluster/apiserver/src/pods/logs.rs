//! `kubectl logs`.

use std::sync::Arc;

use futures::StreamExt;
use http::{HeaderValue, Response, header};

use super::{LogOptions, PodRef, Provider, container};
use crate::{
    serve::{self, Body, Call},
    status::{ApiError, Result},
};

fn options(call: &Call, pod: &PodRef) -> Result<LogOptions> {
    let query = &call.query;
    let since_time = match query.get("sinceTime") {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| {
            ApiError::bad_request(format!(
                "sinceTime: {text:?} is not a time such as 2006-01-02T15:04:05Z"
            ))
        })?),
    };
    let since_seconds = query.number("sinceSeconds")?;
    if since_time.is_some() && since_seconds.is_some() {
        return Err(ApiError::bad_request(
            "only one of sinceTime and sinceSeconds may be given",
        ));
    }
    Ok(LogOptions {
        container: container(call, pod)?,
        follow: query.flag("follow"),
        previous: query.flag("previous"),
        timestamps: query.flag("timestamps"),
        since_seconds,
        since_time,
        tail_lines: query.number("tailLines")?,
        limit_bytes: query.number("limitBytes")?,
    })
}

pub(super) async fn serve(call: Call, provider: Arc<dyn Provider>, pod: &PodRef) -> Result<Response<Body>> {
    let options = options(&call, pod)?;
    let lines = provider.logs(pod, &options).await?;
    let stopping = call.core.stopping.clone();
    let place = call.lasting;
    let lines = lines
        .take_while(|chunk| {
            if let Err(error) = chunk {
                tracing::debug!(%error, "log stream ended");
            }
            std::future::ready(chunk.is_ok())
        })
        .filter_map(move |chunk| {
            // Taken as long as somebody may read.
            let _taken = &place;
            std::future::ready(chunk.ok())
        })
        .take_until(stopping.cancelled_owned());
    let mut response = Response::new(serve::stream(lines));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}
