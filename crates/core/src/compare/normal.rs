//! The normal distribution, as needed by the tests.

/// Number of standard deviations on either side of the mean that contain [`CONFIDENCE`].
pub const Z: f64 = 1.959_963_984_540_054;

/// Coefficients of the Chebyshev fit to erfc of W. H. Press et al., "Numerical Recipes" (§6.2).
const ERFC: [f64; 10] = [
    -1.265_512_23,
    1.000_023_68,
    0.374_091_96,
    0.096_784_18,
    -0.186_288_06,
    0.278_868_07,
    -1.135_203_98,
    1.488_515_87,
    -0.822_152_23,
    0.170_872_77,
];

/// Returns the probability that a standard normal variable is at least `z` from 0 on either side;
/// the relative error is at most 1.2·10⁻⁷.
pub fn two_sided(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.5 * x);
    let polynomial = ERFC.iter().rev().fold(0.0, |sum, coefficient| sum * t + coefficient);
    (t * (-x * x + polynomial).exp()).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_the_normal_distribution() {
        for (z, p) in [(0.0, 1.0), (1.0, 0.317_310_5), (Z, 0.05), (3.0, 0.002_699_796)] {
            assert!((two_sided(z) - p).abs() < 1e-6, "{z}: {}", two_sided(z));
        }
    }
}
