//! A Keystone of three is changed, rotated and given wrong input during a stream of token requests:
//! only what must restart restarts, and no request fails. Needs root.

mod changes;
mod keys;
mod mistakes;
mod world;

use std::time::Duration;

use anyhow::ensure;
use end_to_end::stream::Stream;

#[test]
fn a_running_service_is_changed_while_people_use_it() -> anyhow::Result<()> {
    let world = world::World::start(3)?;
    let stream = Stream::start(
        &world.cloud,
        world::NAMESPACE,
        "tokens",
        Duration::from_secs(900),
        &[],
    )?;
    phase("replicas");
    changes::replicas_restart_nothing(&world)?;
    phase("options and policies");
    changes::options_and_policies_restart_the_pods(&world)?;
    phase("database password");
    changes::a_database_password_restarts_the_pods(&world)?;
    phase("token keys");
    keys::tokens_outlive_a_rotation(&world, &stream)?;
    phase("credential keys");
    keys::stored_credentials_outlive_every_rotation(&world)?;
    phase("mistakes");
    mistakes::a_running_service_does_not_notice_them(&world)?;
    stream.more(10)?;
    let outcome = stream.stop()?;
    println!(
        "{} tokens, {} failed, longest gap {:.1} s",
        outcome.good,
        outcome.failed.len(),
        outcome.longest_gap
    );
    ensure!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    mistakes::new_services_say_what_is_wrong(&world)
}

/// When a phase begins, on the clock of the stream.
fn phase(name: &str) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    println!("{:.2} {name}", now.unwrap_or_default().as_secs_f64());
}
