//! Logarithmic axes with round marks.

/// Maps values to positions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    least: f64,
    most: f64,
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Axis {
    /// From the least to the greatest value. The values are positive and sorted.
    pub(super) fn exact(values: &[f64], from: f64, to: f64) -> Axis {
        let (least, most) = (values.first().copied().unwrap_or(1.0), values.last().copied().unwrap_or(10.0));
        Axis { least, most: most.max(least * 2.0), from, to }
    }

    /// Between round numbers below and above all positive values.
    pub(super) fn around(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Axis {
        let least = values.clone().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let least = if least.is_finite() { below(least) } else { 1.0 };
        let most = values.fold(0.0, f64::max).max(least * 2.0);
        Axis { least, most: steps(least).find(|step| *step >= most).unwrap_or(most), from, to }
    }

    pub(super) fn at(self, from: f64, to: f64) -> Axis {
        Axis { from, to, ..self }
    }

    /// Values outside are moved to the edge.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = (value.max(self.least) / self.least).ln() / (self.most / self.least).ln();
        self.from + (self.to - self.from) * share.clamp(0.0, 1.0)
    }

    /// Round values, not closer than `distance`.
    pub(super) fn ticks(&self, distance: f64) -> Vec<f64> {
        let all: Vec<f64> = steps(self.least).take_while(|step| *step <= self.most * 1.001).collect();
        let power = |step: &f64| (step.log10() - step.log10().round()).abs() < 1e-6;
        let powers: Vec<f64> = all.iter().copied().filter(power).collect();
        let fits = |ticks: &[f64]| {
            ticks.windows(2).all(|pair| (self.place(pair[1]) - self.place(pair[0])).abs() >= distance)
        };
        if fits(&all) || powers.is_empty() { all } else { powers }
    }
}

/// 1, 2, 5, 10, 20 and so on, starting at or just above `from`.
fn steps(from: f64) -> impl Iterator<Item = f64> {
    let power = from.log10().floor() as i32;
    let all = (power..power + 20).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)));
    all.skip_while(move |step| *step < from * 0.999)
}

/// The step at or below `value`.
fn below(value: f64) -> f64 {
    steps(value / 10.0).take_while(|step| *step <= value * 1.001).last().unwrap_or(value)
}

/// 20, 5k, 1M.
pub(super) fn short(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    // No more digits than a step has.
    let text = format!("{value:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}
