//! Prints the domains of a libvirt, then what happens to them.
//!
//! `cargo run -p libvirt-client --example domains -- qemu:///system`

use libvirt_client::{EventKind, News, Session, Settings, Uri};

#[tokio::main]
async fn main() -> Result<(), libvirt_client::Error> {
    let uri = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "qemu:///system".to_owned());
    let uri: Uri = uri.parse()?;
    let (_session, mut news) = Session::start(uri, Settings::default(), EventKind::ALL.to_vec());
    while let Some(news) = news.recv().await {
        match news {
            News::Connected(connection) => {
                for domain in connection.domains().await? {
                    println!("{} {} {}", domain.uuid, domain.name, domain.is_active());
                }
            }
            News::Event(event) => println!("{event:?}"),
            News::Lost(why) => println!("lost: {why}"),
        }
    }
    Ok(())
}
