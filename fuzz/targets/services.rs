//! Configuration that users bring.

use c5c3_services::config::Ini;

/// A value stays in its option: whatever it holds, no other group and no other option comes of it.
pub(super) fn ini(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let mut ini = Ini::default();
    ini.set("group", "option", text);
    let rendered = ini.render();
    let starts = |line: &&str| !line.starts_with(' ') && !line.is_empty();
    let lines: Vec<&str> = rendered.split(['\n', '\r']).filter(starts).collect();
    assert_eq!(lines.len(), 2, "{rendered:?}");
    assert_eq!(lines[0], "[group]");
    assert!(lines[1].starts_with("option = "));
}
