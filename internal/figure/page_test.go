package figure

import (
	"strings"
	"testing"
)

// TestPageEscapes: no text becomes markup, wherever it stands.
func TestPageEscapes(t *testing.T) {
	type fact struct{ Name, Value string }
	type cell struct{ Text, Class string }
	evil := `</style>"><script>'&`
	p := NewPage(evil, "")
	Facts(p, []fact{{evil, evil}})
	Table(p, evil, []cell{{evil, evil}}, [][]cell{{{evil, evil}}})
	p.Put(`<p class="%s">%s 100 %%</p>`, evil, evil)
	p.End()
	text := p.String()
	if strings.Contains(text, "<script") || strings.Count(text, "</style>") != 1 || strings.Contains(text, `"">`) || strings.Contains(text, "'&") {
		t.Errorf("a text became markup:\n%s", text[strings.Index(text, "<body>"):])
	}
	if n := strings.Count(text, "&lt;/style&gt;&#34;&gt;&lt;script&gt;&#39;&amp;"); n != 11 {
		t.Errorf("%d texts of 11", n)
	}
}
