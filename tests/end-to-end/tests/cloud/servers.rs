//! A whole cloud: a server on it that people reach.

use anyhow::ensure;

#[test]
fn a_server_is_made_once_and_people_log_in() -> anyhow::Result<()> {
    let cloud = crate::up("small")?;
    let said = cloud.c5c3_here("demo", &["--wait", "600"])?;
    ensure!(said.contains("server demo is being made"), "{said}");
    let again = cloud.c5c3_here("demo", &["--wait", "600"])?;
    ensure!(
        again.contains("server demo is there") && !again.contains(" made"),
        "{again}"
    );
    let name = cloud.c5c3_here("ssh", &["demo", "--", "hostname"])?;
    ensure!(name.trim() == "demo", "{name}");
    let (code, ..) = cloud.tried("ssh", &["demo", "--", "exit", "7"])?;
    ensure!(code == 7, "the command's exit code became {code}");
    let console = cloud.c5c3_here("console", &["demo"])?;
    ensure!(console.contains("c5c3-guest: ready"), "{console}");
    let (code, _, err) = cloud.tried("ssh", &["nobody"])?;
    ensure!(
        code == 3 && err.contains("there is no server nobody"),
        "{code}: {err}"
    );
    Ok(())
}
