use std::time::Duration;

use super::*;
use crate::recorder::record;
use crate::{Arch, Command, Os, RecordedHost};

fn serials(texts: &[&str]) -> Serials {
    let mut serials = Serials::default();
    for text in texts {
        serials.collect(text);
    }
    serials
}

#[test]
fn devices_have_numbers_and_their_beginnings_match() {
    let (one, other) = ("0a1b2c3d-1111-2222-3333-444455556666", "ff1b2c3d-1111-2222-3333-444455556666");
    let file = format!("GPU UUID: \t GPU-{other}\nGPU UUID: \t GPU-{one}\n");
    let serials = serials(&["GPU-dead", "GPU-0a1b", &file]);
    let first = "00000001-0000-0000-0000-000000000000";
    for (text, expected) in [
        (format!("uuid: GPU-{one}"), format!("uuid: GPU-{first}")),
        (format!("MIG-{}/3/0", other.to_uppercase()), format!("MIG-{}/3/0", first.replace('1', "2"))),
        ("GPU-0a1b,1".to_owned(), "GPU-00000001,1".to_owned()),
        ("GPU-0A1B2C3D-11".to_owned(), "GPU-00000001-00".to_owned()),
        ("GPU-dead".to_owned(), "GPU-00000003".to_owned()),
    ] {
        assert_eq!(serials.text(&text), expected);
    }
    // A recording that is recorded again stays the same.
    let text = serials.text(&file);
    let mut again = Serials::default();
    again.collect(&text);
    assert_eq!(again.text(&text), text);
}

#[test]
fn other_text_stays() {
    for text in [
        "GPU-accelerated GPU-based GPU-1 TGPU-0a1b2c3d",
        "0000:c1:00.0 580.65.06 2026-11-27 10:20:30",
        "{4d36e968-e325-11ce-bfc1-08002be10318}",
        "serial: true\nSerial Number : N/A\nserialized = 1234x, serial\n",
        "Video BIOS: 96.00.74.00.11\nPart Number: 900-21010-0000-000",
        "sha256:2b:70:6d:3c:11:22:33:44:55",
    ] {
        assert_eq!(serials(&[text]).text(text), text);
    }
}

#[test]
fn numbers_after_labels_and_addresses_are_replaced() {
    for (text, expected) in [
        ("    Serial Number                 : 1320321004567\n", "    Serial Number                 : 0\n"),
        (r#"{"unique_id":"0x7de2","x":"0x7de2"}"#, r#"{"unique_id":"0","x":"0x7de2"}"#),
        ("GPU PDI : 0x4f9d\n", "GPU PDI : 0\n"),
        ("Device Serial Number 48-b0-2d-ff-ff-12-34-56", "Device Serial Number 00-00-00-00-00-00-00-00"),
        ("link/ether 48:b0:2d:12:34:56 brd", "link/ether 00:00:00:00:00:00 brd"),
        ("deviceUUID = 4f9d1111-2222-3333", "deviceUUID = 0"),
    ] {
        assert_eq!(serials(&[]).text(text), expected);
    }
    assert!(is_serial_file("/sys/class/drm/card0/device/unique_id") && is_serial_file("/etc/machine-id"));
    assert!(!is_serial_file("/home/user/serial") && !is_serial_file("/sys/devices/x/vendor"));
}

/// Pseudorandom hexadecimal digits.
struct Digits(u64);

impl Digits {
    fn next(&mut self, count: usize) -> String {
        let mut digit = || {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            char::from_digit(u32::try_from(self.0 % 16).unwrap(), 16).unwrap()
        };
        // At least one digit and one letter, as in real numbers.
        format!("{}7e", (2..count).map(|_| digit()).collect::<String>())
    }

    fn uuid(&mut self) -> String {
        [8, 4, 4, 4, 12].map(|count| self.next(count)).join("-")
    }

    /// A number, and a text that contains it, as programs print it.
    fn case(&mut self, kind: usize) -> (String, String) {
        match kind {
            0 => {
                let id = self.uuid();
                (id.clone(), format!("GPU 0: NVIDIA H200 (UUID: GPU-{id})"))
            }
            1 => {
                let id = self.uuid();
                (id.clone(), format!("[{{\"name\":\"NVIDIA H200\",\"uuid\":\"MIG-{id}\"}}]"))
            }
            2 => {
                let id = self.next(13);
                (id.clone(), format!("Serial Number : {id}"))
            }
            3 => {
                let id = [2; 6].map(|count| self.next(count + 2)[..2].to_owned()).join(":");
                (id.clone(), format!("ether {id} txqueuelen"))
            }
            4 => {
                let id = [2; 8].map(|count| self.next(count + 2)[..2].to_owned()).join("-");
                (id.clone(), format!("Capabilities: Device Serial Number {id}"))
            }
            _ => {
                let id = self.next(16);
                (id.clone(), format!("card0, Unique ID: 0x{id}"))
            }
        }
    }
}

/// Identifying numbers, in every kind of field that a recording has.
#[test]
fn no_field_of_a_recording_contains_an_identifying_number() {
    let mut digits = Digits(0x9e37_79b9_7f4a_7c15);
    for round in 0..60 {
        let mut ids = Vec::new();
        let mut text = || {
            let (id, text) = digits.case(round % 6);
            ids.push(id);
            text
        };
        let (key, argument) = (r"HKLM\SOFTWARE\X", text());
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .env("CUDA_VISIBLE_DEVICES", &text())
            .file("/proc/driver/nvidia/gpus/0000:c1:00.0/information", &text())
            .bytes("/usr/lib/firmware.bin", text().as_bytes())
            .file("/sys/class/drm/card0/device/unique_id", "b7c9d6e5f4a3b2c1\n")
            .command(&["/usr/bin/nvidia-smi", "-L"], &text())
            .command(&["/usr/bin/nvidia-smi", "-i", &argument], &text())
            .probe("cuda", &text())
            .registry(key, "Name", &text())
            .build();
        ids.push("b7c9d6e5f4a3b2c1".to_owned());
        let (recording, _) = record(&host, &[], |host| {
            for path in [
                "/proc/driver/nvidia/gpus/0000:c1:00.0/information",
                "/usr/lib/firmware.bin",
                "/sys/class/drm/card0/device/unique_id",
            ] {
                host.read(&host.path(path)).unwrap();
            }
            for arguments in [&["-L"][..], &["-i", &argument]] {
                let smi = Command::new("/usr/bin/nvidia-smi", Duration::from_secs(1));
                host.run(&smi.args(arguments.iter().copied())).unwrap();
            }
            host.probe("cuda", Duration::from_secs(1));
            host.registry_value(key, "Name");
        });
        let written = recording.to_toml();
        for id in &ids {
            assert!(!written.to_lowercase().contains(id.as_str()), "{id} in {written}");
        }
        assert!(written.contains("information") && written.contains("nvidia-smi"), "{written}");
    }
}
