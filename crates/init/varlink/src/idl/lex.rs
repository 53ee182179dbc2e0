//! Words and signs of an interface description.

/// One word or sign, with the line it stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    Word(&'t str),
    Comment(&'t str),
    Sign(char),
    Arrow,
    End,
}

pub(super) struct Lexer<'t> {
    rest: &'t str,
    line: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            rest: text,
            line: 1,
        }
    }

    /// The line of what comes next.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// The next token; `None` at a character that no description contains.
    pub(super) fn next(&mut self) -> Option<Token<'t>> {
        self.skip_space();
        let Some(first) = self.rest.chars().next() else {
            return Some(Token::End);
        };
        if first == '#' {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            let (comment, rest) = self.rest.split_at(end);
            self.rest = rest;
            let comment = comment.strip_prefix('#').unwrap_or(comment);
            let comment = comment.strip_prefix(' ').unwrap_or(comment);
            return Some(Token::Comment(comment.trim_end()));
        }
        if let Some(rest) = self.rest.strip_prefix("->") {
            self.rest = rest;
            return Some(Token::Arrow);
        }
        if matches!(first, '(' | ')' | ',' | ':' | '?' | '[' | ']') {
            self.rest = &self.rest[1..];
            return Some(Token::Sign(first));
        }
        let end = self
            .rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')))
            .unwrap_or(self.rest.len());
        // `a->b` is a word, an arrow and a word.
        let word = &self.rest[..end];
        let word = match self.rest[end..].strip_prefix('>') {
            Some(_) => word.strip_suffix('-').unwrap_or(word),
            None => word,
        };
        self.rest = &self.rest[word.len()..];
        (!word.is_empty()).then_some(Token::Word(word))
    }

    fn skip_space(&mut self) {
        let trimmed = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let skipped = &self.rest[..self.rest.len() - trimmed.len()];
        self.line += skipped.matches('\n').count();
        self.rest = trimmed;
    }
}
