//! A real nats-server, and somebody who writes down what is published.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, ensure};
use end_to_end::process::free_port;
use serde_json::Value;

type Messages = Arc<Mutex<Vec<(String, Value)>>>;

pub(crate) struct Nats {
    server: Child,
    pub port: u16,
    messages: Messages,
}

impl Nats {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let port = free_port()?;
        let server = Command::new("nats-server")
            .args(["-a", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("nats-server: install Debian's package of that name")?;
        let mut nats = Nats {
            server,
            port,
            messages: Messages::default(),
        };
        nats.subscribe()?;
        Ok(nats)
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    fn subscribe(&mut self) -> anyhow::Result<()> {
        let stream = crate::world::until(10, "nats-server answers", || {
            Ok(TcpStream::connect(("127.0.0.1", self.port))?)
        })?;
        let mut sender = stream.try_clone()?;
        sender.write_all(b"CONNECT {\"verbose\":false}\r\nSUB > 1\r\nPING\r\n")?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        // The answer to the ping says that the subscription stands.
        while line.trim() != "PONG" {
            line.clear();
            ensure!(
                reader.read_line(&mut line)? > 0,
                "nats-server closed the connection"
            );
        }
        let messages = self.messages.clone();
        std::thread::spawn(move || {
            let mut line = String::new();
            loop {
                line.clear();
                if reader.read_line(&mut line).unwrap_or(0) == 0 {
                    return;
                }
                let words: Vec<&str> = line.split_whitespace().collect();
                match words.as_slice() {
                    ["PING"] => _ = sender.write_all(b"PONG\r\n"),
                    ["MSG", subject, .., length] => {
                        let mut payload = vec![0; length.parse::<usize>().unwrap_or(0) + 2];
                        if reader.read_exact(&mut payload).is_err() {
                            return;
                        }
                        let value = serde_json::from_slice(&payload).unwrap_or(Value::Null);
                        let mut messages = messages.lock().unwrap_or_else(PoisonError::into_inner);
                        messages.push(((*subject).to_owned(), value));
                    }
                    _ => {}
                }
            }
        });
        Ok(())
    }

    /// What was published so far on this subject.
    pub(crate) fn heard(&self, subject: &str) -> Vec<Value> {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let ours = messages.iter().filter(|(place, _)| place == subject);
        ours.map(|(_, value)| value.clone()).collect()
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
