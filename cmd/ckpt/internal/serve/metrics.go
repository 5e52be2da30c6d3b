package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// metricsType is the text format of Prometheus.
const metricsType = "text/plain; version=0.0.4"

// A family is a metric: its name without the prefix ckpt_, its kind, and its help.
type family struct{ name, kind, help string }

// families are all metrics, in the order in which they are shown.
var families = []family{
	{"jobs", "gauge", "Jobs of a store by state."},
	{"store_free_bytes", "gauge", "Bytes that can still be written to the file system of a store."},
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

// A tally is what the journal of a job says in sum.
type tally struct {
	read                                       int64 // bytes of the journal
	committed, aborted, signals, others        int64
	memory, stored                             int64
	all, some                                  int64
	lost                                       float64
	pause, restore                             histogram
	coordination, management, storage, latency histogram
}

// add counts a line of the journal.
func (t *tally) add(line []byte) {
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

// A meter makes the metrics of all jobs of a service. It reads of each journal what has come.
type meter struct {
	watch *watcher
	mu    sync.Mutex
	of    map[string]*tally
}

func newMeter(w *watcher) *meter { return &meter{watch: w, of: map[string]*tally{}} }

// shownFor is how long the metrics of a job are shown after it was last heard of.
const shownFor = 24 * time.Hour

// handle answers with the metrics of all stores.
func (m *meter) handle(w http.ResponseWriter, r *http.Request) {
	m.watch.look(r.Context(), true)
	m.mu.Lock()
	defer m.mu.Unlock()
	e := exposition{}
	current := map[string]bool{}
	for _, st := range m.watch.stores {
		store, err := image.OpenStore(vfs.OS{}, st.Dir)
		if err != nil {
			continue
		}
		if free, err := (vfs.OS{}).Free(st.Dir); err == nil {
			e.add("store_free_bytes", float64(free), "store", st.Name)
		}
		states := map[string]int{}
		for _, s := range m.watch.known(st.Name) {
			if s.status == nil {
				continue
			}
			states[s.status.State]++
			if !live(s.status) && time.Since(s.status.Updated) > shownFor {
				continue
			}
			key := st.Name + "/" + s.name
			current[key] = true
			if j, err := store.Job(s.name); err == nil {
				e.addJob(st.Name, j, s.status, m.tally(key, j))
			}
		}
		for state, n := range states {
			e.add("jobs", float64(n), "store", st.Name, "state", state)
		}
	}
	maps.DeleteFunc(m.of, func(key string, _ *tally) bool { return !current[key] })
	w.Header().Set("Content-Type", metricsType)
	e.write(w)
}

// tally brings the sums of a job up to date.
func (m *meter) tally(key string, j *image.Job) *tally {
	t := m.of[key]
	if t == nil {
		t = &tally{}
		m.of[key] = t
	}
	t.update(j)
	return t
}

// update reads what has come to the journal of a job. A journal that has become shorter is
// another one. Lines that cannot be read do not count.
func (t *tally) update(j *image.Job) {
	f, err := j.FS().Open(filepath.Join(j.Dir(), job.JournalName))
	if err != nil {
		return
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size == t.read {
		return
	}
	if size < t.read {
		*t = tally{}
	}
	end, _ := durable.ReadLines(io.NewSectionReader(f, t.read, size-t.read), t.add)
	t.read += end
}

// An exposition collects samples by family.
type exposition map[string][]string

func (e exposition) add(name string, value float64, labels ...string) {
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

func (e exposition) addHistogram(name string, h *histogram, labels ...string) {
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

// addJob adds the metrics of a job.
func (e exposition) addJob(store string, j *image.Job, s *job.Status, t *tally) {
	of := []string{"store", store, "job", s.Job}
	with := func(name, value string) []string { return append(slices.Clone(of), name, value) }
	running := 0.0
	if live(s) {
		running = 1
	}
	e.add("job_running", running, of...)
	e.add("job_iteration", float64(s.Iteration), of...)
	e.add("checkpoints_total", float64(t.committed), with("outcome", "committed")...)
	e.add("checkpoints_total", float64(t.aborted), with("outcome", "aborted")...)
	e.addHistogram("pause_seconds", &t.pause, of...)
	for phase, h := range map[string]*histogram{"coordination": &t.coordination, "management": &t.management, "storage": &t.storage, "total": &t.latency} {
		e.addHistogram("latency_seconds", h, with("phase", phase)...)
	}
	e.add("bytes_total", float64(t.memory), with("kind", "memory")...)
	e.add("bytes_total", float64(t.stored), with("kind", "stored")...)
	e.add("backlog_checkpoints", float64(s.InFlight), of...)
	if !s.LatestCreated.IsZero() {
		e.add("last_durable_timestamp_seconds", float64(s.LatestCreated.UnixMilli())/1e3, of...)
	}
	if spec, err := job.ReadSpec(j); err == nil && spec.Schedule.Interval > 0 {
		e.add("interval_seconds", spec.Schedule.Interval.Seconds(), of...)
	}
	e.add("work_at_risk_seconds", s.AtRisk, of...)
	e.add("rank_failures_total", float64(t.signals), with("reason", "signal")...)
	e.add("rank_failures_total", float64(t.others), with("reason", "other")...)
	e.add("restarts_total", float64(t.all), with("scope", "all")...)
	e.add("restarts_total", float64(t.some), with("scope", "some")...)
	e.add("work_lost_seconds_total", t.lost, of...)
	e.addHistogram("restore_seconds", &t.restore, of...)
	if p := s.Predicted; p != nil && s.Latest > 0 {
		if p.Stored > 0 {
			e.add("prediction_ratio", float64(s.LatestStored)/float64(p.Stored), with("quantity", "stored_bytes")...)
		}
		if p.Pause > 0 {
			e.add("prediction_ratio", s.LatestPause/p.Pause, with("quantity", "pause_seconds")...)
		}
	}
}

// write writes the families that have samples.
func (e exposition) write(w io.Writer) {
	for _, f := range families {
		if len(e[f.name]) > 0 {
			fmt.Fprintf(w, "# HELP ckpt_%s %s\n# TYPE ckpt_%s %s\n", f.name, f.help, f.name, f.kind)
			_, _ = io.WriteString(w, strings.Join(e[f.name], "")) // a scraper that left hears nothing
		}
	}
}
