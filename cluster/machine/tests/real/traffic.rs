//! What a client saw while a node died.

/// Requests failed for a moment only, and none was answered by the lost pod afterwards. Each
/// line of the log is a time and what was answered.
pub(super) fn judge(log: &str, pulled: jiff::Timestamp, lost: &str) {
    let lines: Vec<(jiff::Timestamp, &str)> = log
        .lines()
        .filter_map(|l| l.split_once(' '))
        .filter_map(|(at, said)| Some((at.parse().ok()?, said)))
        .collect();
    // How fast it was just before: the machine may be busy.
    let since = |at: &jiff::Timestamp| at.duration_since(pulled).as_secs_f64();
    let calm = lines
        .iter()
        .map(|(at, _)| since(at))
        .filter(|s| (-5.0..0.0).contains(s));
    let calm: Vec<f64> = calm.collect();
    let slowest = calm.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
    let lines: Vec<_> = lines.iter().filter(|(at, _)| *at >= pulled).collect();
    let failed: Vec<_> = lines.iter().filter(|(_, said)| *said == "failed").collect();
    let last = failed.last().map_or(0.0, |(at, _)| since(at));
    eprintln!(
        "{} requests after the plug was pulled, {} failed, the last one {last:.1} s after it; \
         {} in the five seconds before, {slowest:.2} s apart at most",
        lines.len(),
        failed.len(),
        calm.len()
    );
    let length = lines.last().map_or(0.0, |(at, _)| since(at));
    #[allow(clippy::cast_precision_loss)]
    let (rate, before) = (lines.len() as f64 / length, calm.len() as f64 / 5.0);
    assert!(rate > before / 10.0, "{rate} {before}");
    // A request that hung in the dead node gives up after a second. Later a busy machine may
    // fail one, and another is answered.
    let late = |at: &jiff::Timestamp| since(at) > 15.0 + 4.0 * slowest;
    let (late, late_failed) = (
        lines.iter().filter(|(at, _)| late(at)).count(),
        failed.iter().filter(|(at, _)| late(at)).count(),
    );
    assert!(late_failed * 4 <= late, "{late_failed} of {late}: {failed:?}");
    let end = lines.iter().rev().take(5);
    assert!(end.into_iter().any(|(_, said)| *said != "failed"), "{failed:?}");
    let answered = lines
        .iter()
        .filter(|(_, said)| *said == lost)
        .map(|(at, _)| since(at));
    let answered = answered.fold(0.0, f64::max);
    assert!(answered < 5.0 + slowest, "{answered}");
}
