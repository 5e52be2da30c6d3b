package traces

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
	"ckpt/iotrace/analyze/pattern"
	"ckpt/iotrace/report"
	"ckpt/zones"
)

// facts says what the whole of a trace is like, for a terminal and for a page.
func (in *traceInput) facts(t *iotrace.Trace, r *analyze.Report) []report.Fact {
	head := []report.Fact{{Name: "trace", Value: traceText(r)}}
	if text := runText(t); text != "" {
		head = append(head, report.Fact{Name: "run", Value: text})
	}
	head = append(head, report.Fact{Name: "ranks", Value: fmt.Sprintf("%s; %s", ranksText(r), ui.Count(len(r.Files), "file"))})
	if text := kindsText(r.Files); text != "" {
		head = append(head, report.Fact{Name: "files", Value: text})
	}
	if text := in.text(in.aside); text != "" {
		head = append(head, report.Fact{Name: "set apart", Value: text})
	}
	head = append(head, []report.Fact{
		{Name: "access", Value: accessText(&r.Activity)},
		{Name: "written", Value: fmt.Sprintf("%s MiB in %s", ui.MiB(r.BytesWritten), ui.Plural(int(r.Writes), "write", "writes"))},
		{Name: "read", Value: fmt.Sprintf("%s MiB in %s", ui.MiB(r.BytesRead), ui.Plural(int(r.Reads), "read", "reads"))},
		{Name: "metadata", Value: metadataText(r)},
	}...)
	if text := waitsText(r); text != "" {
		head = append(head, report.Fact{Name: "locks", Value: text})
	}
	if r.RecorderCall > 0 {
		head = append(head, report.Fact{Name: "recording", Value: fmt.Sprintf("about %s µs of each operation; gains leave them out", micros(r.RecorderCall))})
	}
	if text := zonesText(r); text != "" {
		head = append(head, report.Fact{Name: "zones", Value: text})
	}
	return append(head, []report.Fact{
		{Name: "time", Value: timeText(r)},
		{Name: "bursts", Value: burstsText(&r.Activity)},
		{Name: "sizes", Value: commonSizes(r.CommonSizes)},
	}...)
}

// burstsText is the number of bursts. Only events show them.
func burstsText(a *analyze.Activity) string {
	if a.BurstsTotal == 0 && a.Writes+a.Reads > 0 {
		return "unknown"
	}
	return strconv.Itoa(a.BurstsTotal)
}

func traceText(r *analyze.Report) string {
	name := r.Job
	if name == "" {
		name = "trace"
	}
	text := fmt.Sprintf("%s, %s", cutMiddle(zones.Printable(name), longName), ui.Plural(int(r.Events), "event", "events"))
	if r.Source != "" {
		text += ", recorded by " + zones.Printable(r.Source)
	}
	return text
}

// longName is the length from which on the name of a job is cut: a line and a half.
const longName = 100

// cutMiddle leaves out the middle of a long name: programs are told apart by its beginning,
// runs by its end.
func cutMiddle(name string, most int) string {
	r := []rune(name)
	if len(r) <= most {
		return name
	}
	dots := ui.Text("…")
	keep := most - len([]rune(dots))
	return string(r[:keep-keep/2]) + dots + string(r[len(r)-keep/2:])
}

// runText tells which run it was: how long it took, when it began, and the number of
// the batch job. It is empty if the length is not known.
func runText(t *iotrace.Trace) string {
	if t.Runtime <= 0 {
		return ""
	}
	text := rough(t.Runtime.Seconds())
	if !t.Origin.IsZero() {
		text += ", began " + t.Origin.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	if job := batchJob(t); job != "" {
		text += ", job " + zones.Printable(job)
	}
	return text
}

// batchJob is the number of the batch job, or "" without one.
func batchJob(t *iotrace.Trace) string {
	if job := t.Property("job"); job != "0" {
		return job
	}
	return ""
}

// ranksText returns the number of ranks of the job, and the number that do its I/O
// if those are fewer.
func ranksText(r *analyze.Report) string {
	text := strconv.Itoa(r.Ranks)
	if r.Nodes > 0 {
		text += " on " + ui.Count(r.Nodes, "node")
	}
	if active := r.ActiveRanks; active < r.Ranks && r.Writes+r.Reads > 0 {
		text += fmt.Sprintf(", of which %s", ui.Plural(active, "reads or writes", "read or write"))
	}
	return text
}

// kindsText counts the files by what is done with them, unless the same is done with all.
func kindsText(files []analyze.File) string {
	var n [4]int
	for i := range files {
		k := 0
		if files[i].Writes > 0 {
			k++
		}
		if files[i].Reads > 0 {
			k += 2
		}
		n[k]++
	}
	kinds := [...]string{"neither read nor written", "only written", "only read", "read and written"}
	var words []string
	for _, k := range []int{1, 2, 3, 0} {
		if n[k] > 0 {
			words = append(words, fmt.Sprintf("%d %s", n[k], kinds[k]))
		}
	}
	if len(words) < 2 {
		return ""
	}
	return strings.Join(words, ", ")
}

// timeText has the bandwidth while anything is read or written.
func timeText(r *analyze.Report) string {
	if r.Untimed > 0 {
		return fmt.Sprintf("%s; of %d of %d reads and writes the durations are unknown (strace -T)", rough(r.Wall), r.Untimed, r.Reads+r.Writes)
	}
	text := fmt.Sprintf("%s, of which %s reading or writing", rough(r.Wall), rough(r.Busy))
	if bytes := float64(r.BytesWritten) + float64(r.BytesRead); r.Busy > 0 && bytes > 0 {
		text += fmt.Sprintf(", at %s/s", brief(int64(min(bytes/r.Busy, 1<<62))))
	}
	return text
}

// accessText is the access and the spatial pattern of all files, of writes and reads
// apart where they differ.
func accessText(a *analyze.Activity) string {
	switch {
	case a.Writes+a.Reads == 0:
		return string(a.Access) + "; nothing is read or written"
	case differ(a):
		return fmt.Sprintf("%s; writes %s, reads %s", a.Access, patternText(a.WriteSpatial, a.WriteDetail), patternText(a.ReadSpatial, a.ReadDetail))
	}
	return fmt.Sprintf("%s, %s", a.Access, patternText(a.Spatial, a.Detail))
}

// patternText is a pattern with its finer class, if that says more.
func patternText(s pattern.Spatial, d pattern.Detail) string {
	if string(s) == string(d) {
		return string(s)
	}
	return fmt.Sprintf("%s (%s)", s, d)
}

// differ reports whether writes and reads have different patterns.
func differ(a *analyze.Activity) bool {
	return a.Writes > 0 && a.Reads > 0 && a.WriteSpatial != "" && a.ReadSpatial != "" && a.WriteSpatial != a.ReadSpatial
}

// spatialWord is the spatial pattern of a file in a table: of its writes and, behind a
// slash, of its reads, if they differ.
func spatialWord(a *analyze.Activity) string {
	switch {
	case a.Detail == pattern.NoDetail:
		return "none"
	case differ(a):
		brief := func(s pattern.Spatial) string {
			if s == pattern.SequentialAccess {
				return "seq." // the longest word
			}
			return string(s)
		}
		return brief(a.WriteSpatial) + "/" + brief(a.ReadSpatial)
	}
	return string(a.Spatial)
}

// metadataText counts the operations that move no bytes. Their times are sums over the
// ranks.
func metadataText(r *analyze.Report) string {
	metadata, syncs := ui.Plural(int(r.Metadata), "operation", "operations"), ui.Plural(int(r.Syncs), "sync", "syncs")
	if r.MetadataTime > 0 {
		metadata += " in " + rough(r.MetadataTime)
	}
	if r.SyncTime > 0 {
		syncs += " in " + rough(r.SyncTime)
	}
	return metadata + ", " + syncs + summed(r)
}

// zonesText is the time that each zone of memory takes, and is empty where no operation has
// one.
func zonesText(r *analyze.Report) string {
	var texts []string
	last := ""
	for _, z := range r.Zones {
		text := fmt.Sprintf("%s %s", z.Op, rough(z.Time))
		if z.Zone == last {
			texts[len(texts)-1] += ", " + text
			continue
		}
		texts, last = append(texts, z.Zone+": "+text), z.Zone
	}
	if len(texts) == 0 {
		return ""
	}
	return strings.Join(texts, "; ") + summed(r)
}

// waitsText counts the waits for locks, and is empty without any.
func waitsText(r *analyze.Report) string {
	for _, o := range r.Operations {
		if o.Op == iotrace.LockWait.String() && o.Count > 0 {
			return fmt.Sprintf("%s in %s%s", ui.Plural(int(o.Count), "wait", "waits"), rough(o.Time), summed(r))
		}
	}
	return ""
}

// summed says that times of several ranks, or of threads, may be longer than the run.
func summed(r *analyze.Report) string {
	const overlap = 1.01 // of the operations, which only threads can have in a process
	switch sum := r.WriteTime + r.ReadTime + r.MetadataTime + r.SyncTime; {
	case r.Ranks > 1:
		return ", summed over the ranks"
	case r.Concurrency.Max > 1 || sum > overlap*r.Wall || r.WriteTime+r.ReadTime > overlap*r.Busy:
		return ", summed over the threads"
	}
	return ""
}

func commonSizes(sizes []iotrace.SizeCount) string {
	if len(sizes) == 0 {
		return "-"
	}
	var words []string
	for _, s := range sizes {
		words = append(words, fmt.Sprintf("%d × %d B", s.Count, s.Size))
	}
	return strings.Join(words, ", ")
}

// rough formats a time in about four digits.
func rough(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= 10*time.Minute:
		d = d.Round(time.Second)
	case d >= 10*time.Second:
		d = d.Round(10 * time.Millisecond)
	case d >= time.Second:
		d = d.Round(time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(10 * time.Microsecond)
	default:
		d = d.Round(time.Microsecond)
	}
	return d.String()
}
