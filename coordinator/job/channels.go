package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/msglog"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/zones"
)

// ChannelsRegion is the region with the state of a rank's channels to other groups. It has a zone
// of its own, so that it can be read by itself.
const (
	ChannelsRegion = "channels"
	ChannelsZone   = zones.IOBuffer
)

// SavedChannels is what a checkpoint holds of the channels of a rank.
type SavedChannels struct {
	*channel.State
	LogFrom uint64
}

// InitialChannels returns it for the beginning of a job.
func (s *Resolved) InitialChannels(rank int) (*SavedChannels, error) {
	e, err := channel.New(channel.Config{Kind: s.Log, Rank: rank, Size: s.NP})
	if err != nil {
		return nil, err
	}
	state := e.Snapshot()
	if s.Recut != nil && rank == 0 {
		state.Vector.Outputs = s.Recut.Outputs
	}
	return &SavedChannels{state, 0}, nil
}

// ReadChannels reads it from a checkpoint, and checks that job and manifest agree.
func ReadChannels(ctx context.Context, job *image.Job, spec *Resolved, m *image.Manifest, rank int) (*SavedChannels, error) {
	r, err := RankOf(job, m, rank)
	if err != nil {
		return nil, err
	}
	if err := CheckRegion(job, m, r, ChannelsRegion, r.Channels); err != nil {
		return nil, err
	}
	mem := mpi.NewMemory()
	defer mem.Close()
	b, err := mem.Alloc(ChannelsRegion, ChannelsZone, zones.Bytes, r.Channels)
	if err != nil {
		return nil, err
	}
	if err := job.Load(ctx, m, r.File, rank, mem.Regions(), container.LoadOptions{}); err != nil {
		return nil, err
	}
	st, err := channel.Decode(b)
	if err != nil {
		return nil, &durable.DamageError{File: filepath.Join(job.Dir(), r.File), Reason: fmt.Sprintf("rank %d: %v", rank, err)}
	}
	return &SavedChannels{st, r.LogFrom}, spec.checkState(job, m, r, st)
}

func (s *Resolved) checkState(job *image.Job, m *image.Manifest, r *image.Rank, st *channel.State) error {
	if st.Kind != s.Log {
		return &durable.DamageError{File: job.SpecPath(),
			Reason: fmt.Sprintf("it says that messages are logged %v, and checkpoint %d was taken with %v", s.Log, m.Number, st.Kind)}
	}
	v, err := vectorOf(r)
	if err != nil || st.Rank != r.Rank || st.Size != s.NP || !v.Equal(&st.Vector) {
		return &durable.DamageError{File: ManifestPath(job, m.Number), Reason: fmt.Sprintf("the vector of rank %d is not that in %s", r.Rank, r.File)}
	}
	return nil
}

func RankOf(job *image.Job, m *image.Manifest, rank int) (*image.Rank, error) {
	i := slices.IndexFunc(m.Ranks, func(r image.Rank) bool { return r.Rank == rank })
	if i < 0 {
		return nil, &durable.DamageError{File: ManifestPath(job, m.Number), Reason: fmt.Sprintf("it has no rank %d", rank)}
	}
	return &m.Ranks[i], nil
}

// CheckRegion checks that a rank has stored as many bytes of a region as the manifest says,
// before memory is allocated for them.
func CheckRegion(job *image.Job, m *image.Manifest, r *image.Rank, name string, bytes int64) error {
	if r.File == "" && bytes == 0 {
		return nil
	}
	have, err := job.RegionBytes(m, r.File, r.Rank, name)
	if err == nil && have != bytes {
		err = &durable.DamageError{File: ManifestPath(job, m.Number),
			Reason: fmt.Sprintf("rank %d has %d bytes of region %q in it, and %d in %s", r.Rank, bytes, name, have, r.File)}
	}
	return err
}

func VectorsOf(m *image.Manifest) ([]channel.Vector, error) {
	var list []channel.Vector
	for i := range m.Ranks {
		v, err := vectorOf(&m.Ranks[i])
		if err != nil {
			return nil, fmt.Errorf("checkpoint %d: %w", m.Number, err)
		}
		list = append(list, v)
	}
	return list, nil
}

func vectorOf(r *image.Rank) (v channel.Vector, err error) {
	if len(r.Vector) == 0 {
		return v, fmt.Errorf("rank %d has no vector", r.Rank)
	}
	if err := json.Unmarshal(r.Vector, &v); err != nil {
		return v, fmt.Errorf("vector of rank %d: %w", r.Rank, err)
	}
	return v, nil
}

func ManifestPath(job *image.Job, number int) string {
	return filepath.Join(job.Dir(), fmt.Sprintf("%04d", number), "manifest")
}

// PendingRegion is the region of messages that had arrived and were not received when a rank was
// stopped.
const PendingRegion = "pending"

// LibraryRegion is the region of the binary.
const LibraryRegion = "ckpt"

// LogsDir is the directory of the message logs of a job, LogDir the one of a rank.
func LogsDir(job *image.Job) string { return filepath.Join(job.Dir(), "logs") }

func LogDir(job *image.Job, rank int) string {
	return filepath.Join(LogsDir(job), fmt.Sprintf("rank-%d", rank))
}

func LogID(job *image.Job, rank int) (msglog.ID, error) {
	digest, err := job.Digest()
	return msglog.ID{Job: job.Name(), Rank: rank, Digest: digest}, err
}

func OpenLog(job *image.Job, rank int) (*msglog.Log, error) {
	id, err := LogID(job, rank)
	if err != nil {
		return nil, err
	}
	log, _, err := msglog.Open(job.FS(), LogDir(job, rank), id, msglog.Options{})
	return log, err
}

// readLog opens the message log of a rank from a frame on.
func readLog(job *image.Job, rank int, from uint64) (*msglog.Reader, msglog.Recovery, error) {
	id, err := LogID(job, rank)
	if err != nil {
		return nil, msglog.Recovery{}, err
	}
	return msglog.OpenReader(job.FS(), LogDir(job, rank), id, from)
}

// EmptyLogs removes what an earlier history has left in message logs.
func EmptyLogs(job *image.Job, ranks []int) error {
	for _, rank := range ranks {
		dir := LogDir(job, rank)
		files, err := job.FS().ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, f := range files {
			if err := job.FS().Remove(filepath.Join(dir, f.Name())); err != nil {
				return err
			}
		}
		if err := job.FS().SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// Logged returns, by rank and checkpoint, the states in the message logs of a job, for
// supervisor.Config.Logged.
func Logged(ctx context.Context, from Source, job *image.Job, spec *Resolved, cfg supervisor.Config) ([]map[int][]channel.Vector, error) {
	all := make([]map[int][]channel.Vector, spec.NP)
	for group, ranks := range cfg.Groups {
		var numbers []int
		if len(cfg.Base) == 0 || cfg.Base[group] == 0 {
			numbers = append(numbers, 0)
		}
		for _, k := range cfg.Known {
			if k.Group == group {
				numbers = append(numbers, k.Number)
			}
		}
		for _, rank := range ranks {
			all[rank] = make(map[int][]channel.Vector)
			for _, n := range numbers {
				states, err := LoggedStates(ctx, from, job, spec, rank, n)
				if err != nil {
					return nil, fmt.Errorf("message log of rank %d: %w", rank, err)
				}
				all[rank][n] = states
			}
		}
	}
	return all, nil
}

// LoggedStates returns the states that a rank can be put into by replaying its log from
// checkpoint number, 0 the beginning.
func LoggedStates(ctx context.Context, from Source, job *image.Job, spec *Resolved, rank, number int) ([]channel.Vector, error) {
	saved, err := spec.InitialChannels(rank)
	if number > 0 && err == nil {
		var m *image.Manifest
		var at *image.Job
		if at, m, err = from.Reads(number); err == nil {
			saved, err = ReadChannels(ctx, at, spec, m, rank)
		}
	}
	if err != nil {
		return nil, err
	}
	dir := LogDir(job, rank)
	r, _, err := readLog(job, rank, saved.LogFrom)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it never logged anything
	}
	if err != nil {
		return nil, err
	}
	states, err := saved.Logged(r.Next)
	return states, errors.Join(AsDamage(dir, err), r.Close())
}

// CheckLogs reads the message logs of a group from the newest of its checkpoints on.
func CheckLogs(from Source, job *image.Job, spec *Resolved, group int, found []*image.Manifest) error {
	for _, rank := range spec.Groups[group] {
		if err := checkLog(from, job, spec, rank, found); err != nil {
			return err
		}
	}
	return nil
}

// checkLog reads the log of one rank, and replays it.
func checkLog(from Source, job *image.Job, spec *Resolved, rank int, found []*image.Manifest) error {
	saved, err := spec.InitialChannels(rank)
	if n := len(found); n > 0 && err == nil {
		var at *image.Job
		if at, _, err = from.Reads(found[n-1].Number); err == nil {
			saved, err = ReadChannels(context.Background(), at, spec, found[n-1], rank)
		}
	}
	if err != nil {
		return err
	}
	dir, first := LogDir(job, rank), saved.LogFrom
	r, rec, err := readLog(job, rank, first)
	if errors.Is(err, fs.ErrNotExist) && first <= 1 {
		return nil // it never logged anything
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &MissingError{What: fmt.Sprintf("%s, the message log of rank %d", dir, rank)}
	}
	if err != nil {
		return fmt.Errorf("message log of rank %d: %w", rank, err)
	}
	if rec.Next < first {
		err = &durable.DamageError{File: dir,
			Reason: fmt.Sprintf("it ends before frame %d, and the checkpoint of rank %d was taken at frame %d", rec.Next, rank, first)}
		return errors.Join(err, r.Close())
	}
	cfg := channel.Config{Kind: saved.Kind, Rank: rank, Size: spec.NP, Group: spec.Groups[spec.GroupOf[rank]]}
	_, _, err = channel.Restore(cfg, saved.State, withoutData(r.Next), nil)
	if err = errors.Join(AsDamage(dir, err), r.Close()); err != nil {
		return fmt.Errorf("message log of rank %d: %w", rank, err)
	}
	return nil
}

// AsDamage turns what no rank writes into the error of a damaged log.
func AsDamage(dir string, err error) error {
	if errors.Is(err, channel.ErrCorrupt) || errors.Is(err, mpi.ErrCorrupt) {
		return &durable.DamageError{File: dir, Reason: err.Error()}
	}
	return err
}

// withoutData takes the messages out of frames: a log may be larger than memory.
func withoutData(next func() (channel.Frame, error)) func() (channel.Frame, error) {
	return func() (channel.Frame, error) {
		f, err := next()
		if f.Kind != channel.Cut {
			f.Message.Data = nil
		}
		return f, err
	}
}
