package job

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol/channel"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/zones"
)

// ChannelsRegion is the name of the region with the state of the channels of a
// rank to the ranks of other groups. It is of a zone of its own, so that it can be
// read by itself.
const (
	ChannelsRegion = "channels"
	ChannelsZone   = zones.IOBuffer
)

// SavedChannels is what of a checkpoint concerns the channels of a rank.
type SavedChannels struct {
	*channel.State
	LogFrom uint64
}

// InitialChannels is that at the beginning.
func (s *Resolved) InitialChannels(rank int) (*SavedChannels, error) {
	e, err := channel.New(channel.Config{Kind: s.Log, Rank: rank, Size: s.NP})
	if err != nil {
		return nil, err
	}
	return &SavedChannels{e.Snapshot(), 0}, nil
}

// ReadChannels reads it out of a checkpoint, and checks that the job and the manifest
// say the same.
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

// checkState checks the state of the channels of a rank in a checkpoint.
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

// RankOf finds a rank in a checkpoint.
func RankOf(job *image.Job, m *image.Manifest, rank int) (*image.Rank, error) {
	i := slices.IndexFunc(m.Ranks, func(r image.Rank) bool { return r.Rank == rank })
	if i < 0 {
		return nil, &durable.DamageError{File: ManifestPath(job, m.Number), Reason: fmt.Sprintf("it has no rank %d", rank)}
	}
	return &m.Ranks[i], nil
}

// CheckRegion checks that a rank has stored a region of the size that the manifest
// says, which nobody should allocate before.
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

// VectorsOf returns the vectors of the ranks of a checkpoint.
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

// ManifestPath returns where the manifest of a checkpoint is.
func ManifestPath(job *image.Job, number int) string {
	return filepath.Join(job.Dir(), fmt.Sprintf("%04d", number), "manifest")
}

// PendingRegion is the name of the region that holds the messages which had
// arrived at a rank but were not received yet when it was stopped.
const PendingRegion = "pending"

// LibraryRegion is the name of the region of the binary.
const LibraryRegion = "ckpt"
