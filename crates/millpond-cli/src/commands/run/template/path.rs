//! The parts of a path, on bytes: an argument need not be UTF-8, nor the name of a file that exists.

/// Without its extension. A name that begins with its only dot has none: `.profile` stays.
pub(super) fn stem(path: &[u8]) -> &[u8] {
    let name_begins = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    match path.iter().rposition(|byte| *byte == b'.') {
        Some(dot) if dot > name_begins => &path[..dot],
        _ => path,
    }
}

/// Without its directories; slashes at the end do not count. Of `/` it is `/`.
pub(super) fn name(path: &[u8]) -> &[u8] {
    let path = without_slashes_at_the_end(path);
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) if slash + 1 < path.len() => &path[slash + 1..],
        _ => path,
    }
}

/// The directory that it is in: `.` if it names none.
pub(super) fn directory(path: &[u8]) -> &[u8] {
    let path = without_slashes_at_the_end(path);
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => without_slashes_at_the_end(&path[..slash + 1]),
        None => b".",
    }
}

/// The root keeps its slash.
fn without_slashes_at_the_end(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte != b'/') {
        Some(last) => &path[..=last],
        None => &path[..path.len().min(1)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_comes_apart_as_basename_and_dirname_would_have_it() {
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
    fn only_the_last_extension_goes_and_only_that_of_the_name() {
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
