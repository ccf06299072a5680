//! A connection that can be cut.

/// Forwards connections while it is open; shut, it cuts those that are there.
pub(crate) struct Gate {
    pub address: std::net::SocketAddr,
    pub shut: tokio::sync::watch::Sender<bool>,
}

impl Gate {
    pub(crate) async fn open(to: &str) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let address = listener.local_addr().expect("an address");
        let (shut, watched) = tokio::sync::watch::channel(false);
        let to = to.to_owned();
        tokio::spawn(async move {
            while let Ok((mut inner, _)) = listener.accept().await {
                let (to, mut watched) = (to.clone(), watched.clone());
                if *watched.borrow() {
                    continue;
                }
                tokio::spawn(async move {
                    let Ok(mut outer) = tokio::net::TcpStream::connect(&to).await else {
                        return;
                    };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut inner, &mut outer) => {}
                        _ = watched.wait_for(|shut| *shut) => {}
                    }
                });
            }
        });
        Gate { address, shut }
    }
}
