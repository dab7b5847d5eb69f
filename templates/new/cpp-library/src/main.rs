//! Summarizes the numbers in its arguments: `cargo run -- 3 1 2`.

use @ident@::Summary;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let summary = Summary::new();
    for word in std::env::args().skip(1) {
        summary.add(word.parse()?)?;
    }
    if summary.count() == 0 {
        for value in [2.0, 4.0, 9.0] {
            summary.add(value)?;
        }
    }
    let (mean, median) = (summary.mean()?, summary.median()?);
    println!("{} values, mean {mean}, median {median}", summary.count());
    Ok(())
}
