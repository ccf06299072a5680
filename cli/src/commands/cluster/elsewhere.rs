//! `c5c3 up --kubeconfig`: a cloud on an existing cluster, whose CRDs and operators come from the Helm
//! charts.

use std::time::Instant;

use super::bring::{Exposed, bring};
use crate::cloud::access::Target;
use crate::cloud::profile::Bundle;
use crate::doctor::findings::{Finding, KINDS, OPERATORS, Verdict, findings};
use crate::doctor::read::read;
use crate::failure::Failure;
use crate::output::{print, say_when};
use crate::roles;

pub(crate) async fn run(target: Target, bundle: &Bundle, wait: u64, start: Instant) -> Result<(), Failure> {
    let client = target.client().await?;
    let facts = read(&client, &target.namespace, roles::NAMESPACE, None).await?;
    let found = findings(&facts);
    for finding in found.iter().filter(worth_saying) {
        say_when(
            start,
            &format!("{}: {}; {}", finding.check, finding.found, finding.way_out),
        );
    }
    if let Some(why) = hopeless(&found) {
        return Err(Failure::NotReady(why));
    }
    bring(target, bundle, Exposed::AsSaid, wait, start).await?;
    let took = start.elapsed().as_secs_f64();
    print(&format!(
        "\nThe cloud is ready after {took:.1} s. `c5c3 status` with the same --kubeconfig shows it.\n"
    ))
}

/// Faults, and who of our operators is not in a pod: they may run elsewhere.
fn worth_saying(finding: &&Finding) -> bool {
    finding.verdict == Verdict::Fault || (finding.check == OPERATORS && finding.verdict != Verdict::Fine)
}

/// Without our kinds nothing can be applied. All else the cloud tells itself, as soon as it is there.
fn hopeless(found: &[Finding]) -> Option<String> {
    let mut all = found.iter();
    let finding = all.find(|finding| finding.check == KINDS && finding.verdict != Verdict::Fine)?;
    Some(format!(
        "{}: {}. {}",
        finding.check, finding.found, finding.way_out
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_kinds_nothing_is_applied_and_the_rest_is_said() {
        let finding = |check, verdict, found: &str| Finding {
            check,
            verdict,
            found: found.to_owned(),
            way_out: "helm install".to_owned(),
        };
        let found = [
            finding(KINDS, Verdict::Fine, "all"),
            finding("storage", Verdict::Fault, "none"),
            finding("nodes", Verdict::Warning, "none of them a hypervisor"),
            finding(OPERATORS, Verdict::Warning, "not there: c5c3-services"),
        ];
        assert_eq!(hopeless(&found), None);
        let said: Vec<&str> = found
            .iter()
            .filter(worth_saying)
            .map(|finding| finding.check)
            .collect();
        assert_eq!(said, ["storage", OPERATORS]);
        let kinds = [finding(KINDS, Verdict::Fault, "26 are missing")];
        assert_eq!(
            hopeless(&kinds).as_deref(),
            Some("kinds: 26 are missing. helm install")
        );
    }
}
