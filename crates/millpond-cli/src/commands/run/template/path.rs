//! The parts of a path, on bytes: an argument need not be UTF-8 or name an existing file.

/// The path without its extension. `.profile` has none.
pub(super) fn stem(path: &[u8]) -> &[u8] {
    let name_begins = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    match path.iter().rposition(|byte| *byte == b'.') {
        Some(dot) if dot > name_begins => &path[..dot],
        _ => path,
    }
}

/// The path without its directories and trailing slashes. For `/` it is `/`.
pub(super) fn name(path: &[u8]) -> &[u8] {
    let path = trim_slashes(path);
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) if slash + 1 < path.len() => &path[slash + 1..],
        _ => path,
    }
}

/// The directory part, or `.` if there is none.
pub(super) fn directory(path: &[u8]) -> &[u8] {
    let path = trim_slashes(path);
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => trim_slashes(&path[..slash + 1]),
        None => b".",
    }
}

/// The path without trailing slashes. The root keeps one.
fn trim_slashes(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte != b'/') {
        Some(last) => &path[..=last],
        None => &path[..path.len().min(1)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_directories_are_those_of_basename_and_dirname() {
        for (path, expected_name, expected_directory) in [
            ("a/b/c.png", "c.png", "a/b"),
            ("c.png", "c.png", "."),
            ("/c.png", "c.png", "/"),
            ("a//b", "b", "a"),
            ("a/b/", "b", "a"),
            ("/", "/", "/"),
            ("//", "/", "/"),
            ("", "", "."),
        ] {
            assert_eq!(name(path.as_bytes()), expected_name.as_bytes(), "name of {path}");
            assert_eq!(directory(path.as_bytes()), expected_directory.as_bytes(), "directory of {path}");
        }
    }

    #[test]
    fn stem_drops_only_the_last_extension_of_the_name() {
        for (path, expected) in [
            ("a.png", "a"),
            ("a.tar.gz", "a.tar"),
            ("d.d/a", "d.d/a"),
            (".profile", ".profile"),
            ("d/.profile", "d/.profile"),
            ("a.", "a"),
            ("", ""),
        ] {
            assert_eq!(stem(path.as_bytes()), expected.as_bytes(), "{path}");
        }
    }
}
