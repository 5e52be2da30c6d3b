package read

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ckpt/iotrace"
)

// TestPublicLogs reads the logs of a directory, CKPT_DARSHAN_LOGS, and compares them
// with what darshan-parser and darshan-dxt-parser print of them. It prints a table.
func TestPublicLogs(t *testing.T) {
	dir := os.Getenv("CKPT_DARSHAN_LOGS")
	if dir == "" {
		t.Skip("CKPT_DARSHAN_LOGS is not set")
	}
	for _, name := range []string{"darshan-parser", "darshan-dxt-parser"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.darshan"))
	if err != nil || len(names) == 0 {
		t.Fatal("no logs: ", err)
	}
	seen := make(map[[sha256.Size]byte]bool)
	var rows []string
	total := comparison{}
	withDXT, without := 0, 0
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b)
		if seen[sum] || iotrace.Detect(b[:min(len(b), iotrace.HeadBytes)]) != iotrace.FormatDarshan {
			continue
		}
		seen[sum] = true
		x := &comparison{t: t, log: filepath.Base(name)}
		h, tr := x.open(b)
		if tr == nil {
			continue
		}
		p := parseParser(output(t, "darshan-parser", "--base", "--total", "--show-incomplete", name))
		x.compare(h, tr, p)
		x.job(h, tr, p)
		x.dxt(tr, output(t, "darshan-dxt-parser", "--show-incomplete", name))
		if len(tr.Events) > 0 {
			withDXT++
		} else {
			without++
		}
		total.records += x.records
		total.counters += x.counters
		total.segments += x.segments
		total.differ += x.differ
		total.unreadable += x.unreadable
		rows = append(rows, x.row(h, p))
	}
	fmt.Println("| log | Darshan | format | bytes | compression | modules (version) | records | numbers compared | DXT segments | differences |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|")
	for _, row := range rows {
		fmt.Println(row)
	}
	fmt.Printf("| **%d logs: %d with counters only, %d with DXT** | | | | | | %d | %d | %d | %d |\n", withDXT+without, without, withDXT,
		total.records, total.counters, total.segments, total.differ)
	fmt.Printf("\n(*) %d numbers that darshan-parser prints wrong are left out (functions of darshan-posix-logutils.c): of big-endian logs with POSIX records\n"+
		"before version 4, POSIX_F_META_TIME, POSIX_F_MAX_READ_TIME and POSIX_F_MAX_WRITE_TIME, whose bytes it does not swap; of logs with POSIX records of\n"+
		"version 3, the two variances, which it cuts off when it makes version 4 of them; and sums of times that are negative in the log, which a trace\n"+
		"does not have.\n", total.unreadable)
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Logf("%s %s: %v: %s", name, args, err, stderr.Bytes())
	}
	return string(out)
}

func (x *comparison) open(b []byte) (*header, *iotrace.Trace) {
	h, err := readHeader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		x.differs("%v", err)
		return nil, nil
	}
	tr, _, err := Darshan(bytes.NewReader(b), int64(len(b)), iotrace.Options{Strict: true})
	if err != nil {
		x.differs("%v", err)
		return nil, nil
	}
	return h, tr
}

func (x *comparison) row(h *header, p *parserText) string {
	var mods []string
	for i, m := range h.modules {
		if m.length == 0 && !m.partial {
			continue
		}
		s := fmt.Sprintf("%s (%d)", moduleName(i), m.version)
		if _, ok := latest[i]; !ok {
			s = moduleName(i) + " (not read)"
		}
		if m.partial {
			s += " incomplete"
		}
		mods = append(mods, s)
	}
	order, star := "little", ""
	if h.order.String() == "BigEndian" {
		order = "big"
	}
	if x.unreadable > 0 {
		star = " (*)"
	}
	name := strings.TrimSuffix(x.log, ".darshan")
	for _, prefix := range []string{"darshan-hpc+darshan-logs-darshan_logs_", "darshan-hpc+darshan-darshan-util_pydarshan_darshan_", "hpc-io+"} {
		name = strings.TrimPrefix(name, prefix)
	}
	if len(name) > 60 {
		name = name[:29] + "…" + name[len(name)-29:]
	}
	return fmt.Sprintf("| %s | %s | %v | %s-endian | %s | %s | %d | %d | %d | %d%s |", name, p.about["metadata: lib_ver"], h.format, order, compressionNames[h.compression],
		strings.Join(mods, ", "), x.records, x.counters, x.segments, x.differ, star)
}

// job checks what the log says of the job.
func (x *comparison) job(h *header, tr *iotrace.Trace, p *parserText) {
	if exe := strings.TrimSpace(p.about["exe"]); exe != tr.Job && exe != "" {
		x.differs("job %q, darshan-parser has %q", tr.Job, exe)
	}
	if n := strconv.Itoa(len(tr.Ranks)); n != p.about["nprocs"] {
		x.differs("%s ranks, darshan-parser has %s", n, p.about["nprocs"])
	}
	if s := strconv.FormatInt(tr.Origin.Unix(), 10); s != p.about["start_time"] {
		x.differs("start %s, darshan-parser has %s", s, p.about["start_time"])
	}
	if !near(tr.Runtime.Seconds(), p.about["run time"], 1e-4) {
		x.differs("run time %v, darshan-parser has %s", tr.Runtime, p.about["run time"])
	}
	have := map[string]string{}
	for _, prop := range tr.Properties {
		if have[prop.Name] == "" {
			have[prop.Name] = prop.Value
		}
	}
	x.counters += 4
	for key, value := range p.about {
		if key, ok := strings.CutPrefix(key, "metadata: "); ok {
			if x.counters++; have[key] != value {
				x.differs("metadata %s=%s, darshan-parser has %s", key, have[key], value)
			}
		}
	}
	for dir, kind := range p.mounts {
		if x.counters++; have[dir] != kind && strings.HasPrefix(dir, "/") {
			x.differs("%s on %s, darshan-parser has %s", have[dir], dir, kind)
		}
	}
}

// dxt compares the events with those of the text.
func (x *comparison) dxt(tr *iotrace.Trace, text string) {
	if strings.Contains(text, "\n# no DXT module data") {
		if len(tr.Events) > 0 {
			x.differs("%d events, darshan-dxt-parser has none", len(tr.Events))
		}
		return
	}
	want, _, err := DarshanText(strings.NewReader(text), iotrace.Options{Strict: true})
	if err != nil {
		x.differs("text of darshan-dxt-parser: %v", err)
		return
	}
	if !want.Origin.Equal(tr.Origin.Truncate(time.Second)) || want.Job != tr.Job && !strings.Contains(text, "\n# exe: \n") || want.Source != tr.Source {
		x.differs("%s of %v, the text has %s of %v", tr.Job, tr.Origin, want.Job, want.Origin)
	}
	mine, theirs := inOrder(tr), inOrder(want)
	x.segments = len(mine)
	if len(mine) != len(theirs) {
		x.differs("%d events, the text has %d", len(mine), len(theirs))
		return
	}
	const half = 50_001 // ns: the text has tenths of milliseconds
	for i := range mine {
		a, b := mine[i], theirs[i]
		late, later := a.start-b.start, a.end-b.end
		if a.start, a.end = b.start, b.end; a != b || max(late, -late, later, -later) > half {
			x.differs("event %+v, the text has %+v", mine[i], b)
		}
	}
}

// plainEvent is an event by the names of its rank and file.
type plainEvent struct {
	op            iotrace.Op
	module        iotrace.Module
	rank          int
	node, file    string
	offset, bytes int64
	start, end    int64
}

// inOrder returns the events in an order that rounded times do not change.
func inOrder(tr *iotrace.Trace) []plainEvent {
	list := make([]plainEvent, len(tr.Events))
	for i, e := range tr.Events {
		list[i] = plainEvent{op: e.Op, module: e.Module, rank: iotrace.None, file: tr.Files[e.File], offset: e.Offset, bytes: e.Bytes, start: e.Start, end: e.End}
		if e.Rank != iotrace.None {
			list[i].rank, list[i].node = tr.Ranks[e.Rank].Rank, tr.Ranks[e.Rank].Node
		}
		if strings.HasPrefix(list[i].file, "<record ") {
			list[i].file = "(null)"
		}
	}
	slices.SortFunc(list, func(a, b plainEvent) int {
		return cmp.Or(cmp.Compare(a.op, b.op), cmp.Compare(a.module, b.module), cmp.Compare(a.rank, b.rank), cmp.Compare(a.file, b.file),
			cmp.Compare(a.offset, b.offset), cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
	})
	return list
}
