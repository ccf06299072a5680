/// A password from random bytes: letters and digits, so that no shell, URL or SQL text has to quote it.
pub(crate) fn password(random: &[u8; 32]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789";
    random
        .iter()
        .map(|byte| LETTERS[usize::from(*byte) % LETTERS.len()] as char)
        .collect()
}
