//! The calls, a line each: name and number of libvirt's protocol, arguments, answer.
//!
//! Names are those of the protocol in small letters, so that each stands in libvirt's documentation.

use crate::connection::Connection;
use crate::error::Error;
use crate::records::{
    Domain, DomainInfo, DomainState, DomainStats, Domains, JobInfo, JobStats, LONGEST_COOKIE, LONGEST_SECRET,
    MOST_DOMAINS, MOST_KINDS_OF_AUTHENTICATION, MOST_MIGRATION_PARAMETERS, NodeInfo, Param, Secret, Secrets,
    Uuid,
};
use crate::xdr::{Encode, List, Opaque};

/// One call, for those who check the table.
#[derive(Clone, Copy, Debug)]
pub struct Procedure {
    pub name: &'static str,
    pub number: i32,
    pub arguments: fn() -> String,
    pub answer: fn() -> String,
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident = $number:literal ($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        impl Connection {
            $($(#[$doc])* pub async fn $name(&self, $($argument: $type),*) -> Result<$answer, Error> {
                #[allow(unused_mut)]
                let mut body = Vec::new();
                $(Encode::put(&$argument, &mut body);)*
                self.call($number, body).await
            })*
        }

        /// Every call that this crate makes.
        pub const PROCEDURES: &[Procedure] = &[$(Procedure {
            name: stringify!($name),
            number: $number,
            arguments: || {
                let arguments: Vec<String> = vec![$(<$type as Encode>::shape()),*];
                arguments.join(" ")
            },
            answer: <$answer as Encode>::shape,
        }),*];
    };
}

calls! {
    auth_list = 66 () -> List<i32, MOST_KINDS_OF_AUTHENTICATION>;
    connect_open = 1 (name: Option<&str>, flags: u32) -> ();
    connect_close = 2 () -> ();
    connect_supports_feature = 60 (feature: i32) -> i32;
    /// The driver: QEMU, Test.
    connect_get_type = 3 () -> String;
    /// That of the hypervisor: major × 1,000,000 + minor × 1,000 + release.
    connect_get_version = 4 () -> u64;
    /// That of libvirt, in the same notation.
    connect_get_lib_version = 157 () -> u64;
    connect_get_hostname = 59 () -> String;
    /// Host and guests as XML.
    connect_get_capabilities = 7 () -> String;
    /// What a guest of this kind may have, as XML.
    connect_get_domain_capabilities = 342 (
        emulator: Option<&str>, arch: Option<&str>, machine: Option<&str>, virt: Option<&str>, flags: u32
    ) -> String;
    node_get_info = 6 () -> NodeInfo;

    /// `results` is how the answer's list is asked for; 0 only counts.
    connect_list_all_domains = 273 (results: i32, flags: u32) -> Domains;
    domain_lookup_by_name = 23 (name: &str) -> Domain;
    domain_lookup_by_uuid = 24 (uuid: Uuid) -> Domain;
    domain_get_xml_desc = 14 (domain: &Domain, flags: u32) -> String;
    domain_get_state = 212 (domain: &Domain, flags: u32) -> DomainState;
    domain_get_info = 16 (domain: &Domain) -> DomainInfo;
    /// Of these domains, or of all when none is named.
    connect_get_all_domain_stats = 344 (
        domains: List<Domain, MOST_DOMAINS>, stats: u32, flags: u32
    ) -> List<DomainStats, MOST_DOMAINS>;

    domain_define_xml_flags = 350 (xml: &str, flags: u32) -> Domain;
    domain_undefine_flags = 231 (domain: &Domain, flags: u32) -> ();
    /// Starts a domain that is not stored.
    domain_create_xml = 10 (xml: &str, flags: u32) -> Domain;
    domain_create_with_flags = 196 (domain: &Domain, flags: u32) -> Domain;
    domain_shutdown_flags = 258 (domain: &Domain, flags: u32) -> ();
    domain_destroy_flags = 234 (domain: &Domain, flags: u32) -> ();
    domain_reboot = 27 (domain: &Domain, flags: u32) -> ();
    domain_reset = 245 (domain: &Domain, flags: u32) -> ();
    domain_suspend = 34 (domain: &Domain) -> ();
    domain_resume = 28 (domain: &Domain) -> ();
    domain_set_block_threshold = 386 (domain: &Domain, device: &str, threshold: u64, flags: u32) -> ();

    domain_get_job_info = 163 (domain: &Domain) -> JobInfo;
    domain_get_job_stats = 298 (domain: &Domain, flags: u32) -> JobStats;
    /// Ends a migration: the domain goes on where it is.
    domain_abort_job = 164 (domain: &Domain) -> ();
    /// From host to host, when `target` is the URI of the other libvirt and the flags say so. It
    /// answers when the domain has moved: see [`Connection::with_patience`].
    domain_migrate_perform3_params = 305 (
        domain: &Domain, target: Option<&str>, params: List<Param, MOST_MIGRATION_PARAMETERS>,
        cookie: Opaque<LONGEST_COOKIE>, flags: u32
    ) -> Opaque<LONGEST_COOKIE>;
    /// In milliseconds.
    domain_migrate_set_max_downtime = 166 (domain: &Domain, downtime: u64, flags: u32) -> ();
    /// In MiB/s.
    domain_migrate_set_max_speed = 207 (domain: &Domain, bandwidth: u64, flags: u32) -> ();
    domain_migrate_start_post_copy = 364 (domain: &Domain, flags: u32) -> ();

    connect_list_all_secrets = 287 (results: i32, flags: u32) -> Secrets;
    secret_lookup_by_uuid = 141 (uuid: Uuid) -> Secret;
    secret_define_xml = 142 (xml: &str, flags: u32) -> Secret;
    secret_set_value = 144 (secret: &Secret, value: Opaque<LONGEST_SECRET>, flags: u32) -> ();
    secret_undefine = 146 (secret: &Secret) -> ();

    connect_domain_event_callback_register_any = 316 (event: i32, domain: Option<&Domain>) -> i32;
    connect_domain_event_callback_deregister_any = 317 (callback: i32) -> ();
}

impl Connection {
    /// All domains, running or not.
    pub async fn domains(&self) -> Result<Vec<Domain>, Error> {
        Ok(self.connect_list_all_domains(1, 0).await?.domains.0)
    }

    /// Figures of all domains; which, say the bits of `stats` (see [`stats`](crate::stats)).
    pub async fn all_stats(&self, stats: u32) -> Result<Vec<DomainStats>, Error> {
        let all = List(Vec::new());
        Ok(self.connect_get_all_domain_stats(all, stats, 0).await?.0)
    }

    /// The value of a secret. It is in no log and no error.
    pub async fn set_secret(&self, secret: &Secret, value: &[u8]) -> Result<(), Error> {
        self.secret_set_value(secret, Opaque(value.to_vec()), 0).await
    }
}
