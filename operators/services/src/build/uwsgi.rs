//! How uwsgi serves an application.

use c5c3_api::common::{LogFormat, LogLevel, Logging};

use crate::shape::{Process, Runs};

/// In a variable of a process with `POD_IP`: that address as a part of a URL, in brackets where it needs them.
pub(crate) const HOST: &str = "@HOST@";

/// The application that stands before that of a service: its file beside the configuration, and the text.
pub(super) fn front(process: &Process) -> Option<(String, String)> {
    let Runs::Wsgi { module, .. } = &process.runs else {
        return None;
    };
    let text = include_str!("front.py").replace("@SERVES@", module);
    Some((format!("{}-front.py", process.name), text))
}

/// The file of a process, in `directory`; none for a program of its own.
pub(super) fn uwsgi(process: &Process, directory: &str, logging: Option<&Logging>) -> Option<String> {
    let Runs::Wsgi {
        port,
        processes,
        threads,
        extra,
        ..
    } = &process.runs
    else {
        return None;
    };
    // Its lines about requests are plain text and say that all is healthy.
    let quiet = logging.is_some_and(|logging| {
        logging.format == LogFormat::Json || matches!(logging.level, LogLevel::Warning | LogLevel::Error)
    });
    let mut lines = vec![
        "[uwsgi]".to_owned(),
        format!("wsgi-file = {directory}/{}-front.py", process.name),
        // Both families: Linux takes IPv4 on this address, too.
        format!("http-socket = [::]:{}", port.number),
        format!("processes = {processes}"),
        format!("threads = {threads}"),
        // Workers end what they are at before they go, within the pod's grace period.
        format!("worker-reload-mercy = {}", process.grace.saturating_sub(15)),
    ];
    let fixed = [
        ("master", "true"),
        ("enable-threads", "true"),
        ("thunder-lock", "true"),
        ("die-on-term", "true"),
        ("hook-master-start", "unix_signal:15 gracefully_kill_them_all"),
        ("need-app", "true"),
        ("buffer-size", "65535"),
        // A connection that is kept alive would hold its thread.
        ("add-header", "Connection: close"),
    ];
    let quiet = quiet.then_some(("disable-logging", "true"));
    lines.extend(
        fixed
            .iter()
            .chain(extra)
            .chain(&quiet)
            .map(|(name, value)| format!("{name} = {value}")),
    );
    Some(lines.join("\n") + "\n")
}
