//! The corpora in `tests/data`: what Kubernetes' own libraries answered, case by case.

mod corpora {
    pub(crate) mod cases;

    mod crd;
    mod names;
    mod patch;
    mod protobuf;
    mod quantity;
    mod selectors;
    mod ssa;
}
