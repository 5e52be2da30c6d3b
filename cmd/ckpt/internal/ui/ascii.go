package ui

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"
)

// ascii spells the characters of our own texts in ASCII.
var ascii = strings.NewReplacer(
	"…", "...", "×", "x", "·", "*", "≤", "<=", "≥", ">=", "≈", "~", "±", "+/-", "−", "-", "–", "-", "—", "-", "→", "->", "←", "<-",
	"µ", "u", "μ", "u", "σ", "sigma", "λ", "lambda", "∞", "inf", "²", "^2", "³", "^3", "√", "sqrt ", "’", "'", "‘", "'", "“", `"`, "”", `"`,
	"─", "-", "━", "-", "│", "|", "┃", "|", "┌", "+", "┐", "+", "└", "+", "┘", "+", "├", "+", "┤", "+", "┬", "+", "┴", "+", "┼", "+",
	"█", "#", "▏", "#", "░", ".", "•", "*", "✓", "ok", "✗", "x",
	"▶", ">", "◀", "<", "León", "Leon", "Jiménez", "Jimenez",
)

// Text spells a text for the locale: as it is in UTF-8, else in ASCII. Programs
// that read JSON or files get UTF-8 everywhere.
func Text(s string) string {
	if UTF8Locale(os.Getenv) {
		return s
	}
	return ASCII(s)
}

// ASCII spells a text in ASCII. Unknown characters, as in names of files, become
// \u and their number.
func ASCII(s string) string {
	if isASCII(s) {
		return s
	}
	s = ascii.Replace(s)
	if isASCII(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// UTF8Locale reports whether the user reads UTF-8: the first of LC_ALL, LC_CTYPE and
// LANG that is set decides, and without any the locale is C (POSIX, Base
// Definitions, 8.2).
func UTF8Locale(getenv func(string) string) bool {
	locale := strings.ToLower(cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")))
	_, charset, _ := strings.Cut(locale, ".")
	charset, _, _ = strings.Cut(charset, "@")
	return charset == "utf-8" || charset == "utf8"
}
