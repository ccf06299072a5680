#![no_main]

#[allow(dead_code)]
#[path = "../targets/apimachinery.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::strategic(data));
