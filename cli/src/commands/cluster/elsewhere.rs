//! `c5c3 up --kubeconfig`: a cloud on a cluster that is there. The charts bring kinds and operators.

use std::time::Instant;

use super::bring::{Exposed, bring};
use crate::cloud::access::Target;
use crate::cloud::profile::Bundle;
use crate::doctor::findings::{Finding, KINDS, OPERATORS, Verdict, findings};
use crate::doctor::read::read;
use crate::failure::Failure;
use crate::output::{print, say_when};
use crate::roles;

pub async fn run(target: Target, bundle: &Bundle, wait: u64, start: Instant) -> Result<(), Failure> {
    let client = target.client().await?;
    let facts = read(&client, &target.namespace, roles::NAMESPACE, None).await?;
    let found = findings(&facts);
    for finding in found.iter().filter(|finding| finding.verdict == Verdict::Fault) {
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

/// Why nothing would happen: without our kinds nothing can be applied, without our operators nobody looks.
/// All else the cloud tells itself, as soon as it is there.
fn hopeless(found: &[Finding]) -> Option<String> {
    let lacks = |check: &str| {
        let mut all = found.iter();
        all.find(|finding| finding.check == check && finding.verdict != Verdict::Fine)
    };
    let finding =
        lacks(KINDS).or_else(|| lacks(OPERATORS).filter(|finding| !finding.found.contains("may not")))?;
    Some(format!(
        "{}: {}. {}",
        finding.check, finding.found, finding.way_out
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_kinds_or_operators_nothing_is_applied() {
        let finding = |check, verdict, found: &str| Finding {
            check,
            verdict,
            found: found.to_owned(),
            way_out: "helm install".to_owned(),
        };
        let fine = [
            finding(KINDS, Verdict::Fine, "all"),
            finding("storage", Verdict::Fault, "none"),
        ];
        assert_eq!(hopeless(&fine), None);
        let kinds = finding(KINDS, Verdict::Fault, "26 are missing");
        let operators = finding(OPERATORS, Verdict::Warning, "not there: c5c3-services");
        let both = [operators.clone(), kinds];
        assert!(hopeless(&both).is_some_and(|why| why.contains("26 are missing. helm install")));
        assert!(hopeless(&[operators]).is_some_and(|why| why.contains("c5c3-services")));
        let blind = [finding(
            OPERATORS,
            Verdict::Warning,
            "you may not list deployments",
        )];
        assert_eq!(hopeless(&blind), None);
    }
}
