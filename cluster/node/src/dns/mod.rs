//! DNS of the cluster: names of Services, of pods and of StatefulSet members, answered on
//! every node from the objects that are watched anyway.

pub mod answer;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hickory_server::Server;
use hickory_server::net::runtime::Time;
use hickory_server::proto::op::{Header, HeaderCounts, Metadata, OpCode, ResponseCode};
use hickory_server::proto::rr::rdata::{A, CNAME, PTR, SOA, SRV};
use hickory_server::proto::rr::{Name, RData, Record, RecordType};
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::zone_handler::MessageResponseBuilder;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::watch;

use crate::addresses::Addresses;
use crate::network::frontends::Snapshot;
use answer::{Question, Value};

const TTL: u32 = 5;

/// What is known of the cluster's names.
pub struct Zone {
    domain: String,
    addresses: Addresses,
    snapshot: watch::Receiver<Arc<Snapshot>>,
}

impl Zone {
    pub fn new(domain: &str, addresses: Addresses, snapshot: watch::Receiver<Arc<Snapshot>>) -> Self {
        Self {
            domain: domain.into(),
            addresses,
            snapshot,
        }
    }

    fn start_of_authority(&self) -> Option<Record> {
        let name = Name::from_ascii(format!("{}.", self.domain)).ok()?;
        let host = Name::from_ascii(format!("ns.dns.{}.", self.domain)).ok()?;
        let mail = Name::from_ascii(format!("hostmaster.{}.", self.domain)).ok()?;
        let data = RData::SOA(SOA::new(host, mail, 1, 7200, 1800, 86400, TTL));
        Some(Record::from_rdata(name, TTL, data))
    }
}

/// Answers until the task is dropped.
pub async fn serve(zone: Zone, udp: UdpSocket, tcp: TcpListener) {
    let mut server = Server::new(zone);
    server.register_socket(udp);
    server.register_listener(tcp, Duration::from_secs(10), 64);
    if let Err(e) = server.block_until_done().await {
        tracing::warn!("DNS: {e}");
    }
}

#[async_trait]
impl RequestHandler for Zone {
    async fn handle_request<R: ResponseHandler, T: Time>(
        &self,
        request: &Request,
        mut response: R,
    ) -> ResponseInfo {
        let mut metadata = Metadata::response_from_request(&request.metadata);
        metadata.authoritative = true;
        let failed = |mut metadata: Metadata| {
            metadata.response_code = ResponseCode::ServFail;
            ResponseInfo::from(Header {
                metadata,
                counts: HeaderCounts::default(),
            })
        };
        let (mut records, mut authority) = (Vec::new(), Vec::new());
        match request.request_info() {
            Ok(info) if request.metadata.op_code == OpCode::Query => {
                let name = Name::from(info.query.name().clone());
                let question = match info.query.query_type() {
                    RecordType::A => Question::Address,
                    RecordType::SRV => Question::Service,
                    RecordType::PTR => Question::Pointer,
                    RecordType::CNAME => Question::Alias,
                    RecordType::ANY => Question::Any,
                    _ => Question::Other,
                };
                let snapshot = self.snapshot.borrow().clone();
                let text = name.to_ascii();
                match answer::records(&snapshot, &self.addresses, &self.domain, &text, question) {
                    Some(found) => {
                        records = found.iter().filter_map(|(of, v)| record(of, v)).collect();
                    }
                    // Of other domains too no other server can be asked: nothing leaves the machine.
                    None => metadata.response_code = ResponseCode::NXDomain,
                }
                if records.is_empty() {
                    authority.extend(self.start_of_authority());
                }
            }
            Ok(_) => metadata.response_code = ResponseCode::NotImp,
            Err(_) => metadata.response_code = ResponseCode::FormErr,
        }
        let builder = MessageResponseBuilder::from_message_request(request);
        let message = builder.build(metadata, &records, [], &authority, []);
        match response.send_response(message).await {
            Ok(info) => info,
            Err(e) => {
                tracing::debug!("DNS answer: {e}");
                failed(metadata)
            }
        }
    }
}

fn record(name: &str, value: &Value) -> Option<Record> {
    let target = |text: &str| Name::from_ascii(text).ok();
    let data = match value {
        Value::Address(ip) => RData::A(A(*ip)),
        Value::Alias(to) => RData::CNAME(CNAME(target(to)?)),
        Value::Pointer(to) => RData::PTR(PTR(target(to)?)),
        Value::Service { port, target: to } => RData::SRV(SRV::new(0, 100, *port, target(to)?)),
    };
    Some(Record::from_rdata(target(name)?, TTL, data))
}
