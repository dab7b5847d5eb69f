//! Recordings for the template `whisper`.

use std::path::Path;

/// Writes a second of a tone of 440 Hz, the same on all channels.
pub(crate) fn write(path: &Path, sample_rate: u32, channels: u16) {
    let spec = hound::WavSpec {
        channels,
        sample_rate,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer = hound::WavWriter::create(path, spec).unwrap();
    for index in 0..sample_rate {
        let is_high = (index * 880 / sample_rate).is_multiple_of(2);
        for _ in 0..channels {
            writer.write_sample(if is_high { 8192_i16 } else { -8192 }).unwrap();
        }
    }
    writer.finalize().unwrap();
}
