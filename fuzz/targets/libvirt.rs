//! What libvirt's daemon sends.

use libvirt_client::wire::Framer;
use libvirt_client::xdr::Reader;
use libvirt_client::{
    DomainInfo, DomainStats, Domains, Event, JobInfo, JobStats, NodeInfo, Refusal, Secrets,
};

const LONGEST: usize = 64 << 10;

fn messages<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut framer = Framer::new(LONGEST);
    let mut told = Vec::new();
    for part in parts {
        framer.push(part);
        loop {
            match framer.frame() {
                Ok(Some(frame)) => told.push(format!("{frame:?}")),
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
pub(crate) fn libvirt(data: &[u8]) {
    let whole = messages([data]);
    let (first, second) = data.split_at(data.len() / 3);
    assert_eq!(messages([first, second]), whole);
    if data.len() < 512 {
        assert_eq!(messages(data.chunks(1)), whole);
    }
    let mut framer = Framer::new(LONGEST);
    framer.push(data);
    while let Ok(Some(frame)) = framer.frame() {
        let mut again = Framer::new(LONGEST);
        again.push(&frame.bytes().expect("as long as it came"));
        assert_eq!(again.frame().ok().flatten().as_ref(), Some(&frame));
        if let Ok(Some(event)) = Event::of(frame.header.procedure, &frame.body) {
            let (procedure, body) = event.message();
            assert_eq!(procedure, frame.header.procedure);
            let read = Event::of(procedure, &body).expect("an event");
            // Numbers that are none differ from themselves.
            assert_eq!(format!("{read:?}"), format!("{:?}", Some(event)));
        }
        let body = &frame.body;
        let _ = Reader::whole::<Domains>(body);
        let _ = Reader::whole::<DomainInfo>(body);
        let _ = Reader::whole::<DomainStats>(body);
        let _ = Reader::whole::<JobInfo>(body);
        let _ = Reader::whole::<JobStats>(body);
        let _ = Reader::whole::<NodeInfo>(body);
        let _ = Reader::whole::<Refusal>(body);
        let _ = Reader::whole::<Secrets>(body);
    }
}
