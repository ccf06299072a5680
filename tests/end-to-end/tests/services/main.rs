//! A Keystone of three is changed, rotated and given wrong input during a stream of token requests:
//! only what must restart restarts, and tokens are given all the time. Needs root.

mod changes;
mod keys;
mod mistakes;
mod world;

use std::time::Duration;

use anyhow::ensure;
use end_to_end::stream::Stream;

/// On a machine that does much else beside, in seconds.
const GAP: f64 = 20.0;

#[test]
fn a_running_service_is_changed_while_people_use_it() -> anyhow::Result<()> {
    let world = world::World::start(3)?;
    let stream = Stream::start(&world.cloud, world::NAMESPACE, "tokens", Duration::from_secs(900))?;
    changes::replicas_restart_nothing(&world)?;
    changes::options_and_policies_restart_the_pods(&world)?;
    changes::a_database_password_restarts_the_pods(&world)?;
    keys::tokens_outlive_a_rotation(&world, &stream)?;
    keys::stored_credentials_outlive_every_rotation(&world)?;
    mistakes::a_running_service_does_not_notice_them(&world)?;
    stream.more(10)?;
    let outcome = stream.stop()?;
    println!(
        "{} tokens, {} failed, longest gap {:.1} s",
        outcome.good,
        outcome.failed.len(),
        outcome.longest_gap
    );
    ensure!(outcome.longest_gap < GAP, "{outcome:?}");
    mistakes::new_services_say_what_is_wrong(&world)
}
