package nodes

import (
	"context"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/vfs/memfs"
)

// TestHostileManifests has nodes hold manifests whose fields were changed, with the right
// digest. They are refused, or lead to files that are checked: nothing panics, and no file
// passes for one of the version that is not.
func TestHostileManifests(t *testing.T) {
	ctx := context.Background()
	var disks [][]*memfs.FS
	var versions []*image.Manifest
	protections := []string{"partner", "xor:3", "rs:1+2"}
	for _, protection := range protections {
		w := newWorld(t, protection, 3, 1)
		versions = append(versions, w.version(t, 1))
		var list []*memfs.FS
		for _, d := range w.disks {
			list = append(list, d.(*memfs.FS))
		}
		disks = append(disks, list)
	}
	rapid.Check(t, func(r *rapid.T) {
		i := rapid.IntRange(0, len(protections)-1).Draw(r, "protection")
		w := newWorld(t, protections[i], 3, 1)
		for node, d := range disks[i] {
			w.disks[node] = d.CrashClone(memfs.Crash{Mode: memfs.Kept})
		}
		if err := w.open(); err != nil {
			r.Fatal(err)
		}
		m := changed(r, versions[i])
		if lost := rapid.IntRange(-1, 2).Draw(r, "lost"); lost >= 0 {
			if err := durable.Remove(w.disks[lost], w.file(lost, 1, lost)); err != nil {
				r.Fatal(err)
			}
		}
		taken := 0
		for node := range w.disks {
			j, err := w.tier.Job(node)
			if err != nil {
				r.Fatal(err)
			}
			again := *m
			if j.Announce(&again) == nil {
				taken++
			}
		}
		if taken == 0 {
			return
		}
		found, _ := w.tier.Versions(ctx)
		for _, v := range found {
			for rank := range w.nodeOf {
				if _, err := w.tier.Recover(ctx, v.Manifest, rank); err != nil && !refused(err) {
					r.Fatalf("rank %d: %v", rank, err)
				}
			}
			if _, err := w.tier.Scrub(ctx, v.Manifest, nil); err != nil {
				r.Fatal(err)
			}
		}
	})
}

// refused reports whether an error says that a version is not what it should be.
func refused(err error) bool {
	damage := (*durable.DamageError)(nil)
	return errors.Is(err, ErrNotHere) || errors.Is(err, image.ErrRankNotFound) || errors.As(err, &damage)
}

// changed returns a manifest with some of its fields changed.
func changed(r *rapid.T, of *image.Manifest) *image.Manifest {
	m := *of
	tier := *of.Tier
	m.Tier, m.Files, m.Ranks, m.Mapping = &tier, slices.Clone(of.Files), slices.Clone(of.Ranks), slices.Clone(of.Mapping)
	tier.Parities = slices.Clone(of.Tier.Parities)
	number := rapid.SampledFrom([]int{-1, 0, 1, 2, 3, 99, 1 << 20})
	text := rapid.SampledFrom([]string{"", "none", "partner:2", "partner:64", "xor:2", "xor:128", "rs:2+1", "rs:100+28", "zip", "../x",
		RankFile(1, 0), RankFile(1, 2), ParityFile(1, 0, 0), "0001/manifest", "0000/rank-0.img"})
	for range rapid.IntRange(1, 3).Draw(r, "changes") {
		f := &m.Files[rapid.IntRange(0, len(m.Files)-1).Draw(r, "file")]
		rank := &m.Ranks[rapid.IntRange(0, len(m.Ranks)-1).Draw(r, "rank")]
		p := &image.Parity{}
		if len(tier.Parities) > 0 {
			p = &tier.Parities[rapid.IntRange(0, len(tier.Parities)-1).Draw(r, "parity")]
		}
		switch rapid.IntRange(0, 15).Draw(r, "field") {
		case 0:
			tier.Protect = text.Draw(r, "protect")
		case 1:
			tier.Domains = rapid.SliceOfN(number, 0, 4).Draw(r, "domains")
		case 2:
			p.Set = number.Draw(r, "set")
		case 3:
			p.Index = number.Draw(r, "index")
		case 4:
			p.Node = number.Draw(r, "node")
		case 5:
			p.Path = text.Draw(r, "path")
		case 6:
			p.Bytes = int64(number.Draw(r, "bytes"))
		case 7:
			p.Blake3 = ""
		case 8:
			f.Path = text.Draw(r, "path")
		case 9:
			f.Bytes = int64(number.Draw(r, "bytes")) * container.BlockSize
		case 10:
			f.Ranks = rapid.SliceOfN(number, 0, 2).Draw(r, "ranks")
		case 11:
			f.Node = number.Draw(r, "node")
		case 12:
			rank.Node, m.Mapping = number.Draw(r, "node"), nil
		case 13:
			rank.File = text.Draw(r, "path")
		case 14:
			m.Mapping = rapid.SliceOfN(number, 0, 4).Draw(r, "mapping")
		case 15:
			m.NP = number.Draw(r, "np")
		}
	}
	return &m
}
