//! Events of libvirt.

use crate::error::Error;
use crate::records::{Domain, MOST_JOB_STATISTICS, Param};
use crate::xdr::{Encode, List, Reader, record};

record! {
    /// The number of the registration is the first word of every event.
    Lifecycle { callback: i32, domain: Domain, event: i32, detail: i32, }
    Reboot { callback: i32, domain: Domain, }
    Watchdog { callback: i32, domain: Domain, action: i32, }
    IoError { callback: i32, domain: Domain, path: String, device: String, action: i32, reason: String, }
    JobCompleted { callback: i32, domain: Domain, params: List<Param, MOST_JOB_STATISTICS>, }
    BlockThreshold {
        callback: i32, domain: Domain, device: String, path: Option<String>, threshold: u64, excess: u64,
    }
    MigrationIteration { callback: i32, domain: Domain, iteration: i32, }
    DeviceRemoved { callback: i32, domain: Domain, device: String, }
    DeviceAdded { callback: i32, domain: Domain, device: String, }
}

/// What can be listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    Lifecycle,
    Reboot,
    Watchdog,
    IoError,
    JobCompleted,
    BlockThreshold,
    MigrationIteration,
    DeviceRemoved,
    DeviceAdded,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Lifecycle(Lifecycle),
    Reboot(Reboot),
    Watchdog(Watchdog),
    IoError(IoError),
    JobCompleted(JobCompleted),
    BlockThreshold(BlockThreshold),
    MigrationIteration(MigrationIteration),
    DeviceRemoved(DeviceRemoved),
    DeviceAdded(DeviceAdded),
}

/// Kind, number of the registration, name and number of the message, its shape.
macro_rules! events {
    ($($kind:ident = $id:literal, $procedure:literal $name:literal;)*) => {
        impl EventKind {
            pub const ALL: &[EventKind] = &[$(EventKind::$kind),*];

            /// Number in a registration.
            pub fn id(self) -> i32 {
                match self { $(EventKind::$kind => $id),* }
            }
        }

        impl Event {
            /// `None` for a message that is none of ours.
            pub fn of(procedure: i32, body: &[u8]) -> Result<Option<Self>, Error> {
                match procedure {
                    $($procedure => Reader::whole::<$kind>(body).map(|event| Some(Event::$kind(event))),)*
                    _ => Ok(None),
                }
            }

            pub fn domain(&self) -> &Domain {
                match self { $(Event::$kind(event) => &event.domain),* }
            }

            /// As the server sends it.
            pub fn message(&self) -> (i32, Vec<u8>) {
                let mut body = Vec::new();
                match self { $(Event::$kind(event) => { event.put(&mut body); ($procedure, body) })* }
            }
        }

        /// Name, number and shape of each message, for those who check the table.
        pub const MESSAGES: &[(&str, i32, fn() -> String)] =
            &[$(($name, $procedure, <$kind as Encode>::shape)),*];
    };
}

events! {
    Lifecycle = 0, 318 "domain_event_callback_lifecycle";
    Reboot = 1, 319 "domain_event_callback_reboot";
    Watchdog = 3, 321 "domain_event_callback_watchdog";
    IoError = 6, 324 "domain_event_callback_io_error_reason";
    DeviceRemoved = 15, 333 "domain_event_callback_device_removed";
    DeviceAdded = 19, 354 "domain_event_callback_device_added";
    MigrationIteration = 20, 359 "domain_event_callback_migration_iteration";
    JobCompleted = 21, 363 "domain_event_callback_job_completed";
    BlockThreshold = 24, 385 "domain_event_block_threshold";
}

/// Numbers of a [`Lifecycle`] event.
pub mod lifecycle {
    pub const DEFINED: i32 = 0;
    pub const UNDEFINED: i32 = 1;
    pub const STARTED: i32 = 2;
    pub const SUSPENDED: i32 = 3;
    pub const RESUMED: i32 = 4;
    pub const STOPPED: i32 = 5;
    pub const SHUTDOWN: i32 = 6;
    pub const PMSUSPENDED: i32 = 7;
    pub const CRASHED: i32 = 8;

    /// Detail of [`STARTED`] and of [`STOPPED`].
    pub const STARTED_MIGRATED: i32 = 1;
    pub const STOPPED_CRASHED: i32 = 2;
    pub const STOPPED_MIGRATED: i32 = 3;
    pub const STOPPED_FAILED: i32 = 5;
}
