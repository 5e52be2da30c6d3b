package container

import (
	"context"
	"time"

	"ckpt/image/exec"
	"ckpt/image/plan"
	"ckpt/zones"
)

// A Joint is what the ranks that write shared or aggregated files have agreed on. All
// of them call WriteJoint with the same, but for Rank.
type Joint struct {
	// Settings say who writes what; the layout is Aggregated or Shared.
	Settings plan.Settings
	// Ranks are all ranks and their nodes, in order, without pieces.
	Ranks []plan.Source
	Rank  int // the caller
	// Paths are those of the files, which exist and are empty: JointFiles says how
	// many.
	Paths   []string
	Network Network
	// Buffers, if not nil, keeps the collective buffers for the next checkpoint.
	Buffers *exec.Buffers
}

// A Network connects the ranks of a Joint while they write.
type Network interface {
	// Puller fetches bytes from what the other ranks serve.
	exec.Puller
	// Serve answers the pulls of others from piece, as of the next Exchange. Piece
	// may be called by several goroutines, and may wait.
	Serve(piece func(ctx context.Context, key int) ([]byte, error))
	// Exchange hands over some bytes, and returns when all ranks have: with those
	// of each rank, in the order of Joint.Ranks. They belong to the network.
	Exchange(ctx context.Context, mine []byte) ([][]byte, error)
}

// JointInfo describes what a rank has written together with others.
type JointInfo struct {
	File string // the file that holds the regions of this rank
	// Closed are the files that this rank has completed. Their Zones are empty.
	Closed []FileInfo
	Zones  zones.Sizes // of the regions as the program asked for them
	Rounds int         // how many times the ranks exchanged sizes
	Stats  exec.Stats
	// ManagementTime is what was spent on agreeing, on planning and on indexes,
	// StorageTime the rest.
	ManagementTime, StorageTime time.Duration
}

// JointFiles returns how many files the ranks write. An error is about the
// settings, a *plan.SettingError where one of them is to blame.
func JointFiles(settings plan.Settings, ranks []plan.Source) (int, error) {
	_, files, err := jointSettings(settings, ranks)
	return files, err
}

// jointSettings returns the settings as they take effect.
func jointSettings(settings plan.Settings, ranks []plan.Source) (plan.Settings, int, error) {
	settings.Header = BlockSize
	p, err := plan.New(ranks, settings)
	if err != nil {
		return settings, 0, err
	}
	return p.Settings, len(p.Files), nil
}

// Keys of what a rank serves besides its pieces, whose keys count from 0.
const (
	recordsKey = -1 // its part of the index
	turnKey    = -2 // a byte, when it has written its part of the round
)
