package machine

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/iosched"
)

// busy is a unit with a holder, one that waits, and one that has left.
func busy() *unitStatus {
	flow, longest, short, stretch, left := 14.5, 15.0, 10.0, 1.04, int64(512<<20)
	return &unitStatus{Host: "h0", PID: 4242, Status: iosched.Status{Unit: "/scratch", Policy: "wsjf", Uptime: 62.5, Window: 0.5, Lease: 5, MaxWait: 60,
		Holder: "ana", Held: 0.25, Windows: 12, Turns: 7, Evictions: 1, Bytes: 3 << 30, Busy: 50.0004,
		Apps: []iosched.AppStatus{
			{App: "ana", User: "ana", State: "holds", Kind: "checkpoint", Connections: 16, Granted: 16, Remaining: &left, Requests: 64,
				Aggregates: 4, Aggregated: 64, Largest: 16, Last: 16, Windows: 9, Bytes: 2 << 30, Flows: 3, Waited: 1.5, LongestWait: 0.75,
				Held: 40, FlowTime: &flow, LongestFlow: &longest, Stretch: &stretch},
			{App: "tar.4711", User: "ben", State: "waits", Kind: "command", Connections: 1, Waiting: 1, Requests: 1, Waited: 0.5, LongestWait: 0.5},
			{App: "cp.4700", User: "ben", State: "left", Requests: 1, Bytes: 1 << 30, Flows: 1, FlowTime: &short, LongestFlow: &short, Evictions: 1},
		}}}
}

func shown(t *testing.T, u *unitStatus, columns string) string {
	t.Helper()
	t.Setenv("COLUMNS", columns)
	var out bytes.Buffer
	if err := u.print(&ui.Globals{Streams: ui.Streams{Out: &out}}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestStatusText: the text says who holds and who waits, and fits 80 columns.
func TestStatusText(t *testing.T) {
	wide := shown(t, busy(), "")
	for _, want := range []string{
		"/scratch: policy wsjf, windows of 500ms, leases of 5s; serving for 1m3s\nana has the turn for 250ms\n",
		"7 turns in 12 windows, 1 eviction, 3072.00 MiB moved in 50s\n",
		"ana          ana   holds  checkpoint    512.00        64           4    2048.00  1.50 s    14.50 s     1.04        9          0",
		"tar.4711     ben   waits  command            ?         1           0       0.00  500 ms          -        -        0          0",
		"cp.4700      ben   left                      -         1           0    1024.00     0 s    10.00 s        -        0          1",
	} {
		if !strings.Contains(wide, want) {
			t.Errorf("no line %q in\n%s", want, wide)
		}
	}
	narrow := shown(t, busy(), "80")
	for line := range strings.Lines(narrow) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"tar.4711", "checkpoint", "14.50 s", "1.04"} {
		if !strings.Contains(narrow, want) {
			t.Errorf("no %q at 80 columns:\n%s", want, narrow)
		}
	}
	u := busy()
	u.Apps[0].App, u.Apps[1].App = "ana in /scratch/ana", "ana in /scratchy/ana"
	if text := shown(t, u, ""); !strings.Contains(text, "ana in ana ") || !strings.Contains(text, "ana in /scratchy/ana ") {
		t.Errorf("names of jobs with their stores:\n%s", text)
	}
	if u.Revoked = true; !strings.Contains(shown(t, u, ""), "and is to give it back") {
		t.Error("the text does not say that the turn is wanted back")
	}
	if text := shown(t, &unitStatus{Status: iosched.Status{Policy: "fifo"}}, ""); !strings.Contains(text, "nobody has the turn") || !strings.Contains(text, "no job or command") {
		t.Errorf("an idle unit:\n%s", text)
	}
}

// TestStatusLine: a watch has one line for a unit.
func TestStatusLine(t *testing.T) {
	if line := busy().line(); !strings.Contains(line, "ana has the turn for 250ms, 3072.00 MiB moved, waiting: tar.4711") {
		t.Errorf("the line of a watch: %s", line)
	}
}
