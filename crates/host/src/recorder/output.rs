//! The output of programs in a recording.

/// Largest recorded output of a program, in bytes.
const MAX_OUTPUT: usize = 256 << 10;

/// Shortens an output to its beginning. Programs print versions first, and a recording is read into memory completely.
pub(super) fn shorten(output: &mut String) {
    let end = (0..=output.len().min(MAX_OUTPUT)).rev().find(|end| output.is_char_boundary(*end));
    let end = end.unwrap_or_default();
    let omitted = output.len() - end;
    if omitted > 0 {
        output.truncate(end);
        output.extend(["\n[", &omitted.to_string(), " bytes omitted]\n"]);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::MAX_OUTPUT;
    use crate::recorded::CommandResult;
    use crate::recorder::record;
    use crate::{Arch, Command, Os, RecordedHost};

    #[test]
    fn long_outputs_are_recorded_up_to_a_limit() {
        let long = "\u{e9}".repeat(MAX_OUTPUT);
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .command(&["long"], &long)
            .command(&["short"], "1.0\n")
            .build();
        let (recording, _) = record(&host, &[], |host| {
            for program in ["long", "short"] {
                host.run(&Command::new(program, Duration::from_secs(1))).unwrap();
            }
        });
        let outputs = recording.commands.iter().map(|command| match &command.result {
            CommandResult::Ended(output) => output.stdout.as_str(),
            CommandResult::Hangs => "",
        });
        let [long, short]: [&str; 2] = outputs.collect::<Vec<_>>().try_into().unwrap();
        assert_eq!((&long[..4], &long[MAX_OUTPUT..]), ("\u{e9}\u{e9}", "\n[262144 bytes omitted]\n"));
        assert_eq!(short, "1.0\n");
    }
}
