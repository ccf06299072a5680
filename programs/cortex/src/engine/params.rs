//! Parameters of steps: read once, when a pipeline is made.

use std::collections::BTreeMap;

use serde_json::Value;

pub(crate) type Params = BTreeMap<String, Value>;

/// What is wrong with a parameter, and the way out.
pub(crate) type Wrong = String;

pub(crate) fn yes(params: &Params, key: &str) -> Result<bool, Wrong> {
    match params.get(key) {
        None => Ok(false),
        Some(value) => value
            .as_bool()
            .ok_or_else(|| format!("{key}: use true or false, not {value}")),
    }
}

pub(crate) fn number(params: &Params, key: &str, usual: f64) -> Result<f64, Wrong> {
    match params.get(key) {
        None => Ok(usual),
        Some(value) => value
            .as_f64()
            .ok_or_else(|| format!("{key}: use a number, not {value}")),
    }
}

pub(crate) fn texts(params: &Params, key: &str) -> Result<Vec<String>, Wrong> {
    let Some(value) = params.get(key) else {
        return Ok(Vec::new());
    };
    let wrong = || format!("{key}: use a list of texts, not {value}");
    let list = value.as_array().ok_or_else(wrong)?;
    let texts: Option<Vec<String>> = list.iter().map(|one| one.as_str().map(str::to_owned)).collect();
    texts.ok_or_else(wrong)
}

/// How much processors and memory count: `resourceWeights`, memory alone when left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    pub cpu: f64,
    pub memory: f64,
}

pub(crate) fn weights(params: &Params) -> Result<Weights, Wrong> {
    const KEY: &str = "resourceWeights";
    let Some(value) = params.get(KEY) else {
        return Ok(Weights {
            cpu: 0.0,
            memory: 1.0,
        });
    };
    let map = value
        .as_object()
        .ok_or_else(|| format!("{KEY}: use an object such as {{memory: 1}}, not {value}"))?;
    let mut weights = Weights {
        cpu: 0.0,
        memory: 0.0,
    };
    for (resource, weight) in map {
        let weight = weight
            .as_f64()
            .filter(|weight| *weight > 0.0 && weight.is_finite());
        let weight = weight.ok_or_else(|| {
            format!(
                "{KEY}.{resource}: use a number above 0; to reverse the weigher, use a negative multiplier"
            )
        })?;
        match resource.as_str() {
            "cpu" => weights.cpu = weight,
            "memory" => weights.memory = weight,
            other => return Err(format!("{KEY}.{other}: use cpu or memory")),
        }
    }
    if map.is_empty() {
        return Err(format!("{KEY}: name cpu or memory, or leave it out"));
    }
    Ok(weights)
}

/// From values to opinions, in a straight line between bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    pub from: f64,
    pub to: f64,
    pub low: f64,
    pub high: f64,
}

impl Scale {
    /// Reads `<name>LowerBound`, `<name>UpperBound`, `<name>ActivationLowerBound` and
    /// `<name>ActivationUpperBound`.
    pub fn read(params: &Params, name: &str, usual: Scale) -> Result<Self, Wrong> {
        let scale = Scale {
            from: number(params, &format!("{name}LowerBound"), usual.from)?,
            to: number(params, &format!("{name}UpperBound"), usual.to)?,
            low: number(params, &format!("{name}ActivationLowerBound"), usual.low)?,
            high: number(params, &format!("{name}ActivationUpperBound"), usual.high)?,
        };
        if scale.from == scale.to {
            return Err(format!("{name}LowerBound, {name}UpperBound: must differ"));
        }
        Ok(scale)
    }

    pub fn of(&self, value: f64) -> f64 {
        if self.low == self.high {
            return 0.0;
        }
        let share = (value - self.from) / (self.to - self.from);
        let opinion = self.low + share * (self.high - self.low);
        opinion.clamp(self.low.min(self.high), self.low.max(self.high))
    }
}
