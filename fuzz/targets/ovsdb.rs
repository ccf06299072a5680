//! What a server of OVSDB sends.

use ovsdb_client::{Framer, Message, elements, pairs, uuid_of};

const LONGEST: usize = 64 << 10;

fn messages<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut framer = Framer::new(LONGEST);
    let mut told = Vec::new();
    for part in parts {
        framer.push(part);
        loop {
            match framer.message() {
                Ok(Some(message)) => told.push(message.to_string()),
                Ok(None) => break,
                Err(error) => {
                    told.push(error.to_string());
                    return told;
                }
            }
        }
    }
    told
}

/// Messages do not depend on how the bytes arrive; what is read means the same when it is written again.
pub(crate) fn ovsdb(data: &[u8]) {
    let whole = messages([data]);
    let (first, second) = data.split_at(data.len() / 3);
    assert_eq!(messages([first, second]), whole);
    if data.len() < 512 {
        assert_eq!(messages(data.chunks(1)), whole);
    }
    let mut framer = Framer::new(LONGEST);
    framer.push(data);
    while let Ok(Some(value)) = framer.message() {
        for datum in value.as_object().into_iter().flat_map(|fields| fields.values()) {
            let _ = elements(datum);
            let _ = pairs(datum);
            let _ = uuid_of(datum);
        }
        if let Ok(message) = Message::of(value) {
            let again = Message::of(message.to_value()).expect("a message");
            assert_eq!(again, message);
        }
    }
}
