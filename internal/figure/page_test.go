package figure

import (
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"strings"
	"testing"
)

// TestPageEscapes: no text becomes markup, wherever it stands.
func TestPageEscapes(t *testing.T) {
	type cell struct{ Text, Class string }
	evil := `</style>"><script>'&`
	p := NewPage(evil)
	before := p.Len()
	Facts(p, []Fact{{evil, evil}})
	Table(p, evil, []cell{{evil, evil}}, [][]cell{{{evil, evil}}})
	p.Heading(evil)
	p.Put(`<p class="%s">%s 100 %%</p>`, evil, evil)
	if err := p.Chart(&Chart{Title: evil, Key: []ChartKey{{evil, evil}}}, evil); err != nil {
		t.Fatal(err)
	}
	text := p.String()[before:]
	if strings.Count(text, "<script") != 1 || strings.Count(text, "</style>") != 0 || strings.Contains(text, `"">`) || strings.Contains(text, "'&") {
		t.Errorf("a text became markup:\n%s", text)
	}
	if n := strings.Count(text, "&lt;/style&gt;&#34;&gt;&lt;script&gt;&#39;&amp;"); n != 12 {
		t.Errorf("%d texts of 12", n)
	}
	p.End()
	text = p.String()
	if strings.Count(text, "</style>") != 1 || !strings.Contains(text, "<li><a href=\"#style----script\">&lt;/style") || strings.Index(text, "class=\"contents\"") > strings.Index(text, "<dl>") {
		t.Errorf("no contents, or not at the begin")
	}
}

// TestPagePolicy: a browser runs the script and uses the style of the page, and nothing else.
func TestPagePolicy(t *testing.T) {
	p := NewPage("title")
	p.Heading("One")
	p.Heading("One")
	p.End()
	text := p.String()
	for _, element := range []string{"style", "script"} {
		found := regexp.MustCompile(`(?s)<`+element+`>(.*?)</`+element+`>`).FindAllStringSubmatch(text, -1)
		if len(found) != 1 {
			t.Fatalf("%d elements %s", len(found), element)
		}
		sum := sha256.Sum256([]byte(found[0][1]))
		if !strings.Contains(text, element+"-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
			t.Errorf("the policy does not allow the %s of the page", element)
		}
	}
	if !strings.Contains(text, `id="one-2"`) || strings.Count(text, `id="one"`) != 1 {
		t.Error("two sections have one anchor")
	}
}
