//! What the switch would do with a packet: its own `ofproto/trace`. It sends nothing and learns nothing.

use std::path::Path;

use c5c3_api::ovs::{OvsTraceSpec, OvsTraceStatus};

use crate::control;

const BRIDGE: &str = "br-int";
/// As long as the kind takes.
const LONGEST: usize = 64 << 10;

pub(crate) async fn trace(switch: &Path, spec: &OvsTraceSpec) -> Result<OvsTraceStatus, String> {
    let said = control::ask(switch, "ovs-vswitchd", "ofproto/trace", &question(spec)?).await?;
    let (result, left_out) = within(&said, LONGEST);
    Ok(OvsTraceStatus {
        message: (left_out > 0).then(|| format!("{left_out} bytes in the middle are left out")),
        result: Some(result),
        ..OvsTraceStatus::default()
    })
}

fn question(spec: &OvsTraceSpec) -> Result<[&str; 2], String> {
    let bridge = spec.bridge.as_deref().unwrap_or(BRIDGE);
    for (field, text) in [("bridge", bridge), ("flow", &spec.flow)] {
        if let Some(why) = refused(text) {
            return Err(format!("{field}: {why}"));
        }
    }
    Ok([bridge, &spec.flow])
}

/// The API server checks it by the definition; one that is older than this agent might not.
fn refused(text: &str) -> Option<&'static str> {
    if text.is_empty() || text.starts_with('-') {
        return Some("must not be empty nor begin with a dash");
    }
    text.chars().any(char::is_control).then_some("must be one line")
}

/// The beginning and the end of a text, whole lines, and how many bytes are missing between them. What becomes of
/// the packet is said last.
fn within(text: &str, longest: usize) -> (String, usize) {
    if text.len() <= longest {
        return (text.to_owned(), 0);
    }
    // Room for the line between.
    let room = longest.saturating_sub(64);
    let head = &text[..text.floor_char_boundary(room / 2)];
    let head = &head[..head.rfind('\n').map_or(head.len(), |at| at + 1)];
    let tail = &text[text.ceil_char_boundary(text.len() - room / 2)..];
    let tail = tail.find('\n').map_or(tail, |at| &tail[at + 1..]);
    let missing = text.len() - head.len() - tail.len();
    (
        format!("{head}[… {missing} bytes are left out …]\n{tail}"),
        missing,
    )
}

#[cfg(test)]
mod tests {
    use super::super::Request;
    use super::*;

    #[test]
    fn every_field_of_a_trace_acts() {
        let digest = |spec: &serde_json::Value| {
            let spec: OvsTraceSpec = serde_json::from_value(spec.clone()).expect("a spec");
            let question = format!("{:?}", question(&spec));
            let object = c5c3_api::ovs::OvsTrace::new("t", spec);
            let (node, ttl) = (Request::node(&object), Request::ttl(&object));
            format!("{question} {node} {ttl:?}")
        };
        let spec = serde_json::json!({"nodeRef": {"name": "node-1"}, "flow": "icmp"});
        let ignored = c5c3_api::fields::ignored("OVSTrace", &[spec], digest);
        assert_eq!(ignored, Vec::<String>::new(), "accepted and ignored");
    }

    #[test]
    fn no_option_is_slipped_in() {
        for (text, fine) in [
            ("br-int", true),
            ("in_port=\"tap-1\",ct_state=+trk-new,ipv6_src=fd00::/8", true),
            ("", false),
            ("-generate", false),
            ("--ct-next=trk", false),
            ("icmp\ntcp", false),
        ] {
            assert_eq!(refused(text).is_none(), fine, "{text:?}");
        }
    }

    #[test]
    fn a_long_answer_keeps_both_ends() {
        let text: String = (0..10_000).map(|n| format!("{n}. Übergang\n")).collect();
        let (cut, missing) = within(&text, 4096);
        assert!(cut.len() <= 4096 && missing > 0, "{}", cut.len());
        assert!(cut.starts_with("0. ") && cut.ends_with("9999. Übergang\n"));
        let kept = cut.lines().filter(|line| text.contains(*line)).count();
        assert_eq!(
            kept,
            cut.lines().count() - 1,
            "whole lines, and the one between them"
        );
        assert_eq!(within("short", 4096), ("short".to_owned(), 0));
    }

    #[test]
    fn a_single_line_without_end_is_cut_too() {
        let (cut, missing) = within(&"ü".repeat(5_000), 1000);
        assert!(cut.len() <= 1000 && missing > 9_000);
        assert!(within("ööööööööö", 1).0.contains("18 bytes"));
    }
}
