//! Jobs, and CronJobs that start them.

pub(crate) mod cronjob;
pub(crate) mod job;
pub(crate) mod tracking;
