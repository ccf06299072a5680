//! What is sent is read back alike, and nothing that is received makes a panic.

use libvirt_client::events::{BlockThreshold, DeviceAdded, IoError, JobCompleted, Lifecycle};
use libvirt_client::xdr::{Decode, Encode, List, Model, Opaque, Reader};
use libvirt_client::{
    Domain, DomainInfo, DomainStats, Domains, Event, JobStats, NodeInfo, Param, Refusal, Secrets, Uuid, Value,
};
use proptest::prelude::*;

fn bytes(value: &impl Encode) -> Vec<u8> {
    let mut out = Vec::new();
    value.put(&mut out);
    out
}

fn domain() -> impl Strategy<Value = Domain> {
    (".{0,12}", any::<[u8; 16]>(), any::<i32>()).prop_map(|(name, uuid, id)| Domain {
        name,
        uuid: Uuid(uuid),
        id,
    })
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i32>().prop_map(Value::Int),
        any::<u32>().prop_map(Value::UInt),
        any::<i64>().prop_map(Value::Long),
        any::<u64>().prop_map(Value::ULong),
        (-1e300..1e300).prop_map(Value::Double),
        any::<bool>().prop_map(Value::Bool),
        ".{0,20}".prop_map(Value::Text),
    ]
}

fn params() -> impl Strategy<Value = Vec<Param>> {
    prop::collection::vec(
        ("[a-z.0-9]{0,12}", value()).prop_map(|(field, value)| Param { field, value }),
        0..8,
    )
}

fn again<T: Encode + Decode>(value: &T) -> T {
    Reader::whole(&bytes(value)).expect("what was written is read")
}

proptest! {
    #[test]
    fn what_is_written_is_read_alike(one in domain(), params in params(), secret in prop::collection::vec(any::<u8>(), 0..40)) {
        prop_assert_eq!(&again(&one), &one);
        prop_assert_eq!(&again(&Some(one.clone())), &Some(one.clone()));
        let stats = DomainStats { domain: one.clone(), params: List(params.clone()) };
        prop_assert_eq!(again(&stats), stats);
        let opaque = Opaque::<64>(secret);
        prop_assert_eq!(again(&opaque), opaque);
        let list = Domains { domains: List(vec![one.clone(), one.clone()]), count: 2 };
        prop_assert_eq!(again(&list), list);
        for event in [
            Event::Lifecycle(Lifecycle { callback: 1, domain: one.clone(), event: 5, detail: 2 }),
            Event::IoError(IoError {
                callback: 2, domain: one.clone(), path: "/a".into(), device: "vda".into(), action: 1, reason: "enospc".into(),
            }),
            Event::JobCompleted(JobCompleted { callback: 3, domain: one.clone(), params: List(params) }),
            Event::BlockThreshold(BlockThreshold {
                callback: 4, domain: one.clone(), device: "vda".into(), path: None, threshold: 1, excess: u64::MAX,
            }),
            Event::DeviceAdded(DeviceAdded { callback: 5, domain: one, device: "virtio-disk1".into() }),
        ] {
            let (procedure, body) = event.message();
            prop_assert_eq!(Event::of(procedure, &body).expect("well formed"), Some(event));
        }
    }

    #[test]
    fn a_message_that_is_cut_is_refused(one in domain(), params in params(), cut in 1usize..40) {
        let whole = bytes(&DomainStats { domain: one, params: List(params) });
        let cut = cut.min(whole.len());
        prop_assert!(Reader::whole::<DomainStats>(&whole[..whole.len() - cut]).is_err());
        prop_assert!(Reader::whole::<DomainStats>(&[whole, vec![0; 4]].concat()).is_err());
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(noise in prop::collection::vec(any::<u8>(), 0..400), small in prop::collection::vec(0u8..8, 0..400)) {
        for bytes in [&noise, &small] {
            let _ = Reader::whole::<Domains>(bytes);
            let _ = Reader::whole::<List<DomainStats, 16384>>(bytes);
            let _ = Reader::whole::<JobStats>(bytes);
            let _ = Reader::whole::<NodeInfo>(bytes);
            let _ = Reader::whole::<DomainInfo>(bytes);
            let _ = Reader::whole::<Refusal>(bytes);
            let _ = Reader::whole::<Secrets>(bytes);
            for procedure in 300..400 {
                let _ = Event::of(procedure, bytes);
            }
        }
    }

    /// One word of a good message is replaced: lengths and kinds are hit far more often than by noise.
    #[test]
    fn no_word_of_a_good_message_makes_a_decoder_panic(one in domain(), params in params(), at in any::<prop::sample::Index>(), word in any::<u32>()) {
        let mut message = bytes(&DomainStats { domain: one, params: List(params) });
        let at = at.index(message.len() / 4) * 4;
        message[at..at + 4].copy_from_slice(&word.to_be_bytes());
        let _ = Reader::whole::<DomainStats>(&message);
    }

    #[test]
    fn uuids_are_read_and_written_alike(raw in any::<[u8; 16]>(), noise in ".{0,40}") {
        let text = Uuid(raw).to_string();
        prop_assert_eq!(text.parse::<Uuid>().expect("a UUID"), Uuid(raw));
        let _ = noise.parse::<Uuid>();
    }
}

#[test]
fn a_length_alone_takes_no_memory() {
    // Sixteen thousand domains are promised, and none comes.
    let promise = 16384u32.to_be_bytes();
    assert!(Reader::whole::<List<Domain, 16384>>(&promise).is_err());
    let more = 16385u32.to_be_bytes();
    let error = Reader::whole::<List<Domain, 16384>>(&more).expect_err("too many");
    assert!(error.to_string().contains("16385 of at most 16384"), "{error}");
}

#[test]
fn names_that_are_no_text_do_not_hide_the_domain() {
    let mut message = bytes(&Domain {
        name: "abcd".into(),
        uuid: Uuid([7; 16]),
        id: 3,
    });
    message[4] = 0xff;
    let read: Domain = Reader::whole(&message).expect("still a domain");
    assert_eq!(read.id, 3);
}

#[test]
fn every_character_of_a_model_takes_four_bytes() {
    let model = Model("x86_64".into());
    let written = bytes(&model);
    assert_eq!(written.len(), 32 * 4);
    assert_eq!(&written[..8], &[0, 0, 0, b'x', 0, 0, 0, b'8']);
    assert_eq!(again(&model), model);
    let long = Model("m".repeat(40));
    assert_eq!(again(&long).0.len(), 31);
}

#[test]
fn the_value_of_a_secret_is_never_printed() {
    let value = Opaque::<65536>(b"AQBzdWNo".to_vec());
    assert_eq!(format!("{value:?}"), "8 bytes");
}

#[path = "../../../fuzz/targets/libvirt.rs"]
mod fuzzed;

#[path = "../../../fuzz/seeds.rs"]
mod seeds;

/// The seeds of the fuzz target, as an ordinary test.
#[test]
fn messages_mean_the_same_however_they_arrive() {
    seeds::run("libvirt", fuzzed::libvirt);
}
