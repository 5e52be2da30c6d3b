package serve

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"time"

	"ckpt/cmd/ckpt/internal/metrics"
	"ckpt/image"
	"ckpt/internal/vfs"
)

// A meter makes the metrics of all jobs of a service. It reads of each journal what has come.
type meter struct {
	watch *watcher
	sees  func(ctx context.Context, dir string) bool
	mu    sync.Mutex
	of    map[string]*metrics.Tally
}

func newMeter(s *server) *meter {
	return &meter{watch: s.watch, sees: s.sees, of: map[string]*metrics.Tally{}}
}

// shownFor is how long the metrics of a job are shown after it was last heard of.
const shownFor = 24 * time.Hour

// handle answers with the metrics of all stores.
func (m *meter) handle(w http.ResponseWriter, r *http.Request) {
	m.watch.look(r.Context(), true)
	e := m.read(r.Context())
	w.Header().Set("Content-Type", metrics.ContentType)
	e.Write(w) // its reader may be slow, and others wait for what read holds
}

// read makes the metrics of the stores that the sender of a request may see.
func (m *meter) read(ctx context.Context) metrics.Exposition {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := metrics.Exposition{}
	current := map[string]bool{}
	for _, st := range m.watch.stores {
		if !m.sees(ctx, st.Dir) {
			continue
		}
		store, err := image.OpenStore(vfs.OS{}, st.Dir)
		if err != nil || !m.watch.reads(st.Name) {
			e.Add("store_readable", 0, "store", st.Name)
			continue
		}
		e.Add("store_readable", 1, "store", st.Name)
		if free, err := (vfs.OS{}).Free(st.Dir); err == nil {
			e.Add("store_free_bytes", float64(free), "store", st.Name)
		}
		states := map[string]int{}
		for _, s := range m.watch.known(st.Name) {
			if s.status == nil {
				continue
			}
			states[s.status.State]++
			if !metrics.Live(s.status) && time.Since(s.status.Updated) > shownFor {
				continue
			}
			key := st.Name + "/" + s.name
			current[key] = true
			if j, err := store.Job(s.name); err == nil {
				e.AddJob(st.Name, j, s.status, m.tally(key, j, s.status.Created))
			}
		}
		for state, n := range states {
			e.Add("jobs", float64(n), "store", st.Name, "state", state)
		}
	}
	maps.DeleteFunc(m.of, func(key string, _ *metrics.Tally) bool { return !current[key] })
	return e
}

// tally brings the sums of a job up to date.
func (m *meter) tally(key string, j *image.Job, created time.Time) *metrics.Tally {
	t := m.of[key]
	if t == nil {
		t = &metrics.Tally{}
		m.of[key] = t
	}
	t.Update(j, created)
	return t
}
