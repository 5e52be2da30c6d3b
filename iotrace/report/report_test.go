package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"ckpt/internal/figure"
	"ckpt/internal/testkit"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
	"ckpt/iotrace/analyze/finding"
	"ckpt/iotrace/iotracetest"
)

// traces are some of all kinds, with and without sense.
func traces(t *testing.T) map[string]*iotrace.Trace {
	t.Helper()
	out := map[string]*iotrace.Trace{"empty": {}}
	for _, name := range iotracetest.Builtins() {
		tr := iotracetest.Builtin(name, iotracetest.Params{Ranks: 16})
		out[name] = tr
	}
	for _, p := range []iotracetest.Pattern{iotracetest.Random, iotracetest.StridedNested} {
		tr := iotracetest.Generate(iotracetest.Spec{Pattern: p, Shared: true, Ranks: 40, Ops: 300, Bursts: 3, Noise: 0.1, Variable: true, Every: time.Second})
		out[string(p)] = tr
	}
	one := func(e iotrace.Event) *iotrace.Trace {
		return &iotrace.Trace{Files: []string{"f"}, Ranks: []iotrace.Rank{{Rank: 7}}, Events: []iotrace.Event{e}}
	}
	out["one write"] = one(iotrace.Event{Op: iotrace.Write, Bytes: 10})
	out["without offset"] = one(iotrace.Event{Op: iotrace.Read, Bytes: 10, Offset: iotrace.None, File: 0, Rank: -1})
	out["huge"] = one(iotrace.Event{Op: iotrace.Write, Bytes: math.MaxInt64, Offset: math.MaxInt64 - 1, Start: math.MinInt64, End: math.MaxInt64})
	out["negative"] = one(iotrace.Event{Op: iotrace.Write, Bytes: -5, Start: 9, End: 3})
	out["nobody's"] = one(iotrace.Event{Op: iotrace.Write, Bytes: 10, File: 3, Rank: 3})
	hostile := one(iotrace.Event{Op: iotrace.Write, Bytes: 10, End: 1e9})
	hostile.Job, hostile.Source = `</title><script>alert(1)</script>`, `"><img src=x>`
	hostile.Files[0] = `<svg/onload=alert(1)>&"'` + "\x00\xff" + strings.Repeat("long/", 100)
	hostile.Ranks[0].Node = "<b>"
	out["hostile"] = hostile
	return out
}

// TestDraw draws every plot of every trace; the files are what they should be.
func TestDraw(t *testing.T) {
	for name, tr := range traces(t) {
		r := analyze.Analyze(tr, analyze.Options{})
		files := []string{""}
		if len(r.Files) > 0 {
			files = append(files, r.Files[len(r.Files)-1].Name)
		}
		for _, kind := range Plots() {
			for _, file := range files {
				var svg, again, pixels bytes.Buffer
				if err := Draw(&svg, kind, "svg", tr, r, file, iotrace.None); err != nil {
					t.Fatalf("%s of %s: %v", kind, name, err)
				}
				wellFormed(t, svg.String())
				if svg.Len() > 500_000 {
					t.Errorf("%s of %s: %d bytes", kind, name, svg.Len())
				}
				if file != "" && !testkit.Nightly() {
					continue
				}
				if err := Draw(&again, kind, "svg", tr, r, file, iotrace.None); err != nil || !bytes.Equal(svg.Bytes(), again.Bytes()) {
					t.Errorf("%s of %s: not the same again", kind, name)
				}
				if file != "" || !testkit.Nightly() && name != "hostile" && name != string(iotracetest.Random) {
					continue
				}
				if err := Draw(&pixels, kind, "png", tr, r, file, iotrace.None); err != nil {
					t.Fatalf("%s of %s: %v", kind, name, err)
				}
				if img, err := png.Decode(&pixels); err != nil || img.Bounds().Dx() < 400 {
					t.Errorf("%s of %s: %v", kind, name, err)
				}
			}
		}
	}
}

func wellFormed(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v in %.300s", err, text)
		}
	}
}

func TestDrawErrors(t *testing.T) {
	r := analyze.Analyze(&iotrace.Trace{}, analyze.Options{})
	for want, c := range map[string][3]string{
		`format "gif": not svg, png, pdf or json`: {"sizes", "gif", ""},
		`plot "pie": there are sizes, offset`:     {"pie", "svg", ""},
		`file "f": not in the trace`:              {"sizes", "svg", "f"},
	} {
		if err := Draw(io.Discard, Plot(c[0]), c[1], &iotrace.Trace{}, r, c[2], iotrace.None); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// TestHTML: a page is complete, loads nothing, runs nothing, and is of bounded size.
func TestHTML(t *testing.T) {
	loads := regexp.MustCompile(`(?i)<(link|img|iframe|object|embed|base|form)\b|\s(src|on[a-z]+)\s*=|href="[^#]|url\(|@import|https?:`)
	for name, tr := range traces(t) {
		r := analyze.Analyze(tr, analyze.Options{})
		var page, again bytes.Buffer
		if err := HTML(&page, tr, r, nil, nil); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := HTML(&again, tr, r, nil, func(int64) {}); err != nil || !bytes.Equal(page.Bytes(), again.Bytes()) {
			t.Errorf("%s: not the same again", name)
		}
		text := page.String()
		body := text[strings.Index(text, "<body"):strings.LastIndex(text, "<script>")]
		if name == "hostile" { // whose words are there, as words
			body = strings.NewReplacer("onload=", "", "img src=", "").Replace(body)
		}
		if m := loads.FindString(body); m != "" {
			t.Errorf("%s: %q in the page", name, m)
		}
		found := regexp.MustCompile(`<script type="application/json">(.*?)</script>`).FindAllStringSubmatch(text, -1)
		if len(found) != plots(r) || !strings.HasSuffix(text, "</html>\n") {
			t.Errorf("%s: %d charts, or no end", name, len(found))
		}
		for _, c := range found {
			var chart figure.Chart
			if err := json.Unmarshal([]byte(c[1]), &chart); err != nil || chart.Title == "" {
				t.Errorf("%s: %v in %.100s", name, err, c[1])
			}
		}
		if strings.Contains(body, "NaN") || strings.Contains(body, "Inf") {
			t.Errorf("%s: a number is undefined", name)
		}
		if page.Len() > 400_000 {
			t.Errorf("%s: %d bytes", name, page.Len())
		}
	}
}

// TestPageSays: a page has the warnings of the trace, and says what was set apart.
func TestPageSays(t *testing.T) {
	tr := &iotrace.Trace{Warnings: []iotrace.Warning{{Code: "io_uring", Text: "7 requests of io_uring are <missing>."}}}
	var page bytes.Buffer
	if err := HTML(&page, tr, analyze.Analyze(tr, analyze.Options{}), []Fact{{"set apart", "3 files of the system"}}, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"7 requests of io_uring are &lt;missing&gt;.", "set apart</dt><dd>3 files of the system"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q in the page", want)
		}
	}
}

// TestGain: a page says in which unit a run could be shorter.
func TestGain(t *testing.T) {
	seconds, share := 0.2408, 0.11
	if got := gain(&finding.Finding{Gain: &seconds, GainShare: &share}); got != "241 ms, 11 % of the run" {
		t.Errorf("%q", got)
	}
	if got := gain(new(finding.Finding)); got != "" {
		t.Errorf("without durations: %q", got)
	}
}

// plots returns the number of plots on a page.
func plots(r *analyze.Report) (n int) {
	for _, kind := range Plots() {
		if !r.Counted || !NeedsEvents(kind) {
			n++
		}
	}
	return n
}

// TestNames: whatever is in names, plots are XML and pages are text.
func TestNames(t *testing.T) {
	const evil = "a\x1b]0;T\x07\x00\xff\xfe\x7f\u009b\uffff\r\nb<&\"'"
	tr := &iotrace.Trace{Job: evil, Source: evil, Files: []string{evil, evil + evil},
		Ranks: []iotrace.Rank{{Rank: 0, Node: evil}, {Rank: 1, Node: evil}, {Rank: 2, Node: evil}, {Rank: iotrace.None, Node: evil}}}
	for i := range int64(800) { // at random, and the last rank is late
		e := iotrace.Event{Op: iotrace.Write, Rank: int32(i % 4), Peer: iotrace.None, Offset: i * i * i * 7919 % 10007 * 4096, Bytes: 100, Start: i * 1_000_000, End: i*1_000_000 + 500_000}
		if e.Rank == 2 {
			e.File, e.End = 1, e.End+100_000_000
		}
		tr.Events = append(tr.Events, e)
	}
	r := analyze.Analyze(tr, analyze.Options{})
	if len(r.Balance.Stragglers) == 0 || !slices.ContainsFunc(r.Insights, func(i finding.Finding) bool { return i.File != "" }) {
		t.Fatal("no name has a place in the report")
	}
	isText := func(s string) {
		t.Helper()
		if i := strings.IndexFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' || r == 0xFFFF }); i >= 0 || !utf8.ValidString(s) {
			t.Errorf("%d: %.100q", i, s[max(i-50, 0):])
		}
		if strings.Contains(s, "\nb&lt;") || strings.Contains(s, "\nb<") {
			t.Error("a name ends a line")
		}
	}
	for _, kind := range Plots() {
		for _, file := range []string{"", evil} {
			var svg bytes.Buffer
			if err := Draw(&svg, kind, "svg", tr, r, file, iotrace.None); err != nil {
				t.Fatal(err)
			}
			wellFormed(t, svg.String())
			isText(svg.String())
		}
	}
	var page bytes.Buffer
	if err := HTML(&page, tr, r, nil, nil); err != nil {
		t.Fatal(err)
	}
	isText(page.String())
}

// spaceTimeMarks draws offsets over time, and counts the marks of each colour.
func spaceTimeMarks(t *testing.T, tr *iotrace.Trace, r *analyze.Report, limit int) map[string]int {
	t.Helper()
	s, err := newSurvey(tr, r, "", iotrace.None, false, SpaceTime)
	if err != nil {
		t.Fatal(err)
	}
	s.limit = limit
	p, err := s.layOut(SpaceTime)
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.Chart()
	if err != nil {
		t.Fatal(err)
	}
	marks := map[string]int{}
	for _, part := range c.Parts {
		marks[strings.TrimPrefix(part.Color, "--")] += len(part.At)
	}
	return marks
}

// TestMarks: whatever there is, no more than the limit is drawn, and something of
// everything.
func TestMarks(t *testing.T) {
	tr := iotracetest.Generate(iotracetest.Spec{Pattern: iotracetest.Random, Shared: true, Ranks: 16, Ops: 3000})
	r := analyze.Analyze(tr, analyze.Options{})
	marks, all := spaceTimeMarks(t, tr, r, 500), 0
	for i := range figure.Ramp {
		n := marks["s"+strconv.Itoa(i)]
		if n < 1 {
			t.Errorf("%d dots in colour %d", n, i)
		}
		all += n
	}
	if all > 500 {
		t.Errorf("%d dots", all)
	}
}

// TestSpaceTimeColors: of ranks whose requests lie upon each other each is seen.
func TestSpaceTimeColors(t *testing.T) {
	tr := &iotrace.Trace{Files: []string{"f"}}
	for r := range 8 {
		tr.Ranks = append(tr.Ranks, iotrace.Rank{Rank: 1_000_100 + r})
	}
	for k := range int64(800) {
		tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Write, Rank: int32(k % 8), Offset: k * 47008, Bytes: 47008, Start: k / 8 * 1e7, End: k/8*1e7 + 5e5})
	}
	marks := spaceTimeMarks(t, tr, analyze.Analyze(tr, analyze.Options{}), fileMarks)
	for i := range 8 {
		if n := marks["c"+strconv.Itoa(i)]; n < 15 {
			t.Errorf("colour %d has %d marks: %v", i, n, marks)
		}
	}
}

func names(k figure.Key) (all string) {
	for _, e := range k {
		all += e.Name
	}
	return all
}

// TestRankColors: the ramp follows the numbers of the ranks. Processes without a
// number have their own colour.
func TestRankColors(t *testing.T) {
	tr := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: iotrace.None, Node: "coordinator"}}}
	for r := range 16 {
		tr.Ranks = append(tr.Ranks, iotrace.Rank{Rank: r * 5 % 16})
	}
	active := make([]bool, 17)
	active[0] = true
	colors, classes, k := rankColors(tr, active)
	for i, c := range classes[1:] {
		if want := tr.Ranks[i+1].Rank / 2; c != want {
			t.Errorf("rank %d: colour %d, want %d", tr.Ranks[i+1].Rank, c, want)
		}
	}
	if classes[0] != len(figure.Ramp) || len(colors) != len(figure.Ramp)+1 || names(k) != "rank 0 to rank 15coordinator" {
		t.Errorf("coordinator: %d of %d; %q", classes[0], len(colors), names(k))
	}
	if _, _, k := rankColors(tr, make([]bool, 17)); names(k) != "rank 0 to rank 15" {
		t.Errorf("idle coordinator: %q", names(k))
	}
}

func TestTexts(t *testing.T) {
	for _, c := range [][2]string{
		{bytesText(0), "0 B"}, {bytesText(1023), "1023 B"}, {bytesText(1024), "1 KiB"}, {bytesText(1536), "1.5 KiB"}, {bytesText(162655109), "155 MiB"},
		{bytesText(76.29 * (1 << 20)), "76.3 MiB"}, {bytesText(1.25 * (1 << 30)), "1.25 GiB"}, {bytesText(math.MaxInt64), "8 EiB"}, {bytesText(-2048), "-2 KiB"},
		{figure.Number(0), "0"}, {figure.Number(1234567), "1,234,567"}, {figure.Number(-1000), "-1,000"}, {figure.Number(999), "999"},
		{secondsText(0), "0 s"}, {secondsText(1.5e-5), "15 µs"}, {secondsText(0.25), "250 ms"}, {secondsText(12.345), "12.35 s"}, {secondsText(1e5), "100,000 s"},
		{shorten("abcdef", 4), "…def"}, {shorten("abc", 4), "abc"},
	} {
		if c[0] != c[1] {
			t.Errorf("%q, want %q", c[0], c[1])
		}
	}
}

// TestTicks: axes have a few marks, whatever their range.
func TestTicks(t *testing.T) {
	for _, c := range [][2]float64{{0, 0}, {0, 1}, {0, 1e-7}, {3, 9}, {-5, 1e6}, {0, 1e19}, {9e18, 9.2e18}, {1 << 60, 1<<60 + 1}, {-9e9, 9e9}} {
		for name, ticks := range map[string]int{"byte": len(byteTicks(c[0], c[1])), "rate": len(rateTicks(c[0], c[1])), "decimal": len(figure.DecimalTicks(c[0], c[1])),
			"whole": len(figure.WholeTicks(c[0], c[1])), "log": len(logByteTicks(0, min(63, c[1]))), "count": len(countTicks(0, min(19, c[1])))} {
			if ticks > 22 {
				t.Errorf("%v: %d %s ticks", c, ticks, name)
			}
		}
	}
	if n := len(figure.DecimalTicks(0, 26.4)); n < 4 || n > 8 {
		t.Errorf("%d ticks from 0 to 26.4", n)
	}
}
