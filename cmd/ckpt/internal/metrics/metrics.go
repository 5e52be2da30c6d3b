// Package metrics makes the metrics of jobs, in the text format of Prometheus: for the service,
// and for a file that a job keeps while it runs. The journal of a job is where its sums come from.
package metrics

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/internal/durable"
)

// ContentType is the text format of Prometheus.
const ContentType = "text/plain; version=0.0.4"

// A Family is a metric: its name without the prefix ckpt_, its kind, and its help.
type Family struct{ Name, Kind, Help string }

// Families are all metrics, in the order in which they are shown.
var Families = []Family{
	{"jobs", "gauge", "Jobs of a store by state."},
	{"store_free_bytes", "gauge", "Bytes that can still be written to the file system of a store."},
	{"store_readable", "gauge", "1 while the jobs of a store can be read, else 0."},
	{"job_running", "gauge", "1 while a job runs, else 0."},
	{"job_iteration", "gauge", "Iterations or steps that a job has done, or its newest checkpoint has."},
	{"checkpoints_total", "counter", "Checkpoints of a job by outcome: committed or aborted."},
	{"pause_seconds", "histogram", "Time for which the application stood still for a checkpoint."},
	{"latency_seconds", "histogram", "Latency of checkpoints by phase: coordination, management, storage and total."},
	{"bytes_total", "counter", "Bytes of checkpoints by kind: memory that they cover, stored by them."},
	{"backlog_checkpoints", "gauge", "Checkpoints that are written behind the computation or wait for that."},
	{"last_durable_timestamp_seconds", "gauge", "When the newest checkpoint was committed, in seconds since 1970."},
	{"interval_seconds", "gauge", "Time from one scheduled checkpoint to the next, of jobs that have such a schedule."},
	{"work_at_risk_seconds", "gauge", "Work that a loss of all that is not safe would cost now."},
	{"rank_failures_total", "counter", "Ranks that died, by reason: signal or other."},
	{"restarts_total", "counter", "Restarts by scope: all ranks or some."},
	{"work_lost_seconds_total", "counter", "Time from the checkpoint to the failure, added up over restarts."},
	{"restore_seconds", "histogram", "Time from a failure, or the start of a run, until all ranks compute."},
	{"prediction_ratio", "gauge", "Measured over predicted, of the newest checkpoint, by quantity: stored_bytes or pause_seconds."},
}

// bounds are the upper bounds of histograms, in seconds.
var bounds = []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000}

// A histogram counts durations.
type histogram struct {
	counts []uint64 // one more than bounds
	sum    float64
	count  uint64
}

func (h *histogram) add(v float64) {
	if h.counts == nil {
		h.counts = make([]uint64, len(bounds)+1)
	}
	i, _ := slices.BinarySearch(bounds, v)
	h.counts[i]++
	h.sum += v
	h.count++
}

// A Tally is what the journal of a job says in sum.
type Tally struct {
	created                                    time.Time // the job
	read                                       int64     // bytes of the journal
	committed, aborted, signals, others        int64
	memory, stored                             int64
	all, some                                  int64
	lost                                       float64
	pause, restore                             histogram
	coordination, management, storage, latency histogram
}

// add counts a line of the journal.
func (t *Tally) add(line []byte) {
	var kind struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(line, &kind) != nil {
		return
	}
	switch kind.Type {
	case "checkpoint":
		var e job.CheckpointEvent
		if json.Unmarshal(line, &e) != nil {
			return
		}
		t.committed++
		t.stored += e.StoredBytes
		if e.Memory != nil {
			t.memory += e.Memory.Total()
		} else {
			t.memory += e.Zones.Total()
		}
		t.pause.add(e.Pause)
		t.coordination.add(e.Latency.Coordination)
		t.management.add(e.Latency.Management)
		t.storage.add(e.Latency.Storage)
		t.latency.add(e.Latency.Total)
	case "checkpoint_lost":
		t.aborted++
	case "failure":
		var e coordinator.FailureEvent
		if json.Unmarshal(line, &e) == nil && strings.Contains(e.Reason, "killed by SIG") {
			t.signals++
		} else {
			t.others++
		}
	case "restarted":
		var e job.RestartedEvent
		if json.Unmarshal(line, &e) != nil {
			return
		}
		if len(e.Of) > 0 {
			t.some++
		} else {
			t.all++
		}
		t.lost += e.LostWork
		t.restore.add(e.Seconds)
	}
}

// Update reads what has come to the journal of a job, which was created then: a job may be removed,
// and another one launched under its name. Lines that cannot be read do not count.
func (t *Tally) Update(j *image.Job, created time.Time) {
	f, err := j.FS().Open(filepath.Join(j.Dir(), job.JournalName))
	if err != nil {
		return
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return
	}
	if size < t.read || !created.Equal(t.created) {
		*t = Tally{created: created}
	}
	end, _ := durable.ReadLines(io.NewSectionReader(f, t.read, size-t.read), t.add)
	t.read += end
}

// Live reports whether a job may change without a change in its directory.
func Live(s *job.Status) bool {
	return s != nil && (s.State == job.StateRunning || s.State == job.StateSilent)
}

// StoreName is the name of a store in metrics and paths: the last part of its directory.
func StoreName(dir string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, filepath.Base(dir))
	return cmp.Or(strings.TrimLeft(clean, ".-"), "store")
}

// An Exposition collects samples by family.
type Exposition map[string][]string

func (e Exposition) Add(name string, value float64, labels ...string) {
	e[name] = append(e[name], sample("ckpt_"+name, value, labels...))
}

func sample(name string, value float64, labels ...string) string {
	var b strings.Builder
	b.WriteString(name)
	for i := 0; i < len(labels); i += 2 {
		b.WriteByte("{,"[min(i, 1)])
		fmt.Fprintf(&b, "%s=%s", labels[i], quoted(labels[i+1]))
	}
	if len(labels) > 0 {
		b.WriteByte('}')
	}
	return b.String() + " " + strconv.FormatFloat(value, 'g', -1, 64) + "\n"
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func quoted(s string) string { return `"` + escapes.Replace(s) + `"` }

func (e Exposition) addHistogram(name string, h *histogram, labels ...string) {
	if h.count == 0 {
		return
	}
	sum := uint64(0)
	for i, n := range h.counts {
		sum += n
		le := "+Inf"
		if i < len(bounds) {
			le = strconv.FormatFloat(bounds[i], 'g', -1, 64)
		}
		e[name] = append(e[name], sample("ckpt_"+name+"_bucket", float64(sum), append(slices.Clone(labels), "le", le)...))
	}
	e[name] = append(e[name], sample("ckpt_"+name+"_sum", h.sum, labels...), sample("ckpt_"+name+"_count", float64(h.count), labels...))
}

// AddJob adds the metrics of a job.
func (e Exposition) AddJob(store string, j *image.Job, s *job.Status, t *Tally) {
	of := []string{"store", store, "job", s.Job}
	with := func(name, value string) []string { return append(slices.Clone(of), name, value) }
	running := 0.0
	if Live(s) {
		running = 1
	}
	e.Add("job_running", running, of...)
	e.Add("job_iteration", float64(s.Iteration), of...)
	e.Add("checkpoints_total", float64(t.committed), with("outcome", "committed")...)
	e.Add("checkpoints_total", float64(t.aborted), with("outcome", "aborted")...)
	e.addHistogram("pause_seconds", &t.pause, of...)
	for phase, h := range map[string]*histogram{"coordination": &t.coordination, "management": &t.management, "storage": &t.storage, "total": &t.latency} {
		e.addHistogram("latency_seconds", h, with("phase", phase)...)
	}
	e.Add("bytes_total", float64(t.memory), with("kind", "memory")...)
	e.Add("bytes_total", float64(t.stored), with("kind", "stored")...)
	e.Add("backlog_checkpoints", float64(s.InFlight), of...)
	if !s.LatestCreated.IsZero() {
		e.Add("last_durable_timestamp_seconds", float64(s.LatestCreated.UnixMilli())/1e3, of...)
	}
	if spec, err := job.ReadSpec(j); err == nil && spec.Schedule.Interval > 0 {
		e.Add("interval_seconds", spec.Schedule.Interval.Seconds(), of...)
	}
	e.Add("work_at_risk_seconds", s.AtRisk, of...)
	e.Add("rank_failures_total", float64(t.signals), with("reason", "signal")...)
	e.Add("rank_failures_total", float64(t.others), with("reason", "other")...)
	e.Add("restarts_total", float64(t.all), with("scope", "all")...)
	e.Add("restarts_total", float64(t.some), with("scope", "some")...)
	e.Add("work_lost_seconds_total", t.lost, of...)
	e.addHistogram("restore_seconds", &t.restore, of...)
	if p := s.Predicted; p != nil && s.Latest > 0 {
		if p.Stored > 0 {
			e.Add("prediction_ratio", float64(s.LatestStored)/float64(p.Stored), with("quantity", "stored_bytes")...)
		}
		if p.Pause > 0 {
			e.Add("prediction_ratio", s.LatestPause/p.Pause, with("quantity", "pause_seconds")...)
		}
	}
}

// Write writes the families that have samples.
func (e Exposition) Write(w io.Writer) {
	for _, f := range Families {
		if len(e[f.Name]) > 0 {
			fmt.Fprintf(w, "# HELP ckpt_%s %s\n# TYPE ckpt_%s %s\n", f.Name, f.Help, f.Name, f.Kind)
			_, _ = io.WriteString(w, strings.Join(e[f.Name], "")) // a scraper that left hears nothing
		}
	}
}
