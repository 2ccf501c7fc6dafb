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

/// A text for XML, in an attribute or between tags; characters that XML 1.0 cannot hold become question marks.
#[must_use]
pub fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            c if c < ' ' || matches!(c, '\u{7f}' | '\u{fffe}' | '\u{ffff}') => out.push('?'),
            c => out.push(c),
        }
    }
    out
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

    #[test]
    fn nothing_that_xml_cannot_hold_gets_out() {
        assert_eq!(xml("a<b> & \"c\"\n\u{1}é"), "a&lt;b&gt; &amp; &quot;c&quot;&#10;?é");
    }
}
