//! Recordings in WAV files.

use std::path::Path;

/// Samples per second that whisper.cpp expects.
pub const RATE: u32 = 16_000;

/// Reads a WAV file with 16,000 samples per second, and mixes its channels.
///
/// # Errors
/// The file cannot be read, or has another rate.
pub fn read(path: &Path) -> Result<Vec<f32>, String> {
    let name = path.display();
    let failed = |error: hound::Error| format!("cannot read `{name}`: {error}");
    let mut reader = hound::WavReader::open(path).map_err(failed)?;
    let spec = reader.spec();
    if spec.sample_rate != RATE {
        return Err(format!(
            "`{name}` has {} samples per second instead of {RATE}; convert it with \
             `ffmpeg -i INPUT -ar {RATE} -ac 1 output.wav`",
            spec.sample_rate
        ));
    }
    let samples: Result<Vec<f32>, _> = match spec.sample_format {
        hound::SampleFormat::Float => reader.samples().collect(),
        hound::SampleFormat::Int => {
            let scale = 0.5_f32.powi(i32::from(spec.bits_per_sample) - 1);
            let samples = reader.samples::<i32>();
            samples
                .map(|sample| sample.map(|sample| sample as f32 * scale))
                .collect()
        }
    };
    let channels = usize::from(spec.channels);
    let samples = samples.map_err(failed)?;
    let frames = samples.chunks_exact(channels);
    Ok(frames
        .map(|frame| frame.iter().sum::<f32>() / channels as f32)
        .collect())
}
