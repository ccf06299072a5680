#![no_main]

#[allow(dead_code)]
#[path = "../targets/libvirt.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::libvirt(data));
