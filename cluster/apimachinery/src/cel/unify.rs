//! Which types fit each other, and what that says of types that are not known yet.

use std::sync::Arc;

use super::check::Checker;
use super::types::Type;

impl Checker {
    pub(super) fn assignable(&mut self, a: &Type, b: &Type) -> bool {
        self.all_assignable(std::slice::from_ref(a), std::slice::from_ref(b))
    }

    /// What was learnt of unknown types stays only if all fit.
    pub(super) fn all_assignable(&mut self, from: &[Type], to: &[Type]) -> bool {
        let before = self.substitutions.clone();
        let fits = from.len() == to.len() && from.iter().zip(to).all(|(a, b)| self.fits(a, b));
        if !fits {
            self.substitutions = before;
        }
        fits
    }

    fn fits(&mut self, a: &Type, b: &Type) -> bool {
        if let Type::Var(var) = b {
            let (valid, known) = self.bind(a, *var);
            if valid {
                return true;
            }
            if known {
                return false;
            }
        }
        if let Type::Var(var) = a {
            return self.bind(b, *var).0;
        }
        if a.is_dyn_or_error() || b.is_dyn_or_error() {
            return true;
        }
        match (a, b) {
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null
                    | Type::Opaque(_)
                    | Type::Optional(_)
                    | Type::Struct(_)
                    | Type::Object(_)
                    | Type::Duration
                    | Type::Timestamp
            ),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.fits(a, b),
            (Type::Map(a, b), Type::Map(c, d)) => self.fits(a, c) && self.fits(b, d),
            (a, b) => a.same(b),
        }
    }

    /// Whether `var` may stand for `t`, and whether it stood for something already.
    fn bind(&mut self, t: &Type, var: usize) -> (bool, bool) {
        if matches!(t, Type::Var(other) if *other == var) {
            return (true, true);
        }
        if let Some(known) = self.substitutions.get(&var).cloned() {
            if t.same(&known) {
                return (true, true);
            }
            if self.fits(t, &known) {
                let general = most_general(t, &known);
                if !self.occurs(var, &general) {
                    self.substitutions.insert(var, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.occurs(var, t) {
            return (false, false);
        }
        self.substitutions.insert(var, t.clone());
        (true, false)
    }

    fn occurs(&self, var: usize, within: &Type) -> bool {
        match within {
            Type::Var(other) if *other == var => true,
            Type::Var(other) => self.substitutions.get(other).is_some_and(|t| self.occurs(var, t)),
            Type::List(a) | Type::Optional(a) | Type::Type(Some(a)) => self.occurs(var, a),
            Type::Map(a, b) => self.occurs(var, a) || self.occurs(var, b),
            _ => false,
        }
    }

    /// Replaces what is known; what is not becomes dyn if `to_dyn`.
    pub(super) fn substitute(&self, t: &Type, to_dyn: bool) -> Type {
        match t {
            Type::Var(var) => match self.substitutions.get(var) {
                Some(known) => self.substitute(known, to_dyn),
                None if to_dyn => Type::Dyn,
                None => t.clone(),
            },
            Type::List(a) => Type::list(self.substitute(a, to_dyn)),
            Type::Map(a, b) => Type::map(self.substitute(a, to_dyn), self.substitute(b, to_dyn)),
            Type::Optional(a) => Type::optional(self.substitute(a, to_dyn)),
            Type::Type(Some(a)) => Type::Type(Some(Arc::new(self.substitute(a, to_dyn)))),
            other => other.clone(),
        }
    }
}

pub(super) fn most_general(a: &Type, b: &Type) -> Type {
    if less_specific(a, b) { a.clone() } else { b.clone() }
}

fn less_specific(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Var(_), _) => true,
        (_, Type::Dyn | Type::Var(_)) => false,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => less_specific(a, b),
        (Type::Map(a, b), Type::Map(c, d)) => less_specific(a, c) && less_specific(b, d),
        (Type::Type(_), Type::Type(_)) => true,
        (a, b) => a.same(b),
    }
}
