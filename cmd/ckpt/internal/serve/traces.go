package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/internal/vfs"
	"ckpt/iotrace"
	"ckpt/iotrace/read"
	"ckpt/iotrace/tiles"
)

// mostTraces bounds the list of traces.
const mostTraces = 1000

// A traceFile is a trace in the directory of --traces.
type traceFile struct {
	Name     string    `json:"trace"` // its path in the directory
	Bytes    int64     `json:"file_bytes"`
	Modified time.Time `json:"modified"`
}

// listTraces lists the traces in the directory of --traces, those in it below, too.
func (s *server) listTraces(w http.ResponseWriter, r *http.Request) {
	list := []traceFile{}
	err := s.traces.walk(r.Context(), func(path, name string, fi fs.FileInfo) bool {
		if is, err := read.IsTrace(path); err == nil && is {
			list = append(list, traceFile{name, fi.Size(), fi.ModTime().UTC()})
		}
		return len(list) < mostTraces
	})
	if err != nil {
		problemOf(ui.SourceError(err), nil).write(w)
		return
	}
	respond(w, http.StatusOK, list)
}

// A grids keeps the grids of the traces that were looked at last: the parts of a trace are cut out of one.
type grids struct {
	mu   sync.Mutex
	kept []*gridOf
}

type gridOf struct {
	path    string
	size    int64
	changed time.Time
	once    sync.Once
	grid    *tiles.Grid
	err     error
}

// mostGrids bounds the memory of grids, to 64 MiB.
const mostGrids = 4

func (g *grids) of(path string) (*tiles.Grid, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, ui.SourceError(err)
	}
	g.mu.Lock()
	i := slices.IndexFunc(g.kept, func(k *gridOf) bool {
		return k.path == path && k.size == fi.Size() && k.changed.Equal(fi.ModTime())
	})
	k := &gridOf{path: path, size: fi.Size(), changed: fi.ModTime()}
	if i >= 0 {
		k = g.kept[i]
		g.kept = slices.Delete(g.kept, i, i+1)
	}
	g.kept = append(g.kept, k)
	if len(g.kept) > mostGrids {
		g.kept = slices.Delete(g.kept, 0, 1)
	}
	g.mu.Unlock()
	k.once.Do(func() { // others who ask for the same trace wait
		k.grid, k.err = tiles.Of(func(visit func([]iotrace.Event)) (*iotrace.Trace, error) { return read.Each(path, visit) })
		if errors.Is(k.err, tiles.ErrChanged) {
			k.err = ui.WithHint(k.err, "ask again when its recording has ended")
		} else if k.err != nil {
			k.err = ui.AsUsage(k.err)
		}
	})
	return k.grid, k.err
}

// tiled is a part of a trace as tiles of equal length.
type tiled struct {
	Events int         `json:"events"`
	Start  float64     `json:"trace_start_s"`
	End    float64     `json:"trace_end_s"`
	From   float64     `json:"from_s"`
	To     float64     `json:"to_s"`
	By     string      `json:"by"`
	Rows   []tiles.Row `json:"rows"`
}

// tileParameters are what requests for tiles may have in their query.
var tileParameters = map[string]string{
	"by":    "rank or file: what a row is (default rank).",
	"from":  "The begin of the part in seconds (default: of the trace).",
	"to":    "The end of the part in seconds (default: of the trace).",
	"tiles": "The number of tiles of a row, at most (default 300, at most 2000).",
}

// tilesOfFile answers with tiles of a trace in the directory of --traces.
func (s *server) tilesOfFile(w http.ResponseWriter, r *http.Request) {
	path, err := s.traces.find(r.Context(), r.URL.Query().Get("trace"))
	s.tiles(w, r, path, err)
}

// tilesOfCheckpoint answers with tiles of the trace of a checkpoint.
func (s *server) tilesOfCheckpoint(w http.ResponseWriter, r *http.Request) {
	_, dir, ok := s.storeOf(w, r)
	if !ok {
		return
	}
	j, err := jobIn(dir, r)
	path := ""
	if err == nil {
		if err = checkWord("n", r.PathValue("n")); err == nil {
			n, _ := strconv.Atoi(r.PathValue("n"))
			path = job.TracePath(j, n)
		}
	}
	if path != "" {
		if _, serr := j.FS().Stat(path); serr != nil {
			err = ui.AsNotFound(fmt.Errorf("checkpoint %s of %s has no trace", r.PathValue("n"), j.Name()))
		} else if vfs.Mounted(path) || j.Store().Sealed() {
			err = ui.BadUsage(fmt.Sprintf("the trace of checkpoint %s of %s is in an object storage or sealed, and is not drawn from there", r.PathValue("n"), j.Name()),
				"write it to a file with ckpt trace export, in the directory of --traces")
		}
	}
	s.tiles(w, r, path, err)
}

func (s *server) tiles(w http.ResponseWriter, r *http.Request, path string, err error) {
	by, most, from, to := tiles.Ranks, 300, 0.0, 0.0
	query := r.URL.Query()
	number := func(name string, value *float64) {
		if text := query.Get(name); text != "" && err == nil {
			if *value, err = strconv.ParseFloat(text, 64); err != nil || *value != *value {
				err = ui.BadUsage(fmt.Sprintf("%s %.80q is no number of seconds", name, text), tileParameters[name])
			}
		}
	}
	var g *tiles.Grid
	if err == nil {
		switch text := query.Get("by"); text {
		case "", "rank":
		case "file":
			by = tiles.Files
		default:
			err = ui.BadUsage(fmt.Sprintf("by %.80q: want rank or file", text), "")
		}
		if text := query.Get("tiles"); text != "" && err == nil {
			if most, err = strconv.Atoi(text); err != nil || most < 1 || most > 2000 {
				err = ui.BadUsage(fmt.Sprintf("tiles %.80q: want a number from 1 to 2000", text), "")
			}
		}
	}
	if err == nil {
		g, err = s.gridOf(r.Context(), path)
	}
	if err == nil {
		from, to = g.Start, g.End
		number("from", &from)
		number("to", &to)
	}
	if err != nil {
		problemOf(err, nil).write(w)
		return
	}
	a := tiled{Events: g.Events, Start: g.Start, End: g.End, By: [...]string{"rank", "file"}[by], Rows: []tiles.Row{}}
	var rows []tiles.Row
	if a.From, a.To, rows = g.Cut(by, from, to, most); rows != nil {
		a.Rows = rows
	}
	if by == tiles.Files {
		for i := range a.Rows {
			a.Rows[i].Name = strings.ToValidUTF8(a.Rows[i].Name, "�")
		}
	}
	respond(w, http.StatusOK, a)
}

// gridOf finds or makes the grid of a trace, in one of the places for answers that compute.
func (s *server) gridOf(ctx context.Context, path string) (*tiles.Grid, error) {
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
		return s.grids.of(path)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
