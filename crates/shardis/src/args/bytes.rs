//! Numbers of bytes as Redis's configuration has them.

/// Bytes with Redis's units: `kb`, `mb` and `gb` are powers of 1024, `k`, `m` and `g` of 1000.
pub(crate) fn parse_bytes(text: &str) -> Result<usize, String> {
    let refusal = || "write bytes, as in 100000000, 100m, 512mb or 2gb".to_owned();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: usize = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return Err(refusal()),
    };
    let number: usize = number.parse().map_err(|_| refusal())?;
    number.checked_mul(factor).ok_or_else(refusal)
}
