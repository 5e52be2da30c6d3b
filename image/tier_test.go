package image

import (
	"errors"
	"strings"
	"testing"

	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/vfs/memfs"
)

// tieredManifest returns one of a version that two nodes have.
func tieredManifest() *Manifest {
	m := testManifest(7)
	m.Format, m.Job, m.Number, m.Mapping, m.ID = formatVersion, testJob, 7, []int{1, 1}, strings.Repeat("0f", 16)
	for rank := range 2 {
		path := []string{"0007/rank-0.img", "0007/rank-1.img"}[rank]
		m.Files = append(m.Files, container.File{Path: path, Kind: container.KindRank, Ranks: []int{rank}, Node: rank,
			Bytes: 5 * container.BlockSize, IndexBlake3: strings.Repeat("7b", 32)})
		m.Ranks = append(m.Ranks, Rank{Rank: rank, Node: rank, File: path})
	}
	m.Tier = &Tier{Dir: "/nvme/{node}", Protect: "xor:2", Domains: []int{0, 1}, Hosts: []string{"a", "b"},
		Parities: []Parity{{Path: "0007/parity-0-0.par", Bytes: 4096, Blake3: strings.Repeat("9c", 32)},
			{Path: "0007/parity-0-1.par", Index: 1, Node: 1, Bytes: 4096}}}
	return m
}

// TestManifestOfTier refuses manifests that say of the nodes what cannot be.
func TestManifestOfTier(t *testing.T) {
	t.Parallel()
	if err := tieredManifest().check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Manifest){
		"no id":            func(m *Manifest) { m.ID = "" },
		"short id":         func(m *Manifest) { m.ID = m.ID[2:] },
		"upper case":       func(m *Manifest) { m.ID = strings.ToUpper(m.ID) },
		"no mapping":       func(m *Manifest) { m.Mapping, m.Tier.Domains, m.Tier.Hosts = nil, nil, nil },
		"no directory":     func(m *Manifest) { m.Tier.Dir = "" },
		"domains":          func(m *Manifest) { m.Tier.Domains = []int{0} },
		"hosts":            func(m *Manifest) { m.Tier.Hosts = append(m.Tier.Hosts, "c") },
		"other directory":  func(m *Manifest) { m.Tier.Parities[0].Path = "0006/parity-0-0.par" },
		"no path":          func(m *Manifest) { m.Tier.Parities[0].Path = "../parity" },
		"file of a rank":   func(m *Manifest) { m.Tier.Parities[0].Path = m.Files[0].Path },
		"twice":            func(m *Manifest) { m.Tier.Parities[0].Path = m.Tier.Parities[1].Path },
		"node":             func(m *Manifest) { m.Tier.Parities[1].Node = 2 },
		"set":              func(m *Manifest) { m.Tier.Parities[1].Set = -1 },
		"index":            func(m *Manifest) { m.Tier.Parities[1].Index = 2 },
		"negative length":  func(m *Manifest) { m.Tier.Parities[1].Bytes = -1 },
		"digest of parity": func(m *Manifest) { m.Tier.Parities[1].Blake3 = "9c" },
	} {
		m := tieredManifest()
		if spoil(m); m.check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestAnnounce makes a checkpoint exist in a directory that nobody has locked, and takes
// it back.
func TestAnnounce(t *testing.T) {
	t.Parallel()
	fsys := memfs.New()
	store, err := CreateStore(fsys, "/node")
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.PlaceJob(testJob, []byte("{}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := durable.Mkdir(fsys, j.NumberDir(7)); err != nil {
		t.Fatal(err)
	}
	if err := j.Announce(tieredManifest()); err != nil {
		t.Fatal(err)
	}
	crash := fsys.CrashClone(memfs.Crash{Mode: memfs.Lost})
	again, err := OpenStore(crash, "/node")
	if err != nil {
		t.Fatal(err)
	}
	if j, err = again.Job(testJob); err != nil {
		t.Fatal(err)
	}
	m, err := j.Manifest(7)
	if err != nil || m.ID != tieredManifest().ID || m.StoredBytes != 10*container.BlockSize {
		t.Fatalf("after a loss of power: %+v, %v", m, err)
	}
	if _, err := again.PlaceJob(testJob, []byte("{1}\n")); !errors.Is(err, ErrJobExists) {
		t.Errorf("a job with another description: %v", err)
	}
	if err := j.Withdraw(7); err != nil {
		t.Fatal(err)
	}
	if _, err := again.PlaceJob(testJob, []byte("{1}\n")); err != nil {
		t.Errorf("a job without checkpoints was not replaced: %v", err)
	}
	if _, err := j.Manifest(7); !errors.Is(err, ErrCheckpointNotFound) {
		t.Errorf("after it was withdrawn: %v", err)
	}
}
