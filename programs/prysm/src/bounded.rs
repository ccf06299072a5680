//! Limits the number of series: tenants create users and buckets, and each would be a series of its
//! own.

use crate::exposition::{Page, Type};

pub(crate) struct Bound<'a, T> {
    pub shown: Vec<&'a T>,
    /// How many are left out.
    pub beyond: usize,
}

impl<'a, T> Bound<'a, T> {
    /// The `most` largest, in the order in which they came.
    pub(crate) fn largest<K: Ord>(all: &'a [T], most: usize, size: impl Fn(&T) -> K) -> Self {
        let beyond = all.len().saturating_sub(most);
        if beyond == 0 {
            return Bound {
                shown: all.iter().collect(),
                beyond,
            };
        }
        let mut order: Vec<(usize, &T)> = all.iter().enumerate().collect();
        order.sort_by_key(|(_, one)| std::cmp::Reverse(size(one)));
        order.truncate(most);
        order.sort_by_key(|(index, _)| *index);
        Bound {
            shown: order.into_iter().map(|(_, one)| one).collect(),
            beyond,
        }
    }
}

impl Bound<'_, ()> {
    pub(crate) fn render(page: &mut Page, beyond: &[(&str, usize)]) {
        let name = "prysm_series_dropped";
        page.family(
            name,
            Type::Gauge,
            "Users and buckets that are not shown because there are too many of them.",
        );
        for (kind, count) in beyond {
            page.sample(name, [("kind", *kind)], count);
        }
    }
}
