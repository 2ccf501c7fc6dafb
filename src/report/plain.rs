//! Text that others wrote, as it may reach a page or a terminal: nothing in it moves a cursor, sets a colour or turns the direction.

/// Replaces what steers a terminal or reorders text by U+FFFD; newlines and tabs stay.
#[must_use]
pub fn plain(text: &str) -> String {
    let steers = |c: char| {
        // Bidirectional overrides, embeddings, isolates and marks; real right-to-left letters need none of them.
        let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns || (c.is_control() && !matches!(c, '\n' | '\t')) || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
    };
    text.chars().map(|c| if steers(c) { '\u{fffd}' } else { c }).collect()
}

/// A text of at most so many characters.
#[must_use]
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_a_terminal_or_turns_the_direction() {
        assert_eq!(plain("a\u{1b}[31m\u{7}\u{0}\u{9b}b\r\n\tc"), "a\u{fffd}[31m\u{fffd}\u{fffd}\u{fffd}b\u{fffd}\n\tc");
        assert_eq!(plain("\u{202e}evil\u{2066}"), "\u{fffd}evil\u{fffd}");
        assert_eq!(plain("שלום, 世界 é"), "שלום, 世界 é");
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!(shortened("äbcd", 3), "äb…");
    }
}
