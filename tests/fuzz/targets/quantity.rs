//! Any text is a quantity or refused; a quantity survives printing, and rounding keeps to its bounds.

#![no_main]

use highwater::units::Quantity;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(quantity) = text.parse::<Quantity>() else { return };
    let printed = quantity.to_string();
    let again: Quantity = printed.parse().expect("what is printed is a quantity");
    assert_eq!(again, quantity, "{text} printed as {printed}");
    assert_eq!(again.to_string(), printed, "{text}: printing is not stable");
    let (whole, exact) = (i128::from(quantity.ceil()) * 1_000_000_000, quantity.nanos());
    let saturated = matches!(quantity.ceil(), i64::MAX | i64::MIN);
    assert!(saturated || (whole.abs() >= exact.abs() && (whole - exact).abs() < 1_000_000_000), "{text}");
    let _ = (quantity + again, quantity - again, -quantity, quantity.milli_ceil());
});
