package ui

import "testing"

func TestUTF8Locale(t *testing.T) {
	for _, c := range []struct {
		all, ctype, lang string
		want             bool
	}{
		{"", "", "", false}, {"", "", "C", false}, {"", "", "C.UTF-8", true}, {"C", "en_US.UTF-8", "en_US.UTF-8", false},
		{"", "POSIX", "en_US.UTF-8", false}, {"", "de_DE.utf8", "C", true}, {"en_GB.UTF-8", "C", "C", true}, {"", "", "de_DE@euro", false},
		{"", "", "ca_ES.UTF-8@valencia", true}, {"", "", "ja_JP.eucJP", false},
	} {
		env := map[string]string{"LC_ALL": c.all, "LC_CTYPE": c.ctype, "LANG": c.lang}
		if got := UTF8Locale(func(name string) string { return env[name] }); got != c.want {
			t.Errorf("%v: %v", c, got)
		}
	}
}

func TestASCII(t *testing.T) {
	for s, want := range map[string]string{
		"2 × 3 µs ≤ …": "2 x 3 us <= ...", "plain": "plain", "León": "Leon", "jöb": `j\u00f6b`, "日.img": `\u65e5.img`, "😀": `\U0001f600`, "a\xffb": `a\ufffdb`,
	} {
		if got := ASCII(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}
