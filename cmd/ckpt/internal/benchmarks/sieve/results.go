package sieve

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image"
	"ckpt/image/plan/fileview"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// results are the rows of a sweep in a file, one a line after what they depend on.
type results struct {
	journal *durable.Journal // nil without a file
	head    resultsHead
	cost    image.Storage
	rows    map[string]Times
}

// A resultsHead is the first line.
type resultsHead struct {
	On       string        `json:"on"`
	Size     int64         `json:"file_bytes"`
	Cache    string        `json:"page_cache"`
	Settings string        `json:"settings"`
	Cost     image.Storage `json:"storage_cost"`
}

// settings are the flags that rows depend on, beside the patterns.
func (o *Options) settings() string {
	text := fmt.Sprintf("--rounds %d --seed %d", o.Rounds, o.seed)
	if o.on != "" {
		text = fmt.Sprintf("--stripe %s --servers %d", o.stripe, o.servers)
	}
	return text
}

// openResults opens a file of results, and refuses the results of something else.
func openResults(name string, r *Result, settings string) (*results, error) {
	on := r.On
	if on == "" { // the same name is another directory elsewhere
		var err error
		if on, err = filepath.Abs(r.Dir); err != nil {
			return nil, err
		}
	}
	k := &results{rows: map[string]Times{}, head: resultsHead{On: on, Size: r.Size, Cache: r.Cache, Settings: settings}}
	if name == "" {
		return k, nil
	}
	if err := k.read(name); err != nil {
		return nil, err
	}
	var err error
	k.journal, err = durable.OpenJournal(vfs.OS{}, name)
	return k, err
}

func (k *results) read(name string) error {
	f, err := os.Open(name)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	first, bad := true, error(nil)
	_, err = durable.ReadLines(f, func(line []byte) {
		if !first {
			var t Times
			if json.Unmarshal(line, &t) == nil && t.Naive > 0 { // else cut by a crash: measured again
				k.rows[t.key()] = t
			}
			return
		}
		first = false
		var head resultsHead
		if json.Unmarshal(line, &head) != nil || head.Cost.Call <= 0 {
			bad = ui.BadUsage("--results "+name+": not results of ckpt bench sieve", "give a file that does not exist yet")
			return
		}
		k.cost = head.Cost
		head.Cost = image.Storage{}
		if head != k.head {
			bad = ui.BadUsage(fmt.Sprintf("--results %s: measured on %s, %d bytes, cache %q, %s; now %s, %d bytes, cache %q, %s", name,
				head.On, head.Size, head.Cache, head.Settings, k.head.On, k.head.Size, k.head.Cache, k.head.Settings), "give the same flags, or another file")
		}
	})
	if bad != nil {
		return bad
	}
	return err
}

// begin writes the first line.
func (k *results) begin(cost image.Storage) error {
	head := k.head
	head.Cost = cost
	return k.line(head)
}

func (k *results) add(t *Times) error { return k.line(t) }

func (k *results) line(v any) error {
	if k.journal == nil {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return k.journal.Add(b)
}

func (k *results) find(a fileview.Access, p *pattern) (Times, bool) {
	t := Times{Access: a.String(), View: p.text, Initial: p.initial, Data: p.data, Hole: p.hole}
	t, found := k.rows[t.key()]
	return t, found
}

func (k *results) close() {
	if k.journal != nil {
		_ = k.journal.Close() // each line was written
	}
}
