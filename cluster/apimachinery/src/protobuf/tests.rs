use proptest::prelude::*;

use super::*;

#[test]
fn what_is_no_object_is_refused() {
    assert_eq!(decode(b"{}"), Err(ProtobufError::Magic));
    let unknown = decode(b"k8s\0\x0a\x0d\x0a\x02v1\x12\x07Unknown");
    assert!(matches!(unknown, Err(ProtobufError::Kind { .. })), "{unknown:?}");
    assert_eq!(decode(b"k8s\0\x0a\xff"), Err(ProtobufError::Truncated));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut body = b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12".to_vec();
        body.push(bytes.len().min(127) as u8);
        body.extend(&bytes);
        let _ = decode(&body);
        let _ = message("core.v1.Pod", &bytes, 0);
        let _ = message("apiextensions.v1.CustomResourceDefinition", &bytes, 0);
    }
}
