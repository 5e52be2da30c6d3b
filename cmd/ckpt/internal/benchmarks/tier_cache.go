package benchmarks

import (
	"context"
	"fmt"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/nodes/timing"
)

// tierWorkload is one of package timing that reaches one file.
type tierWorkload interface {
	Run(ctx context.Context, s timing.Setup) (*timing.Result, error)
}

// both runs a workload in the cache, and on plain MPI I/O.
func (m *tierModel) both(ctx context.Context, w tierWorkload) (cached, plain *timing.Result, err error) {
	s := m.setup
	if plain, err = w.Run(ctx, s); err != nil {
		return nil, nil, err
	}
	s.Cached = true
	cached, err = w.Run(ctx, s)
	return cached, plain, err
}

// blockLine is a size of requests.
type blockLine struct {
	Bytes       int64   `json:"request_bytes"`
	CachedRead  float64 `json:"cached_read_bytes_per_s"`
	PlainRead   float64 `json:"mpi_io_read_bytes_per_s"`
	CachedWrite float64 `json:"cached_write_bytes_per_s"`
	PlainWrite  float64 `json:"mpi_io_write_bytes_per_s"`
}

// blockRequests are enough for the rates not to depend on them.
const blockRequests = 20_000

// blocks varies the size of requests.
func (m *tierModel) blocks(ctx context.Context) error {
	m.table.header = []string{"|block", "|read MB/s, cache", "|MPI I/O", "|write MB/s, cache", "|MPI I/O"}
	m.plot.x, m.plot.y, m.plot.wide = "block [bytes]", "MB/s", true
	var lines []blockLine
	for bytes := int64(256); bytes <= 64<<10; bytes *= 2 {
		w := timing.Blocks{Requests: max(blockRequests, int64(m.ranks)), Bytes: bytes}
		read, plainRead, err := m.both(ctx, w)
		if err != nil {
			return err
		}
		w.Write = true
		write, plainWrite, err := m.both(ctx, w)
		if err != nil {
			return err
		}
		line := blockLine{bytes, read.Rate, plainRead.Rate, write.Rate, plainWrite.Rate}
		lines = append(lines, line)
		row := []string{ui.Size(bytes)}
		for i, rate := range []float64{line.CachedRead, line.PlainRead, line.CachedWrite, line.PlainWrite} {
			row = append(row, fmt.Sprintf("%.1f", rate/1e6))
			name := []string{"cache, reading", "MPI I/O, reading", "cache, writing", "MPI I/O, writing"}[i]
			m.plot.add(name, float64(bytes), rate/1e6)
		}
		m.table.row(row...)
	}
	m.lines = lines
	return nil
}

// walkLine is a way to reach the file of a random walk.
type walkLine struct {
	Access    string  `json:"access_way"`
	Open      float64 `json:"open_close_s"`
	Iteration float64 `json:"mean_iteration_s"`
	Sync      float64 `json:"mean_sync_s"`
	Run       float64 `json:"run_s"`
}

// walkIterations are run; a sync follows half of them.
const walkIterations = 200

// walk compares MPI I/O with the cache, under each level of protection.
func (m *tierModel) walk(ctx context.Context) error {
	m.table.header = []string{"file", "|opening and closing", "|an iteration", "|a sync", "|" + fmt.Sprint(walkIterations) + " iterations"}
	m.plot.x, m.plot.y = "iterations", "seconds"
	var lines []walkLine
	for _, way := range []struct {
		name   string
		cached bool
		levels timing.Levels
	}{
		{"MPI I/O", false, timing.Levels{}},
		{"cache", true, timing.Levels{}},
		{"with records", true, timing.Levels{Records: true}},
		{"with a journal", true, timing.Levels{Replicas: 1}},
		{"with versions", true, timing.Levels{Versions: true}},
		{"with all three", true, timing.Levels{Records: true, Replicas: 1, Versions: true}},
	} {
		s := m.setup
		if s.Cached, s.Levels = way.cached, way.levels; s.Nodes == 1 {
			s.Levels.Replicas = 0
		}
		w := timing.Walk{Iterations: walkIterations, Size: m.bytes * int64(m.ranks), Bytes: 512, Steps: 1_000_000, SyncEvery: walkIterations / 2}
		r, err := w.Run(ctx, s)
		if err != nil {
			return err
		}
		line := walkLine{way.name, r.Open + r.Close, (r.Work - r.Sync) / walkIterations, r.Sync / float64(r.Syncs), r.Seconds}
		lines = append(lines, line)
		m.table.row(line.Access, ui.Seconds(line.Open), ui.Seconds(line.Iteration), ui.Seconds(line.Sync), ui.Seconds(line.Run))
	}
	m.lines = lines
	m.breakEven(lines[0], lines[1])
	return nil
}

// breakEven says from how many iterations on the cache is faster, and draws both times.
func (m *tierModel) breakEven(plain, cached walkLine) {
	gain := plain.Iteration - cached.Iteration
	if gain <= 0 {
		m.note = "the cache is never faster: its iterations take longer"
		return
	}
	even := (cached.Open - plain.Open) / gain
	m.note = fmt.Sprintf("the cache is faster from %.0f iterations on", even)
	for i := range 11 {
		n := even * float64(i) / 5
		m.plot.add("MPI I/O", n, plain.Open+n*plain.Iteration)
		m.plot.add("cache", n, cached.Open+n*cached.Iteration)
	}
}

// bufferLine is a size of the buffer of a filter.
type bufferLine struct {
	Bytes  int64   `json:"read_buffer_bytes"`
	Cached float64 `json:"cached_s"`
	Plain  float64 `json:"mpi_io_s"`
}

// images varies the buffer of a filter. The image has rows as long as one of 500 million
// pixels, but fewer.
func (m *tierModel) images(ctx context.Context) error {
	m.table.header = []string{"|buffer", "|cache", "|MPI I/O"}
	m.plot.x, m.plot.y, m.plot.wide = "buffer [bytes]", "seconds", true
	var lines []bufferLine
	for buffer := int64(4 << 10); buffer <= 1<<20; buffer *= 2 {
		w := timing.Images{Width: 22_361, Height: max(1_118, int64(m.ranks)), Passes: 1, Buffer: buffer}
		cached, plain, err := m.both(ctx, w)
		if err != nil {
			return err
		}
		lines = append(lines, bufferLine{buffer, cached.Seconds, plain.Seconds})
		m.table.row(ui.Size(buffer), ui.Seconds(cached.Seconds), ui.Seconds(plain.Seconds))
		m.plot.add("cache", float64(buffer), cached.Seconds)
		m.plot.add("MPI I/O", float64(buffer), plain.Seconds)
	}
	m.lines = lines
	return nil
}
