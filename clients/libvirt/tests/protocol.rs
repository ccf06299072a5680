//! The tables of this crate beside what libvirt's own protocol file says.

use std::collections::BTreeMap;

use libvirt_client::events::MESSAGES;
use libvirt_client::{PROCEDURES, stats};

const RECORDED: &str = include_str!("recorded/protocol.txt");

/// Name to number, arguments and answer.
fn recorded() -> BTreeMap<&'static str, (i32, &'static str, &'static str)> {
    let lines = RECORDED.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let parts: Vec<&str> = line.split('|').collect();
            let [number, name, arguments, answer] = parts[..] else {
                panic!("{line}");
            };
            (name, (number.parse().expect("a number"), arguments, answer))
        })
        .collect()
}

#[test]
fn calls_have_the_numbers_and_shapes_of_libvirt() {
    let recorded = recorded();
    for call in PROCEDURES {
        let ours = ((call.arguments)(), (call.answer)());
        let (number, arguments, answer) = recorded[call.name];
        assert_eq!(call.number, number, "{}", call.name);
        assert_eq!(
            (ours.0.as_str(), ours.1.as_str()),
            (arguments, answer),
            "{}",
            call.name
        );
    }
}

#[test]
fn events_have_the_numbers_and_shapes_of_libvirt() {
    let recorded = recorded();
    for (name, number, shape) in MESSAGES {
        let (theirs, fields, _) = recorded[name];
        assert_eq!(*number, theirs, "{name}");
        assert_eq!(shape(), fields, "{name}");
    }
    assert_eq!(
        PROCEDURES.len() + MESSAGES.len(),
        recorded.len(),
        "nothing is recorded in vain"
    );
}

#[test]
fn bits_of_statistics_are_distinct() {
    let all = [
        stats::STATE,
        stats::CPU,
        stats::BALLOON,
        stats::VCPU,
        stats::INTERFACE,
        stats::BLOCK,
    ];
    assert_eq!(all.iter().fold(0, |sum, bit| sum ^ bit), 0x3f);
}
