//! Whom the nodes of a cluster see. Open ports say nothing of it: nodes that formed apart have them too.

use std::collections::BTreeSet;

/// What one node says of the nodes that run with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub pod: String,
    /// Pods, its own too; `None` when it did not answer.
    pub sees: Option<BTreeSet<String>>,
}

impl View {
    /// From the answer of `erl_call`: `{ok, ['rabbit@pod.service.namespace', …]}`.
    pub(crate) fn parse(pod: &str, said: &str) -> Self {
        let list = said.trim().strip_prefix("{ok,");
        let sees = list.map(|list| {
            let hosts = list.split("rabbit@").skip(1);
            hosts
                .filter_map(|host| host.split(['.', '\'', ',']).next().map(str::to_owned))
                .collect()
        });
        Self {
            pod: pod.to_owned(),
            sees,
        }
    }

    fn whole(&self, all: &BTreeSet<String>) -> bool {
        self.sees.as_ref().is_some_and(|sees| sees.is_superset(all))
    }

    fn words(&self) -> String {
        let pod = &self.pod;
        let Some(sees) = &self.sees else {
            return format!("{pod} does not answer");
        };
        let others: Vec<&str> = sees
            .iter()
            .filter(|other| *other != pod)
            .map(String::as_str)
            .collect();
        if others.is_empty() {
            return format!("{pod} sees no other node");
        }
        format!("{pod} sees {}", others.join(", "))
    }
}

/// Which nodes see each other, if they are not one cluster, and the way out.
pub(crate) fn apart(views: &[View]) -> Option<String> {
    let all: BTreeSet<String> = views.iter().map(|view| view.pod.clone()).collect();
    if views.iter().all(|view| view.whole(&all)) {
        return None;
    }
    let words: Vec<String> = views.iter().map(View::words).collect();
    let mut text = format!("the nodes are not one cluster: {}", words.join("; "));
    let lone = |view: &&View| view.sees.as_ref().is_some_and(|sees| sees.len() <= 1);
    if let Some(view) = views.iter().rev().find(lone) {
        text.push_str(&format!(
            "; if it stays so, delete the claim persistence-{0} and the pod {0}: it joins without its data",
            view.pod
        ));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(pod: &str, others: &[&str]) -> View {
        let nodes: Vec<String> = others
            .iter()
            .map(|n| format!("'rabbit@{n}.mq-nodes.infra'"))
            .collect();
        View::parse(pod, &format!("{{ok, [{}]}}\n", nodes.join(",\n ")))
    }

    #[test]
    fn one_cluster_has_nothing_to_say() {
        let all = ["mq-server-0", "mq-server-1", "mq-server-2"];
        let views: Vec<View> = all.iter().map(|pod| view(pod, &all)).collect();
        assert_eq!(apart(&views), None);
        // A node that is going is seen a moment longer.
        assert_eq!(apart(&views[..2]), None);
        assert_eq!(apart(&[]), None);
    }

    #[test]
    fn nodes_that_formed_apart_are_named() {
        let pair = ["mq-server-0", "mq-server-1"];
        let views = [
            view(pair[0], &pair),
            view(pair[1], &pair),
            view("mq-server-2", &["mq-server-2"]),
        ];
        let text = apart(&views).unwrap_or_default();
        assert!(text.contains("mq-server-0 sees mq-server-1;"), "{text}");
        assert!(text.contains("mq-server-2 sees no other"), "{text}");
        assert!(text.contains("persistence-mq-server-2 "), "{text}");
    }

    #[test]
    fn no_answer_is_not_a_cluster() {
        for said in ["", "{error, {badrpc, nodedown}}", "failed to connect to node"] {
            let text = apart(&[View::parse("mq-server-0", said)]).unwrap_or_default();
            assert!(text.contains("mq-server-0 does not answer"), "{text}");
        }
    }
}
