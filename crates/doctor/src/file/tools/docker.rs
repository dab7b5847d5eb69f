//! Recognizes `docker run` and `docker pull`.

use super::CommandView;
use crate::file::image::ImageName;
use crate::file::shell::{ShellCommand, ShellWord};

/// A container that a command starts, or an image that it pulls.
#[derive(Debug, Clone, Copy)]
pub struct DockerCommand<'a> {
    /// The image.
    pub image: &'a ShellWord,
    /// The program in the container, if the command names one.
    pub program: Option<&'a str>,
    /// Whether the container may get a GPU: an option requests one, or some options are unknown.
    pub may_have_gpu: bool,
}

/// Options without a value.
const FLAGS: &[&str] = &[
    "--rm",
    "--detach",
    "--interactive",
    "--tty",
    "--privileged",
    "--init",
    "--read-only",
    "--no-healthcheck",
    "--publish-all",
    "--quiet",
    "--all-tags",
    "--disable-content-trust",
    "--sig-proxy",
    "--oom-kill-disable",
];

/// The container or image of a command, if it is `docker run`, `docker create` or `docker pull`.
#[must_use]
pub fn docker(command: &ShellCommand) -> Option<DockerCommand<'_>> {
    let view = CommandView::new(command);
    if !matches!(view.program, "docker" | "podman" | "nerdctl") {
        return None;
    }
    let first = view.words.first()?.text.as_str();
    let words = match first {
        "container" | "image" => view.words.get(1..)?,
        _ => view.words,
    };
    let (verb, words) = words.split_first()?;
    let is_pull = verb.text == "pull";
    if !is_pull && !matches!(verb.text.as_str(), "run" | "create") {
        return None;
    }
    let mut may_have_gpu = is_pull;
    let mut index = 0;
    while let Some(word) = words.get(index) {
        let text = word.text.as_str();
        if !text.starts_with('-') {
            break;
        }
        let requests = ["gpus", "nvidia", "/dev/kfd", "/dev/dri", "/dev/dxg", "privileged", "amd.com"];
        let has_value = !(FLAGS.contains(&text) || text.contains('=') || is_short_flags(text));
        let value = words.get(index + 1).filter(|_| has_value).map_or("", |next| next.text.as_str());
        may_have_gpu |= requests.iter().any(|word| text.contains(word) || value.contains(word));
        may_have_gpu |= text.contains('$');
        index += 1 + usize::from(has_value);
    }
    let image = words.get(index)?;
    // A variable may hold options.
    may_have_gpu |= image.text.contains('$');
    let program = words.get(index + 1).map(|word| word.text.as_str());
    Some(DockerCommand { image, program, may_have_gpu })
}

/// The image of `nvidia/cuda` that another container tool pulls or runs, as in `apptainer exec docker://nvidia/cuda:…`.
#[must_use]
pub fn pulled_cuda(command: &ShellCommand) -> Option<(&ShellWord, ImageName)> {
    let view = CommandView::new(command);
    if !matches!(view.program, "ctr" | "crictl" | "apptainer" | "singularity" | "skopeo" | "enroot") {
        return None;
    }
    view.words.iter().find_map(|word| {
        let name = word.text.strip_prefix("docker://").unwrap_or(&word.text);
        let image = ImageName::parse(name).filter(ImageName::is_nvidia_cuda)?;
        Some((word, image))
    })
}

/// Whether a word is a group of short options without a value: `-it`, `-d`.
fn is_short_flags(text: &str) -> bool {
    let letters = text.strip_prefix('-').unwrap_or_default();
    !letters.is_empty() && letters.chars().all(|letter| "itdPqa".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::super::tests::of;
    use super::*;

    #[test]
    fn images_of_other_tools_are_found() {
        for (text, expected) in [
            ("apptainer exec --nv docker://nvidia/cuda:latest nvidia-smi", "nvidia/cuda:latest"),
            (
                "ctr --address=/x image pull nvcr.io/nvidia/cuda:11.1.1-base-ubuntu20.04",
                "nvcr.io/nvidia/cuda:11.1.1-base-ubuntu20.04",
            ),
            ("apptainer exec docker://ubuntu ls", ""),
            ("echo docker://nvidia/cuda:latest", ""),
        ] {
            let seen = pulled_cuda(&of(text)[0]).map(|(_, image)| image.to_string());
            assert_eq!(seen.unwrap_or_default(), expected, "{text}");
        }
    }

    #[test]
    fn images_and_options_are_found() {
        for (text, expected) in [
            ("docker run --rm nvidia/cuda:latest nvidia-smi", "nvidia/cuda:latest nvidia-smi"),
            ("docker run -it -v /a:/b -e A=1 --name x img", "img -"),
            ("docker run --gpus all img nvidia-smi", "img nvidia-smi gpu"),
            ("docker run --runtime=nvidia --rm img x", "img x gpu"),
            ("docker run $OPTIONS img", "$OPTIONS img gpu"),
            ("sudo podman run --device nvidia.com/gpu=all img", "img - gpu"),
            ("docker pull nvidia/cuda", "nvidia/cuda - gpu"),
            ("docker build .", ""),
            ("docker run", ""),
        ] {
            let seen = docker(&of(text)[0]).map_or(String::new(), |one| {
                let gpu = if one.may_have_gpu { " gpu" } else { "" };
                format!("{} {}{gpu}", one.image.text, one.program.unwrap_or("-"))
            });
            assert_eq!(seen, expected, "{text}");
        }
    }
}
