//! Looks at the switch: whenever its database changes, and now and then at what tells nothing by itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use c5c3_api::ovs::OvsMetrics;
use ovsdb_client::{Operation, Session, State};
use tokio::sync::watch;

use crate::Settings;
use crate::control;
use crate::openflow;
use crate::view::{Controller, View, bridges, counters, see};

/// Counters always change; in the status they are renewed with anything else, and this often.
const COUNTERS: Duration = Duration::from_secs(300);
/// Changes that come together are one look.
const BURST: Duration = Duration::from_millis(50);

pub(crate) async fn follow(session: Session, settings: Settings, seen: watch::Sender<Arc<View>>) {
    let mut news = session.watch();
    let mut current = View::default();
    let mut counted: Option<Instant> = None;
    loop {
        let state = news.borrow_and_update().clone();
        let before = current.clone();
        current = look(&state, &settings, before.clone()).await;
        let changed = current != before;
        if state.remote.is_some() && (changed || counted.is_none_or(|at| at.elapsed() >= COUNTERS)) {
            if let Some(counts) = count(&session).await {
                current.status.metrics = Some(counts);
            }
            counted = Some(Instant::now());
        }
        seen.send_if_modified(|seen| {
            let news = **seen != current;
            if news {
                *seen = Arc::new(current.clone());
            }
            news
        });
        tokio::select! {
            changed = news.changed() => match changed {
                Ok(()) => tokio::time::sleep(BURST).await,
                Err(_) => return,
            },
            () = tokio::time::sleep(settings.interval) => {}
        }
    }
}

async fn look(state: &State, settings: &Settings, before: View) -> View {
    if state.remote.is_none() {
        // What was seen stays; that it is old is told.
        let trouble = state.trouble.clone().filter(|_| state.failures > 0);
        return View {
            trouble: trouble.or(before.trouble),
            ..before
        };
    }
    let mut flows = BTreeMap::new();
    for bridge in bridges(&state.tables) {
        match openflow::flows(&settings.switch.join(format!("{bridge}.mgmt"))).await {
            Ok(found) => {
                flows.insert(bridge, found);
            }
            Err(error) => tracing::debug!("flows of {bridge}: {error}"),
        }
    }
    let mut view = see(&state.tables, &flows, &controller(&settings.ovn).await);
    view.status.metrics = before.status.metrics;
    view
}

/// What ovn-controller says of its connection.
async fn controller(directory: &Path) -> Controller {
    let said = control::ask(directory, "ovn-controller", "connection-status", &[]).await?;
    Ok(said.trim().to_owned())
}

async fn count(session: &Session) -> Option<OvsMetrics> {
    let all = Operation::select("Interface").columns(&["statistics"]);
    let outcome = session.transact(vec![all]).await.ok()?;
    let rows = outcome.first()?.rows();
    Some(counters(rows.into_iter()))
}
